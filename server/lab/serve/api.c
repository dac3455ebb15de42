/*
 * The requests of the laboratory's page, as JSON:
 *
 *     GET    /api/lab             the locks of the stage, the experiments, and the
 *                                 stops of the path
 *     POST   /api/lab/games       a game begins: {"lock", "buyers", "stock", "deduct",
 *                                 "schedule", "language"}; {"experiment", "language"},
 *                                 with a "lock" in place of its own, or "fix": true; or
 *                                 {"stop", "choice", "language"}; in place of "lock" a
 *                                 lock's "text", but not in an experiment
 *     POST   /api/lab/games/ID    {"command"}: a line of server/lab/replay/game.h
 *     DELETE /api/lab/games/ID    it ends; a run that is "done" has ended
 *
 *     POST   /api/lab/searches    a game that a search plays, {"lock" or "text", ...}: a
 *                                 "command" asks how far it is, until it is "done"
 *     POST   /api/lab/runs        an experiment of load, {"experiment", "lock", "fix",
 *                                 "language"}: a "command" asks how far it is, until it
 *                                 is "done" (server/lab/load/load.h)
 *     POST   /api/lab/judge       {"stop", "choice", "language"}: what path_judge() says
 *
 * A game answers what game.h says, and its "id". What was wrong is in "error". A judge
 * is a game that says one thing, and takes a game's place meanwhile; they take turns.
 * 429: there are as many runs, judges or hints as there may be; 503: games, or searches.
 */
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/textbook/textbook.h"
#include "server/lab/base/expected.h"
#include "server/lab/experiments/experiment.h"
#include "server/lab/experiments/reader.h"
#include "server/lab/load/load.h"
#include "server/lab/path/path.h"
#include "server/lab/serve/lab_serve.h"
#include "server/lab/world/world.h"

#define API      "/api/lab"
#define GAMES    API "/games"
#define JUDGE    API "/judge"
#define RUNS     API "/runs"
#define SEARCHES API "/searches"

enum {
    ARGS_MAX = 24,
    ARG_BYTES = 32,
    JUDGES_MAX = 4, /* one that judges, and those that wait for their turn */
    HINTS_MAX = 4,  /* that are searched for */
};

/* Takes VALUE. */
static struct api_reply reply(unsigned status, json_t *value)
{
    /* The text is a copy: VALUE may have texts that are somebody else's. */
    struct api_reply reply = {.status = status,
                              .text = json_dumps(value, JSON_COMPACT)};

    json_decref(value);
    return reply;
}

static struct api_reply refuse(unsigned status, const char *error)
{
    return reply(status, json_pack("{s:o}", "error", draw_json_text(error, 0)));
}

/* ---- what there is ------------------------------------------------------ */

/* ENGLISH, which chinese.txt has, in both languages. */
static json_t *both(const char *english)
{
    return json_pack("{s:s, s:o}", "en", english, "zh",
                     draw_json_text(english, DRAW_CHINESE));
}

static json_t *locks(void)
{
    json_t *list = json_array(), *texts;
    const struct dlock_strategy_info *info;
    struct fail error;

    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        struct stage_scene scene = STAGE_SCENE(info->name);
        const char *text = dlock_textbook_text(info->name);
        char *zh = text ? chinese_lock(text) : NULL;

        /* The Chinese is made from the English text with each answer: there are few. */
        texts = zh ? json_pack("{s:s, s:s}", "en", text, "zh", zh) : NULL;
        if (stage_can_play(&scene, &error))
            (void)json_array_append_new(
                list, json_pack("{s:s, s:o, s:O?, s:b, s:b}", "name",
                                info->name, "claim", both(info->claim), "text",
                                texts, "in_one_redis",
                                world_nodes_for(info->name) == 1, "renewed",
                                info->capabilities & DLOCK_CAP_RENEW ? 1 : 0));
        json_decref(texts);
        free(zh);
    }
    return list;
}

static json_t *tell_experiments(void)
{
    json_t *list = json_array();
    const struct experiment *each;

    for (size_t i = 0; (each = reader_at(&experiments, i)) != NULL; i++) {
        json_t *plays = json_array(); /* the bug, and the fix if there is one */

        for (int j = 0; j < EXPERIMENT_REST && each->plays[j].scene.lock; j++)
            (void)json_array_append_new(
                plays,
                json_pack("{s:s, s:o, s:s?}", "lock", each->plays[j].scene.lock,
                          "goal",
                          draw_json_faults(stage_goals(each->plays[j].faults)),
                          "schedule", each->plays[j].schedule));
        (void)json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "id", each->entry.id,
                      "name", each->entry.name, "kind", each->kind->name,
                      "plays", plays, "en",
                      reader_json(&experiments, &each->entry, 0), "zh",
                      reader_json(&experiments, &each->entry, DRAW_CHINESE)));
    }
    return list;
}

static json_t *tell_stops(void)
{
    json_t *list = json_array();
    const struct path_stop *each;

    for (size_t i = 0; (each = reader_at(&stops, i)) != NULL; i++) {
        const struct path_choice *choice = each->choices;
        json_t *choices = json_array();

        for (; choice < each->choices + PATH_CHOICES_MAX && choice->scene.lock;
             choice++)
            (void)json_array_append_new(
                choices,
                json_pack("{s:s, s:s}", "en", choice->text[EXPERIMENT_EN], "zh",
                          choice->text[EXPERIMENT_ZH]));
        (void)json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:s, s:s, s:s?, s:i, s:o, s:o, s:o, s:o}",
                      "id", each->entry.id, "name", each->entry.name, "lock",
                      each->scene.lock, "code", each->code, "schedule",
                      each->shortest, "fewest", (int)path_fewest(each), "goal",
                      draw_json_faults(stage_goals(each->faults)), "choices",
                      choices, "en", reader_json(&stops, &each->entry, 0), "zh",
                      reader_json(&stops, &each->entry, DRAW_CHINESE)));
    }
    return list;
}

static json_t *faults(void)
{
    json_t *all = json_object();

    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++) {
        const char *goal = stage_fault_goal(i);
        json_t *fault = both(stage_fault_text(i));

        if (goal)
            (void)json_object_set_new(fault, "goal", both(goal));
        (void)json_object_set_new(all, stage_fault_word(i), fault);
    }
    return all;
}

/* ---- games -------------------------------------------------------------- */

#define OF_STOP       "stop choice language"
#define OF_EXPERIMENT "experiment lock fix language"
#define OF_LOCK       "lock text buyers stock deduct language"

/* The beginnings of games: a wish at PATH that has SUBJECT, or a text in place of a lock,
 * may have these MEMBERS, and is played by this command. */
static const struct beginning {
    const char *path, *subject, *members, *command[5];
} beginnings[] = {
    {GAMES, "stop", OF_STOP, {"path", "--json"}},
    {GAMES, "experiment", OF_EXPERIMENT, {"run", "-i", "--json"}},
    {GAMES, "lock", OF_LOCK " schedule", {"replay", "-i", "--json"}},
    {SEARCHES, "lock", OF_LOCK, {"explore", "-i", "--json", "--seconds=60"}},
    {RUNS, "experiment", OF_EXPERIMENT, {"run", "-i", "--json"}},
    {JUDGE, "stop", OF_STOP, {"path", "--json", "--judge"}},
};

enum { BEGINNINGS_N = sizeof(beginnings) / sizeof(beginnings[0]) };

/* Its words are these texts, and those of the wish. */
struct args {
    const char *argv[ARGS_MAX + 1];
    char texts[ARGS_MAX][ARG_BYTES];
    size_t n;
    struct fail error;
};

static const char *text_in(const json_t *wish, const char *name)
{
    return json_string_value(json_object_get(wish, name));
}

/* The member NAME, as a flag unless it is a word behind the flags. False: it makes no sense.
 * The command knows more of that; but a lock has to be one of ours, because a file of this
 * machine could have its name. */
static bool add_member(struct args *args, const struct beginning *how,
                       const char *name, const json_t *value)
{
    const char *text = json_string_value(value);
    /* A flag and its number have a text each; a member that is no number leaves the
     * second one empty. */
    char *flag = args->texts[args->n], *number = args->texts[args->n + 1];

    if (!expected_has_word(how->members, name))
        return fail_with(&args->error,
                         "there is no \"%.40s\" here; there is: %s", name,
                         how->members);
    /* A type is checked here, and what it says by the command, which says it better. */
    if (strcmp(name, "fix") == 0
            ? !json_is_boolean(value)
            : !text && !(expected_has_word("buyers stock", name) &&
                         json_is_number(value)))
        return fail_with(&args->error, "\"%s\" is of a wrong type", name);
    /* The name must be known here: a path would have the command read a file of
     * this machine. */
    if (strcmp(name, "lock") == 0 && !dlock_strategy_find(text))
        return fail_with(&args->error, "there is no lock '%.40s'", text);
    if (text && strcmp(name, "language") == 0 && strcmp(text, "zh") != 0)
        return strcmp(text, "en") == 0 ||
               fail_with(&args->error, "\"language\" is en or zh");
    /* The subject comes behind the flags, with a text in its place; a false "fix"
     * is none. */
    if (strcmp(name, how->subject) == 0 || json_is_false(value) ||
        expected_has_word("text schedule", name))
        return true;
    args->argv[args->n++] = flag;
    if (strcmp(name, "language") == 0)
        name = "zh";
    else if (!json_is_true(value))
        args->argv[args->n++] = text ? text : number;
    (void)snprintf(flag, ARG_BYTES, "--%s", name);
    if (json_is_number(value))
        /* The text of a number is JSON's own: what is no whole number the
         * command refuses. */
        number[json_dumpb(value, number, ARG_BYTES - 1, JSON_ENCODE_ANY)] = 0;
    return true;
}

/* The command that plays WISH at PATH. False: there is none. */
static bool read_wish(const json_t *wish, const char *path, struct args *args)
{
    const struct beginning *how = beginnings;
    const char *name, *text = text_in(wish, "text");
    json_t *value;

    (void)fail_with(&args->error, "it wants one of these:");
    for (; how < beginnings + BEGINNINGS_N; how++) {
        if (strcmp(how->path, path) != 0)
            continue;
        /* A lock's text stands in for its name. */
        if (json_object_get(wish, how->subject) ||
            (text && strcmp(how->subject, "lock") == 0))
            break;
        (void)fail_more(&args->error, " \"%s\"", how->subject);
    }
    if (how == beginnings + BEGINNINGS_N)
        return false;
    args->argv[args->n++] = "stockade-lab";
    for (const char *const *word = how->command; *word; word++)
        args->argv[args->n++] = *word;
    json_object_foreach((json_t *)wish, name, value)
    {
        if (!add_member(args, how, name, value))
            return false;
    }
    /* Behind the two dashes no word is a flag, whatever a visitor wrote. */
    args->argv[args->n++] = "--";
    args->argv[args->n++] = text ? VISITORS_LOCK : text_in(wish, how->subject);
    args->argv[args->n] = text_in(wish, "schedule");
    return true;
}

/* ANSWER is taken: a JSON object, which gets the game's ID; or a complaint. */
static struct api_reply tell(unsigned status, char *answer, const char *id)
{
    static const char complaint[] = "stockade: ";
    bool complains = answer && strncmp(answer, complaint, 10) == 0;
    json_t *value = answer ? json_loads(answer, 0, NULL) : NULL;
    struct api_reply told;

    /* A command that cannot be run complains on its standard error, which is the
     * same line. */
    if (value && status == VISITORS_OK) {
        (void)json_object_set_new(value, "id", json_string(id));
        told = reply(200, json_incref(value));
    } else if (json_object_get(value, "error")) {
        told = reply(422, json_incref(value));
    } else if (value || complains) {
        told = refuse(422, complains ? answer + strlen(complaint)
                                     : "this is not played here");
    } else if (status == VISITORS_FULL) {
        told = refuse(status, "all games are taken: somebody has to end one");
    } else if (status == VISITORS_BUSY) {
        told = refuse(status, "too many ask for this at once: wait a moment");
    } else if (status == VISITORS_NONE) {
        told = refuse(status, "this game is over: begin a new one");
    } else {
        told = refuse(500, "the game has ended by an error of its own");
    }
    json_decref(value);
    free(answer);
    return told;
}

/* One more of at most MOST; false: there are as many. To be given back by N--. */
static bool enter(atomic_uint *n, unsigned most)
{
    if (atomic_fetch_add(n, 1) < most)
        return true;
    (*n)--;
    return false;
}

bool api_has_left(int peer)
{
    struct pollfd poller = {.fd = peer, .events = POLLRDHUP};

    return poll(&poller, 1, 0) > 0;
}

static unsigned ask(const char *id, const char *command, char **answer)
{
    static atomic_uint hints;
    bool is_hint = strcmp(command, "hint") == 0;
    unsigned status;

    *answer = NULL;
    /* A hint wants all processors, as a search does. */
    if (is_hint && !enter(&hints, HINTS_MAX))
        return VISITORS_BUSY;
    status = visitors_ask(id, command, answer);
    hints -= is_hint;
    return status;
}

/* One judge at a time, because each wants all processors for its few seconds; and it ends
 * when it has said its one thing. */
static unsigned judge(const struct args *args, const char *text, int peer,
                      char id[VISITORS_ID_BYTES], char **answer)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    static atomic_uint judges;
    unsigned status = VISITORS_BUSY;

    *answer = NULL;
    if (!enter(&judges, JUDGES_MAX))
        return status;
    /* The turn is kept while it judges: two judges would halve each other's time, and
     * call it up too soon. */
    (void)pthread_mutex_lock(&turn);
    if (!api_has_left(peer))
        status = visitors_begin(VISITORS_GAME, (char *const *)args->argv, text,
                                id, answer);
    if (status == VISITORS_OK)
        (void)visitors_end(id);
    (void)pthread_mutex_unlock(&turn);
    judges--;
    return status;
}

static struct api_reply begin(const json_t *wish, const char *path, int peer)
{
    struct args args = {.n = 0};
    const char *text = text_in(wish, "text");
    enum visitors_kind kind = strcmp(path, RUNS) == 0       ? VISITORS_RUN
                              : strcmp(path, SEARCHES) == 0 ? VISITORS_SEARCH
                                                            : VISITORS_GAME;
    bool judges = strcmp(path, JUDGE) == 0;
    char id[VISITORS_ID_BYTES], *answer;
    struct api_reply told;
    unsigned status;

    if (!read_wish(wish, path, &args))
        return refuse(422, args.error.text);
    status = judges ? judge(&args, text, peer, id, &answer)
                    : visitors_begin(kind, (char *const *)args.argv, text, id,
                                     &answer);
    told = tell(status, answer, id);
    /* A judge is over: the page has nothing to end. */
    if (status == VISITORS_OK && !judges)
        memcpy(told.begun, id, sizeof(id));
    return told;
}

struct api_reply api_call(const char *method, const char *path,
                          const char *body, size_t n, int peer)
{
    /* The id is whatever stands behind the path: find() knows no other than its own. */
    bool is_beginning = false;
    bool is_game = strncmp(path, GAMES "/", strlen(GAMES "/")) == 0;
    const char *id = is_game ? path + strlen(GAMES "/") : "";
    const char *command;
    struct api_reply done;
    unsigned status;
    char *answer;
    json_t *wish;

    if (strcmp(path, API) == 0 && strcmp(method, "GET") == 0)
        return reply(200, json_pack("{s:o, s:o, s:o, s:o}", "locks", locks(),
                                    "experiments", tell_experiments(), "stops",
                                    tell_stops(), "faults", faults()));
    if (is_game && strcmp(method, "DELETE") == 0) {
        status = visitors_end(id);
        if (status != VISITORS_OK)
            return tell(status, NULL, id);
        return (struct api_reply){.status = 204};
    }
    for (size_t i = 0; i < BEGINNINGS_N; i++)
        is_beginning |= strcmp(path, beginnings[i].path) == 0;
    if (strcmp(method, "POST") != 0 || (!is_game && !is_beginning))
        return refuse(404, "there is nothing here");
    /* The body may be no JSON: then there is no object, and no command in it. */
    wish = json_loadb(body, n, 0, NULL);
    command = text_in(wish, "command");
    /* A command is one line: a second one would have an answer that nobody reads. */
    if (!json_is_object(wish)) {
        done = refuse(400, "the body is no JSON object");
    } else if (!is_game) {
        done = begin(wish, path, peer);
    } else if (!command || strpbrk(command, "\r\n")) {
        done = refuse(422, "a game wants a \"command\", in one line");
    } else {
        status = ask(id, command, &answer);
        done = tell(status, answer, id);
    }
    json_decref(wish);
    return done;
}

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
 *                                 is "done" (server/lab/load/load.h). 429: there
 *                                 are as many as there may be
 *     POST   /api/lab/judge       {"stop", "choice", "language"}: what path_judge() says
 *
 * A game answers what game.h says, and its "id". What was wrong is in "error". A judge
 * is a game that says one thing, and takes a game's place meanwhile; they take turns.
 */
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dlock_textbook.h"
#include "server/lab/expected.h"
#include "server/lab/experiments/experiment.h"
#include "server/lab/experiments/reader.h"
#include "server/lab/fail.h"
#include "server/lab/load/load.h"
#include "server/lab/path/path.h"
#include "server/lab/serve/lab_serve.h"
#include "server/lab/stage/stage_options.h"
#include "server/lab/world/world.h"

#define API      "/api/lab"
#define GAMES    API "/games"
#define JUDGE    API "/judge"
#define RUNS     API "/runs"
#define SEARCHES API "/searches"

enum { ARGS_MAX = 16, ARG_BYTES = 300 };
#define SEARCH_SECONDS "--seconds=60"

/* Takes VALUE. */
static struct api_reply reply(unsigned status, json_t *value)
{
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

/* The bug, and the fix if there is one. */
static json_t *plays_of(const struct experiment *experiment)
{
    json_t *list = json_array();
    const struct experiment_play *play = experiment->plays;

    for (; play < &experiment->plays[EXPERIMENT_REST] && play->scene.lock;
         play++)
        (void)json_array_append_new(
            list, json_pack("{s:s, s:o, s:s?}", "lock", play->scene.lock,
                            "goal", draw_json_faults(stage_goals(play->faults)),
                            "schedule", play->schedule));
    return list;
}

static json_t *experiments(void)
{
    json_t *list = json_array();
    const struct experiment *each;

    for (size_t i = 0; (each = experiment_at(i)) != NULL; i++)
        (void)json_array_append_new(
            list,
            json_pack(
                "{s:s, s:s, s:s, s:o, s:o, s:o}", "id", each->id, "name",
                each->name, "kind", each->kind->name, "plays", plays_of(each),
                "en", reader_json(experiment_texts, &each->text[EXPERIMENT_EN]),
                "zh",
                reader_json(experiment_texts, &each->text[EXPERIMENT_ZH])));
    return list;
}

static json_t *stops(void)
{
    json_t *list = json_array();
    const struct path_stop *each;

    for (size_t i = 0; (each = path_at(i)) != NULL; i++) {
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
                      "id", each->id, "name", each->name, "lock",
                      each->scene.lock, "code", each->code, "schedule",
                      each->shortest, "fewest", (int)path_fewest(each), "goal",
                      draw_json_faults(stage_goals(each->faults)), "choices",
                      choices, "en",
                      reader_json(path_texts, &each->text[EXPERIMENT_EN]), "zh",
                      reader_json(path_texts, &each->text[EXPERIMENT_ZH])));
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

struct args {
    char *argv[ARGS_MAX + 1];
    char texts[ARGS_MAX][ARG_BYTES];
    int n;
    struct fail error; /* "" = the wish names nothing that there is */
};

__attribute__((format(printf, 2, 3))) static void add(struct args *args,
                                                      const char *format, ...)
{
    va_list more;

    if (args->n == ARGS_MAX)
        return;
    va_start(more, format);
    (void)vsnprintf(args->texts[args->n], ARG_BYTES, format, more);
    va_end(more);
    args->argv[args->n] = args->texts[args->n];
    args->n++;
}

/* Whether all that the wish has is in MEMBERS, "stop choice", and is of its type: a wish
 * that is heeded in part is another wish. */
static bool heeds(struct args *args, const json_t *wish, const char *members)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)wish, name, value)
    {
        const char *text = json_string_value(value);
        bool is_setting = expected_has_word("buyers stock deduct", name);

        if (!expected_has_word(members, name))
            return fail_with(&args->error,
                             "there is no \"%.40s\" here; there is: %s", name,
                             members);
        if (strcmp(name, "fix") == 0
                ? !json_is_boolean(value)
                : !text && !(is_setting && json_is_number(value)))
            return fail_with(&args->error, "\"%s\" is of a wrong type", name);
        if (text && strcmp(name, "language") == 0 && strcmp(text, "en") != 0 &&
            strcmp(text, "zh") != 0)
            return fail_with(&args->error, "\"language\" is en or zh");
    }
    return true;
}

/* A lock's text. */
static const char *own_text(const json_t *wish)
{
    return json_string_value(json_object_get(wish, "text"));
}

static const char *text_in(const json_t *wish, const char *name)
{
    const char *text = json_string_value(json_object_get(wish, name));

    return text && strlen(text) < ARG_BYTES ? text : NULL;
}

/* The setting NAME of the stage, if the wish has it. False: it makes no sense. */
static bool add_setting(struct args *args, const json_t *wish, const char *name)
{
    const json_t *value = json_object_get(wish, name);
    const char *text = text_in(wish, name);
    struct stage_scene scene = STAGE_SCENE("none");
    char arg[ARG_BYTES];

    if (!value)
        return true;
    if (json_is_integer(value))
        (void)snprintf(arg, sizeof(arg), "%" JSON_INTEGER_FORMAT,
                       json_integer_value(value));
    else
        (void)snprintf(arg, sizeof(arg), "%s", text ? text : "");
    if (!stage_options_set(&scene, name, arg, &args->error))
        return false;
    add(args, "--%s=%s", name, arg);
    return true;
}

/* The schedule to begin with, if the wish has one. False: it is none. */
static bool add_schedule(struct args *args, const json_t *wish)
{
    const char *text = text_in(wish, "schedule");
    struct stage_move moves[STAGE_MOVES_MAX];

    if (!json_object_get(wish, "schedule"))
        return true;
    if (!text)
        return fail_with(&args->error, "a schedule has less than %d bytes",
                         ARG_BYTES);
    if (stage_parse(text, moves, &args->error) < 0)
        return false;
    add(args, "%s", text);
    return true;
}

/* A lock of the stage. */
static bool is_lock(const char *lock)
{
    struct stage_scene scene = STAGE_SCENE(lock);
    struct fail error;

    return lock && dlock_strategy_find(lock) && stage_can_play(&scene, &error);
}

static void add_language(struct args *args, const json_t *wish)
{
    const char *language = text_in(wish, "language");

    if (language && strcmp(language, "zh") == 0)
        add(args, "--zh");
    add(args, "--");
}

/* The command line of a stop of the path, which is played or judged. False: there is no
 * such stop, or it has no such choice. */
static bool read_stop(const json_t *wish, bool judges, struct args *args)
{
    const char *choice = text_in(wish, "choice"), *name = text_in(wish, "stop");
    const struct path_stop *stop = name ? path_find(name, NULL) : NULL;

    if (!heeds(args, wish, "stop choice language") || !stop ||
        (json_object_get(wish, "choice") &&
         (!choice || strlen(choice) != 1 || !path_scene(stop, choice[0]))))
        return false;
    add(args, "path");
    add(args, "--json");
    if (judges)
        add(args, "--judge");
    if (choice)
        add(args, "--choice=%c", choice[0]);
    add_language(args, wish);
    add(args, "%s", stop->id);
    return true;
}

/* The command line of an experiment of KIND, with its fix or a lock in place of its own.
 * False: there is no such thing. */
static bool read_experiment(const json_t *wish,
                            const struct experiment_kind *kind,
                            struct args *args)
{
    const char *name = text_in(wish, "experiment"),
               *lock = text_in(wish, "lock");
    const struct experiment *experiment;
    bool fix = json_is_true(json_object_get(wish, "fix"));
    struct fail none;

    experiment = name ? experiment_find(name, &none) : NULL;
    if (!heeds(args, wish, "experiment lock fix language") || !experiment ||
        experiment->kind != kind ||
        (fix && !experiment->plays[EXPERIMENT_FIX].scene.lock) ||
        (json_object_get(wish, "lock") && !is_lock(lock)) ||
        (lock && kind == &load_kind && world_nodes_for(lock) > 1))
        return false;
    add(args, "run");
    if (fix)
        add(args, "--fix");
    if (lock)
        add(args, "--lock=%s", lock);
    add(args, "-i");
    add(args, "--json");
    add_language(args, wish);
    add(args, "%s", experiment->id);
    return true;
}

/* The command line of a lock of the stage, or of a text of one, which is played or
 * searched. False: there is no such lock. */
static bool read_lock(const json_t *wish, bool searches, struct args *args)
{
    const char *lock = text_in(wish, "lock");

    if (!heeds(args, wish,
               searches ? "lock text buyers stock deduct language"
                        : "lock text buyers stock deduct language schedule") ||
        (!own_text(wish) && !is_lock(lock)))
        return false;
    add(args, searches ? "explore" : "replay");
    if (!add_setting(args, wish, "buyers") ||
        !add_setting(args, wish, "stock") || !add_setting(args, wish, "deduct"))
        return false;
    add(args, "-i");
    add(args, "--json");
    if (searches)
        add(args, SEARCH_SECONDS);
    add_language(args, wish);
    add(args, "%s", own_text(wish) ? VISITORS_LOCK : lock);
    return true;
}

/* ANSWER is taken: it is a JSON object, which gets the game's ID. */
static struct api_reply tell(enum visitors_status status, char *answer,
                             const char *id)
{
    json_t *value = answer ? json_loads(answer, 0, NULL) : NULL;
    static const struct {
        unsigned status;
        const char *error;
    } refusals[] = {
        [VISITORS_FULL] = {503, "all games are taken: somebody has to end one"},
        [VISITORS_BUSY] = {429, "others are running a load: wait for its end"},
        [VISITORS_NONE] = {404, "this game is over: begin a new one"},
        [VISITORS_BROKEN] = {500, "the game has ended by an error of its own"},
    };

    free(answer);
    if (status == VISITORS_OK && value) {
        (void)json_object_set_new(value, "id", json_string(id));
        return reply(200, value);
    }
    if (json_object_get(value, "error"))
        return reply(422, value);
    json_decref(value);
    return refuse(
        status == VISITORS_OK ? 500 : refusals[status].status,
        refusals[status == VISITORS_OK ? VISITORS_BROKEN : status].error);
}

/* A game's beginning. */
static const struct beginning {
    const char *path;
    const char *wants; /* what is wrong if there is nothing to play */
} beginnings[] = {
    {GAMES, "a game wants a \"lock\" of the stage, a \"text\" of one, an "
            "\"experiment\" of steps, or a \"stop\""},
    {SEARCHES, "a search wants a \"lock\" of the stage, or a \"text\" of one"},
    {RUNS, "a run wants an \"experiment\" of load, and a \"lock\" or \"fix\" "
           "that there is"},
    {JUDGE, "a judge wants a \"stop\", and a \"choice\" of it"},
};

/* One judge at a time, because each wants all processors for its few seconds; and it ends
 * when it has said its one thing. */
static struct api_reply begin(const json_t *wish, const struct beginning *how)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    struct args args = {.argv = {"stockade-lab"}, .n = 1};
    bool judges = strcmp(how->path, JUDGE) == 0;
    bool plays = strcmp(how->path, GAMES) == 0;
    bool runs = strcmp(how->path, RUNS) == 0;
    char id[VISITORS_ID_BYTES], *answer;
    enum visitors_status status;
    struct api_reply told;
    bool good;

    if (judges || (plays && json_object_get(wish, "stop")))
        good = read_stop(wish, judges, &args);
    else if (runs || (plays && json_object_get(wish, "experiment")))
        good = read_experiment(wish, runs ? &load_kind : &steps_kind, &args);
    else
        good = read_lock(wish, !plays, &args) && add_schedule(&args, wish);
    if (!good)
        return refuse(422, args.error.text[0] ? args.error.text : how->wants);
    if (judges)
        (void)pthread_mutex_lock(&turn);
    status = visitors_begin(runs ? VISITORS_RUN : VISITORS_GAME, args.argv,
                            own_text(wish), id, &answer);
    if (judges && status == VISITORS_OK)
        (void)visitors_end(id);
    if (judges)
        (void)pthread_mutex_unlock(&turn);
    told = tell(status, answer, id);
    if (status == VISITORS_OK && !judges)
        memcpy(told.begun, id, sizeof(id));
    return told;
}

struct api_reply api_call(const char *method, const char *path,
                          const char *body, size_t n)
{
    const struct beginning *begun = NULL;
    bool is_game = strncmp(path, GAMES "/", strlen(GAMES "/")) == 0;
    const char *id = is_game ? path + strlen(GAMES "/") : "";
    enum visitors_status status;
    struct api_reply done;
    const char *command;
    char *answer;
    json_t *wish;

    if (strcmp(path, API) == 0 && strcmp(method, "GET") == 0)
        return reply(200, json_pack("{s:o, s:o, s:o, s:o}", "locks", locks(),
                                    "experiments", experiments(), "stops",
                                    stops(), "faults", faults()));
    if (is_game && strcmp(method, "DELETE") == 0 &&
        visitors_end(id) == VISITORS_OK)
        return (struct api_reply){.status = 204};
    if (is_game && strcmp(method, "DELETE") == 0)
        return tell(VISITORS_NONE, NULL, id);
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        if (strcmp(path, beginnings[i].path) == 0)
            begun = &beginnings[i];
    if (strcmp(method, "POST") != 0 || (!is_game && !begun))
        return refuse(404, "there is nothing here");
    wish = json_loadb(body, n, 0, NULL);
    if (!json_is_object(wish)) {
        json_decref(wish);
        return refuse(400, "the body is no JSON object");
    }
    command = text_in(wish, "command");
    if (!is_game) {
        done = begin(wish, begun);
    } else if (!command || strpbrk(command, "\r\n")) {
        done = refuse(422, "a game wants a \"command\", in one line");
    } else {
        status = visitors_ask(id, command, &answer);
        done = tell(status, answer, id);
    }
    json_decref(wish);
    return done;
}

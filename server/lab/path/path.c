/* All stops, as the build has found their files, and their judge, which is the search. See
 * path.h. */
#include "server/lab/path/path.h"

#include <stdlib.h>
#include <string.h>

#include "server/lab/explore/explore.h"
#include "server/lab/replay/game.h"
#include "server/lab/scene/stage_options.h"

/* The languages first, then what is to be broken, and the choices. */
enum { BREAK = EXPERIMENT_LANGUAGES_N, CHOICES };
static const char *const sections[] = {"en", "zh", "break", "a",
                                       "b",  "c",  "d",     NULL};
static const char *const texts[] = {
    "title", "literature", "still", "redisson", "redsync", "spring", NULL};

/* ---- a file -------------------------------------------------------------- */

/* "late 1 troubles 2": those that differ from the bounds of all hints. */
static bool take_bounds(struct reader *reader, void *at, char *value)
{
    struct search_bounds *bounds = at;
    /* The reader of bounds is that of explore: the same words, with the same limits. */
    struct explore explore = {.bounds = *bounds};
    char *rest = NULL;

    for (char *word = strtok_r(value, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        const char *number = strtok_r(NULL, " ", &rest);

        if (!number || !explore_take_bound(&explore, word, number))
            return reader_fail(reader, "'%s' is no bound of explore", word);
    }
    *bounds = explore.bounds;
    return true;
}

/* Nothing stands before [en]. */
static const struct reader_key nothing[] = {{.name = NULL}};

#define KEY(name, take, member) READER_KEY(name, take, struct path_stop, member)
static const struct reader_key break_keys[] = {
    {KEY("faults", reader_faults, faults)},
    {KEY("without", reader_faults, without)},
    {KEY("bounds", take_bounds, bounds)},
    {KEY("code", reader_text, code)},
    {KEY("schedule", reader_schedule, schedule)},
    {KEY("shortest", reader_schedule, shortest)},
    {KEY(NULL, reader_scene, scene)}};

#define CHOICE_KEY(name, take, member)                                         \
    READER_KEY(name, take, struct path_choice, member)
static const struct reader_key choice_keys[] = {
    {CHOICE_KEY("en", reader_text, text[EXPERIMENT_EN])},
    {CHOICE_KEY("zh", reader_text, text[EXPERIMENT_ZH])},
    {CHOICE_KEY(NULL, reader_scene, scene)}};

/* A choice is the same scene, but for what it says. */
static bool begin(struct reader *reader)
{
    struct path_stop *stop = reader->into;
    struct path_choice *choice = stop->choices;
    int section = reader->section;

    if (section < 0) {
        stop->scene = (struct stage_scene)STAGE_SCENE(NULL);
        /* The bounds of a stop begin as those of any hint. */
        stop->bounds = game_hint_bounds;
        reader->keys = nothing;
    } else if (section == BREAK) {
        reader->part = stop;
        reader->keys = break_keys;
    } else {
        choice += section - CHOICES;
        /* The stop's own scene is there by now: [break] comes before the choices. */
        choice->scene = stop->scene;
        reader->part = choice;
        reader->keys = choice_keys;
    }
    return true;
}

static bool end(struct reader *reader)
{
    struct path_stop *stop = reader->into;
    const struct path_choice *choice = stop->choices;

    if (!stop->scene.lock || !stop->code || !stop->faults)
        return reader_fail(reader, "[break] has no lock, code, or faults");
    /* A lock that is right has no choices: there is nothing to mend. */
    if (!choice->scene.lock != !stop->schedule)
        return reader_fail(reader, "choices go with a schedule");
    /* A stop without another one has one schedule for both. */
    if (!stop->shortest)
        stop->shortest = stop->schedule;
    for (; choice < stop->choices + PATH_CHOICES_MAX && choice->scene.lock;
         choice++)
        if (!choice->text[EXPERIMENT_EN] || !choice->text[EXPERIMENT_ZH])
            return reader_fail(reader, "a choice is not in both languages");
    return true;
}

/* ---- all of them ---------------------------------------------------------- */

static const struct reader_file files[] = {
#include "server/lab/path/all.inc"
};

struct reader_folder stops = {.sections = sections,
                              .texts = texts,
                              .texts_needed_n = PATH_TEXTS_N,
                              .entry_bytes = sizeof(struct path_stop),
                              .begin = begin,
                              .end = end,
                              .no_such = "the path has no stop",
                              .list = "stockade lab path",
                              .files = files,
                              .files_n = sizeof(files) / sizeof(files[0])};

unsigned path_fewest(const struct path_stop *stop)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    struct fail error;

    return stop->shortest ? (unsigned)stage_parse(stop->shortest, moves, &error)
                          : 0;
}

const struct stage_scene *path_scene(const struct path_stop *stop, char choice)
{
    unsigned index = (unsigned)(choice - 'a');

    if (choice == 0)
        return &stop->scene;
    return index < PATH_CHOICES_MAX && stop->choices[index].scene.lock
               ? &stop->choices[index].scene
               : NULL;
}

/* ---- the judge ------------------------------------------------------------ */

/* A search, and the answer that it gives. */
struct judgement {
    char choice;
    enum path_answer answer;
    struct explore explore; /* with the faults that count against it */
    enum stage_fault fault; /* the nearest of them; STAGE_FAULT_N = none */
    unsigned others;        /* that were found on the way */
    bool is_new;            /* the stop's own lock has another one */
    unsigned look;
};

static void tell(const struct judgement *judgement, const char *schedule)
{
    const struct explore *explore = &judgement->explore;

    if (judgement->answer == PATH_BREAKS) {
        draw_say(stdout, judgement->look,
                 judgement->is_new ? "it breaks in another way: %s\n"
                                   : "it still breaks: %s\n",
                 stage_fault_text(judgement->fault));
        printf("  ");
        command_replay(stdout, &explore->scene, schedule);
        putchar('\n');
        return;
    }
    draw_say(stdout, judgement->look, "%s\n", explore_verdict(explore));
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (judgement->others & 1u << i)
            draw_say(stdout, judgement->look, "but something else breaks: %s\n",
                     stage_fault_text(i));
    if (judgement->answer == PATH_UNKNOWN)
        draw_say(stdout, judgement->look,
                 "time was up first: that is no answer yet\n");
    explore_tell_bounds(stdout, explore);
}

static void tell_json(const struct judgement *judgement, const char *schedule)
{
    static const char *const answers[] = {"holds", "breaks", "unknown"};
    const struct explore *explore = &judgement->explore;
    bool breaks = judgement->answer == PATH_BREAKS;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    /* The bounds are told as people read them: the page shows the same words. */
    if (out) {
        explore_tell_bounds(out, explore);
        (void)fclose(out);
    }
    draw_json_line(
        stdout,
        json_pack(
            "{s:o, s:s, s:o, s:s, s:s*, s:s*, s:o, s:i}", "choice",
            json_sprintf("%c", judgement->choice ? judgement->choice : '-'),
            "answer", answers[judgement->answer], "says",
            draw_json_text(explore_verdict(explore), judgement->look), "bounds",
            text ? text : "", "fault",
            breaks ? stage_fault_word(judgement->fault) : NULL, "schedule",
            breaks ? schedule : NULL, "others",
            draw_json_faults(judgement->others), "moves",
            (int)explore->result.moves));
    free(text);
}

enum path_answer path_judge(const struct path_stop *stop, char choice,
                            unsigned seconds, bool json, unsigned look,
                            struct fail *error)
{
    static struct judgement judgement;
    struct explore *explore = &judgement.explore;
    char schedule[4 * STAGE_MOVES_MAX + 1] = "";
    /* A mend counts only if it brings none of WITHOUT either. */
    unsigned against = stop->faults | stop->without;
    struct search_found *faults = explore->result.faults, *nearest = NULL;

    judgement = (struct judgement){
        .choice = choice, .look = look, .fault = STAGE_FAULT_N};
    *explore = (struct explore){.scene = *path_scene(stop, choice),
                                .bounds = stop->bounds,
                                .seconds = seconds,
                                .enough = against,
                                .look = look};
    /* The search goes on behind faults of another kind, or they would hide the
     * stop's own. */
    explore->bounds.passes = ~against;
    if (!explore_search(explore, error))
        return PATH_FAILED;
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++) {
        if (!faults[i].is_found)
            continue;
        /* Faults of another kind are no answer; they are told beside it. */
        if ((against & 1u << i) == 0) {
            judgement.others |= 1u << i;
            faults[i].is_found = false;
        } else if (!nearest || faults[i].n < nearest->n) {
            nearest = &faults[i];
            judgement.fault = i;
        }
    }
    if (!nearest && !explore->result.is_whole && stage_options_interrupted()) {
        (void)fail_with(error, "interrupted");
        return PATH_FAILED;
    }
    /* "It holds" needs a search that was whole. */
    judgement.answer = nearest                    ? PATH_BREAKS
                       : explore->result.is_whole ? PATH_HOLDS
                                                  : PATH_UNKNOWN;
    /* A fault that is not among the stop's is a new one. */
    judgement.is_new = (stop->faults & 1u << judgement.fault) == 0;
    if (nearest)
        stage_text(nearest->moves, nearest->n, schedule, sizeof(schedule));
    if (json)
        tell_json(&judgement, schedule);
    else
        tell(&judgement, schedule);
    return judgement.answer;
}

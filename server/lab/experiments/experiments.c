/* All experiments, as the build has found their files, and what such a file may say:
 * README.md in server/lab is its manual. See experiment.h. */
#include <string.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/load/load.h"

enum { NUMBER_MAX = 1000000 };

/* The languages first, and then the plays. */
static const char *const sections[] = {"en", "zh", "bug", "fix", "rest", NULL};

static const char *const texts[] = {"title", "symptom", "see", "why",
                                    "fix",   "rest",    NULL};

/* ---- plays ---------------------------------------------------------------- */

static bool take_sold(struct reader *reader, void *at, char *value)
{
    const struct experiment *experiment = reader->into;
    unsigned sold = 0;

    /* Only real instances leave the units to luck; on the stage there is none. */
    if (experiment->kind == &load_kind && strcmp(value, "any") == 0) {
        *(int64_t *)at = LOAD_SOLD_ANY;
        return true;
    }
    if (!reader_number(reader, &sold, value))
        return false;
    *(int64_t *)at = sold;
    return true;
}

static bool take_lock(struct reader *reader, void *at, char *value)
{
    *(const char **)at = value;
    return dlock_strategy_find(value) ||
           reader_fail(reader, "there is no lock '%s'", value);
}

static bool take_story(struct reader *reader, void *at, char *value)
{
    const struct experiment_play *play = reader->part;
    const char *wrong = load_story_wrong(value, play->load.instances);

    /* The story is checked when it is read: a word that is wrong must not wait for
     * its servers. */
    *(const char **)at = value;
    return !wrong ||
           reader_fail(reader, "'%s' is not a word of a story", wrong);
}

/* "waiting 0 5.99" */
static bool take_measure(struct reader *reader, void *at, char *value)
{
    struct experiment_load *into = at;
    char name[16];
    int end = 0;

    into->measure = NULL;
    if (sscanf(value, "%15s %lf %lf%n", name, &into->least, &into->most,
               &end) == 3 &&
        !value[end])
        into->measure = measure_find(name);
    return into->measure ||
           reader_fail(reader, "measure takes refused, waiting, overtakes or "
                               "segments, and from where to where it may be");
}

/* "a" to "d", the flags of one instance. */
static bool take_other(struct reader *reader, void *at, char *value)
{
    struct experiment_load *into = at;
    const char *word = reader->word;

    /* The instances come before the flags of one: how many there are says which letters
     * are keys. */
    if (word[0] < 'a' || (unsigned)(word[0] - 'a') >= into->instances ||
        word[1])
        return reader_fail(reader, "there is no '%s' with real instances",
                           word);
    into->each[word[0] - 'a'] = value;
    return true;
}

#define KEY(name, take, member)                                                \
    READER_KEY(name, take, struct experiment_play, member)
#define EXPECTED                                                               \
    {KEY("faults", reader_faults, faults)}, {KEY("says", reader_text, says)},  \
    {                                                                          \
        KEY("sold", take_sold, sold), .most = NUMBER_MAX                       \
    }

static const struct reader_key steps_keys[] = {
    EXPECTED,
    {KEY("schedule", reader_schedule, schedule)},
    {KEY(NULL, reader_scene, scene)}};

static const struct reader_key load_keys[] = {
    EXPECTED,
    {KEY("instances", reader_number, load.instances),
     .most = SITE_INSTANCES_MAX},
    {KEY("stock", reader_number, load.stock), .most = NUMBER_MAX},
    {KEY("buyers", reader_number, load.crowd.buyers), .most = BUYERS_MAX},
    {KEY("orders", reader_number, load.crowd.orders), .most = NUMBER_MAX},
    {KEY("within-ms", reader_number, load.crowd.within_ms), .most = NUMBER_MAX},
    {KEY("wrk", reader_number, load.wrk_connections), .most = NUMBER_MAX},
    {KEY("lock", take_lock, scene.lock)},
    {KEY("story", take_story, schedule)},
    {KEY("flags", reader_text, load.flags)},
    {KEY("measure", take_measure, load)},
    {KEY(NULL, take_other, load)}};

/* ---- the file ------------------------------------------------------------- */

static bool take_kind(struct reader *reader, void *at, char *value)
{
    const struct experiment_kind **kind = at;

    /* The kind is another table of keys: so it stands before all sections. */
    *kind = strcmp(value, load_kind.name) == 0 ? &load_kind : &steps_kind;
    return strcmp(value, (*kind)->name) == 0 ||
           reader_fail(reader, "kind is steps or load");
}

static const struct reader_key head_keys[] = {
    {READER_KEY("kind", take_kind, struct experiment, kind)}, {.name = NULL}};

/* The fix is the bug, and the rest is the fix, but for what is said and expected; both
 * play the bug's schedule, unless they have another one. */
static bool begin_play(struct reader *reader, int index)
{
    struct experiment *into = reader->into;
    struct experiment_play *plays = into->plays, *play = &plays[index];
    const struct experiment_play *bug = &plays[EXPERIMENT_BUG], *base = bug;

    reader->part = play;
    reader->keys = into->kind == &load_kind ? load_keys : steps_keys;
    /* A [rest] goes on from the fix, if there is one. */
    if (index == EXPERIMENT_REST && plays[EXPERIMENT_FIX].scene.lock)
        base = &plays[EXPERIMENT_FIX];
    /* A load has no scene but its lock. */
    if (play == bug) {
        if (into->kind == &steps_kind)
            play->scene = (struct stage_scene)STAGE_SCENE(NULL);
        return true;
    }
    if (!bug->scene.lock)
        return reader_fail(reader, "there is no [bug] with a lock before it");
    /* All expectations begin anew: what the bug breaks must not be expected of
     * its fix. */
    *play = (struct experiment_play){
        .scene = base->scene, .load = base->load, .schedule = bug->schedule};
    return true;
}

static bool begin(struct reader *reader)
{
    struct experiment *into = reader->into;

    if (reader->section >= 0)
        return begin_play(reader, reader->section - EXPERIMENT_LANGUAGES_N);
    into->kind = &steps_kind;
    reader->part = into;
    reader->keys = head_keys;
    return true;
}

/* Whether a load can be run to its end: half of one has no verdict. */
static bool has_load(struct reader *reader, int index)
{
    struct experiment *into = reader->into;
    const struct experiment_play *play = &into->plays[index];
    const struct experiment_load *with = &play->load;
    const char *section = experiment_play_word((unsigned)index);
    const char *wrong = play->schedule
                            ? load_story_wrong(play->schedule, with->instances)
                            : NULL;

    if (with->instances == 0 || !with->flags)
        return reader_fail(reader, "[%s] has no instances, or no flags",
                           section);
    /* The story may be the bug's, which had more instances. */
    if (wrong)
        return reader_fail(reader, "[%s]: '%s' is not a word of a story",
                           section, wrong);
    return play->schedule || with->wrk_connections > 0 ||
           with->crowd.buyers > 0 ||
           reader_fail(reader, "[%s] has no story, no wrk and no buyers",
                       section);
}

static bool end(struct reader *reader)
{
    struct experiment *into = reader->into;
    const struct experiment_play *bug = &into->plays[EXPERIMENT_BUG];
    bool has_rest = into->plays[EXPERIMENT_REST].scene.lock;

    /* The heading and the play belong together: a rest without a play would be told
     * of nothing. */
    for (int i = 0; i < EXPERIMENT_LANGUAGES_N; i++)
        if (has_rest != (into->entry.texts[i][EXPERIMENT_TEXT_REST] != NULL))
            return reader_fail(reader, "[%s] has %s rest, as the plays have %s",
                               sections[i], has_rest ? "no" : "a",
                               has_rest ? "one" : "none");
    if (!bug->scene.lock)
        return reader_fail(reader, "[bug] has no lock");
    for (int i = 0; i < EXPERIMENT_PLAYS_N; i++)
        if (into->plays[i].load.measure &&
            (into->plays[i].schedule || into->plays[i].load.wrk_connections))
            return reader_fail(reader,
                               "measure is of a crowd: no story, no wrk");
    for (int i = 0; i < EXPERIMENT_PLAYS_N && into->kind == &load_kind; i++)
        if (into->plays[i].scene.lock && !has_load(reader, i))
            return false;
    return into->kind == &load_kind || bug->schedule ||
           reader_fail(reader, "[bug] has no schedule");
}

/* ---- all of them ---------------------------------------------------------- */

static const struct reader_file files[] = {
#include "server/lab/experiments/all.inc"
};

struct reader_folder experiments = {.sections = sections,
                                    .texts = texts,
                                    .texts_needed_n = EXPERIMENT_TEXT_REST,
                                    .entry_bytes = sizeof(struct experiment),
                                    .begin = begin,
                                    .end = end,
                                    .no_such = "there is no experiment",
                                    .list = "stockade lab list",
                                    .files = files,
                                    .files_n =
                                        sizeof(files) / sizeof(files[0])};

const char *experiment_play_word(unsigned index)
{
    return (const char *[]){"bug", "fix", "rest"}[index];
}

/* Nothing breaks in an experiment that measures: it has no bug. */
const char *experiment_play_title(const struct experiment *experiment,
                                  unsigned index)
{
    const struct experiment_play *plays = experiment->plays;

    if (index == EXPERIMENT_REST)
        return "With the fix, once more";
    if (index == EXPERIMENT_FIX)
        return "With the fix";
    return plays->faults != 0 || plays->says  ? "With the bug"
           : plays[EXPERIMENT_FIX].scene.lock ? "Without the fix"
                                              : "What is played";
}

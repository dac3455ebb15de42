/* All experiments, as the build has found their files, and how a file is read: README.md in
 * server/lab is its manual. See experiment.h. */
#include <stdlib.h>
#include <string.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/experiments/reader.h"
#include "server/lab/fail.h"
#include "server/lab/load/load.h"

static const struct {
    const char *name, *content;
} files[] = {
#include "server/lab/experiments/all.inc"
};

enum {
    FILES_N = sizeof(files) / sizeof(files[0]),
    NUMBER_MAX = 1000000,
    WORD_BYTES_MAX = 64 /* longer ones are like no other */
};

/* The languages first, and then the plays. */
static const char *const sections[] = {"en", "zh", "bug", "fix", "rest", NULL};

/* ---- a play --------------------------------------------------------------- */

static bool set_number(struct reader *reader, unsigned *number, const char *key,
                       const char *value, unsigned most)
{
    char *end;
    unsigned long n = strtoul(value, &end, 10);

    *number = (unsigned)n;
    return (*value >= '0' && *value <= '9' && *end == '\0' && n <= most) ||
           reader_fail(reader, "%s takes 0 to %u", key, most);
}

/* "waiting 0 5.99" */
static bool set_measure(struct reader *reader, struct experiment_load *load,
                        const char *value)
{
    char name[16];
    int end = 0;

    load->measure = NULL;
    if (sscanf(value, "%15s %lf %lf%n", name, &load->least, &load->most,
               &end) == 3 &&
        !value[end])
        load->measure = measure_find(name);
    return load->measure ||
           reader_fail(reader, "measure takes refused, waiting, overtakes or "
                               "segments, and from where to where it may be");
}

static bool set_load(struct reader *reader, struct experiment_play *play,
                     const char *key, const char *value)
{
    struct experiment_load *load = &play->load;
    const struct {
        const char *name;
        unsigned *number, most;
    } numbers[] = {{"instances", &load->instances, SITE_INSTANCES_MAX},
                   {"stock", &load->stock, NUMBER_MAX},
                   {"buyers", &load->crowd.buyers, BUYERS_MAX},
                   {"orders", &load->crowd.orders, NUMBER_MAX},
                   {"within-ms", &load->crowd.within_ms, NUMBER_MAX},
                   {"wrk", &load->wrk_connections, NUMBER_MAX}};
    const char *wrong;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(numbers[i].name, key) == 0)
            return set_number(reader, numbers[i].number, key, value,
                              numbers[i].most);
    if (strcmp(key, "lock") == 0) {
        play->scene.lock = value;
        return dlock_strategy_find(value) ||
               reader_fail(reader, "there is no lock '%s'", value);
    }
    if (strcmp(key, "story") == 0) {
        play->schedule = value;
        wrong = load_story_wrong(value, load->instances);
        return !wrong ||
               reader_fail(reader, "'%s' is not a word of a story", wrong);
    }
    if (strcmp(key, "flags") == 0)
        load->flags = value;
    else if (key[0] >= 'a' && (unsigned)(key[0] - 'a') < load->instances &&
             !key[1])
        load->each[key[0] - 'a'] = value;
    else if (strcmp(key, "measure") == 0)
        return set_measure(reader, load, value);
    else
        return reader_fail(reader, "there is no '%s' with real instances", key);
    return true;
}

static bool set_play(struct reader *reader, struct experiment_play *play,
                     bool is_load, const char *key, char *value)
{
    bool is_any = is_load && strcmp(value, "any") == 0, good;
    unsigned sold = 0;

    if (strcmp(key, "faults") == 0)
        return reader_faults(reader, &play->faults, value);
    if (strcmp(key, "says") == 0) {
        play->says = value;
        return true;
    }
    if (strcmp(key, "sold") == 0) {
        good = is_any || set_number(reader, &sold, key, value, NUMBER_MAX);
        play->sold = is_any ? LOAD_SOLD_ANY : (int64_t)sold;
        return good;
    }
    return is_load
               ? set_load(reader, play, key, value)
               : reader_play(reader, &play->scene, &play->schedule, key, value);
}

/* The fix is the bug, and the rest is the fix, but for what is said and expected; both
 * play the bug's schedule, unless they have another one. */
static bool begin_section(struct reader *reader)
{
    struct experiment *into = reader->into;
    struct experiment_play *plays = into->plays, *play;
    const struct experiment_play *bug = &plays[EXPERIMENT_BUG], *base = bug;
    int index = reader->section - EXPERIMENT_LANGUAGES_N;

    if (index < 0)
        return true;
    play = &plays[index];
    if (index == EXPERIMENT_REST && plays[EXPERIMENT_FIX].scene.lock)
        base = &plays[EXPERIMENT_FIX];
    if (play == bug) {
        if (into->kind == &steps_kind)
            play->scene = (struct stage_scene)STAGE_SCENE(NULL);
        return true;
    }
    if (!bug->scene.lock)
        return reader_fail(reader, "there is no [bug] with a lock before it");
    *play = (struct experiment_play){
        .scene = base->scene, .load = base->load, .schedule = bug->schedule};
    return true;
}

/* ---- the file ------------------------------------------------------------- */

const struct reader_text experiment_texts[] = {
    {"title", offsetof(struct experiment_text, title)},
    {"symptom", offsetof(struct experiment_text, symptom)},
    {"see", offsetof(struct experiment_text, see)},
    {"why", offsetof(struct experiment_text, why)},
    {"fix", offsetof(struct experiment_text, fix)},
    {"rest", offsetof(struct experiment_text, rest)},
    {NULL, 0}};

enum {
    TEXTS_NEEDED = sizeof(experiment_texts) / sizeof(experiment_texts[0]) - 2
};

static bool set_value(struct reader *reader, const char *key, char *value)
{
    struct experiment *into = reader->into;
    int section = reader->section;
    bool is_load = strcmp(value, load_kind.name) == 0;

    if (section >= EXPERIMENT_LANGUAGES_N)
        return set_play(reader, &into->plays[section - EXPERIMENT_LANGUAGES_N],
                        into->kind == &load_kind, key, value);
    if (section >= 0)
        return reader_text(reader, experiment_texts, &into->text[section], key,
                           value);
    if (strcmp(key, "kind") != 0)
        return reader_fail(reader, "before [en] there is kind, not '%s'", key);
    into->kind = is_load ? &load_kind : &steps_kind;
    return is_load || strcmp(value, steps_kind.name) == 0 ||
           reader_fail(reader, "kind is steps or load");
}

static bool has_all(struct reader *reader, struct experiment *into)
{
    const struct experiment_play *bug = &into->plays[EXPERIMENT_BUG];
    bool has_rest = into->plays[EXPERIMENT_REST].scene.lock;

    if (!into->text[EXPERIMENT_ZH].title)
        into->text[EXPERIMENT_ZH] = into->text[EXPERIMENT_EN];
    for (int i = 0; i < EXPERIMENT_LANGUAGES_N; i++) {
        if (!reader_has_texts(reader, experiment_texts, TEXTS_NEEDED,
                              &into->text[i], sections[i]))
            return false;
        if (has_rest != (into->text[i].rest != NULL))
            return reader_fail(reader, "[%s] has %s rest, as the plays have %s",
                               sections[i], has_rest ? "no" : "a",
                               has_rest ? "one" : "none");
    }
    if (!bug->scene.lock)
        return reader_fail(reader, "[bug] has no lock");
    for (int i = 0; i < EXPERIMENT_PLAYS_N; i++)
        if (into->plays[i].load.measure &&
            (into->plays[i].schedule || into->plays[i].load.wrk_connections))
            return reader_fail(reader,
                               "measure is of a crowd: no story, no wrk");
    if (into->kind == &load_kind &&
        (bug->load.instances == 0 || !bug->load.flags))
        return reader_fail(reader, "[bug] has no instances, or no flags");
    return into->kind == &load_kind || bug->schedule ||
           reader_fail(reader, "[bug] has no schedule");
}

bool experiment_read(const char *path, char *content,
                     struct experiment *experiment, struct fail *error)
{
    struct reader reader = {.file = path,
                            .at = content,
                            .sections = sections,
                            .into = experiment,
                            .begin = begin_section,
                            .set = set_value,
                            .error = error};
    bool good;

    *experiment = (struct experiment){.kind = &steps_kind, .content = content};
    good = reader_read(&reader, experiment->id, experiment->name) &&
           has_all(&reader, experiment);
    if (!good)
        experiment_release(experiment);
    return good;
}

void experiment_release(struct experiment *experiment)
{
    free(experiment->content);
    *experiment = (struct experiment){.content = NULL};
}

/* ---- all of them ---------------------------------------------------------- */

/* A file that is wrong is a bug of ours, which each test of the lab finds. */
const struct experiment *experiment_at(size_t index)
{
    static struct experiment all[FILES_N];
    struct fail error;

    for (size_t i = 0; i < FILES_N && !all[FILES_N - 1].content; i++)
        if (!experiment_read(files[i].name, strdup(files[i].content), &all[i],
                             &error))
            exit(fail_to_run("%s", error.text));
    return index < FILES_N ? &all[index] : NULL;
}

enum experiment_language experiment_language(unsigned look)
{
    return look & DRAW_CHINESE ? EXPERIMENT_ZH : EXPERIMENT_EN;
}

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

json_t *experiment_json(const struct experiment_run *run)
{
    if (run->error.text[0])
        return json_pack("{s:o}", "error", draw_json_text(run->error.text, 0));
    return json_pack(
        "{s:I, s:I, s:I, s:o, s:o, s:b, s:o*}", "stock", (json_int_t)run->stock,
        "sold", (json_int_t)run->sold, "orders", (json_int_t)run->orders,
        "faults", draw_json_faults(run->verdict.faults), "remarks",
        draw_json_faults(run->verdict.remarks), "as_told", run->as_told, "said",
        run->said[0] ? draw_json_text(run->said, run->look) : NULL);
}

static bool is_called(const struct experiment *experiment, const char *name)
{
    const char *id = experiment->id;

    return strcmp(experiment->name, name) == 0 || strcmp(id, name) == 0 ||
           (id[0] == '0' && strcmp(id + 1, name) == 0);
}

const struct experiment *experiment_find(const char *name, struct fail *error)
{
    const struct experiment *one, *begun = NULL;
    const char *nearest = NULL;
    unsigned begun_n = 0;
    size_t least = 0;

    (void)fail_with(error, "which one: ");
    for (size_t i = 0; (one = experiment_at(i)) != NULL; i++) {
        if (is_called(one, name))
            return one;
        if (experiment_is_nearest(name, one->name, &least))
            nearest = one->name;
        if (*name && strncmp(one->name, name, strlen(name)) == 0) {
            begun = one;
            (void)fail_more(error, "%s%s", begun_n++ > 0 ? ", " : "",
                            one->name);
        }
    }
    if (begun_n == 1)
        return begun;
    if (begun_n > 1)
        (void)fail_more(error, "?");
    else
        (void)fail_with(
            error,
            nearest ? "there is no experiment '%s'; is it %s?"
                    : "there is no experiment '%s'; stockade lab list has all",
            name, nearest);
    return NULL;
}

/* By how many bytes have to be put in, taken out or changed to make WORD of NAME
 * (Levenshtein). ROW has what that is for the beginnings of WORD. */
bool experiment_is_nearest(const char *name, const char *word, size_t *least)
{
    size_t row[WORD_BYTES_MAX + 1], n = strlen(word), corner, change;

    if (*least == 0)
        *least = 2 + strlen(name) / 4;
    if (n > WORD_BYTES_MAX)
        return false;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; name[i]; i++) {
        corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            change = corner + (name[i] != word[j]);
            corner = row[j + 1];
            row[j + 1] = 1 + (corner < row[j] ? corner : row[j]);
            if (change < row[j + 1])
                row[j + 1] = change;
        }
    }
    if (row[n] >= *least)
        return false;
    *least = row[n];
    return true;
}

/* Reads the file of an experiment. README.md in server/lab is its manual. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/load/load.h"
#include "server/lab/load/measure.h"
#include "server/lab/stage/stage_options.h"

enum {
    KEYS_MAX = 24 /* of a section */,
    NUMBER_MAX = 1000000,
    ERROR_BYTES = 1000
};

/* The languages first, and then the plays. */
enum { SECTIONS_N = EXPERIMENT_LANGUAGES_N + EXPERIMENT_PLAYS_N };
static const char *const sections[SECTIONS_N] = {"en", "zh", "bug", "fix",
                                                 "rest"};

struct reader {
    const char *file;
    char *at;               /* where the next line begins */
    unsigned line, lines_n; /* the number of the line in hand; of all so far */
    int section;            /* of sections[]; -1 = none yet */
    const char *keys[KEYS_MAX]; /* that this section has had */
    unsigned keys_n;
    struct experiment *into;
    char *error;
    size_t error_size;
};

static bool fail(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(struct reader *reader, const char *format, ...)
{
    int n = snprintf(reader->error, reader->error_size, "%s:%u: ", reader->file,
                     reader->line);
    va_list args;

    va_start(args, format);
    if (n >= 0 && (size_t)n < reader->error_size)
        (void)vsnprintf(reader->error + n, reader->error_size - (size_t)n,
                        format, args);
    va_end(args);
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next line, with those behind it that begin with a blank. A blank joins them, but
 * not behind a Chinese character. NULL: no more. */
static char *next_line(struct reader *reader)
{
    char *line = reader->at, *from = line, *to = line;

    if (!*from)
        return NULL;
    reader->line = reader->lines_n + 1;
    do {
        reader->lines_n++;
        if (to > line && (unsigned char)to[-1] < 0x80)
            *to++ = ' ';
        while (is_blank(*from))
            from++;
        while (*from && *from != '\n')
            *to++ = *from++;
        while (to > line && is_blank(to[-1]))
            to--;
        from += *from == '\n';
    } while (is_blank(*from));
    reader->at = from;
    *to = '\0';
    return line;
}

/* ---- a play --------------------------------------------------------------- */

static bool set_faults(struct reader *reader, struct experiment_play *play,
                       char *words)
{
    char *rest = NULL;

    for (char *word = strtok_r(words, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        unsigned fault = 0;

        while (fault < STAGE_FAULT_N &&
               strcmp(stage_fault_word((enum stage_fault)fault), word) != 0)
            fault++;
        if (fault == STAGE_FAULT_N)
            return fail(reader, "there is no fault '%s'", word);
        play->faults |= EXPERIMENT_FAULT(fault);
    }
    return true;
}

static bool set_number(struct reader *reader, unsigned *number, const char *key,
                       const char *value, unsigned most)
{
    char *end;
    unsigned long n = strtoul(value, &end, 10);

    *number = (unsigned)n;
    return (*value >= '0' && *value <= '9' && *end == '\0' && n <= most) ||
           fail(reader, "%s takes 0 to %u", key, most);
}

static bool set_steps(struct reader *reader, struct experiment_play *play,
                      const char *key, char *value)
{
    struct stage_scene *scene = &play->scene;
    struct stage_move moves[STAGE_MOVES_MAX];
    bool is_order = strcmp(value, "order") == 0;
    char error[ERROR_BYTES];

    if (strcmp(key, "schedule") == 0) {
        play->schedule = value;
        return stage_parse(value, moves, error, sizeof(error)) >= 0 ||
               fail(reader, "%s", error);
    }
    if (strcmp(key, "lock") == 0)
        scene->lock = value;
    else if (!stage_options_set(scene, key, value, error, sizeof(error)))
        return fail(reader, "%s", error);
    if (is_order) /* as if nothing were said */
        scene->roles[0].program = NULL;
    return !scene->lock || stage_can_play(scene, error, sizeof(error)) ||
           fail(reader, "%s", error);
}

/* The function NAME, which measures or judges. */
static bool set_function(struct reader *reader,
                         bool (**function)(struct load *), const char *name)
{
    const struct measure *measure = measure_find(name);

    if (!measure)
        return fail(reader, "measure.c has no function '%s'", name);
    *function = measure->function;
    return true;
}

static bool set_story(struct reader *reader, struct experiment_play *play,
                      const char *story)
{
    const char *wrong = load_story_wrong(story, play->load->instances);

    play->schedule = story;
    return !wrong || fail(reader, "'%s' is not a word of a story", wrong);
}

static bool set_load(struct reader *reader, struct experiment_play *play,
                     const char *key, const char *value)
{
    struct experiment_load *load = play->load;
    const struct {
        const char *name;
        unsigned *number, most;
    } numbers[] = {{"instances", &load->instances, SITE_INSTANCES_MAX},
                   {"stock", &load->stock, NUMBER_MAX},
                   {"buyers", &load->crowd.buyers, BUYERS_MAX},
                   {"orders", &load->crowd.orders, NUMBER_MAX},
                   {"within-ms", &load->crowd.within_ms, NUMBER_MAX},
                   {"wrk", &load->wrk_connections, NUMBER_MAX}};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(numbers[i].name, key) == 0)
            return set_number(reader, numbers[i].number, key, value,
                              numbers[i].most);
    if (strcmp(key, "lock") == 0) {
        load->lock = value;
        return dlock_strategy_find(value) ||
               fail(reader, "there is no lock '%s'", value);
    }
    if (strcmp(key, "flags") == 0)
        load->flags = value;
    else if (key[0] >= 'a' && (unsigned)(key[0] - 'a') < load->instances &&
             !key[1])
        load->each[key[0] - 'a'] = value;
    else if (strcmp(key, "story") == 0)
        return set_story(reader, play, value);
    else if (strcmp(key, "measure") == 0)
        return set_function(reader, &load->measure, value);
    else if (strcmp(key, "judge") == 0)
        return set_function(reader, &load->judge, value);
    else
        return fail(reader, "there is no '%s' with real instances", key);
    return true;
}

static bool set_play(struct reader *reader, struct experiment_play *play,
                     const char *key, char *value)
{
    bool is_sold = strcmp(key, "sold") == 0, good;
    unsigned sold;

    if (strcmp(key, "faults") == 0)
        return set_faults(reader, play, value);
    if (strcmp(key, "says") == 0) {
        play->says = value;
        return true;
    }
    if (is_sold && play->load && strcmp(value, "any") == 0) {
        play->sold = LOAD_SOLD_ANY;
        return true;
    }
    if (is_sold) {
        good = set_number(reader, &sold, key, value, NUMBER_MAX);
        play->sold = sold;
        return good;
    }
    return play->load ? set_load(reader, play, key, value)
                      : set_steps(reader, play, key, value);
}

/* The fix is the bug, and the rest is the fix, but for what is said and expected; both
 * play the bug's schedule, unless they have another one. */
static bool begin_play(struct reader *reader, unsigned index)
{
    struct experiment_play *plays = reader->into->plays, *play = &plays[index];
    const struct experiment_play *bug = &plays[EXPERIMENT_BUG], *base = bug;

    if (index == EXPERIMENT_REST && experiment_has(&plays[EXPERIMENT_FIX]))
        base = &plays[EXPERIMENT_FIX];
    if (play == bug)
        play->scene = (struct stage_scene)STAGE_SCENE(NULL);
    else if (!experiment_has(bug))
        return fail(reader, "there is no [bug] with a lock before it");
    else
        *play = (struct experiment_play){.scene = base->scene,
                                         .schedule = bug->schedule};
    if (reader->into->kind == &steps_kind)
        return true;
    play->scene = (struct stage_scene){.lock = NULL};
    play->load = calloc(1, sizeof(*play->load));
    if (!play->load)
        return fail(reader, "no memory");
    if (play != bug)
        *play->load = *base->load;
    play->load->judge = NULL;
    return true;
}

/* ---- the file ------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t offset;
} texts[] = {{"title", offsetof(struct experiment_text, title)},
             {"symptom", offsetof(struct experiment_text, symptom)},
             {"see", offsetof(struct experiment_text, see)},
             {"why", offsetof(struct experiment_text, why)},
             {"fix", offsetof(struct experiment_text, fix)},
             {"rest", offsetof(struct experiment_text, rest)}};

enum { TEXTS_N = sizeof(texts) / sizeof(texts[0]), TEXTS_NEEDED = TEXTS_N - 1 };

static const char **text_at(struct experiment_text *text, size_t index)
{
    return (const char **)(void *)((char *)text + texts[index].offset);
}

static bool set_text(struct reader *reader, struct experiment_text *text,
                     const char *key, const char *value)
{
    for (size_t i = 0; i < TEXTS_N; i++)
        if (strcmp(texts[i].name, key) == 0) {
            *text_at(text, i) = value;
            return true;
        }
    return fail(reader, "there is no text '%s'", key);
}

static bool set_head(struct reader *reader, const char *key, const char *value)
{
    bool is_load = strcmp(value, load_kind.name) == 0;

    if (strcmp(key, "family") == 0) {
        reader->into->family = value;
        return true;
    }
    if (strcmp(key, "kind") != 0)
        return fail(reader, "before [en] there are family and kind, not '%s'",
                    key);
    reader->into->kind = is_load ? &load_kind : &steps_kind;
    return is_load || strcmp(value, steps_kind.name) == 0 ||
           fail(reader, "kind is steps or load");
}

/* Is LINE "[NAME]"? */
static bool is_section(const char *line, const char *name)
{
    size_t n = strlen(name);

    return strncmp(line + 1, name, n) == 0 && strcmp(line + 1 + n, "]") == 0;
}

static bool begin_section(struct reader *reader, const char *line)
{
    do
        if (++reader->section == SECTIONS_N)
            return fail(reader,
                        "%s: the sections are [en] [zh] [bug] [fix] [rest], in "
                        "this order",
                        line);
    while (!is_section(line, sections[reader->section]));
    reader->keys_n = 0;
    return reader->section < EXPERIMENT_LANGUAGES_N ||
           begin_play(reader,
                      (unsigned)reader->section - EXPERIMENT_LANGUAGES_N);
}

/* "key       value" */
static bool read_line(struct reader *reader, char *line)
{
    char *key = strsep(&line, " \t"), *value = line ? line : key + strlen(key);
    int section = reader->section;

    value += strspn(value, " \t");
    for (unsigned i = 0; i < reader->keys_n; i++)
        if (strcmp(reader->keys[i], key) == 0)
            return fail(reader, "'%s' is there twice", key);
    if (reader->keys_n < KEYS_MAX)
        reader->keys[reader->keys_n++] = key;
    return section < 0 ? set_head(reader, key, value)
           : section < EXPERIMENT_LANGUAGES_N
               ? set_text(reader, &reader->into->text[section], key, value)
               : set_play(
                     reader,
                     &reader->into->plays[section - EXPERIMENT_LANGUAGES_N],
                     key, value);
}

static bool has_all(struct reader *reader, bool is_ours)
{
    struct experiment *into = reader->into;
    const struct experiment_play *bug = &into->plays[EXPERIMENT_BUG];
    bool has_rest = experiment_has(&into->plays[EXPERIMENT_REST]);

    if (!into->family && is_ours)
        return fail(reader, "there is no family");
    if (!into->family)
        into->family = "of one's own";
    if (!into->text[EXPERIMENT_ZH].title && !is_ours)
        into->text[EXPERIMENT_ZH] = into->text[EXPERIMENT_EN];
    for (int i = 0; i < EXPERIMENT_LANGUAGES_N; i++) {
        for (size_t j = 0; j < TEXTS_NEEDED; j++)
            if (!*text_at(&into->text[i], j) || !**text_at(&into->text[i], j))
                return fail(reader, "[%s] has no %s", sections[i],
                            texts[j].name);
        if (has_rest != (into->text[i].rest != NULL))
            return fail(reader, "[%s] has %s rest, as the plays have %s",
                        sections[i], has_rest ? "no" : "a",
                        has_rest ? "one" : "none");
    }
    if (!(bug->load ? bug->load->lock : bug->scene.lock))
        return fail(reader, "[bug] has no lock");
    if (bug->load && (bug->load->instances == 0 || !bug->load->flags))
        return fail(reader, "[bug] has no instances, or no flags");
    return bug->load || bug->schedule || fail(reader, "[bug] has no schedule");
}

static bool read_name(struct reader *reader)
{
    const char *base = strrchr(reader->file, '/');
    struct experiment *into = reader->into;
    int end = 0;

    base = base ? base + 1 : reader->file;
    return (sscanf(base, "%7[0-9w]-%39[a-z0-9-].txt%n", into->id, into->name,
                   &end) == 2 &&
            end > 0 && !base[end]) ||
           fail(reader, "a file is called NUMBER-NAME.txt, 08-my-own.txt");
}

bool experiment_read(const char *path, char *content, bool is_ours,
                     struct experiment *experiment, char *error,
                     size_t error_size)
{
    struct reader reader = {.file = path,
                            .at = content,
                            .section = -1,
                            .into = experiment,
                            .error = error,
                            .error_size = error_size};
    bool good;
    char *line;

    *experiment = (struct experiment){.kind = &steps_kind, .content = content};
    good = content ? read_name(&reader) : fail(&reader, "no memory");
    while (good && (line = next_line(&reader)) != NULL)
        if (*line == '[')
            good = begin_section(&reader, line);
        else if (*line && *line != '#')
            good = read_line(&reader, line);
    good = good && has_all(&reader, is_ours);
    if (!good)
        experiment_release(experiment);
    return good;
}

void experiment_release(struct experiment *experiment)
{
    for (unsigned i = 0; i < EXPERIMENT_PLAYS_N; i++)
        free(experiment->plays[i].load);
    free(experiment->content);
    *experiment = (struct experiment){.content = NULL};
}

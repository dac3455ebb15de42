/* All experiments, as the build has found their files. See experiment.h. */
#include <stdlib.h>
#include <string.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/fail.h"

static const struct {
    const char *name, *content;
} files[] = {
#include "server/lab/experiments/all.inc"
};

enum {
    FILES_N = sizeof(files) / sizeof(files[0]),
    ERROR_BYTES = 1000,
    WORD_BYTES_MAX = 64 /* longer ones are like no other */
};

/* A file that is wrong is a bug of ours, which each test of the lab finds. */
static const struct experiment *all_of_them(void)
{
    static struct experiment all[FILES_N];
    char error[ERROR_BYTES];

    for (size_t i = 0; i < FILES_N && !all[FILES_N - 1].content; i++)
        if (!experiment_read(files[i].name, strdup(files[i].content), &all[i],
                             error, sizeof(error)))
            exit(fail_to_run("%s", error));
    return all;
}

const struct experiment *experiment_at(size_t index)
{
    return index < FILES_N ? &all_of_them()[index] : NULL;
}

enum experiment_language experiment_language(unsigned look)
{
    return look & DRAW_CHINESE ? EXPERIMENT_ZH : EXPERIMENT_EN;
}

const char *experiment_lock(const struct experiment_play *play)
{
    return play->scene.lock ? play->scene.lock : play->load.lock;
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
    return plays->faults != 0 || plays->says         ? "With the bug"
           : experiment_lock(&plays[EXPERIMENT_FIX]) ? "Without the fix"
                                                     : "What is played";
}

json_t *experiment_json(const struct experiment_run *run)
{
    if (run->error[0])
        return json_pack("{s:o}", "error", draw_json_text(run->error, 0));
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

const struct experiment *experiment_find(const char *name)
{
    const struct experiment *one, *begun = NULL;
    unsigned begun_n = 0;

    for (size_t i = 0; (one = experiment_at(i)) != NULL; i++) {
        if (is_called(one, name))
            return one;
        if (*name && strncmp(one->name, name, strlen(name)) == 0) {
            begun = one;
            begun_n++;
        }
    }
    return begun_n == 1 ? begun : NULL;
}

/* How many bytes have to be put in, taken out or changed to make B of A
 * (Levenshtein). ROW has what that is for the beginnings of B. */
static size_t edits(const char *a, const char *b)
{
    size_t row[WORD_BYTES_MAX + 1], n = strlen(b), corner, change;

    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            change = corner + (a[i] != b[j]);
            corner = row[j + 1];
            row[j + 1] = 1 + (corner < row[j] ? corner : row[j]);
            if (change < row[j + 1])
                row[j + 1] = change;
        }
    }
    return row[n];
}

bool experiment_is_nearest(const char *name, const char *word, size_t *least)
{
    size_t n;

    if (*least == 0)
        *least = 2 + strlen(name) / 4;
    if (strlen(word) > WORD_BYTES_MAX)
        return false;
    n = edits(name, word);
    if (n >= *least)
        return false;
    *least = n;
    return true;
}

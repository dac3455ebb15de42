/* See load.h. All of it happens while the run waits for something, on its thread:
 * the site asks whether to go on. */
#include "server/lab/load/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/lab/picture/draw.h"
#include "server/lab/scene/stage_options.h"

enum {
    SAMPLES_MAX = 120, /* when there are so many, every second one goes */
    SAMPLE_US = 50000,
    UNSEEN_MS = 15000,
    LAST_LOOK_MS = 200,
};

/* Counters of all instances: their names in an answer, and in /metrics. */
static const struct {
    const char *name, *metric;
} counters[] = {
    {"placed", "\nstockade_orders_total{outcome=\"placed\"} "},
    {"sold_out", "\nstockade_orders_total{outcome=\"sold-out\"} "},
    {"overloaded", "\nstockade_orders_total{outcome=\"overloaded\"} "},
    {"lock_timeout", "\nstockade_orders_total{outcome=\"lock-timeout\"} "},
    {"orders", "\nstockade_order_seconds_count "},
    {"orders_s", "\nstockade_order_seconds_sum "},
    {"waits", "\nstockade_lock_wait_seconds_count "},
    {"waits_s", "\nstockade_lock_wait_seconds_sum "},
};

enum { COUNTERS_N = sizeof(counters) / sizeof(counters[0]) };

struct sample {
    uint64_t ms;
    double counts[COUNTERS_N];
    int64_t stock; /* -1: it could not be read */
};

static struct {
    struct experiment_run *run; /* that is watched; NULL = none */
    bool is_on;                 /* its load is under way */
    struct store_reader *reader;
    struct sample samples[SAMPLES_MAX];
    unsigned units, n;
    uint64_t every_us, next_us, seen_ms;
    double base[SITE_INSTANCES_MAX][COUNTERS_N]; /* of its processes before */
    double last[SITE_INSTANCES_MAX][COUNTERS_N];
    bool has_gone;
} watch;

/* ---- samples ------------------------------------------------------------ */

static void take_sample(uint64_t now_us)
{
    struct store_units units;
    struct sample *sample;

    /* Samples become fewer, and not shorter: the whole run stays in sight. */
    if (watch.n == SAMPLES_MAX) {
        for (unsigned i = 0; i < SAMPLES_MAX / 2; i++)
            watch.samples[i] = watch.samples[2 * i + 1];
        watch.n = SAMPLES_MAX / 2;
        watch.every_us *= 2;
    }
    sample = &watch.samples[watch.n++];
    *sample =
        (struct sample){.ms = (now_us - load.begun_us) / 1000, .stock = -1};
    /* The reader opens with the first sample: before that there is no database. */
    if (load.play->stock > 0 && !watch.reader &&
        store_reader_open_url(site.db_url, &watch.reader, NULL) != STORE_OK)
        watch.reader = NULL;
    if (watch.reader &&
        store_units_left(watch.reader, &units, NULL) == STORE_OK)
        sample->stock = units.left;
    for (unsigned who = 0; who < SITE_INSTANCES_MAX; who++) {
        enum site_state state = site.instances[who].state;
        /* A scrape has the instance try its lock. The release of that try ends the
         * guard thread's renewals, on which a story of one that is held depends. */
        const char *metrics = state == SITE_RUNS ? buyers_scrape(who) : NULL;

        /* Counters of a process that has ended stay as they were last seen. */
        for (int i = 0; i < COUNTERS_N; i++) {
            double *last = &watch.last[who][i], *base = &watch.base[who][i];
            const char *metric = counters[i].metric;
            const char *at = metrics ? strstr(metrics, metric) : NULL;
            double value = at ? strtod(at + strlen(metric), NULL) : 0;

            /* Counters begin at nought when an instance is started anew. */
            if (metrics && value < *last)
                *base += *last;
            if (metrics)
                *last = value;
            sample->counts[i] += *base + *last;
        }
    }
    watch.next_us = now_us + watch.every_us;
}

/* ---- answers ------------------------------------------------------------ */

static json_t *samples(void)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < watch.n; i++) {
        const struct sample *sample = &watch.samples[i];
        json_t *one =
            json_pack("{s:I, s:o?}", "ms", (json_int_t)sample->ms, "stock",
                      sample->stock < 0 ? NULL : json_integer(sample->stock));

        for (int c = 0; c < COUNTERS_N; c++)
            (void)json_object_set_new(one, counters[c].name,
                                      json_real(sample->counts[c]));
        (void)json_array_append_new(list, one);
    }
    return list;
}

/* False: nobody reads. */
static bool answer(const struct experiment_run *run, bool is_done)
{
    json_t *all = json_pack("{s:b}", "done", is_done);

    /* The run keeps its object: what it has so far is put into each answer once more. */
    (void)json_object_update(all, run->json);
    (void)json_object_update_new(all, json_pack("{s:i, s:o}", "units",
                                                (int)watch.units, "samples",
                                                samples()));
    if (is_done)
        (void)json_object_update_new(all, experiment_json(run));
    draw_json_line(stdout, all);
    return fflush(stdout) == 0;
}

bool load_watch_ends(void)
{
    uint64_t now_us = clock_us();
    int questions;

    /* Once gone, always gone: a viewer does not come back. */
    if (!watch.is_on || watch.has_gone)
        return watch.has_gone || stage_options_interrupted();
    /* The sale has begun: before it there is nothing to count. */
    if (load.begun_us > 0 && now_us >= watch.next_us)
        take_sample(now_us);
    questions = stage_options_questions(0);
    watch.has_gone = questions < 0;
    for (; questions > 0 && !watch.has_gone; questions--) {
        watch.has_gone = !answer(watch.run, false);
        watch.seen_ms = now_us / 1000;
    }
    watch.has_gone = watch.has_gone || stage_options_interrupted() ||
                     now_us / 1000 > watch.seen_ms + UNSEEN_MS;
    return watch.has_gone;
}

void load_watch_begin(void)
{
    /* A run that nobody watches takes no samples. */
    if (load.run != watch.run)
        return;
    watch.is_on = true;
    watch.units = load.play->stock;
    watch.every_us = SAMPLE_US;
    watch.seen_ms = clock_ms();
}

/* The last sample is of when nobody orders any more: the one before it asks. */
void load_watch_end(void)
{
    /* The first of the two asks for counters, the second has them. */
    for (int i = 0; i < 2 && watch.n > 0; i++) {
        buyers_await_scrapes();
        take_sample(clock_us());
    }
    store_reader_close(watch.reader);
    watch.reader = NULL;
    watch.is_on = false;
}

int load_watch_main(const struct experiment_play *play, unsigned look)
{
    struct experiment_run run = {.look = look,
                                 .json = json_pack("{s:[]}", "timeline")};
    uint64_t until_ms;
    int questions = 0;
    bool ran;

    watch.run = &run;
    stage_options_catch_signals();
    (void)answer(&run, false);
    ran = load_kind.run(play, &run);
    /* The last answer waits for its question, unless the viewer is gone. */
    until_ms = clock_ms() + UNSEEN_MS;
    while (!watch.has_gone && questions == 0 && clock_ms() < until_ms &&
           !stage_options_interrupted())
        questions = stage_options_questions(LAST_LOOK_MS);
    if (questions > 0)
        (void)answer(&run, true);
    watch.run = NULL;
    json_decref(run.json);
    return ran ? 0 : 2;
}

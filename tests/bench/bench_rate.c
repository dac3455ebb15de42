/*
 * Taking and giving without contention: every connection has a name of its
 * own. And what the bench's files share.
 */
#include "tests/bench/bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"

enum {
    THREADS_MAX = 9, /* names end in one digit */
    TIMES_MAX = 200000,
    TURN_CYCLES = 50, /* before it is the other one's turn */
    CYCLES_COUNTED = 200,
};

static atomic_uint_fast64_t steps_n;

/* Shared ------------------------------------------------------------------- */

static enum dlock_verdict count_step(void *ctx, const struct dlock_step *step)
{
    (void)ctx;
    if (step->phase == DLOCK_BEFORE)
        (void)atomic_fetch_add(&steps_n, 1);
    return DLOCK_GO;
}

static void *need(void *made)
{
    if (made == NULL) {
        fprintf(stderr, "bench: cannot set up\n");
        abort();
    }
    return made;
}

struct dlock *bench_client(const struct redis_server *server,
                           const char *strategy)
{
    const struct dlock_options options = {.strategy = strategy,
                                          .url = redis_server_url(server),
                                          .on_step = count_step};
    struct dlock *client = NULL;

    (void)dlock_open(&options, &client, NULL);
    return need(client);
}

struct dlock_session *bench_session(struct dlock *client)
{
    struct dlock_session *session = NULL;

    (void)dlock_session_open(client, &session, NULL);
    return need(session);
}

uint64_t bench_steps(void)
{
    return atomic_load(&steps_n);
}

void bench_times_init(struct bench_times *times, size_t n_max)
{
    *times = (struct bench_times){
        .us = need(malloc(n_max * sizeof(*times->us))), .n_max = n_max};
}

void bench_times_release(struct bench_times *times)
{
    free(times->us);
}

void bench_times_add(struct bench_times *times, uint64_t us)
{
    if (times->n < times->n_max)
        times->us[times->n] = (uint32_t)us;
    times->n++;
}

static int compare(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

double bench_quantile(struct bench_times *times, double fraction)
{
    size_t n = times->n < times->n_max ? times->n : times->n_max;

    if (n == 0)
        return 0;
    qsort(times->us, n, sizeof(times->us[0]), compare);
    return times->us[(size_t)(fraction * (double)(n - 1))];
}

/* The slices --------------------------------------------------------------- */

/* What the two ways of doing it have taken. */
struct tally {
    uint64_t us;
    struct bench_times times;
};

struct runner {
    struct dlock_session *session;
    struct bench_raw *raw;
    unsigned slice_ms;
    struct tally by_lib, by_raw;
    char name[32];
};

static void cycle(const struct runner *runner)
{
    const struct dlock_terms terms = {.lease_ms = 30000};
    struct dlock_grant grant;

    if (dlock_acquire(runner->session, runner->name, &terms, &grant, NULL) !=
            DLOCK_OK ||
        dlock_release(runner->session, &grant, NULL) != DLOCK_OK)
        (void)need(NULL);
}

/* One's turn: some cycles, each timed. */
static void turn(const struct runner *runner, struct bench_raw *raw,
                 struct tally *tally)
{
    for (unsigned i = 0; i < TURN_CYCLES; i++) {
        uint64_t began = clock_us(), took;

        if (raw != NULL)
            bench_raw_cycle(raw);
        else
            cycle(runner);
        took = clock_us() - began;
        tally->us += took;
        bench_times_add(&tally->times, took);
    }
}

static void *run(void *arg)
{
    struct runner *runner = arg;
    uint64_t until;

    cycle(runner); /* connects and loads scripts */
    until = clock_ms() + runner->slice_ms;
    while (clock_ms() < until) {
        turn(runner, NULL, &runner->by_lib);
        turn(runner, runner->raw, &runner->by_raw);
    }
    return NULL;
}

static void runner_open(struct runner *runner, struct dlock *client,
                        const struct redis_server *server, const char *strategy,
                        unsigned number)
{
    runner->session = bench_session(client);
    runner->raw = bench_raw_open(server, strategy, number);
    bench_times_init(&runner->by_lib.times, TIMES_MAX);
    bench_times_init(&runner->by_raw.times, TIMES_MAX);
    (void)snprintf(runner->name, sizeof(runner->name), "bench:%u", number);
}

/* The first connection stands for the quantiles: all are alike. */
static void tally_up(struct tally *tally, struct bench_rate *rate)
{
    if (rate->per_s == 0) {
        rate->p50_us = bench_quantile(&tally->times, 0.5);
        rate->p99_us = bench_quantile(&tally->times, 0.99);
    }
    rate->per_s += (double)tally->times.n * 1000000 / (double)tally->us;
    bench_times_release(&tally->times);
}

void bench_rates(const struct redis_server *server, const char *strategy,
                 unsigned threads_n, unsigned slice_ms, struct bench_rate *lib,
                 struct bench_rate *raw)
{
    struct dlock *client = bench_client(server, strategy);
    struct runner runners[THREADS_MAX] = {{.slice_ms = 0}};
    pthread_t threads[THREADS_MAX];

    *lib = *raw = (struct bench_rate){.per_s = 0};
    for (unsigned i = 0; i < threads_n; i++) {
        runners[i].slice_ms = slice_ms;
        runner_open(&runners[i], client, server, strategy, i);
    }
    for (unsigned i = 0; i < threads_n; i++)
        (void)pthread_create(&threads[i], NULL, run, &runners[i]);
    for (unsigned i = 0; i < threads_n; i++)
        (void)pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < threads_n; i++) {
        tally_up(&runners[i].by_lib, lib);
        tally_up(&runners[i].by_raw, raw);
        bench_raw_close(runners[i].raw);
        dlock_session_close(runners[i].session);
    }
    dlock_close(client);
}

static double executed_ever(const struct redis_server *server)
{
    static const char field[] = "total_commands_processed:";
    char info[4096];
    const char *found;

    redis_server_ask(server, "INFO stats", info, sizeof(info));
    found = strstr(info, field);
    return found == NULL ? 0 : strtod(found + strlen(field), NULL);
}

void bench_commands(const struct redis_server *server, const char *strategy,
                    double *sent, double *executed)
{
    struct dlock *client = bench_client(server, strategy);
    struct runner runner = {.session = bench_session(client),
                            .name = "bench:count"};
    uint64_t sent_before;
    double executed_before;

    cycle(&runner);
    executed_before = executed_ever(server);
    sent_before = bench_steps();
    for (unsigned i = 0; i < CYCLES_COUNTED; i++)
        cycle(&runner);
    *sent = (double)(bench_steps() - sent_before) / CYCLES_COUNTED;
    /* One of them is the question itself. */
    *executed = (executed_ever(server) - executed_before - 1) / CYCLES_COUNTED;
    dlock_session_close(runner.session);
    dlock_close(client);
}

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
    THREADS_MAX = 9,  /* names end in one digit */
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

void bench_add(struct bench_series *series, double value)
{
    /* Twice as much whenever it is a power of two, and so may be full. */
    if ((series->n & (series->n - 1)) == 0)
        series->at = need(
            realloc(series->at, (2 * series->n + 1) * sizeof(*series->at)));
    series->at[series->n++] = value;
}

void bench_release(struct bench_series *series)
{
    free(series->at);
    *series = (struct bench_series){.n = 0};
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

double bench_quantile(struct bench_series *series, double fraction)
{
    if (series->n == 0)
        return 0;
    qsort(series->at, series->n, sizeof(series->at[0]), compare);
    return series->at[(size_t)(fraction * (double)(series->n - 1))];
}

/* The slices --------------------------------------------------------------- */

/* What the two ways of doing it have taken. */
struct tally {
    double us;
    struct bench_series times;
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
        tally->us += (double)took;
        bench_add(&tally->times, (double)took);
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
    (void)snprintf(runner->name, sizeof(runner->name), "bench:%u", number);
}

static double per_s(const struct tally *tally)
{
    return (double)tally->times.n * 1000000 / tally->us;
}

/* The first connection stands for the quantiles: all are alike. */
void bench_rates(const struct redis_server *server, const char *strategy,
                 unsigned threads_n, unsigned slice_ms, struct bench_cost *cost)
{
    struct dlock *client = bench_client(server, strategy);
    struct runner runners[THREADS_MAX] = {{.slice_ms = 0}};
    pthread_t threads[THREADS_MAX];
    double lib = 0, raw = 0;

    for (unsigned i = 0; i < threads_n; i++) {
        runners[i].slice_ms = slice_ms;
        runner_open(&runners[i], client, server, strategy, i);
    }
    for (unsigned i = 0; i < threads_n; i++)
        (void)pthread_create(&threads[i], NULL, run, &runners[i]);
    for (unsigned i = 0; i < threads_n; i++)
        (void)pthread_join(threads[i], NULL);
    bench_add(&cost->p50_us, bench_quantile(&runners[0].by_lib.times, 0.5));
    bench_add(&cost->p99_us, bench_quantile(&runners[0].by_lib.times, 0.99));
    bench_add(&cost->raw_p50_us, bench_quantile(&runners[0].by_raw.times, 0.5));
    bench_add(&cost->raw_p99_us,
              bench_quantile(&runners[0].by_raw.times, 0.99));
    for (unsigned i = 0; i < threads_n; i++) {
        lib += per_s(&runners[i].by_lib);
        raw += per_s(&runners[i].by_raw);
        bench_release(&runners[i].by_lib.times);
        bench_release(&runners[i].by_raw.times);
        bench_raw_close(runners[i].raw);
        dlock_session_close(runners[i].session);
    }
    bench_add(&cost->lib, lib);
    bench_add(&cost->raw, raw);
    bench_add(&cost->ratio, lib / raw);
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

/*
 * `make bench-locks`: what a lock costs without contention. Nothing here passes
 * or fails; it measures.
 *
 * Connections take and give names of their own, by turns through the library
 * and raw: some cycles each, on the same thread, so that a machine which is
 * busy now and idle then is so for both. The ratio is that of the library's
 * rate to the raw one's. Its range over the rounds is printed with it: a ratio
 * means something when that range is narrow.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lock/dlock_textbook.h"
#include "server/base/clock.h"
#include "tests/bench/bench_raw.h"

enum {
    ROUNDS = 5,
    SLICE_MS = 300,
    TURN_CYCLES = 50, /* before it is the other one's turn */
    CYCLES_COUNTED = 200,
    THREADS_MAX = 8,
};

static const char *const locks[] = {"set-nx-px", "token-lua", "spin",
                                    "redisson",  "fair",      "fenced"};
static const unsigned threads[] = {1, THREADS_MAX};

enum { LOCKS_N = sizeof(locks) / sizeof(locks[0]) };

/* Cycles a second, of each round. */
struct cost {
    double lib[ROUNDS], raw[ROUNDS], ratio[ROUNDS];
};

/* Per cycle: commands sent, and executed by the server, scripts' included. */
struct commands {
    double sent, executed;
};

struct runner {
    pthread_t thread;
    struct dlock_session *session;
    struct bench_raw *raw;
    unsigned long long cycles, lib_us, raw_us;
    char name[32];
};

static atomic_uint_fast64_t steps_n;

static enum dlock_verdict count_step(void *ctx, const struct dlock_step *step)
{
    if (step->phase == DLOCK_BEFORE)
        (void)atomic_fetch_add(&steps_n, 1);
    return DLOCK_GO;
}

static struct dlock *open_client(const struct redis_server *server,
                                 const char *strategy)
{
    const struct dlock_options options = {.strategy = strategy,
                                          .url = redis_server_url(server),
                                          .on_step = count_step};
    struct dlock *client;

    if (dlock_open(&options, &client, NULL) != DLOCK_OK)
        abort();
    return client;
}

static struct dlock_session *open_session(struct dlock *client)
{
    struct dlock_session *session;

    if (dlock_session_open(client, &session, NULL) != DLOCK_OK)
        abort();
    return session;
}

static void *run(void *arg)
{
    struct runner *runner = arg;
    uint64_t until_ms = clock_ms() + SLICE_MS;

    while (clock_ms() < until_ms) {
        uint64_t began_us = clock_us(), between_us;

        for (int i = 0; i < TURN_CYCLES; i++)
            bench_cycle(runner->session, runner->name);
        between_us = clock_us();
        for (int i = 0; i < TURN_CYCLES; i++)
            bench_raw_cycle(runner->raw);
        runner->lib_us += between_us - began_us;
        runner->raw_us += clock_us() - between_us;
        runner->cycles += TURN_CYCLES;
    }
    return NULL;
}

static void measure_round(const struct redis_server *server,
                          const char *strategy, unsigned threads_n,
                          struct cost *cost, unsigned round)
{
    struct dlock *client = open_client(server, strategy);
    struct runner runners[THREADS_MAX] = {{.cycles = 0}};

    for (unsigned i = 0; i < threads_n; i++) {
        runners[i].session = open_session(client);
        runners[i].raw = bench_raw_open(server, runners[i].session, i);
        (void)snprintf(runners[i].name, sizeof(runners[i].name), "bench:%u", i);
    }
    for (unsigned i = 0; i < threads_n; i++)
        (void)pthread_create(&runners[i].thread, NULL, run, &runners[i]);
    for (unsigned i = 0; i < threads_n; i++) {
        struct runner *runner = &runners[i];
        double cycles;

        (void)pthread_join(runner->thread, NULL);
        cycles = 1e6 * (double)runner->cycles;
        cost->lib[round] += cycles / (double)runner->lib_us;
        cost->raw[round] += cycles / (double)runner->raw_us;
        bench_raw_close(runner->raw);
        dlock_session_close(runner->session);
    }
    cost->ratio[round] = cost->lib[round] / cost->raw[round];
    dlock_close(client);
}

static struct commands count_commands(const struct redis_server *server,
                                      const char *strategy)
{
    static const char ever[] = "total_commands_processed:";
    struct dlock *client = open_client(server, strategy);
    struct dlock_session *session = open_session(client);
    struct commands commands;
    long long executed;

    bench_cycle(session, "bench:count"); /* connects and loads scripts */
    executed = redis_server_info(server, "stats", ever);
    atomic_store(&steps_n, 0);
    for (unsigned i = 0; i < CYCLES_COUNTED; i++)
        bench_cycle(session, "bench:count");
    commands.sent = (double)atomic_load(&steps_n) / CYCLES_COUNTED;
    /* One of them is the question itself. */
    executed = redis_server_info(server, "stats", ever) - executed - 1;
    commands.executed = (double)executed / CYCLES_COUNTED;
    dlock_session_close(session);
    dlock_close(client);
    return commands;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Sorts as well. */
static double median(double *rounds)
{
    qsort(rounds, ROUNDS, sizeof(rounds[0]), compare);
    return rounds[ROUNDS / 2];
}

static void print_row(const char *lock, unsigned threads_n, struct cost *cost,
                      struct commands commands)
{
    double ratio = median(cost->ratio);

    printf("%-12s %4u %10.0f %10.0f %6.3f %5.2f-%-5.2f %6.2f %9.2f\n", lock,
           threads_n, median(cost->lib), median(cost->raw), ratio,
           cost->ratio[0], cost->ratio[ROUNDS - 1], commands.sent,
           commands.executed);
}

int main(void)
{
    static struct cost costs[LOCKS_N][2];
    struct commands commands[LOCKS_N];
    struct redis_server *server = redis_server_start();

    dlock_register_all();
    for (int i = 0; i < LOCKS_N; i++)
        commands[i] = count_commands(server, locks[i]);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2 * LOCKS_N; i++) {
            fprintf(stderr, "\rround %u of %d, %-12s", round + 1, ROUNDS,
                    locks[i / 2]);
            measure_round(server, locks[i / 2], threads[i % 2],
                          &costs[i / 2][i % 2], round);
        }
    redis_server_stop(server);
    fprintf(stderr, "\r%40s\r", "");
    printf("%-12s %4s %10s %10s %6s %11s %6s %9s\n", "lock", "conn", "cycles/s",
           "raw/s", "ratio", "range", "sent", "executed");
    for (int i = 0; i < 2 * LOCKS_N; i++)
        print_row(i % 2 ? "" : locks[i / 2], threads[i % 2],
                  &costs[i / 2][i % 2], commands[i / 2]);
    return 0;
}

/*
 * The bench's main: rounds, medians, two tables.
 *
 *     bench_locks [--rounds N] [--slice-ms MS]
 *
 * The ratio is that of the library's rate to the raw one's, both measured by
 * turns on one thread. Its range over the rounds is printed with it: a ratio
 * means something when that range is narrow.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dlock_textbook.h"
#include "tests/bench/bench.h"

enum { ROUNDS_MAX = 50, LOCKS_MAX = 32, HANDOVERS = 40 };

struct options {
    unsigned rounds;
    unsigned slice_ms;
};

struct row {
    const char *lock;
    struct bench_cost one, eight;
    double sent, executed;
    bool waits; /* the rest was measured as well */
    struct bench_series handover_p50_us, handover_p99_us;
    struct bench_series longest_ms, overtakes, worst;
};

/* The locks that the goal is about, and those whose waiting is compared. */
static const struct {
    const char *lock;
    bool waits;
} plan[] = {
    {"set-nx-px", false}, {"token-lua", true}, {"spin", true},
    {"redisson", true},   {"fair", true},      {"fenced", true},
};

static double median(struct bench_series *series)
{
    return bench_quantile(series, 0.5);
}

static void measure_waits(const struct redis_server *server, struct row *row)
{
    struct bench_crowd crowd = bench_crowd(server, row->lock);
    struct bench_series us = {.n = 0};

    bench_handover(server, row->lock, HANDOVERS, &us);
    bench_add(&row->handover_p50_us, bench_quantile(&us, 0.5));
    bench_add(&row->handover_p99_us, bench_quantile(&us, 0.99));
    bench_release(&us);
    bench_add(&row->longest_ms, crowd.longest_ms);
    bench_add(&row->overtakes, crowd.overtakes);
    bench_add(&row->worst, crowd.worst);
}

static void measure(const struct redis_server *server,
                    const struct options *options, struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bench_commands(server, rows[i].lock, &rows[i].sent, &rows[i].executed);
    for (unsigned round = 0; round < options->rounds; round++)
        for (size_t i = 0; i < n; i++) {
            fprintf(stderr, "\rround %u of %u, %-12s", round + 1,
                    options->rounds, rows[i].lock);
            bench_rates(server, rows[i].lock, 1, options->slice_ms,
                        &rows[i].one);
            bench_rates(server, rows[i].lock, 8, options->slice_ms,
                        &rows[i].eight);
            if (rows[i].waits)
                measure_waits(server, &rows[i]);
        }
    fprintf(stderr, "\r%40s\r", "");
}

/* Output ------------------------------------------------------------------- */

static void print_cost(struct row *rows, size_t n)
{
    printf("%-12s %4s %10s %10s %6s %11s %13s %13s %6s %9s\n", "lock", "conn",
           "cycles/s", "raw/s", "ratio", "range", "p50/p99 us", "raw p50/p99",
           "sent", "executed");
    for (size_t i = 0; i < 2 * n; i++) {
        struct row *row = &rows[i / 2];
        struct bench_cost *cost = i % 2 ? &row->eight : &row->one;

        printf("%-12s %4d %10.0f %10.0f %6.3f %5.2f-%-5.2f %6.0f/%-6.0f "
               "%6.0f/%-6.0f %6.2f "
               "%9.2f\n",
               i % 2 ? "" : row->lock, i % 2 ? 8 : 1, median(&cost->lib),
               median(&cost->raw), median(&cost->ratio),
               bench_quantile(&cost->ratio, 0), bench_quantile(&cost->ratio, 1),
               median(&cost->p50_us), median(&cost->p99_us),
               median(&cost->raw_p50_us), median(&cost->raw_p99_us), row->sent,
               row->executed);
    }
}

static void print_waits(struct row *rows, size_t n)
{
    printf("\n%-12s %20s %16s %16s %12s\n", "lock", "hand-over p50/p99 us",
           "longest wait ms", "overtakes/grant", "worst");
    for (size_t i = 0; i < n; i++)
        if (rows[i].waits)
            printf("%-12s %9.0f /%9.0f %16.1f %16.2f %12.0f\n", rows[i].lock,
                   median(&rows[i].handover_p50_us),
                   median(&rows[i].handover_p99_us),
                   median(&rows[i].longest_ms), median(&rows[i].overtakes),
                   median(&rows[i].worst));
}

static bool options_read(int argc, char *argv[], struct options *options)
{
    *options = (struct options){.rounds = 5, .slice_ms = 300};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--rounds") == 0)
            options->rounds = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--slice-ms") == 0)
            options->slice_ms = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else
            return false;
    }
    return argc % 2 == 1 && options->rounds > 0 &&
           options->rounds <= ROUNDS_MAX && options->slice_ms > 0;
}

int main(int argc, char *argv[])
{
    static struct row rows[LOCKS_MAX];
    struct redis_server *server;
    struct options options;
    size_t n = 0;

    dlock_register_all();
    if (!options_read(argc, argv, &options)) {
        fputs("usage: bench_locks [--rounds N] [--slice-ms MS]\n", stderr);
        return 2;
    }
    for (size_t i = 0; i < sizeof(plan) / sizeof(plan[0]); i++)
        if (dlock_strategy_find(plan[i].lock) != NULL)
            rows[n++] =
                (struct row){.lock = plan[i].lock, .waits = plan[i].waits};
    server = redis_server_start();
    measure(server, &options, rows, n);
    redis_server_stop(server);
    print_cost(rows, n);
    print_waits(rows, n);
    return 0;
}

/*
 * The honest curve: what it brings to split a stock over segments, with each order
 * under a lock of its own and in batches, with and without something slow to do
 * under the lock. All of it is told next to one segment in the same run.
 */
#include <inttypes.h>
#include <stdio.h>

#include "server/base/clock.h"
#include "server/lab/load/load.h"

enum {
    FOR_MS = 500, /* one cell */
    WARM_MS = 100,
    UNITS = 1000000,
    BAR = 26, /* columns */
};

static const unsigned segments[] = {1, 2, 5, 10, 20};
static const unsigned think_ms[] = {0, 2, 10};
static const char *const orders[] = {"one-by-one", "batched"};

enum { SEGMENTS_N = 5, THINK_N = 3, ORDERS_N = 2 };

static double rates[ORDERS_N][THINK_N][SEGMENTS_N]; /* sold, a second */

/* Orders that were answered while all was under way. */
static double rate_of(const struct buyers *buyers, size_t from,
                      uint64_t begun_us)
{
    uint64_t since_us = begun_us + WARM_MS * UINT64_C(1000);
    uint64_t until_us = begun_us + FOR_MS * UINT64_C(1000);
    size_t n = 0;

    for (size_t i = from; i < buyers->orders_n; i++)
        n += buyers->orders[i].outcome == BUYERS_SOLD &&
             buyers->orders[i].answered_us >= since_us &&
             buyers->orders[i].answered_us < until_us;
    return (double)n * 1000 / (FOR_MS - WARM_MS);
}

static void tell_cell(struct load *load, int o, int t, int s)
{
    static const char bar[] = "##########################";
    const double *row = rates[o][t];
    double ratio = row[0] > 0 ? row[s] / row[0] : 0;
    int length = (int)(ratio + 0.5);

    load_tell(load, -1, "%-10s %2u ms %2u segment%s %6.0f/s %5.1f x %.*s",
              orders[o], think_ms[t], segments[s], segments[s] == 1 ? " " : "s",
              row[s], ratio,
              length < 1     ? 1
              : length > BAR ? BAR
                             : length,
              bar);
}

static bool measure_cell(struct load *load, int o, int t, int s, int64_t id)
{
    struct buyers_crowd crowd = load->play->crowd;
    size_t from = load->buyers.orders_n;
    uint64_t begun_us;

    if (!buyers_offer(&load->buyers, id, UNITS, segments[s]))
        return false;
    load->buyers.product_id = id;
    begun_us = clock_us();
    crowd.for_ms = FOR_MS;
    if (!buyers_crowd(&load->buyers, &crowd, 1))
        return false;
    rates[o][t][s] = rate_of(&load->buyers, from, begun_us);
    tell_cell(load, o, t, s);
    return true;
}

bool measure_segments(struct load *load)
{
    int64_t id = 1;
    char flags[64];

    for (int o = 0; o < ORDERS_N; o++)
        for (int t = 0; t < THINK_N; t++) {
            site_stop_all(&load->site);
            (void)snprintf(flags, sizeof(flags), "--orders %s --think-ms %u",
                           orders[o], think_ms[t]);
            if (!load_start(load, 0, flags) || !site_ready(&load->site))
                return false;
            for (int s = 0; s < SEGMENTS_N; s++)
                if (!measure_cell(load, o, t, s, id++))
                    return false;
        }
    return true;
}

static double best_of(const double row[SEGMENTS_N])
{
    double best = row[0];

    for (int s = 1; s < SEGMENTS_N; s++)
        best = row[s] > best ? row[s] : best;
    return best;
}

/* The promise is small: segments help who holds a lock for long, and batches
 * help more. One lock cannot do more than it should, and other programs slow down
 * the one cell or the other: hence the best of each row. */
bool measure_segments_as_told(struct load *load)
{
    const double *alone = rates[0][THINK_N - 1],
                 *batched = rates[1][THINK_N - 1];
    double one = alone[0] > 0 ? alone[0] : 1;
    double split = best_of(alone) / one, batches = best_of(batched) / one;

    (void)snprintf(load->run->said, sizeof(load->run->said),
                   "With 10 ms under the lock, compared with one segment and "
                   "order by order: segments sell up to %.1f times as much, "
                   "batches up to %.1f times",
                   split, batches);
    return split >= 3 && batches > split;
}

/* Waiting for a lock, and what segments bring, measured. See load.h. */
#include "server/lab/load/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"

enum {
    LATER_US =
        50000, /* sent so much later is later, whatever a busy machine did */
};

/* 19: refusals ---------------------------------------------------------------------- */

/* The part that was refused, although units were left. */
static bool refused(double *found)
{
    size_t not_now;

    if (!load_crowd())
        return false;
    not_now = buyers_count(BUYERS_NOT_NOW);
    (void)snprintf(load.run->said, sizeof(load.run->said),
                   "%zu buyers for %d units: %zu bought, %zu were refused",
                   buyers.orders_n, (int)load.play->stock,
                   buyers_count(BUYERS_SOLD), not_now);
    /* A crowd has sent orders, or load_crowd() would have failed: N is not 0. */
    *found = (double)not_now / (double)buyers.orders_n;
    return true;
}

/* 20: requests and latency ------------------------------------------------------------- */

/* Requests to Redis an order, which costs fewer than six if nobody polls. How late the
 * slowest is, is told; but a busy machine makes any order late. */
static bool waiting(double *found)
{
    uint64_t before, after;

    /* Both counts are of the same server: all other requests to it are none, because
     * nobody else has it. */
    if (!site_requests(&before) || !load_crowd() || !site_requests(&after))
        return false;
    *found = (double)(after - before) / (double)buyers.orders_n;
    (void)snprintf(load.run->said, sizeof(load.run->said),
                   "%zu orders, %.1f requests to Redis each; half of them took "
                   "%.0f ms or less, the slowest %.0f ms",
                   buyers.orders_n, *found, buyers_latency_ms(50),
                   buyers_latency_ms(100));
    return true;
}

/* 21: overtakes --------------------------------------------------------------------- */

/* When each order was committed, by the ledger: this number rises; 0 = never. */
static bool read_numbers(int64_t numbers[], size_t n)
{
    struct store_reader *reader;
    struct store_error error = {""};
    struct store_order order;
    enum store_status status;
    char key[32];

    status = store_reader_open_url(site.db_url, &reader, &error);
    if (status != STORE_OK)
        return site_fail("cannot read the ledger: %s", error.text);
    for (size_t i = 0; i < n && status == STORE_OK; i++) {
        (void)snprintf(key, sizeof(key), "order-%zu", i + 1);
        order.number = 0;
        status = store_order_by_key(reader, key, &order, &error);
        numbers[i] = status == STORE_OK ? order.number : 0;
        /* An order that was refused has no row, which is no error here. */
        if (status == STORE_NO_ORDER)
            status = STORE_OK;
    }
    store_reader_close(reader);
    return status == STORE_OK ||
           site_fail("cannot read the ledger: %s", error.text);
}

/* By how many later orders one was overtaken, by the ledger. */
static bool overtakes(double *found)
{
    size_t all = 0, worst = 0, by;
    int64_t *numbers;
    bool good;

    if (!load_crowd())
        return false;
    numbers = calloc(buyers.orders_n, sizeof(*numbers));
    if (!numbers)
        return site_fail("no memory");
    good = read_numbers(numbers, buyers.orders_n);
    for (size_t i = 0; i < buyers.orders_n && good; i++) {
        /* The ledger says who came first, and the sender's clock who was later: an
         * overtake counts only where both are clear. */
        by = 0;
        for (size_t j = i + 1; j < buyers.orders_n; j++)
            by +=
                numbers[j] && numbers[j] < numbers[i] &&
                buyers.orders[j].sent_us > buyers.orders[i].sent_us + LATER_US;
        all += by;
        worst = by > worst ? by : worst;
    }
    free(numbers);
    (void)snprintf(
        load.run->said, sizeof(load.run->said),
        "%zu orders: %zu times one overtook another that was sent before it; "
        "the unluckiest was overtaken by %zu, and the slowest took %.0f ms",
        buyers.orders_n, all, worst, buyers_latency_ms(100));
    *found = (double)worst;
    return good;
}

/* 38: segments ----------------------------------------------------------------------
 *
 * The honest curve: what it brings to split a stock over segments, with each order
 * under a lock of its own and in batches, with and without something slow to do
 * under the lock. All of it is told next to one segment in the same run.
 */

enum {
    FOR_MS = 500, /* one cell */
    WARM_MS = 100,
    UNITS = 1000000,
    BAR = 26, /* columns */
};

static const unsigned splits[] = {1, 2, 5, 10, 20};
static const unsigned think_ms[] = {0, 2, 10};
static const char *const orders[] = {"one-by-one", "batched"};

enum { SEGMENTS_N = 5, THINK_N = 3, ORDERS_N = 2 };

static double rates[ORDERS_N][THINK_N][SEGMENTS_N]; /* sold, a second */

static bool cell(int o, int t, int s, int64_t id)
{
    static const char bar[] = "##########################";
    struct buyers_crowd crowd = load.play->crowd;
    size_t from = buyers.orders_n, n = 0;
    double *row = rates[o][t], ratio;
    uint64_t begun_us;
    int length;

    if (!buyers_offer(id, UNITS, splits[s]))
        return false;
    buyers.product_id = id;
    begun_us = clock_us();
    crowd.for_ms = FOR_MS;
    if (!buyers_crowd(&crowd, 1))
        return false;
    /* Orders that were answered while all was under way: not in the first tenth of a
     * second, in which connections are made, nor behind the end, when none begins. */
    for (size_t i = from; i < buyers.orders_n; i++)
        n += buyers.orders[i].outcome == BUYERS_SOLD &&
             buyers.orders[i].answered_us >=
                 begun_us + UINT64_C(1000) * WARM_MS &&
             buyers.orders[i].answered_us < begun_us + UINT64_C(1000) * FOR_MS;
    row[s] = (double)n * 1000 / (FOR_MS - WARM_MS);
    /* Each rate is told beside that of one segment in the same run: machines differ. */
    ratio = row[0] > 0 ? row[s] / row[0] : 0;
    length = (int)(ratio + 0.5);
    load_tell(-1, "%-10s %2u ms %2u segment%s %6.0f/s %5.1f x %.*s", orders[o],
              think_ms[t], splits[s], splits[s] == 1 ? " " : "s", row[s], ratio,
              length < 1     ? 1
              : length > BAR ? BAR
                             : length,
              bar);
    return true;
}

/* The promise is small: segments help who holds a lock for long, and batches
 * help more. One lock cannot do more than it should, and other programs slow down
 * the one cell or the other: hence the best of each row. */
static double tell_segments(void)
{
    const double *alone = rates[0][THINK_N - 1],
                 *batched = rates[1][THINK_N - 1];
    double one = alone[0] > 0 ? alone[0] : 1, split = 0, batches = 0;

    for (int s = 0; s < SEGMENTS_N; s++) {
        split = alone[s] / one > split ? alone[s] / one : split;
        batches = batched[s] / one > batches ? batched[s] / one : batches;
    }
    (void)snprintf(load.run->said, sizeof(load.run->said),
                   "With 10 ms under the lock, compared with one segment and "
                   "order by order: segments sell up to %.1f times as much, "
                   "batches up to %.1f times",
                   split, batches);
    return split >= 3 && batches > split;
}

static bool segments(double *found)
{
    int64_t id = 1;
    char flags[64];

    for (int o = 0; o < ORDERS_N; o++)
        for (int t = 0; t < THINK_N; t++) {
            /* Other flags need another instance; its database stays, and each cell has
             * a product of its own. */
            site_stop_all();
            (void)snprintf(flags, sizeof(flags), "--orders %s --think-ms %u",
                           orders[o], think_ms[t]);
            if (!load_start(0, flags))
                return false;
            for (int s = 0; s < SEGMENTS_N; s++)
                if (!cell(o, t, s, id++))
                    return false;
        }
    *found = tell_segments();
    return true;
}

measure_function *measure_find(const char *name)
{
    static const struct {
        const char *name;
        measure_function *measure;
    } all[] = {{"refused", refused},
               {"waiting", waiting},
               {"overtakes", overtakes},
               {"segments", segments}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].measure;
    return NULL;
}

/* A crowd of buyers, and what it was told. See buyers.h. */
#include <stdlib.h>

#include "server/base/clock.h"
#include "server/lab/load/buyers.h"

enum { TURN_MS = 20 };

/* When the order behind SENT others is due, since the crowd began, NOW later; UINT64_MAX:
 * never. */
static uint64_t due_us(const struct buyers_crowd *crowd, size_t sent,
                       uint64_t now)
{
    if ((crowd->orders && sent >= crowd->orders) ||
        (crowd->for_ms && now > crowd->for_ms * UINT64_C(1000)))
        return UINT64_MAX;
    return crowd->within_ms && crowd->orders
               ? sent * UINT64_C(1000) * crowd->within_ms / crowd->orders
               : 0;
}

bool buyers_crowd(struct buyers *buyers, const struct buyers_crowd *crowd,
                  unsigned instances)
{
    uint64_t begun_us = clock_us(), due = 0, now = 0;
    size_t sent = 0;

    while (buyers->taken > 0 || due != UINT64_MAX) {
        while (buyers->taken < crowd->buyers && due <= now) {
            if (buyers_send(buyers, (unsigned)(sent % instances)) == SIZE_MAX)
                return false;
            due = due_us(crowd, ++sent, now);
        }
        buyers_turn(buyers, due > now && due - now < TURN_MS * UINT64_C(1000)
                                ? (unsigned)((due - now) / 1000)
                                : TURN_MS);
        if (!site_goes_on(buyers->site))
            return false;
        now = clock_us() - begun_us;
        due = due_us(crowd, sent, now);
    }
    return true;
}

size_t buyers_count(const struct buyers *buyers, size_t from,
                    enum buyers_outcome outcome)
{
    size_t n = 0;

    for (size_t i = from; i < buyers->orders_n; i++)
        n += buyers->orders[i].outcome == outcome;
    return n;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

double buyers_latency_ms(const struct buyers *buyers, size_t from, unsigned p)
{
    size_t n = 0, sold = buyers_count(buyers, from, BUYERS_SOLD);
    uint64_t *us = calloc(sold ? sold : 1, sizeof(*us));
    double ms = 0;

    for (size_t i = from; us && i < buyers->orders_n; i++)
        if (buyers->orders[i].outcome == BUYERS_SOLD)
            us[n++] = buyers->orders[i].answered_us - buyers->orders[i].sent_us;
    if (n > 0) {
        qsort(us, n, sizeof(*us), by_size);
        n = (n - 1) * p / 100;
        ms = (double)us[n] / 1000;
    }
    free(us);
    return ms;
}

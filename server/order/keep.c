/*
 * How long a lock is kept.
 *
 *   KEEP_GAPS      A lock that nobody here waits for is kept for that many of
 *                  the usual gaps between two orders, but not for longer than
 *                  idle_us_max: to take it again costs two round trips, more
 *                  than the order. Gaps vary: of many products that sell in
 *                  turns one's next order is often late. If orders come more
 *                  seldom than that it is given back at once. While it is kept
 *                  orders are placed even if the lock server has died: hence
 *                  not for long.
 *   KEEP_MANY      Of so many locks and more each is kept for longer. To take
 *                  and give back thousands of them would be all that we do; and
 *                  the slower we are, the longer are the gaps, and the more of
 *                  them it would be.
 *   held_us_max    Never for longer than that in one go: less than the third of
 *                  the usual lease after which a lock has to be renewed.
 *
 * The time of a look is not planned anew with each order: most make it later, and
 * the look finds that out. What makes it earlier (orders that come faster than
 * before, locks that are not many any more) is found when the ring of looks has
 * come round, an eighth of a second later at most.
 */
#include "server/order/keep.h"

#include "server/order/desk_private.h"

#define KEEP_GAPS   8
#define KEEP_US_MIN 5000 /* finer than we look anyway */
#define KEEP_MANY   64

static const struct terms {
    uint64_t idle_us_max;
    uint64_t held_us_max;
} FEW = {100000, 1000000}, EACH_OF_MANY = {1000000, 3000000};

/* ---- when ----------------------------------------------------------------- */

static const struct terms *terms_of(const struct lane *lane)
{
    return lane->keeper->desk->held_n < KEEP_MANY ? &FEW : &EACH_OF_MANY;
}

static uint64_t held_until_us(const struct lane *lane)
{
    return holds_since_us(&lane->holds) + terms_of(lane)->held_us_max;
}

/* Until when a lock is kept that no order waits for. */
static uint64_t idle_until_us(const struct lane *lane)
{
    uint64_t gap = lane_expects_us(lane), keep = gap * KEEP_GAPS;
    uint64_t most = terms_of(lane)->idle_us_max;

    if (gap > most)
        return 0;
    if (keep < KEEP_US_MIN)
        keep = KEEP_US_MIN;
    return lane->pushed_us + (keep < most ? keep : most);
}

bool keep_is_due(const struct lane *lane, uint64_t now_us)
{
    if (!lane_is_clear(lane) && lane->state == LANE_LEAVING)
        return false; /* we are called when it is */
    if (lane->state == LANE_LEAVING || now_us >= held_until_us(lane))
        return true;
    if (!lane_is_clear(lane) || (lane_is_waited_for(lane) && !lane->choosy))
        return false;
    return lane->choosy || now_us >= idle_until_us(lane);
}

/* ---- whom to look at ------------------------------------------------------ */

/* When a lane that is not due now could be if nobody calls. */
static uint64_t look_us(const struct lane *lane, uint64_t now_us)
{
    uint64_t held = held_until_us(lane), idle = idle_until_us(lane);
    uint64_t due = held < idle ? held : idle;

    return due > now_us ? due : now_us + KEEP_LOOK_US; /* it is busy */
}

static struct lane_list *list_at(struct keep *keep, uint64_t step)
{
    return &keep->later[step % KEEP_STEPS];
}

/* NULL: nowhere. */
static void put(struct lane *lane, struct lane_list *list)
{
    if (lane->look)
        TAILQ_REMOVE(lane->look, lane, looks);
    if (list)
        TAILQ_INSERT_TAIL(list, lane, looks);
    lane->look = list;
}

/* Those whose time has come. A keeper that was busy for long has missed steps,
 * but none of them twice. */
static void turn_to(struct keep *keep, uint64_t step)
{
    struct lane *lane;

    if (keep->step + KEEP_STEPS < step)
        keep->step = step - KEEP_STEPS;
    for (; keep->step < step; keep->step++)
        while ((lane = TAILQ_FIRST(list_at(keep, keep->step))))
            put(lane, &keep->now);
}

void keep_init(struct keep *keep)
{
    TAILQ_INIT(&keep->now);
    for (size_t i = 0; i < KEEP_STEPS; i++)
        TAILQ_INIT(&keep->later[i]);
    keep->step = 0;
}

void keep_add(struct keep *keep, struct lane *lane, uint64_t now_us)
{
    uint64_t at_us = look_us(lane, now_us);

    turn_to(keep, now_us / KEEP_STEP_US);
    put(lane, keep_is_due(lane, now_us) ? &keep->now
                                        : list_at(keep, at_us / KEEP_STEP_US));
}

void keep_remove(struct lane *lane)
{
    put(lane, NULL);
}

bool keep_call(struct keep *keep, struct lane *lane)
{
    if (!lane->look || lane->look == &keep->now)
        return false;
    put(lane, &keep->now);
    return true;
}

struct lane *keep_find_due(struct keep *keep, uint64_t now_us)
{
    struct lane *lane;

    turn_to(keep, now_us / KEEP_STEP_US);
    while ((lane = TAILQ_FIRST(&keep->now)) && !keep_is_due(lane, now_us))
        put(lane, list_at(keep, look_us(lane, now_us) / KEEP_STEP_US));
    return lane;
}

bool keep_is_called(const struct keep *keep)
{
    return !TAILQ_EMPTY(&keep->now);
}

/*
 * Orders by lock: queues that are ready take turns; a queue knows how busy it is, and
 * how long its lock is kept for that. Which order comes first: test_order_store.c.
 */
#include "server/order/queue.h"
#include "tests/support/unit_test.h"

/* Held, with an order that may be placed. */
static struct queue *make_ready(struct queues *queues, int64_t product_id,
                                struct order *order)
{
    struct queue *queue = queue_need(queues, product_id, 0);

    queue->state = QUEUE_HELD;
    queue->quota = SIZE_MAX;
    queue_push(queue, order, false);
    queue_update(queues, queue);
    return queue;
}

UNIT_TEST(ready_ones_take_turns)
{
    struct order orders[3] = {0};
    struct queues queues;
    struct queue *a, *b;

    queues_init(&queues);
    a = make_ready(&queues, 1, &orders[0]);
    b = make_ready(&queues, 2, &orders[1]);
    queue_push(a, &orders[2], false);
    queue_update(&queues, a); /* it keeps its turn */
    assert_ptr_equal(TAILQ_FIRST(&queues.ready), a);
    a->batch = queue_pop(a, 1);
    queue_update(&queues, a);
    assert_ptr_equal(TAILQ_FIRST(&queues.ready), b);
    assert_null(TAILQ_NEXT(b, place));
    a->batch = NULL;
    queue_update(&queues, a); /* it is behind the others now */
    assert_ptr_equal(TAILQ_NEXT(b, place), a);
    (void)queue_pop(a, 1);
    (void)queue_pop(b, 1);
    a->state = b->state = QUEUE_FREE;
    queues_release(&queues);
}

/* Each reason for which it may not place orders, alone. */
UNIT_TEST(what_may_not_be_placed_is_not_ready)
{
    struct order orders[2] = {0};
    struct queues queues;
    struct queue *queue;
    /* In the order in which a person reads it. NOLINTNEXTLINE(*Padding) */
    const struct {
        enum queue_state state;
        size_t quota;
        bool is_thinking, leaves;
        struct order *batch;
    } rows[] = {{QUEUE_HELD, 1, false, false, NULL},
                {QUEUE_TAKING, 1, false, false, NULL},
                {QUEUE_HELD, 0, false, false, NULL},
                {QUEUE_HELD, 1, true, false, NULL},
                {QUEUE_HELD, 1, false, true, NULL},
                {QUEUE_HELD, 1, false, false, &orders[1]}};

    queues_init(&queues);
    queue = make_ready(&queues, 1, &orders[0]);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        queue->state = rows[i].state;
        queue->quota = rows[i].quota;
        queue->is_thinking = rows[i].is_thinking;
        queue->leaves = rows[i].leaves;
        queue->batch = rows[i].batch;
        queue_update(&queues, queue);
        assert_ptr_equal(TAILQ_FIRST(&queues.ready), i ? NULL : queue);
    }
    queue->batch = NULL;
    queue_remove(&orders[0]);
    queue_update(&queues, queue);
    assert_true(TAILQ_EMPTY(&queues.ready));
    queue->state = QUEUE_FREE;
    queues_release(&queues);
}

/* A table has its memory from malloc(), and nothing else here has. */
static bool no_memory;
__typeof__(malloc) __real_malloc, __wrap_malloc;

void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

UNIT_TEST(without_memory_there_is_no_queue)
{
    struct queues queues;

    queues_init(&queues);
    no_memory = true;
    assert_null(queue_need(&queues, 1, 0));
    no_memory = false;
    assert_non_null(queue_need(&queues, 1, 0));
    queues_release(&queues);
}

/* ---- how busy it is -------------------------------------------------------- */

/* An order comes. Returns the usual gap from then on. */
static uint64_t gap_after(struct queue *queue, uint64_t submitted_us,
                          unsigned n)
{
    struct order order = {0};

    for (unsigned i = 0; i < n; i++, submitted_us += 5000) {
        order.submitted_us = submitted_us;
        queue_push(queue, &order, false);
        queue_remove(&order);
    }
    return queue->gap_us;
}

UNIT_TEST(gaps_are_averaged)
{
    struct queue queue = {.gap_us = UINT64_MAX};
    struct order first = {0};
    uint64_t now_us = 1000000000;

    TAILQ_INIT(&queue.orders);
    assert_true(gap_after(&queue, now_us, 1) == UINT64_MAX); /* not known yet */
    assert_int_equal(gap_after(&queue, now_us += 800, 1), 800);
    /* One alone does not change much; many do. */
    assert_in_range(gap_after(&queue, now_us += 1600, 1), 801, 1200);
    assert_in_range(gap_after(&queue, now_us += 5000, 100), 4900, 5000);
    /* Of two threads the one that came first may be the second to get here. */
    assert_in_range(gap_after(&queue, now_us, 1), 4000, 4500);
    assert_int_equal(queue.pushed_us, now_us + 99 * 5000UL);
    /* A pause says nothing about how busy the times between are. */
    now_us += 99 * 5000 + QUEUE_GAP_MAX_US + 1;
    assert_true(gap_after(&queue, now_us, 1) == UINT64_MAX);
    assert_int_equal(gap_after(&queue, now_us + 300, 1), 300);
    queue_push(&queue, &first, true); /* no customer more */
    assert_int_equal(queue.pushed_us, now_us + 300);
}

/* ---- retention ------------------------------------------------------------- */

#define MS      INT64_C(1000)
#define NOW_US  INT64_C(1000000000)
#define UNKNOWN (-1)

/* For how long a lock is kept from now on; at most 0 = not at all. */
static const struct {
    const char *what;
    int64_t held_us, pushed_us; /* so long ago it was taken; an order came */
    int64_t gap_us;
    size_t waiting, queues_n;
    int64_t kept_us;
} keeps[] = {
    {"a few gaps", 0, 0, 1 * MS, 0, 1, 8 * MS},
    {"a few gaps", 0, 0, 10 * MS, 0, 1, 80 * MS},
    {"the gap is a guess: not too short", 0, 0, 0, 0, 1, 5 * MS},
    {"the gap is a guess: not too short", 0, 0, 625, 0, 1, 5 * MS},
    {"the gap is a guess: not too short", 0, 0, 626, 0, 1, 5 * MS + 8},
    {"others may want it: not too long", 0, 0, 13 * MS, 0, 1, 100 * MS},
    {"others may want it: not too long", 0, 0, 100 * MS, 0, 1, 100 * MS},
    {"not for orders that are seldom", 0, 0, 100 * MS + 1, 0, 1, 0},
    {"not if nobody knows", 0, 0, UNKNOWN, 0, 1, 0},
    {"not if nobody knows", 0, 0, UNKNOWN, 0, 1000, 0},
    {"from the last order", 50 * MS, 10 * MS, 2 * MS, 0, 1, 6 * MS},
    {"from the last order", 50 * MS, 20 * MS, 2 * MS, 0, 1, 0},
    {"not for ever", 990 * MS, 0, 2 * MS, 0, 1, 10 * MS},
    {"not for ever", 990 * MS, 0, 2 * MS, 5, 1, 10 * MS},
    {"not for ever", 1000 * MS, 0, 2 * MS, 5, 1, 0},
    {"for orders that wait", 0, 0, UNKNOWN, 1, 1, 1000 * MS},
    {"for orders that wait", 0, 0, UNKNOWN, 1, 1000, 3000 * MS},
    {"longer if there are many", 1000 * MS, 0, 50 * MS, 0, 64, 400 * MS},
    {"longer if there are many", 1000 * MS, 0, 50 * MS, 0, 63, 0},
    {"longer if there are many", 1000 * MS, 0, 1000 * MS, 0, 99, 1000 * MS},
    {"longer, not for ever", 2500 * MS, 0, 1000 * MS, 0, 99, 500 * MS},
};

UNIT_TEST(a_lock_is_kept_for_orders_to_come)
{
    for (size_t i = 0; i < COUNT_OF(keeps); i++) {
        const struct queue queue = {
            .state = QUEUE_HELD,
            .held_us = (uint64_t)(NOW_US - keeps[i].held_us),
            .pushed_us = (uint64_t)(NOW_US - keeps[i].pushed_us),
            .gap_us = (uint64_t)keeps[i].gap_us,
            .waiting = keeps[i].waiting};
        int64_t us =
            (int64_t)queue_keep_until_us(&queue, keeps[i].queues_n) - NOW_US;

        if ((us > 0 ? us : 0) != keeps[i].kept_us)
            fail_msg("%s: row %zu is kept for %lld us", keeps[i].what, i,
                     (long long)us);
    }
}

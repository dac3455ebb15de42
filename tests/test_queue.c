/*
 * Orders by lock: a queue keeps their order, queues that are ready take turns; a
 * queue knows how busy it is, and how long its lock is kept for that.
 */
#include <stdlib.h>

#include "server/order/queue.h"
#include "tests/support/unit_test.h"

#define ORDERS_N 5

struct fixture {
    struct queues queues;
    struct queue *queue; /* of product 1, segment 0 */
    struct order orders[ORDERS_N];
};

static int set_up(void **state)
{
    struct fixture *f = *state = calloc(1, sizeof(*f));

    queues_init(&f->queues);
    for (int i = 0; i < ORDERS_N; i++)
        f->orders[i].next = &f->orders[i]; /* of the list they came in */
    f->queue = queue_need(&f->queues, 1, 0);
    return f->queue ? 0 : -1;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct queue *queue, *next;

    HASH_ITER(hh, f->queues.table, queue, next)
    {
        (void)queue_pop(queue, SIZE_MAX);
        queue->batch = NULL;
        queue->state = QUEUE_FREE;
    }
    queues_release(&f->queues);
    assert_int_equal(queues_n(&f->queues), 0);
    free(f);
    return 0;
}

/* ---- queues and their orders ----------------------------------------------- */

static void one_queue_for_each_segment(void **state)
{
    struct fixture *f = *state;
    struct queue *other = queue_need(&f->queues, 1, 7);

    assert_ptr_not_equal(other, f->queue);
    assert_ptr_not_equal(queue_need(&f->queues, 7, 1), other);
    assert_ptr_equal(queue_need(&f->queues, 1, 7), other);
    assert_ptr_equal(queue_find(&f->queues, 1, 7), other);
    assert_null(queue_find(&f->queues, 2, 0));
    assert_string_equal(other->lock.name, "lock:{1:7}");
    assert_int_equal(queues_n(&f->queues), 3);
    queue_free(&f->queues, other);
    assert_null(queue_find(&f->queues, 1, 7));
}

/* Takes N out; they are these of the fixture's. */
static void expect_orders(struct fixture *f, size_t n, const size_t which[])
{
    struct order *order = queue_pop(f->queue, n);

    for (size_t i = 0; i < n; i++, order = order->next) {
        assert_ptr_equal(order, &f->orders[which[i]]);
        assert_null(order->queue);
    }
    assert_null(order);
}

/* And who has waited before comes before those. */
static void first_come_first_served(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < ORDERS_N; i++)
        queue_push(f->queue, &f->orders[i], false);
    expect_orders(f, 2, (size_t[]){0, 1});
    queue_push(f->queue, &f->orders[1], true);
    queue_push(f->queue, &f->orders[0], true);
    queue_remove(&f->orders[3]);
    assert_null(f->orders[3].queue);
    assert_int_equal(f->queue->waiting, 4);
    expect_orders(f, 4, (size_t[]){0, 1, 2, 4});
    assert_null(queue_pop(f->queue, 5));
    assert_int_equal(f->queue->waiting, 0);
}

/* ---- lists ----------------------------------------------------------------- */

static void a_queue_stands_in_one_list(void **state)
{
    struct fixture *f = *state;
    struct queue *other = queue_need(&f->queues, 2, 0);
    struct queue_list a, b;

    TAILQ_INIT(&a);
    TAILQ_INIT(&b);
    queue_list_put(f->queue, &a);
    queue_list_put(other, &a);
    queue_list_put(f->queue, &a); /* it keeps its place */
    assert_ptr_equal(TAILQ_FIRST(&a), f->queue);
    queue_update(&f->queues, f->queue); /* it is not ready: it stays */
    assert_ptr_equal(TAILQ_FIRST(&a), f->queue);
    queue_list_put(f->queue, &b);
    assert_ptr_equal(TAILQ_FIRST(&a), other);
    assert_ptr_equal(TAILQ_FIRST(&b), f->queue);
    queue_list_put(f->queue, NULL);
    assert_true(TAILQ_EMPTY(&b));
    queue_free(&f->queues, other); /* and no list has it any more */
    assert_true(TAILQ_EMPTY(&a));
}

/* Held, with an order that may be placed. */
static struct queue *make_ready(struct fixture *f, int64_t product_id,
                                struct order *order)
{
    struct queue *queue = queue_need(&f->queues, product_id, 0);

    queue->state = QUEUE_HELD;
    queue->quota = SIZE_MAX;
    queue_push(queue, order, false);
    queue_update(&f->queues, queue);
    return queue;
}

static void ready_ones_take_turns(void **state)
{
    struct fixture *f = *state;
    struct queue *a = make_ready(f, 1, &f->orders[0]);
    struct queue *b = make_ready(f, 2, &f->orders[1]);

    queue_push(a, &f->orders[2], false);
    queue_update(&f->queues, a); /* it keeps its turn */
    assert_ptr_equal(TAILQ_FIRST(&f->queues.ready), a);
    a->batch = queue_pop(a, 1);
    queue_update(&f->queues, a);
    assert_ptr_equal(TAILQ_FIRST(&f->queues.ready), b);
    assert_null(TAILQ_NEXT(b, place));
    a->batch = NULL;
    queue_update(&f->queues, a); /* it is behind the others now */
    assert_ptr_equal(TAILQ_NEXT(b, place), a);
}

/* Each reason for which it may not place orders, alone. */
static void what_may_not_be_placed_is_not_ready(void **state)
{
    struct fixture *f = *state;
    struct queue *queue = make_ready(f, 1, &f->orders[0]);
    const struct queue good = *queue;
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
                {QUEUE_HELD, 1, false, false, &f->orders[1]}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        queue->state = rows[i].state;
        queue->quota = rows[i].quota;
        queue->is_thinking = rows[i].is_thinking;
        queue->leaves = rows[i].leaves;
        queue->batch = rows[i].batch;
        queue_update(&f->queues, queue);
        assert_ptr_equal(TAILQ_FIRST(&f->queues.ready), i ? NULL : queue);
    }
    queue->state = good.state;
    queue->batch = NULL;
    queue_remove(&f->orders[0]);
    queue_update(&f->queues, queue);
    assert_true(TAILQ_EMPTY(&f->queues.ready));
}

/* ---- how busy it is -------------------------------------------------------- */

/* An order comes. Returns the usual gap from then on. */
static uint64_t gap_after(struct fixture *f, uint64_t submitted_us, unsigned n)
{
    for (unsigned i = 0; i < n; i++, submitted_us += 5000) {
        f->orders[0].submitted_us = submitted_us;
        queue_push(f->queue, &f->orders[0], false);
        queue_remove(&f->orders[0]);
    }
    return f->queue->gap_us;
}

static void gaps_are_averaged(void **state)
{
    struct fixture *f = *state;
    uint64_t now_us = 1000000000;

    assert_true(gap_after(f, now_us, 1) == UINT64_MAX); /* not known yet */
    assert_int_equal(gap_after(f, now_us += 800, 1), 800);
    /* One alone does not change much; many do. */
    assert_in_range(gap_after(f, now_us += 1600, 1), 801, 1200);
    assert_in_range(gap_after(f, now_us += 5000, 100), 4900, 5000);
    /* Of two threads the one that came first may be the second to get here. */
    assert_in_range(gap_after(f, now_us, 1), 4000, 4500);
    assert_int_equal(f->queue->pushed_us, now_us + 99 * 5000UL);
    /* A pause says nothing about how busy the times between are. */
    now_us += 99 * 5000 + QUEUE_GAP_MAX_US + 1;
    assert_true(gap_after(f, now_us, 1) == UINT64_MAX);
    assert_int_equal(gap_after(f, now_us + 300, 1), 300);
    queue_push(f->queue, &f->orders[1], true); /* no customer more */
    assert_int_equal(f->queue->pushed_us, now_us + 300);
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

static void a_lock_is_kept_for_orders_to_come(NO_STATE)
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

static const struct CMUnitTest tests[] = {
    FIXTURE_TEST(one_queue_for_each_segment),
    FIXTURE_TEST(first_come_first_served),
    FIXTURE_TEST(a_queue_stands_in_one_list),
    FIXTURE_TEST(ready_ones_take_turns),
    FIXTURE_TEST(what_may_not_be_placed_is_not_ready),
    FIXTURE_TEST(gaps_are_averaged),
    cmocka_unit_test(a_lock_is_kept_for_orders_to_come),
};

TEST_MAIN(tests)

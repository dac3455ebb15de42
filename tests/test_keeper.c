/*
 * How long a lane keeps its lock, against a real Redis: as long as orders come,
 * not a moment longer, and not while somebody else waits for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/order/desk_private.h"
#include "tests/support/desk_rig.h"
#include "tests/support/lock_rig.h"

#define LOCK    "lock:{1:0}"
#define WAIT_MS 5000

/* A desk, and another client of the same locks: as if of another instance. */
struct stage {
    struct desk_rig *desk;
    struct dlock *client;
    struct dlock_session *other;
    struct dlock_grant grant;
};

static struct stage stage_open(struct lock_rig *rig, struct config config)
{
    struct stage stage = {0};

    config.lock_wait_ms = WAIT_MS;
    (void)snprintf(config.lock, sizeof(config.lock), "fenced");
    stage.desk = desk_rig_new(&config, redis_server_url(rig->server), 1000,
                              step_log_hook, &rig->log);
    stage.client = lock_rig_client(rig, "fenced");
    stage.other = lock_rig_session(stage.client);
    return stage;
}

static void stage_close(struct stage *stage)
{
    dlock_session_close(stage->other);
    dlock_close(stage->client);
    desk_rig_free(stage->desk);
}

/* One after the other, each when the one before has its answer. */
static void sell(struct stage *stage, int from, int to)
{
    for (int i = from; i < to; i++) {
        assert_true(desk_rig_submit(stage->desk, i));
        desk_rig_wait_answered(stage->desk, i + 1);
        assert_int_equal(stage->desk->tickets[i].outcome, ORDER_PLACED);
    }
}

static enum dlock_status take(struct stage *stage, const char *name)
{
    return lock_rig_take(stage->other, name, WAIT_MS, 0, &stage->grant);
}

static void give_back(struct stage *stage)
{
    assert_int_equal(dlock_release(stage->other, &stage->grant, NULL),
                     DLOCK_OK);
}

static void a_lone_order_does_not_keep_the_lock(void **state)
{
    struct stage stage = stage_open(*state, (struct config){0});

    sell(&stage, 0, 1);
    assert_int_equal(take(&stage, LOCK), DLOCK_OK);
    give_back(&stage);
    stage_close(&stage);
}

static void as_long_as_orders_come_the_lock_is_kept(void **state)
{
    struct lock_rig *rig = *state;
    struct stage stage = stage_open(rig, (struct config){0});

    sell(&stage, 0, DESK_RIG_TICKETS);
    assert_in_range(step_log_count(&rig->log, "eval-acquire"), 1,
                    DESK_RIG_TICKETS / 4);
    /* And it is free when none comes any more. */
    assert_int_equal(take(&stage, LOCK), DLOCK_OK);
    give_back(&stage);
    stage_close(&stage);
}

/* Buys as fast as it goes, so that the lock would be kept for ever. */
static void *sell_all(void *stage)
{
    sell(stage, 0, DESK_RIG_TICKETS);
    return NULL;
}

static void who_waits_for_it_elsewhere_gets_it(void **state)
{
    struct lock_rig *rig = *state;
    struct stage stage = stage_open(rig, (struct config){.shared = true});
    pthread_t seller;

    pthread_create(&seller, NULL, sell_all, &stage);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(&stage, LOCK), DLOCK_OK);
        assert_true(stage.grant.token > 0);
        give_back(&stage);
    }
    pthread_join(seller, NULL);
    assert_int_equal(desk_rig_count(stage.desk, ORDER_PLACED),
                     DESK_RIG_TICKETS);
    stage_close(&stage);
}

struct announcement {
    struct store *store;
    struct store_fence fence;
};

static void *announce(void *arg)
{
    struct announcement *it = arg;

    assert_int_equal(store_stamp(it->store, &it->fence, NULL), STORE_OK);
    return NULL;
}

/*
 * Redis forgets the lock, another takes it and announces a later token: the
 * order that waited for the next batch is refused by the store, and waits for
 * the lock again. (The announcement is in the committer's queue before it, or
 * it is placed in time: nothing tells which. The ledger is right both ways.)
 */
static void a_lock_that_was_overtaken_is_taken_again(void **state)
{
    struct lock_rig *rig = *state;
    struct stage stage = stage_open(rig, (struct config){0});
    struct announcement next = {stage.desk->app.store, {.name = LOCK}};
    struct store_reader *reader;
    struct store_audit verdict;
    pthread_t announcer;

    atomic_store(&stage.desk->hold, true);
    assert_true(desk_rig_submit(stage.desk, 0));
    desk_rig_wait_commit(stage.desk);
    assert_true(desk_rig_submit(stage.desk, 1));
    redis_server_ask(rig->server, "FLUSHALL", NULL, 0);
    assert_int_equal(take(&stage, LOCK), DLOCK_OK);
    next.fence.token = stage.grant.token + 100; /* Redis began again at 1 */
    next.fence.owner = stage.grant.owner;
    pthread_create(&announcer, NULL, announce, &next);
    usleep(20000);
    desk_rig_let_go(stage.desk);
    pthread_join(announcer, NULL);
    give_back(&stage);
    desk_rig_wait_answered(stage.desk, 2);
    assert_int_equal(stage.desk->tickets[0].outcome, ORDER_PLACED);
    assert_int_equal(stage.desk->tickets[1].outcome, ORDER_PLACED);
    assert_int_equal(store_reader_open(stage.desk->app.store, &reader, NULL),
                     STORE_OK);
    assert_int_equal(store_audit(reader, NULL, NULL, NULL, 0, &verdict, NULL),
                     STORE_OK);
    assert_true(verdict.balanced);
    assert_int_equal(verdict.fence_regressions, 0);
    store_reader_close(reader);
    stage_close(&stage);
}

/* The only keeper has one lock and meets another that is taken: it gives back
 * what it has before it waits. */
static void who_waits_holds_nothing(void **state)
{
    struct stage stage = stage_open(*state, (struct config){.workers = 1});
    struct dlock_session *third = lock_rig_session(stage.client);
    struct dlock_grant grant;

    assert_int_equal(take(&stage, "lock:{2:0}"), DLOCK_OK);
    desk_rig_put(stage.desk, 2, 1);
    sell(&stage, 0, 50);
    assert_true(desk_rig_submit_other(stage.desk, 50, 2));
    assert_int_equal(lock_rig_take(third, LOCK, WAIT_MS / 2, 0, &grant),
                     DLOCK_OK);
    assert_int_equal(dlock_release(third, &grant, NULL), DLOCK_OK);
    give_back(&stage);
    desk_rig_wait_answered(stage.desk, 51);
    assert_int_equal(stage.desk->tickets[50].outcome, ORDER_PLACED);
    dlock_session_close(third);
    stage_close(&stage);
}

/*
 * The lease is always over before the order is placed, for the time under the
 * lock is longer and nobody renews it: the order is tried again, but not for
 * ever, and the keeper does not hang on it. (After a second the keeper wants to
 * leave as well: both at once was a bug.)
 */
static void a_lease_shorter_than_the_work_ends_in_a_no(void **state)
{
    struct stage stage = stage_open(
        *state,
        (struct config){.workers = 1, .lock_lease_ms = 20, .think_ms = 1010});

    assert_true(desk_rig_submit(stage.desk, 0));
    desk_rig_wait_answered(stage.desk, 1);
    assert_int_equal(stage.desk->tickets[0].outcome, ORDER_LOCK_TIMEOUT);
    assert_non_null(strstr(stage.desk->tickets[0].detail, "lease"));
    stage.desk->config.think_ms = 0;
    assert_true(desk_rig_submit(stage.desk, 1));
    desk_rig_wait_answered(stage.desk, 2);
    assert_int_equal(stage.desk->tickets[1].outcome, ORDER_PLACED);
    stage_close(&stage);
}

/* A keeper gives back what it has before it waits; the order that came for that
 * meanwhile is served by the other keeper, at once. */
static void what_a_waiting_keeper_left_is_for_the_others(void **state)
{
    struct lock_rig *rig = *state;
    struct stage stage = stage_open(rig, (struct config){.workers = 2});

    desk_rig_put(stage.desk, 2, 1);
    assert_int_equal(take(&stage, "lock:{2:0}"), DLOCK_OK);
    sell(&stage, 0, 50);
    atomic_store(&stage.desk->commits, 0);
    atomic_store(&stage.desk->hold, true);
    assert_true(desk_rig_submit(stage.desk, 50)); /* on its way to the disk */
    desk_rig_wait_commit(stage.desk);
    step_log_reset(&rig->log);
    assert_true(desk_rig_submit_other(stage.desk, 51, 2)); /* has to wait */
    step_log_await(&rig->log, "eval-acquire", 1);
    assert_true(desk_rig_submit(stage.desk, 52)); /* while lane 1 is left */
    desk_rig_let_go(stage.desk);
    desk_rig_wait_answered(stage.desk, 52);
    assert_int_equal(stage.desk->tickets[52].outcome, ORDER_PLACED);
    assert_int_equal(stage.desk->tickets[51].outcome, ORDER_OUTCOME_N);
    give_back(&stage);
    desk_rig_wait_answered(stage.desk, 53);
    assert_int_equal(stage.desk->tickets[51].outcome, ORDER_PLACED);
    stage_close(&stage);
}

/* Whether keeper I hears when somebody is called: as if it had been already, and
 * did not come. What it did not hear meanwhile it hears then. Returns when it has
 * nothing to do. */
static void set_deaf(struct stage *stage, int i, bool deaf)
{
    struct desk *desk = stage->desk->app.desk;
    bool idle = false;

    while (!idle) {
        pthread_mutex_lock(&desk->mutex);
        idle = desk->threads[i].idle == deaf;
        if (idle)
            desk->threads[i].idle = !deaf;
        if (idle && !deaf && lanes_wanted(desk->lanes))
            desk_call(desk);
        pthread_mutex_unlock(&desk->mutex);
        sched_yield();
    }
}

static bool is_open(const struct lane *lane)
{
    return lane->state == LANE_OPEN;
}

static bool is_placing(const struct lane *lane)
{
    return lane->placing;
}

/* Or, if the store had not come for its orders by then, left already. */
static bool is_being_left(const struct lane *lane)
{
    return lane->state == LANE_LEAVING || lane->state == LANE_SHUT;
}

/*
 * A keeper has the lock of product 2 when an order needs all locks of product 1,
 * one of which another instance has: it leaves and waits. Who came for product 2
 * meanwhile is for the other keeper, who has to be told.
 */
static void what_is_left_for_a_gather_is_for_the_others(void **state)
{
    struct stage stage = stage_open(*state, (struct config){.workers = 2});
    struct desk_rig *desk = stage.desk;

    desk_rig_split(desk, 2);
    desk_rig_put(desk, 2, 10);
    assert_int_equal(take(&stage, "lock:{1:1}"), DLOCK_OK);
    set_deaf(&stage, 1, true);
    desk_rig_hold_product(desk, 1);
    assert_true(desk_rig_submit_units(desk, 0, 501)); /* asks segment 0 first */
    desk_rig_await_lane(desk, 1, 0, is_placing);
    assert_true(desk_rig_submit_other(desk, 1, 2));
    desk_rig_await_lane(desk, 2, 0, is_open);
    desk_rig_hold_product(desk, 2);
    desk_rig_await_lane(desk, 2, 0, is_being_left);
    assert_true(desk_rig_submit_other(desk, 2, 2));
    set_deaf(&stage, 1, false);
    desk_rig_hold_product(desk, 0);
    desk_rig_wait_answered(desk, 2);
    assert_int_equal(atomic_load(&desk->answered), 2);
    assert_int_equal(desk->tickets[1].outcome, ORDER_PLACED);
    assert_int_equal(desk->tickets[2].outcome, ORDER_PLACED);
    give_back(&stage);
    desk_rig_wait_answered(desk, 3);
    assert_int_equal(desk->tickets[0].outcome, ORDER_PLACED);
    stage_close(&stage);
}

/* An order that is refused for good, and how its answer gets stuck. */
struct stuck {
    struct ticket ticket;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool told;    /* it hears its answer: the call has begun */
    bool stopped; /* the desk says so */
    bool early;   /* though the call had not ended */
};

#define LOOK_MS 200

/* Time for a desk that does not wait for us to be done with stopping. */
static void get_stuck(struct ticket *ticket)
{
    struct stuck *stuck = ticket->owner;

    pthread_mutex_lock(&stuck->mutex);
    stuck->told = true;
    pthread_cond_broadcast(&stuck->changed);
    for (int i = 0; i < LOOK_MS && !stuck->stopped; i++)
        clock_wait_until(&stuck->changed, &stuck->mutex, clock_ms() + 1);
    stuck->early = stuck->stopped;
    pthread_mutex_unlock(&stuck->mutex);
}

/*
 * The lease is over before the order is placed, and it has tried often enough:
 * it is refused by the committer, when nothing of it is in a lane any more. Whom
 * the answers go to is taken away after desk_stop().
 */
static void stopping_waits_for_the_last_refusal(void **state)
{
    struct stage stage = stage_open(
        *state,
        (struct config){.workers = 1, .lock_lease_ms = 30, .think_ms = 60});
    struct stuck stuck = {
        .ticket = {.order = {.product_id = 1, .user_id = 1, .quantity = 1},
                   .done = get_stuck,
                   .owner = &stuck},
        .mutex = PTHREAD_MUTEX_INITIALIZER};

    clock_cond_init(&stuck.changed);
    assert_null(desk_submit(stage.desk->app.desk, &stuck.ticket));
    pthread_mutex_lock(&stuck.mutex);
    while (!stuck.told)
        pthread_cond_wait(&stuck.changed, &stuck.mutex);
    pthread_mutex_unlock(&stuck.mutex);
    desk_stop(stage.desk->app.desk);
    pthread_mutex_lock(&stuck.mutex);
    stuck.stopped = true;
    pthread_cond_broadcast(&stuck.changed);
    pthread_mutex_unlock(&stuck.mutex);
    stage_close(&stage); /* the call has ended by then in any case */
    assert_false(stuck.early);
    assert_int_equal(stuck.ticket.outcome, ORDER_LOCK_TIMEOUT);
    pthread_cond_destroy(&stuck.changed);
}

/* One has waited for long and one has just come: only the first hears that the
 * lock could not be had in time. */
static void each_has_a_patience_of_its_own(void **state)
{
    struct stage stage = stage_open(*state, (struct config){.workers = 1});
    struct lock_rig *rig = *state;

    stage.desk->config.lock_wait_ms = 2000;
    assert_int_equal(take(&stage, LOCK), DLOCK_OK);
    assert_true(desk_rig_submit(stage.desk, 0));
    step_log_await(&rig->log, "eval-acquire", 1);
    lock_rig_sleep_ms(1000); /* half of its patience; no event tells that */
    assert_true(desk_rig_submit(stage.desk, 1));
    desk_rig_wait_answered(stage.desk, 1);
    assert_int_equal(stage.desk->tickets[0].outcome, ORDER_LOCK_TIMEOUT);
    assert_int_equal(stage.desk->tickets[1].outcome, ORDER_OUTCOME_N);
    give_back(&stage);
    desk_rig_wait_answered(stage.desk, 2);
    assert_int_equal(stage.desk->tickets[1].outcome, ORDER_PLACED);
    stage_close(&stage);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lone_order_does_not_keep_the_lock),
        TEST(as_long_as_orders_come_the_lock_is_kept),
        TEST(who_waits_for_it_elsewhere_gets_it),
        TEST(a_lock_that_was_overtaken_is_taken_again),
        TEST(who_waits_holds_nothing),
        TEST(a_lease_shorter_than_the_work_ends_in_a_no),
        TEST(what_a_waiting_keeper_left_is_for_the_others),
        TEST(what_is_left_for_a_gather_is_for_the_others),
        TEST(stopping_waits_for_the_last_refusal),
        TEST(each_has_a_patience_of_its_own),
    };

    alarm(120); /* who hangs has failed */
    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}

/*
 * The desk with a real store and the process lock: every ticket is answered
 * exactly once, with the right outcome, whatever happens around it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "server/order/desk_private.h"
#include "tests/support/desk_rig.h"

/* A desk over a fresh store. LOCK's server, if it needs one, is nowhere. */
static struct desk_rig *rig_with(const char *lock, enum config_desk desk,
                                 int64_t stock)
{
    struct config config = {.desk = desk};

    snprintf(config.lock, sizeof(config.lock), "%s", lock);
    return desk_rig_new(&config, NULL, stock, NULL, NULL);
}

/* One order is in the commit; all that come meanwhile go in one batch. */
static void combine_shares_one_commit(void **state)
{
    struct desk_rig *f = rig_with("process", DESK_COMBINE, 100);

    (void)state;
    atomic_store(&f->hold, true);
    assert_true(desk_rig_submit(f, 0));
    desk_rig_wait_commit(f);
    for (int i = 1; i < DESK_RIG_TICKETS; i++)
        assert_true(desk_rig_submit(f, i));
    desk_rig_let_go(f);
    desk_rig_wait_answered(f, DESK_RIG_TICKETS);
    assert_int_equal(desk_rig_count(f, ORDER_PLACED), 100);
    assert_int_equal(desk_rig_count(f, ORDER_SOLD_OUT), 100);
    assert_int_equal(atomic_load(&f->commits), 2);
    desk_rig_free(f);
}

static void direct_sells_exactly_too(void **state)
{
    struct desk_rig *f = rig_with("process", DESK_DIRECT, 100);

    (void)state;
    f->config.lock_wait_ms = 10000;
    for (int i = 0; i < DESK_RIG_TICKETS; i++)
        assert_true(desk_rig_submit(f, i));
    desk_rig_wait_answered(f, DESK_RIG_TICKETS);
    assert_int_equal(desk_rig_count(f, ORDER_PLACED), 100);
    assert_int_equal(desk_rig_count(f, ORDER_SOLD_OUT), 100);
    assert_int_equal(atomic_load(&f->answered), DESK_RIG_TICKETS);
    desk_rig_free(f);
}

static void a_full_queue_refuses_at_once(void **state)
{
    struct desk_rig *f = rig_with("process", DESK_COMBINE, 100);

    (void)state;
    f->config.queue_max = 3;
    atomic_store(&f->hold, true);
    for (int i = 0; i < 3; i++)
        assert_true(desk_rig_submit(f, i));
    assert_false(desk_rig_submit(f, 3));
    assert_int_equal(f->tickets[3].outcome, ORDER_OVERLOADED);
    desk_rig_let_go(f);
    desk_rig_wait_answered(f, 3);
    assert_int_equal(desk_depth(f->app.desk), 0);
    desk_rig_free(f);
}

static void of_many_those_come_back_for_whom_there_is_no_room(void **state)
{
    struct desk_rig *f = rig_with("process", DESK_COMBINE, 100);

    (void)state;
    f->config.queue_max = 7;
    atomic_store(&f->hold, true);
    assert_int_equal(desk_rig_submit_all(f, 0, 10), 3);
    for (int i = 7; i < 10; i++)
        assert_int_equal(f->tickets[i].outcome, ORDER_OVERLOADED);
    desk_rig_let_go(f);
    desk_rig_wait_answered(f, 7);
    assert_int_equal(desk_rig_count(f, ORDER_PLACED), 7);
    assert_int_equal(atomic_load(&f->answered), 7);
    desk_rig_free(f);
}

static void a_held_lock_is_a_timeout_and_sells_nothing(void **state)
{
    struct desk_rig *f = rig_with("process", DESK_COMBINE, 100);
    struct dlock_session *other;
    struct dlock_grant grant;
    struct dlock_terms terms = {.wait_ms = 0};

    (void)state;
    dlock_session_open(f->app.locks, &other, NULL);
    assert_int_equal(dlock_acquire(other, "lock:{1:0}", &terms, &grant, NULL),
                     DLOCK_OK);
    desk_rig_submit(f, 0);
    desk_rig_wait_answered(f, 1);
    assert_int_equal(f->tickets[0].outcome, ORDER_LOCK_TIMEOUT);
    assert_int_equal(atomic_load(&f->commits), 0);
    assert_int_equal(dlock_release(other, &grant, NULL), DLOCK_OK);
    desk_rig_submit(f, 1);
    desk_rig_wait_answered(f, 2);
    assert_int_equal(f->tickets[1].outcome, ORDER_PLACED);
    dlock_session_close(other);
    desk_rig_free(f);
}

static void without_a_lock_server_nothing_is_sold(void **state)
{
    struct desk_rig *f = rig_with("fenced", DESK_COMBINE, 100);

    (void)state;
    desk_rig_submit(f, 0);
    desk_rig_wait_answered(f, 1);
    assert_int_equal(f->tickets[0].outcome, ORDER_LOCK_UNREACHABLE);
    assert_int_not_equal(f->tickets[0].detail[0], '\0');
    assert_int_equal(atomic_load(&f->commits), 0);
    desk_rig_free(f);
}

/* Its turn does not come, for the worker hangs: it is not left waiting. */
static void who_waited_too_long_is_refused(void **state)
{
    struct desk_rig *f = rig_with("process", DESK_COMBINE, 100);

    (void)state;
    atomic_store(&f->hold, true);
    desk_rig_submit(f, 0);
    desk_rig_wait_commit(f);
    desk_rig_submit(f, 1);
    desk_rig_wait_answered(f, 1);
    assert_int_equal(f->tickets[1].outcome, ORDER_OVERLOADED);
    assert_int_equal(f->tickets[0].outcome, ORDER_OUTCOME_N);
    desk_rig_let_go(f);
    desk_rig_wait_answered(f, 2);
    assert_int_equal(f->tickets[0].outcome, ORDER_PLACED);
    desk_rig_free(f);
}

static void *stop_main(void *arg)
{
    desk_stop(((struct desk_rig *)arg)->app.desk);
    return NULL;
}

/* What is in the commit ends well; what waits behind it is refused. */
static void stopping_answers_everybody(void **state)
{
    struct desk_rig *f = rig_with("process", DESK_COMBINE, 100);
    pthread_t stopper;

    (void)state;
    atomic_store(&f->hold, true);
    desk_rig_submit(f, 0);
    desk_rig_wait_commit(f);
    for (int i = 1; i < 20; i++)
        assert_true(desk_rig_submit(f, i));
    pthread_create(&stopper, NULL, stop_main, f);
    desk_rig_wait_answered(f, 19);
    assert_false(desk_rig_submit(f, 20));
    assert_int_equal(f->tickets[20].outcome, ORDER_SHUTTING_DOWN);
    desk_rig_let_go(f);
    pthread_join(stopper, NULL);
    assert_int_equal(atomic_load(&f->answered), 20);
    assert_int_equal(f->tickets[0].outcome, ORDER_PLACED);
    assert_int_equal(desk_rig_count(f, ORDER_SHUTTING_DOWN), 20);
    desk_rig_free(f);
}

/* A long wait for a lock does not keep the service from ending. */
static void stopping_does_not_wait_for_locks(void **state)
{
    struct desk_rig *f = rig_with("process", DESK_COMBINE, 100);
    struct dlock_session *other;
    struct dlock_grant grant;
    struct dlock_terms terms = {.wait_ms = 0};

    (void)state;
    f->config.lock_wait_ms = 60000;
    dlock_session_open(f->app.locks, &other, NULL);
    assert_int_equal(dlock_acquire(other, "lock:{1:0}", &terms, &grant, NULL),
                     DLOCK_OK);
    desk_rig_submit(f, 0);
    alarm(20);
    desk_stop(f->app.desk);
    alarm(0);
    assert_int_equal(atomic_load(&f->answered), 1);
    assert_true(f->tickets[0].outcome == ORDER_LOCK_TIMEOUT ||
                f->tickets[0].outcome == ORDER_SHUTTING_DOWN);
    desk_rig_expect_sold(f, 0);
    assert_int_equal(dlock_release(other, &grant, NULL), DLOCK_OK);
    dlock_session_close(other);
    desk_rig_free(f);
}

/* Nor does business time under the lock. */
static void stopping_does_not_wait_for_thinking(void **state)
{
    struct desk_rig *f = rig_with("process", DESK_COMBINE, 100);

    (void)state;
    f->config.think_ms = 60000;
    desk_rig_submit(f, 0);
    alarm(20);
    desk_stop(f->app.desk);
    alarm(0);
    assert_int_equal(atomic_load(&f->answered), 1);
    desk_rig_free(f);
}

static bool has_chosen(const struct lane *lane)
{
    return lane->chosen;
}

static bool is_leaving(const struct lane *lane)
{
    return lane->state == LANE_LEAVING;
}

/* What was chosen before the stop is placed, though the store is busy with
 * another batch (one of nobody) when its lane is to be left: nothing but that
 * batch's end tells the store of it. */
static void stopping_places_what_was_chosen(void **state)
{
    struct desk_rig *f = rig_with("process", DESK_COMBINE, 100);
    pthread_t stopper;

    (void)state;
    f->config.think_ms = 60000;
    atomic_store(&f->hold, true);
    assert_true(store_stream_wake(f->app.desk->stream));
    desk_rig_wait_commit(f);
    desk_rig_submit(f, 0);
    desk_rig_await_lane(f, 1, 0, has_chosen);
    pthread_create(&stopper, NULL, stop_main, f);
    desk_rig_await_lane(f, 1, 0, is_leaving);
    alarm(20);
    desk_rig_let_go(f);
    pthread_join(stopper, NULL);
    alarm(0);
    assert_int_equal(f->tickets[0].outcome, ORDER_PLACED);
    desk_rig_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(combine_shares_one_commit),
        cmocka_unit_test(direct_sells_exactly_too),
        cmocka_unit_test(a_full_queue_refuses_at_once),
        cmocka_unit_test(of_many_those_come_back_for_whom_there_is_no_room),
        cmocka_unit_test(a_held_lock_is_a_timeout_and_sells_nothing),
        cmocka_unit_test(without_a_lock_server_nothing_is_sold),
        cmocka_unit_test(who_waited_too_long_is_refused),
        cmocka_unit_test(stopping_answers_everybody),
        cmocka_unit_test(stopping_does_not_wait_for_locks),
        cmocka_unit_test(stopping_does_not_wait_for_thinking),
        cmocka_unit_test(stopping_places_what_was_chosen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

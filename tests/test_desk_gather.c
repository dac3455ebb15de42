/*
 * Orders that take from several segments need all their locks. Against a real
 * Redis: in ascending order, all or nothing, held to the end; two instances that
 * gather and sell at once get on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/desk_rig.h"
#include "tests/support/lock_rig.h"

#define WAIT_MS 5000

/* Which segments' locks were asked for, in that order: "0 1 2". And what the
 * rig's log wants to know. */
struct asked {
    struct step_log *log;
    pthread_mutex_t mutex;
    char text[256];
};

static enum dlock_verdict on_step(void *ctx, const struct dlock_step *step)
{
    struct asked *asked = ctx;
    size_t length;
    int segment;

    pthread_mutex_lock(&asked->mutex);
    length = strlen(asked->text);
    if (step->phase == DLOCK_BEFORE &&
        strcmp(step->name, "eval-acquire") == 0 &&
        sscanf(step->key, "lock:{1:%d}", &segment) == 1)
        snprintf(asked->text + length, sizeof(asked->text) - length, "%s%d",
                 length ? " " : "", segment);
    pthread_mutex_unlock(&asked->mutex);
    return step_log_hook(asked->log, step);
}

/* A desk, and another client of the same locks: as if of another instance. */
struct stage {
    struct asked asked;
    struct desk_rig *desk;
    struct dlock *client;
    struct dlock_session *other;
    struct dlock_grant grant;
};

static struct stage *stage_open(struct lock_rig *rig, struct config config,
                                int64_t stock, int64_t segments)
{
    struct stage *stage = calloc(1, sizeof(*stage));

    assert_non_null(stage);
    stage->asked.log = &rig->log;
    pthread_mutex_init(&stage->asked.mutex, NULL);
    if (config.lock_wait_ms == 0)
        config.lock_wait_ms = WAIT_MS;
    (void)snprintf(config.lock, sizeof(config.lock), "fenced");
    stage->desk = desk_rig_new(&config, redis_server_url(rig->server), stock,
                               on_step, &stage->asked);
    desk_rig_split(stage->desk, segments);
    stage->client = lock_rig_client(rig, "fenced");
    stage->other = lock_rig_session(stage->client);
    return stage;
}

static void stage_close(struct stage *stage)
{
    dlock_session_close(stage->other);
    dlock_close(stage->client);
    desk_rig_free(stage->desk);
    pthread_mutex_destroy(&stage->asked.mutex);
    free(stage);
}

static void take(struct stage *stage, const char *name)
{
    assert_int_equal(
        lock_rig_take(stage->other, name, WAIT_MS, 0, &stage->grant), DLOCK_OK);
}

static void give_back(struct stage *stage)
{
    assert_int_equal(dlock_release(stage->other, &stage->grant, NULL),
                     DLOCK_OK);
}

static void expect_free(struct stage *stage, int segments)
{
    char name[64];

    for (int i = 0; i < segments; i++) {
        snprintf(name, sizeof(name), "lock:{1:%d}", i);
        take(stage, name);
        give_back(stage);
    }
}

/* One is asked, whether the product is sold out, and then all of them. */
static void ascending(struct lock_rig *rig, enum config_desk desk)
{
    struct stage *stage =
        stage_open(rig, (struct config){.workers = 1, .desk = desk}, 8, 8);

    assert_true(desk_rig_submit_units(stage->desk, 0, 5));
    desk_rig_wait_answered(stage->desk, 1);
    assert_int_equal(stage->desk->tickets[0].outcome, ORDER_PLACED);
    expect_free(stage, 8);
    assert_string_equal(stage->asked.text, "0 0 1 2 3 4 5 6 7");
    desk_rig_expect_sold(stage->desk, 5);
    stage_close(stage);
}

static void locks_are_taken_in_ascending_order(void **state)
{
    ascending(*state, DESK_COMBINE);
    ascending(*state, DESK_DIRECT);
}

static void all_or_nothing(struct lock_rig *rig, enum config_desk desk)
{
    struct stage *stage = stage_open(
        rig, (struct config){.lock_wait_ms = 2000, .desk = desk}, 8, 8);
    struct dlock_session *third = lock_rig_session(stage->client);
    struct dlock_grant grant;

    take(stage, "lock:{1:5}");
    assert_true(desk_rig_submit_units(stage->desk, 0, 5));
    desk_rig_wait_answered(stage->desk, 1);
    assert_int_equal(stage->desk->tickets[0].outcome, ORDER_LOCK_TIMEOUT);
    for (int i = 0; i < 5; i++) {
        char name[64];

        snprintf(name, sizeof(name), "lock:{1:%d}", i);
        assert_int_equal(lock_rig_take(third, name, WAIT_MS, 0, &grant),
                         DLOCK_OK);
        assert_int_equal(dlock_release(third, &grant, NULL), DLOCK_OK);
    }
    give_back(stage);
    assert_true(desk_rig_submit_units(stage->desk, 1, 5));
    desk_rig_wait_answered(stage->desk, 2);
    assert_int_equal(stage->desk->tickets[1].outcome, ORDER_PLACED);
    desk_rig_expect_sold(stage->desk, 5);
    dlock_session_close(third);
    stage_close(stage);
}

static void what_was_taken_is_given_back_if_one_cannot_be_had(void **state)
{
    all_or_nothing(*state, DESK_COMBINE);
    all_or_nothing(*state, DESK_DIRECT);
}

/*
 * All locks are held, and while the time under them runs a later holder of one
 * of them is announced: nothing may be written under the others alone. The order
 * is placed under new ones.
 */
static void overtaken(struct lock_rig *rig, enum config_desk desk,
                      const char *lock)
{
    struct stage *stage =
        stage_open(rig, (struct config){.think_ms = 200, .desk = desk}, 8, 8);
    struct store_fence fence = {.name = lock, .token = 1000, .owner = "later"};

    step_log_reset(&rig->log);
    assert_true(desk_rig_submit_units(stage->desk, 0, 5));
    step_log_await(&rig->log, "eval-acquire", 1 + 8);
    assert_int_equal(store_stamp(stage->desk->app.store, &fence, NULL),
                     STORE_OK);
    desk_rig_wait_answered(stage->desk, 1);
    assert_int_equal(stage->desk->tickets[0].outcome, ORDER_PLACED);
    assert_int_equal(stage->desk->tickets[0].stale, 1);
    desk_rig_expect_sold(stage->desk, 5);
    stage_close(stage);
}

static void who_is_overtaken_in_one_lock_writes_nothing(void **state)
{
    overtaken(*state, DESK_COMBINE, "lock:{1:0}");
    overtaken(*state, DESK_COMBINE, "lock:{1:5}");
    overtaken(*state, DESK_COMBINE, "lock:{1:7}");
    overtaken(*state, DESK_DIRECT, "lock:{1:6}");
}

/* The leases end while the keeper thinks, and nobody renews them: a no, not a
 * wait for ever. */
static void leases_shorter_than_the_work_end_in_a_no(void **state)
{
    struct stage *stage = stage_open(
        *state, (struct config){.lock_lease_ms = 30, .think_ms = 60}, 8, 8);

    assert_true(desk_rig_submit_units(stage->desk, 0, 5));
    desk_rig_wait_answered(stage->desk, 1);
    assert_int_equal(stage->desk->tickets[0].outcome, ORDER_LOCK_TIMEOUT);
    desk_rig_expect_sold(stage->desk, 0);
    stage_close(stage);
}

/* Units come back while others are gathered: they are sold as well. */
static void a_cancel_while_others_gather(void **state)
{
    struct lock_rig *rig = *state;
    struct stage *stage =
        stage_open(rig, (struct config){.think_ms = 200}, 8, 8);
    struct desk_rig *desk = stage->desk;
    struct store_order order;

    for (int i = 0; i < 2; i++)
        assert_true(desk_rig_submit(desk, i));
    desk_rig_wait_answered(desk, 2);
    step_log_reset(&rig->log);
    assert_true(desk_rig_submit_units(desk, 2, 5));
    step_log_await(&rig->log, "eval-acquire", 1 + 8);
    assert_int_equal(
        store_cancel(desk->app.store, desk->tickets[0].order.id, &order, NULL),
        STORE_OK);
    desk_rig_wait_answered(desk, 3);
    assert_int_equal(desk->tickets[2].outcome, ORDER_PLACED);
    assert_true(desk_rig_submit_units(desk, 3, 2));
    desk_rig_wait_answered(desk, 4);
    assert_int_equal(desk->tickets[3].outcome, ORDER_PLACED);
    desk_rig_expect_sold(desk, 8);
    stage_close(stage);
}

static void *stop_main(void *rig)
{
    desk_stop(((struct desk_rig *)rig)->app.desk);
    return NULL;
}

static void stopping(struct lock_rig *rig, enum config_desk desk)
{
    struct stage *stage = stage_open(
        rig, (struct config){.lock_wait_ms = 60000, .desk = desk}, 8, 8);
    pthread_t stopper;

    take(stage, "lock:{1:5}");
    step_log_reset(&rig->log);
    for (int i = 0; i < 20; i++)
        assert_true(desk_rig_submit_units(stage->desk, i, 5));
    step_log_await(&rig->log, "eval-acquire", 1 + 6);
    pthread_create(&stopper, NULL, stop_main, stage->desk);
    pthread_join(stopper, NULL);
    assert_int_equal(atomic_load(&stage->desk->answered), 20);
    assert_int_equal(desk_rig_count(stage->desk, ORDER_PLACED), 0);
    give_back(stage);
    expect_free(stage, 8);
    stage_close(stage);
}

static void stopping_ends_gathers_that_wait(void **state)
{
    stopping(*state, DESK_COMBINE);
    stopping(*state, DESK_DIRECT);
}

/*
 * Redis hangs while one keeper has many lanes, and the service ends: it is tried
 * for one of them, and not for each, to give the lock back.
 */
static void a_server_that_hangs_does_not_keep_many_lanes(void **state)
{
    struct lock_rig *rig = *state;
    struct stage *stage =
        stage_open(rig, (struct config){.workers = 1}, 1000, 64);
    unsigned tries;

    atomic_store(&stage->desk->hold, true);
    for (int i = 0; i < DESK_RIG_TICKETS; i++)
        assert_true(desk_rig_submit(stage->desk, i));
    desk_rig_wait_commit(stage->desk);
    step_log_await(&rig->log, "eval-acquire", 32);
    redis_server_pause(rig->server);
    step_log_reset(&rig->log);
    desk_rig_let_go(stage->desk);
    desk_stop(stage->desk->app.desk);
    tries = step_log_count(&rig->log, "eval-release");
    redis_server_resume(rig->server);
    assert_in_range(tries, 1, 4);
    assert_int_equal(atomic_load(&stage->desk->answered), DESK_RIG_TICKETS);
    stage_close(stage);
}

/* All 256 of them. */
static void as_many_segments_as_there_can_be(void **state)
{
    struct stage *stage = stage_open(*state, (struct config){0}, 256, 256);

    assert_true(desk_rig_submit_units(stage->desk, 0, 255));
    desk_rig_wait_answered(stage->desk, 1);
    assert_int_equal(stage->desk->tickets[0].outcome, ORDER_PLACED);
    desk_rig_expect_sold(stage->desk, 255);
    stage_close(stage);
}

#define SINGLES 100

/* One who gathers, among many who buy single units again and again, so that
 * each keeper has lanes of segments and would keep them open as long as it may,
 * a second. */
struct crowd {
    struct desk *desk;
    struct ticket gathers, singles[SINGLES];
    atomic_int sold, refused;
    int sold_before; /* the gathered order was answered */
    atomic_bool gathered;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int away; /* singles that buy no more */
};

static void tell(struct crowd *crowd, int away)
{
    pthread_mutex_lock(&crowd->mutex);
    crowd->away += away;
    pthread_cond_broadcast(&crowd->changed);
    pthread_mutex_unlock(&crowd->mutex);
}

static void single_done(struct ticket *ticket)
{
    struct crowd *crowd = ticket->owner;

    if (ticket->outcome == ORDER_PLACED)
        atomic_fetch_add(&crowd->sold, 1);
    else
        atomic_fetch_add(&crowd->refused, 1);
    ticket->next = NULL;
    if (atomic_load(&crowd->gathered) || desk_submit(crowd->desk, ticket))
        tell(crowd, 1);
    else
        tell(crowd, 0);
}

static void gathers_done(struct ticket *ticket)
{
    struct crowd *crowd = ticket->owner;

    crowd->sold_before = atomic_load(&crowd->sold);
    atomic_store(&crowd->gathered, true);
}

/* Until so many are sold: each keeper has been busy for some time, and has locks
 * that it would keep. */
static void await_sale(struct crowd *crowd, int sold)
{
    pthread_mutex_lock(&crowd->mutex);
    while (atomic_load(&crowd->sold) < sold && crowd->away == 0)
        pthread_cond_wait(&crowd->changed, &crowd->mutex);
    pthread_mutex_unlock(&crowd->mutex);
}

static void await_end(struct crowd *crowd)
{
    pthread_mutex_lock(&crowd->mutex);
    while (crowd->away < SINGLES)
        pthread_cond_wait(&crowd->changed, &crowd->mutex);
    pthread_mutex_unlock(&crowd->mutex);
}

/* SINGLES buy from SELLER. When so many are sold, one wants to have more than
 * any segment has, from GATHERER. How many were sold then. */
static int gather_among(struct crowd *crowd, struct desk *seller,
                        struct desk *gatherer, int sold)
{
    *crowd = (struct crowd){.desk = seller};
    pthread_mutex_init(&crowd->mutex, NULL);
    pthread_cond_init(&crowd->changed, NULL);
    for (int i = 0; i < SINGLES; i++) {
        crowd->singles[i] = (struct ticket){
            .order = {.product_id = 1, .user_id = 1 + i, .quantity = 1},
            .done = single_done,
            .owner = crowd};
        assert_null(desk_submit(crowd->desk, &crowd->singles[i]));
    }
    await_sale(crowd, sold);
    crowd->gathers = (struct ticket){
        .order = {.product_id = 1, .user_id = 1, .quantity = 700000},
        .done = gathers_done,
        .owner = crowd};
    sold = atomic_load(&crowd->sold);
    assert_null(desk_submit(gatherer, &crowd->gathers));
    await_end(crowd);
    return sold;
}

static void open_lanes_make_way_for_who_gathers(void **state)
{
    struct stage *stage = stage_open(*state, (struct config){0}, 1000000, 16);
    struct desk *desk = stage->desk->app.desk;
    static struct crowd crowd;
    int sold = gather_among(&crowd, desk, desk, 10 * SINGLES);

    /* Those that were under way, and a round of each lane; not a second. */
    assert_in_range(crowd.sold_before - sold, 0, 4 * SINGLES);
    assert_int_equal(crowd.gathers.outcome, ORDER_PLACED);
    assert_int_equal(atomic_load(&crowd.refused), 0);
    desk_rig_expect_sold(stage->desk, 700000 + atomic_load(&crowd.sold));
    stage_close(stage);
}

/*
 * The same at another instance, which has all locks by then. It finds out at its
 * looks, but there is no need for one at each: its keepers give back all they
 * have as soon as an order comes for a lock that is taken.
 */
static void another_instance_makes_way_for_who_gathers(void **state)
{
    struct lock_rig *rig = *state;
    struct stage *stage =
        stage_open(rig, (struct config){.shared = true, .lock_wait_ms = 2000},
                   1000000, 256);
    struct desk_rig *busy =
        desk_rig_beside(stage->desk, redis_server_url(rig->server));
    static struct crowd crowd;

    gather_among(&crowd, busy->app.desk, stage->desk->app.desk, 60 * SINGLES);
    if (crowd.gathers.outcome != ORDER_PLACED)
        fail_msg("%s", crowd.gathers.detail);
    assert_int_equal(atomic_load(&crowd.refused), 0);
    desk_rig_expect_sold(stage->desk, 700000 + atomic_load(&crowd.sold));
    desk_rig_free(busy);
    stage_close(stage);
}

struct seller {
    struct desk_rig *rig;
    int64_t units; /* of each fifth order; 1 of the others */
    pthread_t thread;
};

/* Twenty are under way at a time. */
static void *sell_all(void *arg)
{
    struct seller *seller = arg;

    for (int i = 0; i < DESK_RIG_TICKETS; i++) {
        if (!desk_rig_submit_units(seller->rig, i,
                                   i % 5 == 0 ? seller->units : 1))
            fail_msg("not taken in: %s", seller->rig->tickets[i].detail);
        if (i >= 20)
            desk_rig_wait_answered(seller->rig, i - 20);
    }
    desk_rig_wait_answered(seller->rig, DESK_RIG_TICKETS);
    return NULL;
}

static int64_t units_placed(const struct desk_rig *rig)
{
    int64_t units = 0;

    for (int i = 0; i < DESK_RIG_TICKETS; i++)
        if (rig->tickets[i].outcome == ORDER_PLACED)
            units += rig->tickets[i].order.quantity;
    return units;
}

/*
 * Two instances sell what one could not give at once, from the same segments:
 * each waits for locks that the other has. Nobody is left waiting, nor refused
 * but for want of units.
 */
static void together(struct lock_rig *rig, enum config_desk desk)
{
    struct stage *stage = stage_open(
        rig,
        (struct config){.shared = true, .desk = desk, .lock_wait_ms = 30000},
        700, 8);
    struct desk_rig *second =
        desk_rig_beside(stage->desk, redis_server_url(rig->server));
    struct seller sellers[] = {{.rig = stage->desk, .units = 100},
                               {.rig = second, .units = 90}};
    int64_t units;

    for (int i = 0; i < 2; i++)
        pthread_create(&sellers[i].thread, NULL, sell_all, &sellers[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(sellers[i].thread, NULL);
    units = units_placed(stage->desk) + units_placed(second);
    assert_int_equal(units, 700); /* single ones have bought the rest */
    for (int i = 0; i < 2; i++)
        assert_int_equal(desk_rig_count(sellers[i].rig, ORDER_PLACED) +
                             desk_rig_count(sellers[i].rig, ORDER_SOLD_OUT),
                         DESK_RIG_TICKETS);
    desk_rig_expect_sold(stage->desk, 700);
    desk_rig_free(second);
    stage_close(stage);
}

static void two_instances_gather_and_sell_at_once(void **state)
{
    together(*state, DESK_COMBINE);
    together(*state, DESK_DIRECT);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(locks_are_taken_in_ascending_order),
        TEST(what_was_taken_is_given_back_if_one_cannot_be_had),
        TEST(who_is_overtaken_in_one_lock_writes_nothing),
        TEST(leases_shorter_than_the_work_end_in_a_no),
        TEST(a_cancel_while_others_gather),
        TEST(stopping_ends_gathers_that_wait),
        TEST(a_server_that_hangs_does_not_keep_many_lanes),
        TEST(as_many_segments_as_there_can_be),
        TEST(open_lanes_make_way_for_who_gathers),
        TEST(another_instance_makes_way_for_who_gathers),
        TEST(two_instances_gather_and_sell_at_once),
    };

    alarm(120); /* who hangs has failed */
    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}

/*
 * The committer: many writes in one commit, all or none of them answered.
 *
 * A gate in the step hook holds the committer just before a commit, so that
 * what gathers behind it is known and not a matter of luck.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/store_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUYERS 12

struct fixture {
    struct store_rig rig;

    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t changed;
    bool shut;        /* commits wait before they happen */
    bool fail;        /* commits fail */
    const char *veto; /* a verb that fails */
    bool lose_answer; /* of every commit */
    int held;         /* commits that wait at the gate now */
    int commits;      /* commits that were begun */
    int entered;      /* "place" steps begun */
    char trace[200];  /* all steps, when there are few */
};

struct buyer {
    struct fixture *fixture;
    struct store_order order;
    const struct store_fence *fence;
    enum store_status status;
    bool answered; /* under the fixture's mutex */
    pthread_t thread;
};

static int64_t wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

/* ---- the gate ----------------------------------------------------------- */

static void note(struct fixture *fixture, const char *step,
                 enum store_phase phase)
{
    size_t length = strlen(fixture->trace);

    snprintf(fixture->trace + length, sizeof(fixture->trace) - length, "%s%s ",
             phase == STORE_BEFORE ? "<" : ">", step);
}

static enum store_verdict on_commit(struct fixture *fixture)
{
    fixture->commits++;
    fixture->held++;
    pthread_cond_broadcast(&fixture->changed);
    while (fixture->shut)
        pthread_cond_wait(&fixture->changed, &fixture->mutex);
    fixture->held--;
    return fixture->fail ? STORE_FAIL : STORE_GO;
}

static enum store_verdict on_step(void *ctx, const char *step,
                                  int64_t product_id, enum store_phase phase)
{
    struct fixture *fixture = ctx;
    enum store_verdict verdict = STORE_GO;

    (void)product_id;
    pthread_mutex_lock(&fixture->mutex);
    note(fixture, step, phase);
    if (phase == STORE_BEFORE && strcmp(step, "commit") == 0)
        verdict = on_commit(fixture);
    else if (phase == STORE_BEFORE && strcmp(step, "place") == 0)
        fixture->entered++;
    else if (strcmp(step, "commit") == 0 && fixture->lose_answer)
        verdict = STORE_FAIL;
    if (fixture->veto && strcmp(step, fixture->veto) == 0)
        verdict = STORE_FAIL;
    pthread_mutex_unlock(&fixture->mutex);
    return verdict;
}

static void set_gate(struct fixture *fixture, bool shut, bool fail)
{
    pthread_mutex_lock(&fixture->mutex);
    fixture->shut = shut;
    fixture->fail = fail;
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->mutex);
}

static void wait_until_held(struct fixture *fixture)
{
    pthread_mutex_lock(&fixture->mutex);
    while (fixture->held == 0)
        pthread_cond_wait(&fixture->changed, &fixture->mutex);
    pthread_mutex_unlock(&fixture->mutex);
}

/* ---- buyers ------------------------------------------------------------- */

static void *buyer_main(void *arg)
{
    struct buyer *buyer = arg;
    struct store_order *orders[] = {&buyer->order};
    enum store_status status =
        store_place(buyer->fixture->rig.store, orders, 1, buyer->fence, NULL);

    pthread_mutex_lock(&buyer->fixture->mutex);
    buyer->status = status;
    buyer->answered = true;
    pthread_mutex_unlock(&buyer->fixture->mutex);
    return NULL;
}

/* Starts one; returns when it has come to the store's door. */
static void start(struct fixture *fixture, struct buyer *buyer, int64_t product)
{
    int before;

    memset(&buyer->order, 0, sizeof(buyer->order));
    buyer->fixture = fixture;
    buyer->order.product_id = product;
    buyer->order.user_id = 1;
    buyer->order.quantity = 1;
    pthread_mutex_lock(&fixture->mutex);
    before = fixture->entered;
    pthread_mutex_unlock(&fixture->mutex);
    assert_int_equal(pthread_create(&buyer->thread, NULL, buyer_main, buyer),
                     0);
    for (bool entered = false; !entered; sleep_ms(1)) {
        pthread_mutex_lock(&fixture->mutex);
        entered = fixture->entered > before;
        pthread_mutex_unlock(&fixture->mutex);
    }
}

/* The first waits in its commit, the others behind it in the queue. */
static void crowd(struct fixture *fixture, struct buyer buyers[], int n)
{
    set_gate(fixture, true, false);
    start(fixture, &buyers[0], 1);
    wait_until_held(fixture);
    for (int i = 1; i < n; i++)
        start(fixture, &buyers[i], 1);
    sleep_ms(20);
}

static void join_all(struct buyer buyers[], int n)
{
    for (int i = 0; i < n; i++)
        pthread_join(buyers[i].thread, NULL);
}

static enum store_status buy(struct fixture *fixture)
{
    struct store_order order = {.product_id = 1, .user_id = 1, .quantity = 1};
    struct store_order *orders[] = {&order};

    return store_place(fixture->rig.store, orders, 1, NULL, NULL);
}

static void put(struct fixture *fixture, int64_t id, int64_t ends_ms)
{
    const struct store_product product = {
        .id = id, .initial = 100000, .ends_ms = ends_ms};

    store_rig_put(&fixture->rig, product);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    const struct store_options options = {.on_step = on_step,
                                          .on_step_ctx = fixture};

    store_rig_begin(&fixture->rig);
    pthread_mutex_init(&fixture->mutex, NULL);
    pthread_cond_init(&fixture->changed, NULL);
    store_rig_open(&fixture->rig, options);
    put(fixture, 1, 0);
    fixture->commits = 0;
    fixture->trace[0] = '\0';
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    set_gate(fixture, false, false); /* a test that failed left it shut */
    store_rig_end(&fixture->rig);
    pthread_cond_destroy(&fixture->changed);
    pthread_mutex_destroy(&fixture->mutex);
    free(fixture);
    return 0;
}

/* ---- one commit for many ------------------------------------------------ */

static void test_many_share_a_commit(void **state)
{
    struct fixture *fixture = *state;
    struct buyer buyers[BUYERS] = {0};

    crowd(fixture, buyers, BUYERS);
    set_gate(fixture, false, false);
    join_all(buyers, BUYERS);
    for (int i = 0; i < BUYERS; i++)
        assert_int_equal(buyers[i].status, STORE_OK);
    /* One for the first, one for all who came meanwhile. */
    assert_int_equal(fixture->commits, 2);
    assert_int_equal(store_rig_audit(&fixture->rig).orders, BUYERS);
}

static void *hammer_main(void *arg)
{
    struct buyer *buyer = arg;

    for (int i = 0; i < 50; i++)
        if (buy(buyer->fixture) != STORE_OK)
            buyer->status = STORE_IO;
    return NULL;
}

static void test_hammering_stays_exact(void **state)
{
    struct fixture *fixture = *state;
    struct buyer buyers[BUYERS] = {0};

    for (int i = 0; i < BUYERS; i++) {
        buyers[i].fixture = fixture;
        pthread_create(&buyers[i].thread, NULL, hammer_main, &buyers[i]);
    }
    join_all(buyers, BUYERS);
    for (int i = 0; i < BUYERS; i++)
        assert_int_equal(buyers[i].status, STORE_OK);
    assert_true(fixture->commits < BUYERS * 50);
    assert_int_equal(store_rig_audit(&fixture->rig).orders, BUYERS * 50);
    store_rig_expect_sound(&fixture->rig);
}

static void test_nothing_is_answered_before_the_commit(void **state)
{
    struct fixture *fixture = *state;
    struct buyer buyer = {0};
    bool answered;

    crowd(fixture, &buyer, 1);
    assert_int_equal(store_rig_audit(&fixture->rig).orders, 0);
    pthread_mutex_lock(&fixture->mutex);
    answered = buyer.answered;
    pthread_mutex_unlock(&fixture->mutex);
    set_gate(fixture, false, false);
    join_all(&buyer, 1);
    assert_false(answered);
    assert_int_equal(buyer.status, STORE_OK);
}

/* A refused job takes back its own changes and nobody else's. */
static void test_a_job_fails_alone(void **state)
{
    struct fixture *fixture = *state;
    const struct store_fence new = {.name = "lock", .token = 9},
                             old = {.name = "lock", .token = 8},
                             two = {.name = "one", .token = 7, .also = &old};
    struct buyer buyers[4] = {{.fence = &new}, {0}, {.fence = &two}, {0}};
    uint64_t token;

    crowd(fixture, buyers, 4);
    set_gate(fixture, false, false);
    join_all(buyers, 4);
    assert_int_equal(buyers[0].status, STORE_OK);
    assert_int_equal(buyers[1].status, STORE_OK);
    assert_int_equal(buyers[2].status, STORE_STALE_FENCE);
    assert_int_equal(buyers[3].status, STORE_OK);
    assert_int_equal(store_rig_audit(&fixture->rig).orders, 3);
    /* It had announced the first of its tokens already. */
    assert_int_equal(store_fence_get(fixture->rig.reader, "one", &token, NULL),
                     STORE_OK);
    assert_int_equal(token, 0);
}

/* The sale ends while the order stands in the queue: too late. */
static void test_window_is_tested_at_the_commit(void **state)
{
    struct fixture *fixture = *state;
    struct buyer first = {0}, late = {0};
    int64_t ends_ms = wall_ms() + 150;

    put(fixture, 2, ends_ms);
    crowd(fixture, &first, 1);
    start(fixture, &late, 2);
    assert_true(wall_ms() < ends_ms);
    sleep_ms(200);
    set_gate(fixture, false, false);
    join_all(&first, 1);
    join_all(&late, 1);
    assert_int_equal(late.status, STORE_OK);
    assert_int_equal(late.order.status, STORE_ENDED);
}

/* ---- the hook ----------------------------------------------------------- */

static void test_steps_in_order(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(buy(fixture), STORE_OK);
    assert_string_equal(fixture->trace, "<place <commit >commit >place ");
}

static void test_a_vetoed_verb_does_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct store_product product;

    fixture->veto = "place";
    assert_int_equal(buy(fixture), STORE_IO);
    fixture->veto = "product-get";
    assert_int_equal(store_product_get(fixture->rig.reader, 1, &product, NULL),
                     STORE_IO);
    assert_int_equal(fixture->commits, 0);
    assert_int_equal(store_rig_audit(&fixture->rig).orders, 0);
}

/* ---- failure ------------------------------------------------------------ */

static void test_failed_commit_fails_all(void **state)
{
    struct fixture *fixture = *state;
    struct buyer buyers[BUYERS] = {0};

    crowd(fixture, buyers, BUYERS);
    set_gate(fixture, false, true);
    join_all(buyers, BUYERS);
    for (int i = 0; i < BUYERS; i++) {
        assert_int_equal(buyers[i].status, STORE_IO);
        assert_int_equal(buyers[i].order.status, STORE_IO);
        assert_string_equal(buyers[i].order.id, "");
    }
    assert_int_equal(store_rig_audit(&fixture->rig).orders, 0);
    store_rig_expect_sound(&fixture->rig);
    set_gate(fixture, false, false);
    assert_int_equal(buy(fixture), STORE_OK);
    assert_int_equal(store_rig_audit(&fixture->rig).orders, 1);
    store_rig_expect_sound(&fixture->rig);
}

/* On disk, but nobody was told: "don't know", until one asks by the key. */
static void test_a_lost_answer_is_found_by_its_key(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = {
        .product_id = 1, .user_id = 1, .quantity = 1, .key = "k"};
    struct store_order *orders[] = {&order};

    fixture->lose_answer = true;
    assert_int_equal(store_place(fixture->rig.store, orders, 1, NULL, NULL),
                     STORE_IO);
    fixture->lose_answer = false;
    assert_int_equal(store_place(fixture->rig.store, orders, 1, NULL, NULL),
                     STORE_OK);
    assert_int_equal(order.status, STORE_OK);
    assert_true(order.replayed);
    assert_int_equal(store_rig_audit(&fixture->rig).orders, 1);
}

/* ---- closing ------------------------------------------------------------ */

static void *closer_main(void *arg)
{
    struct fixture *fixture = arg;

    store_close(fixture->rig.store);
    return NULL;
}

static void test_close_finishes_what_is_queued(void **state)
{
    struct fixture *fixture = *state;
    struct buyer buyers[BUYERS] = {0};
    pthread_t closer;

    crowd(fixture, buyers, BUYERS);
    store_reader_close(fixture->rig.reader);
    fixture->rig.reader = NULL;
    pthread_create(&closer, NULL, closer_main, fixture);
    sleep_ms(50);
    assert_int_equal(buy(fixture), STORE_CLOSED);
    set_gate(fixture, false, false);
    join_all(buyers, BUYERS);
    pthread_join(closer, NULL);
    for (int i = 0; i < BUYERS; i++)
        assert_int_equal(buyers[i].status, STORE_OK);
    fixture->rig.store = NULL;
    assert_int_equal(
        store_reader_open_url(fixture->rig.dir.url, &fixture->rig.reader, NULL),
        STORE_OK);
    assert_int_equal(store_rig_audit(&fixture->rig).orders, BUYERS);
}

static void test_close_of_nothing(void **state)
{
    (void)state;
    store_close(NULL);
    store_reader_close(NULL);
}

#define WITH_STORE(test)                                                       \
    cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_many_share_a_commit),
        WITH_STORE(test_hammering_stays_exact),
        WITH_STORE(test_nothing_is_answered_before_the_commit),
        WITH_STORE(test_a_job_fails_alone),
        WITH_STORE(test_window_is_tested_at_the_commit),
        WITH_STORE(test_steps_in_order),
        WITH_STORE(test_a_vetoed_verb_does_nothing),
        WITH_STORE(test_failed_commit_fails_all),
        WITH_STORE(test_a_lost_answer_is_found_by_its_key),
        WITH_STORE(test_close_finishes_what_is_queued),
        cmocka_unit_test(test_close_of_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

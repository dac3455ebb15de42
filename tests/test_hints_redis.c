/*
 * Stock hints in Redis: what the store has said is written there, by a worker, the last
 * value only; what other instances wrote is read, as far as this one does not know
 * better. Whatever happens to Redis, the hints go on without it, and are right again
 * afterwards. And units are dealt out anew because a segment was found short: once,
 * however many find it out.
 *
 * The test's thread does what the dispatcher's does, or has it done on the committer's.
 */
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
#include "server/order/hints.h"
#include "tests/support/redis_server.h"
#include "tests/support/store_rig.h"

#define NO_KEY (-1)

struct rig {
    struct redis_server *redis;
    struct store_rig store;
    struct config config;
    struct app app;
    struct hints *hints;
    uint64_t now_us;
    sem_t woken; /* the store's source was: a task has ended, say */
    void (*_Atomic call)(struct rig *); /* on the committer's thread */
    sem_t called;
    bool is_idle;             /* for a CALL to say */
    atomic_int evened_out;    /* writes of the store */
    atomic_bool note_in_even; /* a batch of the same transaction is noted */
    FILE *log;
    int error; /* where standard error went before */
};

static void attend(void *ctx)
{
    struct rig *rig = ctx;
    void (*call)(struct rig *) = atomic_exchange(&rig->call, NULL);

    if (call) {
        call(rig);
        sem_post(&rig->called);
    }
    sem_post(&rig->woken);
}

/* Product 1 has three segments: what is left in one of them. */
static void note(struct rig *rig, int64_t segment, int64_t left)
{
    hints_note(rig->hints, 1, 3, segment, left);
}

static enum store_verdict on_step(void *ctx, const struct store_step *step)
{
    struct rig *rig = ctx;

    if (strcmp(step->name, "even-out") != 0 || step->phase != STORE_BEFORE)
        return STORE_GO;
    atomic_fetch_add(&rig->evened_out, 1);
    for (int i = 0; i < 3 && atomic_load(&rig->note_in_even); i++)
        note(rig, i, 10);
    return STORE_GO;
}

static void open_parts(struct rig *rig)
{
    const struct dlock_options locks = {.strategy = "none"};

    store_rig_begin(&rig->store);
    store_rig_open(&rig->store, (struct store_options){.on_step = on_step,
                                                       .on_step_ctx = rig});
    rig->app.config = &rig->config;
    rig->app.metrics = metrics_new();
    rig->app.store = rig->store.store;
    assert_int_equal(dlock_open(&locks, &rig->app.locks, NULL), DLOCK_OK);
    rig->app.workers = tasks_open(&rig->app, "worker", 2);
    rig->hints = hints_open(&rig->app, redis_server_url(rig->redis));
    assert_non_null(rig->app.workers);
    assert_non_null(rig->hints);
    rig->store.feed.on_attend = attend;
    rig->store.feed.ctx = rig;
    store_rig_feed(&rig->store);
}

static int set_up(void **state)
{
    struct rig *rig = *state = calloc(1, sizeof(*rig));

    (void)signal(SIGPIPE, SIG_IGN);
    sem_init(&rig->woken, 0, 0);
    sem_init(&rig->called, 0, 0);
    rig->now_us = 1000000000;
    rig->redis = redis_server_start();
    open_parts(rig);
    rig->log = tmpfile();
    rig->error = dup(STDERR_FILENO);
    return dup2(fileno(rig->log), STDERR_FILENO) < 0;
}

/* When the workers have ended no task is under way. */
static int tear_down(void **state)
{
    struct rig *rig = *state;

    dup2(rig->error, STDERR_FILENO);
    close(rig->error);
    fclose(rig->log);
    redis_server_stop(rig->redis);
    tasks_close(rig->app.workers);
    store_source_detach(rig->app.store);
    hints_close(rig->hints);
    dlock_close(rig->app.locks);
    store_rig_end(&rig->store);
    metrics_free(rig->app.metrics);
    free(rig);
    return 0;
}

/* So many lines of the log have that in them. */
static unsigned logged(struct rig *rig, const char *what)
{
    char line[1100];
    unsigned n = 0;

    rewind(rig->log);
    while (fgets(line, sizeof(line), rig->log))
        n += strstr(line, what) != NULL;
    (void)fseek(rig->log, 0, SEEK_END);
    return n;
}

/* Until nothing is under way, and nothing is to be begun as of now. */
static void settle(struct rig *rig)
{
    for (;;) {
        hints_attend(rig->hints, rig->now_us);
        if (hints_are_idle(rig->hints))
            return;
        sem_wait(&rig->woken);
    }
}

/* All orders of product 1 are sent there. It has to have units for 30 of them. */
static void expect_choice(struct rig *rig, int64_t quantity, int64_t segment)
{
    for (int i = 0; i < 30; i++)
        assert_int_equal(hints_choose(rig->hints, 1, quantity), segment);
}

/* Has that called on the committer's thread, and waits for it. */
static void call_there(struct rig *rig, void (*call)(struct rig *))
{
    atomic_store(&rig->call, call);
    store_source_wake(rig->app.store);
    sem_wait(&rig->called);
}

/* What Redis has. */
static int64_t key_of(struct rig *rig, int64_t product_id, int64_t segment)
{
    char reply[200] = "";
    int64_t units;

    redis_server_ask(
        rig->redis,
        text_of("GET stock:{%" PRId64 ":%" PRId64 "}", product_id, segment),
        reply, sizeof(reply));
    return sscanf(reply, "$%*d %" SCNd64, &units) == 1 ? units : NO_KEY;
}

static void set_key(struct rig *rig, int64_t segment, const char *value)
{
    redis_server_tell(rig->redis, "SET stock:{1:%" PRId64 "} %s", segment,
                      value);
}

static const char SETS[] = "cmdstat_set:calls=", GETS[] = "cmdstat_get:calls=";

static long long asked(const struct rig *rig, const char *what)
{
    return redis_server_info(rig->redis, "commandstats", what);
}

#define PATIENCE_MS 10000

/* It takes a moment until Redis is tried again after a failure. */
static void await_key(struct rig *rig, int64_t segment, int64_t left)
{
    for (int ms = 0; key_of(rig, 1, segment) != left; ms += 10) {
        assert_true(ms < PATIENCE_MS);
        note(rig, segment, left);
        settle(rig);
        usleep(10000);
    }
}

/* ---- writing --------------------------------------------------------------- */

UNIT_TEST_OF(struct rig *rig, what_is_noted_is_written)
{
    note(rig, 0, 10);
    note(rig, 2, 30);
    hints_note(rig->hints, 2, 2, 1, 0);
    hints_note(rig->hints, 3, 1, 0, 5); /* has no hints: it has one segment */
    settle(rig);
    assert_int_equal(key_of(rig, 1, 0), 10);
    assert_int_equal(key_of(rig, 1, 1), NO_KEY);
    assert_int_equal(key_of(rig, 1, 2), 30);
    assert_int_equal(key_of(rig, 2, 1), 0);
    assert_int_equal(key_of(rig, 3, 0), NO_KEY);
    note(rig, 2, 29);
    note(rig, 0, 9);
    note(rig, 0, -1); /* nobody knows, not even of the 9 */
    settle(rig);
    assert_int_equal(key_of(rig, 1, 0), 10);
    assert_int_equal(key_of(rig, 1, 2), 29);
}

/* More than one task writes. */
UNIT_TEST_OF(struct rig *rig, the_rest_is_written_next)
{
    for (int64_t i = 0; i < STORE_SEGMENTS_MAX; i++)
        hints_note(rig->hints, 2, STORE_SEGMENTS_MAX, i, 20);
    note(rig, 0, 10);
    settle(rig);
    assert_int_equal(key_of(rig, 1, 0), 10);
    assert_int_equal(key_of(rig, 2, 0), 20);
    assert_int_equal(key_of(rig, 2, STORE_SEGMENTS_MAX - 1), 20);
}

/* While one is on its way, the next ones become one. */
UNIT_TEST_OF(struct rig *rig, the_last_value_counts)
{
    for (int i = 100; i >= 0; i--)
        note(rig, 0, i);
    settle(rig);
    settle(rig);
    assert_int_equal(key_of(rig, 1, 0), 0);
    assert_int_equal(asked(rig, SETS), 1);
    redis_server_pause(rig->redis);
    for (int i = 100; i >= 7; i--) {
        note(rig, 0, i);
        hints_attend(rig->hints, rig->now_us);
        assert_false(hints_are_idle(rig->hints));
    }
    redis_server_resume(rig->redis);
    settle(rig);
    assert_int_equal(key_of(rig, 1, 0), 7);
    assert_int_equal(asked(rig, SETS), 3);
}

/* ---- Redis away, full, empty ----------------------------------------------- */

/* Emptied, then away: what is known is known. */
UNIT_TEST_OF(struct rig *rig, away_it_costs_nothing_and_heals)
{
    uint64_t begin_ms;

    for (int i = 0; i < 3; i++)
        note(rig, i, i == 1 ? 1000 : 0);
    settle(rig);
    redis_server_tell(rig->redis, "FLUSHALL");
    expect_choice(rig, 1, 1);
    note(rig, 1, 9);
    settle(rig);
    assert_int_equal(key_of(rig, 1, 1), 9);
    assert_int_equal(key_of(rig, 1, 0), NO_KEY);
    assert_int_equal(logged(rig, "redis="), 0);
    redis_server_kill(rig->redis);
    begin_ms = clock_ms();
    for (int i = 0; clock_ms() < begin_ms + 1200; i++) { /* it is tried again */
        note(rig, 1, 1000 + i);
        settle(rig);
        usleep(1000);
    }
    expect_choice(rig, 1, 1);
    redis_server_restart(rig->redis);
    await_key(rig, 1, 77);
    assert_int_equal(logged(rig, "redis=away"), 1);
    assert_int_equal(logged(rig, "redis=back"), 1);
}

/* The task waits, and nobody else does; and not the next one at once. */
UNIT_TEST_OF(struct rig *rig, hung_it_costs_a_task)
{
    uint64_t begin_ms;

    note(rig, 0, 10);
    settle(rig);
    redis_server_pause(rig->redis);
    note(rig, 0, 9);
    begin_ms = clock_ms();
    for (int i = 0; i < 1000; i++)
        hints_attend(rig->hints, rig->now_us);
    assert_true(clock_ms() - begin_ms < PATIENCE_MS);
    settle(rig);
    assert_in_range(clock_ms() - begin_ms, 250, PATIENCE_MS);
    begin_ms = clock_ms();
    for (int i = 0; i < 100; i++) {
        note(rig, 0, i);
        settle(rig);
    }
    assert_true(clock_ms() - begin_ms < PATIENCE_MS);
    redis_server_resume(rig->redis);
    await_key(rig, 0, 8);
}

UNIT_TEST_OF(struct rig *rig, full_it_costs_nothing_and_heals)
{
    const struct store_segments segments = {.n = 1, .at = {{.stock = 4}}};

    rig->config.shared = true; /* it reads as well, which is not refused */
    redis_server_tell(rig->redis, "CONFIG SET maxmemory 1");
    for (int i = 0; i < 50; i++) {
        note(rig, 1, i);
        rig->now_us += 1000000;
        settle(rig);
    }
    assert_int_equal(key_of(rig, 1, 1), NO_KEY);
    assert_false(hints_publish(rig->hints, 1, &segments));
    assert_int_equal(logged(rig, "redis="), 1);
    redis_server_tell(rig->redis, "CONFIG SET maxmemory 0");
    note(rig, 1, 50);
    settle(rig);
    assert_int_equal(key_of(rig, 1, 1), 50);
    assert_int_equal(logged(rig, "redis=refuses"), 1);
    assert_int_equal(logged(rig, "redis=takes-them-again"), 1);
    assert_true(hints_publish(rig->hints, 1, &segments));
    assert_int_equal(key_of(rig, 1, 0), 4);
}

/* ---- beginning and end ----------------------------------------------------- */

UNIT_TEST_OF(struct rig *rig, stopped_it_begins_nothing)
{
    hints_stop(rig->hints);
    note(rig, 0, 10);
    hints_attend(rig->hints, rig->now_us);
    assert_true(hints_are_idle(rig->hints));
}

/* ---- other instances (--shared) -------------------------------------------- */

/* This one knows of segment 0; what is in the others, Redis says. */
static void share(struct rig *rig, const char *one, const char *two)
{
    rig->config.shared = true;
    note(rig, 0, 5);
    settle(rig);
    set_key(rig, 1, one);
    set_key(rig, 2, two);
    rig->now_us += 1000000;
}

UNIT_TEST_OF(struct rig *rig, what_others_wrote_is_read)
{
    long long before;

    share(rig, "4000", "3");
    before = asked(rig, GETS);
    rig->config.shared = false; /* there are no others */
    settle(rig);
    assert_int_equal(asked(rig, GETS), before);
    rig->config.shared = true;
    settle(rig);
    expect_choice(rig, 6, 1);
    set_key(rig, 1, "0");
    set_key(rig, 2, "5000");
    settle(rig); /* not yet */
    expect_choice(rig, 6, 1);
    rig->now_us += 1000000;
    settle(rig);
    expect_choice(rig, 6, 2);
    redis_server_kill(rig->redis); /* a read that fails changes nothing */
    rig->now_us += 1000000;
    settle(rig);
    expect_choice(rig, 6, 2);
}

/* Neither more than there can be. */
UNIT_TEST_OF(struct rig *rig, what_is_no_number_is_unknown)
{
    static const char *const values[][2] = {
        {"4x", "-7"}, {"9007199254740992", "99999999999999999999"}};

    share(rig, "4000", "5000");
    for (int i = 0; i < 2; i++) {
        int counts[3] = {0};

        set_key(rig, 1, values[i][0]);
        set_key(rig, 2, values[i][1]);
        rig->now_us += 1000000;
        settle(rig);
        for (int k = 0; k < 200; k++)
            counts[hints_choose(rig->hints, 1, 6)]++;
        assert_int_equal(counts[0], 0);
        assert_in_range(counts[1], 50, 150);
    }
}

/* The task reads what is older than what was noted meanwhile. */
UNIT_TEST_OF(struct rig *rig, what_was_noted_meanwhile_is_newer)
{
    share(rig, "4000", "5000");
    redis_server_pause(rig->redis);
    hints_attend(rig->hints, rig->now_us);
    assert_false(hints_are_idle(rig->hints));
    note(rig, 2, 0);
    redis_server_resume(rig->redis);
    settle(rig);
    expect_choice(rig, 6, 1);
    assert_int_equal(key_of(rig, 1, 2), 0);
}

/* ---- evening out: all on the committer's thread ---------------------------- */

static void learn(struct rig *rig)
{
    for (int i = 0; i < 3; i++)
        note(rig, i, i == 0 ? 0 : 10);
}

static void find_short(struct rig *rig)
{
    hints_uneven(rig->hints, 1, rig->now_us);
    hints_uneven(rig->hints, 1, rig->now_us);
    hints_uneven(rig->hints, 2, rig->now_us); /* not heard of */
    rig->is_idle = hints_are_idle(rig->hints);
}

/* And again, when the store has taken its time. */
static void find_short_again(struct rig *rig)
{
    find_short(rig);
    hints_uneven(rig->hints, 1, rig->now_us + 1000000);
}

static void look(struct rig *rig)
{
    hints_attend(rig->hints, rig->now_us);
    rig->is_idle = hints_are_idle(rig->hints);
}

static void stop(struct rig *rig)
{
    hints_stop(rig->hints);
}

static void await_idle(struct rig *rig)
{
    do
        call_there(rig, look);
    while (!rig->is_idle);
}

static void make_uneven(struct rig *rig)
{
    store_rig_split(&rig->store, 30, 3);
    (void)store_rig_order_at(&rig->store, 0, 10);
    store_rig_expect(&rig->store, "0 10 10");
    call_there(rig, learn);
}

UNIT_TEST_OF(struct rig *rig, an_uneven_product_is_evened_out_once)
{
    make_uneven(rig);
    call_there(rig, find_short_again);
    assert_false(rig->is_idle);
    await_idle(rig);
    store_rig_expect(&rig->store, "7 7 6");
    rig->now_us += 50000;
    call_there(rig, find_short);
    await_idle(rig);
    assert_int_equal(atomic_load(&rig->evened_out), 1);
    rig->now_us += 1000000;
    call_there(rig, find_short); /* again, since time has passed */
    await_idle(rig);
    assert_int_equal(atomic_load(&rig->evened_out), 2);
    rig->now_us += 1000000;
    call_there(rig, stop);
    call_there(rig, find_short);
    assert_true(rig->is_idle);
}

/* What a batch said that was decided just before is true no more. */
UNIT_TEST_OF(struct rig *rig, what_was_evened_out_is_unknown)
{
    int counts[3] = {0};

    make_uneven(rig);
    await_idle(rig);
    assert_int_equal(key_of(rig, 1, 2), 10);
    atomic_store(&rig->note_in_even, true);
    call_there(rig, find_short);
    await_idle(rig);
    for (int i = 0; i < 3; i++) /* older numbers may be there, but no others */
        assert_int_equal(key_of(rig, 1, i), i == 0 ? 0 : 10);
    for (int i = 0; i < 300; i++)
        counts[hints_choose(rig->hints, 1, 1)]++;
    for (int i = 0; i < 3; i++)
        assert_in_range(counts[i], 50, 150);
}

/*
 * Many asynchronous calls at once: they wait without threads, and all get their turn.
 */
#include <stdatomic.h>
#include <sys/resource.h>

#include "lock/core/strategy.h"
#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"

enum { CROWD_N = 1000, CROWD_THREADS_MAX = 4 };

/* A thousand acquires that wait, each in a session of its own. */
struct crowd {
    struct dlock *client;
    struct dlock_session *session[CROWD_N];
    struct note note[CROWD_N];
};

static struct crowd *crowd_open(const char *strategy)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));

    assert_non_null(crowd);
    crowd->client = lock_rig_client(strategy);
    for (unsigned i = 0; i < CROWD_N; i++) {
        crowd->session[i] = lock_rig_session(crowd->client);
        assert_ok(note_begin(crowd->session[i], "k", 60000, &crowd->note[i]));
    }
    return crowd;
}

static void crowd_close(struct crowd *crowd)
{
    for (unsigned i = 0; i < CROWD_N; i++)
        dlock_session_close(crowd->session[i]);
    for (unsigned i = 0; i < CROWD_N; i++)
        assert_int_equal(atomic_load(&crowd->note[i].n), 1);
    lock_rig_close(crowd->client);
    free(crowd);
}

/* Needs a descriptor for each of its sessions. */
static void lift_limit(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

LOCK_TEST(test_a_thousand_wait_on_a_few_threads)
{
    struct dlock *client = lock_rig_client("fenced");
    struct dlock_session *holder = lock_rig_session(client);
    struct crowd *crowd;
    struct dlock_grant grant;
    uint64_t start_ms;

    lift_limit();
    assert_ok(lock_rig_take(holder, "k", 0, 0, &grant));
    step_log_reset(&rig.log);
    crowd = crowd_open("fenced");
    /* All have tried, and been told no. */
    step_log_await(&rig.log, "eval-acquire", CROWD_N);
    assert_in_range(lock_rig_threads("dlock-async"), 1, CROWD_THREADS_MAX);
    /* And each release reaches one of them at once. */
    start_ms = lock_rig_now_ms();
    assert_ok(dlock_release(holder, &grant, NULL));
    for (unsigned won = 0; won == 0;) {
        for (unsigned i = 0; i < CROWD_N; i++)
            won += atomic_load(&crowd->note[i].n) > 0;
        assert_true(lock_rig_now_ms() - start_ms < 20000);
        lock_rig_sleep_ms(1);
    }
    /* A thousand cancels do not wake a thousand each: that would be N * N / 4 tries.
     * Those that still wait keep their places by a try each second, so a slow machine
     * sees more than one for each. */
    step_log_reset(&rig.log);
    crowd_close(crowd);
    assert_in_range(step_log_count(&rig.log, "eval-acquire"), 0, 100 * CROWD_N);
}

/* Locks that are polled: the pause is a timer. */
LOCK_TEST(test_a_thousand_poll_on_a_few_threads)
{
    struct lock_pair pair = lock_pair_held("spin", 60000);
    struct crowd *crowd;

    lift_limit();
    crowd = crowd_open("spin");
    lock_rig_sleep_ms(200);
    assert_in_range(lock_rig_threads("dlock-async"), 1, CROWD_THREADS_MAX);
    assert_ok(lock_pair_give(&pair, 0));
    crowd_close(crowd);
}

/* Threads are all at a try, and as many acquires are ready before the release comes. */
LOCK_TEST(test_releases_go_before_acquires)
{
    enum { TRIES_N = 2 * CROWD_THREADS_MAX };
    struct dlock *client = lock_rig_client("redisson");
    struct dlock_session *holder = lock_rig_session(client);
    struct note tries[TRIES_N] = {{.n = 0}};
    struct note given = {.n = 0};
    struct dlock_grant grant;

    assert_ok(lock_rig_take(holder, "held", 0, 0, &grant));
    step_log_shut(&rig.log, "eval-acquire", DLOCK_BEFORE);
    for (unsigned i = 0; i < TRIES_N; i++)
        assert_ok(note_begin(lock_rig_session(client), "k", 0, &tries[i]));
    step_log_await_gate(&rig.log, CROWD_THREADS_MAX);
    assert_ok(dlock_release_async(holder, &grant, note_done, &given, NULL));
    step_log_pass(&rig.log);
    step_log_await(&rig.log, "eval-release", 1);
    step_log_open(&rig.log);
    for (unsigned i = 0; i < TRIES_N; i++)
        (void)note_await(&tries[i]);
    assert_ok(note_await(&given));
}

/* Threads are all at a release that gets no answer, and as many are ready before the
 * acquire comes. */
LOCK_TEST(test_releases_do_not_keep_acquires_waiting)
{
    enum { HELD_N = 2 * CROWD_THREADS_MAX };
    struct dlock *client = lock_rig_client("redisson");
    struct note given[HELD_N] = {{.n = 0}};
    struct note tried = {.n = 0};

    step_log_shut(&rig.log, "eval-release", DLOCK_BEFORE);
    for (unsigned i = 0; i < HELD_N; i++) {
        struct dlock_session *holder = lock_rig_session(client);
        struct dlock_grant grant;

        assert_ok(lock_rig_take(holder, text_of("held-%u", i), 0, 0, &grant));
        assert_ok(
            dlock_release_async(holder, &grant, note_done, &given[i], NULL));
    }
    step_log_await_gate(&rig.log, CROWD_THREADS_MAX);
    assert_ok(note_begin(lock_rig_session(client), "k", 0, &tried));
    step_log_pass(&rig.log);
    assert_ok(note_await(&tried));
    step_log_open(&rig.log);
    for (unsigned i = 0; i < HELD_N; i++)
        assert_ok(note_await(&given[i]));
}

/* A lock that nobody gets, and that is looked at once in a long time. */
static struct dlock *to_end; /* whose waits end as a pause begins; or NULL */
static unsigned long_ms = LOCK_RIG_LONG_MS;

static enum dlock_status refuse(const struct dlock_attempt *attempt)
{
    (void)step_log_note(&rig.log, "refuse", 0, DLOCK_BEFORE);
    return DLOCK_BUSY;
}

static uint64_t pause_long(unsigned look, uint16_t dice)
{
    dlock_end_waits(to_end);
    return 1000 * (uint64_t)long_ms;
}

static const struct dlock_strategy never = {
    .info = {.name = "never", .claim = "Nobody."},
    .acquire = refuse,
    .pause_us = pause_long,
};
static const struct dlock_strategies never_set = {
    .core = &DLOCK_CORE,
    .all = (const struct dlock_strategy *const[]){&never, NULL},
};

/* Ended while it is parked, as all threads are at tries of others; or just before. */
static void end_waits(bool parked)
{
    struct dlock *client = lock_rig_client("never");
    struct note note = {.n = 0}, tries[CROWD_THREADS_MAX] = {{.n = 0}};
    uint64_t start_ms = lock_rig_now_ms();

    to_end = parked ? NULL : client;
    assert_ok(
        note_begin(lock_rig_session(client), "k", 2 * LOCK_RIG_LONG_MS, &note));
    if (parked) {
        step_log_await_at(&rig.log, "refuse", 0, DLOCK_BEFORE, 1);
        step_log_shut(&rig.log, "refuse", DLOCK_BEFORE);
        for (size_t i = 0; i < CROWD_THREADS_MAX; i++)
            assert_ok(note_begin(lock_rig_session(client), "k", 0, &tries[i]));
        step_log_await_gate(&rig.log, CROWD_THREADS_MAX);
        dlock_end_waits(client);
        step_log_open(&rig.log);
        for (size_t i = 0; i < CROWD_THREADS_MAX; i++)
            (void)note_await(&tries[i]);
    }
    assert_int_equal(note_await(&note), DLOCK_TIMEOUT);
    assert_true(lock_rig_now_ms() - start_ms < LOCK_RIG_PROMPT_MS);
    lock_rig_close(client);
}

LOCK_TEST(test_end_of_waits_reaches_pauses)
{
    assert_ok(dlock_register(&never_set, NULL));
    end_waits(true);
    end_waits(false);
}

/* N tries are on a thread each, at a gate that opens when AT_GATE are there. */
static void begin_tries(struct dlock *client, struct note tries[], size_t n,
                        unsigned at_gate)
{
    step_log_shut(&rig.log, "refuse", DLOCK_BEFORE);
    for (size_t i = 0; i < n; i++)
        assert_ok(note_begin(lock_rig_session(client), "k", 0, &tries[i]));
    step_log_await_gate(&rig.log, at_gate);
    step_log_open(&rig.log);
    for (size_t i = 0; i < n; i++)
        (void)note_await(&tries[i]);
}

/*
 * The thread that watches the pauses has a try: the last that is idle watches, so that
 * the one that polls comes to the gate as well. The watcher must have been idle for
 * longest, because the condition variable wakes that one first: so the other three
 * have tries behind it.
 */
LOCK_TEST(test_pauses_end_while_others_try)
{
    enum { OTHERS_N = CROWD_THREADS_MAX - 1 };
    struct note waits = {.n = 0}, tries[3][CROWD_THREADS_MAX] = {{{.n = 0}}};
    struct dlock *client;

    assert_ok(dlock_register(&never_set, NULL));
    client = lock_rig_client("never");
    to_end = NULL;
    long_ms = 1000;
    begin_tries(client, tries[0], CROWD_THREADS_MAX, CROWD_THREADS_MAX);
    assert_ok(
        note_begin(lock_rig_session(client), "k", LOCK_RIG_LONG_MS, &waits));
    step_log_await_at(&rig.log, "refuse", 0, DLOCK_BEFORE,
                      CROWD_THREADS_MAX + 1);
    begin_tries(client, tries[1], OTHERS_N, OTHERS_N);
    begin_tries(client, tries[2], OTHERS_N, CROWD_THREADS_MAX);
    lock_rig_close(client);
    long_ms = LOCK_RIG_LONG_MS;
}

LOCK_RIG_MAIN

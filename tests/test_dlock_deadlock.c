/*
 * Deadlocks: of processes that wait for each other one is told, with the cycle in
 * words, and the others get what they wait for. Nobody is told of one that is none:
 * not when a waiter has given up, was stopped, or its command comes late.
 */
#include <poll.h>
#include <stdatomic.h>

#include "lock/dlock_more.h"
#include "tests/support/async_note.h"
#include "tests/support/fake_clock.h"
#include "tests/support/lock_process.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

enum {
    LONG_MS = 60000, /* nobody waits for so long */
    AFTER_MS = 50,   /* deadlock_ms */
    LOOKS = 8,       /* after which who was to be told would have been */
    PARTIES_MAX = 2,
};

static struct lock_process processes[PARTIES_MAX];

static int begin_all(void **state)
{
    dlock_deadlock_register();
    return lock_rig_setup(state);
}

static int tear_down(NO_STATE)
{
    for (int i = 0; i < PARTIES_MAX; i++)
        lock_process_kill(&processes[i]);
    return 0;
}

/* Process I holds the lock of its own: A, or B. */
static const char *const names[PARTIES_MAX] = {"A", "B"};

static void start(int n, const char *strategy)
{
    static const char *const labels[PARTIES_MAX] = {"p", "q"};

    rig.deadlock_ms = AFTER_MS;
    for (int i = 0; i < n; i++) {
        rig.label = labels[i];
        lock_process_start(&processes[i], strategy);
        assert_ok(lock_process_take(&processes[i], names[i], 0));
    }
}

static void wait_a_little(void)
{
    (void)poll(NULL, 0, 2);
}

static bool has_said_something(const struct lock_process *process)
{
    return poll(&(struct pollfd){process->line, POLLIN, 0}, 1, 0) > 0;
}

/* So many looks more, whoever looks; or somebody has an answer. */
static void await_looks(int n)
{
    char before[64] = "", now[64];
    bool said = false;

    for (int seen = -1; seen < n && !said; wait_a_little()) {
        for (int i = 0; i < PARTIES_MAX; i++)
            said |=
                processes[i].proc.pid > 0 && has_said_something(&processes[i]);
        redis_server_ask(rig.server, "GET {deadlocks}:dlock-stamp", now,
                         sizeof(now));
        seen += strcmp(before, now) != 0;
        (void)snprintf(before, sizeof(before), "%s", now);
    }
}

#define ALONE(test)                                                            \
    UNIT_TEST_WITH(NO_FIXTURE, test, lock_rig_fresh, tear_down, NULL)

/* Nobody knows whether it still waits; when it goes on, all do. */
ALONE(who_is_stopped_is_not_told_of)
{
    struct lock_process_report report;

    start(2, "fenced");
    lock_process_tell_take(&processes[0], "B", LONG_MS);
    while (lock_rig_ask(
               "EVAL \"return #redis.call('keys', '*:dlock-waits')\" 0") == 0)
        wait_a_little();
    server_proc_pause(&processes[0].proc);
    lock_process_tell_take(&processes[1], "A", LONG_MS);
    await_looks(LOOKS);
    assert_false(has_said_something(&processes[1]));
    server_proc_resume(&processes[0].proc);
    report = lock_process_report(&processes[1]);
    assert_int_equal(report.status, DLOCK_DEADLOCK);
    assert_non_null(
        strstr(report.text, ":p, which waits for B, which you hold"));
}

/* ---- a look that comes late ------------------------------------------------- */

static enum dlock_verdict keep_look(void *ctx, const struct dlock_step *step)
{
    char **late = ctx;

    if (step->phase == DLOCK_BEFORE && strcmp(step->name, "eval-look") == 0) {
        free(*late);
        *late = step_line(step);
    }
    return DLOCK_GO;
}

/* A session in this process, whose last look is kept. */
static struct dlock_session *open_kept(char **late)
{
    rig.on_step = keep_look;
    rig.hooks_ctx = late;
    return lock_rig_session(lock_rig_client("fenced"));
}

/* Longer where the machine is so busy that it does not come to look. */
static void wait_in_vain(struct dlock_session *session, const char *name,
                         char *const *late)
{
    struct dlock_terms terms = {.wait_ms = 4 * AFTER_MS,
                                .deadlock_ms = AFTER_MS};
    struct dlock_grant grant;

    for (; *late == NULL; terms.wait_ms *= 2)
        assert_int_equal(dlock_acquire(session, name, &terms, &grant, NULL),
                         DLOCK_TIMEOUT);
}

static void deliver(const char *late)
{
    char reply[256];

    redis_server_ask(rig.server, late, reply, sizeof(reply));
    assert_int_equal(reply[0], '*');
}

/*
 * A session that has given up, and holds A as ever; the network delivers its last look
 * again and again. A look taken for a waiter that lives would tell of a deadlock.
 */
ALONE(a_late_look_deceives_nobody)
{
    static char *late;
    struct dlock_grant held;
    struct dlock_session *session;

    start(2, "fenced");
    assert_ok(lock_process_give(&processes[0]));
    session = open_kept(&late);
    assert_ok(dlock_try(session, "A", NULL, &held, NULL));
    wait_in_vain(session, "B", &late);

    lock_process_tell_take(&processes[1], "A", LONG_MS);
    for (int i = 0; i < 3 * LOOKS; i++) {
        deliver(late);
        await_looks(1);
    }
    assert_false(has_said_something(&processes[1]));
    assert_ok(dlock_release(session, &held, NULL));
    assert_ok(lock_process_report(&processes[1]).status);
}

/* The same owner waits again by now: an older wait's look says nothing of that. */
ALONE(a_look_of_an_older_wait_does_not_count)
{
    static char *late;
    char before[256], after[256];
    struct dlock_session *session;
    const char *owner;

    start(1, "fenced");
    session = open_kept(&late);
    owner = dlock_session_owner(session);
    wait_in_vain(session, "A", &late);
    /* As another look, of a later wait, would have written it; but for its end. */
    lock_rig_tell("HSET {%s}:dlock-waits number 999 name B since 7 heard 8",
                  owner);
    lock_rig_tell("PERSIST {%s}:dlock-waits", owner);
    redis_server_ask(rig.server, text_of("HGETALL {%s}:dlock-waits", owner),
                     before, sizeof(before));
    deliver(late);
    assert_int_equal(lock_rig_ask("TTL {%s}:dlock-waits", owner), -1);
    redis_server_ask(rig.server, text_of("HGETALL {%s}:dlock-waits", owner),
                     after, sizeof(after));
    assert_string_equal(after, before);
}

/* ---- who is told ------------------------------------------------------------ */

/* One that is slow to look: between two looks of its, others have had theirs. */
struct slow {
    const char *owner;
    atomic_uint looks_n, others_n;
    atomic_bool hurries;
};

static enum dlock_verdict look_slowly(void *ctx, const struct dlock_step *step)
{
    struct slow *slow = ctx;
    bool is_other = strcmp(step->owner, slow->owner) != 0;
    unsigned seen_n = atomic_load(&slow->others_n);

    if (strcmp(step->name, "eval-look") != 0)
        return DLOCK_GO;
    if (is_other && step->phase == DLOCK_AFTER)
        (void)atomic_fetch_add(&slow->others_n, 1);
    if (!is_other && step->phase == DLOCK_BEFORE &&
        atomic_fetch_add(&slow->looks_n, 1) > 0)
        while (atomic_load(&slow->others_n) < seen_n + 2 &&
               !atomic_load(&slow->hurries))
            wait_a_little();
    return DLOCK_GO;
}

/* Also when the one that waits longer is sure of it before. */
ALONE(who_came_last_is_told)
{
    const struct dlock_terms terms = {.wait_ms = LOCK_RIG_LONG_MS,
                                      .deadlock_ms = AFTER_MS};
    struct dlock_grant grants[2], other;
    struct dlock_session *sessions[2];
    struct note note = {.n = 0};
    static struct slow slow;

    rig.on_step = look_slowly;
    rig.hooks_ctx = &slow;
    slow.owner = "";
    for (int i = 0; i < 2; i++) {
        sessions[i] = lock_rig_session(lock_rig_client("fenced"));
        assert_ok(dlock_try(sessions[i], names[i], NULL, &grants[i], NULL));
    }
    slow.owner = dlock_session_owner(sessions[0]);
    assert_ok(
        dlock_acquire_async(sessions[0], "B", &terms, note_done, &note, NULL));
    while (atomic_load(&slow.looks_n) == 0)
        wait_a_little();
    assert_int_equal(dlock_acquire(sessions[1], "A", &terms, &other, NULL),
                     DLOCK_DEADLOCK);
    assert_int_equal(atomic_load(&note.n), 0);
    atomic_store(&slow.hurries, true);
    assert_ok(dlock_release(sessions[1], &grants[1], NULL));
    assert_ok(note_await(&note));
}

/* After the first look: y waits anew, and so it is another circle. */
static enum dlock_verdict change_circle(void *ctx,
                                        const struct dlock_step *step)
{
    unsigned *looks_n = ctx;

    if (step->phase == DLOCK_AFTER && strcmp(step->name, "eval-waits") == 0 &&
        ++*looks_n == 1)
        lock_rig_tell("EVAL \"return redis.call('hset', KEYS[1], 'number', 2, "
                      "'since', string.format('%%.0f', 1 + redis.call('get', "
                      "'{deadlocks}:dlock-stamp')))\" 1 {y}:dlock-waits");
    return DLOCK_GO;
}

/* The second circle is seen two looks long as well, and no longer. */
ALONE(a_circle_behind_another_is_told)
{
    char text[DLOCK_WAITS_BYTES_MAX];
    static unsigned looks_n;

    rig.on_step = change_circle;
    rig.hooks_ctx = &looks_n;
    lock_rig_tell("HSET A x 1");
    lock_rig_tell("HSET B y 1");
    lock_rig_tell("HSET {x}:dlock-waits name B number 1 since 1 heard "
                  "9000000000000000");
    lock_rig_tell("HSET {y}:dlock-waits name A number 1 since 1 heard "
                  "9000000000000000");
    assert_int_equal(
        dlock_waits_for(lock_rig_session(lock_rig_client("fenced")), "A", text,
                        NULL),
        DLOCK_DEADLOCK);
    assert_int_equal(looks_n, 3);
}

static enum dlock_verdict answer_slowly(void *ctx,
                                        const struct dlock_step *step)
{
    if (step->phase == DLOCK_AFTER && strcmp(step->name, "eval-waits") == 0)
        fake_clock_advance(ctx, LOCK_RIG_TIMEOUT_MS);
    (void)step_log_hook(&rig.log, step);
    return DLOCK_GO;
}

static void tell_of_a_circle(void)
{
    lock_rig_tell("HSET A x 1");
    lock_rig_tell("HSET B y 1");
    lock_rig_tell("HSET {x}:dlock-waits name B number 1 since 1 heard 0");
    lock_rig_tell("HSET {y}:dlock-waits name A number 1 since 1 heard 0");
}

/* A waiter that is not heard of again is waited for, but not for 40 slow answers. */
ALONE(who_asks_is_answered_in_time)
{
    char text[DLOCK_WAITS_BYTES_MAX];
    static struct fake_clock clock;

    fake_clock_init(&clock, 1);
    rig.clock = &clock.face;
    rig.on_step = answer_slowly;
    rig.hooks_ctx = &clock;
    tell_of_a_circle();
    assert_ok(dlock_waits_for(lock_rig_session(lock_rig_client("fenced")), "A",
                              text, NULL));
    assert_int_equal(step_log_count(&rig.log, "eval-waits"), 2);
}

static enum dlock_verdict let_one_through(void *ctx,
                                          const struct dlock_step *step)
{
    unsigned *steps_n = ctx;

    return step->phase == DLOCK_BEFORE && ++*steps_n > 1 ? DLOCK_FAIL
                                                         : DLOCK_GO;
}

ALONE(who_asks_is_not_told_the_half_of_it)
{
    char text[DLOCK_WAITS_BYTES_MAX] = "as it was";
    unsigned steps_n = 0;

    rig.on_step = let_one_through;
    rig.hooks_ctx = &steps_n;
    tell_of_a_circle();
    assert_int_equal(
        dlock_waits_for(lock_rig_session(lock_rig_client("fenced")), "A", text,
                        NULL),
        DLOCK_UNREACHABLE);
    assert_int_equal(steps_n, 2);
    assert_string_equal(text, "as it was");
}

static void cannot(const char *strategy, const char *says)
{
    char text[DLOCK_WAITS_BYTES_MAX];
    struct dlock_error error;
    struct lock_single single = lock_single_open(strategy);

    rig.deadlock_ms = AFTER_MS;
    assert_int_equal(lock_single_take(&single, 100), DLOCK_MISUSE);
    assert_non_null(strstr(single.error.text, says));
    assert_int_equal(dlock_waits_for(single.session, "k", text, &error),
                     DLOCK_MISUSE);
    assert_non_null(strstr(error.text, says));
}

/* Nothing is sent, so there has to be no cluster. */
ALONE(others_cannot)
{
    cannot("none", "strategy none cannot look for deadlocks");
    rig.url = "cluster://127.0.0.1:1";
    cannot("fenced", "a cluster cannot look for deadlocks");
}

#define WAITS "EVAL \"return #redis.call('keys', '*:dlock-waits')\" 0 -> "

static const struct lock_story stories[] = {
    {"who comes in again waits for nobody", "fenced",
     "labelled p; a takes name=A; labelled; "
     "a takes again name=A wait=long deadlock=50; "
     "b takes name=A wait=200 deadlock=50 -> timeout; "
     "b asks name=A -> ok '..:p, which is not known to wait'"},
    /* At the end b's wait stays in Redis for a while, and is over. */
    {"anybody may ask", "fenced",
     "c asks name=A -> ok 'A is held by nobody'; labelled p; a takes name=A; "
     "labelled q; b takes own name=B; a begins name=B wait=long deadlock=50; "
     "until " WAITS
     "1; c asks name=A -> ok '..:p, which waits for B, which is held by'; "
     "c asks name=A -> ok '..:q, which is not known to wait'; "
     "b begins name=A wait=long deadlock=50; b ends -> deadlock; b gives own; "
     "a ends; c asks name=A -> ok '..:p, which is not known to wait'"},
    /* Each of them waits for the next one. */
    {"a long chain is not followed to its end", "fenced",
     "EVAL \"for i = 1, 101 do redis.call('hset', 'L' .. i, 'o' .. i, 1) "
     "redis.call('hset', '{o' .. i .. '}:dlock-waits', 'name', 'L' .. i + 1, "
     "'number', 1, 'since', 1, 'heard', 0) end return 1\" 0 -> 1; "
     "c asks name=L1 -> ok '..waits for L2, held by o2, which'; "
     "c asks name=L1 -> ok '.., and so on'; "
     "c asks name=L3 -> ok '..is held by nobody'"},
    {"two wait for each other, and one is told", "redisson fenced fair",
     "a takes name=A; b takes name=B; a begins name=B wait=long deadlock=50; "
     "until " WAITS "1; b takes other name=A wait=long deadlock=50 -> "
     "deadlock '..which waits for B, which you hold'; a waits; b gives; "
     "a ends"},
    {"three in a circle", "redisson fenced fair",
     "labelled p; a takes name=A; labelled q; b takes own name=B; labelled; "
     "c takes name=C; a begins name=B wait=long deadlock=50; until " WAITS
     "1; b begins name=C wait=long deadlock=50; until " WAITS
     "2; c takes other name=A wait=long deadlock=50 -> deadlock "
     "'..:p, which waits for B, held by '; b waits; c gives; b ends; a waits; "
     "b gives own; a ends"},
    {"the clock was set back, and the stamps rise all the same", "fenced",
     "a takes name=A; b takes name=B; "
     "EVAL \"redis.call('set', '{deadlocks}:dlock-stamp', '4000000000000000') "
     "return 1\" 0 -> 1; "
     "a begins name=B wait=long deadlock=50; until " WAITS
     "1; b takes other name=A wait=long deadlock=50 -> deadlock; "
     "EVAL \"return tonumber(redis.call('get', KEYS[1]))\" 1 "
     "{deadlocks}:dlock-stamp -> 4000000000000001..; b gives; a ends"},
    /* Two that nobody ends here. */
    {"who waits for one in a circle is not in it", "fenced",
     "HSET A x 1; HSET B y 1; HSET {x}:dlock-waits name B number 1 since 1 "
     "heard 9000000000000000; HSET {y}:dlock-waits name A number 1 since 1 "
     "heard 9000000000000000; a begins name=A wait=long deadlock=50; "
     "more eval-look 3; a waits; a cancels; a ends -> timeout"},
    /* Its wait stays in Redis for a while; here, for ever. */
    {"who gave up is in no circle", "fenced",
     "a takes name=A; b takes name=B; "
     "a begins name=B wait=long deadlock=50; until " WAITS
     "1; a cancels; a ends -> timeout; "
     "EVAL \"return redis.call('persist', redis.call('keys', "
     "'*:dlock-waits')[1])\" 0 -> 1; b begins name=A wait=long deadlock=50; "
     "more eval-look 8; b waits; a gives; b ends"},
    /* Its looks begin anew, as that other wait was not there at the first. */
    {"another wait makes another circle", "fenced",
     "a takes name=A; b takes name=B; "
     "HSET {$a}:dlock-waits number 1 name B since 1 heard 0; "
     "b begins name=A wait=long deadlock=50; more eval-look 2; "
     "EVAL \"return redis.call('hset', '{$a}:dlock-waits', 'number', 2, "
     "'heard', redis.call('get', '{deadlocks}:dlock-stamp'))\" 0; "
     "more eval-look 4; b waits; a gives; b ends"},
    {"who does not wait for long sends nothing", "fenced",
     "a takes name=A; b takes name=free wait=1000 deadlock=10000; "
     "b takes name=A wait=100 deadlock=10000 -> timeout; steps eval-look 0"},
};
LOCK_STORIES_TEST

UNIT_TESTS_WITHIN(begin_all, lock_rig_teardown)

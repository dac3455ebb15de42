/*
 * What locks cost the server, counted by the server itself: scripts by their
 * hash, one pipelined pass for all renewals of a client, one subscriber for all
 * its waiters, and timeouts that still hold after a reconnect.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "lock/core/clock.h"
#include "lock/deadlock/scripts.h"
#include "lock/quorum/scripts.h"
#include "lock/redis/call.h"
#include "lock/redis/scripts.h"
#include "tests/support/async_note.h"
#include "tests/support/fake_clock.h"
#include "tests/support/lock_rig.h"

/* How often the server has carried COMMAND out since the last reset. */
static long long calls(const char *command)
{
    return redis_server_info(rig.server, "commandstats",
                             text_of("cmdstat_%s:calls=", command));
}

static void cycles(struct dlock_session *session, int n)
{
    struct dlock_grant grant;

    for (int i = 0; i < n; i++) {
        assert_ok(lock_rig_take(session, "k", 0, 5000, &grant));
        assert_ok(dlock_release(session, &grant, NULL));
    }
}

/* The hash of each script was made when the library was built. */
static const struct {
    const char *name;
    const struct dlock_script *script;
} scripts[] = {
#include "lock/scripts.inc"
};

enum { SCRIPTS_N = COUNT_OF(scripts) };

static struct dlock_wire *open_wire(struct dlock_wire_config *config)
{
    *config = (struct dlock_wire_config){.connect_timeout_ms = 1000,
                                         .command_timeout_ms = 1000,
                                         .clock = dlock_clock_default()};
    assert_ok(
        dlock_address_parse(redis_server_url(rig.server), &config->address));
    return dlock_wire_open(config, "me");
}

LOCK_TEST(test_the_server_says_the_same)
{
    struct dlock_wire_config config;
    struct dlock_wire *wire = open_wire(&config);

    assert_in_range(SCRIPTS_N, 20, 40);
    for (size_t i = 0; i < SCRIPTS_N; i++) {
        const struct dlock_script *script = scripts[i].script;
        struct dlock_command command;
        struct dlock_reply reply;
        char text[8192] = "";

        for (size_t k = 0; k < DLOCK_SCRIPT_PARTS_MAX && script->parts[k]; k++)
            (void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
                           "%s", script->parts[k]);
        print_message("# %s\n", scripts[i].name);
        dlock_command_init(&command, "script-load", "n", NULL);
        dlock_command_arg(&command, "SCRIPT");
        dlock_command_arg(&command, "LOAD");
        dlock_command_arg(&command, text);
        assert_ok(dlock_call(wire, &command, UINT64_MAX, &reply));
        assert_string_equal(reply.string, script->sha);
    }
    dlock_wire_close(wire);
}

/* No script is asked for before it is used; a lock is two commands. A server that has
 * forgotten them is told once each; the next client need not tell it anything. */
LOCK_TEST(test_scripts_go_by_their_hash)
{
    struct lock_pair pair = lock_pair_open("fenced");

    for (int round = 0; round < 2; round++) {
        lock_rig_tell("SCRIPT FLUSH");
        lock_rig_tell("CONFIG RESETSTAT");
        cycles(pair.session[0], 50);
        assert_int_equal(calls("evalsha"), 100);
        assert_int_equal(calls("eval"), 2);
        assert_int_equal(calls("script|load"), 0);
    }
    cycles(pair.session[1], 1);
    assert_int_equal(calls("eval"), 2);
    assert_int_equal(calls("evalsha"), 102);
}

/* A release that finds only waiters that are gone asks once what the server is. */
LOCK_TEST(test_dead_waiters_cost_one_info)
{
    struct lock_single holder = lock_single_open("fenced");

    assert_ok(lock_single_take(&holder, 0));
    lock_rig_tell("ZADD {k}:dlock-waiters 9e15 a 9e15 b 9e15 c");
    lock_rig_tell("CONFIG RESETSTAT");
    assert_ok(lock_single_give(&holder));
    assert_int_equal(calls("info"), 1); /* before its own count */
    assert_int_equal(calls("publish"), 3);
}

/* Behind the first look a third of them leaves. */
static enum dlock_verdict leave(void *ctx, const struct dlock_step *step)
{
    bool *leaves = ctx;

    if (*leaves && strcmp(step->name, "eval-waiters") == 0 &&
        step->phase == DLOCK_AFTER) {
        lock_rig_tell("ZREMRANGEBYRANK {k}:dlock-queue 200 -1");
        *leaves = false;
    }
    return DLOCK_GO;
}

/* They are told in many looks, each of which asks only for its own. */
LOCK_TEST(test_a_long_line_is_counted_once)
{
    enum { MANY = 300 };
    static bool leaves;
    struct dlock_waiting waiters[MANY];
    struct lock_single single;
    size_t n;

    rig.on_step = leave;
    rig.hooks_ctx = &leaves;
    single = lock_single_open("fair");

    lock_rig_tell("EVAL \"for i = 1, 300 do "
                  "redis.call('zadd', KEYS[1], i, 'w' .. i) "
                  "redis.call('zadd', KEYS[2], 9e15, 'w' .. i) end\" 2 "
                  "{k}:dlock-queue {k}:dlock-beats");
    lock_rig_tell("CONFIG RESETSTAT");
    assert_ok(dlock_inspect_waiters(single.session, "k", waiters, MANY, &n,
                                    &single.error));
    assert_int_equal(n, MANY);
    assert_in_range(calls("zscore"), MANY, 4 * MANY);
    leaves = true;
    assert_ok(dlock_inspect_waiters(single.session, "k", waiters, MANY, &n,
                                    &single.error));
    assert_int_equal(n, 200);
}

/* How many renewals were on their way at once. */
struct flight {
    atomic_int now;
    atomic_int most;
    atomic_int all;
};

static enum dlock_verdict on_step(void *ctx, const struct dlock_step *step)
{
    struct flight *flight = ctx;
    int now;

    if (strcmp(step->name, "eval-renew") != 0)
        return DLOCK_GO;
    if (step->phase == DLOCK_AFTER) {
        (void)atomic_fetch_sub(&flight->now, 1);
        (void)atomic_fetch_add(&flight->all, 1);
        return DLOCK_GO;
    }
    now = atomic_fetch_add(&flight->now, 1) + 1;
    if (now > atomic_load(&flight->most))
        atomic_store(&flight->most, now);
    return DLOCK_GO;
}

/* Forty locks of eight sessions: one pass, one connection, one round trip. */
LOCK_TEST(test_renewals_go_together)
{
    enum { SESSIONS_N = 8, LOCKS_N = 40 };
    static struct flight flight;
    struct dlock_session *sessions[SESSIONS_N];
    uint64_t until = lock_rig_now_ms() + LOCK_RIG_LONG_MS;
    struct dlock_grant grant;
    struct dlock *client;

    rig.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    rig.on_step = on_step;
    rig.hooks_ctx = &flight;
    client = lock_rig_client("redisson");
    for (int i = 0; i < SESSIONS_N; i++)
        sessions[i] = lock_rig_session(client);
    for (int i = 0; i < LOCKS_N; i++)
        assert_ok(lock_rig_take(sessions[i % SESSIONS_N], text_of("many:%d", i),
                                0, 0, &grant));
    /* On a busy machine they are taken too far apart for one pass. */
    while (atomic_load(&flight.most) < LOCKS_N && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(5);
    assert_in_range(atomic_load(&flight.most), LOCKS_N / 2, LOCKS_N);
}

/* How many connections of this kind the server counts. */
static unsigned connections(const char *type)
{
    char reply[4096];
    unsigned n = 0;

    redis_server_ask(rig.server, text_of("CLIENT LIST TYPE %s", type), reply,
                     sizeof(reply));
    for (const char *at = reply; (at = strstr(at, "id=")) != NULL; at += 3)
        n += at == reply || at[-1] == '\n';
    return n;
}

/* Thirty waiters for thirty names share one subscribed connection. */
LOCK_TEST(test_14_one_subscriber_for_all_waiters)
{
    enum { WAITERS_N = 30 };
    static struct note notes[WAITERS_N];
    struct dlock *client = lock_rig_client("redisson");
    struct dlock *other = lock_rig_client("redisson");
    struct dlock_session *holder = lock_rig_session(other);
    struct dlock_grant grant;
    size_t n = 0;

    for (int i = 0; i < WAITERS_N; i++) {
        const char *name = text_of("name:%d", i);

        assert_ok(lock_rig_take(holder, name, 0, 60000, &grant));
        assert_ok(note_begin(lock_rig_session(client), name, 20000, &notes[i]));
    }
    step_log_await(&rig.log, "subscribe", WAITERS_N);
    assert_int_equal(connections("pubsub"), 1);
    /* They have no names, so there is nothing to be filled. */
    assert_ok(dlock_inspect_waiters(holder, "name:0", NULL, 0, &n, NULL));
    assert_int_equal(n, 1);
}

/* Dice are for pauses; who gets an answer has none. */
LOCK_TEST(test_no_dice_without_a_pause)
{
    static struct fake_clock clock;
    struct lock_single single;
    uint64_t before;

    fake_clock_init(&clock, 1000);
    rig.clock = &clock.face;
    single = lock_single_open("fenced");
    before = atomic_load(&clock.dice);
    cycles(single.session, 10);
    assert_int_equal(atomic_load(&clock.dice), before);
}

LOCK_RIG_MAIN

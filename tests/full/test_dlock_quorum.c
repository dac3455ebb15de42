/*
 * redlock while it is held: renewal, extension and tokens by the majority's
 * word. And redlock and multi while many want it at once.
 */
#include <stdatomic.h>

#include "tests/support/lock_story.h"
#include "tests/support/node_rig.h"

enum { LONGEST_MS = NODE_RIG_LONGEST_MS, LEASE_MS = LOCK_RIG_LEASE_MS };

/* While it is held ---------------------------------------------------------------- */

/* More locks than go into one round, and a server that says nothing. */
UNIT_TEST(test_many_are_renewed)
{
    struct dlock_grant grants[80];

    node_rig_redlock(3, LONGEST_MS);
    for (int i = 0; i < 80; i++)
        assert_ok(lock_rig_take(nodes.a.session, text_of("k%d", i), 0, 0,
                                &grants[i]));
    node_rig_do(1, "pause");
    lock_rig_sleep_ms(LONGEST_MS + LEASE_MS);
    node_rig_do(1, "resume");
    for (int i = 0; i < 80; i++) {
        assert_true(dlock_remaining_ms(nodes.a.session, &grants[i]) > 0);
        assert_ok(dlock_release(nodes.a.session, &grants[i], NULL));
    }
}

/* Many that want it --------------------------------------------------------------- */

struct rival {
    pthread_t thread;
    struct lock_single user;
};

static atomic_uint inside_n, turns_n, crowds_n;

enum { TURNS_EACH = 10, RIVALS = 5 };

static void *compete(void *arg)
{
    struct rival *rival = arg;

    for (int turns = 0, tries = 0; turns < TURNS_EACH; turns++) {
        /* An answer that was lost on a busy machine is no turn. */
        while (node_take(&rival->user, 60000, 0) != DLOCK_OK)
            if (++tries > TURNS_EACH)
                return NULL;
        if (atomic_fetch_add(&inside_n, 1) != 0)
            atomic_fetch_add(&crowds_n, 1);
        lock_rig_sleep_ms(1);
        atomic_fetch_sub(&inside_n, 1);
        atomic_fetch_add(&turns_n, 1);
        (void)lock_single_give(&rival->user);
    }
    return NULL;
}

/* One at a time, and all of them get it. */
static void contend(const char *strategy)
{
    struct rival rivals[RIVALS];

    atomic_store(&turns_n, 0);
    for (int i = 0; i < RIVALS; i++) {
        rivals[i].user = lock_single_open(strategy);
        assert_int_equal(
            pthread_create(&rivals[i].thread, NULL, compete, &rivals[i]), 0);
    }
    for (int i = 0; i < RIVALS; i++) {
        assert_int_equal(pthread_join(rivals[i].thread, NULL), 0);
        lock_single_close(&rivals[i].user);
    }
    assert_int_equal(atomic_load(&crowds_n), 0);
    assert_int_equal(atomic_load(&turns_n), RIVALS * TURNS_EACH);
    assert_int_equal(node_rig_held(), 0);
}

UNIT_TEST(test_contention)
{
    node_rig_redlock(5, LEASE_MS);
    contend("redlock");
    node_rig_redlock(3, LEASE_MS);
    contend("multi");
    node_rig_do(0, "kill");
    contend("redlock");
}

/* Of two and of four, half is not enough; but it ends all the same. */
UNIT_TEST(test_even_numbers_settle)
{
    node_rig_redlock(4, LEASE_MS);
    contend("redlock");
    node_rig_ask(0, "HSET k somebody 1");
    node_rig_ask(3, "HSET k somebody 1");
    assert_int_equal(node_take(&nodes.a, 300, 0), DLOCK_TIMEOUT);
    assert_int_equal(node_rig_held(), 2);
    node_rig_ask(3, "DEL k");
    assert_ok(node_take(&nodes.a, 300, 0));
    node_rig_redlock(2, LEASE_MS);
    contend("redlock");
}

enum { LONGEST_PAUSE_MS = 33, UNDO_MS = 60, WAIT_MS = 5000 };

/* The tries of one who gets one vote of three each time. */
struct tries {
    uint64_t undone_at_ms; /* 0 = not yet */
    unsigned n;
    uint64_t until_ms; /* the end of the wait cuts the last pause short, ... */
    uint64_t shortest_ms; /* ... and the beginning of watching the first ones */
};

static void note_try(void *ctx)
{
    struct tries *tries = ctx;
    uint64_t now_ms = lock_rig_now_ms();
    uint64_t pause_ms = now_ms - tries->undone_at_ms;

    tries->n++;
    if (tries->n > 3 && now_ms < tries->until_ms &&
        pause_ms < tries->shortest_ms)
        tries->shortest_ms = pause_ms;
    node_rig_call(1, "eval-acquire", DLOCK_BEFORE, note_try, tries);
}

static void undo_slowly(void *ctx)
{
    struct tries *tries = ctx;

    lock_rig_sleep_ms(UNDO_MS);
    tries->undone_at_ms = lock_rig_now_ms();
    node_rig_call(1, "eval-undo", DLOCK_AFTER, undo_slowly, tries);
}

/* A try that took longer than the pause would leave nothing of it. */
UNIT_TEST(test_pause_follows_the_try)
{
    struct tries tries = {.shortest_ms = UINT64_MAX};

    node_rig_redlock(3, LEASE_MS);
    rig.clock = &lock_rig_long_pauses;
    node_rig_open("redlock");
    node_rig_ask(0, "HSET k somebody 1");
    node_rig_ask(2, "HSET k somebody 1");
    node_rig_call(1, "eval-acquire", DLOCK_BEFORE, note_try, &tries);
    node_rig_call(1, "eval-undo", DLOCK_AFTER, undo_slowly, &tries);
    tries.until_ms = lock_rig_now_ms() + WAIT_MS;
    assert_int_equal(node_take(&nodes.a, WAIT_MS, 0), DLOCK_TIMEOUT);
    assert_in_range(tries.n, 5, WAIT_MS / (UNDO_MS + LONGEST_PAUSE_MS) + 4);
    assert_in_range(tries.shortest_ms, LONGEST_PAUSE_MS, LOCK_RIG_PROMPT_MS);
}

/* Without one of the servers. */
#define TURN_WITHOUT(server)                                                   \
    "fail eval-acquire before 1 @" server "; "                                 \
    "told a takes longest fenced token=rises; "                                \
    "a takes inner longest fenced token=same; a sees token=same; "             \
    "a gives inner; a gives; "
#define TURNS TURN_WITHOUT("0") TURN_WITHOUT("1")

#define WOKEN                                                                  \
    "told a takes longest; forget; & b takes longest wait=long; sleep 300; "   \
    "still; clock; a gives -> ok|unknown|unreachable; join; took 0..prompt; "  \
    "b gives -> ok|unknown|unreachable; "
#define WOKEN_WITHOUT(server)                                                  \
    "server pause " server "; " WOKEN "server resume " server "; until held "  \
    "0; "

static const struct lock_story stories[] = {
    /* Three servers a try, and a try or two more until all have let go. */
    {"woken by the first server; if that hangs, after a while", "redlock:3",
     WOKEN "steps eval-acquire 9..24; " WOKEN_WITHOUT("0") WOKEN_WITHOUT("1")
         WOKEN_WITHOUT("2") "held 0"},
    /* b may not hear of enough votes in time: that is no yes either. One that hangs, and
     * is not dead, delays no renewal. */
    {"it is renewed by the majority", "redlock:3",
     "watchdog lease; until a takes; server kill 0; "
     "b takes wait=lease+500 -> timeout|unknown|unreachable|busy|lost; lost 0; "
     "a has left=1..2374; server restart 0; server pause 0; sleep lease+500; "
     "lost 0; server resume 0; server kill 0; server kill 1; "
     "lost 1 unreachable; a has left=0"},
    {"it is lost by the majority", "redlock:3",
     "watchdog lease; until a takes; until held 3; @2 DEL k; sleep lease; "
     "lost 0; @0 DEL k; lost 1 gone; a gives -> lost; held 0"},
    /* The next grant is not ended by it; and what was forced, and taken anew before the
     * renewal, is heard of, too. */
    {"it is forced", "redlock:3",
     "watchdog lease; until a takes; server kill 1; b forces; held 0; "
     "lost 1 force; a gives -> lost; until a takes; @0 DEL k; @2 DEL k; "
     "lost 2 gone; a gives -> lost; until a takes old; b forces; "
     "until a takes anew; lost 3 force; a gives old -> lost; a gives anew"},
    {"it is extended by the majority", "redlock:3",
     "watchdog lease; a takes 1000; fail eval-renew before 1 @0; a extends "
     "longest; a has left=1000..4849; mend; fail eval-renew before always @0; "
     "fail eval-renew after always @1; a extends longest -> unknown; mend; "
     "@1 DEL k; @2 DEL k; a extends longest -> lost"},
    {"a server that counts further, and whose answer was lost, goes on from "
     "there",
     "redlock:3",
     "@0 SET {k}:dlock-fence 6000000000000000; "
     "@1 SET {k}:dlock-fence 7000000000000000; "
     "@2 SET {k}:dlock-fence 8000000000000000; fail eval-acquire after 1 @2; "
     "a takes longest fenced token=7000000000000001; until @2 EVAL \"return "
     "tonumber(redis.call('hget', 'k', 'token') or 0)\" 0 -> 7000000000000001; "
     "@2 EVAL \"return tonumber(redis.call('get', KEYS[1]))\" 1 "
     "{k}:dlock-fence -> 8000000000000001; a gives"},
    /* Each time another pair of servers, and each server counts for itself: the token
     * rises only because the pair before has one of them in common. */
    {"tokens rise", "redlock:3",
     "@0 SET {k}:dlock-fence 7; " TURNS TURNS TURNS TURNS TURNS TURNS
     "until held 0"},
    {"a wait holds through an outage of more servers than may be away",
     "redlock:3 multi:3",
     "commands 150; server pause 0; server pause 1; & a takes wait=60000; "
     "sleep 1000; server resume 0; server resume 1; join; a gives; "
     "b takes wait=long; b gives"},
};
LOCK_STORIES_TEST

UNIT_TESTS_WITHIN(node_rig_setup, node_rig_teardown)

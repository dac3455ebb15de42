/*
 * Waiting: woken at once, without polling, never forgotten, one at a time. The
 * races are made with gates in the step hook, not with sleeps.
 */
#include <arpa/inet.h>
#include <stdatomic.h>

#include "lock/core/session.h"
#include "tests/support/fake_clock.h"
#include "tests/support/lock_story.h"
#include "tests/support/lock_waiter.h"

static struct lock_pair pair;
static struct lock_waiter waiter;

/* The first of the pair has "k", and the second begins to wait for it. */
static void begin_wait(const char *strategy)
{
    pair = lock_pair_held(strategy, LOCK_RIG_LONG_MS);
    waiter = (struct lock_waiter){.session = pair.session[1],
                                  .wait_ms = LOCK_RIG_LONG_MS};
    step_log_reset(&rig.log);
    lock_waiter_start(&waiter);
}

/* The same, and it sleeps: it has tried, subscribed, and tried once more. */
static void fall_asleep(const char *strategy)
{
    begin_wait(strategy);
    step_log_await(&rig.log, "eval-acquire", 2);
}

/* Milliseconds from the release until the waiter has the lock. */
static uint64_t hand_over(void)
{
    uint64_t released_at_ms = lock_rig_now_ms();

    assert_ok(lock_pair_give(&pair, 0));
    lock_waiter_join(&waiter);
    assert_ok(waiter.status);
    assert_in_range(waiter.done_at_ms - released_at_ms, 0, LOCK_RIG_PROMPT_MS);
    return waiter.done_at_ms - released_at_ms;
}

/* Wake-ups -------------------------------------------------------------------- */

/*
 * The lock is given back between the waiter's first try and its subscription:
 * nobody tells it. The second try is what finds out, and by a clock that stands
 * still no other comes.
 */
LOCK_TEST(test_missed_wakeup)
{
    static struct fake_clock clock;

    fake_clock_init(&clock, 1000);
    rig.clock = &clock.face;
    step_log_shut(&rig.log, "subscribe", DLOCK_BEFORE);
    begin_wait("redisson");
    step_log_await_gate(&rig.log, 1);
    assert_ok(lock_pair_give(&pair, 0));
    step_log_open(&rig.log);
    step_log_await(&rig.log, "eval-acquire", 2);
    lock_waiter_join(&waiter);
    assert_ok(waiter.status);
}

enum { CROWD_N = 64 };

/* N wait, of one client or each of its own (APART), as in as many processes. How
 * often they try after the first two times. */
static unsigned tries_of_a_crowd(const char *strategy, unsigned n, bool apart)
{
    struct lock_waiter waiters[CROWD_N];
    unsigned tries;

    pair = lock_pair_held(strategy, LOCK_RIG_LONG_MS);
    step_log_reset(&rig.log);
    for (unsigned i = 0; i < n; i++) {
        waiters[i] = (struct lock_waiter){.wait_ms = LOCK_RIG_LONG_MS};
        waiters[i].client = apart ? lock_rig_client(strategy) : NULL;
        waiters[i].session =
            lock_rig_session(apart ? waiters[i].client : pair.client[1]);
        lock_waiter_start(&waiters[i]);
    }
    /* Two tries each, then all of them sleep. */
    step_log_await(&rig.log, "eval-acquire", 2 * n);
    tries = step_log_count(&rig.log, "eval-acquire");
    assert_ok(lock_pair_give(&pair, 0));
    for (unsigned i = 0; i < n; i++) {
        lock_waiter_join(&waiters[i]);
        assert_ok(waiters[i].status);
    }
    tries = step_log_count(&rig.log, "eval-acquire") - tries;
    assert_false(lock_rig_is_held());
    for (unsigned i = 0; i < n; i++)
        lock_rig_close(waiters[i].client);
    lock_pair_close(&pair);
    return tries;
}

/* 64 waiters, one subscription, each release wakes one: no herd. */
LOCK_TEST(test_crowd)
{
    /* One more each, and until the subscription stands some look by themselves; a
     * herd would need some 64 * 64 / 2. */
    assert_in_range(tries_of_a_crowd("redisson", CROWD_N, false), CROWD_N,
                    8 * CROWD_N);
    assert_int_equal(step_log_count(&rig.log, "subscribe"), 1);
}

/* redisson wakes all clients at each release; fenced wakes one. */
LOCK_TEST(test_no_herd)
{
    enum { N = 32 };

    /* On a busy machine some come too late to meet the others. */
    assert_in_range(tries_of_a_crowd("redisson", N, true) / N, 1, 32);
    assert_in_range(tries_of_a_crowd("fenced", N, true) / N, 1, 5);
    assert_in_range(tries_of_a_crowd("fair", N, true) / N, 1, 5);
}

/* The first on the list is gone, and nobody listens for it: the next is woken,
 * sooner than it would look by itself. */
LOCK_TEST(test_who_is_gone_is_passed_over)
{
    uint64_t best_ms = UINT64_MAX, ms;
    size_t n;

    for (int i = 0; i < 5; i++) {
        fall_asleep("fenced");
        /* No waiter alive has so early an end; in milliseconds, it is far away. */
        lock_rig_tell("EVAL \"local t = redis.call('time') return "
                      "redis.call('zadd', KEYS[1], t[1] * 1000 + "
                      "1500, 'gone')\" 1 {k}:dlock-waiters");
        assert_ok(
            dlock_inspect_waiters(pair.session[0], "k", NULL, 0, &n, NULL));
        assert_int_equal(n, 2);
        ms = hand_over();
        best_ms = ms < best_ms ? ms : best_ms;
        assert_ok(
            dlock_inspect_waiters(pair.session[0], "k", NULL, 0, &n, NULL));
        assert_int_equal(n, 0);
        lock_pair_close(&pair);
    }
    assert_in_range(best_ms, 0, 50);
}

/* A connection that dies in silence: the subscriber asks, and makes another. */
LOCK_TEST(test_subscriber_hears_nothing)
{
    rig.url = text_of("redis://127.0.0.1:%d", ntohs(lock_rig_at().sin_port));
    rig.command_timeout_ms = 0;
    fall_asleep("redisson");
    redis_server_pause(rig.server);
    for (int i = 0; i < 6000 && step_log_count(&rig.log, "subscribe") < 2; i++)
        lock_rig_sleep_ms(5);
    redis_server_resume(rig.server);
    assert_true(step_log_count(&rig.log, "subscribe") >= 2);
    (void)hand_over();
}

/* They have gone to sleep until the old end. Those that the server knows look by
 * themselves as well, but not as soon as they are told. */
#define SHORTENED(channel)                                                     \
    "a takes long; forget; & b takes long wait=long; await eval-acquire 2; "   \
    "listen {k}:dlock-" channel "; a extends 120000; heard 0; clock; "         \
    "a extends 400; heard 1; join; took 399..10000; a gives -> lost; b gives"

/* Waits in pieces ------------------------------------------------------------- */

/* An acquire that is carried out by hand. */
struct piece {
    struct dlock_session *session;
    struct dlock_wait wait;
    atomic_bool told;
};

static void note_told(void *ctx)
{
    atomic_store((atomic_bool *)ctx, true);
}

static void fall_asleep_by_hand(struct piece *piece)
{
    piece->told = false;
    dlock_wait_arm(&piece->wait,
                   &(struct dlock_wake_call){note_told, &piece->told});
}

static void leave_by_hand(struct piece *piece)
{
    struct dlock_grant grant;

    dlock_wait_disarm(&piece->wait);
    assert_int_equal(dlock_session_end(&piece->wait, &grant), DLOCK_TIMEOUT);
    dlock_session_leave(piece->session);
}

static const struct dlock_terms long_wait = {.wait_ms = LOCK_RIG_LONG_MS};

/* Up to the first no. */
static void begin_by_hand(struct piece *piece, struct dlock *client)
{
    piece->session = lock_rig_session(client);
    assert_ok(dlock_session_enter(piece->session));
    assert_true(
        dlock_session_begin(&piece->wait, piece->session, "k", &long_wait));
    assert_true(dlock_wait_try(&piece->wait));
}

static void await_told(struct piece *piece)
{
    for (int i = 0; i < LOCK_RIG_LONG_MS && !atomic_load(&piece->told); i++)
        lock_rig_sleep_ms(1);
    assert_true(piece->told);
}

/* A second message, before the first one that was woken has tried, is for another; and
 * one for all leaves nobody to the next. */
LOCK_TEST(test_each_permit_wakes_another)
{
    struct lock_single holder = lock_single_open("redisson");
    struct dlock *client = lock_rig_client("redisson");
    struct piece pieces[3];

    assert_ok(lock_single_take(&holder, 0));
    for (size_t i = 0; i < 3; i++) {
        begin_by_hand(&pieces[i], client);
        fall_asleep_by_hand(&pieces[i]);
        await_told(&pieces[i]); /* that the subscription stands */
    }
    for (size_t i = 0; i < 3; i++) {
        dlock_wait_disarm(&pieces[i].wait);
        fall_asleep_by_hand(&pieces[i]);
    }
    for (size_t n = 0; n < 3; n++) {
        lock_rig_tell("PUBLISH {k}:dlock-freed one");
        await_told(&pieces[n]);
        for (size_t i = n + 1; i < 3; i++)
            assert_false(pieces[i].told);
    }
    for (size_t i = 0; i < 3; i++) {
        dlock_wait_disarm(&pieces[i].wait);
        fall_asleep_by_hand(&pieces[i]);
    }
    lock_rig_tell("PUBLISH {k}:dlock-freed all");
    lock_rig_tell("PUBLISH {k}:dlock-freed one");
    await_told(&pieces[1]);
    dlock_wait_disarm(&pieces[1].wait); /* the first message is dealt with */
    assert_true(pieces[2].told);
    for (size_t i = 0; i < 3; i++)
        leave_by_hand(&pieces[i]);
    lock_rig_close(client);
    lock_single_close(&holder);
}

/* One that was woken leaves without a try: the next one is woken, and need not look by
 * itself. */
LOCK_TEST(test_who_leaves_passes_it_on)
{
    struct lock_single holder = lock_single_open("fenced");
    struct dlock *client = lock_rig_client("fenced");
    struct piece pieces[2];

    assert_ok(lock_single_take(&holder, 0));
    for (size_t i = 0; i < 2; i++) {
        begin_by_hand(&pieces[i], client);
        fall_asleep_by_hand(&pieces[i]);
        await_told(&pieces[i]); /* that it is subscribed */
        dlock_wait_disarm(&pieces[i].wait);
        assert_true(dlock_wait_try(&pieces[i].wait));
        fall_asleep_by_hand(&pieces[i]);
    }
    assert_ok(lock_single_give(&holder));
    await_told(&pieces[0]);
    assert_false(pieces[1].told);
    leave_by_hand(&pieces[0]);
    await_told(&pieces[1]);
    leave_by_hand(&pieces[1]);
}

/* Until SUBSCRIBE is about to be sent, which the gate holds. */
static void begin_to_subscribe(struct lock_single *holder, struct piece *piece,
                               struct dlock *client)
{
    assert_ok(lock_single_take(holder, 0));
    begin_by_hand(piece, client);
    step_log_shut(&rig.log, "subscribe", DLOCK_BEFORE);
    fall_asleep_by_hand(piece);
    step_log_await_gate(&rig.log, 1);
}

/* A subscription that is not confirmed yet is not given up: the next waiter of the name
 * would take its confirmation, of before the UNSUBSCRIBE, for its own. */
LOCK_TEST(test_a_subscription_in_doubt_stays)
{
    struct lock_single holder = lock_single_open("redisson");
    struct dlock *client = lock_rig_client("redisson");
    struct piece piece;

    begin_to_subscribe(&holder, &piece, client);
    redis_server_pause(rig.server);
    step_log_open(&rig.log);
    leave_by_hand(&piece);
    lock_rig_sleep_ms(2300); /* twice as long as a topic lingers */
    redis_server_resume(rig.server);
    step_log_await_at(&rig.log, "unsubscribe", 0, DLOCK_BEFORE, 1);
    assert_true(step_log_last(&rig.log, "unsubscribe", DLOCK_BEFORE) >
                step_log_last(&rig.log, "subscribe", DLOCK_AFTER));
    assert_int_equal(step_log_ended(&rig.log, "subscribe"), 1);
    lock_rig_close(client);
    lock_single_close(&holder);
}

/* One that is refused, and so never confirmed, is no more than a name on the list. */
LOCK_TEST(test_a_refused_subscription_is_given_up)
{
    struct lock_single holder = lock_single_open("redisson");
    struct dlock *client = lock_rig_client("redisson");
    struct piece piece;

    begin_to_subscribe(&holder, &piece, client);
    lock_rig_tell("ACL SETUSER default resetchannels");
    step_log_open(&rig.log);
    leave_by_hand(&piece);
    step_log_await_at(&rig.log, "unsubscribe", 0, DLOCK_BEFORE, 1);
    lock_rig_tell("ACL SETUSER default allchannels");
    lock_rig_close(client);
    lock_single_close(&holder);
}

/* Given back, or the wait ended, before the sleep; woken, and gone without a try; all
 * waits ended. */
LOCK_TEST(test_waiters_of_a_process)
{
    struct lock_single holder = lock_single_open("process");
    struct dlock *client = lock_rig_client("process");
    struct piece pieces[4];

    assert_ok(lock_single_take(&holder, 0));
    for (size_t i = 0; i < COUNT_OF(pieces); i++)
        begin_by_hand(&pieces[i], client);
    fall_asleep_by_hand(&pieces[0]);
    fall_asleep_by_hand(&pieces[1]);
    assert_ok(lock_single_give(&holder));
    assert_true(pieces[0].told && !pieces[1].told);
    fall_asleep_by_hand(&pieces[2]);
    assert_true(pieces[2].told);
    leave_by_hand(&pieces[0]);
    assert_true(pieces[1].told);
    assert_ok(lock_single_take(&holder, 0));
    dlock_cancel(pieces[3].session);
    fall_asleep_by_hand(&pieces[3]);
    assert_true(pieces[3].told);
    leave_by_hand(&pieces[3]);
    for (size_t i = 1; i < 3; i++) {
        dlock_wait_disarm(&pieces[i].wait);
        fall_asleep_by_hand(&pieces[i]);
        assert_false(pieces[i].told);
    }
    dlock_end_waits(client);
    for (size_t i = 1; i < 3; i++) {
        assert_true(pieces[i].told);
        leave_by_hand(&pieces[i]);
    }
    assert_ok(lock_single_give(&holder));
}

static const struct lock_story stories[] = {
    {"who waits hears that a lease was shortened", "redisson",
     SHORTENED("freed")},
    {"each on a channel of its own", "fenced fair", SHORTENED("turn:$b")},
    {"and of a release by force", "redisson",
     "a takes long; forget; & b takes long wait=long; await eval-acquire 2; "
     "clock; c forces; join; took 0..prompt; a gives -> lost; b gives"},
    /* The first may leave before the new end: the others must not sleep beyond it. */
    {"all that wait for a client hear of it", "redisson",
     "a takes long; b begins 500 wait=long; b2 begins 500 wait=long; "
     "await eval-acquire 4; forget; a extends 30000; await eval-acquire 2; "
     "a gives; b ends; b2 ends"},
    {"a lease that is shorter than the one before", "redisson fenced fair",
     "a takes long; b begins 500 wait=long; await eval-acquire 3; "
     "b2 begins 500 wait=long; await eval-acquire 5; clock; a gives; b ends; "
     "b2 ends; took 0..prompt"},
    /* The next one would sleep beside a free lock. The first one comes again. */
    {"who was woken, and whose try fails, passes the permit on", "redisson",
     "a takes long; b begins 500 wait=long; b2 begins 500 wait=long; "
     "await eval-acquire 5; fail eval-acquire before 1; clock; a gives; b "
     "ends; "
     "b2 ends; took 0..prompt"},
    /* A second hold needs the rest of the lease, so there is no earlier end to tell. */
    {"an inner hold tells nobody", "fenced",
     "a takes outer long; forget; & b takes long wait=long; await eval-acquire "
     "2; listen {k}:dlock-turn:$b; a takes inner long; a extends outer 400; "
     "heard 0; a gives inner; a gives outer; join; b gives; free"},
    /* Three commands, however long. */
    {"try, subscribe, try, sleep, be woken, try", "redisson",
     "a takes long; forget; & b takes wait=long; await eval-acquire 2; "
     "sleep 150; steps eval-acquire 2; steps subscribe 1; clock; a gives; "
     "join; took 0..prompt; steps eval-acquire 3"},
    {"the subscriber is stuck: the waiter looks by itself", "redisson",
     "shut subscribe before; a takes long; & b takes wait=long; gate; clock; "
     "a gives; join; took 0..prompt; open"},
    {"the holder dies, nobody publishes: the lease has to do it", "redisson",
     "clock; a takes 2000; forget; b takes wait=long; took 1995..prompt; "
     "steps eval-acquire 3..5"},
    {"and if little of it is left", "redisson",
     "a takes 90; clock; b takes wait=long; took 0..prompt; b gives"},
    {"nobody waits for the name any more: it is not subscribed to", "redisson",
     "a takes long; b begins wait=long; await subscribe 1; b cancels; "
     "b ends -> timeout; until EVAL \"return redis.call('pubsub', 'numsub', "
     "KEYS[1])[2]\" 1 {k}:dlock-freed -> 0"},
    /* Without one, it looks by itself now and then. */
    {"the subscriber's connection breaks", "redisson",
     "a takes long; forget; & b takes wait=long; await eval-acquire 2; "
     "fail subscribe before 1000; CLIENT KILL TYPE pubsub; "
     "await eval-acquire 4; clock; a gives; join; took 0..prompt"},
    {"and comes back", "redisson",
     "a takes long; forget; & b takes wait=long; await eval-acquire 2; "
     "CLIENT KILL TYPE pubsub; await subscribe 2; clock; a gives; join; "
     "took 0..prompt"},
    /* They wait, or are about to: both have to work. What is free is still to be had. */
    {"ended waits return at once, whatever a lock waits by",
     "process token-lua fenced",
     "a takes long; & b takes wait=long -> timeout; sleep 30; clock; b stops; "
     "join; took 0..prompt; a gives; b takes wait=60000; b gives"},
    {"a wait that was ended before it began tells the server nothing",
     "redisson",
     "a takes long; forget; b stops; b takes wait=long -> timeout; "
     "steps eval-acquire 1; steps subscribe 0"},
    {"who has no thread and is not woken ends in time", "process redisson spin",
     "b takes 60000; clock; a begins wait=80; a ends -> timeout; "
     "took 79..5000; b gives"},
    /* The lock is given back behind the back of a waiter that was told no and is not
     * parked yet. What it is told then, when it asks to be woken, must not be lost: the
     * holder's lease is long. For a second after b2 has left, the subscription stands. */
    {"who is told before it is parked", "redisson",
     "a takes 60000; forget; b2 begins wait=60000; await eval-acquire 2; "
     "shut eval-acquire after; b begins wait=60000; gate; b2 cancels; "
     "b2 ends -> timeout; a gives; open; b ends"},
    /* And does not come again, so that it frees nothing whose message would do. */
    {"who was woken leaves without an answer, and the next one is woken",
     "redisson",
     "a takes 60000; forget; b begins wait=60000; await eval-acquire 2; "
     "b2 begins wait=60000; await eval-acquire 4; fail eval-acquire before 1; "
     "shut eval-acquire before; clock; a gives; gate; b cancels; open; "
     "b ends -> timeout; b2 ends; took 0..prompt; b2 gives"},
    {"the holder has gone and given nothing back: the wait ends anyway",
     "process",
     "a takes name=crash; a dies; clock; "
     "a2 takes name=crash wait=100 -> timeout; took 100..prompt"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN

/*
 * The lock server away, killed, frozen, forgetful, out of memory: what a caller is told,
 * how soon, and that everything recovers by itself. In the middle of a wait: it goes on,
 * what a try has won without an answer is known again, and it ends when it has to.
 */
#include "tests/support/fake_clock.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

static long long connections_made(void)
{
    return redis_server_info(rig.server, "stats",
                             "total_connections_received:");
}

/* A server that lacks its replicas may be no primary any more, and one that lacks its
 * primary is none: it is looked for anew. */
LOCK_TEST(test_too_few_servers_cost_the_connection)
{
    static const char *const settings[][2] = {
        {"CONFIG SET min-replicas-to-write 1",
         "CONFIG SET min-replicas-to-write 0"},
        {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
    };
    struct lock_single party = lock_single_open("fenced");
    struct dlock_grant grant;
    long long before, own;

    redis_server_tell(rig.server, "CONFIG SET replica-serve-stale-data no");
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        assert_ok(lock_rig_take(party.session, "k", 0, 0, &grant));
        assert_ok(dlock_release(party.session, &grant, NULL));
        redis_server_tell(rig.server, "%s", settings[i][0]);
        own = -connections_made();
        own += before = connections_made();
        for (int k = 0; k < 3; k++)
            assert_int_equal(lock_rig_take(party.session, "k", 0, 0, &grant),
                             DLOCK_UNREACHABLE);
        assert_true(connections_made() - before >= own + 2);
        redis_server_tell(rig.server, "%s", settings[i][1]);
    }
    redis_server_tell(rig.server, "CONFIG SET replica-serve-stale-data yes");
    lock_single_close(&party);
}

static bool answers_late; /* "no", and then nothing */

static enum dlock_verdict answer_late(void *ctx, const struct dlock_step *step)
{
    if (!answers_late || step->phase != DLOCK_AFTER ||
        strcmp(step->name, "eval-acquire") != 0)
        return DLOCK_GO;
    answers_late = false;
    redis_server_pause(rig.server);
    fake_clock_advance(ctx, 1000 + LOCK_RIG_LONG_MS - 1);
    return DLOCK_GO;
}

/* There is a millisecond left for it. */
LOCK_TEST(test_leaving_the_queue_is_part_of_the_time)
{
    static const char *const all[] = {"fair", "fenced"};
    struct fake_clock clock;
    enum dlock_status status;
    struct lock_pair pair;
    uint64_t began_ms;

    fake_clock_init(&clock, 1);
    rig.clock = &clock.face;
    rig.command_timeout_ms = LOCK_RIG_LONG_MS;
    rig.on_step = answer_late;
    rig.hooks_ctx = &clock;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        pair = lock_pair_held(all[i], LOCK_RIG_LONG_MS);
        answers_late = true;
        began_ms = lock_rig_now_ms();
        status = lock_pair_take(&pair, 1, 1000, 0);
        redis_server_resume(rig.server);
        assert_int_equal(status, DLOCK_TIMEOUT);
        assert_in_range(lock_rig_now_ms() - began_ms, 0, LOCK_RIG_PROMPT_MS);
        lock_rig_tell("FLUSHALL");
        lock_pair_close(&pair);
    }
}

static const struct lock_story stories[] = {
    /* SIGPIPE would end the test program: none of these may raise it. It has lost its
     * data, and so have we the lock. */
    {"the server is away, and comes back", "fenced",
     "commands timeout; server kill; a takes -> unreachable; server restart; "
     "a takes; server kill; a gives -> unreachable; server restart; a gives -> "
     "lost; "
     "a takes; a gives"},
    /* Found out before sending. */
    {"a restart while we were idle is no lost reply",
     "setnx set-nx-px token-lua redisson",
     "a takes; server kill; server restart; a takes"},
    /* The command is sent, nothing comes back, and not for ever. */
    {"it is frozen", "setnx token-lua fenced",
     "commands timeout; a takes; a gives; server pause; clock; "
     "a takes -> unknown; took 1495..prompt; server resume; FLUSHALL; a takes"},
    {"within the wait and one timeout", "fenced",
     "commands timeout; a takes; a gives; server pause; clock; "
     "a takes wait=200 -> unknown; took 1495..prompt; server resume; FLUSHALL; "
     "a takes"},
    /* For longer than one timeout: the release is sent again and both copies arrive. The
     * owner must not be told that it lost the lock. */
    {"a release over a freeze", "fenced",
     "commands timeout; a takes; a gives; a takes; forget; server pause; "
     "& a gives; await eval-release 1; server resume; join; free"},
    /* A process that was stopped goes on where it stopped: the command goes out. (The
     * lab's pauses work like this.) */
    {"a long pause before a command", "set-nx-px",
     "commands timeout; shut set before; & a takes; gate; sleep timeout+100; "
     "open; join; shut del before; & a gives; gate; sleep timeout+100; open; "
     "join; free"},
    /* One step, and the script was not loaded by a command of its own. */
    {"scripts are forgotten", "fenced",
     "a takes; SCRIPT FLUSH; a gives; SCRIPT FLUSH; forget; a takes holds=1; "
     "steps all 1; SCRIPT FLUSH; a gives"},
    {"also those of the textbook", "token-lua",
     "a takes; a gives; SCRIPT FLUSH; a takes; a gives"},
    {"and by all renewals of a pipeline", "fenced",
     "watchdog lease; a takes one name=1; a takes two name=2; "
     "a takes three name=3; a takes four name=4; await eval-renew 4; "
     "SCRIPT FLUSH; await eval-renew 12; a gives one; a gives two; "
     "a gives three; a gives four"},
    /* A refusal is not "don't know": nothing is held, and the text says why. */
    {"the key is of another kind", "fenced",
     "SET k 1; "
     "a takes wait=100 -> unreachable '..acquire: redis refused: WRONGTYPE'"},
    {"it is a replica", "set-nx-px redisson",
     "REPLICAOF 127.0.0.1 1; a takes wait=100 -> unreachable "
     "'..acquire: redis refused: READONLY'; REPLICAOF NO ONE"},
    {"it is out of memory", "setnx fenced",
     "CONFIG SET maxmemory 1; a takes wait=100 -> unreachable "
     "'..acquire: redis refused: OOM'; free; CONFIG SET maxmemory 0"},
    {"then a lock can still be given back", "fenced",
     "a takes; CONFIG SET maxmemory 1; a gives; free; CONFIG SET maxmemory 0"},

    /* Not sent, or sent into a connection that was just breaking. */
    {"it dies under a waiter: at the end of the wait the true cause is told",
     "redisson fenced fair",
     "a takes; forget; clock; & b takes wait=1500 -> unreachable|unknown "
     "'..redis'; await eval-acquire 2; server kill; join; took 1500..prompt; "
     "server restart"},
    {"a wait ends when nobody wants it any more", "redisson fenced fair",
     "a takes; forget; & b takes wait=60000 -> timeout|unknown; "
     "await eval-acquire 2; server kill; sleep 300; clock; b cancels; join; "
     "took 0..prompt; server restart"},
    {"nor any of the client", "redisson fenced fair",
     "a takes; forget; & b takes wait=60000 -> timeout|unknown; "
     "await eval-acquire 2; server kill; sleep 300; clock; b stops; join; "
     "took 0..prompt; server restart"},
    /* The try under way is not sent again for somebody who does not want it. A first
     * acquire, because connections and scripts have to be there. */
    {"a wait ends on a frozen server", "fenced fair",
     "commands timeout; b takes 60000 wait=60000; b gives; server pause; "
     "forget; & b takes 60000 wait=60000 -> unknown; await eval-acquire 1; "
     "clock; b cancels; join; took 0..prompt+1500; server resume"},
    {"and those of the client", "fenced",
     "commands timeout; b takes 60000 wait=60000; b gives; server pause; "
     "forget; & b takes 60000 wait=60000 -> unknown; await eval-acquire 1; "
     "clock; b stops; join; took 0..prompt+1500; server resume"},
    /* Three tries, and pauses of 15 ms at least. */
    {"what the first try has won is known again, and counts from the first one",
     "redisson fenced fair",
     "fail eval-acquire after 9; a takes 20000 wait=60000 holds=1; "
     "a has left=1..19971; steps eval-withdraw 0; a gives; free"},
    {"a lock that counts its takings has counted the lost one: it is not ours",
     "spin",
     "fail eval-take after 2; a takes wait=60000 holds=1; a gives; free"},
    {"the key in the way may be our own: that is no \"no\"", "token-lua",
     "fail set after 1; a takes 60000 wait=100 -> unknown; fail set after 1; "
     "DEL k; a takes 2000 wait=long; a has left=1..2000"},
    {"who was told no after a lost answer leaves nothing behind", "redisson",
     "a takes; fail eval-acquire after 3; b takes wait=timeout -> timeout; "
     "await eval-withdraw 1; steps eval-withdraw 1; a gives"},
    /* The answer is that of the second copy: the first may still come, when b has given
     * back, and lock for somebody who was told no. */
    {"a no to a copy is taken back as well", "redisson fair fenced",
     "b takes; forget; fail eval-acquire after 1; a takes -> busy; "
     "steps eval-acquire 2; steps eval-withdraw 1; b gives; probe"},
    {"what may have worked stays uncertain when the server has gone", "fenced",
     "commands timeout; a takes 60000; fail eval-release after always; "
     "& a gives -> unknown; await eval-release 3; server kill; join; "
     "server restart"},
    /* It may pass, or be put right, within the wait. */
    {"what a server refuses for is outlasted", "fenced",
     "SET k 1; & a takes wait=60000; await eval-acquire 3; DEL k; join; "
     "a gives; REPLICAOF 127.0.0.1 1; forget; & a takes wait=60000; "
     "await eval-acquire 3; REPLICAOF NO ONE; join; a gives; "
     "CONFIG SET maxmemory 1; forget; & a takes wait=60000; "
     "await eval-acquire 3; CONFIG SET maxmemory 0; join; a gives; free"},
    /* They have two command timeouts: a busy machine starts a server in less. It has
     * lost its data, which is an answer. */
    {"an extend and a release over a restart", "fenced",
     "commands 5000; a takes 60000; server kill; & a extends 60000 -> lost; "
     "await eval-renew 2; server restart; join; fail eval-release before 2; "
     "a gives -> lost"},
    {"where nobody may load scripts, their text does it", "fenced multi",
     "ACL SETUSER default -script; a takes 1000; a extends 5000; a gives; "
     "ACL SETUSER default +script"},
    /* hiredis 0.14.1 forgets its timeouts when it connects again; we do not. */
    {"timeouts hold after a reconnect", "redisson",
     "commands timeout; a takes 5000; server kill; server restart; "
     "a takes 5000; server pause; clock; a gives -> unknown; "
     "took 1500..prompt; server resume; FLUSHALL; a gives -> ok|lost; "
     "a takes 5000; server kill; server restart; a takes 5000; server pause; "
     "clock; a gives -> unknown; took 1500..prompt; server resume"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN

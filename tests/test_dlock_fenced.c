/*
 * Fencing tokens: they rise, whatever happens to the lock server.
 */
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

/* A token that the time comes to in 2076: floors above it count. */
#define FAR (UINT64_C(3) << 50)

/* Takes with a floor, and gives back; the token. */
static uint64_t token_above(struct lock_single *holder, const char *name,
                            uint64_t floor)
{
    struct dlock_terms terms = {.fence_floor = floor};
    struct dlock_grant grant;

    assert_ok(dlock_acquire(holder->session, name, &terms, &grant, NULL));
    assert_ok(dlock_release(holder->session, &grant, NULL));
    return grant.token;
}

/* The clock of the server in microseconds. */
static uint64_t time_us(void)
{
    return (uint64_t)lock_rig_ask("EVAL \"local t=redis.call('time');"
                                  "return t[1]*1000000+t[2]\" 0");
}

/* Nobody gives a floor, and the counter is gone: by its end, or with all data. Or it is
 * that of an old copy of the data, from which the server came back. */
LOCK_TEST(test_tokens_rise_without_a_counter)
{
    static const char *const ends[] = {"PEXPIRE {k}:dlock-fence 1", "FLUSHALL"};
    struct lock_single a = lock_single_open("fenced");
    uint64_t last = time_us();

    for (int i = 0; i < 20; i++) {
        uint64_t token = token_above(&a, "k", 0);

        assert_true(token > last);
        last = token_above(&a, "k", 0);
        assert_true(last > token);
        lock_rig_tell("SET {k}:dlock-fence %llu",
                      (unsigned long long)token - 1);
        token = token_above(&a, "k", 0);
        assert_true(token > last);
        last = token;
        lock_rig_tell("%s", ends[i % 2]);
        lock_rig_sleep_ms(2); /* a life of a millisecond */
        assert_int_equal(lock_rig_ask("EXISTS {k}:dlock-fence"), 0);
    }
    redis_server_kill(rig.server);
    redis_server_restart(rig.server);
    assert_true(token_above(&a, "k", 0) > last);
    /* As a number, a token is exact, also for JSON: until the year 2255. */
    assert_true(token_above(&a, "k", 0) < UINT64_C(1) << 51);
}

/* What WHAT says of each key, added up by HOW. */
static long long of_all_keys(const char *what, const char *how)
{
    return lock_rig_ask("EVAL \"local n = 0 for _, k in ipairs(redis.call("
                        "'keys', '*')) do n = %s(n, redis.call(%s, k)) end "
                        "return n\" 0",
                        how, what);
}

/* What stays of a name of 16 bytes when it is given back: bytes, and how long. */
LOCK_TEST(test_what_stays_of_a_name)
{
    enum { NAMES = 20, BYTES_MAX = 200, LIFE_MS = 120000 };
    struct lock_single a = lock_single_open("fenced");

    for (int i = 0; i < NAMES; i++)
        (void)token_above(&a, text_of("stock:%010d", i), 0);
    assert_int_equal(lock_rig_ask("DBSIZE"), 2 * NAMES);
    assert_in_range(
        of_all_keys("'memory', 'usage'", "(function(a, b) return a+b end)"), 1,
        NAMES * BYTES_MAX);
    assert_in_range(of_all_keys("'pttl'", "math.max"), 1, LIFE_MS);
}

static const struct lock_story stories[] = {
    /* Each name has its own. */
    {"tokens rise", "fenced",
     "a takes token=rises; a gives; b takes token=rises; b gives; "
     "b takes token=rises; b gives; a takes token=rises; a gives; "
     "SET {other}:dlock-fence 5; a takes name=other token=rises"},
    {"a re-entry has the same one", "fenced",
     "a takes outer floor=far token=far+1; a takes inner floor=far+70 holds=2 "
     "token=far+1; b sees token=far+1 left=1..10000"},
    {"an attempt that is sent twice is one grant with one token", "fenced",
     "SET {k}:dlock-fence 3377699720527872; fail eval-acquire after 2; "
     "a takes token=far+1; a gives; a takes token=far+2"},
    {"what follows a release that never comes is another grant", "fenced",
     "commands timeout; a takes; fail eval-release before always; "
     "a gives -> unreachable; fail eval-release before 0; "
     "a takes holds=1 token=rises; a gives; free"},
    /* As if the server's clock had been set back: its time is below what the resource
     * has seen. A floor below the counter changes nothing. */
    {"the floor counts when data is lost", "fenced",
     "SET {k}:dlock-fence 3377699720527872; a takes token=far+1; a gives; "
     "FLUSHALL; a takes floor=far+1 token=far+2; a gives; "
     "a takes floor=1 token=far+3; a gives; server kill; server restart; "
     "a takes floor=far+3 token=far+4; a gives"},
    {"2^53 - 1 is the largest floor", "fenced",
     "a takes floor=4503599627370495 token=4503599627370496; a gives; "
     "a takes floor=4503599627370496 token=4503599627370497; a gives; "
     "a takes floor=4503599627370496 token=4503599627370498; a gives; "
     "a takes floor=4503599627370498 token=4503599627370499; a gives; "
     "a tries floor=9007199254740991 -> unreachable '..no token is left'; "
     "a takes floor=9007199254740992 -> misuse"},
    /* The last number that Lua can tell from the next one: then there is an error, and
     * nothing is held, where the same token would come twice. */
    {"2^53 - 1 is the last token", "fenced",
     "SET {k}:dlock-fence 9007199254740990; a takes token=9007199254740991; "
     "a gives; a tries -> unreachable '..no token is left'; free; "
     "a tries -> unreachable '..no token is left'; free"},
    {"counters do not pile up: they end two minutes after their last use",
     "fenced",
     "a takes; a gives; PTTL {k}:dlock-fence -> 60000..120000; "
     "a takes name=p:{k}; a gives; EXISTS p:{k}::dlock-fence -> 1"},
    {"the plain lock has no tokens, and leaves no counter behind", "redisson",
     "a takes token=0; DBSIZE -> 1"},
    {"\"Q\" becomes a tag, \"{Q}\" is one: their counters are two", "fenced",
     "a takes name=Q floor=far+100 token=far+101; a gives; "
     "a takes name={Q} token=1..far; a gives"},
    {"who came in without a token and asks for one gets one: 0 is no fence",
     "redisson",
     "a takes outer token=0; a takes inner fenced floor=far+41 token=far+42; "
     "a gives inner; a gives outer"},
    {"a lock without tokens does not pretend to give one", "token-lua",
     "a takes fenced -> misuse"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN

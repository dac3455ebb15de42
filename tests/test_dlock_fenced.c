/*
 * Fencing tokens: they rise, whatever happens to the lock server.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/lock_rig.h"

/* A token that the time comes to in 2076: floors above it count. */
#define FAR (UINT64_C(3) << 50)

/* Takes with a floor, and gives back; the token. */
static uint64_t token_above(struct lock_single *holder, const char *name,
                            uint64_t floor)
{
    struct dlock_terms terms = {.fence_floor = floor};
    struct dlock_grant grant;

    assert_int_equal(dlock_acquire(holder->session, name, &terms, &grant, NULL),
                     DLOCK_OK);
    assert_int_equal(dlock_release(holder->session, &grant, NULL), DLOCK_OK);
    return grant.token;
}

static void test_tokens_rise(NO_STATE)
{
    struct lock_single a = lock_single_open("fenced");
    struct lock_single b = lock_single_open("fenced");
    uint64_t last = 0;

    for (int i = 0; i < 20; i++) {
        uint64_t token = token_above(i % 2 == 0 ? &a : &b, "k", 0);

        assert_true(token > last);
        last = token;
    }
    /* Each name has its own. */
    lock_rig_tell("SET {other}:dlock-fence 5");
    assert_int_equal(token_above(&a, "other", 0), 6);
}

static void test_same_token_on_reentry(NO_STATE)
{
    struct lock_single a = lock_single_open("fenced");
    struct lock_single b = lock_single_open("fenced");
    struct dlock_terms terms = {.fence_floor = FAR};
    struct dlock_grant outer, inner;
    struct dlock_holder seen;

    assert_int_equal(dlock_acquire(a.session, "k", &terms, &outer, NULL), 0);
    terms.fence_floor = FAR + 70;
    assert_int_equal(dlock_acquire(a.session, "k", &terms, &inner, NULL), 0);
    assert_int_equal(inner.holds, 2);
    assert_true(outer.token == FAR + 1);
    assert_true(inner.token == FAR + 1);
    assert_int_equal(dlock_inspect(b.session, "k", &seen, NULL), DLOCK_OK);
    assert_true(seen.token == FAR + 1);
    assert_in_range(seen.remaining_ms, 1, 10000);
}

/* The same attempt, sent twice, is one grant with one token. */
static void test_lost_reply(NO_STATE)
{
    struct lock_single a = lock_single_open("fenced");
    uint64_t first;

    step_log_fail(&rig.log, "eval-acquire", DLOCK_AFTER, 2);
    first = token_above(&a, "k", 0);
    assert_true(token_above(&a, "k", 0) == first + 1);
}

/* A release that never comes: what follows is another grant all the same. */
static void test_no_token_twice_behind_a_lost_release(NO_STATE)
{
    struct lock_pair pair;
    uint64_t first;

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_held("fenced", 0);
    first = pair.grant[0].token;
    step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_UNREACHABLE);
    step_log_fail(&rig.log, "eval-release", DLOCK_BEFORE, 0);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), DLOCK_OK);
    assert_int_equal(pair.grant[0].holds, 1);
    assert_true(pair.grant[0].token > first);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    assert_false(lock_rig_is_held());
}

/* The clock of the server in microseconds. */
static uint64_t time_us(void)
{
    return (uint64_t)lock_rig_ask("EVAL \"local t=redis.call('time');"
                                  "return t[1]*1000000+t[2]\" 0");
}

/* Nobody gives a floor, and the counter is gone: by its end, or with all data. */
static void test_tokens_rise_without_a_counter(NO_STATE)
{
    static const char *const ends[] = {"PEXPIRE {k}:dlock-fence 1", "FLUSHALL"};
    struct lock_single a = lock_single_open("fenced");
    uint64_t last = time_us();

    for (int i = 0; i < 20; i++) {
        uint64_t token = token_above(&a, "k", 0);

        assert_true(token > last);
        last = token_above(&a, "k", 0);
        assert_true(last == token + 1);
        lock_rig_tell(ends[i % 2]);
        lock_rig_sleep_ms(2); /* a life of a millisecond */
        assert_int_equal(lock_rig_ask("EXISTS {k}:dlock-fence"), 0);
    }
    redis_server_kill(rig.server);
    redis_server_restart(rig.server);
    assert_true(token_above(&a, "k", 0) > last);
    /* As a number, a token is exact, also for JSON: until the year 2255. */
    assert_true(token_above(&a, "k", 0) < UINT64_C(1) << 51);
}

/*
 * As if the server's clock had been set back: its time is below what the
 * resource has seen. Then the floor counts.
 */
static void test_floor_after_data_loss(NO_STATE)
{
    struct lock_single a = lock_single_open("fenced");

    lock_rig_tell("SET {k}:dlock-fence 3377699720527872");
    assert_true(token_above(&a, "k", 0) == FAR + 1);
    lock_rig_tell("FLUSHALL");
    assert_true(token_above(&a, "k", FAR + 1) == FAR + 2);
    /* A floor below the counter changes nothing. */
    assert_true(token_above(&a, "k", 1) == FAR + 3);
    redis_server_kill(rig.server);
    redis_server_restart(rig.server);
    assert_true(token_above(&a, "k", FAR + 3) == FAR + 4);
}

/* The largest token that Lua counts exactly. */
static void test_large_tokens(NO_STATE)
{
    struct lock_single a = lock_single_open("fenced");
    uint64_t floor = UINT64_C(1) << 52;
    struct dlock_terms terms = {.fence_floor = floor + 1};
    struct dlock_grant grant;

    assert_true(token_above(&a, "k", floor - 1) == floor);
    assert_true(token_above(&a, "k", floor) == floor + 1);
    assert_true(token_above(&a, "k", floor) == floor + 2);
    assert_int_equal(dlock_acquire(a.session, "k", &terms, &grant, NULL),
                     DLOCK_MISUSE);
}

/*
 * The last number that Lua can tell from the next one is the last token: then
 * there is an error, and nothing is held, where the same token would come twice.
 */
static void test_end_of_tokens(NO_STATE)
{
    struct lock_single a = lock_single_open("fenced");
    struct dlock_error error = {""};
    struct dlock_grant grant;

    lock_rig_tell("SET {k}:dlock-fence 9007199254740990");
    assert_true(token_above(&a, "k", 0) == (UINT64_C(1) << 53) - 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dlock_try(a.session, "k", NULL, &grant, &error),
                         DLOCK_UNREACHABLE);
        assert_non_null(strstr(error.text, "no token is left"));
        assert_false(lock_rig_is_held());
    }
}

/* Counters do not pile up: they end two minutes after their last use. */
static void test_counter_expires(NO_STATE)
{
    struct lock_single a = lock_single_open("fenced");

    (void)token_above(&a, "k", 0);
    assert_in_range(lock_rig_ask("PTTL {k}:dlock-fence"), 60000, 120000);
    (void)token_above(&a, "p:{k}", 0);
    assert_int_equal(lock_rig_ask("EXISTS p:{k}::dlock-fence"), 1);
}

/* What WHAT says of each key, added up by HOW. */
static long long of_all_keys(const char *what, const char *how)
{
    char command[200];

    (void)snprintf(command, sizeof(command),
                   "EVAL \"local n = 0 for _, k in ipairs(redis.call('keys', "
                   "'*')) do n = %s(n, redis.call(%s, k)) end return n\" 0",
                   how, what);
    return lock_rig_ask(command);
}

/* What stays of a name of 16 bytes when it is given back: bytes, and how long. */
static void test_what_stays_of_a_name(NO_STATE)
{
    enum { NAMES = 20, BYTES_MAX = 200, LIFE_MS = 120000 };
    struct lock_single a = lock_single_open("fenced");
    char name[17];

    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof(name), "stock:%010d", i);
        (void)token_above(&a, name, 0);
    }
    assert_int_equal(lock_rig_ask("DBSIZE"), 2 * NAMES);
    assert_in_range(
        of_all_keys("'memory', 'usage'", "(function(a, b) return a+b end)"), 1,
        NAMES * BYTES_MAX);
    assert_in_range(of_all_keys("'pttl'", "math.max"), 1, LIFE_MS);
}

/* The plain strategy has no tokens, and leaves no counter behind. */
static void test_redisson_has_none(NO_STATE)
{
    struct lock_single single = lock_single_open("redisson");

    assert_int_equal(lock_single_take(&single, 0), DLOCK_OK);
    assert_int_equal(single.grant.token, 0);
    assert_int_equal(lock_rig_ask("DBSIZE"), 1);
}

/* "Q" becomes a tag, "{Q}" is one: their counters are two. */
static void test_a_name_and_its_tag_are_two_locks(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("fenced");
    struct dlock_terms terms = {.fence_floor = FAR + 100};
    struct dlock_grant grant;

    assert_int_equal(dlock_acquire(pair.session[0], "Q", &terms, &grant, NULL),
                     DLOCK_OK);
    assert_true(grant.token == FAR + 101);
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_OK);
    assert_int_equal(lock_hold_take(&pair, "{Q}", 0, &grant), DLOCK_OK);
    assert_in_range(grant.token, 1, FAR);
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_OK);
}

/* Who came in without a token and asks for one gets one: 0 is no fence. */
static void test_token_for_the_inner_hold(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("redisson");
    struct dlock_terms plain = {.wait_ms = 0};
    struct dlock_terms fenced = {.fenced = true, .fence_floor = FAR + 41};
    struct dlock_grant outer, inner;

    assert_int_equal(dlock_acquire(pair.session[0], "k", &plain, &outer, NULL),
                     DLOCK_OK);
    assert_int_equal(outer.token, 0);
    assert_int_equal(dlock_acquire(pair.session[0], "k", &fenced, &inner, NULL),
                     DLOCK_OK);
    assert_true(inner.token == FAR + 42);
    assert_int_equal(lock_hold_give(&pair, &inner), DLOCK_OK);
    assert_int_equal(lock_hold_give(&pair, &outer), DLOCK_OK);
}

/* A lock without tokens does not pretend to give one. */
static void test_no_token_is_misuse(NO_STATE)
{
    struct lock_pair pair = lock_pair_open("token-lua");
    struct dlock_terms fenced = {.fenced = true};
    struct dlock_grant grant;

    assert_int_equal(dlock_acquire(pair.session[0], "k", &fenced, &grant, NULL),
                     DLOCK_MISUSE);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_a_name_and_its_tag_are_two_locks),
    LOCK_TEST(test_tokens_rise),
    LOCK_TEST(test_same_token_on_reentry),
    LOCK_TEST(test_lost_reply),
    LOCK_TEST(test_no_token_twice_behind_a_lost_release),
    LOCK_TEST(test_tokens_rise_without_a_counter),
    LOCK_TEST(test_floor_after_data_loss),
    LOCK_TEST(test_large_tokens),
    LOCK_TEST(test_end_of_tokens),
    LOCK_TEST(test_counter_expires),
    LOCK_TEST(test_what_stays_of_a_name),
    LOCK_TEST(test_redisson_has_none),
    LOCK_TEST(test_token_for_the_inner_hold),
    LOCK_TEST(test_no_token_is_misuse),
};
LOCK_RIG_MAIN(tests)

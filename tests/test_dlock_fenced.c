/*
 * Fencing tokens: they rise, whatever happens to the lock server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "tests/support/lock_rig.h"

/* A token that the time comes to in 2076: floors above it count. */
#define FAR (UINT64_C(3) << 50)

struct holder {
    struct dlock *client;
    struct dlock_session *session;
};

static struct holder open_holder(struct lock_rig *rig)
{
    struct holder holder = {.client = lock_rig_client(rig, "fenced")};

    holder.session = lock_rig_session(holder.client);
    return holder;
}

static void close_holder(struct holder *holder)
{
    dlock_session_close(holder->session);
    dlock_close(holder->client);
}

/* Takes with a floor, and gives back; the token. */
static uint64_t token_above(struct holder *holder, const char *name,
                            uint64_t floor)
{
    struct dlock_terms terms = {.fence_floor = floor};
    struct dlock_grant grant;

    assert_int_equal(dlock_acquire(holder->session, name, &terms, &grant, NULL),
                     DLOCK_OK);
    assert_int_equal(dlock_release(holder->session, &grant, NULL), DLOCK_OK);
    return grant.token;
}

static void test_tokens_rise(void **state)
{
    struct lock_rig *rig = *state;
    struct holder a = open_holder(rig);
    struct holder b = open_holder(rig);
    uint64_t last = 0;

    for (int i = 0; i < 20; i++) {
        uint64_t token = token_above(i % 2 == 0 ? &a : &b, "k", 0);

        assert_true(token > last);
        last = token;
    }
    /* Each name has its own. */
    redis_server_ask(rig->server, "SET {other}:dlock-fence 5", NULL, 0);
    assert_int_equal(token_above(&a, "other", 0), 6);
    close_holder(&a);
    close_holder(&b);
}

static void test_same_token_on_reentry(void **state)
{
    struct lock_rig *rig = *state;
    struct holder a = open_holder(rig);
    struct holder b = open_holder(rig);
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
    close_holder(&a);
    close_holder(&b);
}

/* The same attempt, sent twice, is one grant with one token. */
static void test_lost_reply(void **state)
{
    struct lock_rig *rig = *state;
    struct holder a = open_holder(rig);
    uint64_t first;

    step_log_fail(&rig->log, "eval-acquire", DLOCK_AFTER, 2);
    first = token_above(&a, "k", 0);
    assert_true(token_above(&a, "k", 0) == first + 1);
    close_holder(&a);
}

/* A release that never comes: what follows is another grant all the same. */
static void test_no_token_twice_behind_a_lost_release(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_held(rig, "fenced", 0);
    uint64_t first = pair.grant[0].token;

    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_UNREACHABLE);
    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, 0);
    assert_int_equal(lock_pair_take(&pair, 0, 0, 0), DLOCK_OK);
    assert_int_equal(pair.grant[0].holds, 1);
    assert_true(pair.grant[0].token > first);
    assert_int_equal(lock_pair_give(&pair, 0), DLOCK_OK);
    assert_false(lock_rig_is_held(state));
    lock_pair_close(&pair);
}

/* The clock of the server in microseconds. */
static uint64_t time_us(struct lock_rig *rig)
{
    return (uint64_t)redis_server_number(rig->server,
                                         "EVAL \"local t=redis.call('time');"
                                         "return t[1]*1000000+t[2]\" 0");
}

/* Nobody gives a floor, and the counter is gone: by its end, or with all data. */
static void test_tokens_rise_without_a_counter(void **state)
{
    static const char *const ends[] = {"PEXPIRE {k}:dlock-fence 1", "FLUSHALL"};
    struct lock_rig *rig = *state;
    struct holder a = open_holder(rig);
    uint64_t last = time_us(rig);

    for (int i = 0; i < 20; i++) {
        uint64_t token = token_above(&a, "k", 0);

        assert_true(token > last);
        last = token_above(&a, "k", 0);
        assert_true(last == token + 1);
        redis_server_ask(rig->server, ends[i % 2], NULL, 0);
        lock_rig_sleep_ms(2); /* a life of a millisecond */
        assert_int_equal(
            redis_server_number(rig->server, "EXISTS {k}:dlock-fence"), 0);
    }
    redis_server_kill(rig->server);
    redis_server_restart(rig->server);
    assert_true(token_above(&a, "k", 0) > last);
    /* As a number, a token is exact, also for JSON: until the year 2255. */
    assert_true(token_above(&a, "k", 0) < UINT64_C(1) << 51);
    close_holder(&a);
}

/*
 * As if the server's clock had been set back: its time is below what the
 * resource has seen. Then the floor counts.
 */
static void test_floor_after_data_loss(void **state)
{
    struct lock_rig *rig = *state;
    struct holder a = open_holder(rig);

    redis_server_ask(rig->server, "SET {k}:dlock-fence 3377699720527872", NULL,
                     0);
    assert_true(token_above(&a, "k", 0) == FAR + 1);
    redis_server_ask(rig->server, "FLUSHALL", NULL, 0);
    assert_true(token_above(&a, "k", FAR + 1) == FAR + 2);
    /* A floor below the counter changes nothing. */
    assert_true(token_above(&a, "k", 1) == FAR + 3);
    redis_server_kill(rig->server);
    redis_server_restart(rig->server);
    assert_true(token_above(&a, "k", FAR + 3) == FAR + 4);
    close_holder(&a);
}

/* The largest token that Lua counts exactly. */
static void test_large_tokens(void **state)
{
    struct lock_rig *rig = *state;
    struct holder a = open_holder(rig);
    uint64_t floor = UINT64_C(1) << 52;
    struct dlock_terms terms = {.fence_floor = floor + 1};
    struct dlock_grant grant;

    assert_true(token_above(&a, "k", floor - 1) == floor);
    assert_true(token_above(&a, "k", floor) == floor + 1);
    assert_true(token_above(&a, "k", floor) == floor + 2);
    assert_int_equal(dlock_acquire(a.session, "k", &terms, &grant, NULL),
                     DLOCK_MISUSE);
    close_holder(&a);
}

/*
 * The last number that Lua can tell from the next one is the last token: then
 * there is an error, and nothing is held, where the same token would come twice.
 */
static void test_end_of_tokens(void **state)
{
    struct lock_rig *rig = *state;
    struct holder a = open_holder(rig);
    struct dlock_error error = {""};
    struct dlock_grant grant;

    redis_server_ask(rig->server, "SET {k}:dlock-fence 9007199254740990", NULL,
                     0);
    assert_true(token_above(&a, "k", 0) == (UINT64_C(1) << 53) - 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dlock_try(a.session, "k", NULL, &grant, &error),
                         DLOCK_UNREACHABLE);
        assert_non_null(strstr(error.text, "no token is left"));
        assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    }
    close_holder(&a);
}

/* Counters do not pile up: they end two minutes after their last use. */
static void test_counter_expires(void **state)
{
    struct lock_rig *rig = *state;
    struct holder a = open_holder(rig);

    (void)token_above(&a, "k", 0);
    assert_in_range(redis_server_number(rig->server, "PTTL {k}:dlock-fence"),
                    60000, 120000);
    (void)token_above(&a, "p:{k}", 0);
    assert_int_equal(
        redis_server_number(rig->server, "EXISTS p:{k}::dlock-fence"), 1);
    close_holder(&a);
}

/* What WHAT says of each key, added up by HOW. */
static long long of_all_keys(struct lock_rig *rig, const char *what,
                             const char *how)
{
    char command[200];

    (void)snprintf(command, sizeof(command),
                   "EVAL \"local n = 0 for _, k in ipairs(redis.call('keys', "
                   "'*')) do n = %s(n, redis.call(%s, k)) end return n\" 0",
                   how, what);
    return redis_server_number(rig->server, command);
}

/* What stays of a name of 16 bytes when it is given back: bytes, and how long. */
static void test_what_stays_of_a_name(void **state)
{
    enum { NAMES = 20, BYTES_MAX = 200, LIFE_MS = 120000 };
    struct lock_rig *rig = *state;
    struct holder a = open_holder(rig);
    char name[17];

    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof(name), "stock:%010d", i);
        (void)token_above(&a, name, 0);
    }
    assert_int_equal(redis_server_number(rig->server, "DBSIZE"), 2 * NAMES);
    assert_in_range(of_all_keys(rig, "'memory', 'usage'",
                                "(function(a, b) return a+b end)"),
                    1, NAMES * BYTES_MAX);
    assert_in_range(of_all_keys(rig, "'pttl'", "math.max"), 1, LIFE_MS);
    close_holder(&a);
}

/* The plain strategy has no tokens, and leaves no counter behind. */
static void test_redisson_has_none(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock *client = lock_rig_client(rig, "redisson");
    struct dlock_session *session = lock_rig_session(client);
    struct dlock_grant grant;

    assert_int_equal(lock_rig_take(session, "k", 0, 0, &grant), DLOCK_OK);
    assert_int_equal(grant.token, 0);
    assert_int_equal(redis_server_number(rig->server, "DBSIZE"), 1);
    dlock_session_close(session);
    dlock_close(client);
}

/* "Q" becomes a tag, "{Q}" is one: their counters are two. */
static void test_a_name_and_its_tag_are_two_locks(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "fenced");
    struct dlock_terms terms = {.fence_floor = FAR + 100};
    struct dlock_grant grant;

    assert_int_equal(dlock_acquire(pair.session[0], "Q", &terms, &grant, NULL),
                     DLOCK_OK);
    assert_true(grant.token == FAR + 101);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), DLOCK_OK);
    assert_int_equal(lock_rig_take(pair.session[0], "{Q}", 0, 0, &grant),
                     DLOCK_OK);
    assert_in_range(grant.token, 1, FAR);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), DLOCK_OK);
    lock_pair_close(&pair);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

/* Who came in without a token and asks for one gets one: 0 is no fence. */
static void test_token_for_the_inner_hold(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_terms plain = {.wait_ms = 0};
    struct dlock_terms fenced = {.fenced = true, .fence_floor = FAR + 41};
    struct dlock_grant outer, inner;

    assert_int_equal(dlock_acquire(pair.session[0], "k", &plain, &outer, NULL),
                     DLOCK_OK);
    assert_int_equal(outer.token, 0);
    assert_int_equal(dlock_acquire(pair.session[0], "k", &fenced, &inner, NULL),
                     DLOCK_OK);
    assert_true(inner.token == FAR + 42);
    assert_int_equal(dlock_release(pair.session[0], &inner, NULL), DLOCK_OK);
    assert_int_equal(dlock_release(pair.session[0], &outer, NULL), DLOCK_OK);
    lock_pair_close(&pair);
}

/* A lock without tokens does not pretend to give one. */
static void test_no_token_is_misuse(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "token-lua");
    struct dlock_terms fenced = {.fenced = true};
    struct dlock_grant grant;

    assert_int_equal(dlock_acquire(pair.session[0], "k", &fenced, &grant, NULL),
                     DLOCK_MISUSE);
    lock_pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_name_and_its_tag_are_two_locks),
        TEST(test_tokens_rise),
        TEST(test_same_token_on_reentry),
        TEST(test_lost_reply),
        TEST(test_no_token_twice_behind_a_lost_release),
        TEST(test_tokens_rise_without_a_counter),
        TEST(test_floor_after_data_loss),
        TEST(test_large_tokens),
        TEST(test_end_of_tokens),
        TEST(test_counter_expires),
        TEST(test_what_stays_of_a_name),
        TEST(test_redisson_has_none),
        TEST(test_token_for_the_inner_hold),
        TEST(test_no_token_is_misuse),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}

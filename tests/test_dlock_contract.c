/*
 * The list of locks, texts, ids, values and time are as dlock.h says.
 */
#include "lock/core/client.h"
#include "lock/textbook/textbook.h"
#include "lock/redis/command.h"
#include "tests/support/fake_clock.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

UNIT_TEST(test_status_texts)
{
    for (int i = 0; i < DLOCK_STATUS_N; i++) {
        const char *text = dlock_status_text((enum dlock_status)i);

        assert_non_null(text);
        assert_true(strlen(text) > 1);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(text,
                                    dlock_status_text((enum dlock_status)j));
    }
    assert_non_null(dlock_status_text(DLOCK_STATUS_N));
    assert_non_null(dlock_status_text((enum dlock_status) - 1));
    for (int i = 0; i < DLOCK_LOSS_N; i++)
        assert_true(strlen(dlock_loss_text((enum dlock_loss)i)) > 10);
    assert_string_equal(dlock_loss_text(DLOCK_LOSS_FORCED),
                        "released by force");
    assert_non_null(dlock_loss_text(DLOCK_LOSS_N));
}

UNIT_TEST(test_list_of_strategies)
{
    static const char *const names[] = {"none",      "process",   "setnx",
                                        "set-nx-px", "token-lua", "redisson",
                                        "fenced"};
    const struct dlock_strategy_info *info;
    size_t n = 0;

    /* More may come in between; those of today keep their order. */
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        assert_ptr_equal(dlock_strategy_find(info->name), info);
        assert_true(strlen(info->claim) > 10);
        if (n < COUNT_OF(names) && strcmp(info->name, names[n]) == 0)
            n++;
    }
    assert_int_equal(n, COUNT_OF(names));
    assert_null(dlock_strategy_info(SIZE_MAX));
    assert_null(dlock_strategy_find("nonsense"));
    assert_null(dlock_strategy_find(NULL));
}

/* A set that is registered twice is there once. */
UNIT_TEST(test_registered_twice)
{
    size_t before = 0;
    size_t after = 0;

    while (dlock_strategy_info(before) != NULL)
        before++;
    dlock_register_all();
    while (dlock_strategy_info(after) != NULL)
        after++;
    assert_int_equal(after, before);
}

/* Values -------------------------------------------------------------------- */

LOCK_TEST(test_error_is_left_alone)
{
    struct dlock_session *session = lock_single_open("process").session;
    struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_error error = {"as it was"};
    struct dlock_grant grant, untouched;
    struct dlock_grant before;

    memset(&untouched, 0x5a, sizeof(untouched));
    before = untouched;
    assert_ok(dlock_acquire(session, "e", &terms, &grant, &error));
    assert_string_equal(error.text, "as it was");
    assert_int_equal(dlock_acquire(session, "e", &terms, &untouched, &error),
                     DLOCK_BUSY);
    assert_memory_equal(&untouched, &before, sizeof(before));
    assert_string_equal(error.text, "acquire: somebody else holds the lock");
    assert_ok(dlock_release(session, &grant, &error));
    assert_int_equal(dlock_release(session, &grant, &error), DLOCK_LOST);
    assert_non_null(strstr(error.text, "release: the lease has ended"));
}

/* At the other one's steps this session fails. */
static enum dlock_verdict fail_elsewhere(void *session,
                                         const struct dlock_step *step)
{
    struct dlock_error error = {""};
    struct dlock_grant grant;

    assert_int_equal(dlock_try(session, "", NULL, &grant, &error),
                     DLOCK_MISUSE);
    assert_string_equal(error.text, "acquire: the name is empty");
    return DLOCK_FAIL;
}

/* A text is of a call, whatever a hook does on its thread; and none is left. */
LOCK_TEST(test_each_call_has_its_text)
{
    struct dlock_session *other = lock_single_open("process").session;
    struct dlock_error error = {""};
    struct dlock_grant grant;
    struct lock_single single;

    rig.on_step = fail_elsewhere;
    rig.hooks_ctx = other;
    single = lock_single_open("set-nx-px");
    assert_int_equal(dlock_try(single.session, "k", NULL, &grant, &error),
                     DLOCK_UNREACHABLE);
    assert_string_equal(error.text, "acquire: kept back at step 'set'");
    assert_ok(lock_rig_take(other, "k", 0, 0, &grant));
    assert_int_equal(dlock_try(other, "k", NULL, &grant, &error), DLOCK_BUSY);
    assert_string_equal(error.text, "acquire: somebody else holds the lock");
}

LOCK_TEST(test_owner_ids)
{
    struct lock_pair pair = lock_pair_open("process");
    const char *const owner[] = {
        dlock_session_owner(pair.session[0]),
        dlock_session_owner(lock_rig_session(pair.client[0])),
        dlock_session_owner(pair.session[1])};

    for (int i = 0; i < 3; i++) {
        assert_int_equal(strspn(owner[i], "0123456789abcdef"), 32);
        assert_int_equal(owner[i][32], '-');
        assert_true(strlen(owner[i]) <= DLOCK_OWNER_BYTES_MAX);
    }
    assert_memory_equal(owner[0], owner[1], 33);
    assert_string_equal(owner[0] + 33, "1");
    assert_string_equal(owner[1] + 33, "2");
    assert_memory_not_equal(owner[0], owner[2], 32);
}

UNIT_TEST(test_derived_keys)
{
    static const struct {
        const char *name, *key;
    } rows[] = {
        {"stock:42", "{stock:42}:x:y"}, {"lock:{P:1}", "lock:{P:1}::x:y"},
        {"{a}{b}", "{a}{b}::x:y"},      {"a{", "{a{}:x:y"},
        {"{}a", "{{}a}:x:y"},           {"{stock:42}", "{stock:42}::x:y"},
    };
    char key[DLOCK_KEY_BYTES_MAX + 1];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        dlock_key_derive(key, rows[i].name, ":x:", "y");
        assert_string_equal(key, rows[i].key);
    }
}

static uint64_t left_ms(const struct lock_single *single)
{
    return dlock_remaining_ms(single->session, &single->grant);
}

static enum dlock_verdict slow_network(void *ctx, const struct dlock_step *step)
{
    /* 300 ms on the way there, 200 ms on the way back. */
    fake_clock_advance(ctx, step->phase == DLOCK_BEFORE ? 300 : 200);
    return DLOCK_GO;
}

/* The client's lease starts before the server's, so that it ends before it. */
LOCK_TEST(test_lease_starts_before_sending)
{
    static struct fake_clock clock;
    struct lock_single single;

    fake_clock_init(&clock, 0);
    rig.clock = &clock.face;
    rig.on_step = slow_network;
    rig.hooks_ctx = &clock;
    single = lock_single_open("set-nx-px");
    assert_ok(lock_rig_take(single.session, "k", 0, 1000, &single.grant));
    assert_int_equal(single.grant.deadline_ms, 1000);
    assert_int_equal(left_ms(&single), 500);
    assert_ok(dlock_extend(single.session, &single.grant, 1000, NULL));
    assert_int_equal(left_ms(&single), 500);
}

static void refuse_register(const struct dlock_strategies *strategies,
                            const char *text)
{
    struct dlock_error error = {""};

    assert_int_equal(dlock_register(strategies, &error), DLOCK_MISUSE);
    assert_non_null(strstr(error.text, text));
}

/* Fills the table: to be the last test. */
UNIT_TEST(test_register_says_no)
{
    static const struct dlock_strategy *const none[] = {NULL};
    static const char other;
    const char *const other_core = &other;
    static struct dlock_strategies sets[32];
    size_t n = 0;

    refuse_register(NULL, "register: no strategies");
    sets[0] = (struct dlock_strategies){.core = &other_core, .all = none};
    refuse_register(&sets[0], "two copies of libdlock");
    for (; n < COUNT_OF(sets); n++) {
        sets[n] = (struct dlock_strategies){.core = &DLOCK_CORE, .all = none};
        if (dlock_register(&sets[n], NULL) != DLOCK_OK)
            break;
    }
    assert_in_range(n, 0, COUNT_OF(sets) - 1);
    refuse_register(&sets[n], "already");
}

LOCK_RIG_MAIN

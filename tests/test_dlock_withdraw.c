/*
 * What takes an acquire back that got no answer: it repeats no release, or the
 * server would take it for done, and the lock would stay until its lease ends.
 */
#include "lock/core/session.h"
#include "tests/support/lock_rig.h"

/* Its last two arguments: the acquire, and the release that it repeats. */
struct taken_back {
    char undoes[24], repeats[24];
};

static enum dlock_verdict lose_acquires(void *ctx,
                                        const struct dlock_step *step)
{
    struct taken_back *seen = ctx;

    if (strcmp(step->name, "eval-acquire") == 0)
        return step->phase == DLOCK_AFTER ? DLOCK_FAIL : DLOCK_GO;
    if (step->phase == DLOCK_BEFORE &&
        (strcmp(step->name, "eval-undo") == 0 ||
         strcmp(step->name, "eval-withdraw") == 0)) {
        (void)snprintf(seen->undoes, sizeof(seen->undoes), "%s",
                       step->words[step->words_n - 2]);
        (void)snprintf(seen->repeats, sizeof(seen->repeats), "%s",
                       step->words[step->words_n - 1]);
    }
    return DLOCK_GO;
}

/* Where the next call has its variables is not zero. */
static __attribute__((noinline)) void soil_stack(void)
{
    volatile unsigned char soil[32768];

    for (size_t i = 0; i < sizeof(soil); i++)
        soil[i] = 0xff;
}

/* dlock_try() in pieces, since its first ones leave zeros on the stack. */
static enum dlock_status try_on_soiled_stack(struct dlock_session *session)
{
    const struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_wait wait;
    enum dlock_status status;
    struct dlock_grant grant;

    assert_ok(dlock_session_enter(session));
    soil_stack();
    assert_true(dlock_session_begin(&wait, session, "k", &terms));
    assert_false(dlock_wait_try(&wait));
    status = dlock_session_end(&wait, &grant);
    dlock_session_leave(session);
    return status;
}

/* Whatever an earlier call has left on the stack. */
LOCK_TEST(test_what_takes_an_acquire_back_repeats_no_release)
{
    static const char *const names[] = {"redisson", "fenced", "multi"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct taken_back seen = {"", ""};
        struct lock_single single;

        rig.on_step = lose_acquires;
        rig.hooks_ctx = &seen;
        single = lock_single_open(names[i]);
        assert_int_equal(try_on_soiled_stack(single.session), DLOCK_UNKNOWN);
        assert_string_equal(seen.repeats, "0");
        assert_true(strtoull(seen.undoes, NULL, 10) > 0);
        lock_single_close(&single);
    }
}

/* The first acquire, which a slow network holds up. */
static enum dlock_verdict hold_up_acquire(void *ctx,
                                          const struct dlock_step *step)
{
    char **command = ctx;

    if (step->phase == DLOCK_AFTER || strcmp(step->name, "eval-acquire") != 0 ||
        *command != NULL)
        return DLOCK_GO;
    *command = step_line(step);
    return DLOCK_HOLD_BACK;
}

/* A copy of it is told no, as somebody has the lock. The first comes when that one
 * has given it back, and its owner has gone. */
LOCK_TEST(test_a_copy_that_was_told_no_is_taken_back)
{
    static char *command;
    struct lock_single single;

    rig.on_step = hold_up_acquire;
    rig.hooks_ctx = &command;
    single = lock_single_open("multi");
    assert_int_equal(lock_rig_ask("HSET k other 1"), 1);
    assert_int_equal(lock_single_take(&single, 0), DLOCK_BUSY);
    lock_rig_end_lease();
    lock_rig_tell("%s", command);
    free(command);
    assert_false(lock_rig_is_held());
}

/* And before the next try: the lock is given back to it then, behind the back of its
 * owner, and half of the lease is over. */
static enum dlock_verdict come_late(void *ctx, const struct dlock_step *step)
{
    char **command = ctx;

    if (step->phase == DLOCK_BEFORE && *command != NULL &&
        step_log_count(&rig.log, "eval-acquire") == 2) {
        lock_rig_end_lease();
        lock_rig_tell("%s", *command);
        assert_int_equal(lock_rig_ask("PEXPIRE k %d", LOCK_RIG_LONG_MS / 2), 1);
    }
    (void)step_log_hook(&rig.log, step);
    return hold_up_acquire(ctx, step);
}

LOCK_TEST(test_a_grant_does_not_count_from_later_than_its_lease)
{
    static const char *const names[] = {"redisson", "fenced", "fair"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        static char *command;
        struct dlock_grant grant;
        struct lock_single single;
        long long left_ms;

        command = NULL;
        step_log_reset(&rig.log);
        rig.on_step = come_late;
        rig.hooks_ctx = &command;
        single = lock_single_open(names[i]);
        assert_int_equal(lock_rig_ask("HSET k other 1"), 1);
        assert_ok(lock_rig_take(single.session, "k", LOCK_RIG_LONG_MS,
                                LOCK_RIG_LONG_MS, &grant));
        free(command);
        left_ms = lock_rig_ask("PTTL k");
        assert_in_range(dlock_remaining_ms(single.session, &grant), 1, left_ms);
        lock_single_close(&single);
    }
}

LOCK_RIG_MAIN

/*
 * Labels of owners: dlock_inspect() tells host, process and label of a lock's holder.
 * The label comes with the acquire and goes with the lock, so it costs no command.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/lock_rig.h"

static struct lock_single open_labelled(const char *strategy, const char *label)
{
    rig.label = label;
    return lock_single_open(strategy);
}

/* "host:pid:LABEL", of this process; or "". */
static void assert_label(struct lock_single *looker, const char *name,
                         const char *label)
{
    char host[64] = "";
    char want[160] = "";
    struct dlock_holder holder;

    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    if (label[0] != '\0')
        (void)snprintf(want, sizeof(want), "%s:%ld:%s", host, (long)getpid(),
                       label);
    assert_ok(dlock_inspect(looker->session, name, &holder, NULL));
    assert_true(holder.held);
    assert_string_equal(holder.label, want);
}

static void look_at_each_other(const char *strategy)
{
    struct lock_single a = open_labelled(strategy, "nightly_report");
    struct lock_single b = open_labelled(strategy, "web.7");
    struct dlock_grant grant;

    assert_ok(lock_rig_take(a.session, "one", 0, 0, &grant));
    assert_ok(lock_rig_take(b.session, "two", 0, 5000, &grant));
    assert_label(&b, "one", "nightly_report");
    assert_label(&a, "two", "web.7");
    assert_label(&a, "one", "nightly_report");
    lock_rig_tell("FLUSHALL");
}

static void test_two_clients_see_each_others_label(NO_STATE)
{
    look_at_each_other("fenced");
    look_at_each_other("fair");
    look_at_each_other("redisson");
    look_at_each_other("multi");
}

/* A hold more, or the last release: the label is the lock's, and no owner's. */
static void test_it_is_the_locks(NO_STATE)
{
    struct lock_single a = open_labelled("fenced", "a");
    struct lock_single b = open_labelled("fenced", NULL);
    struct dlock_grant grants[2];
    struct dlock_holder holder;

    assert_ok(lock_rig_take(a.session, "k", 0, 0, &grants[0]));
    assert_ok(lock_rig_take(a.session, "k", 0, 0, &grants[1]));
    assert_ok(dlock_inspect(b.session, "k", &holder, NULL));
    assert_string_equal(holder.owner, dlock_session_owner(a.session));
    assert_int_equal(holder.holds, 2);
    assert_ok(dlock_release(a.session, &grants[1], NULL));
    assert_label(&b, "k", "a");
    assert_ok(dlock_release(a.session, &grants[0], NULL));
    assert_ok(lock_rig_take(b.session, "k", 0, 0, &grants[0]));
    assert_label(&a, "k", "");
    assert_ok(dlock_release(b.session, &grants[0], NULL));
    assert_ok(lock_rig_take(a.session, "k", 0, 0, &grants[0]));
    assert_ok(dlock_force_release(b.session, "k", NULL));
    assert_int_equal(dlock_release(a.session, &grants[0], NULL), DLOCK_LOST);
}

static void test_without_a_label_there_is_none(NO_STATE)
{
    struct lock_single a = open_labelled("fenced", NULL);
    struct lock_single local = open_labelled("process", "local");
    struct dlock_grant grant;

    assert_ok(lock_rig_take(a.session, "k", 0, 0, &grant));
    assert_label(&a, "k", "");
    assert_ok(lock_rig_take(local.session, "k", 0, 0, &grant));
    assert_label(&local, "k", "");
    assert_ok(dlock_release(local.session, &grant, NULL));
}

static void test_wrong_labels(NO_STATE)
{
    static const char *const wrong[] = {
        "",     "a-b",  "a:b",  "a b",
        "a\tb", "\x7f", "\xe4", "01234567890123456789012345678901234567890"};
    struct dlock_options options = {.url = lock_rig_url("fenced")};
    struct dlock *client = NULL;

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        options.label = wrong[i];
        assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_MISUSE);
    }
    options.label = "0123456789012345678901234567890123456789";
    assert_ok(dlock_open(&options, &client, NULL));
    dlock_close(client);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_two_clients_see_each_others_label),
    LOCK_TEST(test_it_is_the_locks),
    LOCK_TEST(test_without_a_label_there_is_none),
    LOCK_TEST(test_wrong_labels),
};
LOCK_RIG_MAIN(tests)

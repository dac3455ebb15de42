/*
 * Labels of owners: dlock_inspect() tells host, process and label of a lock's holder.
 * The label comes with the acquire and goes with the lock, so it costs no command.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/lock_rig.h"

/* A client that is labelled, with a session. */
struct party {
    struct dlock *client;
    struct dlock_session *session;
};

static struct party party_open(struct lock_rig *rig, const char *strategy,
                               const char *label)
{
    struct dlock_options options = {
        .strategy = strategy,
        .url = lock_rig_url(rig, strategy),
        .watchdog_lease_ms = rig->watchdog_lease_ms,
        .on_step = step_log_hook,
        .on_step_ctx = &rig->log,
        .label = label,
    };
    struct party party = {NULL, NULL};

    assert_int_equal(dlock_open(&options, &party.client, NULL), DLOCK_OK);
    party.session = lock_rig_session(party.client);
    return party;
}

static void party_close(struct party *party)
{
    dlock_session_close(party->session);
    dlock_close(party->client);
}

/* "host:pid:LABEL", of this process; or "". */
static void assert_label(struct party *looker, const char *name,
                         const char *label)
{
    char host[64] = "";
    char want[160] = "";
    struct dlock_holder holder;

    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    if (label[0] != '\0')
        (void)snprintf(want, sizeof(want), "%s:%ld:%s", host, (long)getpid(),
                       label);
    assert_int_equal(dlock_inspect(looker->session, name, &holder, NULL),
                     DLOCK_OK);
    assert_true(holder.held);
    assert_string_equal(holder.label, want);
}

static void look_at_each_other(struct lock_rig *rig, const char *strategy)
{
    struct party a = party_open(rig, strategy, "nightly_report");
    struct party b = party_open(rig, strategy, "web.7");
    struct dlock_grant grant;

    assert_int_equal(lock_rig_take(a.session, "one", 0, 0, &grant), DLOCK_OK);
    assert_int_equal(lock_rig_take(b.session, "two", 0, 5000, &grant),
                     DLOCK_OK);
    assert_label(&b, "one", "nightly_report");
    assert_label(&a, "two", "web.7");
    assert_label(&a, "one", "nightly_report");
    party_close(&a);
    party_close(&b);
    redis_server_ask(rig->server, "FLUSHALL", NULL, 0);
}

static void test_two_clients_see_each_others_label(void **state)
{
    look_at_each_other(*state, "fenced");
    look_at_each_other(*state, "fair");
    look_at_each_other(*state, "redisson");
    look_at_each_other(*state, "multi");
}

/* A hold more, or the last release: the label is the lock's, and no owner's. */
static void test_it_is_the_locks(void **state)
{
    struct lock_rig *rig = *state;
    struct party a = party_open(rig, "fenced", "a");
    struct party b = party_open(rig, "fenced", NULL);
    struct dlock_grant grants[2];
    struct dlock_holder holder;

    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grants[0]), DLOCK_OK);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grants[1]), DLOCK_OK);
    assert_int_equal(dlock_inspect(b.session, "k", &holder, NULL), DLOCK_OK);
    assert_string_equal(holder.owner, dlock_session_owner(a.session));
    assert_int_equal(holder.holds, 2);
    assert_int_equal(dlock_release(a.session, &grants[1], NULL), DLOCK_OK);
    assert_label(&b, "k", "a");
    assert_int_equal(dlock_release(a.session, &grants[0], NULL), DLOCK_OK);
    assert_int_equal(lock_rig_take(b.session, "k", 0, 0, &grants[0]), DLOCK_OK);
    assert_label(&a, "k", "");
    assert_int_equal(dlock_release(b.session, &grants[0], NULL), DLOCK_OK);
    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grants[0]), DLOCK_OK);
    assert_int_equal(dlock_force_release(b.session, "k", NULL), DLOCK_OK);
    assert_int_equal(dlock_release(a.session, &grants[0], NULL), DLOCK_LOST);
    party_close(&a);
    party_close(&b);
}

static void test_without_a_label_there_is_none(void **state)
{
    struct lock_rig *rig = *state;
    struct party a = party_open(rig, "fenced", NULL);
    struct party local = party_open(rig, "process", "local");
    struct dlock_grant grant;

    assert_int_equal(lock_rig_take(a.session, "k", 0, 0, &grant), DLOCK_OK);
    assert_label(&a, "k", "");
    assert_int_equal(lock_rig_take(local.session, "k", 0, 0, &grant), DLOCK_OK);
    assert_label(&local, "k", "");
    assert_int_equal(dlock_release(local.session, &grant, NULL), DLOCK_OK);
    party_close(&a);
    party_close(&local);
}

static void test_wrong_labels(void **state)
{
    static const char *const wrong[] = {
        "",     "a-b",  "a:b",  "a b",
        "a\tb", "\x7f", "\xe4", "01234567890123456789012345678901234567890"};
    struct dlock_options options = {.url = lock_rig_url(*state, "fenced")};
    struct dlock *client = NULL;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        options.label = wrong[i];
        assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_MISUSE);
    }
    options.label = "0123456789012345678901234567890123456789";
    assert_int_equal(dlock_open(&options, &client, NULL), DLOCK_OK);
    dlock_close(client);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_two_clients_see_each_others_label),
        TEST(test_it_is_the_locks),
        TEST(test_without_a_label_there_is_none),
        TEST(test_wrong_labels),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}

/*
 * The rights that dlock(3) asks for each lock. With all of its row a lock lives its
 * whole life, and the server has refused nothing; with one less it fails, with a text
 * that names what is lacking, is never told to be lost, and stays behind nowhere. What
 * other calls and ways need is in test_dlock_rights_calls.c.
 */
#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"
#include "tests/support/rights_rig.h"

enum {
    LEASE_MS_MAX = 20000,
    OWN_LEASE_MS = 2000,
    SHORT_MS = 200, /* a release that is refused comes again for two of them */
    WAIT_MS = 60000,
};

static unsigned lease_ms = 300; /* of the watchdog */

struct life {
    struct lock_pair pair;
    unsigned can;
    struct outcome outcome;
};

static bool went(struct life *life, enum dlock_status status)
{
    life->outcome.status = status;
    return status == DLOCK_OK;
}

static struct life open_life(const char *strategy, const char *url,
                             unsigned timeout_ms)
{
    rig.url = url;
    rig.watchdog_lease_ms = lease_ms;
    rig.longest_lease_ms = OWN_LEASE_MS;
    rig.command_timeout_ms = timeout_ms;
    step_log_reset(&rig.log);
    return (struct life){.pair = lock_pair_open(strategy),
                         .can = dlock_strategy_find(strategy)->capabilities};
}

/* A waiter that is woken by the release, if the lock wakes. */
static bool hand_over(struct life *life, struct dlock_grant *grant)
{
    struct dlock_error *error = &life->outcome.error;
    struct note note = {.n = 0};

    if ((life->can & DLOCK_CAP_WAKE) == 0)
        return went(life, dlock_release(life->pair.session[0], grant, error));
    assert_ok(note_begin(life->pair.session[1], "k", WAIT_MS, &note));
    step_log_await(&rig.log, "subscribe", 1);
    if (!went(life, dlock_release(life->pair.session[0], grant, error)))
        return false;
    (void)note_await(&note);
    (void)snprintf(error->text, sizeof(error->text), "%s", note.text);
    return went(life, note.status) &&
           went(life, dlock_release(life->pair.session[1], &note.grant, error));
}

/* Takes "k", twice if that can be; extends it; has it renewed; gives it on. */
static void live(struct life *life)
{
    bool renews = (life->can & DLOCK_CAP_RENEW) != 0;
    struct dlock_terms terms = {.lease_ms = 0, .fenced = false};
    struct dlock_error *error = &life->outcome.error;
    struct dlock_session *session = life->pair.session[0];
    struct dlock_grant grant, inner;

    if (!renews)
        terms.lease_ms = OWN_LEASE_MS;
    terms.fenced = (life->can & DLOCK_CAP_TOKENS) != 0;
    if (!went(life, dlock_try(session, "k", &terms, &grant, error)))
        return;
    if ((life->can & DLOCK_CAP_REENTRANT) != 0 &&
        (!went(life, dlock_try(session, "k", &terms, &inner, error)) ||
         !went(life, dlock_release(session, &inner, error))))
        return;
    if (renews)
        step_log_await(&rig.log, "eval-renew", 1);
    if ((life->can & DLOCK_CAP_LEASE) != 0 &&
        !went(life, dlock_extend(session, &grant, OWN_LEASE_MS, error)))
        return;
    (void)hand_over(life, &grant);
}

/* On a busy machine a renewal may come too late: then once more, with longer leases
 * from there on. */
static struct outcome whole_life(const char *strategy, const char *url,
                                 unsigned timeout_ms)
{
    struct life life;

    for (;; lease_ms *= 2) {
        life = open_life(strategy, url, timeout_ms);
        live(&life);
        lock_pair_close(&life.pair);
        if (life.outcome.status != DLOCK_LOST || lease_ms > LEASE_MS_MAX)
            return life.outcome;
        lock_rig_sleep_ms(OWN_LEASE_MS +
                          lease_ms); /* what is left of it ends */
    }
}

/* Whether a lock of STRATEGY may stay behind: for ever, as its lesson is, if it has no
 * lease; for its lease, if nothing is asked before. */
static bool may_stay(const char *strategy)
{
    unsigned can = dlock_strategy_find(strategy)->capabilities;

    if ((can & DLOCK_CAP_WAKE) != 0)
        return false;
    return (can & DLOCK_CAP_LEASE) == 0 ||
           strcmp(strategy, "setnx-expire") == 0 ||
           lock_rig_ask("PTTL k") != -1; /* by now it may have ended */
}

/* guard-thread says nothing of anything. */
static bool is_mute(const char *strategy, const char *right)
{
    return strcmp(strategy, "guard-thread") == 0 && strcmp(right, "+pttl") == 0;
}

static void check_lock(const char *strategy)
{
    struct rights rights = {.n = 0};
    struct outcome outcome;
    char url[300];

    rights_add_row(&rights, strategy);
    rights_give(rig.server, &rights, RIGHTS_ALL);
    outcome = whole_life(strategy, rights_url(rig.server, url), 0);
    if (outcome.status != DLOCK_OK)
        fail_msg("%s: %s", strategy, outcome.error.text);
    rights_assert_enough(rig.server, strategy);
    for (size_t less = 0; less < rights.n; less++) {
        if (is_mute(strategy, rights.list[less]))
            continue;
        /* On a busy machine the short timeout may be over first. */
        do {
            rights_give(rig.server, &rights, less);
            outcome = whole_life(strategy, url, SHORT_MS);
        } while (strstr(outcome.error.text, "timed out") != NULL);
        rights_assert_named(strategy, rights.list[less], &outcome);
        if (lock_rig_is_held() && !may_stay(strategy))
            fail_msg("%s without %s: the lock is left behind", strategy,
                     rights.list[less]);
    }
}

LOCK_TEST(test_each_strategy)
{
    const struct dlock_strategy_info *info;
    unsigned n = 0;

    /* The age of a server decides on its vote. */
    redis_server_await(rig.server, "INFO server", "uptime_in_seconds:4");
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        unsigned elsewhere = DLOCK_CAP_RECORD | DLOCK_CAP_ZK | DLOCK_CAP_SQL;

        if ((info->capabilities & DLOCK_CAP_REMOTE) == 0 ||
            (info->capabilities & elsewhere) != 0 ||
            strcmp(info->name, "reentrant-broken") == 0)
            continue;
        print_message("# %s\n", info->name);
        check_lock(info->name);
        n++;
    }
    assert_int_equal(n, 19);
}

/* A holder of "k" loses RIGHT: what its release then says is so; or its extend, to a
 * lease that is shorter. */
static void check_holder(const char *strategy, const char *right, bool extends)
{
    struct dlock_terms terms = {.lease_ms = WAIT_MS, .fenced = true};
    char url[300], command[100];
    struct life life =
        open_life(strategy, rights_url(rig.server, url), SHORT_MS);
    struct dlock_session *session = life.pair.session[0];
    struct dlock_error *error = &life.outcome.error;
    struct dlock_grant grant;
    enum dlock_status status;
    bool is_done;

    /* So short a time may be over on a busy machine: it comes again. */
    terms.wait_ms = WAIT_MS;
    assert_ok(dlock_acquire(session, "k", &terms, &grant, error));
    (void)snprintf(command, sizeof(command), "ACL SETUSER shop %s%s",
                   right[0] == '+'   ? "-"
                   : right[0] == '&' ? "resetchannels"
                                     : "resetkeys",
                   right[0] == '+' ? right + 1 : "");
    lock_rig_tell(command);
    status = extends ? dlock_extend(session, &grant, WAIT_MS / 2, error)
                     : dlock_release(session, &grant, error);
    is_done =
        extends ? lock_rig_ask("PTTL k") <= WAIT_MS / 2 : !lock_rig_is_held();
    if (status == DLOCK_LOST || (status == DLOCK_OK && !is_done) ||
        (status == DLOCK_UNREACHABLE && is_done) ||
        (status != DLOCK_OK && error->text[0] == '\0'))
        fail_msg("%s, %s taken away: %s: %s, %s, and it is %s", strategy, right,
                 extends ? "extend" : "release", dlock_status_text(status),
                 error->text, is_done ? "done" : "not done");
    /* Waiters would hear nothing without it. */
    if (right[0] == '&' || strcmp(right, "+publish") == 0)
        assert_false(is_done);
    lock_pair_close(&life.pair);
}

LOCK_TEST(test_a_right_taken_from_a_holder)
{
    static const char *const strategies[] = {"redisson", "fair", "fenced",
                                             "multi"};

    for (size_t i = 0; i < COUNT_OF(strategies); i++) {
        struct rights rights = {.n = 0};

        rights_add_row(&rights, strategies[i]);
        for (size_t at = 0; at < 2 * rights.n; at++) {
            rights_give(rig.server, &rights, RIGHTS_ALL);
            check_holder(strategies[i], rights.list[at / 2], at % 2 == 1);
        }
    }
}

LOCK_RIG_MAIN

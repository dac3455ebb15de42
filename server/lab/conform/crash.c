/*
 * Holders die. C: while they work; A: after any one of their commands, or it is
 * the command that dies on its way, there or back.
 *
 * "Any" is a loop: a first holder's commands are counted, then one holder dies
 * after each. Their leases all run at the same time, so this takes one lease
 * and not as many as there are commands.
 */

#include <stdio.h>
#include <string.h>

#include "server/lab/conform/cast.h"

static unsigned took_ms(const struct deed_report *report)
{
    return (unsigned)((report->ended_us - report->began_us) / 1000);
}

/*
 * NEXT waits for NAME, for longer than it may have to. Whoever wakes up only at
 * the end of its own wait did not find out that the lease was over: that is too
 * late, and told as DLOCK_TIMEOUT.
 */
static struct deed_report inherit(struct cast *cast, const char *name)
{
    const struct testbed *testbed = cast->testbed;
    unsigned most_ms = testbed->lease_ms + testbed->margin_ms;
    struct deed_order order = cast_order(deed_take, name);
    struct deed_report report;

    order.wait_ms = 2 * most_ms;
    order.lease_ms = testbed->long_ms;
    report = cast_ask(cast, CAST_NEXT, &order);
    if (took_ms(&report) > most_ms)
        report.status = DLOCK_TIMEOUT;
    return report;
}

/* C ------------------------------------------------------------------------ */

/* The process goes on; only who worked in it is gone. */
static unsigned check_dead_thread(struct cast *cast)
{
    const struct deed_order leave = {.deed = deed_abandon};
    const char *name = testbed_name("c-thread");
    struct deed_report report;

    cast_begin(cast, name, 0);
    (void)cast_ask(cast, CAST_HOLDER, &leave);
    report = inherit(cast, name);
    if (report.status != DLOCK_OK)
        testbed_fails(cast->testbed,
                      "a worker has died, its process lives: nobody "
                      "gets in for %u ms",
                      took_ms(&report));
    return took_ms(&report);
}

/*
 * A holder was overtaken while it was stopped, and goes on. Who overtook it
 * dies. If the first one's renewal does not look whose lock it renews, the
 * dead one's lives for ever.
 */
static void check_no_undead(struct cast *cast)
{
    const struct deed_order leave = {.deed = deed_abandon};
    struct testbed *testbed = cast->testbed;
    const char *name = testbed_name("c-undead");
    struct deed_report report;
    bool overtaken;

    if (cast_take(cast, CAST_HOLDER, name, 0, 0) != DLOCK_OK)
        return;
    cast_stop(cast, CAST_HOLDER);
    overtaken = cast_take(cast, CAST_THIRD, name,
                          testbed->lease_ms + testbed->margin_ms,
                          testbed->lease_ms) == DLOCK_OK;
    cast_continue(cast, CAST_HOLDER);
    if (!overtaken)
        return; /* it is not the lease that ends a lock of this kind */
    (void)cast_ask(cast, CAST_THIRD, &leave);
    report = inherit(cast, name);
    if (report.status != DLOCK_OK)
        testbed_fails(testbed,
                      "a holder was stopped and overtaken and goes on; who "
                      "overtook it has died: nobody gets in for %u ms",
                      took_ms(&report));
}

/*
 * The holder works on, under a new grant whose lease nobody renews. If the
 * renewal of its first one is still at it, that lease never ends.
 */
static void check_renewal_ends(struct cast *cast)
{
    struct testbed *testbed = cast->testbed;
    const char *name = testbed_name("c-renewal");
    struct deed_report report;

    if (cast_take(cast, CAST_HOLDER, name, 0, 0) != DLOCK_OK ||
        cast_give(cast, CAST_HOLDER, name) != DLOCK_OK ||
        cast_take(cast, CAST_HOLDER, name, 0, testbed->lease_ms) != DLOCK_OK)
        testbed_fails(testbed, "given back, and not to be had");
    report = inherit(cast, name);
    if (report.status != DLOCK_OK)
        testbed_fails(testbed,
                      "given back, and still renewed: the next grant of %u ms "
                      "does not end for %u ms",
                      testbed->lease_ms, took_ms(&report));
}

static unsigned check_dead_process(struct cast *cast)
{
    const char *name = testbed_name("c-process");
    struct deed_report report;

    cast_begin(cast, name, 0);
    cast_kill(cast, CAST_HOLDER);
    report = inherit(cast, name);
    if (report.status != DLOCK_OK)
        testbed_fails(cast->testbed,
                      "kill -9 of the holder: nobody gets in for "
                      "%u ms under a lease of %u ms",
                      took_ms(&report), cast->testbed->lease_ms);
    return took_ms(&report);
}

void conform_check_c(struct testbed *testbed)
{
    unsigned thread_ms, process_ms;
    struct cast cast;

    cast_open(&cast, testbed, 3, testbed->lease_ms);
    thread_ms = check_dead_thread(&cast);
    if (testbed->together)
        testbed_holds(testbed, "in %u ms after the holder's thread died",
                      thread_ms);
    if (testbed_can(testbed, DLOCK_CAP_LEASE)) {
        check_no_undead(&cast);
        check_renewal_ends(&cast);
    }
    process_ms = check_dead_process(&cast);
    testbed_holds(testbed,
                  "next in %u ms after kill -9, in %u ms after a worker's "
                  "death; lease %u ms",
                  process_ms, thread_ms, testbed->lease_ms);
}

/* A ------------------------------------------------------------------------ */

enum { CRASHES_MAX = 24 };

/* A place to die: after command AT of the acquire or of the release. */
struct crash {
    unsigned at;
    bool in_release;
    char step[DEED_STEP_BYTES_MAX + 1];
    const char *name; /* the lock's: each has its own */
};

static void note(const struct cast *cast, unsigned who, bool in_release,
                 struct crash crashes[], unsigned *n)
{
    for (unsigned i = 0; i < cast_steps(cast, who) && *n < CRASHES_MAX; i++) {
        struct crash *crash = &crashes[(*n)++];

        crash->in_release = in_release;
        crash->at = i;
        (void)snprintf(crash->step, sizeof(crash->step), "%s",
                       cast_step_name(cast, who, i));
        crash->name = testbed_name("a");
    }
}

/* A holder's whole life, without a fault: which commands are there? */
static unsigned rehearse(struct cast *cast, struct crash crashes[])
{
    const char *name = testbed_name("a-dry");
    unsigned n = 0, who = cast_add(cast, 1);

    (void)cast_take(cast, who, name, 0, 0);
    note(cast, who, false, crashes, &n);
    cast_trap(cast, who, DEED_PASS, DLOCK_BEFORE, 0);
    (void)cast_give(cast, who, name);
    note(cast, who, true, crashes, &n);
    cast_kill(cast, who);
    return n;
}

/* A new holder, which dies there. */
static void die_at(struct cast *cast, const struct crash *crash)
{
    struct deed_order order = cast_order(deed_take, crash->name);
    unsigned who = cast_add(cast, 1);

    if (crash->in_release) {
        (void)cast_ask(cast, who, &order);
        order.deed = deed_give;
    }
    cast_trap(cast, who, DEED_DIE, DLOCK_AFTER, crash->at);
    cast_tell(cast, who, &order);
    cast_await_death(cast, who);
}

static const char *part_of(const struct crash *crash)
{
    return crash->in_release ? "release" : "acquire";
}

/* Each has died; and each one's lock is to be had. STEPS gets their names. */
static void check_deaths(struct cast *cast, const struct crash crashes[],
                         unsigned n, char *steps, size_t size)
{
    for (unsigned i = 0; i < n; i++)
        die_at(cast, &crashes[i]);
    for (unsigned i = 0; i < n; i++) {
        size_t len = strlen(steps);
        struct deed_report report = inherit(cast, crashes[i].name);

        if (report.status != DLOCK_OK)
            testbed_fails(cast->testbed,
                          "holder killed after '%s' (command %u of its %s): "
                          "nobody gets in for %u ms",
                          crashes[i].step, crashes[i].at + 1,
                          part_of(&crashes[i]), took_ms(&report));
        (void)cast_give(cast, CAST_NEXT, crashes[i].name);
        (void)snprintf(steps + len, size - len, "%s%s", len > 0 ? ", " : "",
                       crashes[i].step);
    }
}

/* Its server does not answer --------------------------------------------------- */

/*
 * A holder's life again, in which one command fails: BEFORE the server heard of
 * it, or AFTER it was done. True if the holder knows where it stands: it was
 * told no, or yes and that it gave it back. Then the lock is free, at once.
 */
static bool fail_at(struct cast *cast, const struct crash *crash,
                    enum dlock_phase phase)
{
    unsigned who = cast_add(cast, 1);
    enum dlock_status status;

    if (!crash->in_release)
        cast_trap(cast, who, DEED_FAIL, phase, crash->at);
    status = cast_take(cast, who, crash->name, 0, 0);
    if (status != DLOCK_OK)
        return status != DLOCK_UNKNOWN;
    if (crash->in_release)
        cast_trap(cast, who, DEED_FAIL, phase, crash->at);
    status = cast_give(cast, who, crash->name);
    if (status == DLOCK_LOST && testbed_can(cast->testbed, DLOCK_CAP_RENEW))
        testbed_fails(cast->testbed,
                      "reply lost of '%s': the holder is told that it had lost "
                      "the lock",
                      crash->step);
    return status == DLOCK_OK;
}

static _Noreturn void not_free(const struct testbed *testbed,
                               const struct crash *crash,
                               enum dlock_phase phase, unsigned after_ms)
{
    testbed_fails(testbed,
                  "%s '%s' (command %u of %s): nobody gets in for %u ms",
                  phase == DLOCK_BEFORE ? "no answer to" : "reply lost of",
                  crash->step, crash->at + 1, part_of(crash), after_ms);
}

/* A client that got no answer lives on, and must not keep the lock for ever. */
static void check_failures(struct testbed *testbed, struct crash crashes[],
                           unsigned n, enum dlock_phase phase)
{
    struct cast cast;

    cast_open(&cast, testbed, 2, testbed->lease_ms);
    for (unsigned i = 0; i < n; i++) {
        crashes[i].name = testbed_name("a-fails");
        if (fail_at(&cast, &crashes[i], phase) &&
            !cast_is_free(&cast, CAST_NEXT, crashes[i].name))
            not_free(testbed, &crashes[i], phase, 0);
    }
    for (unsigned i = 0; i < n; i++) {
        struct deed_report report = inherit(&cast, crashes[i].name);

        if (report.status != DLOCK_OK)
            not_free(testbed, &crashes[i], phase, took_ms(&report));
    }
}

void conform_check_a(struct testbed *testbed)
{
    struct crash crashes[CRASHES_MAX];
    const char *name = testbed_name("a-begin");
    char steps[120] = "";
    struct cast cast;
    unsigned n;

    cast_open(&cast, testbed, 2, testbed->lease_ms);
    cast_begin(&cast, name, 0);
    n = rehearse(&cast, crashes);
    if (n == 0)
        testbed_untested(testbed, "it sends no commands to die between");
    check_deaths(&cast, crashes, n, steps, sizeof(steps));
    check_failures(testbed, crashes, n, DLOCK_AFTER);
    /* A release that never got there leaves a holder, who may try again. */
    while (n > 0 && crashes[n - 1].in_release)
        n--;
    check_failures(testbed, crashes, n, DLOCK_BEFORE);
    testbed_holds(testbed,
                  "killed after each command, or it failed, or its reply was "
                  "lost: %s",
                  steps);
}

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

/*
 * NEXT waits for NAME, for longer than it may have to; how long it took. Whoever wakes
 * up only at the end of its own wait did not find out that the lease was over: that is
 * too late. AFTER tells what has happened.
 */
static unsigned inherit(struct cast *cast, const char *name, const char *after)
{
    const struct testbed *testbed = cast->testbed;
    unsigned most_ms = testbed->lease_ms + testbed->margin_ms, took_ms;
    const struct deed_report report =
        cast_ask(cast, CAST_NEXT,
                 cast_order(deed_take, name, 2 * most_ms, testbed->long_ms));

    took_ms = (unsigned)((report.ended_us - report.began_us) / 1000);
    if (report.status != DLOCK_OK || took_ms > most_ms)
        testbed_fails(testbed,
                      "%s: nobody gets in for %u ms under a lease of %u ms",
                      after, took_ms, testbed->lease_ms);
    return took_ms;
}

/* C ------------------------------------------------------------------------ */

/*
 * A holder was overtaken while it was stopped, and goes on. Who overtook it
 * dies. If the first one's renewal does not look whose lock it renews, the
 * dead one's lives for ever.
 */
static void check_no_undead(struct cast *cast)
{
    struct testbed *testbed = cast->testbed;
    const char *name = testbed_name("c-undead");
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
    (void)cast_do(cast, CAST_THIRD, deed_abandon, name);
    (void)inherit(cast, name,
                  "a holder was stopped and overtaken and goes on; who "
                  "overtook it has died");
}

void conform_check_c(struct testbed *testbed)
{
    const char *thread = testbed_name("c-thread");
    const char *process = testbed_name("c-process");
    const char *name = testbed_name("c-renewal");
    unsigned thread_ms, process_ms;
    struct cast cast;

    /* Only who worked in the process is gone. */
    cast_open(&cast, testbed, 3, testbed->lease_ms);
    cast_begin(&cast, thread, 0);
    (void)cast_do(&cast, CAST_HOLDER, deed_abandon, thread);
    thread_ms = inherit(&cast, thread, "a worker has died, its process lives");
    if (testbed->together)
        testbed_holds(testbed, "in %u ms after the holder's thread died",
                      thread_ms);
    if (testbed_can(testbed, DLOCK_CAP_LEASE)) {
        check_no_undead(&cast);
        /* The holder works on, under a new grant whose lease nobody renews. If the
         * renewal of its first one is still at it, that lease never ends. */
        if (cast_take(&cast, CAST_HOLDER, name, 0, 0) != DLOCK_OK ||
            cast_give(&cast, CAST_HOLDER, name) != DLOCK_OK ||
            cast_take(&cast, CAST_HOLDER, name, 0, testbed->lease_ms) !=
                DLOCK_OK)
            testbed_fails(testbed, "given back, and not to be had");
        (void)inherit(&cast, name,
                      "given back, and still renewed under the next grant");
    }
    cast_begin(&cast, process, 0);
    cast_kill(&cast, CAST_HOLDER);
    process_ms = inherit(&cast, process, "kill -9 of the holder");
    testbed_holds(testbed,
                  "next in %u ms after kill -9, in %u ms after a worker's "
                  "death; lease %u ms",
                  process_ms, thread_ms, testbed->lease_ms);
}

/* A ------------------------------------------------------------------------ */

/* NEXT gets the lock of PLACE, to which WHAT has happened. */
static void inherit_at(struct cast *cast, const struct cast_place *place,
                       const char *what)
{
    char after[120];

    (void)snprintf(after, sizeof(after), "%s '%s' (command %u of its %s)", what,
                   place->step, place->at + 1,
                   place->in_release ? "release" : "acquire");
    (void)inherit(cast, place->name, after);
}

/* Its server does not answer --------------------------------------------------- */

/*
 * A holder's life again, in which one command fails: BEFORE the server heard of
 * it, or AFTER it was done. True if the holder knows where it stands: it was
 * told no, or yes and that it gave it back. Then the lock is free, at once.
 */
static bool fail_at(struct cast *cast, const struct cast_place *place,
                    enum dlock_phase phase)
{
    unsigned who = cast_add(cast, 1);
    enum dlock_status status;

    if (!place->in_release)
        cast_trap(cast, who, DEED_FAIL, phase, place->at);
    status = cast_take(cast, who, place->name, 0, 0);
    if (status != DLOCK_OK)
        return status != DLOCK_UNKNOWN;
    if (place->in_release)
        cast_trap(cast, who, DEED_FAIL, phase, place->at);
    status = cast_give(cast, who, place->name);
    if (status == DLOCK_LOST && testbed_can(cast->testbed, DLOCK_CAP_RENEW))
        testbed_fails(cast->testbed,
                      "reply lost of '%s': the holder is told that it had lost "
                      "the lock",
                      place->step);
    return status == DLOCK_OK;
}

/* A client that got no answer lives on, and must not keep the lock for ever. */
static void check_failures(struct testbed *testbed, struct cast_place places[],
                           unsigned n, enum dlock_phase phase)
{
    const char *what = phase == DLOCK_BEFORE ? "no answer to" : "reply lost of";
    struct cast cast;

    cast_open(&cast, testbed, 2, testbed->lease_ms);
    for (unsigned i = 0; i < n; i++) {
        places[i].name = testbed_name("a-fails");
        if (fail_at(&cast, &places[i], phase) &&
            !cast_is_free(&cast, CAST_NEXT, places[i].name))
            testbed_fails(testbed,
                          "%s '%s': the holder knows, and it is not free", what,
                          places[i].step);
    }
    for (unsigned i = 0; i < n; i++)
        inherit_at(&cast, &places[i], what);
}

void conform_check_a(struct testbed *testbed)
{
    struct cast_place places[CAST_PLACES_MAX];
    const char *name = testbed_name("a-begin");
    char steps[120] = "";
    struct cast cast;
    unsigned n;

    cast_open(&cast, testbed, 2, testbed->lease_ms);
    cast_begin(&cast, name, 0);
    n = cast_places(&cast, places);
    if (n == 0)
        testbed_untested(testbed, "it sends no commands to die between");
    for (unsigned i = 0; i < n; i++)
        (void)cast_halt(&cast, &places[i], DEED_DIE);
    for (unsigned i = 0; i < n; i++) {
        size_t len = strlen(steps);

        inherit_at(&cast, &places[i], "holder killed after");
        (void)cast_give(&cast, CAST_NEXT, places[i].name);
        (void)snprintf(steps + len, sizeof(steps) - len, "%s%s",
                       len > 0 ? ", " : "", places[i].step);
    }
    check_failures(testbed, places, n, DLOCK_AFTER);
    /* A release that never got there leaves a holder, who may try again. */
    while (n > 0 && places[n - 1].in_release)
        n--;
    check_failures(testbed, places, n, DLOCK_BEFORE);
    testbed_holds(testbed,
                  "killed after each command, or it failed, or its reply was "
                  "lost: %s",
                  steps);
}

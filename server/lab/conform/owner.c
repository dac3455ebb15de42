/*
 * The owner of a lock. P: a holder that comes late cannot free another's; R: not even if it
 * was stopped in the middle of giving back; N: the owner may come in again, and
 * (N2) for as long as it asks then.
 */

#include <stdio.h>

#include "server/lab/conform/cast.h"

/* NEXT gets in when HOLDER's lease is over; false: it never is. */
static bool overtake(struct cast *cast, const char *name)
{
    const struct testbed *testbed = cast->testbed;

    return cast_take(cast, CAST_NEXT, name,
                     testbed->lease_ms + testbed->margin_ms,
                     testbed->long_ms) == DLOCK_OK;
}

/* Where nobody comes late, somebody may yet free what he never had. */
static _Noreturn void check_stranger(struct cast *cast, const char *name)
{
    const struct deed_order order = cast_order(deed_give_anyway, name);

    (void)cast_ask(cast, CAST_NEXT, &order);
    if (cast_is_free(cast, CAST_THIRD, name))
        testbed_fails(cast->testbed, "a stopped holder keeps it, but anybody's "
                                     "release frees it");
    testbed_holds(cast->testbed,
                  "a stopped holder keeps it; the release of one "
                  "who never had it does nothing");
}

/*
 * WHO is stopped and NEXT did not get in: without a lease that is how it is,
 * with one it is a fault.
 */
static void not_overtaken(struct cast *cast, unsigned who)
{
    if (testbed_can(cast->testbed, DLOCK_CAP_LEASE))
        testbed_fails(cast->testbed,
                      "the holder is stopped, and nobody gets in");
    cast_continue(cast, who);
}

void conform_check_p(struct testbed *testbed)
{
    const char *name = testbed_name("p");
    enum dlock_status said;
    struct cast cast;

    cast_open(&cast, testbed, 3, testbed->lease_ms);
    cast_begin(&cast, name, 0);
    if (testbed->together)
        check_stranger(&cast, name);
    cast_stop(&cast, CAST_HOLDER);
    if (!overtake(&cast, name)) {
        not_overtaken(&cast, CAST_HOLDER);
        check_stranger(&cast, name);
    }
    cast_continue(&cast, CAST_HOLDER);
    said = cast_give(&cast, CAST_HOLDER, name);
    if (cast_is_free(&cast, CAST_THIRD, name))
        testbed_fails(testbed,
                      "a late holder's release (%s) freed the lock of the "
                      "next one",
                      dlock_status_text(said));
    if (cast_give(&cast, CAST_NEXT, name) != DLOCK_OK)
        testbed_fails(testbed, "the next holder has lost it");
    testbed_holds(testbed,
                  "stopped until another was in, the late release was told: "
                  "%s",
                  dlock_status_text(said));
}

/* R ------------------------------------------------------------------------ */

enum { CUTS_MAX = 12 };

/* The commands of a release, counted at one without a fault. */
static unsigned rehearse(struct cast *cast)
{
    const char *name = testbed_name("r-dry");
    unsigned n, who = cast_add(cast, 1);

    (void)cast_take(cast, who, name, 0, 0);
    cast_trap(cast, who, DEED_PASS, DLOCK_BEFORE, 0);
    (void)cast_give(cast, who, name);
    n = cast_steps(cast, who);
    cast_kill(cast, who);
    return n < CUTS_MAX ? n : CUTS_MAX;
}

/* A new holder of NAME, stopped before command AT of its release. */
static unsigned stop_before(struct cast *cast, const char *name, unsigned at)
{
    const struct deed_order order = cast_order(deed_give, name);
    unsigned who = cast_add(cast, 1);

    if (cast_take(cast, who, name, 0, 0) != DLOCK_OK)
        testbed_broken(cast->testbed, "a new name is not free");
    cast_trap(cast, who, DEED_STOP, DLOCK_BEFORE, at);
    cast_tell(cast, who, &order);
    cast_await_stop(cast, who);
    return who;
}

/* LATE stands before command AT of its release of NAME, and is overtaken. */
static void check_cut(struct cast *cast, const char *name, unsigned late,
                      unsigned at, unsigned n)
{
    const char *step = cast_step_name(cast, late, at);

    cast_continue(cast, late);
    (void)cast_hear(cast, late);
    if (cast_is_free(cast, CAST_THIRD, name))
        testbed_fails(
            cast->testbed,
            "a release was stopped before '%s' (command %u of %u): it "
            "freed the lock of the next holder",
            step, at + 1, n);
}

void conform_check_r(struct testbed *testbed)
{
    const char *held = testbed_name("r-begin");
    const char *names[CUTS_MAX];
    unsigned late[CUTS_MAX], n;
    struct cast cast;

    cast_open(&cast, testbed, 3, testbed->lease_ms);
    cast_begin(&cast, held, testbed->long_ms);
    n = testbed->together ? 0 : rehearse(&cast);
    for (unsigned i = 0; i < n; i++) {
        names[i] = testbed_name("r");
        late[i] = stop_before(&cast, names[i], i);
    }
    for (unsigned i = 0; i < n; i++) {
        if (!overtake(&cast, names[i])) {
            not_overtaken(&cast, late[i]);
            check_stranger(&cast, held);
        }
        check_cut(&cast, names[i], late[i], i, n);
    }
    if (n == 0)
        check_stranger(&cast, held);
    testbed_holds(testbed,
                  "a release stopped before each of its %u commands "
                  "frees nobody else's",
                  n);
}

/* N ------------------------------------------------------------------------ */

/* HOLDER, who has NAME already, takes it once more. */
static void take_again(struct cast *cast, const char *name)
{
    enum dlock_status status =
        cast_take(cast, CAST_HOLDER, name, 0, cast->testbed->long_ms);

    if (status != DLOCK_OK)
        testbed_fails(cast->testbed, "the holder's second try: %s",
                      dlock_status_text(status));
}

void conform_check_n(struct testbed *testbed)
{
    const char *name = testbed_name("n");
    struct cast cast;

    cast_open(&cast, testbed, 3, testbed->long_ms);
    cast_begin(&cast, name, testbed->long_ms);
    take_again(&cast, name);
    if (cast_is_free(&cast, CAST_THIRD, name))
        testbed_fails(testbed, "taken twice, and another is in as well");
    if (cast_give(&cast, CAST_HOLDER, name) != DLOCK_OK ||
        cast_is_free(&cast, CAST_THIRD, name))
        testbed_fails(testbed, "taken twice, free after one release");
    if (cast_give(&cast, CAST_HOLDER, name) != DLOCK_OK ||
        !cast_is_free(&cast, CAST_THIRD, name))
        testbed_fails(testbed, "taken twice, not free after two releases");
    testbed_holds(testbed, "taken twice, free after the second release");
}

/* The inner hold counts like any other: its lease is the lock's now. */
void conform_check_n2(struct testbed *testbed)
{
    const char *calm = testbed_name("n2-begin");
    const char *name = testbed_name("n2");
    struct cast cast;

    cast_open(&cast, testbed, 2, testbed->long_ms);
    cast_begin(&cast, calm, testbed->long_ms);
    if (cast_take(&cast, CAST_HOLDER, name, 0, testbed->lease_ms) != DLOCK_OK)
        testbed_broken(testbed, "a new name is not free");
    take_again(&cast, name);
    if (!testbed_can(testbed, DLOCK_CAP_LEASE))
        testbed_untested(testbed, "it has no lease to lengthen");
    if (overtake(&cast, name))
        testbed_fails(testbed,
                      "re-entered for %u ms, but the lease of the first hold "
                      "(%u ms) ended it",
                      testbed->long_ms, testbed->lease_ms);
    testbed_holds(testbed, "taken for %u ms, re-entered for %u ms: still alone",
                  testbed->lease_ms, testbed->long_ms);
}

/*
 * The owner of a lock. P: a holder that comes late cannot free another's; R: not even if it
 * was stopped in the middle of giving back; N: the owner may come in again, and
 * (N2) for as long as it asks then.
 */

#include "server/lab/conform/cast.h"

/* Where nobody comes late, somebody may yet free what he never had. */
static _Noreturn void check_stranger(struct cast *cast, const char *name)
{
    (void)cast_do(cast, CAST_NEXT, deed_give_anyway, name);
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
    if (!cast_overtakes(&cast, name)) {
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

void conform_check_r(struct testbed *testbed)
{
    const char *held = testbed_name("r-begin");
    struct cast_place places[CAST_PLACES_MAX], *cuts = places;
    unsigned late[CAST_PLACES_MAX], n = 0;
    struct cast cast;

    cast_open(&cast, testbed, 3, testbed->lease_ms);
    cast_begin(&cast, held, testbed->long_ms);
    if (!testbed->together)
        n = cast_places(&cast, places);
    for (; n > 0 && !cuts->in_release; n--)
        cuts++;
    for (unsigned i = 0; i < n; i++)
        late[i] = cast_halt(&cast, &cuts[i], DEED_STOP);
    for (unsigned i = 0; i < n; i++) {
        if (!cast_overtakes(&cast, cuts[i].name)) {
            not_overtaken(&cast, late[i]);
            check_stranger(&cast, held);
        }
        cast_continue(&cast, late[i]);
        (void)cast_hear(&cast, late[i]);
        if (cast_is_free(&cast, CAST_THIRD, cuts[i].name))
            testbed_fails(
                testbed,
                "a release was stopped before '%s' (command %u of %u): it "
                "freed the lock of the next holder",
                cuts[i].step, i + 1, n);
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
    if (cast_overtakes(&cast, name))
        testbed_fails(testbed,
                      "re-entered for %u ms, but the lease of the first hold "
                      "(%u ms) ended it",
                      testbed->long_ms, testbed->lease_ms);
    testbed_holds(testbed, "taken for %u ms, re-entered for %u ms: still alone",
                  testbed->lease_ms, testbed->long_ms);
}

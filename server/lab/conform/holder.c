/*
 * The holder of a lock. It is alone, X: among threads; X2: among processes; L: for longer
 * than the lease. P: one that comes late cannot free another's; R: not even if it was
 * stopped in the middle of giving back; N: it may come in again, and (N2) for as long as
 * it asks then.
 */

#include <stdio.h>
#include <time.h>

#include "server/lab/conform/cast.h"

enum {
    ROUNDS = 25,          /* of each contender */
    INSIDE_US = 200,      /* the others get their chance to be wrong */
    HURRY_LEASE_MS = 300, /* L: so a renewal is due every 100 ms */
};

/* X and X2: contention ----------------------------------------------------- */

static void deed_contend(struct deed_hand *hand, const struct deed_order *order,
                         struct deed_report *report)
{
    struct testbed_race *race = hand->testbed->race;
    struct timespec pause = {.tv_nsec = INSIDE_US * 1000L};
    unsigned seen;

    for (int64_t i = 0; i < order->number; i++) {
        deed_take(hand, order, report);
        if (report->status != DLOCK_OK) {
            if (atomic_fetch_add(&race->refused, 1) == 0)
                (void)snprintf(race->refusal, sizeof(race->refusal),
                               "%.45s; %.70s",
                               dlock_status_text(report->status), report->text);
            continue;
        }
        /* A read, a pause and a write: what is not alone in here loses updates. */
        if (atomic_fetch_add(&race->inside, 1) != 0)
            (void)atomic_fetch_add(&race->overlaps, 1);
        (void)atomic_fetch_add(&race->entered, 1);
        seen = atomic_load(&race->counter);
        (void)nanosleep(&pause, NULL);
        atomic_store(&race->counter, seen + 1);
        (void)atomic_fetch_sub(&race->inside, 1);
        deed_give(hand, order, report);
    }
}

/* N players contend, and the counters of the race tell. */
static _Noreturn void contend(struct testbed *testbed, unsigned n,
                              const char *what)
{
    struct testbed_race *race = testbed->race;
    unsigned all = n * ROUNDS, entered, overlaps, lost;
    const char *name = testbed_name(what);
    struct deed_order order;
    struct cast cast;

    cast_open(&cast, testbed, n, testbed->long_ms);
    cast_begin(&cast, name, 0);
    (void)cast_give(&cast, CAST_HOLDER, name);
    order = cast_order(deed_contend, name, 10000 * testbed->slow, 0);
    order.number = ROUNDS;
    for (unsigned i = 0; i < n; i++)
        cast_tell(&cast, i, order);
    for (unsigned i = 0; i < n; i++)
        (void)cast_hear(&cast, i);
    entered = atomic_load(&race->entered);
    overlaps = atomic_load(&race->overlaps);
    lost = entered - atomic_load(&race->counter);
    if (overlaps > 0 || lost > 0)
        testbed_fails(testbed,
                      "%u %s, %u entries: %u found company, %u updates lost", n,
                      what, entered, overlaps, lost);
    if (entered < all)
        testbed_fails(testbed, "%u of %u entries never got in; the first: %s",
                      all - entered, all, race->refusal);
    testbed_holds(testbed, "%u %s, %u entries, each alone", n, what, entered);
}

void conform_check_x(struct testbed *testbed)
{
    testbed->together = true;
    contend(testbed, 4, "threads");
}

void conform_check_x2(struct testbed *testbed)
{
    testbed->together = false;
    contend(testbed, 2, "processes");
}

/* L: the lease is renewed while the holder lives ---------------------------- */

/* WHO waits for NAME while 2.5 leases would pass, and does not get it. */
static void tell_to_wait(struct cast *cast, unsigned who, const char *name,
                         unsigned lease_ms)
{
    cast_tell(
        cast, who,
        cast_order(deed_take, name, lease_ms * 5 / 2, cast->testbed->long_ms));
}

/*
 * Two holders whose work takes longer than their lease. One of them has given
 * back another lock in between: that must not end all of its renewals.
 */
void conform_check_l(struct testbed *testbed)
{
    enum { SECOND_HOLDER = 3 };
    unsigned lease_ms = HURRY_LEASE_MS * testbed->slow;
    const char *plain = testbed_name("l-plain");
    const char *kept = testbed_name("l-kept");
    const char *given = testbed_name("l-given");
    struct deed_report of_plain, of_kept;
    struct cast cast;

    cast_open(&cast, testbed, 4, lease_ms);
    cast_begin(&cast, plain, 0);
    (void)cast_take(&cast, SECOND_HOLDER, kept, 0, 0);
    (void)cast_take(&cast, SECOND_HOLDER, given, 0, 0);
    (void)cast_give(&cast, SECOND_HOLDER, given);
    tell_to_wait(&cast, CAST_NEXT, plain, lease_ms);
    tell_to_wait(&cast, CAST_THIRD, kept, lease_ms);
    of_plain = cast_hear(&cast, CAST_NEXT);
    of_kept = cast_hear(&cast, CAST_THIRD);
    if (of_plain.status == DLOCK_OK)
        testbed_fails(
            testbed, "the holder works on, and another is in after %u ms",
            (unsigned)((of_plain.ended_us - of_plain.began_us) / 1000));
    if (of_kept.status == DLOCK_OK)
        testbed_fails(testbed, "another lock was given back, and this one's "
                               "renewal ended with it");
    if (cast_give(&cast, CAST_HOLDER, plain) != DLOCK_OK)
        testbed_fails(testbed,
                      "nobody else got in, but the holder has lost it");
    testbed_holds(testbed, "worked for %u ms under a lease of %u ms, alone",
                  lease_ms * 5 / 2, lease_ms);
}

/* P ------------------------------------------------------------------------ */

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

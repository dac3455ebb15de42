/*
 * A holder is alone: X among threads, X2 among processes, L for longer than
 * the lease.
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

/* A read, a pause and a write: what is not alone in here loses updates. */
static void critical_section(struct testbed_race *race)
{
    struct timespec pause = {.tv_nsec = INSIDE_US * 1000L};
    unsigned seen;

    if (atomic_fetch_add(&race->inside, 1) != 0)
        (void)atomic_fetch_add(&race->overlaps, 1);
    (void)atomic_fetch_add(&race->entered, 1);
    seen = atomic_load(&race->counter);
    (void)nanosleep(&pause, NULL);
    atomic_store(&race->counter, seen + 1);
    (void)atomic_fetch_sub(&race->inside, 1);
}

static void deed_contend(struct deed_hand *hand, const struct deed_order *order,
                         struct deed_report *report)
{
    struct testbed_race *race = hand->testbed->race;

    for (int64_t i = 0; i < order->number; i++) {
        deed_take(hand, order, report);
        if (report->status != DLOCK_OK) {
            if (atomic_fetch_add(&race->refused, 1) == 0)
                (void)snprintf(race->refusal, sizeof(race->refusal),
                               "%.45s; %.70s",
                               dlock_status_text(report->status), report->text);
            continue;
        }
        critical_section(race);
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

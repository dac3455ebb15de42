/*
 * The holder of a lock. It is alone, X: among threads; X2: among processes; L: for longer
 * than the lease. It dies, C: while it works; A: after any one of its commands, or it is
 * the command that dies on its way, there or back. P: one that comes late cannot free
 * another's; R: not even if it was stopped in the middle of giving back. N: it may come in
 * again, and (N2) for as long as it asks then.
 *
 * "Any" is a loop: a first holder's commands are counted, then one holder dies or stops
 * at each. Their leases all run at the same time, so this takes one lease and not as many
 * as there are commands.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/base/clock.h"
#include "server/lab/conform/check.h"

enum {
    ROUNDS = 25,          /* of each contender */
    INSIDE_US = 200,      /* the others get their chance to be wrong */
    HURRY_LEASE_MS = 300, /* L: so a renewal is due every 100 ms */
    UNDEAD_TRIES = 3,     /* C */
};

/* X and X2: contention ----------------------------------------------------- */

static void deed_contend(struct player *player, const struct deed_order *order,
                         struct deed_report *report)
{
    struct testbed_race *race = testbed.race;
    struct timespec pause = {.tv_nsec = INSIDE_US * 1000L};
    struct deed_report ignored;
    unsigned seen;

    for (int i = 0; i < ROUNDS; i++) {
        deed_take(player, order, report);
        if (report->status != DLOCK_OK)
            return;
        /* A read, a pause and a write: what is not alone in here loses updates. */
        if (atomic_fetch_add(&race->inside, 1) != 0)
            (void)atomic_fetch_add(&race->overlaps, 1);
        (void)atomic_fetch_add(&race->entered, 1);
        seen = atomic_load(&race->counter);
        (void)nanosleep(&pause, NULL);
        atomic_store(&race->counter, seen + 1);
        (void)atomic_fetch_sub(&race->inside, 1);
        deed_give(player, order, &ignored);
    }
}

/* N players contend, and the counters of the race tell. */
static _Noreturn void contend(unsigned n, const char *what)
{
    unsigned entered, overlaps, lost;
    struct deed_report refused = {.status = DLOCK_OK}, report;
    const char *name;

    cast_open(n, testbed.long_ms);
    name = cast_begin(0);
    (void)cast_give(HOLDER, name);
    for (unsigned i = 0; i < n; i++)
        cast_tell(i, deed_contend, name, 10000 * testbed.slow, 0);
    for (unsigned i = 0; i < n; i++) {
        report = cast_hear(i);
        if (report.status != DLOCK_OK)
            refused = report;
    }
    /* All have reported: nobody writes these any more. */
    entered = atomic_load(&testbed.race->entered);
    overlaps = atomic_load(&testbed.race->overlaps);
    lost = entered - atomic_load(&testbed.race->counter);
    /* Overlaps come before refusals, because leases are long here: company is the lock's
     * fault, however seldom it comes. */
    must(overlaps == 0 && lost == 0,
         "%u %s, %u entries: %u found company, %u updates lost", n, what,
         entered, overlaps, lost);
    must_in_time(refused.status == DLOCK_OK,
                 "after %u entries one never got in: %s; %s", entered,
                 dlock_status_text(refused.status), refused.error.text);
    check_holds("%u %s, %u entries, each alone", n, what, entered);
}

void conform_check_x(void)
{
    testbed.together = true;
    contend(4, "threads");
}

void conform_check_x2(void)
{
    testbed.together = false;
    contend(2, "processes");
}

/* L: the lease is renewed while the holder lives ---------------------------- */

/*
 * Two holders whose work takes longer than their lease, while others wait for 2.5 of
 * them. One of them has given back another lock in between: that must not end all of its
 * renewals.
 */
void conform_check_l(void)
{
    enum { SECOND_HOLDER = 3 };
    unsigned lease_ms = HURRY_LEASE_MS * testbed.slow;
    unsigned wait_ms = lease_ms * 5 / 2;
    const char *plain, *kept = cast_name(), *given = cast_name();
    struct deed_report of_plain, of_kept;

    cast_open(4, lease_ms);
    /* A first holder under the lease of the client: renewals begin by themselves. */
    plain = cast_begin(0);
    need(cast_take(SECOND_HOLDER, kept, 0, 0) == DLOCK_OK &&
             cast_take(SECOND_HOLDER, given, 0, 0) == DLOCK_OK,
         "a new name is not free");
    (void)cast_give(SECOND_HOLDER, given);
    cast_tell(NEXT, deed_take, plain, wait_ms, testbed.long_ms);
    cast_tell(THIRD, deed_take, kept, wait_ms, testbed.long_ms);
    of_plain = cast_hear(NEXT);
    of_kept = cast_hear(THIRD);
    /* A waiter that was late itself may not have asked since the lease ended. */
    must_in_time(of_plain.status != DLOCK_OK && !cast_is_free(NEXT, plain),
                 "the holder works on, and another is in after %u ms",
                 (unsigned)((of_plain.ended_us - of_plain.began_us) / 1000));
    must_in_time(
        of_kept.status != DLOCK_OK && !cast_is_free(THIRD, kept),
        "another lock was given back, and this one's renewal ended with it");
    /* The holder itself must be told that it still has it. */
    must_in_time(cast_give(HOLDER, plain) == DLOCK_OK,
                 "nobody else got in, but the holder has lost it");
    check_holds("worked for %u ms under a lease of %u ms, alone", wait_ms,
                lease_ms);
}

/* P ------------------------------------------------------------------------ */

/* Where nobody comes late, somebody may yet free what he never had. */
static _Noreturn void check_stranger(const char *name)
{
    /* A no is as good as anything here: only what it does counts. */
    (void)cast_ask(NEXT, deed_give_anyway, name, 0, 0);
    must(!cast_is_free(THIRD, name), "a stopped holder keeps it, but anybody's "
                                     "release frees it");
    check_holds("a stopped holder keeps it; the release of one who never had "
                "it does nothing");
}

/* WHO, who holds NAME, is stopped until NEXT is in. False: without a lease nobody gets
 * in; with one that is a fault. */
static bool is_overtaken(unsigned who, const char *name)
{
    bool overtaken = cast_overtakes(name);

    must_in_time(overtaken || !testbed_can(DLOCK_CAP_LEASE),
                 "the holder is stopped, and nobody gets in");
    cast_continue(who);
    return overtaken;
}

void conform_check_p(void)
{
    enum dlock_status said;
    const char *name;

    cast_open(3, testbed.lease_ms);
    name = cast_begin(0);
    /* A stop would stop the next one as well: in one process only a stranger can be
     * played. */
    if (testbed.together)
        check_stranger(name);
    cast_stop(HOLDER);
    if (!is_overtaken(HOLDER, name))
        check_stranger(name);
    said = cast_give(HOLDER, name);
    /* An answer that is missing says nothing of what the release has done. */
    need(!cast_is_silent(said), "the late release: %s",
         dlock_status_text(said));
    must(!cast_is_free(THIRD, name),
         "a late holder's release (%s) freed the lock of the next one",
         dlock_status_text(said));
    /* The next one's hold must have outlived all that the late one did. */
    must_in_time(cast_give(NEXT, name) == DLOCK_OK,
                 "the next holder has lost it");
    check_holds("stopped until another was in, the late release was told: %s",
                dlock_status_text(said));
}

/* R ------------------------------------------------------------------------ */

void conform_check_r(void)
{
    struct cast_place places[CAST_PLACES_MAX], *cuts = places;
    unsigned late[CAST_PLACES_MAX], n = 0;
    const char *held;

    cast_open(3, testbed.lease_ms);
    held = cast_begin(testbed.long_ms);
    if (!testbed.together)
        n = cast_places(places);
    /* The acquire's places come first: only those of the release are cut at. */
    for (; n > 0 && !cuts->in_release; n--)
        cuts++;
    for (unsigned i = 0; i < n; i++)
        late[i] = cast_halt(&cuts[i], TRAP_STOP);
    for (unsigned i = 0; i < n; i++) {
        if (!is_overtaken(late[i], cuts[i].name))
            check_stranger(held);
        /* It goes on from where it was stopped, and its release ends now. */
        need(!cast_is_silent(cast_hear(late[i]).status),
             "the release that was stopped before '%s': no answer",
             cuts[i].step);
        must(!cast_is_free(THIRD, cuts[i].name),
             "a release was stopped before '%s' (command %u of %u): it freed "
             "the lock of the next holder",
             cuts[i].step, i + 1, n);
    }
    if (n == 0)
        check_stranger(held);
    check_holds("a release stopped before each of its %u commands frees "
                "nobody else's",
                n);
}

/* N ------------------------------------------------------------------------ */

/* HOLDER, who has NAME already, takes it once more. Returns when it had it. */
static uint64_t take_again(const char *name)
{
    const struct deed_report report =
        cast_ask(HOLDER, deed_take, name, 0, testbed.long_ms);

    need(!cast_is_silent(report.status), "the holder's second try: %s",
         dlock_status_text(report.status));
    must(report.status == DLOCK_OK, "the holder's second try: %s",
         dlock_status_text(report.status));
    return report.ended_us;
}

void conform_check_n(void)
{
    const char *name;

    cast_open(3, testbed.long_ms);
    name = cast_begin(testbed.long_ms);
    take_again(name);
    must(!cast_is_free(THIRD, name), "taken twice, and another is in as well");
    /* Both are asked at once: a lease that ended in between would look like a release. */
    must_in_time(cast_give(HOLDER, name) == DLOCK_OK &&
                     !cast_is_free(THIRD, name),
                 "taken twice, free after one release");
    must_in_time(cast_give(HOLDER, name) == DLOCK_OK &&
                     cast_is_free(THIRD, name),
                 "taken twice, not free after two releases");
    check_holds("taken twice, free after the second release");
}

/* The inner hold counts like any other: its lease is the lock's now. If the first lease has
 * ended by then, there was no hold to come in again. */
void conform_check_n2(void)
{
    unsigned begins = 0;
    const char *name;
    struct deed_report first;

    cast_open(2, testbed.long_ms);
    (void)cast_begin(testbed.long_ms);
    /* The first lease may have ended before the second try had its answer: that was no
     * re-entry then. */
    do {
        need(begins++ < BEGINS_MAX, "the lease ends before the second try");
        name = cast_name();
        first = cast_ask(HOLDER, deed_take, name, 0, testbed.lease_ms);
        need(first.status == DLOCK_OK, "a new name is not free");
    } while (take_again(name) >=
             first.began_us + UINT64_C(1000) * testbed.lease_ms);
    if (!testbed_can(DLOCK_CAP_LEASE))
        check_untested("it has no lease to lengthen");
    /* NEXT waits for longer than the first lease. */
    must(!cast_overtakes(name),
         "re-entered for %u ms, but the lease of the first hold (%u ms) ended "
         "it",
         testbed.long_ms, testbed.lease_ms);
    check_holds("taken for %u ms, re-entered for %u ms: still alone",
                testbed.lease_ms, testbed.long_ms);
}

/* C ------------------------------------------------------------------------ */

/*
 * NEXT waits for NAME, for longer than it may have to; how long it took. A waiter
 * that wakes up only at the end of its own wait did not find out that the lease was over:
 * that is too late. AFTER tells what has happened.
 */
static unsigned inherit(const char *name, const char *after)
{
    unsigned most_ms = testbed.lease_ms + testbed.margin_ms, took_ms;
    /* The wait is twice of what is allowed: a waiter that sleeps to its end shows
     * by that. */
    const struct deed_report report =
        cast_ask(NEXT, deed_take, name, 2 * most_ms, testbed.long_ms);

    took_ms = (unsigned)((report.ended_us - report.began_us) / 1000);
    must_in_time(report.status == DLOCK_OK && took_ms <= most_ms,
                 "%s: nobody gets in for %u ms under a lease of %u ms", after,
                 took_ms, testbed.lease_ms);
    return took_ms;
}

/* THIRD takes NAME as soon as it can, for a short lease; when it began to ask, in us. */
static uint64_t overtake(const char *name)
{
    uint64_t until_us =
        clock_us() + UINT64_C(1000) * (testbed.lease_ms + testbed.margin_ms);
    struct deed_report report;

    do
        report = cast_ask(THIRD, deed_take, name, 0, testbed.lease_ms);
    while (report.status != DLOCK_OK && clock_us() < until_us);
    must_in_time(report.status == DLOCK_OK,
                 "the holder is stopped, and nobody gets in");
    return report.began_us;
}

/*
 * A holder was overtaken while it was stopped, and goes on. The one that overtook it
 * dies. If the first one's renewal does not look whose lock it renews, the dead one's
 * lives for ever. A renewal that knows better sends nothing; one that came when that lease
 * was over has shown nothing.
 */
static void check_no_undead(void)
{
    bool is_late = false;

    for (unsigned tries = 0; tries < UNDEAD_TRIES; tries++) {
        const char *name = cast_name();
        unsigned others;
        uint64_t end_us;

        need(cast_take(HOLDER, name, 0, 0) == DLOCK_OK,
             "a new name is not free");
        cast_stop(HOLDER);
        /* The count is taken while the process is stopped: all that comes after it was
         * sent late. */
        others = cast_others(HOLDER);
        /* The lease has begun at the earliest when it was asked for. */
        end_us = overtake(name) + UINT64_C(1000) * testbed.lease_ms;
        cast_continue(HOLDER);
        (void)cast_ask(THIRD, deed_abandon, name, 0, 0);
        while (cast_others(HOLDER) == others && clock_us() < end_us)
            clock_sleep_ms(1);
        /* A renewal that came behind the end had nobody's lock to renew. */
        is_late = clock_us() >= end_us;
        (void)inherit(name, "a holder was stopped and overtaken and goes on; "
                            "the one that overtook it has died");
        if (!is_late)
            return;
        is_late = cast_others(HOLDER) > others;
    }
    need(!is_late, "a renewal came when the lease was over");
}

void conform_check_c(void)
{
    unsigned thread_ms = 0, process_ms;
    const char *name;

    /* The renewal of a dead worker must end with its grant, and not with the process. A
     * thread that renews all the same may be late: not each time. */
    cast_open(3, testbed.lease_ms);
    for (unsigned tries = 0; tries < UNDEAD_TRIES; tries++) {
        name = cast_begin(0);
        (void)cast_ask(HOLDER, deed_abandon, name, 0, 0);
        thread_ms = inherit(name, "a worker has died, its process lives");
    }
    /* Threads only: a process's death takes all of them along. */
    if (testbed.together)
        check_holds("in %u ms after the holder's thread died", thread_ms);
    if (testbed_can(DLOCK_CAP_LEASE)) {
        check_no_undead();
        /* The holder works on, under a new grant whose lease nobody renews. If the
         * renewal of its first one is still at it, that lease never ends. */
        name = cast_name();
        must_in_time(cast_take(HOLDER, name, 0, 0) == DLOCK_OK &&
                         cast_give(HOLDER, name) == DLOCK_OK &&
                         cast_take(HOLDER, name, 0, testbed.lease_ms) ==
                             DLOCK_OK,
                     "given back, and nobody gets it");
        (void)inherit(name,
                      "given back, and still renewed under the next grant");
    }
    name = cast_begin(0);
    cast_kill(HOLDER);
    process_ms = inherit(name, "kill -9 of the holder");
    check_holds("next in %u ms after kill -9, in %u ms after a worker's death; "
                "lease %u ms",
                process_ms, thread_ms, testbed.lease_ms);
}

/* A ------------------------------------------------------------------------ */

/* NEXT gets the lock of PLACE, to which WHAT has happened. */
static void inherit_at(const struct cast_place *place, const char *what)
{
    char after[120];

    (void)snprintf(after, sizeof(after), "%s '%s' (command %u of its %s)", what,
                   place->step, place->at + 1,
                   place->in_release ? "release" : "acquire");
    (void)inherit(place->name, after);
}

/*
 * A holder's life again, in which one command fails: BEFORE the server heard of
 * it, or AFTER it was done. True if the holder knows where it stands: it was
 * told no, or yes and that it gave it back. Then the lock is free, at once.
 */
static bool fail_at(const struct cast_place *place, enum dlock_phase phase)
{
    unsigned who = cast_add(1);
    enum dlock_status status;

    if (!place->in_release)
        cast_trap(who, TRAP_FAIL, phase, place->at);
    status = cast_take(who, place->name, 0, 0);
    /* It knows that it has none; not so if the reply was lost. */
    if (status != DLOCK_OK)
        return status != DLOCK_UNKNOWN;
    if (place->in_release)
        cast_trap(who, TRAP_FAIL, phase, place->at);
    status = cast_give(who, place->name);
    /* A release whose reply was lost is asked again, and must then hear of its own
     * success. */
    must_in_time(
        status != DLOCK_LOST || !testbed_can(DLOCK_CAP_RENEW),
        "reply lost of '%s': the holder is told that it had lost the lock",
        place->step);
    return status == DLOCK_OK;
}

/* A client that got no answer lives on, and must not keep the lock for ever. */
static void check_failures(struct cast_place places[], unsigned n,
                           enum dlock_phase phase)
{
    const char *what = phase == DLOCK_BEFORE ? "no answer to" : "reply lost of";

    /* The first lives are over: new holders, and NEXT once more. */
    cast_open(2, testbed.lease_ms);
    for (unsigned i = 0; i < n; i++) {
        places[i].name = cast_name();
        must_in_time(!fail_at(&places[i], phase) ||
                         cast_is_free(NEXT, places[i].name),
                     "%s '%s': the holder knows, and it is not free", what,
                     places[i].step);
    }
    for (unsigned i = 0; i < n; i++)
        inherit_at(&places[i], what);
}

void conform_check_a(void)
{
    struct cast_place places[CAST_PLACES_MAX];
    char steps[120] = "";
    unsigned n;

    cast_open(2, testbed.lease_ms);
    (void)cast_begin(0);
    n = cast_places(places);
    if (n == 0)
        check_untested("it sends no commands to die between");
    /* The holders die first, all of them: their leases run out at the same time. */
    for (unsigned i = 0; i < n; i++)
        (void)cast_halt(&places[i], TRAP_DIE);
    for (unsigned i = 0; i < n; i++) {
        size_t len = strlen(steps);

        inherit_at(&places[i], "holder killed after");
        (void)cast_give(NEXT, places[i].name);
        (void)snprintf(steps + len, sizeof(steps) - len, "%s%s",
                       len > 0 ? ", " : "", places[i].step);
    }
    check_failures(places, n, DLOCK_AFTER);
    /* A release that never got there leaves a holder, who may try again. */
    while (n > 0 && places[n - 1].in_release)
        n--;
    check_failures(places, n, DLOCK_BEFORE);
    check_holds("killed after each command, or it failed, or its reply was "
                "lost: %s",
                steps);
}

/*
 * D: late and doubled commands. A network may hold a command back, and deliver it
 * when its sender has long gone on. So after each step of a holder and of the next
 * one, every command that was sent before that step is delivered again, and
 * nothing may change: not who holds the lock, nor how often, nor until when. Then
 * the same with commands that were held back and come for the first time.
 *
 * One command is forgiven: with nobody there, a late acquire of one who has died
 * may lock for as long as its lease. Here nobody dies.
 */
#include "server/lab/conform/check.h"

#include <stdio.h>
#include <string.h>

#include "server/lab/conform/cast.h"
#include "server/lab/conform/node.h"
#include "server/lab/conform/tape.h"

enum { STATE_BYTES_MAX = 4096 };

/* Everything that was sent to the testbed's nodes. */
struct tapes {
    struct cast cast;
    char name[TESTBED_NAME_BYTES_MAX + 1];
    struct tape *tapes[TESTBED_NODES_MAX];
    size_t before[TESTBED_NODES_MAX]; /* commands sent before this step */
    unsigned replayed_n;
};

static void deed_extend(struct deed_hand *hand, const struct deed_order *order,
                        struct deed_report *report)
{
    if (hand->grants_n == 0)
        report->status = DLOCK_MISUSE;
    else
        report->status =
            dlock_extend(hand->session, &hand->grants[hand->grants_n - 1],
                         order->lease_ms, NULL);
}

/* Delivers command I of node K again: once more if a watchdog's came in between, which
 * may change all it likes. */
static void deliver(struct tapes *all, unsigned k, size_t i, const char *step)
{
    static char was[STATE_BYTES_MAX], is[STATE_BYTES_MAX];
    struct tape *tape = all->tapes[k];
    bool was_held, is_held;
    size_t n;

    do {
        n = tape_unrecorded_n(tape);
        tape_state(tape, all->name, was, sizeof(was), &was_held);
        tape_replay(tape, i);
        tape_state(tape, all->name, is, sizeof(is), &is_held);
        all->replayed_n++;
    } while (tape_unrecorded_n(tape) != n + 1);
    if (strcmp(was, is) == 0)
        return;
    testbed_fails(all->cast.testbed, "after '%s' a late %.60s %s", step,
                  tape_text(tape, i),
                  was_held && !is_held   ? "frees the lock"
                  : !was_held && is_held ? "locks for nobody"
                                         : "changes the lock");
}

/* After a step: all that was sent before it comes once more. */
static void deliver_all(struct tapes *all, const char *step)
{
    for (unsigned k = 0; k < all->cast.testbed->nodes_n; k++) {
        size_t n = tape_n(all->tapes[k]);

        for (size_t i = 0; i < all->before[k]; i++)
            deliver(all, k, i, step);
        all->before[k] = n;
    }
}

static enum dlock_status act(struct tapes *all, unsigned who,
                             deed_function *deed, unsigned lease_ms)
{
    struct deed_order order = cast_order(deed, all->name);

    order.lease_ms = lease_ms;
    return cast_ask(&all->cast, who, &order).status;
}

static void do_step(struct tapes *all, unsigned who, deed_function *deed,
                    unsigned lease_ms, const char *what)
{
    enum dlock_status status = act(all, who, deed, lease_ms);

    if (status != DLOCK_OK)
        testbed_broken(all->cast.testbed, "%s: %s", what,
                       dlock_status_text(status));
    deliver_all(all, what);
}

/* A step of the holder's whose commands are held back: the servers are as they
 * were before it. It ends well, or (MUTE) without an answer. */
static void do_held(struct tapes *all, deed_function *deed, unsigned lease_ms,
                    bool mute)
{
    struct testbed *testbed = all->cast.testbed;
    enum dlock_status status;

    for (unsigned k = 0; k < testbed->nodes_n; k++)
        tape_save(all->tapes[k], all->name);
    cast_trap(&all->cast, CAST_HOLDER, mute ? DEED_MUTE : DEED_PASS,
              DLOCK_AFTER, 0);
    status = act(all, CAST_HOLDER, deed, lease_ms);
    cast_trap(&all->cast, CAST_HOLDER, DEED_PASS, DLOCK_AFTER, 0);
    if ((status == DLOCK_OK) == mute)
        testbed_broken(testbed, "a step that is held back: %s",
                       dlock_status_text(status));
    for (unsigned k = 0; k < testbed->nodes_n; k++) {
        all->before[k] = tape_n(all->tapes[k]);
        tape_restore(all->tapes[k], all->name);
    }
}

/* The holder has it until the watchdog has renewed it. */
static void be_renewed(struct tapes *all)
{
    const struct testbed *testbed = all->cast.testbed;
    unsigned steps_n;

    if (!testbed_can(testbed, DLOCK_CAP_RENEW))
        return;
    do_step(all, CAST_HOLDER, deed_take, 0, "take, renewed");
    for (steps_n = (unsigned)tape_n(all->tapes[0]);
         tape_n(all->tapes[0]) == steps_n;)
        testbed_sleep_ms(1);
    do_step(all, CAST_HOLDER, deed_give, 0, "give back what was renewed");
}

static void play(struct tapes *all)
{
    unsigned ms = all->cast.testbed->long_ms;

    do_step(all, CAST_HOLDER, deed_take, ms, "take");
    if (testbed_can(all->cast.testbed, DLOCK_CAP_LEASE)) {
        do_step(all, CAST_HOLDER, deed_extend, ms / 2, "shorten the lease");
        do_step(all, CAST_HOLDER, deed_extend, ms, "lengthen it");
    }
    if (testbed_can(all->cast.testbed, DLOCK_CAP_REENTRANT)) {
        do_step(all, CAST_HOLDER, deed_take, ms, "come in again");
        do_step(all, CAST_HOLDER, deed_give, 0, "give one hold back");
    }
    do_step(all, CAST_HOLDER, deed_give, 0, "give it back");
    do_step(all, CAST_NEXT, deed_take, ms, "the next one takes it");
    do_step(all, CAST_NEXT, deed_give, 0, "the next one gives it back");
    do_step(all, CAST_HOLDER, deed_take, ms, "take it anew");
    do_step(all, CAST_HOLDER, deed_give, 0, "give it back again");
}

/* Commands that come for the first time when they are late already. */
static void play_held(struct tapes *all)
{
    unsigned ms = all->cast.testbed->long_ms;

    do_held(all, deed_take, ms, true); /* and what takes it back */
    do_step(all, CAST_HOLDER, deed_take, ms, "take after an unknown end");
    do_held(all, deed_extend, ms / 2, false);
    do_step(all, CAST_HOLDER, deed_extend, ms, "lengthen what was shortened");
    do_held(all, deed_give, 0, false);
    do_step(all, CAST_HOLDER, deed_take, ms, "take before the release");
    do_step(all, CAST_HOLDER, deed_give, 0, "give it back at last");
}

void conform_check_d(struct testbed *testbed)
{
    struct tapes all = {.replayed_n = 0};

    if (testbed->nodes_n == 0)
        testbed_untested(testbed, "what is sent to it cannot be sent again");
    testbed_name(all.name, "d");
    cast_open(&all.cast, testbed, 2, testbed->lease_ms);
    cast_begin(&all.cast, all.name, testbed->long_ms);
    if (cast_give(&all.cast, CAST_HOLDER, all.name) != DLOCK_OK)
        testbed_broken(testbed, "the release of a new name fails");
    for (unsigned k = 0; k < testbed->nodes_n; k++)
        all.tapes[k] = tape_open(node_path(testbed, k));
    play(&all);
    be_renewed(&all);
    play_held(&all);
    testbed_holds(testbed,
                  "%u late commands, each after every later step: none "
                  "has changed anything",
                  all.replayed_n);
}

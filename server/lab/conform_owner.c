/*
 * Whose lock it is. P: who comes late cannot free another's; R: not even if it
 * was stopped in the middle of giving back; N: the owner may come in again, and
 * (N2) for as long as it asks then.
 */
#include "server/lab/conform_check.h"

#include <stdio.h>

#include "server/lab/conform_cast.h"

/* NEXT gets in when HOLDER's lease is over; false: it never is. */
static bool overtake(struct cast *cast, const char *name)
{
    const struct stage *stage = cast->stage;

    return cast_take(cast, CAST_NEXT, name, stage->lease_ms + stage->margin_ms,
                     stage->long_ms) == DLOCK_OK;
}

/* Where nobody comes late, somebody may yet free what he never had. */
static _Noreturn void check_stranger(struct cast *cast, const char *name)
{
    const struct deed_order order = cast_order(deed_give_anyway, name);

    (void)cast_ask(cast, CAST_NEXT, &order);
    if (cast_is_free(cast, CAST_THIRD, name))
        stage_fails(cast->stage, "a stopped holder keeps it, but anybody's "
                                 "release frees it");
    stage_holds(cast->stage, "a stopped holder keeps it; the release of one "
                             "who never had it does nothing");
}

/*
 * WHO is stopped and NEXT did not get in: without a lease that is how it is,
 * with one it is a fault.
 */
static void not_overtaken(struct cast *cast, unsigned who)
{
    if (stage_can(cast->stage, DLOCK_CAP_LEASE))
        stage_fails(cast->stage, "the holder is stopped, and nobody gets in");
    cast_continue(cast, who);
}

void conform_check_p(struct stage *stage)
{
    char name[STAGE_NAME_BYTES_MAX + 1];
    enum dlock_status said;
    struct cast cast;

    stage_name(name, "p");
    cast_open(&cast, stage, 3, stage->lease_ms);
    cast_begin(&cast, name, 0);
    if (stage->together)
        check_stranger(&cast, name);
    cast_stop(&cast, CAST_HOLDER);
    if (!overtake(&cast, name)) {
        not_overtaken(&cast, CAST_HOLDER);
        check_stranger(&cast, name);
    }
    cast_continue(&cast, CAST_HOLDER);
    said = cast_give(&cast, CAST_HOLDER, name);
    if (cast_is_free(&cast, CAST_THIRD, name))
        stage_fails(stage,
                    "a late holder's release (%s) freed the lock of the "
                    "next one",
                    dlock_status_text(said));
    if (cast_give(&cast, CAST_NEXT, name) != DLOCK_OK)
        stage_fails(stage, "the next holder has lost it");
    stage_holds(stage,
                "stopped until another was in, the late release was told: "
                "%s",
                dlock_status_text(said));
}

/* R ------------------------------------------------------------------------ */

enum { CUTS_MAX = 12 };

/* The commands of a release, counted at one without a fault. */
static unsigned rehearse(struct cast *cast)
{
    char name[STAGE_NAME_BYTES_MAX + 1];
    unsigned n, who = cast_add(cast, 1);

    stage_name(name, "r-dry");
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
        stage_broken(cast->stage, "a new name is not free");
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
        stage_fails(cast->stage,
                    "a release was stopped before '%s' (command %u of %u): it "
                    "freed the lock of the next holder",
                    step, at + 1, n);
}

void conform_check_r(struct stage *stage)
{
    char held[STAGE_NAME_BYTES_MAX + 1];
    char names[CUTS_MAX][STAGE_NAME_BYTES_MAX + 1];
    unsigned late[CUTS_MAX], n;
    struct cast cast;

    stage_name(held, "r-begin");
    cast_open(&cast, stage, 3, stage->lease_ms);
    cast_begin(&cast, held, stage->long_ms);
    n = stage->together ? 0 : rehearse(&cast);
    for (unsigned i = 0; i < n; i++) {
        stage_name(names[i], "r");
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
    stage_holds(stage,
                "a release stopped before each of its %u commands "
                "frees nobody else's",
                n);
}

/* N ------------------------------------------------------------------------ */

/* HOLDER, who has NAME already, takes it once more. */
static void take_again(struct cast *cast, const char *name)
{
    enum dlock_status status =
        cast_take(cast, CAST_HOLDER, name, 0, cast->stage->long_ms);

    if (status != DLOCK_OK)
        stage_fails(cast->stage, "the holder's second try: %s",
                    dlock_status_text(status));
}

void conform_check_n(struct stage *stage)
{
    char name[STAGE_NAME_BYTES_MAX + 1];
    struct cast cast;

    stage_name(name, "n");
    cast_open(&cast, stage, 3, stage->long_ms);
    cast_begin(&cast, name, stage->long_ms);
    take_again(&cast, name);
    if (cast_is_free(&cast, CAST_THIRD, name))
        stage_fails(stage, "taken twice, and another is in as well");
    if (cast_give(&cast, CAST_HOLDER, name) != DLOCK_OK ||
        cast_is_free(&cast, CAST_THIRD, name))
        stage_fails(stage, "taken twice, free after one release");
    if (cast_give(&cast, CAST_HOLDER, name) != DLOCK_OK ||
        !cast_is_free(&cast, CAST_THIRD, name))
        stage_fails(stage, "taken twice, not free after two releases");
    stage_holds(stage, "taken twice, free after the second release");
}

/* The inner hold counts like any other: its lease is the lock's now. */
void conform_check_n2(struct stage *stage)
{
    char calm[STAGE_NAME_BYTES_MAX + 1], name[STAGE_NAME_BYTES_MAX + 1];
    struct cast cast;

    stage_name(calm, "n2-begin");
    stage_name(name, "n2");
    cast_open(&cast, stage, 2, stage->long_ms);
    cast_begin(&cast, calm, stage->long_ms);
    if (cast_take(&cast, CAST_HOLDER, name, 0, stage->lease_ms) != DLOCK_OK)
        stage_broken(stage, "a new name is not free");
    take_again(&cast, name);
    if (!stage_can(stage, DLOCK_CAP_LEASE))
        stage_untested(stage, "it has no lease to lengthen");
    if (overtake(&cast, name))
        stage_fails(stage,
                    "re-entered for %u ms, but the lease of the first hold "
                    "(%u ms) ended it",
                    stage->long_ms, stage->lease_ms);
    stage_holds(stage, "taken for %u ms, re-entered for %u ms: still alone",
                stage->lease_ms, stage->long_ms);
}

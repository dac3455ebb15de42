/*
 * When the lock itself is lost. M: a Redis node goes, with all that it knew; S:
 * the lease has ended, nobody told the holder, and the store is the last one
 * who can say no.
 */
#include "server/lab/conform_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/store.h"
#include "server/lab/conform_cast.h"

enum {
    TRIES_MAX = 40, /* M: connections are dead, the first tries may fail */
    TRY_PAUSE_MS = 25,
    STOCK = 10,
    PRODUCT = 1,
};

/* M ------------------------------------------------------------------------ */

/* Tries until there is an answer: OK, BUSY, or none at all. */
static enum dlock_status try_hard(struct cast *cast, unsigned who,
                                  const char *name)
{
    enum dlock_status status = DLOCK_UNREACHABLE;

    for (unsigned i = 0; i < TRIES_MAX; i++) {
        status = cast_take(cast, who, name, 0, cast->stage->long_ms);
        if (status == DLOCK_OK || status == DLOCK_BUSY)
            break;
        stage_sleep_ms(TRY_PAUSE_MS);
    }
    return status;
}

/* One node, which is lost and comes back without its memory. */
static _Noreturn void check_single(struct cast *cast, const char *name)
{
    struct stage *stage = cast->stage;
    enum dlock_status status;

    stage_node_kill(stage, 0);
    stage_node_restart(stage, 0);
    status = try_hard(cast, CAST_NEXT, name);
    if (status == DLOCK_OK)
        stage_fails(stage, "the server was restarted empty while the lock was "
                           "held: two holders");
    if (status != DLOCK_BUSY)
        stage_fails(stage, "the server was restarted, and then: %s",
                    dlock_status_text(status));
    stage_holds(stage, "the server was restarted empty, the lock stayed held");
}

/* One of several: the lock stays whole, and can be had, while it is away. */
static _Noreturn void check_several(struct cast *cast, const char *name)
{
    struct stage *stage = cast->stage;
    enum dlock_status status;

    stage_node_kill(stage, 0);
    if (try_hard(cast, CAST_NEXT, name) == DLOCK_OK)
        stage_fails(stage, "one of %u nodes is gone: two holders",
                    stage->nodes_n);
    (void)cast_give(cast, CAST_HOLDER, name);
    status = try_hard(cast, CAST_NEXT, name);
    if (status != DLOCK_OK)
        stage_fails(stage, "one of %u nodes is gone: nobody gets it (%s)",
                    stage->nodes_n, dlock_status_text(status));
    /* It has forgotten whom it voted for, and must not vote again. */
    stage_node_restart(stage, 0);
    if (try_hard(cast, CAST_THIRD, name) == DLOCK_OK)
        stage_fails(stage, "a node of %u came back empty: two holders",
                    stage->nodes_n);
    stage_holds(stage,
                "one of %u nodes gone and back empty: one holder all "
                "the time",
                stage->nodes_n);
}

void conform_check_m(struct stage *stage)
{
    char name[STAGE_NAME_BYTES_MAX + 1];
    struct cast cast;

    stage_name(name, "m");
    cast_open(&cast, stage, 3, stage->long_ms);
    cast_begin(&cast, name, stage->long_ms);
    if (stage->nodes_n == 0)
        stage_untested(stage, "it has no Redis node to lose");
    if (stage->nodes_n == 1)
        check_single(&cast, name);
    check_several(&cast, name);
}

/* S ------------------------------------------------------------------------ */

/* What an actor keeps open between its deeds. */
struct desk {
    struct store *store;
    struct store_reader *reader;
    struct store_fence fence;
    char name[STAGE_NAME_BYTES_MAX + 1]; /* of the fence */
};

static enum store_status desk_open(const struct stage *stage, struct desk *desk)
{
    char url[sizeof(stage->dir) + 32];
    const struct store_options options = {.url = url, .shared = true};
    struct store_product product = {
        .id = PRODUCT, .name = "lab", .price_cents = 1, .initial = STOCK};
    enum store_status status;
    bool created;

    (void)snprintf(url, sizeof(url), "sqlite:%s/ledger.db", stage->dir);
    status = store_open(&options, &desk->store, NULL);
    if (status == STORE_OK)
        status = store_product_put(desk->store, &product, &created, NULL);
    if (status == STORE_OK)
        status = store_reader_open(desk->store, &desk->reader, NULL);
    return status;
}

/* The begin of a critical section: announce oneself, then read. */
static void deed_read(struct deed_hand *hand, const struct deed_order *order,
                      struct deed_report *report)
{
    struct store_order wanted = {
        .product_id = PRODUCT, .user_id = 1, .quantity = 1};
    struct desk *desk = calloc(1, sizeof(*desk));
    enum store_status status = desk ? desk_open(hand->stage, desk) : STORE_IO;

    hand->own = desk;
    if (status == STORE_OK && hand->grants_n > 0) {
        (void)snprintf(desk->name, sizeof(desk->name), "%s", order->name);
        desk->fence.name = desk->name;
        desk->fence.token = hand->grants[hand->grants_n - 1].token;
        desk->fence.late = stage_can(hand->stage, DLOCK_CAP_FENCED_LATE);
    }
    if (status == STORE_OK && desk->fence.token > 0 && !desk->fence.late)
        status = store_stamp(desk->store, &desk->fence, NULL);
    if (status == STORE_OK)
        status =
            store_naive_select(desk->reader, &wanted, &report->number, NULL);
    report->status = status == STORE_OK ? DLOCK_OK : DLOCK_LOST;
    (void)snprintf(report->text, sizeof(report->text), "%.100s",
                   store_status_text(status));
}

/* Its end: write what was read, less one. The number says which status. */
static void deed_write(struct deed_hand *hand, const struct deed_order *order,
                       struct deed_report *report)
{
    struct desk *desk = hand->own;
    enum store_status status = store_naive_update(
        desk->store, PRODUCT, order->number - 1, &desk->fence, NULL);

    report->number = (int64_t)status;
    (void)snprintf(report->text, sizeof(report->text), "%.100s",
                   store_status_text(status));
}

static int64_t read_stock(struct cast *cast, unsigned who, const char *name)
{
    const struct deed_order order = cast_order(deed_read, name);
    struct deed_report report = cast_ask(cast, who, &order);

    if (report.status != DLOCK_OK)
        stage_broken(cast->stage, "player %u cannot read: %s", who,
                     report.text);
    return report.number;
}

static enum store_status write_stock(struct cast *cast, unsigned who,
                                     int64_t seen)
{
    const struct deed_order order = {.deed = deed_write, .number = seen};

    return (enum store_status)cast_ask(cast, who, &order).number;
}

/* HOLDER reads and is stopped; its lease ends; NEXT is in and has read. */
static int64_t overtake(struct cast *cast, const char *name,
                        int64_t *holder_saw)
{
    const struct stage *stage = cast->stage;

    cast_begin(cast, name, stage->lease_ms);
    *holder_saw = read_stock(cast, CAST_HOLDER, name);
    cast_stop(cast, CAST_HOLDER);
    if (cast_take(cast, CAST_NEXT, name, stage->lease_ms + stage->margin_ms,
                  stage->long_ms) != DLOCK_OK)
        stage_untested(stage, "a stopped holder is not overtaken");
    return read_stock(cast, CAST_NEXT, name);
}

/* LATE_FIRST: the late one writes before or after the other one. */
static void check_late(struct stage *stage, bool late_first)
{
    char name[STAGE_NAME_BYTES_MAX + 1];
    enum store_status late = STORE_OK, next;
    int64_t holder_saw, next_saw;
    struct cast cast;

    stage_name(name, "s");
    /* The clients' own lease is short too: it is what ends a session. */
    cast_open(&cast, stage, 2, stage->lease_ms);
    next_saw = overtake(&cast, name, &holder_saw);
    if (!late_first && write_stock(&cast, CAST_NEXT, next_saw) != STORE_OK)
        stage_fails(stage, "the rightful holder's write was refused");
    cast_continue(&cast, CAST_HOLDER);
    late = write_stock(&cast, CAST_HOLDER, holder_saw);
    next = late_first ? write_stock(&cast, CAST_NEXT, next_saw) : STORE_OK;
    if (late == STORE_OK)
        stage_fails(stage,
                    "the late holder wrote %s the next one: both took "
                    "unit %" PRId64,
                    late_first ? "before" : "after", holder_saw);
    if (late != STORE_STALE_FENCE || next != STORE_OK)
        stage_broken(stage, "late: %s, next: %s", store_status_text(late),
                     store_status_text(next));
    cast_kill(&cast, CAST_HOLDER);
    cast_kill(&cast, CAST_NEXT);
}

void conform_check_s(struct stage *stage)
{
    if (stage->together)
        stage_untested(stage, "it has no lease: nobody is overtaken");
    check_late(stage, false);
    check_late(stage, true);
    stage_holds(stage, "the late holder's write was refused, before and after "
                       "the next one's");
}

/*
 * Orders that hold their units until they are paid. See ledger.h.
 *
 * Payment, cancel and expiry of an order may come at the same moment, here or in
 * another instance. The hold's row decides: whoever deletes it has the order, and
 * does the rest in the same transaction; the others find no row. Nothing else says
 * whether an order is paid, so there are no two rows that could differ:
 *
 *     sold, with a hold        awaits its payment
 *     sold, without one        paid (of an order that has pay_until_ms)
 *     given back               cancelled, or expired if that was at pay_until_ms or later
 *
 * A payment is written down whether it was in time or not: it is money that somebody
 * has paid. But a client that repeats itself with new references fills no table: the
 * order's STORE_LATE_MAX late ones stay, and those that follow hear that they are not
 * written down.
 */
#include "db/ledger/ledger.h"

#include <assert.h>
#include <string.h>

void holds_promise(struct sql *db, int64_t pay_within_s, int64_t *clock_ms,
                   struct store_order *order)
{
    if (*clock_ms == 0)
        sql_clock(db, clock_ms);
    order->pay_until_ms = *clock_ms + 1000 * pay_within_s;
    order->state = STORE_AWAITING;
}

/* The marks that are left over are 0, the number of no order. Rows of other orders may
 * stand between these: on a cluster each node counts in steps of its own. */
enum store_status holds_insert(struct sql *db, const int64_t numbers[],
                               size_t n)
{
    static_assert(PLACE_ROWS_MAX == 64, "as many marks");
    /* One text for any number of orders: each text is a statement that the
     * connection keeps. */
    int64_t values[PLACE_ROWS_MAX] = {0};
    struct sql_query *query;

    memcpy(values, numbers, n * sizeof(values[0]));
    query = sql_query(db, "INSERT INTO holds (number, pay_until_ms, quantity) "
                          "SELECT number, pay_until_ms, quantity FROM orders "
                          "WHERE number IN (" SQL_MARKS_64
                          ") AND pay_until_ms > 0");
    sql_bind_ints(query, 1, values, PLACE_ROWS_MAX);
    return sql_finish(query);
}

/* Before its time, or OVERDUE: at one moment NOW only one of the two is possible. True:
 * this transaction has done it. */
static bool delete_hold(struct sql *db, int64_t number, int64_t now,
                        bool overdue)
{
    sql_run(db,
            "DELETE FROM holds WHERE number = ?1 AND (pay_until_ms <= ?2) = ?3",
            number, now, overdue);
    return db->changed > 0;
}

/* Unless it is not overdue, or another one was first. */
static void expire(struct sql *db, struct store_write *write,
                   struct store_order *order, int64_t now)
{
    /* The hold goes first: of two transactions that expire the order, only one
     * finds it. */
    write->expired += delete_hold(db, order->number, now, true) &&
                      orders_give_back(db, order, now);
}

/* It is not enough to say that an order is overdue: the clock may be set back, and the
 * next one would be in time. */
bool holds_end(struct sql *db, struct store_write *write,
               struct store_order *order, int64_t now)
{
    bool ended = delete_hold(db, order->number, now, false);

    if (!ended)
        expire(db, write, order, now);
    return ended;
}

enum store_status holds_winner(const struct store_order *order)
{
    if (order->state == STORE_CANCELLED)
        return STORE_ORDER_CANCELLED;
    return order->state == STORE_PLACED || order->state == STORE_PAID
               ? STORE_ALREADY_PAID
               : STORE_ORDER_EXPIRED;
}

/* ---- paying --------------------------------------------------------------- */

/* The order is read after its payment's record, because the payment may be another
 * instance's of this moment; and again when the hold is ended or gone: what it says then
 * is what came first, and stays. */
enum store_status holds_pay(struct sql *db, struct store_write *write)
{
    struct store_pay *pay = (struct store_pay *)write;
    struct store_order *order = &pay->order;
    int64_t number = 0, accepted = 0, now = 0; /* number 0: no record */
    struct sql_query *query;
    bool full = false;

    if (pay->payment[0] == '\0' ||
        !memchr(pay->payment, '\0', sizeof(pay->payment)))
        return sql_fail(db, STORE_RANGE, "a payment has 1 to %d bytes",
                        STORE_PAYMENT_BYTES_MAX);
    /* The record of this payment comes first: if there is one, all was decided
     * then, and is only told again. */
    query = sql_query(db, "SELECT number, accepted FROM payments "
                          "WHERE reference = ?1");
    sql_first(sql_bind_text(query, 1, pay->payment), &number, &accepted);
    if (orders_get(db, pay->id, order) != STORE_OK)
        return db->status;
    pay->replayed = number != 0;
    if (pay->replayed && number != order->number)
        return sql_fail(db, STORE_PAYMENT_REUSED,
                        "the payment belongs to another order");
    if (!pay->replayed) {
        sql_clock(db, &now);
        accepted = holds_end(db, write, order, now);
        /* A payment in time is always written down; the bound is for late ones. */
        full = !accepted && order->late >= STORE_LATE_MAX;
        if (!full) {
            query = sql_query(db,
                              "INSERT INTO payments (number, accepted, "
                              "created_ms, reference) "
                              "VALUES (?1, NULLIF(?2, 0), ?3, ?4)",
                              order->number, accepted, now);
            sql_finish(sql_bind_text(query, 4, pay->payment));
        }
        if (orders_get(db, pay->id, order) != STORE_OK)
            return db->status;
    }
    if (full)
        write->no = STORE_PAYMENTS_FULL;
    else if (!accepted)
        write->no = holds_winner(order);
    return STORE_OK;
}

/* ---- expiring ------------------------------------------------------------- */

/* The longest overdue first, read as far as giving back needs them. */
enum store_status holds_expire(struct sql *db, struct store_write *write)
{
    struct store_order due[HOLDS_EXPIRE_MAX];
    struct sql_query *query;
    int64_t now = 0;
    size_t n = 0;

    sql_clock(db, &now);
    query = sql_query(
        db,
        "SELECT number, product_id, segment, user_id, quantity, pay_until_ms "
        "FROM (SELECT number AS due FROM holds WHERE pay_until_ms <= ?1 "
        "ORDER BY pay_until_ms LIMIT ?2) AS d JOIN orders ON number = due",
        now, HOLDS_EXPIRE_MAX);
    for (; n < HOLDS_EXPIRE_MAX && sql_next(query); n++) {
        due[n] = (struct store_order){0};
        sql_row(query, &due[n].number, &due[n].product_id, &due[n].segment,
                &due[n].user_id, &due[n].quantity, &due[n].pay_until_ms);
    }
    sql_end(query);
    /* The SELECT has ended: open, it might skip a row, or see one that is
     * deleted here. */
    for (size_t i = 0; i < n; i++)
        expire(db, write, &due[i], now);
    return db->status;
}

/* Nobody has asked for it, so that nobody should have to wait for it: in a transaction
 * that only reads, and only if that can be at once. */
enum store_status holds_next(struct sql *db, int64_t *in_ms)
{
    int64_t next = 0, now = 0;

    db->hasty = true;
    sql_begin_reading(db);
    sql_first(sql_query(db, "SELECT MIN(pay_until_ms) FROM holds"), &next);
    /* The clock costs a server one more question, and is read only if there is
     * a hold. */
    if (next > 0)
        sql_clock(db, &now);
    sql_rollback(db);
    db->hasty = false;
    if (db->status == STORE_OK)
        *in_ms = next > 0 ? next - now : INT64_MAX;
    return sql_clear(db);
}

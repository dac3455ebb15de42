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

enum store_status holds_promise(struct sql *db, int64_t pay_within_s,
                                int64_t *clock_ms, struct store_order *order)
{
    enum store_status status = STORE_OK;

    if (*clock_ms == 0)
        status = sql_clock(db, clock_ms);
    order->pay_until_ms = *clock_ms + 1000 * pay_within_s;
    order->state = STORE_AWAITING;
    return status;
}

/* The marks that are left over are 0, the number of no order. Rows of other orders may
 * stand between these: on a cluster each node counts in steps of its own. */
enum store_status holds_insert(struct sql *db, const int64_t numbers[],
                               size_t n)
{
    static_assert(PLACE_ROWS_MAX == 64, "as many marks");
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

/* Before its time, or OVERDUE: at one moment NOW only one of the two is possible. */
static enum store_status delete_hold(struct sql *db, int64_t number,
                                     int64_t now, bool overdue, bool *deleted)
{
    enum store_status status = sql_run(
        db, "DELETE FROM holds WHERE number = ?1 AND (pay_until_ms <= ?2) = ?3",
        number, now, overdue);

    *deleted = status == STORE_OK && db->changed > 0;
    return status;
}

/* Unless it is not overdue, or another one was first. */
static enum store_status expire(struct sql *db, struct store_write *write,
                                struct store_order *order, int64_t now)
{
    enum store_status status;
    bool mine;

    status = delete_hold(db, order->number, now, true, &mine);
    if (status == STORE_OK && mine)
        status = orders_give_back(db, order, now, &mine);
    write->expired += status == STORE_OK && mine;
    return status;
}

/* It is not enough to say that an order is overdue: the clock may be set back, and the
 * next one would be in time. */
enum store_status holds_end(struct sql *db, struct store_write *write,
                            struct store_order *order, int64_t now, bool *ended)
{
    enum store_status status =
        delete_hold(db, order->number, now, false, ended);

    if (status == STORE_OK && !*ended)
        status = expire(db, write, order, now);
    return status;
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

/* The payment's record: *number is its order's, 0 = there is none. */
static enum store_status find_payment(struct sql *db, const char *payment,
                                      int64_t *number, int64_t *accepted)
{
    *number = *accepted = 0;
    return sql_first(
        sql_bind_text(sql_query(db, "SELECT number, accepted FROM payments "
                                    "WHERE reference = ?1"),
                      1, payment),
        number, accepted);
}

static enum store_status insert_payment(struct sql *db, const char *payment,
                                        int64_t number, bool accepted,
                                        int64_t now)
{
    return sql_finish(sql_bind_text(
        sql_query(db,
                  "INSERT INTO payments (number, accepted, created_ms, "
                  "reference) VALUES (?1, NULLIF(?2, 0), ?3, ?4)",
                  number, accepted, now),
        4, payment));
}

/* The order is read after its payment's record, because the payment may be another
 * instance's of this moment; and again when the hold is ended or gone: what it says then
 * is what came first, and stays. */
enum store_status holds_pay(struct sql *db, struct store_write *write)
{
    struct store_pay *pay = (struct store_pay *)write;
    struct store_order *order = &pay->order;
    int64_t number, accepted, now;
    enum store_status status;
    bool ended = false, full = false;

    if (pay->payment[0] == '\0' ||
        !memchr(pay->payment, '\0', sizeof(pay->payment)))
        return sql_fail(db, STORE_RANGE, "a payment has 1 to %d bytes",
                        STORE_PAYMENT_BYTES_MAX);
    status = find_payment(db, pay->payment, &number, &accepted);
    if (status == STORE_OK)
        status = orders_get(db, pay->id, order);
    if (status != STORE_OK)
        return status;
    pay->replayed = number != 0;
    if (pay->replayed && number != order->number)
        return sql_fail(db, STORE_PAYMENT_REUSED,
                        "the payment belongs to another order");
    if (!pay->replayed) {
        status = sql_clock(db, &now);
        if (status == STORE_OK)
            status = holds_end(db, write, order, now, &ended);
        full = status == STORE_OK && !ended && order->late >= STORE_LATE_MAX;
        if (status == STORE_OK && !full)
            status =
                insert_payment(db, pay->payment, order->number, ended, now);
        if (status == STORE_OK)
            status = orders_get(db, pay->id, order);
        if (status != STORE_OK)
            return status;
        accepted = ended;
    }
    if (full)
        write->no = STORE_PAYMENTS_FULL;
    else if (!accepted)
        write->no = holds_winner(order);
    return STORE_OK;
}

/* ---- expiring ------------------------------------------------------------- */

/* The overdue ones, the longest overdue first, as far as giving back needs them. */
static enum store_status find_due(struct sql *db, int64_t now,
                                  struct store_order due[], size_t *n)
{
    struct sql_query *query = sql_query(
        db,
        "SELECT number, product_id, segment, user_id, quantity, pay_until_ms "
        "FROM (SELECT number AS due FROM holds WHERE pay_until_ms <= ?1 "
        "ORDER BY pay_until_ms LIMIT ?2) AS d JOIN orders ON number = due",
        now, HOLDS_EXPIRE_MAX);

    for (*n = 0; *n < HOLDS_EXPIRE_MAX && sql_next(query); ++*n)
        due[*n] = (struct store_order){.number = sql_int(query, 0),
                                       .product_id = sql_int(query, 1),
                                       .segment = sql_int(query, 2),
                                       .user_id = sql_int(query, 3),
                                       .quantity = sql_int(query, 4),
                                       .pay_until_ms = sql_int(query, 5)};
    return sql_end(query);
}

enum store_status holds_expire(struct sql *db, struct store_write *write)
{
    struct store_order due[HOLDS_EXPIRE_MAX];
    enum store_status status;
    size_t n = 0;
    int64_t now;

    status = sql_clock(db, &now);
    if (status == STORE_OK)
        status = find_due(db, now, due, &n);
    for (size_t i = 0; i < n && status == STORE_OK; i++)
        status = expire(db, write, &due[i], now);
    return status;
}

/* Nobody has asked for it, so that nobody should have to wait for it: in a transaction
 * that only reads, and only if that can be at once. */
enum store_status holds_next(struct sql *db, int64_t *in_ms)
{
    int64_t next = 0, now = 0;
    enum store_status status;

    db->hasty = true;
    status = sql_begin_reading(db);
    if (status == STORE_OK)
        status = sql_first(sql_query(db, "SELECT MIN(pay_until_ms) FROM holds"),
                           &next);
    if (status == STORE_OK && next > 0)
        status = sql_clock(db, &now);
    (void)sql_rollback(db);
    db->hasty = false;
    if (status == STORE_OK)
        *in_ms = next > 0 ? next - now : INT64_MAX;
    return status;
}

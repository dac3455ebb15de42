/*
 * The orders table, public order ids, and what each user has bought. See
 * ledger.h.
 *
 * An order is a small state machine, sold -> given back, and every move is a
 * compare-and-set: "UPDATE ... WHERE state = <from>" and a look at how many
 * rows changed. Two cancels at once: one changes a row and returns the units, the
 * other changes none and only reports what it finds. An order that is to be paid has
 * more states, by its hold: see holds.c.
 */
#include "db/ledger/ledger.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* One list for every SELECT, in the order in which read_row takes them. */
#define ORDERS_COLUMNS                                                         \
    "number, secret, product_id, segment, user_id, quantity, price_cents, "    \
    "created_ms, cancelled_ms, pay_until_ms, fence, state, "                   \
    "CASE WHEN pay_until_ms > 0 THEN (SELECT COUNT(*) FROM holds "             \
    "WHERE holds.number = orders.number) ELSE 0 END, "                         \
    "(SELECT p.created_ms" PAYMENTS "accepted = 1), "                          \
    "(SELECT COUNT(*)" PAYMENTS "accepted IS NULL), `key`, "                   \
    "(SELECT reference" PAYMENTS "accepted = 1), "                             \
    "(SELECT reference" PAYMENTS "accepted IS NULL "                           \
    "ORDER BY p.created_ms DESC, reference LIMIT 1)"
#define PAYMENTS " FROM payments AS p WHERE p.number = orders.number AND "

/* ---- public ids --------------------------------------------------------- */

/* NUMBER-SECRET, "17-9f86d081884c7d65". The number finds the row without an index of
 * its own; the 64 random bits behind it keep a buyer from guessing the neighbour's
 * order. Written by hand: snprintf() takes five times as long. */
static void format_id(int64_t number, int64_t secret,
                      char id[STORE_ID_BYTES_MAX + 1])
{
    char text[STORE_ID_BYTES_MAX + 1] = "", *at = text + STORE_ID_BYTES_MAX;
    uint64_t bits = (uint64_t)secret;

    for (int i = 0; i < 16; i++, bits /= 16)
        *--at = "0123456789abcdef"[bits % 16];
    *--at = '-';
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    (void)stpcpy(id, at);
}

/* ---- an order ----------------------------------------------------------- */

bool orders_reset(struct store_order *order)
{
    const size_t asked = offsetof(struct store_order, id);
    bool valid = in_range(order->product_id, 1) &&
                 in_range(order->user_id, 1) && in_range(order->quantity, 1) &&
                 order->segment >= 0 && order->segment < STORE_SEGMENTS_MAX &&
                 memchr(order->key, '\0', sizeof(order->key)) != NULL;

    /* All from `id` on is the store's answer: an order that is tried again must
     * not carry that of its last try. */
    memset((char *)order + asked, 0, sizeof(*order) - asked);
    order->status = valid ? STORE_OK : STORE_RANGE;
    return valid;
}

/* An order that was given back at pay_until_ms or later has expired: see holds_end(). */
static enum store_order_state state_of(const struct store_order *order,
                                       bool given_back, bool held)
{
    bool to_pay = order->pay_until_ms > 0;

    if (given_back)
        return to_pay && order->cancelled_ms >= order->pay_until_ms
                   ? STORE_EXPIRED
                   : STORE_CANCELLED;
    if (!to_pay)
        return STORE_PLACED;
    return held ? STORE_AWAITING : STORE_PAID;
}

static void read_row(struct sql_query *query, struct store_order *order)
{
    int64_t secret, fence, state, held;

    memset(order, 0, sizeof(*order));
    sql_row(query, &order->number, &secret, &order->product_id, &order->segment,
            &order->user_id, &order->quantity, &order->price_cents,
            &order->created_ms, &order->cancelled_ms, &order->pay_until_ms,
            &fence, &state, &held, &order->paid_ms, &order->late);
    order->fence = (uint64_t)fence;
    order->state = state_of(order, state, held);
    sql_text(query, 15, order->key, sizeof(order->key));
    sql_text(query, 16, order->payment, sizeof(order->payment));
    sql_text(query, 17, order->late_payment, sizeof(order->late_payment));
    order->status = STORE_OK;
    format_id(order->number, secret, order->id);
}

/* Ends QUERY, whose first row is the order. False: there is none. */
static bool read_one(struct sql_query *query, struct store_order *order)
{
    bool found = sql_next(query);

    if (found)
        read_row(query, order);
    return sql_end(query) == STORE_OK && found;
}

/* Pages go by number and not by offset: what is ordered meanwhile comes last, but for
 * MariaDB, where a number may be given before lower ones are committed. */
enum store_status
store_order_list(struct store_reader *reader, int64_t after, size_t n,
                 void (*on_order)(void *ctx, const struct store_order *order),
                 void *ctx, struct store_error *error)
{
    struct store_order order;
    struct sql_query *query =
        sql_query(reader->db,
                  "SELECT " ORDERS_COLUMNS " FROM orders WHERE number > ?1 "
                  "ORDER BY number LIMIT ?2",
                  after, (int64_t)n);

    while (sql_next(query)) {
        read_row(query, &order);
        on_order(ctx, &order);
    }
    sql_end(query);
    return read_end(reader, error);
}

/* False: no order has the key. The index alone answers for a new one; the whole row, with
 * what was paid, costs SQLite more to get ready than to find. */
static bool find_key(struct sql *db, const char *key, struct store_order *order)
{
    const struct filter *filter = db->options.filter;
    uint64_t hash = filter_key(filter, key);
    struct filter_span span;
    struct sql_query *query;
    int64_t number = 0;
    bool more = filter_first(db, hash, &span);

    /* The newest buckets come first, since a client repeats what it has just
     * sent. */
    for (; more; more = number == 0 && filter_next(filter, hash, &span)) {
        query =
            sql_query(db, db->engine->words.find_key, span.oldest, span.newest);
        sql_first(sql_bind_text(query, 3, key), &number);
    }
    return number > 0 && read_one(sql_query(db,
                                            "SELECT " ORDERS_COLUMNS
                                            " FROM orders WHERE number = ?1",
                                            number),
                                  order);
}

enum store_status store_order_by_key(struct store_reader *reader,
                                     const char *key, struct store_order *order,
                                     struct store_error *error)
{
    if (!find_key(reader->db, key, order))
        sql_fail(reader->db, STORE_NO_ORDER, "no order has this key");
    return read_end(reader, error);
}

bool orders_replay(struct sql *db, struct store_order *order)
{
    struct store_order found;

    if (order->key[0] == '\0' || !find_key(db, order->key, &found))
        return false;
    /* The key is the client's word that this is the same request; if it asks
     * for something else, one of the two would get a wrong answer. */
    if (found.product_id == order->product_id &&
        found.user_id == order->user_id && found.quantity == order->quantity) {
        *order = found;
        order->replayed = true;
    } else {
        order->status = STORE_KEY_REUSED;
    }
    return true;
}

/* Exactly one text stands for each id, but sscanf is lenient (spaces, signs, capitals, a
 * tail): so the id is written again, and compared. The secret is compared as one machine
 * word, which takes the same time wherever it differs. */
enum store_status orders_get(struct sql *db, const char *id,
                             struct store_order *order)
{
    char again[STORE_ID_BYTES_MAX + 1];
    int64_t number = 0, secret;
    uint64_t bits = 0;

    /* The widths keep both numbers from overflowing: 18 digits fit into an
     * int64_t. */
    (void)sscanf(id, "%18" SCNd64 "-%16" SCNx64, &number, &bits);
    secret = (int64_t)bits;
    format_id(number, secret, again);
    if (number < 1 || strcmp(id, again) != 0)
        return sql_fail(db, STORE_NO_ORDER, "this is no order id");
    if (!read_one(sql_query(db,
                            "SELECT " ORDERS_COLUMNS
                            " FROM orders WHERE number = ?1 AND secret = ?2",
                            number, secret),
                  order))
        sql_fail(db, STORE_NO_ORDER, "no order has this id");
    return db->status;
}

enum store_status store_order_get(struct store_reader *reader, const char *id,
                                  struct store_order *order,
                                  struct store_error *error)
{
    orders_get(reader->db, id, order);
    return read_end(reader, error);
}

/* ---- writing ------------------------------------------------------------ */

/* Opening a table, and the one that a foreign key looks into, costs SQLite as much as a
 * quarter of a row, and a server a round trip: all rows go with one statement. The
 * texts are made once: a statement is known by its text's address. */
#define MANY PLACE_ROWS_MAX
#define INSERT                                                                 \
    "INSERT INTO orders (number, product_id, price_cents, limit_per_user, "    \
    "created_ms, secret, segment, user_id, quantity, fence, pay_until_ms, "    \
    "`key`, state, cancelled_ms) VALUES "
#define ROW       ", (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)"
#define ROW_BINDS 12

static char inserts[MANY + 1][sizeof(INSERT) + sizeof(SQL_TELL_NUMBERS) +
                              MANY * sizeof(ROW)]; /* of so many rows */
static pthread_once_t inserts_made = PTHREAD_ONCE_INIT;

static void make_inserts(void)
{
    char *end;

    for (size_t n = 1; n <= MANY; n++) {
        end = stpcpy(inserts[n], INSERT);
        for (size_t i = 0; i < n; i++)
            end = stpcpy(end, &ROW[i == 0 ? 2 : 0]);
        (void)stpcpy(end, SQL_TELL_NUMBERS);
    }
}

/* The secrets are drawn together, because a call for each would cost as much as its row.
 * The kernel gives up to 256 bytes whole, and no signal interrupts it in that. */
static bool draw_secrets(struct store_order *const orders[], size_t n)
{
    int64_t secrets[32];
    size_t size;

    for (size_t i = 0; i < n; i++) {
        size = 8 * (n - i < 32 ? n - i : 32);
        if (i % 32 == 0 && getrandom(secrets, size, 0) != (ssize_t)size)
            return false;
        orders[i]->secret = secrets[i % 32];
    }
    return true;
}

enum store_status orders_insert(struct sql *db,
                                struct store_order *const orders[], size_t n,
                                struct place_proof *proof)
{
    struct sql_query *query;
    struct store_order *order;
    int64_t numbers[MANY];
    bool held = false;
    size_t told = 0;
    int at = 1;

    assert(n >= 1 && n <= MANY);
    if (!draw_secrets(orders, n))
        return sql_fail(db, STORE_IO, "the kernel gives no randomness");
    pthread_once(&inserts_made, make_inserts);
    query = sql_query(db, inserts[n]);
    for (size_t i = 0; i < n; i++, at += ROW_BINDS) {
        order = orders[i];
        const int64_t values[] = {
            order->number,         order->product_id,  order->price_cents,
            order->limit_per_user, order->created_ms,  order->secret,
            order->segment,        order->user_id,     order->quantity,
            (int64_t)order->fence, order->pay_until_ms};
        sql_bind_ints(query, at, values, ROW_BINDS - 1);
        sql_bind_text(query, at + ROW_BINDS - 1, order->key);
        held |= order->pay_until_ms > 0;
    }
    /* A server tells the numbers that it gave; SQLite tells none, and keeps
     * those of filter_sold(). */
    while (told < n && sql_next(query))
        orders[told++]->number = sql_int(query, 0);
    sql_end(query);
    for (size_t i = 0; i < n && db->status == STORE_OK; i++) {
        order = orders[i];
        numbers[i] = order->number;
        if (order->number == 0)
            return sql_fail(db, STORE_IO, "an INSERT told too few numbers");
        format_id(order->number, order->secret, order->id);
    }
    if (db->status != STORE_OK)
        return db->status;
    /* The last number is the highest: if its row is there, the transaction's
     * others are. */
    *proof =
        (struct place_proof){numbers[n - 1], orders[n - 1]->secret, db->server};
    /* The holds come last, because their rows are read from those of the
     * orders. */
    return held ? holds_insert(db, numbers, n) : STORE_OK;
}

bool orders_find(struct sql *db, const struct place_proof *proof)
{
    int64_t n = 0;

    sql_first(sql_query(db,
                        "SELECT COUNT(*) FROM orders WHERE number = ?1 "
                        "AND secret = ?2 " SQL_FOR_UPDATE,
                        proof->number, proof->secret),
              &n);
    return n > 0;
}

/* ---- units per user ----------------------------------------------------- */

static uint64_t hash_of_user(const struct sql *db,
                             const struct store_order *order)
{
    return filter_user(db->options.filter, order->product_id, order->user_id);
}

/* A row says what its user has bought in all, and the newest one counts. */
int64_t purchases_read(struct sql *db, const struct store_order *order)
{
    uint64_t hash = hash_of_user(db, order);
    struct filter_span span;
    int64_t units = -1;
    bool more = filter_first(db, hash, &span);

    for (; more;
         more = units < 0 && filter_next(db->options.filter, hash, &span))
        sql_first(sql_query(db, db->engine->words.bought, span.oldest,
                            span.newest, order->product_id, order->user_id),
                  &units);
    return units > 0 ? units : 0;
}

/* On a server the row's own condition is enough, and spares a round trip. */
bool purchases_take(struct sql *db, const struct store_order *order,
                    int64_t limit)
{
    int64_t bought = db->engine->far ? 0 : purchases_read(db, order);

    /* The difference is taken, since a sum of both may overflow; a limit that
     * was lowered may leave less than 0. */
    if (order->quantity > limit - bought)
        return false;
    /* The condition is in the statement too: on a server another instance may
     * have bought for the same user since. */
    sql_run(db, db->engine->words.buy_units, db->options.filter->next,
            order->product_id, order->user_id, order->quantity, limit, bought);
    return db->changed > 0;
}

/* A user's units are not counted while the product has no limit. */
static void purchases_give(struct sql *db, const struct store_order *order)
{
    uint64_t hash = hash_of_user(db, order);
    struct filter_span span;
    int64_t counted = 1; /* a server's word asks by itself */
    bool more;

    if (!db->engine->far)
        sql_first(sql_query(db,
                            "SELECT limit_per_user > 0 AND counted "
                            "FROM products WHERE id = ?1",
                            order->product_id),
                  &counted);
    /* The newest row counts, and the first bucket that has one ends the search. */
    for (more = counted && filter_first(db, hash, &span); more;
         more =
             db->changed == 0 && filter_next(db->options.filter, hash, &span))
        sql_run(db, db->engine->words.give_units, span.oldest, span.newest,
                order->product_id, order->user_id, order->quantity);
}

/* The segments are written before the orders are counted: a sale, or a cancel, either
 * was committed by then or waits for this transaction, or conflicts with it. */
enum store_status purchases_count(struct sql *db, int64_t product_id)
{
    sql_run(db, "UPDATE products SET counted = 1 WHERE id = ?1 AND counted = 0",
            product_id);
    /* Another transaction was first, and has counted. */
    if (db->changed == 0)
        return db->status;
    segments_raise_terms(db, product_id);
    /* Left over from an earlier limit, and out of date since. */
    sql_run(db, "DELETE FROM purchases WHERE product_id = ?1", product_id);
    return sql_run(db, db->engine->words.count_units, product_id);
}

/* ---- an order's end -------------------------------------------------------- */

bool orders_give_back(struct sql *db, struct store_order *order, int64_t now)
{
    sql_run(db,
            "UPDATE orders SET state = 1, cancelled_ms = ?2 "
            "WHERE number = ?1 AND state = 0",
            order->number, now);
    /* The order was given back before: its units must not come back twice. */
    if (db->changed == 0)
        return false;
    order->cancelled_ms = now;
    order->state = state_of(order, true, false);
    segments_give_back(db, order->product_id, order->segment, order->quantity);
    purchases_give(db, order);
    return db->status == STORE_OK;
}

/* If the hold was not there to be ended, or the units are given back already, the order
 * is read once more: only now it says what another transaction has made of it. */
enum store_status orders_cancel(struct sql *db, struct store_write *write)
{
    struct store_cancel *cancel = (struct store_cancel *)write;
    struct store_order *order = &cancel->order;
    int64_t now = now_ms();

    if (orders_get(db, cancel->id, order) != STORE_OK)
        return db->status;
    /* An order that is to be paid may be paid, or expire, at this moment: its
     * hold decides, and the clock that all instances share. */
    if (order->pay_until_ms > 0) {
        sql_clock(db, &now);
        /* A hold that was there is ended by this cancel, and the units go back
         * below. */
        if (!holds_end(db, write, order, now) &&
            orders_get(db, cancel->id, order) == STORE_OK &&
            order->state != STORE_CANCELLED) {
            write->no = holds_winner(order);
            return STORE_OK;
        }
    }
    /* The order was given back before: the answer is how it is since then, the
     * same for every cancel that repeats it. */
    if (!orders_give_back(db, order, now)) {
        orders_get(db, cancel->id, order);
        order->replayed = true;
    }
    return db->status;
}

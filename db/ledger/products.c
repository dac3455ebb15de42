/*
 * Products. See ledger.h.
 *
 * Stock never changes by overwriting. A product is put with its first units and
 * after that only a restock adds some, in a ledger of its own: so the audit can
 * say what every segment must have had, and two admins who save a form at once
 * cannot undo each other's units, nor a sale's.
 */
#include "db/ledger/ledger.h"

#include <inttypes.h>
#include <string.h>

#define PRODUCTS_SELECT                                                        \
    "SELECT id, name, price_cents, limit_per_user, opens_ms, ends_ms, "        \
    "segments, epoch, "                                                        \
    "(SELECT SUM(initial) FROM segments WHERE product_id = id), "              \
    "(SELECT SUM(stock) FROM segments WHERE product_id = id), pay_within_s "   \
    "FROM products "

static void read_row(const struct sql_query *query,
                     struct store_product *product)
{
    memset(product, 0, sizeof(*product));
    product->id = sql_int(query, 0);
    sql_text(query, 1, product->name, sizeof(product->name));
    product->price_cents = sql_int(query, 2);
    product->limit_per_user = sql_int(query, 3);
    product->opens_ms = sql_int(query, 4);
    product->ends_ms = sql_int(query, 5);
    product->segments = sql_int(query, 6);
    product->epoch = sql_int(query, 7);
    product->initial = sql_int(query, 8);
    product->stock = sql_int(query, 9);
    product->pay_within_s = sql_int(query, 10);
}

enum store_status products_none(struct sql *db, int64_t id)
{
    return sql_fail(db, STORE_NO_PRODUCT, "there is no product %" PRId64, id);
}

enum store_status products_get(struct sql *db, int64_t id,
                               struct store_product *product)
{
    struct sql_query *query =
        sql_query(db, PRODUCTS_SELECT "WHERE id = ?1", id);
    bool found = sql_next(query);
    enum store_status status;

    if (found)
        read_row(query, product);
    status = sql_end(query);
    return status == STORE_OK && !found ? products_none(db, id) : status;
}

/* The sums must be read by a statement of their own, because one that waits for the
 * row may see the segments as they were before it waited. */
enum store_status products_lock(struct sql *db, int64_t id,
                                struct store_product *product)
{
    enum store_status status = sql_run(
        db, "SELECT id FROM products WHERE id = ?1 " SQL_FOR_UPDATE, id);

    return status == STORE_OK ? products_get(db, id, product) : status;
}

enum store_status store_product_list(struct store_reader *reader, int64_t after,
                                     size_t n, struct store_product products[],
                                     size_t *n_found, struct store_error *error)
{
    struct sql_query *query = sql_query(
        reader->db, PRODUCTS_SELECT "WHERE id > ?1 ORDER BY id LIMIT ?2", after,
        (int64_t)n);

    *n_found = 0;
    while (*n_found < n && sql_next(query))
        read_row(query, &products[(*n_found)++]);
    return read_end(reader, sql_end(query), error);
}

enum store_status products_window(int64_t opens_ms, int64_t ends_ms,
                                  int64_t at_ms)
{
    if (at_ms < opens_ms)
        return STORE_NOT_OPEN;
    if (ends_ms != 0 && at_ms >= ends_ms)
        return STORE_ENDED;
    return STORE_OK;
}

/* The numbers of a product that a change may give. One that nobody gives is the least. */
#define AT(member) offsetof(struct store_product, member)
static const struct number {
    unsigned given; /* enum store_given */
    size_t at;
    int64_t least, most;
} numbers[] = {
    {STORE_GIVEN_PRICE, AT(price_cents), 0, STORE_NUMBER_MAX},
    {STORE_GIVEN_LIMIT, AT(limit_per_user), 0, STORE_NUMBER_MAX},
    {STORE_GIVEN_OPENS, AT(opens_ms), 0, STORE_NUMBER_MAX},
    {STORE_GIVEN_ENDS, AT(ends_ms), 0, STORE_NUMBER_MAX},
    {STORE_GIVEN_STOCK, AT(initial), 0, STORE_NUMBER_MAX},
    {STORE_GIVEN_SEGMENTS, AT(segments), 1, STORE_SEGMENTS_MAX},
    {STORE_GIVEN_PAY, AT(pay_within_s), 0, STORE_PAY_WITHIN_S_MAX},
};
#undef AT

static int64_t *number_of(struct store_product *product,
                          const struct number *number)
{
    return (int64_t *)(void *)((char *)product + number->at);
}

static enum store_status create(struct sql *db,
                                const struct store_product *product)
{
    struct sql_query *query;
    enum store_status status;

    query = sql_query(
        db,
        "INSERT INTO products (id, price_cents, limit_per_user, opens_ms, "
        "ends_ms, first_units, segments, created_ms, pay_within_s, name) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        product->id, product->price_cents, product->limit_per_user,
        product->opens_ms, product->ends_ms, product->initial,
        product->segments, now_ms(), product->pay_within_s);
    sql_bind_text(query, 10, product->name);
    status = sql_finish(query);
    if (status != STORE_OK)
        return status;
    return segments_deal(db, product->id, product->segments, product->initial,
                         NULL);
}

/*
 * With other segments the epoch rises even if no unit has to move. What was
 * ordered before there is a limit is counted by the next sale: to count takes
 * long, and in a cluster other sales would always come first.
 */
static enum store_status update(struct sql *db,
                                const struct store_product *product,
                                const struct store_product *old)
{
    bool resized = product->segments != old->segments;
    struct sql_query *query;
    enum store_status status;

    if (product->initial != old->initial)
        return sql_fail(db, STORE_STOCK_FIXED,
                        "product %" PRId64 " has had %" PRId64
                        " units: add to them by a restock",
                        old->id, old->initial);
    query = sql_query(
        db,
        "UPDATE products SET price_cents = ?2, limit_per_user = ?3, "
        "opens_ms = ?4, ends_ms = ?5, segments = ?6, epoch = epoch + ?7, "
        "counted = counted AND ?8, pay_within_s = ?9, name = ?10 WHERE id = ?1",
        product->id, product->price_cents, product->limit_per_user,
        product->opens_ms, product->ends_ms, product->segments, resized,
        old->limit_per_user > 0 || product->limit_per_user == 0,
        product->pay_within_s);
    sql_bind_text(query, 10, product->name);
    status = sql_finish(query);
    if (status == STORE_OK)
        status = segments_raise_terms(db, product->id);
    if (status == STORE_OK && resized)
        status = segments_deal(db, product->id, product->segments, 0, NULL);
    return status;
}

/* A put must name each field, but for the stock, that the product has set. */
enum store_status products_change(struct sql *db, struct store_write *write)
{
    struct store_change *change = (struct store_change *)write;
    struct store_product old, product;
    const struct number *number = numbers,
                        *end = numbers + sizeof(numbers) / sizeof(*numbers);
    unsigned needed = STORE_GIVEN_NAME | STORE_GIVEN_STOCK;
    enum store_status status;
    bool found, valid = in_range(change->product.id, 1);

    status = products_lock(db, change->product.id, &old);
    found = status == STORE_OK;
    if (!found && (status != STORE_NO_PRODUCT || change->patch))
        return status;
    if (found ? change->only_new : change->only_there)
        return sql_fail(db, STORE_CONDITION, "product %" PRId64 " is%s there",
                        change->product.id, found ? "" : " not");
    if (found)
        needed = change->patch ? 0 : STORE_GIVEN_NAME;
    else
        old = (struct store_product){.id = change->product.id, .segments = 1};
    product = old;
    for (; number < end; number++) {
        int64_t *now = number_of(&product, number);

        if (found && !change->patch && *now != number->least)
            needed |= number->given & ~(unsigned)STORE_GIVEN_STOCK;
        if (change->given & number->given)
            *now = *number_of(&change->product, number);
        valid &= *now >= number->least && *now <= number->most;
    }
    if (change->given & STORE_GIVEN_NAME)
        memcpy(product.name, change->product.name, sizeof(product.name));
    change->created = !found;
    change->missing = needed & ~change->given;
    if (change->missing != 0)
        return sql_fail(db, STORE_INCOMPLETE,
                        "the put leaves out what product %" PRId64 " %s",
                        change->product.id, found ? "has set" : "needs");
    if (!valid || product.name[0] == '\0' ||
        !memchr(product.name, '\0', sizeof(product.name)))
        return sql_fail(db, STORE_RANGE,
                        "a product needs an id, a name of 1 to %d bytes, "
                        "1 to %d segments, numbers from 0 to 2^53-1 and "
                        "a year at most to pay",
                        STORE_NAME_BYTES_MAX, STORE_SEGMENTS_MAX);
    if (product.ends_ms != 0 && product.ends_ms <= product.opens_ms)
        return sql_fail(db, STORE_WINDOW,
                        "a product needs an end after its opening");
    status = found ? update(db, &product, &old) : create(db, &product);
    if (status != STORE_OK)
        return status;
    return products_get(db, product.id, &change->product);
}

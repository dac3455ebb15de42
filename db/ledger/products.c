/*
 * Products, and the segments that their stock is split over. See ledger.h.
 *
 * Stock never changes by overwriting. A product is put with its first units and
 * after that only a restock adds some, in a ledger of its own: so the audit can
 * say what every segment must have had, and two admins who save a form at once
 * cannot undo each other's units, nor a sale's.
 *
 * There is one way to deal units out, whatever the reason: look at all
 * segments, compute what each should have, and move the difference from those
 * that have too much to those that have too little. A segment beyond the width
 * should have nothing, which is all that it takes to retire one.
 */
#include "db/ledger/ledger.h"

#include <inttypes.h>
#include <string.h>

/* The stock is not a column of the product: its segments have it, so that there
 * are no two numbers that could differ. */
#define PRODUCTS_SELECT                                                        \
    "SELECT id, price_cents, limit_per_user, pay_within_s, opens_ms, "         \
    "ends_ms, (SELECT SUM(initial) FROM segments WHERE product_id = id), "     \
    "(SELECT SUM(stock) FROM segments WHERE product_id = id), segments, "      \
    "epoch, name FROM products "

static void read_row(const struct sql_query *query,
                     struct store_product *product)
{
    memset(product, 0, sizeof(*product));
    sql_row(query, &product->id, &product->price_cents,
            &product->limit_per_user, &product->pay_within_s,
            &product->opens_ms, &product->ends_ms, &product->initial,
            &product->stock, &product->segments, &product->epoch);
    sql_text(query, 10, product->name, sizeof(product->name));
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

    if (found)
        read_row(query, product);
    return sql_end(query) == STORE_OK && !found ? products_none(db, id)
                                                : db->status;
}

/* Nobody else changes the product until the transaction ends. The sums must be read by a
 * statement of their own, because one that waits for the row may see the segments as they
 * were before it waited. */
static enum store_status lock(struct sql *db, int64_t id,
                              struct store_product *product)
{
    sql_run(db, "SELECT id FROM products WHERE id = ?1 " SQL_FOR_UPDATE, id);
    return products_get(db, id, product);
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
    sql_end(query);
    return read_end(reader, error);
}

/* Two statements, and so a transaction around them. A product always has a
 * segment in use. */
enum store_status store_product_segments(struct store_reader *reader,
                                         int64_t product_id,
                                         struct store_product *product,
                                         struct store_segments *segments,
                                         struct store_error *error)
{
    struct sql_query *query;

    segments->n = 0;
    sql_begin_reading(reader->db);
    products_get(reader->db, product_id, product);
    query = sql_query(reader->db,
                      "SELECT segment, initial, stock FROM segments "
                      "WHERE product_id = ?1 AND active ORDER BY segment",
                      product_id);
    for (; segments->n < STORE_SEGMENTS_MAX && sql_next(query); segments->n++) {
        struct store_segment *at = &segments->at[segments->n];

        sql_row(query, &at->segment, &at->initial, &at->stock);
    }
    sql_end(query);
    sql_rollback(reader->db);
    return read_end(reader, error);
}

/* There is an index of just the stranded, which are none as a rule. Many products
 * with 2^53 - 1 units overflow SUM(). */
enum store_status store_units_left(struct store_reader *reader,
                                   struct store_units *units,
                                   struct store_error *error)
{
    sql_first(sql_query(reader->db,
                        "SELECT IFNULL(SUM(stock + 0e0), 0), "
                        "(SELECT IFNULL(SUM(stock + 0e0), 0) FROM segments "
                        "WHERE active = 0 AND stock > 0), "
                        "(SELECT IFNULL(SUM(quantity + 0e0), 0) FROM holds) "
                        "FROM segments"),
              &units->left, &units->stranded, &units->held);
    return read_end(reader, error);
}

/* ---- segments: moving --------------------------------------------------- */

/* UNITS below 0: takes them off, if they are there. An order that gathers has read the
 * stock without a lock, so another instance may have sold it meanwhile. */
static void add(struct sql *db, int64_t product_id, int64_t segment,
                int64_t units)
{
    /* `initial` goes with `stock`: each segment's account must balance by
     * itself. */
    sql_run(db,
            "UPDATE segments SET initial = initial + ?3, stock = stock + ?3 "
            "WHERE product_id = ?1 AND segment = ?2 AND stock + ?3 >= 0",
            product_id, segment, units);
    if (db->status == STORE_OK && db->changed != 1)
        sql_conflict(db, "a segment's stock changed meanwhile");
}

enum store_status segments_move(struct sql *db, int64_t product_id,
                                int64_t from, int64_t to, int64_t units)
{
    add(db, product_id, from, -units);
    add(db, product_id, to, units);
    /* The row is for the audit: without it these units would be a phantom here,
     * and have vanished there. */
    return sql_run(db,
                   "INSERT INTO transfers (product_id, from_segment, "
                   "to_segment, units, created_ms) "
                   "VALUES (?1, ?2, ?3, ?4, ?5)",
                   product_id, from, to, units, now_ms());
}

enum store_status segments_give_back(struct sql *db, int64_t product_id,
                                     int64_t segment, int64_t units)
{
    int64_t active = -1, poorest = segment;

    sql_run(db,
            "UPDATE segments SET stock = stock + ?3 "
            "WHERE product_id = ?1 AND segment = ?2",
            product_id, segment, units);
    sql_first(sql_query(db,
                        "SELECT active FROM segments "
                        "WHERE product_id = ?1 AND segment = ?2",
                        product_id, segment),
              &active);
    /* `active` is read after the UPDATE, which holds the row: a resize that
     * retires the segment comes before both, or waits. */
    if (db->status != STORE_OK || active > 0)
        return db->status;
    if (active < 0)
        return sql_fail(db, STORE_MISUSE, "the order's segment is gone");
    sql_first(sql_query(db,
                        "SELECT segment FROM segments WHERE product_id = ?1 "
                        "AND active ORDER BY stock, segment "
                        "LIMIT 1 " SQL_FOR_UPDATE,
                        product_id),
              &poorest);
    /* A retired segment sells nothing: units that stayed there would be
     * stranded. */
    return segments_move(db, product_id, segment, poorest, units);
}

enum store_status segments_raise_terms(struct sql *db, int64_t product_id)
{
    return sql_run(
        db, "UPDATE segments SET terms = terms + 1 WHERE product_id = ?1",
        product_id);
}

/* ---- dealing out -------------------------------------------------------- */

/* Adds up what the segments have, and how many of them are to share it. */
struct deal {
    int64_t product_id;
    int64_t stock[STORE_SEGMENTS_MAX];
    size_t n; /* rows that there are: segments 0 .. n-1 */
    int64_t total;
    int64_t width;
    bool changed;
};

/* Looks at all; makes those of the first N that are not there yet; and brings
 * the new units in, at segment 0. */
static void prepare(struct sql *db, struct deal *deal, int64_t n,
                    int64_t new_units)
{
    struct sql_query *query;

    /* The rows are locked in the order of their segments: two that deal out at
     * once must not wait for each other. */
    query = sql_query(db,
                      "SELECT stock FROM segments "
                      "WHERE product_id = ?1 ORDER BY segment " SQL_FOR_UPDATE,
                      deal->product_id);
    while (deal->n < STORE_SEGMENTS_MAX && sql_next(query)) {
        deal->stock[deal->n] = sql_int(query, 0);
        deal->total += deal->stock[deal->n++];
    }
    sql_end(query);
    /* A new segment begins without units and retired: level() moves units into
     * it, and deal_out() puts it in use. */
    for (; (int64_t)deal->n < n; deal->n++)
        sql_run(db,
                "INSERT INTO segments (product_id, segment, "
                "initial, stock, active) VALUES (?1, ?2, 0, 0, 0)",
                deal->product_id, (int64_t)deal->n);
    if (new_units > 0)
        add(db, deal->product_id, 0, new_units);
    deal->stock[0] += new_units;
    deal->total += new_units;
    /* A segment without units would only be probed in vain; one must be in use
     * all the same, since a product without any does not exist for an order. */
    deal->width = deal->total < n ? deal->total : n;
    if (deal->width < 1)
        deal->width = 1;
}

/* The units that a segment has too many; below 0: too few. */
static int64_t surplus(const struct deal *deal, size_t segment)
{
    int64_t at = (int64_t)segment;
    int64_t share =
        /* The remainder goes to the first segments, one unit each: the same
         * stock is always dealt out in the same way, and a second time moves
         * nothing. */
        deal->total / deal->width + (at < deal->total % deal->width);

    return deal->stock[segment] - (at < deal->width ? share : 0);
}

static void level(struct sql *db, struct deal *deal)
{
    size_t from = 0, to = 0;
    int64_t more, less, units;

    while (db->status == STORE_OK) {
        while (from < deal->n && surplus(deal, from) <= 0)
            from++;
        while (to < deal->n && surplus(deal, to) >= 0)
            to++;
        /* The surplus of one is what another lacks: both lists end at once. */
        if (from == deal->n || to == deal->n)
            break;
        more = surplus(deal, from);
        less = -surplus(deal, to);
        units = more < less ? more : less;
        segments_move(db, deal->product_id, (int64_t)from, (int64_t)to, units);
        deal->stock[from] -= units;
        deal->stock[to] += units;
        deal->changed = true;
    }
}

/* Adds new units to the product, and deals all it has out evenly to its first N
 * segments, or to fewer if there are fewer units, and retires the others. Segments that
 * are not there yet are made. The product's epoch rises if that changed anything, which
 * *changed (may be NULL) says. */
static enum store_status deal_out(struct sql *db, int64_t product_id, int64_t n,
                                  int64_t new_units, bool *changed)
{
    struct deal deal = {.product_id = product_id};

    prepare(db, &deal, n, new_units);
    sql_run(db,
            "UPDATE segments SET active = (segment < ?2) "
            "WHERE product_id = ?1 AND active <> (segment < ?2)",
            product_id, deal.width);
    deal.changed = db->changed > 0;
    level(db, &deal);
    if (deal.changed)
        sql_run(db, "UPDATE products SET epoch = epoch + 1 WHERE id = ?1",
                product_id);
    if (changed)
        *changed = deal.changed;
    return db->status;
}

/* ---- the verbs ---------------------------------------------------------- */

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
    struct sql_query *query = sql_query(
        db,
        "INSERT INTO products (id, price_cents, limit_per_user, opens_ms, "
        "ends_ms, first_units, segments, created_ms, pay_within_s, name) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        product->id, product->price_cents, product->limit_per_user,
        product->opens_ms, product->ends_ms, product->initial,
        product->segments, now_ms(), product->pay_within_s);

    sql_finish(sql_bind_text(query, 10, product->name));
    return deal_out(db, product->id, product->segments, product->initial, NULL);
}

/* With other segments the epoch rises even if no unit has to move. Orders from
 * before there was a limit are counted by the next sale: to count takes long, and in a
 * cluster other sales would always come first. */
static enum store_status update(struct sql *db,
                                const struct store_product *product,
                                const struct store_product *old)
{
    bool resized = product->segments != old->segments;
    struct sql_query *query;

    /* A put that names the stock must name the one it has had: taken for a new
     * stock, it would undo what was sold, or restocked, since the form was
     * opened. */
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
    sql_finish(sql_bind_text(query, 10, product->name));
    /* Each sale under the old terms has its segment's `terms` in its guard: it
     * fails now, reads the product anew and decides by the new ones. */
    segments_raise_terms(db, product->id);
    return resized ? deal_out(db, product->id, product->segments, 0, NULL)
                   : db->status;
}

/* A put must name each field, but for the stock, that the product has set. */
enum store_status products_change(struct sql *db, struct store_write *write)
{
    struct store_change *change = (struct store_change *)write;
    struct store_product old, product;
    const struct number *number = numbers,
                        *end = numbers + sizeof(numbers) / sizeof(*numbers);
    unsigned needed = STORE_GIVEN_NAME | STORE_GIVEN_STOCK;
    bool found, valid = in_range(change->product.id, 1);

    found = lock(db, change->product.id, &old) == STORE_OK;
    if (!found && (db->status != STORE_NO_PRODUCT || change->patch))
        return db->status;
    /* "No such product" is an answer here, and not a failure. */
    sql_clear(db);
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

        /* A put is the whole product: a field that it leaves out by mistake
         * must not be set to nothing in silence. */
        if (found && !change->patch && *now != number->least)
            needed |= number->given & ~(unsigned)STORE_GIVEN_STOCK;
        if (change->given & number->given)
            *now = *number_of(&change->product, number);
        /* All numbers are looked at, also those that were not given: what is
         * stored after a change must be in range as a whole. */
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
    /* The window is judged after both ends are merged: each alone may be right,
     * and the pair not. */
    if (product.ends_ms != 0 && product.ends_ms <= product.opens_ms)
        return sql_fail(db, STORE_WINDOW,
                        "a product needs an end after its opening");
    if (found)
        update(db, &product, &old);
    else
        create(db, &product);
    return products_get(db, product.id, &change->product);
}

/* STORE_KEY_REUSED: the key was used before, for something else. */
static enum store_status replay(struct sql *db, struct store_restock *restock)
{
    int64_t product_id = 0, quantity = 0; /* no restock has these */
    struct sql_query *query;

    restock->replayed = false;
    if (restock->key[0] == '\0')
        return db->status;
    query = sql_query(db, "SELECT product_id, quantity FROM restocks "
                          "WHERE `key` = ?1");
    sql_first(sql_bind_text(query, 1, restock->key), &product_id, &quantity);
    restock->replayed = quantity > 0;
    if (restock->replayed &&
        (product_id != restock->product_id || quantity != restock->quantity))
        return sql_fail(db, STORE_KEY_REUSED,
                        "the key belongs to another restock");
    return db->status;
}

enum store_status segments_restock(struct sql *db, struct store_write *write)
{
    struct store_restock *restock = (struct store_restock *)write;
    struct store_product *product = &restock->product;
    struct sql_query *query;

    if (!in_range(restock->quantity, 1) ||
        !memchr(restock->key, '\0', sizeof(restock->key)))
        return sql_fail(db, STORE_RANGE,
                        "a restock adds 1 to 2^53-1 units, under a key of "
                        "up to %d bytes",
                        STORE_KEY_BYTES_MAX);
    /* The product is locked before the key is looked up: of two restocks of it
     * with one key the second must see the first one's row. */
    lock(db, restock->product_id, product);
    /* The product as it is now goes with a replay too: lock() has read it. */
    if (replay(db, restock) != STORE_OK || restock->replayed)
        return db->status;
    /* The difference is compared: the sum could overflow. */
    if (restock->quantity > STORE_NUMBER_MAX - product->initial)
        return sql_fail(db, STORE_RANGE,
                        "product %" PRId64 " would have had over 2^53-1 "
                        "units",
                        restock->product_id);
    query = sql_query(db,
                      "INSERT INTO restocks (product_id, quantity, "
                      "created_ms, `key`) VALUES (?1, ?2, ?3, ?4)",
                      restock->product_id, restock->quantity, now_ms());
    sql_finish(sql_bind_text(query, 4, restock->key));
    deal_out(db, restock->product_id, product->segments, restock->quantity,
             NULL);
    return products_get(db, restock->product_id, product);
}

enum store_status segments_even_out(struct sql *db, struct store_write *write)
{
    struct store_even_out *even_out = (struct store_even_out *)write;
    struct store_product product = {0};

    if (lock(db, even_out->product_id, &product) != STORE_OK)
        return db->status;
    /* The width is the product's, and not that of now: segments that were
     * retired for want of units may come back. */
    return deal_out(db, even_out->product_id, product.segments, 0,
                    &even_out->moved);
}

/*
 * The verdict over the whole ledger.
 *
 * It trusts no counter: what was sold is added up from the orders, what should
 * have been there from first units and restocks, and both are held against the
 * segments. It is one read transaction, so that sales going on beside it do
 * not look like errors. It reads every order; it is a verdict, not a metric.
 */
#include "db/ledger/ledger.h"

#include <string.h>

/* Segments and what placed orders took from them. Both are listed, so that orders whose
 * segment does not exist are seen too: sold from nothing. */
#define AUDIT_LINES                                                            \
    "SELECT product_id, segment, SUM(initial), SUM(stock), SUM(sold), "        \
    "SUM(placed), MIN(active) FROM "                                           \
    "(SELECT product_id, segment, initial, stock, 0 AS sold, 0 AS placed, "    \
    "active FROM segments UNION ALL "                                          \
    "SELECT product_id, segment, 0, 0, SUM(quantity), COUNT(*), 1 "            \
    "FROM orders WHERE state = 0 GROUP BY product_id, segment) AS both_ "      \
    "GROUP BY product_id, segment ORDER BY product_id, segment"

/* The units that the segments have on account beyond those that came in: first units
 * and restocks, which enter at segment 0, and from there what was moved. */
#define AUDIT_UNEXPLAINED                                                      \
    "SELECT SUM(units) FROM "                                                  \
    "(SELECT product_id, segment, initial AS units FROM segments UNION ALL "   \
    "SELECT id, 0, -first_units FROM products UNION ALL "                      \
    "SELECT product_id, 0, -quantity FROM restocks UNION ALL "                 \
    "SELECT product_id, to_segment, -units FROM transfers UNION ALL "          \
    "SELECT product_id, from_segment, units FROM transfers) AS u "             \
    "GROUP BY product_id, segment"

/* Orders beyond the first under one key, and restocks. */
#define AUDIT_DUPLICATES                                                       \
    "SELECT IFNULL(SUM(n - 1), 0) FROM (SELECT COUNT(*) AS n FROM orders "     \
    "WHERE `key` IS NOT NULL GROUP BY `key` UNION ALL "                        \
    "SELECT COUNT(*) FROM restocks WHERE `key` IS NOT NULL GROUP BY `key`) "   \
    "AS k"

/* Users who, with one of their orders, went over the limit that held then. Not the
 * limit of today: that may have been lowered since. */
#define AUDIT_OVER_LIMIT                                                       \
    "SELECT COUNT(*) FROM (SELECT DISTINCT product_id, user_id FROM "          \
    "(SELECT product_id, user_id, limit_per_user, SUM(quantity) OVER "         \
    "(PARTITION BY product_id, user_id ORDER BY number) AS units "             \
    "FROM orders WHERE state = 0 AND product_id IN "                           \
    "(SELECT product_id FROM orders WHERE limit_per_user > 0)) AS u "          \
    "WHERE limit_per_user > 0 AND units > limit_per_user) AS over_limit"

/* Orders that no state describes. */
#define AUDIT_STATELESS "((cancelled_ms <> 0) <> state OR quantity < 1)"

/* Orders that are to be paid, sold, and not just one of held and paid; or given back,
 * and held or paid as well; and holds that are not as their order says. A hold and a
 * payment count one each, the order that they stand for takes one off. The nines are of
 * orders without a state, and of payments that are nobody's, or came late to a hold, or
 * were accepted when it was over. */
#define AUDIT_UNSETTLED                                                        \
    "SELECT COUNT(*) FROM (SELECT SUM(n) AS n FROM "                           \
    "(SELECT number, 1 AS n FROM holds UNION ALL "                             \
    "SELECT number, 1 FROM payments WHERE accepted = 1 UNION ALL "             \
    "SELECT number, CASE WHEN " AUDIT_STATELESS " THEN 9 ELSE -1 END "         \
    "FROM orders WHERE state = 0 AND pay_until_ms > 0 OR " AUDIT_STATELESS     \
    " UNION ALL SELECT h.number, 9 FROM holds AS h JOIN orders AS o "          \
    "ON o.number = h.number WHERE h.pay_until_ms <> o.pay_until_ms OR "        \
    "h.quantity <> o.quantity UNION ALL SELECT p.number, 9 "                   \
    "FROM payments AS p LEFT JOIN orders AS o ON o.number = p.number "         \
    "LEFT JOIN holds AS h ON h.number = p.number WHERE o.number IS NULL "      \
    "OR p.accepted <> 1 OR p.accepted IS NULL AND h.number IS NOT NULL "       \
    "OR p.accepted = 1 AND p.created_ms >= o.pay_until_ms) AS u "              \
    "GROUP BY number HAVING SUM(n) <> 0) AS s"

#define AUDIT_EXPIRED "(pay_until_ms > 0 AND cancelled_ms >= pay_until_ms)"

/* Orders with an older token than the one before. Tokens belong to a lock, and a lock
 * to a product's segment. MariaDB looks at all rows before each one for the highest of
 * them: the last is enough to find that they fell. The lock's own row comes last: with
 * a lower token it would let in a holder that was overtaken. If no lock has the
 * segment's name, the highest token of all is looked at. */
#define AUDIT_REGRESSIONS                                                      \
    "SELECT COUNT(*) FROM (SELECT fence, LAG(fence) OVER "                     \
    "(PARTITION BY product_id, segment ORDER BY number) AS earlier FROM "      \
    "(SELECT product_id, segment, number, fence FROM orders "                  \
    "WHERE fence > 0 UNION ALL SELECT product_id, segment, "                   \
    "9223372036854775807, IFNULL((SELECT token FROM fences WHERE name = "      \
    "REPLACE(REPLACE('lock:{P:S}', 'P', product_id), 'S', segment)), "         \
    "(SELECT IFNULL(MAX(token), 0) FROM fences)) FROM segments) AS t) AS f "   \
    "WHERE fence < earlier"

/* Sums stop at the top rather than wrap: a ledger may hold anything. */
static void add(int64_t *sum, int64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = more > 0 ? INT64_MAX : INT64_MIN;
}

static int64_t above_zero(int64_t number)
{
    return number > 0 ? number : 0;
}

/* Units on a segment's account that were never put on sale are phantoms, and those that
 * were and are not on it have vanished. */
static void judge_units(struct sql *db,
                        void (*on_line)(void *ctx,
                                        const struct store_audit_line *line),
                        void *ctx, struct store_audit *audit)
{
    struct sql_query *query = sql_query(db, AUDIT_LINES);
    struct store_audit_line line;

    while (sql_next(query)) {
        line = (struct store_audit_line){.retired = sql_int(query, 6) == 0};
        sql_row(query, &line.product_id, &line.segment, &line.initial,
                &line.stock, &line.sold, &line.orders);
        /* Drift is stock + sold - initial: 0 in a segment whose account
         * balances, above it units that came from nowhere. */
        add(&line.drift, line.stock);
        add(&line.drift, line.sold);
        add(&line.drift, -line.initial);
        add(&audit->sold, line.sold);
        add(&audit->oversold, above_zero(line.sold - line.initial));
        add(&audit->undersold, above_zero(-line.drift));
        add(&audit->phantom, above_zero(line.drift));
        audit->negative += line.stock < 0;
        if (line.retired)
            add(&audit->stranded, above_zero(line.stock));
        if (on_line)
            on_line(ctx, &line);
    }
    sql_end(query);
    /* The accounts themselves must come from somewhere: a segment may balance
     * with units that nobody put on sale. */
    query = sql_query(db, AUDIT_UNEXPLAINED);
    while (sql_next(query)) {
        add(&audit->phantom, above_zero(sql_int(query, 0)));
        add(&audit->undersold, above_zero(-sql_int(query, 0)));
    }
    sql_end(query);
}

static void count_all(struct sql *db, struct store_audit *audit)
{
    const struct {
        const char *sql;
        int64_t *number;
    } counts[] = {
        {"SELECT COUNT(*) FROM products", &audit->products},
        {"SELECT COUNT(*) FROM orders WHERE state = 0", &audit->orders},
        {"SELECT COUNT(*) FROM orders WHERE state = 1 AND NOT " AUDIT_EXPIRED,
         &audit->cancelled},
        {"SELECT COUNT(*) FROM orders WHERE state = 1 AND " AUDIT_EXPIRED,
         &audit->expired},
        {"SELECT IFNULL(SUM(quantity), 0) FROM holds", &audit->held},
        {"SELECT COUNT(*) FROM payments WHERE accepted IS NULL", &audit->late},
        {AUDIT_DUPLICATES, &audit->duplicates},
        {AUDIT_OVER_LIMIT, &audit->over_limit},
        {db->engine->words.miscounted, &audit->miscounted},
        {AUDIT_REGRESSIONS, &audit->fence_regressions},
        {AUDIT_UNSETTLED, &audit->unsettled},
    };

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        sql_first(sql_query(db, counts[i].sql), counts[i].number);
}

/* The check's first line only says which database it is. */
enum store_status store_intact(struct store_reader *reader,
                               struct store_error *error)
{
    const char *check = reader->db->engine->words.check_file, *line;
    char said[200] = "nothing was said";
    struct sql_query *query;

    if (!check)
        return STORE_OK;
    query = sql_query(reader->db, check);
    if (sql_next(query))
        sql_text(query, 0, said, sizeof(said));
    line = strchr(said, '\n');
    if (sql_end(query) == STORE_OK && strcmp(said, "ok") != 0)
        sql_fail(reader->db, STORE_UNFIT, "the file is damaged: %s",
                 line ? line + 1 : said);
    return read_end(reader, error);
}

enum store_status
store_audit(struct store_reader *reader,
            void (*on_line)(void *ctx, const struct store_audit_line *line),
            void *ctx, const char *const acked[], size_t acked_n,
            struct store_audit *audit, struct store_error *error)
{
    struct sql *db = reader->db;
    struct store_order order;

    *audit = (struct store_audit){0};
    /* The sums take minutes on a large ledger, longer than any answer is waited
     * for elsewhere. */
    db->patient = true;
    sql_begin_reading(db);
    judge_units(db, on_line, ctx, audit);
    count_all(db, audit);
    /* A cancelled order is stored too: only a missing row is lost. */
    for (size_t i = 0; i < acked_n && db->status == STORE_OK; i++)
        if (orders_get(db, acked[i], &order) == STORE_NO_ORDER) {
            audit->lost++;
            sql_clear(db);
        }
    /* The rollback only lets go of the snapshot: nothing was written. */
    sql_rollback(db);
    db->patient = false;
    /* An audit that could not read everything has not found the ledger
     * balanced, whatever its numbers say. */
    audit->balanced = db->status == STORE_OK;
#define ROW(member, name, fault) audit->balanced &= !*(fault) || !audit->member;
#include "db/audit.inc"
    return read_end(reader, error);
}

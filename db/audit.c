/*
 * The verdict over the whole ledger.
 *
 * It trusts no counter: what was sold is added up from the orders, what should
 * have been there from first units and restocks, and both are held against the
 * stock cells. It is one read transaction, so that sales going on beside it do
 * not look like errors. It reads every order; it is a verdict, not a metric.
 */
#include "db/audit.h"
#include "db/failure.h"
#include "db/orders.h"

#include <string.h>

/*
 * What placed orders drew from each cell: all from their own, but for what they
 * took from others.
 */
#define AUDIT_DRAWN                                                            \
    "SELECT product_id, segment, SUM(units) AS sold, SUM(orders) AS placed "   \
    "FROM (SELECT product_id, segment, quantity AS units, 1 AS orders "        \
    "FROM orders WHERE state = 0 UNION ALL "                                   \
    "SELECT product_id, o.segment, -units, 0 "                                 \
    "FROM parts JOIN orders AS o USING (number) WHERE state = 0 UNION ALL "    \
    "SELECT product_id, parts.segment, units, 1 "                              \
    "FROM parts JOIN orders USING (number) WHERE state = 0) "                  \
    "GROUP BY product_id, segment"

/*
 * Cells and what was drawn from them. The outer join is full so that orders
 * whose cell does not exist are seen too: sold from nothing.
 */
#define AUDIT_LINES                                                            \
    "SELECT IFNULL(c.product_id, o.product_id), "                              \
    "IFNULL(c.segment, o.segment), IFNULL(initial, 0), IFNULL(stock, 0), "     \
    "IFNULL(sold, 0), IFNULL(placed, 0), IFNULL(active, 1) "                   \
    "FROM cells AS c FULL JOIN (" AUDIT_DRAWN ") AS o "                        \
    "ON c.product_id = o.product_id AND c.segment = o.segment ORDER BY 1, 2"

/*
 * What the cells have on account beyond what came in: first units and restocks,
 * which enter at cell 0, and from there what was moved.
 */
#define AUDIT_UNEXPLAINED                                                      \
    "SELECT SUM(units) FROM "                                                  \
    "(SELECT product_id, segment, initial AS units FROM cells UNION ALL "      \
    "SELECT id, 0, -first_units FROM products UNION ALL "                      \
    "SELECT product_id, 0, -quantity FROM restocks UNION ALL "                 \
    "SELECT product_id, to_segment, -units FROM transfers UNION ALL "          \
    "SELECT product_id, from_segment, units FROM transfers) "                  \
    "GROUP BY product_id, segment"

/* Orders beyond the first under one key. */
#define AUDIT_DUPLICATES                                                       \
    "SELECT IFNULL(SUM(n - 1), 0) FROM (SELECT COUNT(*) AS n FROM orders "     \
    "WHERE key IS NOT NULL GROUP BY key HAVING n > 1)"

/*
 * Users who, with one of their orders, went over the limit that held then. Not
 * the limit of today: to lower it is no crime of those who have bought before.
 */
#define AUDIT_OVER_LIMIT                                                       \
    "SELECT COUNT(*) FROM (SELECT DISTINCT product_id, user_id FROM "          \
    "(SELECT product_id, user_id, limit_per_user, SUM(quantity) OVER "         \
    "(PARTITION BY product_id, user_id ORDER BY number) AS units "             \
    "FROM orders WHERE state = 0 AND product_id IN "                           \
    "(SELECT product_id FROM orders WHERE limit_per_user > 0)) "               \
    "WHERE limit_per_user > 0 AND units > limit_per_user)"

/*
 * Orders with an older token than one before them. Tokens belong to a lock,
 * and a lock to a product's segment.
 */
#define AUDIT_REGRESSIONS                                                      \
    "SELECT COUNT(*) FROM (SELECT fence, MAX(fence) OVER "                     \
    "(PARTITION BY product_id, segment ORDER BY number "                       \
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before "             \
    "FROM orders WHERE fence > 0) WHERE fence < before"

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

static void read_line(const struct sqlite_query *query,
                      struct store_audit_line *line)
{
    line->product_id = sqlite_int(query, 0);
    line->segment = sqlite_int(query, 1);
    line->initial = sqlite_int(query, 2);
    line->stock = sqlite_int(query, 3);
    line->sold = sqlite_int(query, 4);
    line->orders = sqlite_int(query, 5);
    line->drift = 0;
    add(&line->drift, line->stock);
    add(&line->drift, line->sold);
    add(&line->drift, -line->initial);
    line->retired = sqlite_int(query, 6) == 0;
}

static void judge_line(const struct store_audit_line *line,
                       struct store_audit *audit)
{
    add(&audit->sold, line->sold);
    add(&audit->oversold, above_zero(line->sold - line->initial));
    add(&audit->undersold, above_zero(-line->drift));
    add(&audit->phantom, above_zero(line->drift));
    audit->negative += line->stock < 0;
    if (line->retired)
        add(&audit->stranded, above_zero(line->stock));
}

static enum store_status judge_lines(struct sqlite *db,
                                     const struct audit_request *request,
                                     struct store_audit *audit,
                                     struct store_error *error)
{
    struct sqlite_query *query = sqlite_query(db, AUDIT_LINES);
    struct store_audit_line line;

    while (sqlite_next(query)) {
        read_line(query, &line);
        judge_line(&line, audit);
        if (request->on_line)
            request->on_line(request->ctx, &line);
    }
    return sqlite_end(query, error);
}

/*
 * Units on a cell's account that were never put on sale are phantoms, and
 * those that were and are not on it have vanished.
 */
static enum store_status judge_accounts(struct sqlite *db,
                                        struct store_audit *audit,
                                        struct store_error *error)
{
    struct sqlite_query *query = sqlite_query(db, AUDIT_UNEXPLAINED);

    while (sqlite_next(query)) {
        add(&audit->phantom, above_zero(sqlite_int(query, 0)));
        add(&audit->undersold, above_zero(-sqlite_int(query, 0)));
    }
    return sqlite_end(query, error);
}

static enum store_status count_all(struct sqlite *db, struct store_audit *audit,
                                   struct store_error *error)
{
    const struct {
        const char *sql;
        int64_t *number;
    } counts[] = {
        {"SELECT COUNT(*) FROM products", &audit->products},
        {"SELECT COUNT(*) FROM orders WHERE state = 0", &audit->orders},
        {"SELECT COUNT(*) FROM orders WHERE state = 1", &audit->cancelled},
        {AUDIT_DUPLICATES, &audit->duplicates},
        {AUDIT_OVER_LIMIT, &audit->over_limit},
        {AUDIT_REGRESSIONS, &audit->fence_regressions},
    };
    enum store_status status = STORE_OK;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        status = sqlite_number(db, counts[i].sql, counts[i].number, error);
        if (status != STORE_OK)
            break;
    }
    return status;
}

/* A cancelled order is stored too: only a missing row is lost. */
static enum store_status count_lost(struct sqlite *db,
                                    const struct audit_request *request,
                                    struct store_audit *audit,
                                    struct store_error *error)
{
    struct store_error ignored;
    struct store_order order;

    for (size_t i = 0; i < request->acked_n; i++) {
        enum store_status status =
            orders_get(db, request->acked[i], &order, &ignored);
        if (status == STORE_NO_ORDER)
            audit->lost++;
        else if (status != STORE_OK)
            return failure_set(error, status, "%s", ignored.text);
    }
    return STORE_OK;
}

static enum store_status judge(struct sqlite *db,
                               const struct audit_request *request,
                               struct store_audit *audit,
                               struct store_error *error)
{
    enum store_status status;

    status = judge_lines(db, request, audit, error);
    if (status == STORE_OK)
        status = judge_accounts(db, audit, error);
    if (status == STORE_OK)
        status = count_all(db, audit, error);
    if (status == STORE_OK)
        status = count_lost(db, request, audit, error);
    audit->balanced = !audit->oversold && !audit->undersold &&
                      !audit->phantom && !audit->negative && !audit->stranded &&
                      !audit->duplicates && !audit->over_limit &&
                      !audit->fence_regressions && !audit->lost;
    return status;
}

enum store_status audit_run(struct sqlite *db,
                            const struct audit_request *request,
                            struct store_audit *audit,
                            struct store_error *error)
{
    enum store_status status;

    memset(audit, 0, sizeof(*audit));
    status = sqlite_run(db, "BEGIN", error);
    if (status != STORE_OK)
        return status;
    status = judge(db, request, audit, error);
    (void)sqlite_rollback(db);
    if (status != STORE_OK)
        audit->balanced = false;
    return status;
}

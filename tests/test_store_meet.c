/*
 * The rows on which two writers meet (db/ledger/ledger.h), a rule at a time: two
 * instances run one transaction each. The first is stopped before each of its
 * statements in turn, and before its COMMIT, and the second comes in between; in
 * both orders. On SQLite, on MariaDB (tests/full/store-mysql.t), and on two nodes
 * of a Galera cluster (tests/full/mysql-galera.t), where the second may also be
 * ordered before the first and not be known yet where that commits.
 */
#include "db/ledger/ledger.h"
#include "tests/support/store_nodes.h"
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <inttypes.h>

#define GLANCES_MAX 1000
#define ISOLATE     "SET GLOBAL wsrep_provider_options = 'gmcast.isolate"

/* One transaction of a play. */
struct move {
    struct store *store;
    const struct rule *rule;
    int64_t id;           /* the product's */
    int64_t who;          /* 0 or 1: which of the two verbs */
    const char *order_id; /* to be cancelled */
    pthread_t thread;
    bool done;
    /* How it ended: */
    enum store_status status;
    struct store_order order;
    bool replayed; /* or: it found the product there */
};

/* Two of them on one product. */
struct play {
    struct move moves[2];
    const struct move *early; /* done while the other was stopped; or NULL */
    char order_id[STORE_ID_BYTES_MAX + 1]; /* placed before both, by user 1 */
};

struct rule {
    const char *name;
    struct store_product product; /* before both; no units: there is none */
    void (*verbs[2])(struct move *move);
    void (*check)(const struct play *play);
};

static struct store_rig rig;
static struct store
    *other; /* the second instance; of a cluster, the second node */
static int64_t last_id;
static struct store_nodes nodes;

/* ---- the verbs ---------------------------------------------------------- */

static void one_replayed(const struct play *play);

static void place(struct move *move, const struct store_fence *fence)
{
    struct store_order *orders[] = {&move->order};

    move->status = store_place(move->store, orders, 1, fence, NULL);
    if (move->status == STORE_OK)
        move->status = move->order.status;
}

static void sell(struct move *move)
{
    move->order = store_rig_ask(move->id, 1 + move->who, 1, "");
    place(move, NULL);
}

/* The same user, by two segments. */
static void sell_elsewhere(struct move *move)
{
    move->order = store_rig_ask(move->id, 1, 1, "");
    move->order.segment = move->who;
    place(move, NULL);
}

/* It moves the unit of the other segment, which it has read, into its own. */
static void sell_gathered(struct move *move)
{
    move->order = store_rig_ask(move->id, 1, 2, "");
    move->order.gather = true;
    place(move, NULL);
}

/* The first sale under a limit counts what was ordered before. */
static void sell_to_2_elsewhere(struct move *move)
{
    move->order = store_rig_ask(move->id, 2, 1, "");
    move->order.segment = 1;
    place(move, NULL);
}

static void sell_with_key(struct move *move)
{
    char key[32];

    (void)snprintf(key, sizeof(key), "k%" PRId64, move->id);
    move->order = store_rig_ask(move->id, 1, 1, key);
    place(move, NULL);
}

static void with_fence(struct move *move, uint64_t token,
                       void (*verb)(struct move *,
                                    const struct store_fence *fence))
{
    struct store_fence fence = {.token = token, .owner = "me"};
    char name[32];

    (void)snprintf(name, sizeof(name), "lock:%" PRId64, move->id);
    fence.name = name;
    move->order = store_rig_ask(move->id, 1, 1, "");
    verb(move, &fence);
}

static void sell_under_10(struct move *move)
{
    with_fence(move, 10, place);
}

static void stamp(struct move *move, const struct store_fence *fence)
{
    move->status = store_stamp(move->store, fence, NULL);
}

static void stamp_11(struct move *move)
{
    with_fence(move, 11, stamp);
}

static void cancel(struct move *move)
{
    move->status =
        store_cancel(move->store, move->order_id, &move->order, NULL);
    move->replayed = move->order.replayed;
}

/* Both with one payment where it is to be replayed, or each with its own. */
static void pay(struct move *move)
{
    int64_t which = move->rule->check == one_replayed ? 0 : move->who;
    struct store_pay pay;
    char payment[48];

    (void)snprintf(payment, sizeof(payment), "p%" PRId64 "-%" PRId64, move->id,
                   which);
    move->status = store_pay(move->store, move->order_id, payment, &pay);
    move->replayed = pay.replayed;
    move->order = pay.order;
}

static void restock(struct move *move)
{
    struct store_product product;
    char key[32];

    (void)snprintf(key, sizeof(key), "r%" PRId64, move->id);
    move->status = store_restock(move->store, move->id, 5, key, &product, NULL);
}

static void patch(struct move *move, unsigned given,
                  struct store_product product)
{
    struct store_change change = {
        .product = product, .given = given, .patch = true};

    change.product.id = move->id;
    move->status = store_change(move->store, &change, NULL);
}

static void limit_to_1(struct move *move)
{
    patch(move, STORE_GIVEN_LIMIT, (struct store_product){.limit_per_user = 1});
}

static void end_sale(struct move *move)
{
    patch(move, STORE_GIVEN_ENDS, (struct store_product){.ends_ms = 1});
}

static void raise_price(struct move *move)
{
    patch(move, STORE_GIVEN_PRICE, (struct store_product){.price_cents = 7});
}

static void resize(struct move *move)
{
    patch(move, STORE_GIVEN_SEGMENTS,
          (struct store_product){.segments = 1 + 2 * move->who});
}

static void create(struct move *move)
{
    struct store_product product = {
        .id = move->id, .name = "Thing", .initial = 3, .segments = 2};
    bool created = false;

    move->status = store_product_put(move->store, &product, &created, NULL);
    move->replayed = !created;
}

/* ---- what has to be then ------------------------------------------------- */

static enum store_status buy(const struct play *play, int64_t user)
{
    return store_rig_buy(&rig, play->moves[0].id, user, 1, "");
}

static struct store_product product_of(const struct play *play)
{
    return store_rig_product(&rig, play->moves[0].id);
}

static void both_ok(const struct play *play)
{
    assert_ok(play->moves[0].status);
    assert_ok(play->moves[1].status);
}

/* One is told yes, and the other one ELSE_. */
static void one_of_them(const struct play *play, enum store_status else_)
{
    enum store_status no = play->moves[0].status;

    if (no == STORE_OK)
        no = play->moves[1].status;
    else
        assert_ok(play->moves[1].status);
    assert_int_equal(no, else_);
}

/* Both hear what has become of an order. */
static void one_replayed(const struct play *play)
{
    both_ok(play);
    assert_int_equal(play->moves[0].order.state, play->moves[1].order.state);
    assert_int_not_equal(play->moves[0].replayed, play->moves[1].replayed);
}

static void check_stock(const struct play *play)
{
    one_of_them(play, STORE_SOLD_OUT);
}

static void check_limit(const struct play *play)
{
    one_of_them(play, STORE_LIMIT);
}

static void check_limit_set(const struct play *play)
{
    both_ok(play);
    assert_int_equal(buy(play, 1), STORE_LIMIT);
}

/* What was given back does not count. */
static void check_limit_and_cancel(const struct play *play)
{
    both_ok(play);
    assert_int_equal(buy(play, 1), STORE_OK);
    assert_int_equal(buy(play, 1), STORE_LIMIT);
}

static void check_key(const struct play *play)
{
    both_ok(play);
    assert_string_equal(play->moves[0].order.id, play->moves[1].order.id);
    assert_int_equal(product_of(play).stock, 9);
}

/* A move that was told of the end of the sale sells no more. */
static void check_window(const struct play *play)
{
    assert_ok(play->moves[1].status);
    if (play->early == &play->moves[1])
        assert_int_equal(play->moves[0].status, STORE_ENDED);
    else if (play->early == &play->moves[0])
        assert_ok(play->moves[0].status);
}

static void check_price(const struct play *play)
{
    both_ok(play);
    if (play->early == &play->moves[1])
        assert_int_equal(play->moves[0].order.price_cents, 7);
}

static void check_fence(const struct play *play)
{
    assert_ok(play->moves[1].status);
    if (play->early == &play->moves[1])
        assert_int_equal(play->moves[0].status, STORE_STALE_FENCE);
}

static void check_cancel(const struct play *play)
{
    one_replayed(play);
    assert_int_equal(product_of(play).stock, 10);
}

static void check_paid_once(const struct play *play)
{
    one_of_them(play, STORE_ALREADY_PAID);
}

static void check_pay_and_cancel(const struct play *play)
{
    bool paid = play->moves[0].status == STORE_OK;

    one_of_them(play, paid ? STORE_ALREADY_PAID : STORE_ORDER_CANCELLED);
    assert_int_equal(product_of(play).stock, paid ? 9 : 10);
}

static void check_restock(const struct play *play)
{
    both_ok(play);
    assert_int_equal(product_of(play).initial, 10 + 5);
}

static void check_resize(const struct play *play)
{
    struct store_segments segments;
    struct store_product product;

    both_ok(play);
    assert_ok(store_product_segments(rig.reader, play->moves[0].id, &product,
                                     &segments, NULL));
    assert_int_equal(segments.n, product.segments);
}

/* A segment that is out of use sells nothing, and strands nothing. */
static void check_resize_and_sale(const struct play *play)
{
    enum store_status sold = play->moves[1].status;

    assert_ok(play->moves[0].status);
    if (play->early == &play->moves[0] || sold != STORE_OK)
        assert_int_equal(sold, STORE_SHORT);
}

static void check_both_changes(const struct play *play)
{
    both_ok(play);
    assert_int_equal(product_of(play).limit_per_user, 1);
    assert_int_equal(product_of(play).price_cents, 7);
}

static const struct rule rules[] = {
    {"stock", {.initial = 1}, {sell, sell}, check_stock},
    {"gathered stock",
     {.initial = 2, .segments = 2},
     {sell_gathered, sell_elsewhere},
     check_stock},
    {"limit",
     {.initial = 10, .limit_per_user = 1, .segments = 2},
     {sell_elsewhere, sell_elsewhere},
     check_limit},
    {"limit set",
     {.initial = 10},
     {sell_elsewhere, limit_to_1},
     check_limit_set},
    {"limit set and cancel",
     {.initial = 10},
     {cancel, limit_to_1},
     check_limit_and_cancel},
    {"limit counted and cancel",
     {.initial = 10, .segments = 2},
     {cancel, sell_to_2_elsewhere},
     check_limit_and_cancel},
    {"key", {.initial = 10}, {sell_with_key, sell_with_key}, check_key},
    {"window", {.initial = 10}, {sell, end_sale}, check_window},
    {"price", {.initial = 10}, {sell, raise_price}, check_price},
    {"fence", {.initial = 10}, {sell_under_10, stamp_11}, check_fence},
    {"cancel once", {.initial = 10}, {cancel, cancel}, check_cancel},
    {"payment once",
     {.initial = 10, .pay_within_s = 99},
     {pay, pay},
     one_replayed},
    {"two payments",
     {.initial = 10, .pay_within_s = 99},
     {pay, pay},
     check_paid_once},
    {"payment and cancel",
     {.initial = 10, .pay_within_s = 99},
     {pay, cancel},
     check_pay_and_cancel},
    {"restock once", {.initial = 10}, {restock, restock}, check_restock},
    {"resize", {.initial = 10, .segments = 2}, {resize, resize}, check_resize},
    {"resize and sale",
     {.initial = 2, .segments = 2},
     {resize, sell_elsewhere},
     check_resize_and_sale},
    {"resize and restock",
     {.initial = 10, .segments = 2},
     {resize, restock},
     check_resize},
    {"two changes",
     {.initial = 10},
     {limit_to_1, raise_price},
     check_both_changes},
    {"create once", {.initial = 0}, {create, create}, one_replayed},
};

/* ---- a play ------------------------------------------------------------- */

static void *run_move(void *arg)
{
    struct move *move = arg;

    move->rule->verbs[move->who](move);
    store_nodes_tell(&move->done);
    return NULL;
}

static void begin(struct move *move)
{
    assert_int_equal(pthread_create(&move->thread, NULL, run_move, move), 0);
}

static void set_stage(struct play *play, const struct rule *rule, int first)
{
    struct store_product product = rule->product;
    struct move *move = play->moves;
    /* Set after the order, which nobody has counted then. */
    bool has_limit = rule->verbs[1] == sell_to_2_elsewhere;
    bool has_order = rule->verbs[0] == cancel || rule->verbs[0] == pay;

    product.id = ++last_id;
    *play = (struct play){.early = NULL};
    for (int who = 0; who < 2; who++)
        play->moves[who] = (struct move){
            .store = who == first ? rig.store : other,
            .rule = rule,
            .id = product.id,
            .who = who,
            .order_id = play->order_id,
        };
    if (product.initial > 0)
        store_rig_put(&rig, product);
    if (rule->verbs[0] == sell_under_10) {
        struct move before = *move;

        before.store = rig.store;
        sell_under_10(&before);
        assert_ok(before.status);
    }
    if (has_order) {
        struct store_order order = store_rig_ask(product.id, 1, 1, "");

        store_rig_place(&rig, &order);
        memcpy(play->order_id, order.id, sizeof(order.id));
    }
    if (has_limit) {
        struct move before = {.store = rig.store, .id = product.id};

        limit_to_1(&before);
        assert_ok(before.status);
    }
    /* A node may be late, also with what it was asked to wait for. */
    while (nodes.second && product.initial > 0 &&
           store_nodes_number(
               nodes.second,
               "SELECT (SELECT COUNT(*) FROM products WHERE id = ?1) + "
               "(SELECT COUNT(*) FROM orders WHERE product_id = ?1) + "
               "(SELECT COUNT(*) FROM products WHERE id = ?1 AND NOT counted)",
               product.id) < 1 + has_order + has_limit)
        store_nodes_glance();
}

/* False: the first one was through before its statement AT. */
static bool play(const struct rule *rule, int first, int at)
{
    struct play play;
    struct move *one = &play.moves[first], *two = &play.moves[!first];
    /* The second one is committed by then, and not known. */
    bool unknown = at == STORE_NODES_COMMIT, stopped;

    set_stage(&play, rule, first);
    store_nodes_stop_at(rig.store, at);
    begin(one);
    stopped = store_nodes_await_stop(&one->done);
    if (stopped && unknown)
        store_nodes_hold_back(&nodes);
    begin(two);
    do
        store_nodes_glance();
    while (!store_nodes_is_told(&two->done) &&
           (unknown || !store_nodes_is_blocked(&nodes)));
    if (stopped && store_nodes_is_told(&two->done))
        play.early = two;
    store_nodes_go_on();
    if (stopped && unknown)
        store_nodes_let_in(&nodes);
    pthread_join(one->thread, NULL);
    pthread_join(two->thread, NULL);
    rule->check(&play);
    return stopped;
}

static void test_rule(void **state)
{
    const struct rule *rule = *state;
    int stops = 0;

    for (int first = 0; first < 2; first++) {
        for (int at = 1; play(rule, first, at); at++)
            stops++;
        if (nodes.first)
            assert_true(play(rule, first, STORE_NODES_COMMIT));
    }
    print_message("# %s: %d stops\n", rule->name, stops);
    assert_true(stops >= 2 * 2);
    store_rig_expect_sound(&rig);
}

/* ---- connections --------------------------------------------------------- */

static bool is_connected(int64_t id)
{
    return store_nodes_number(nodes.second,
                              "SELECT COUNT(*) FROM "
                              "information_schema.processlist WHERE id = ?1",
                              id) > 0;
}

/* The second node is cut off in the middle of a transaction, and refuses all of
 * its statements, the ROLLBACK as well: the next one must not go on with it. */
UNIT_TEST(a_rollback_that_is_refused_ends_the_connection)
{
    const char *count = "SELECT COUNT(*) FROM held";
    int64_t before, id, n = 0;
    struct sql *db;

    if (!nodes.first)
        skip();
    db = store_nodes_connect(&rig);
    assert_ok(nodes.second->engine->script(
        nodes.second, "SET SESSION wsrep_sync_wait = 0;\n"));
    assert_ok(sql_begin(db));
    before = store_nodes_number(db, count);
    id = store_nodes_number(db, "SELECT CONNECTION_ID()");
    assert_ok(sql_run(db, "INSERT INTO held VALUES ()"));
    assert_ok(sql_run(nodes.second, ISOLATE "=1'"));
    while (sql_first(sql_query(db, count), &n) == STORE_OK)
        store_nodes_glance();
    assert_int_not_equal(sql_rollback(db), STORE_OK);
    assert_ok(sql_run(nodes.second, ISOLATE "=0'"));
    for (int i = 0; i < GLANCES_MAX && is_connected(id); i++)
        store_nodes_glance();
    assert_false(is_connected(id));
    while (sql_begin(db) != STORE_OK)
        store_nodes_glance();
    assert_int_equal(store_nodes_number(db, count), before);
    (void)sql_rollback(db);
    sql_close(db);
}

/* ---- two instances ------------------------------------------------------- */

static int set_up(NO_STATE)
{
    struct store_options options = {.shared = true,
                                    .busy_ms = STORE_NODES_BUSY_MS};
    char url[sizeof(rig.dir.url)];

    store_rig_begin(&rig);
    store_rig_open(&rig, options);
    store_nodes_url(&rig, url, sizeof(url));
    options.url = url;
    assert_ok(store_open(&options, &other, NULL));
    store_nodes_open(&nodes, &rig);
    return 0;
}

static int tear_down(NO_STATE)
{
    store_nodes_close(&nodes);
    store_close(other);
    store_rig_end(&rig);
    return 0;
}

int main(void)
{
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        unit_test_add(&(struct CMUnitTest)CASE_TEST(rules[i].name, test_rule,
                                                    (void *)&rules[i]),
                      0);
    return unit_test_run(set_up, tear_down);
}

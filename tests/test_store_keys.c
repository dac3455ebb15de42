/*
 * Keys and limits over the buckets of SQLite (db/ledger/filter.h): a key answers with
 * its first order and a limit counts all of its user's, wherever they stand, whatever
 * the filters say, and whoever wrote them. A bucket ends where a test wants it: an
 * order of somebody else has the number before.
 */
#include "db/store/committer.h"
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <inttypes.h>
#include <unistd.h>

#define BUCKET (INT64_C(1) << FILTER_BUCKET_BITS)
#define FILTER (INT64_C(1) << FILTER_ORDERS_BITS)

static void put(struct store_rig *rig, int64_t limit)
{
    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = 1000, .limit_per_user = limit});
}

static int set_up(void **state)
{
    struct store_rig *rig = calloc(1, sizeof(*rig));
    bool shared = *state != NULL;

    *state = rig;
    store_rig_begin(rig);
    store_rig_open(rig, (struct store_options){.shared = shared});
    store_rig_sqlite_only(rig);
    put(rig, 3);
    return 0;
}

/* The next order gets NUMBER. */
static void skip_to(struct store_rig *rig, int64_t number)
{
    store_rig_sql(
        rig,
        text_of("INSERT INTO orders (number, secret, product_id, segment, "
                "user_id, quantity, price_cents, limit_per_user, fence, state, "
                "created_ms, cancelled_ms) "
                "VALUES (%" PRId64 ", 1, 1, 0, 999, 1, 0, 0, 0, 1, 1, 1)",
                number - 1));
}

static struct store *store_of(struct store_rig *rig)
{
    struct store_options options = {.url = rig->dir.url, .shared = true};
    struct store *other;

    assert_ok(store_open(&options, &other, NULL));
    return other;
}

static struct store_order buy_at(struct store *store, int64_t user,
                                 const char *key)
{
    struct store_order order = store_rig_ask(1, user, 1, key), *one = &order;

    assert_ok(store_place(store, &one, 1, NULL, NULL));
    return order;
}

/* KEY is new, and its order gets NUMBER. */
static void is_sold(struct store *store, const char *key, int64_t number)
{
    static int64_t users = 100;
    struct store_order order = buy_at(store, users++, key);

    assert_int_equal(order.status, STORE_OK);
    assert_false(order.replayed);
    assert_int_equal(order.number, number);
}

/* KEY is that of the order with NUMBER, whose user is not the one that asks. */
static void is_known(struct store_rig *rig, struct store *store,
                     const char *key, int64_t number)
{
    struct store_order found;

    assert_int_equal(buy_at(store, 1, key).status, STORE_KEY_REUSED);
    assert_ok(store_order_by_key(rig->reader, key, &found, NULL));
    assert_int_equal(found.number, number);
}

static void reopen(struct store_rig *rig)
{
    store_rig_close(rig);
    store_rig_open(rig, (struct store_options){0});
}

/* A key in each of these: at the ends of a bucket and of a filter. */
static const struct {
    const char *key;
    int64_t number;
} places[] = {{"a", 1},          {"b", BUCKET - 1}, {"c", BUCKET},
              {"d", 5 * BUCKET}, {"e", FILTER - 1}, {"f", FILTER},
              {"g", 3 * FILTER}, {"h", 4 * FILTER}};
#define PLACES (sizeof(places) / sizeof(places[0]))

static void sell_all(struct store_rig *rig)
{
    for (size_t i = 0; i < PLACES; i++) {
        if (i > 0 && places[i].number > places[i - 1].number + 1)
            skip_to(rig, places[i].number);
        is_sold(rig->store, places[i].key, places[i].number);
    }
}

static void all_are_known(struct store_rig *rig, struct store *store)
{
    struct store_order order;

    for (size_t i = 0; i < PLACES; i++)
        is_known(rig, store, places[i].key, places[i].number);
    assert_int_equal(store_order_by_key(rig->reader, "new", &order, NULL),
                     STORE_NO_ORDER);
    store_rig_expect_sound(rig);
}

STORE_OWN_TEST(test_key_in_any_bucket)
{
    sell_all(rig);
    all_are_known(rig, rig->store);
    reopen(rig);
    all_are_known(rig, rig->store);
    is_sold(rig->store, "new", 4 * FILTER + 1);
}

/* The batch's own orders are in no table when its next one is decided. */
STORE_OWN_TEST(test_batch_over_the_end_of_a_bucket)
{
    static const char *const keys[] = {"a", "b", "c", "d", "a", "c"};
    struct store_order orders[6], *batch[6];

    for (int64_t end = BUCKET; end <= FILTER; end += FILTER - BUCKET) {
        skip_to(rig, end - 1);
        for (size_t i = 0; i < 6; i++) {
            orders[i] = store_rig_ask(1, end, 1, keys[i]);
            orders[i].key[1] = end == FILTER ? 'F' : 'B';
            batch[i] = &orders[i];
        }
        assert_ok(store_place(rig->store, batch, 6, NULL, NULL));
        for (int64_t i = 0; i < 3; i++)
            assert_int_equal(orders[i].number, end - 1 + i);
        assert_int_equal(orders[3].status, STORE_LIMIT);
        assert_true(orders[4].replayed && orders[4].number == end - 1);
        assert_true(orders[5].replayed && orders[5].number == end + 1);
        store_rig_expect_sound(rig);
    }
}

/* Two or three of three, in three buckets. Only the newest row counts, or each order of a
 * user would cost as much as all that he has had. */
STORE_OWN_TEST(test_limit_counts_all_buckets)
{
    struct store_order first = buy_at(rig->store, 1, "");

    skip_to(rig, BUCKET);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_OK);
    skip_to(rig, FILTER);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_OK);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_LIMIT);
    reopen(rig);
    store_rig_sql(rig,
                  "UPDATE purchases SET units = 77 WHERE bucket_of_64 < 2");
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_LIMIT);
    assert_ok(store_cancel(rig->store, first.id, &first, NULL));
    store_rig_expect_sound(rig);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_OK);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_LIMIT);
    store_rig_expect_sound(rig);
    store_rig_sql(rig, "UPDATE purchases SET bucket_of_64 = bucket_of_64 + 1 "
                       "WHERE bucket_of_64 > 1");
    assert_int_equal(store_rig_audit(rig).miscounted, 1);
}

/* Nor if the newest row says none, or less than the one that is given back. */
STORE_OWN_TEST(test_limit_forgets_what_older_buckets_say)
{
    struct store_order first = buy_at(rig->store, 1, "");
    struct store_order second = store_rig_ask(1, 1, 2, "");

    skip_to(rig, BUCKET);
    store_rig_place(rig, &second);
    assert_ok(store_cancel(rig->store, second.id, &second, NULL));
    assert_ok(store_cancel(rig->store, first.id, &first, NULL));
    skip_to(rig, 2 * BUCKET);
    assert_ok(store_rig_buy(rig, 1, 1, 3, ""));
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_LIMIT);
    store_rig_expect_sound(rig);
}

/* An order that was not kept stays in the filter, and its bucket has no row of its user. */
STORE_OWN_TEST(test_limit_counts_what_was_kept)
{
    struct filter *filter = &rig->store->place.keys.filter;
    struct store_order first = buy_at(rig->store, 1, "");
    struct store_order undone = store_rig_ask(1, 1, 1, "");

    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_OK);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_OK);
    skip_to(rig, BUCKET);
    assert_int_equal(buy_at(rig->store, 2, "").status, STORE_OK);
    filter->next = 2 * BUCKET;
    filter_sold(filter, &undone);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_LIMIT);
    assert_ok(store_cancel(rig->store, first.id, &first, NULL));
    store_rig_expect_sound(rig);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_OK);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_LIMIT);
    store_rig_expect_sound(rig);
}

/* So many others have ordered since that the filter itself has to say which of a user's
 * buckets is the newest. */
STORE_OWN_TEST(test_limit_counts_the_newest_of_many_buckets)
{
    struct filter *filter = &rig->store->place.keys.filter;
    struct store_order first = buy_at(rig->store, 1, "");

    for (int64_t bucket = 1; bucket < 3; bucket++) {
        skip_to(rig, bucket * BUCKET);
        assert_int_equal(buy_at(rig->store, 1, "").status, STORE_OK);
    }
    skip_to(rig, 3 * BUCKET);
    memset(filter->recent, 0, sizeof(filter->recent));
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_LIMIT);
    assert_ok(store_cancel(rig->store, first.id, &first, NULL));
    store_rig_expect_sound(rig);
}

/* Units that were sold without a limit are counted when there is one. */
STORE_OWN_TEST(test_limit_that_comes_later)
{
    struct store_order first;

    put(rig, 0);
    first = buy_at(rig->store, 1, "");
    skip_to(rig, 2 * BUCKET);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_OK);
    put(rig, 2);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_LIMIT);
    store_rig_expect_sound(rig); /* they stand in his newest bucket */
    assert_ok(store_cancel(rig->store, first.id, &first, NULL));
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_OK);
    assert_int_equal(buy_at(rig->store, 1, "").status, STORE_LIMIT);
    store_rig_expect_sound(rig);
}

/* ---- filters that are of no help ----------------------------------------- */

STORE_OWN_TEST(test_no_memory_for_a_filter)
{
    struct filter *filter = &rig->store->place.keys.filter;

    sell_all(rig);
    assert_int_equal(filter->begun, 5);
    for (int i = 0; i < 5; i++) {
        free(filter->slots[i]);
        filter->slots[i] = NULL;
    }
    all_are_known(rig, rig->store);
    is_sold(rig->store, "new", 4 * FILTER + 1);
    assert_null(filter->slots[4]);
}

/* The newest orders are in none. */
STORE_OWN_TEST(test_no_memory_for_the_last_filter)
{
    struct filter *filter = &rig->store->place.keys.filter;

    assert_int_equal(buy_at(rig->store, 1, "a").status, STORE_OK);
    skip_to(rig, FILTER);
    assert_int_equal(buy_at(rig->store, 1, "b").status, STORE_OK);
    free(filter->slots[1]);
    filter->slots[1] = NULL;
    skip_to(rig, FILTER + BUCKET);
    assert_int_equal(buy_at(rig->store, 1, "c").status, STORE_OK);
    skip_to(rig, FILTER + 2 * BUCKET);
    assert_int_equal(buy_at(rig->store, 1, "d").status, STORE_LIMIT);
    assert_true(buy_at(rig->store, 1, "c").replayed);
    store_rig_expect_sound(rig);
}

/* The newest ones are in a filter that does not have it. */
STORE_OWN_TEST(test_no_memory_for_an_older_filter)
{
    struct filter *filter = &rig->store->place.keys.filter;

    is_sold(rig->store, "a", 1);
    skip_to(rig, FILTER);
    is_sold(rig->store, "b", FILTER);
    free(filter->slots[0]);
    filter->slots[0] = NULL;
    memset(filter->recent, 0, sizeof(filter->recent));
    is_known(rig, rig->store, "a", 1);
}

/* Orders that were not kept give their numbers to others, and stay in the filter: so
 * many that there is no room for the last. Then it may have any key. */
STORE_OWN_TEST(test_more_than_a_filter_takes)
{
    struct filter *filter = &rig->store->place.keys.filter;
    struct store_order order = {.product_id = 1};

    is_sold(rig->store, "a", 1);
    for (int64_t i = 1; i <= 2 * FILTER; i++) {
        filter->next = 2;
        order.user_id = i;
        snprintf(order.key, sizeof(order.key), "%" PRId64, i);
        filter_sold(filter, &order);
    }
    is_sold(rig->store, "b", 2);
    is_known(rig, rig->store, "a", 1);
    is_known(rig, rig->store, "b", 2);
    store_rig_expect_sound(rig);
}

/* The last one is over, and there is none for these. */
STORE_OWN_TEST(test_more_orders_than_filters)
{
    const int64_t last = (FILTERS_MAX + 2) * FILTER;

    store_rig_close(rig);
    skip_to(rig, last);
    store_rig_open(rig, (struct store_options){0});
    is_sold(rig->store, "a", last);
    skip_to(rig, last + FILTER);
    is_sold(rig->store, "b", last + FILTER);
    is_known(rig, rig->store, "a", last);
    store_rig_expect_sound(rig);
}

/* ---- others --------------------------------------------------------------- */

/* An instance that comes later, or writes between, is heard of. */
STORE_SHARED_TEST(test_keys_of_another_instance)
{
    struct store *other = store_of(rig);
    struct store_order found;

    is_sold(rig->store, "a", 1);
    is_known(rig, other, "a", 1);
    is_sold(other, "b", 2);
    skip_to(rig, FILTER - 1);
    is_sold(other, "c", FILTER - 1);
    is_sold(other, "d", FILTER);
    assert_ok(store_order_by_key(rig->reader, "a", &found, NULL));
    assert_int_equal(found.number, 1);
    assert_ok(store_order_by_key(rig->reader, "b", &found, NULL));
    assert_int_equal(found.number, 2);
    assert_ok(store_order_by_key(rig->reader, "c", &found, NULL));
    assert_int_equal(found.number, FILTER - 1);
    is_known(rig, rig->store, "b", 2);
    is_known(rig, rig->store, "c", FILTER - 1);
    is_known(rig, rig->store, "d", FILTER);
    assert_int_equal(buy_at(rig->store, 7, "").status, STORE_OK);
    assert_int_equal(buy_at(other, 7, "").status, STORE_OK);
    assert_int_equal(buy_at(rig->store, 7, "").status, STORE_OK);
    assert_int_equal(buy_at(other, 7, "").status, STORE_LIMIT);
    store_close(other);
    store_rig_expect_sound(rig);
}

/* The filter goes on behind the last order of a batch: by another one's number and secret all
 * orders would be read anew whenever somebody else has written. */
STORE_SHARED_TEST(test_last_of_a_batch_is_what_was_seen)
{
    const struct filter *filter = &rig->store->place.keys.filter;
    struct store_order orders[2], *both[] = {&orders[0], &orders[1]};

    for (size_t i = 0; i < 2; i++)
        orders[i] = store_rig_ask(1, 1, 1, "");
    assert_ok(store_place(rig->store, both, 2, NULL, NULL));
    assert_int_equal(filter->seen, orders[1].number);
    assert_int_equal(filter->secret, orders[1].secret);
}

/* The committer reads ahead what others sell, because a batch keeps all others out
 * meanwhile. */
STORE_SHARED_TEST(test_orders_of_others_are_read_ahead)
{
    struct store *other = store_of(rig);
    struct filter *filter;

    store_rig_close(rig);
    store_rig_open(rig, (struct store_options){.shared = true, .look_ms = 10});
    filter = &rig->store->place.keys.filter;
    is_sold(other, "a", 1);
    for (int i = 0; i < 5000 && filter->seen == 0; i++)
        usleep(2000);
    assert_int_equal(filter->seen, 1);
    store_close(other);
}

/* The number of an order that was not kept is somebody else's then. */
STORE_SHARED_TEST(test_number_of_an_order_that_was_not_kept)
{
    struct store *other = store_of(rig);
    struct store_order order = store_rig_ask(1, 1, 1, "a"), *one = &order;

    rig->steps.failing = "commit";
    assert_int_equal(store_place(rig->store, &one, 1, NULL, NULL), STORE_IO);
    rig->steps.failing = NULL;
    is_sold(other, "b", 1);
    is_known(rig, rig->store, "b", 1);
    is_sold(rig->store, "a", 2);
    is_known(rig, other, "a", 2);
    store_close(other);
}

/* Nor does a look into a file that is locked just now take back what was seen: all orders
 * would be read once more, in a transaction that keeps the others out. */
STORE_SHARED_TEST(test_look_into_a_file_that_is_locked)
{
    struct filter *filter = &rig->store->place.keys.filter;
    struct sql *db = rig->store->db;
    int64_t secret;
    sqlite3 *busy;

    is_sold(rig->store, "a", 1);
    secret = filter->secret;
    busy = store_rig_connect(rig, "BEGIN EXCLUSIVE");
    db->hasty = true;
    assert_int_equal(filter_read(filter, db), STORE_BUSY);
    db->hasty = false;
    sqlite3_close(busy);
    assert_int_equal(filter->seen, 1);
    assert_int_equal(filter->secret, secret);
    is_known(rig, rig->store, "a", 1);
}

/* A copy of before is put in the place of the database, and another instance goes on
 * with it: that it has the numbers which were seen here says nothing of its keys. */
STORE_SHARED_TEST(test_another_database_in_its_place)
{
    struct store *other = store_of(rig);
    struct store_order found;

    is_sold(rig->store, "a", 1);
    skip_to(rig, BUCKET);
    is_sold(rig->store, "b", BUCKET);
    is_sold(rig->store, "c", BUCKET + 1);
    store_rig_sql(rig, "DELETE FROM orders WHERE number > 1");
    is_sold(other, "x", 2);
    skip_to(rig, BUCKET + 1);
    is_sold(other, "y", BUCKET + 1);
    assert_ok(store_order_by_key(rig->reader, "x", &found, NULL));
    assert_int_equal(found.number, 2);
    is_known(rig, rig->store, "x", 2);
    is_known(rig, rig->store, "y", BUCKET + 1);
    store_close(other);
}

/* C cannot compare a number with one in SQL; and a bucket that is no more than a part of
 * the key comes first there, because SQLite's own check goes wrong if it does not. */
STORE_OWN_TEST(test_schema_has_the_same_buckets)
{
    sqlite3 *db = store_rig_connect(rig, "SELECT 1");

    assert_int_equal(
        store_rig_number(db, text_of("SELECT COUNT(*) FROM sqlite_schema "
                                     "WHERE name = 'orders_key_of_64' "
                                     "AND sql LIKE '%%number >> %d, key%%'",
                                     FILTER_BUCKET_BITS)),
        1);
    is_sold(rig->store, "a", 1);
    assert_int_equal(
        store_rig_number(db, "SELECT COUNT(*) FROM pragma_integrity_check "
                             "WHERE integrity_check = 'ok'"),
        1);
    sqlite3_close(db);
}

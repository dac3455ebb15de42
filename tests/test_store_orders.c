/*
 * Orders after they are placed: found again, cancelled exactly once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/temp_dir.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 8

struct fixture {
    struct temp_dir dir;
    struct store *store;
    struct store_reader *reader;
};

static void put(struct fixture *fixture, int64_t limit)
{
    struct store_product product = {
        .id = 1, .initial = 1000, .limit_per_user = limit, .name = "Thing"};

    assert_int_equal(store_product_put(fixture->store, &product, NULL, NULL),
                     STORE_OK);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    struct store_options options = {0};

    temp_dir_make(&fixture->dir);
    options.url = fixture->dir.url;
    assert_int_equal(store_open(&options, &fixture->store, NULL), STORE_OK);
    assert_int_equal(store_reader_open(fixture->store, &fixture->reader, NULL),
                     STORE_OK);
    put(fixture, 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    store_reader_close(fixture->reader);
    store_close(fixture->store);
    temp_dir_remove(&fixture->dir);
    free(fixture);
    return 0;
}

static struct store_order buy(struct fixture *fixture, int64_t quantity,
                              const char *key)
{
    struct store_order order = {
        .product_id = 1, .user_id = 1, .quantity = quantity};
    struct store_order *orders[] = {&order};

    snprintf(order.key, sizeof(order.key), "%s", key);
    assert_int_equal(store_place(fixture->store, orders, 1, NULL, NULL),
                     STORE_OK);
    return order;
}

static enum store_status cancel(struct fixture *fixture, const char *id,
                                struct store_order *order)
{
    return store_cancel(fixture->store, id, order, NULL);
}

static enum store_status get(struct fixture *fixture, const char *id)
{
    struct store_order order;

    return store_order_get(fixture->reader, id, &order, NULL);
}

static int64_t stock(struct fixture *fixture)
{
    struct store_product product;

    assert_int_equal(store_product_get(fixture->reader, 1, &product, NULL),
                     STORE_OK);
    return product.stock;
}

static struct store_audit audit(struct fixture *fixture)
{
    struct store_audit verdict;

    assert_int_equal(
        store_audit(fixture->reader, NULL, NULL, NULL, 0, &verdict, NULL),
        STORE_OK);
    return verdict;
}

static void test_cancel_returns_the_units_once(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = buy(fixture, 3, ""), first, second, found;

    assert_int_equal(stock(fixture), 997);
    assert_int_equal(cancel(fixture, order.id, &first), STORE_OK);
    assert_false(first.replayed);
    assert_int_equal(first.state, STORE_CANCELLED);
    assert_true(first.cancelled_ms >= order.created_ms);
    assert_int_equal(first.quantity, 3);
    assert_int_equal(stock(fixture), 1000);
    assert_int_equal(cancel(fixture, order.id, &second), STORE_OK);
    assert_true(second.replayed);
    assert_int_equal(second.cancelled_ms, first.cancelled_ms);
    assert_int_equal(stock(fixture), 1000);
    assert_int_equal(store_order_get(fixture->reader, order.id, &found, NULL),
                     STORE_OK);
    assert_int_equal(found.state, STORE_CANCELLED);
    assert_int_equal(audit(fixture).cancelled, 1);
    assert_int_equal(audit(fixture).orders, 0);
    assert_true(audit(fixture).balanced);
}

static void test_cancel_frees_the_users_limit(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order;

    put(fixture, 2);
    order = buy(fixture, 2, "");
    assert_int_equal(buy(fixture, 1, "").status, STORE_LIMIT);
    assert_int_equal(cancel(fixture, order.id, &order), STORE_OK);
    assert_int_equal(cancel(fixture, order.id, &order), STORE_OK);
    assert_int_equal(buy(fixture, 2, "").status, STORE_OK);
    assert_int_equal(buy(fixture, 1, "").status, STORE_LIMIT);
    assert_true(audit(fixture).balanced);
}

/* Bought without a limit, cancelled with one, and the other way round. */
static void test_cancel_across_a_change_of_limit(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = buy(fixture, 5, "");

    put(fixture, 5);
    assert_int_equal(buy(fixture, 1, "").status, STORE_LIMIT);
    assert_int_equal(cancel(fixture, order.id, &order), STORE_OK);
    order = buy(fixture, 5, "");
    assert_int_equal(order.status, STORE_OK);
    put(fixture, 0);
    assert_int_equal(cancel(fixture, order.id, &order), STORE_OK);
    put(fixture, 5);
    assert_int_equal(buy(fixture, 5, "").status, STORE_OK);
    assert_true(audit(fixture).balanced);
}

struct canceller {
    struct fixture *fixture;
    const char *id;
    bool did_it;
    pthread_t thread;
};

static void *canceller_main(void *arg)
{
    struct canceller *canceller = arg;
    struct store_order order;
    enum store_status status =
        cancel(canceller->fixture, canceller->id, &order);

    canceller->did_it = status == STORE_OK && !order.replayed;
    return NULL;
}

static void test_many_cancel_at_once(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = buy(fixture, 2, "");
    struct canceller cancellers[THREADS] = {0};
    int did_it = 0;

    for (int i = 0; i < THREADS; i++) {
        cancellers[i].fixture = fixture;
        cancellers[i].id = order.id;
        pthread_create(&cancellers[i].thread, NULL, canceller_main,
                       &cancellers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(cancellers[i].thread, NULL);
        did_it += cancellers[i].did_it;
    }
    assert_int_equal(did_it, 1);
    assert_int_equal(stock(fixture), 1000);
    assert_true(audit(fixture).balanced);
}

/* Its second step fails: the first must not stay. */
static void test_half_a_cancel_is_no_cancel(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = buy(fixture, 2, ""), found;

    assert_int_equal(
        store_naive_update(fixture->store, 1, 0, STORE_NUMBER_MAX, NULL, NULL),
        STORE_OK);
    assert_int_equal(cancel(fixture, order.id, &found), STORE_RANGE);
    assert_int_equal(store_order_get(fixture->reader, order.id, &found, NULL),
                     STORE_OK);
    assert_int_equal(found.state, STORE_PLACED);
    assert_int_equal(found.cancelled_ms, 0);
    assert_int_equal(store_naive_update(fixture->store, 1, 0, 998, NULL, NULL),
                     STORE_OK);
    assert_int_equal(cancel(fixture, order.id, &found), STORE_OK);
    assert_true(audit(fixture).balanced);
}

/* A key stays with its order, also after the cancel: no second sale. */
static void test_replay_of_a_cancelled_order(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = buy(fixture, 1, "key"), again;

    assert_int_equal(cancel(fixture, order.id, &again), STORE_OK);
    again = buy(fixture, 1, "key");
    assert_int_equal(again.status, STORE_OK);
    assert_true(again.replayed);
    assert_int_equal(again.state, STORE_CANCELLED);
    assert_int_equal(stock(fixture), 1000);
}

static void test_by_key(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = buy(fixture, 4, "the key"), found;

    assert_int_equal(
        store_order_by_key(fixture->reader, "the key", &found, NULL), STORE_OK);
    assert_string_equal(found.id, order.id);
    assert_int_equal(found.quantity, 4);
    assert_int_equal(found.status, STORE_OK);
    assert_int_equal(
        store_order_by_key(fixture->reader, "no key", &found, NULL),
        STORE_NO_ORDER);
    buy(fixture, 1, "");
    assert_int_equal(store_order_by_key(fixture->reader, "", &found, NULL),
                     STORE_NO_ORDER);
}

static void test_longest_key(void **state)
{
    struct fixture *fixture = *state;
    char key[STORE_KEY_BYTES_MAX + 1];
    struct store_order order, found;

    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    order = buy(fixture, 1, key);
    assert_int_equal(order.status, STORE_OK);
    assert_int_equal(store_order_by_key(fixture->reader, key, &found, NULL),
                     STORE_OK);
    assert_string_equal(found.key, key);
    assert_string_equal(found.id, order.id);
}

/* The number is no secret; whoever knows it still needs the rest. */
static void test_ids_cannot_be_guessed(void **state)
{
    struct fixture *fixture = *state;
    struct store_order a = buy(fixture, 1, ""), b = buy(fixture, 1, ""), c;
    char *secret = strchr(a.id, '-') + 1, mixed[STORE_ID_BYTES_MAX + 1];

    assert_int_equal(strlen(secret), 16);
    assert_string_not_equal(secret, strchr(b.id, '-') + 1);
    snprintf(mixed, sizeof(mixed), "%d-%s", (int)b.number, secret);
    assert_int_equal(get(fixture, mixed), STORE_NO_ORDER);
    assert_int_equal(cancel(fixture, mixed, &c), STORE_NO_ORDER);
    for (int i = 0; i < 16; i++) {
        memcpy(mixed, a.id, sizeof(mixed));
        mixed[strlen(mixed) - 1 - (size_t)i] ^= 1;
        assert_int_equal(get(fixture, mixed), STORE_NO_ORDER);
    }
    assert_int_equal(get(fixture, a.id), STORE_OK);
    assert_int_equal(stock(fixture), 998);
}

static void test_texts_that_are_no_ids(void **state)
{
    struct fixture *fixture = *state;
    struct store_order order = buy(fixture, 1, "");
    const char *secret = strchr(order.id, '-') + 1;
    const char *const forms[] = {" 1-%s",
                                 "+1-%s",
                                 "01-%s",
                                 "1-%s ",
                                 "1 -%s",
                                 "1-0x%s",
                                 "-1-%s",
                                 "1--%s",
                                 "1%s",
                                 "0-%s",
                                 "1-",
                                 "",
                                 "99999999999999999999-%s",
                                 "2-%s"};
    char id[100];

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(id, sizeof(id), forms[i], secret);
#pragma GCC diagnostic pop
        assert_int_equal(get(fixture, id), STORE_NO_ORDER);
    }
}

static void test_error_is_left_alone_on_success(void **state)
{
    struct fixture *fixture = *state;
    struct store_error error = {"before"};
    struct store_order order = buy(fixture, 1, ""), found;

    assert_int_equal(store_order_get(fixture->reader, order.id, &found, &error),
                     STORE_OK);
    assert_string_equal(error.text, "before");
    assert_int_equal(store_order_get(fixture->reader, "x", &found, &error),
                     STORE_NO_ORDER);
    assert_string_not_equal(error.text, "before");
}

#define WITH_STORE(test)                                                       \
    cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORE(test_cancel_returns_the_units_once),
        WITH_STORE(test_cancel_frees_the_users_limit),
        WITH_STORE(test_cancel_across_a_change_of_limit),
        WITH_STORE(test_many_cancel_at_once),
        WITH_STORE(test_half_a_cancel_is_no_cancel),
        WITH_STORE(test_replay_of_a_cancelled_order),
        WITH_STORE(test_by_key),
        WITH_STORE(test_longest_key),
        WITH_STORE(test_ids_cannot_be_guessed),
        WITH_STORE(test_texts_that_are_no_ids),
        WITH_STORE(test_error_is_left_alone_on_success),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

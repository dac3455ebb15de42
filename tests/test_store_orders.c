/*
 * Orders after they are placed: found again, cancelled exactly once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/store.h"
#include "tests/support/store_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define THREADS 8

static void put(struct store_rig *rig, int64_t limit)
{
    const struct store_product product = {
        .id = 1, .initial = 1000, .limit_per_user = limit};

    store_rig_put(rig, product);
}

static int set_up(void **state)
{
    store_rig_set_up(state);
    put(*state, 0);
    return 0;
}

static struct store_order buy(struct store_rig *rig, int64_t quantity,
                              const char *key)
{
    struct store_order order = store_rig_ask(1, 1, quantity, key);

    store_rig_place(rig, &order);
    return order;
}

static enum store_status cancel(struct store_rig *rig, const char *id,
                                struct store_order *order)
{
    return store_cancel(rig->store, id, order, NULL);
}

static enum store_status get(struct store_rig *rig, const char *id)
{
    struct store_order order;

    return store_order_get(rig->reader, id, &order, NULL);
}

static void test_cancel_returns_the_units_once(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = buy(rig, 3, ""), first, second, found;

    assert_int_equal(store_rig_product(rig, 1).stock, 997);
    assert_int_equal(cancel(rig, order.id, &first), STORE_OK);
    assert_false(first.replayed);
    assert_int_equal(first.state, STORE_CANCELLED);
    assert_true(first.cancelled_ms >= order.created_ms);
    assert_int_equal(first.quantity, 3);
    assert_int_equal(store_rig_product(rig, 1).stock, 1000);
    assert_int_equal(cancel(rig, order.id, &second), STORE_OK);
    assert_true(second.replayed);
    assert_int_equal(second.cancelled_ms, first.cancelled_ms);
    assert_int_equal(store_rig_product(rig, 1).stock, 1000);
    assert_int_equal(store_order_get(rig->reader, order.id, &found, NULL),
                     STORE_OK);
    assert_int_equal(found.state, STORE_CANCELLED);
    assert_int_equal(store_rig_audit(rig).cancelled, 1);
    assert_int_equal(store_rig_audit(rig).orders, 0);
    store_rig_expect_sound(rig);
}

static void test_cancel_frees_the_users_limit(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order;

    put(rig, 2);
    order = buy(rig, 2, "");
    assert_int_equal(buy(rig, 1, "").status, STORE_LIMIT);
    assert_int_equal(cancel(rig, order.id, &order), STORE_OK);
    assert_int_equal(cancel(rig, order.id, &order), STORE_OK);
    assert_int_equal(buy(rig, 2, "").status, STORE_OK);
    assert_int_equal(buy(rig, 1, "").status, STORE_LIMIT);
    store_rig_expect_sound(rig);
}

/* Bought without a limit, cancelled with one, and the other way round. */
static void test_cancel_across_a_change_of_limit(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = buy(rig, 5, "");

    put(rig, 5);
    assert_int_equal(buy(rig, 1, "").status, STORE_LIMIT);
    assert_int_equal(cancel(rig, order.id, &order), STORE_OK);
    order = buy(rig, 5, "");
    assert_int_equal(order.status, STORE_OK);
    put(rig, 0);
    assert_int_equal(cancel(rig, order.id, &order), STORE_OK);
    put(rig, 5);
    assert_int_equal(buy(rig, 5, "").status, STORE_OK);
    store_rig_expect_sound(rig);
}

struct canceller {
    struct store_rig *rig;
    const char *id;
    bool did_it;
    pthread_t thread;
};

static void *canceller_main(void *arg)
{
    struct canceller *canceller = arg;
    struct store_order order;
    enum store_status status = cancel(canceller->rig, canceller->id, &order);

    canceller->did_it = status == STORE_OK && !order.replayed;
    return NULL;
}

static void test_many_cancel_at_once(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = buy(rig, 2, "");
    struct canceller cancellers[THREADS] = {0};
    int did_it = 0;

    for (int i = 0; i < THREADS; i++) {
        cancellers[i].rig = rig;
        cancellers[i].id = order.id;
        pthread_create(&cancellers[i].thread, NULL, canceller_main,
                       &cancellers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(cancellers[i].thread, NULL);
        did_it += cancellers[i].did_it;
    }
    assert_int_equal(did_it, 1);
    assert_int_equal(store_rig_product(rig, 1).stock, 1000);
    store_rig_expect_sound(rig);
}

/* Its second step fails: the first must not stay. */
static void test_half_a_cancel_is_no_cancel(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = buy(rig, 2, ""), found;

    assert_int_equal(
        store_naive_update(rig->store, 1, 0, STORE_NUMBER_MAX, NULL, NULL),
        STORE_OK);
    assert_int_equal(cancel(rig, order.id, &found), STORE_RANGE);
    assert_int_equal(store_order_get(rig->reader, order.id, &found, NULL),
                     STORE_OK);
    assert_int_equal(found.state, STORE_PLACED);
    assert_int_equal(found.cancelled_ms, 0);
    assert_int_equal(store_naive_update(rig->store, 1, 0, 998, NULL, NULL),
                     STORE_OK);
    assert_int_equal(cancel(rig, order.id, &found), STORE_OK);
    store_rig_expect_sound(rig);
}

/* A key stays with its order, also after the cancel: no second sale. */
static void test_replay_of_a_cancelled_order(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = buy(rig, 1, "key"), again;

    assert_int_equal(cancel(rig, order.id, &again), STORE_OK);
    again = buy(rig, 1, "key");
    assert_int_equal(again.status, STORE_OK);
    assert_true(again.replayed);
    assert_int_equal(again.state, STORE_CANCELLED);
    assert_int_equal(store_rig_product(rig, 1).stock, 1000);
}

static void test_by_key(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = buy(rig, 4, "the key"), found;

    assert_int_equal(store_order_by_key(rig->reader, "the key", &found, NULL),
                     STORE_OK);
    assert_string_equal(found.id, order.id);
    assert_int_equal(found.quantity, 4);
    assert_int_equal(found.status, STORE_OK);
    assert_int_equal(store_order_by_key(rig->reader, "no key", &found, NULL),
                     STORE_NO_ORDER);
    buy(rig, 1, "");
    assert_int_equal(store_order_by_key(rig->reader, "", &found, NULL),
                     STORE_NO_ORDER);
}

static void test_longest_key(void **state)
{
    struct store_rig *rig = *state;
    char key[STORE_KEY_BYTES_MAX + 1];
    struct store_order order, found;

    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    order = buy(rig, 1, key);
    assert_int_equal(order.status, STORE_OK);
    assert_int_equal(store_order_by_key(rig->reader, key, &found, NULL),
                     STORE_OK);
    assert_string_equal(found.key, key);
    assert_string_equal(found.id, order.id);
}

/* The number is no secret; whoever knows it still needs the rest. */
static void test_ids_cannot_be_guessed(void **state)
{
    struct store_rig *rig = *state;
    struct store_order a = buy(rig, 1, ""), b = buy(rig, 1, ""), c;
    char *secret = strchr(a.id, '-') + 1, mixed[STORE_ID_BYTES_MAX + 1];

    assert_int_equal(strlen(secret), 16);
    assert_string_not_equal(secret, strchr(b.id, '-') + 1);
    snprintf(mixed, sizeof(mixed), "%d-%s", (int)b.number, secret);
    assert_int_equal(get(rig, mixed), STORE_NO_ORDER);
    assert_int_equal(cancel(rig, mixed, &c), STORE_NO_ORDER);
    for (int i = 0; i < 16; i++) {
        memcpy(mixed, a.id, sizeof(mixed));
        mixed[strlen(mixed) - 1 - (size_t)i] ^= 1;
        assert_int_equal(get(rig, mixed), STORE_NO_ORDER);
    }
    assert_int_equal(get(rig, a.id), STORE_OK);
    assert_int_equal(store_rig_product(rig, 1).stock, 998);
}

static void test_texts_that_are_no_ids(void **state)
{
    struct store_rig *rig = *state;
    struct store_order order = buy(rig, 1, "");
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
        assert_int_equal(get(rig, id), STORE_NO_ORDER);
    }
}

static void test_error_is_left_alone_on_success(void **state)
{
    struct store_rig *rig = *state;
    struct store_error error = {"before"};
    struct store_order order = buy(rig, 1, ""), found;

    assert_int_equal(store_order_get(rig->reader, order.id, &found, &error),
                     STORE_OK);
    assert_string_equal(error.text, "before");
    assert_int_equal(store_order_get(rig->reader, "x", &found, &error),
                     STORE_NO_ORDER);
    assert_string_not_equal(error.text, "before");
}

#define ON_SALE(test)                                                          \
    cmocka_unit_test_setup_teardown(test, set_up, store_rig_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SALE(test_cancel_returns_the_units_once),
        ON_SALE(test_cancel_frees_the_users_limit),
        ON_SALE(test_cancel_across_a_change_of_limit),
        ON_SALE(test_many_cancel_at_once),
        ON_SALE(test_half_a_cancel_is_no_cancel),
        ON_SALE(test_replay_of_a_cancelled_order),
        ON_SALE(test_by_key),
        ON_SALE(test_longest_key),
        ON_SALE(test_ids_cannot_be_guessed),
        ON_SALE(test_texts_that_are_no_ids),
        ON_SALE(test_error_is_left_alone_on_success),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

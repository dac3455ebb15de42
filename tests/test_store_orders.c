/*
 * Orders after they are placed: what a cancel gives back to a limit, and that ids cannot
 * be guessed. A second cancel: test_store_meet.c, test_store_holds.c; keys:
 * test_store_keys.c.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

static void put(struct store_rig *rig, int64_t limit)
{
    store_rig_put(rig, (struct store_product){
                           .id = 1, .initial = 1000, .limit_per_user = limit});
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

/* Also bought without a limit and cancelled with one, and the other way round. */
STORE_OWN_TEST(test_cancel_frees_the_users_limit)
{
    struct store_order order = buy(rig, 5, "");

    put(rig, 5);
    assert_int_equal(buy(rig, 1, "").status, STORE_LIMIT);
    for (int i = 0; i < 2; i++) /* once */
        assert_int_equal(cancel(rig, order.id, &order), STORE_OK);
    order = buy(rig, 5, "");
    assert_int_equal(order.status, STORE_OK);
    assert_int_equal(buy(rig, 1, "").status, STORE_LIMIT);
    put(rig, 0);
    assert_int_equal(cancel(rig, order.id, &order), STORE_OK);
    put(rig, 5);
    assert_int_equal(buy(rig, 5, "").status, STORE_OK);
    store_rig_expect_sound(rig);
}

/* What is left in purchases from an earlier limit is less than the order had. */
STORE_OWN_TEST(test_cancel_before_a_limit_is_counted)
{
    struct store_order order;

    put(rig, 5);
    assert_int_equal(buy(rig, 1, "").status, STORE_OK);
    put(rig, 0);
    order = buy(rig, 4, "");
    put(rig, 5);
    assert_int_equal(cancel(rig, order.id, &order), STORE_OK);
    assert_int_equal(buy(rig, 4, "").status, STORE_OK);
    assert_int_equal(buy(rig, 1, "").status, STORE_LIMIT);
    store_rig_expect_sound(rig);
}

/* The number is no secret; whoever knows it still needs the rest. */
STORE_OWN_TEST(test_ids_cannot_be_guessed)
{
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

STORE_OWN_TEST(test_texts_that_are_no_ids)
{
    struct store_order order = buy(rig, 1, "");
    const char *secret = strchr(order.id, '-') + 1;
    /* What stands before the secret. */
    const char *const forms[] = {" 1-",  "+1-", "01-", "1 -",
                                 "1-0x", "-1-", "1--", "1",
                                 "0-",   "2-",  "",    "99999999999999999999-"};
    char id[100];

    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        snprintf(id, sizeof(id), "%s%s", forms[i], secret);
        assert_int_equal(get(rig, id), STORE_NO_ORDER);
    }
    snprintf(id, sizeof(id), "%s ", order.id);
    assert_int_equal(get(rig, id), STORE_NO_ORDER);
    assert_int_equal(get(rig, "1-"), STORE_NO_ORDER);
    assert_int_equal(get(rig, ""), STORE_NO_ORDER);
}

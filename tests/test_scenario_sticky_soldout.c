/*
 * Scenario 40, sticky "sold out". So that thousands who come too late do not
 * all go to the database, somebody remembers that there is nothing left; then an
 * order is cancelled.
 *
 *   a flag        set by a refusal: nobody is let in any more, with a unit left
 *   cleared       by the cancel as well: a refusal from before it, whose answer
 *                 is a moment late, sets the flag again, for ever
 *   generations   what was refused before the cancel counts for nothing
 *   beside others each instance has its own: a cancel at another is not heard of
 *   shared        all have the same
 *
 * The same shop, customers and schedule; only who remembers is different.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "db/store_private.h"
#include "tests/support/desk_rig.h"

#define STOCK  3
#define ROUNDS 50

struct shop {
    struct desk_rig *rig;
    int customers;     /* so far */
    bool flag;         /* what the textbook remembers */
    bool does_clear;   /* a cancel ends it */
    bool does_foresee; /* the desk remembers, the flag is not asked */
};

static struct shop open_as(bool shared)
{
    struct config config = {.desk = DESK_COMBINE, .shared = shared};

    snprintf(config.lock, sizeof(config.lock), "process");
    return (struct shop){.rig = desk_rig_new(&config, NULL, STOCK, NULL, NULL)};
}

static struct shop shop_open(void)
{
    return open_as(false);
}

/* Units in the database. */
static int64_t left(const struct shop *shop)
{
    struct store_product product;
    struct store_reader *reader;

    assert_int_equal(store_reader_open(shop->rig->app.store, &reader, NULL),
                     STORE_OK);
    assert_int_equal(store_product_get(reader, 1, &product, NULL), STORE_OK);
    store_reader_close(reader);
    return product.stock;
}

/* Whether a customer is turned away at the door. */
static bool is_turned_away(struct shop *shop)
{
    struct ticket ticket = {
        .order = {.product_id = 1, .user_id = 9999, .quantity = 1}};

    return shop->does_foresee ? desk_foresees(shop->rig->app.desk, &ticket)
                              : shop->flag;
}

/* One who is let in; his answer. */
static enum order_outcome ask(struct shop *shop)
{
    int i = shop->customers++;

    assert_true(desk_rig_submit(shop->rig, i));
    desk_rig_wait_answered(shop->rig, i + 1);
    return shop->rig->tickets[i].outcome;
}

static void remember(struct shop *shop, enum order_outcome answer)
{
    shop->flag |= answer == ORDER_SOLD_OUT;
}

/* At an instance that need not be the one which sold it. */
static void cancel_at(struct desk_rig *rig, const struct shop *shop,
                      int customer)
{
    const char *id = shop->rig->tickets[customer].order.id;
    struct store_order order;

    assert_int_equal(store_cancel(rig->app.store, id, &order, NULL), STORE_OK);
}

static void cancel(struct shop *shop, int customer)
{
    cancel_at(shop->rig, shop, customer);
    if (shop->does_clear)
        shop->flag = false;
}

/* Everything is sold, and the one after that has heard so. */
static void sell_out(struct shop *shop)
{
    for (int i = 0; i < STOCK; i++) {
        assert_false(is_turned_away(shop));
        assert_int_equal(ask(shop), ORDER_PLACED);
    }
    assert_false(is_turned_away(shop));
    remember(shop, ask(shop));
}

/* Those who come now cost nothing: that is what remembering is for. */
static void expect_cheap(struct shop *shop)
{
    atomic_store(&shop->rig->commits, 0);
    for (int i = 0; i < 100; i++)
        assert_true(is_turned_away(shop));
    assert_int_equal(atomic_load(&shop->rig->commits), 0);
}

static void a_flag_sticks(void **state)
{
    struct shop shop = shop_open();

    (void)state;
    sell_out(&shop);
    expect_cheap(&shop);
    cancel(&shop, 0);
    assert_int_equal(left(&shop), 1);
    assert_true(is_turned_away(&shop)); /* the bug */
    desk_rig_expect_sold(shop.rig, STOCK - 1);
    desk_rig_free(shop.rig);
}

static void a_flag_that_is_cleared_is_set_again(void **state)
{
    struct shop shop = shop_open();
    enum order_outcome late;

    (void)state;
    shop.does_clear = true;
    sell_out(&shop);
    shop.flag = false;
    late = ask(&shop);
    assert_int_equal(late, ORDER_SOLD_OUT); /* and that was right */
    cancel(&shop, 0);
    remember(&shop, late);
    assert_int_equal(left(&shop), 1);
    assert_true(is_turned_away(&shop)); /* the bug */
    desk_rig_expect_sold(shop.rig, STOCK - 1);
    desk_rig_free(shop.rig);
}

/* The very next customer is let in, and gets what came back; time after time. */
static void sell_again_and_again(struct shop *shop, struct desk_rig *canceller)
{
    shop->does_foresee = true;
    sell_out(shop);
    for (int i = 0; i < ROUNDS; i++) {
        expect_cheap(shop);
        cancel_at(canceller, shop, i == 0 ? 0 : shop->customers - 2);
        assert_int_equal(left(shop), 1);
        assert_false(is_turned_away(shop));
        assert_int_equal(ask(shop), ORDER_PLACED);
        assert_int_equal(ask(shop), ORDER_SOLD_OUT);
    }
    desk_rig_expect_sold(shop->rig, STOCK);
}

static void generations_do_not_stick(void **state)
{
    struct shop shop = shop_open();

    (void)state;
    sell_again_and_again(&shop, shop.rig);
    desk_rig_free(shop.rig);
}

static void generations_of_its_own_stick_beside_another(void **state)
{
    struct shop shop = open_as(true);
    struct desk_rig *other = desk_rig_beside(shop.rig, NULL);

    (void)state;
    shop.does_foresee = true;
    shop.rig->app.store->soldout.shared = NULL; /* for itself alone */
    sell_out(&shop);
    cancel_at(other, &shop, 0);
    assert_int_equal(left(&shop), 1);
    assert_true(is_turned_away(&shop)); /* the bug */
    desk_rig_free(other);
    desk_rig_expect_sold(shop.rig, STOCK - 1);
    desk_rig_free(shop.rig);
}

static void generations_that_are_shared_do_not(void **state)
{
    struct shop shop = open_as(true);
    struct desk_rig *other = desk_rig_beside(shop.rig, NULL);

    (void)state;
    sell_again_and_again(&shop, other);
    desk_rig_free(other);
    desk_rig_free(shop.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flag_sticks),
        cmocka_unit_test(a_flag_that_is_cleared_is_set_again),
        cmocka_unit_test(generations_do_not_stick),
        cmocka_unit_test(generations_of_its_own_stick_beside_another),
        cmocka_unit_test(generations_that_are_shared_do_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

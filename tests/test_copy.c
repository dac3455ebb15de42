/*
 * The copy that orders choose a segment by: weights, tickets, counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/warm/copy.h"

static struct copy copy;

static int tear_down(void **state)
{
    (void)state;
    copy_free(&copy);
    return 0;
}

static struct store_cells cells_of(int64_t epoch, int64_t number, size_t n,
                                   const int64_t stock[])
{
    struct store_cells cells = {
        .epoch = epoch, .segments = (int64_t)n, .number = number, .n = n};

    for (size_t i = 0; i < n; i++)
        cells.cells[i] =
            (struct store_cell){.segment = (int64_t)i, .stock = stock[i]};
    return cells;
}

static struct copy_product *product_of(int64_t epoch, size_t n,
                                       const int64_t stock[])
{
    struct copy_product *product = copy_hold(&copy, 1);
    struct store_cells cells = cells_of(epoch, 100, n, stock);

    assert_true(copy_count(product, &cells));
    return product;
}

static struct warm_ticket take(struct copy_product *product, int64_t units,
                               uint64_t random)
{
    struct warm_ticket ticket = {0};

    assert_true(copy_take(product, units, random, &ticket));
    return ticket;
}

static bool has_none(struct copy_product *product, int64_t units)
{
    struct warm_ticket ticket;

    return !copy_take(product, units, 0, &ticket);
}

static void test_products_are_found(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 1000; i++)
        assert_non_null(copy_hold(&copy, 1 + i * 7919 % 1000));
    assert_int_equal(copy.n, 1000);
    for (int64_t id = 1; id <= 1000; id++)
        assert_int_equal(copy_find(&copy, id)->id, id);
    assert_null(copy_find(&copy, 0));
    assert_null(copy_find(&copy, 1001));
    assert_ptr_equal(copy_hold(&copy, 500), copy_find(&copy, 500));
}

/*
 * Every random number of a full round once: then the shares are not about right
 * but exact.
 */
static void test_as_likely_as_it_has_units(void **state)
{
    const int64_t stock[] = {1, 0, 5, 10, 84};
    struct copy_product *product = product_of(1, 5, stock);
    int64_t times[5] = {0};

    (void)state;
    for (uint64_t random = 0; random < 100; random++) {
        struct warm_ticket ticket = take(product, 1, random);

        times[ticket.segment]++;
        copy_settle(product, &ticket, WARM_KEPT);
    }
    assert_memory_equal(times, stock, sizeof(stock));
}

/* Those that have too few for this order are out of the draw. */
static void test_only_those_that_have_enough(void **state)
{
    const int64_t stock[] = {2, 3, 1, 7};
    struct copy_product *product = product_of(1, 4, stock);
    int64_t times[4] = {0};

    (void)state;
    for (uint64_t random = 0; random < 100; random++) {
        struct warm_ticket ticket = take(product, 3, random);

        times[ticket.segment]++;
        copy_settle(product, &ticket, WARM_KEPT);
    }
    assert_int_equal(times[1], 30);
    assert_int_equal(times[3], 70);
    assert_true(has_none(product, 8));
}

static void test_never_more_than_it_has(void **state)
{
    const int64_t stock[] = {2, 3, 2};
    struct copy_product *product = product_of(1, 3, stock);
    struct warm_ticket tickets[7];
    int64_t taken[3] = {0};

    (void)state;
    for (uint64_t i = 0; i < 7; i++) {
        tickets[i] = take(product, 1, i * 0x9E3779B97F4A7C15u);
        taken[tickets[i].segment]++;
    }
    assert_memory_equal(taken, stock, sizeof(stock));
    assert_true(has_none(product, 1));
    copy_settle(product, &tickets[3], WARM_KEPT);
    assert_int_equal(take(product, 1, 42).segment, tickets[3].segment);
    copy_settle(product, &tickets[4], WARM_SOLD);
    assert_true(has_none(product, 1));
    assert_true(product->chores.tell);
}

static void test_short_is_not_asked_again(void **state)
{
    const int64_t stock[] = {5, 0};
    struct copy_product *product = product_of(1, 2, stock);
    struct warm_ticket ticket = take(product, 3, 0);

    (void)state;
    copy_settle(product, &ticket, WARM_SHORT);
    assert_true(has_none(product, 3));
    assert_false(has_none(product, 2)); /* it may have those */
    assert_true(product->chores.spread);
}

/* A queue of orders is not forgotten because somebody has counted. */
static void test_tickets_stay_out_over_a_count(void **state)
{
    const int64_t stock[] = {5, 5};
    const int64_t fewer[] = {4};
    const int64_t more[] = {3, 3, 3};
    struct copy_product *product = product_of(1, 2, stock);
    struct warm_ticket first = take(product, 3, 0);
    struct warm_ticket second = take(product, 4, 9);

    (void)state;
    assert_int_equal(first.segment, 0);
    assert_int_equal(second.segment, 1);
    product_of(2, 1, fewer);
    assert_true(has_none(product, 2));
    product_of(3, 3, more);
    assert_int_equal(take(product, 3, 0).segment, 2);
    copy_settle(product, &second, WARM_KEPT);
    assert_int_equal(take(product, 3, 0).segment, 1);
    copy_settle(product, &first, WARM_KEPT);
    assert_int_equal(take(product, 3, 0).segment, 0);
    assert_true(has_none(product, 1));
}

/* Whether the count has it already is told by the order's number. */
static void test_a_sale_counts_once(void **state)
{
    const int64_t stock[] = {10};
    struct copy_product *product = product_of(1, 1, stock);
    struct warm_ticket before = take(product, 1, 0), after = before;
    struct warm_ticket unknown;

    (void)state;
    take(product, 1, 0);
    unknown = take(product, 1, 0);
    product_of(2, 1, stock); /* up to order 100 */
    before.number = 100;
    copy_settle(product, &before, WARM_SOLD);
    assert_int_equal(product->cells[0].sold, 0);
    assert_false(product->chores.tell);
    copy_settle(product, &unknown, WARM_SOLD); /* of an older epoch */
    assert_int_equal(product->cells[0].sold, 0);
    after.number = 101;
    copy_settle(product, &after, WARM_SOLD);
    assert_int_equal(product->cells[0].sold, 1);
    assert_int_equal(product->cells[0].out, 0);
    assert_true(product->chores.tell);
}

/* What others have sold is heard of; what we sold meanwhile is not lost. */
static void test_hearing(void **state)
{
    const int64_t stock[] = {10};
    struct copy_product *product = product_of(1, 1, stock);
    struct warm_ticket ticket = take(product, 2, 0);

    (void)state;
    copy_settle(product, &ticket, WARM_SOLD);
    ticket = take(product, 1, 0);
    copy_settle(product, &ticket, WARM_SOLD);
    copy_hear(product, 0, 2, 5);
    assert_int_equal(product->cells[0].sold, 1);
    assert_true(has_none(product, 5));
    assert_false(has_none(product, 4));
}

static void test_uneven(void **state)
{
    const int64_t dry[] = {0, 9, 9, 9};
    const int64_t poor[] = {0, 5, 5, 5};
    const int64_t rich[] = {1, 90, 1, 1};

    (void)state;
    assert_true(copy_uneven(product_of(1, 4, dry)));
    assert_false(copy_uneven(product_of(2, 4, poor)));
    assert_false(copy_uneven(product_of(3, 4, rich)));
}

/* In use are fewer than there should be: those have nothing either. */
static void test_uneven_while_some_are_retired(void **state)
{
    const int64_t poor[] = {3}, rich[] = {4};
    struct copy_product *product;

    (void)state;
    product = product_of(1, 1, poor);
    product->segments = 10;
    assert_false(copy_uneven(product));
    product = product_of(2, 1, rich);
    assert_false(copy_uneven(product)); /* there is one, and it should be one */
    product->segments = 10;
    assert_true(copy_uneven(product));
}

/* Who finds cells retired does not know whether they should be in use again. */
static void test_a_count_of_few_is_to_be_weighed(void **state)
{
    const int64_t stock[] = {1, 1};
    struct copy_product *product = product_of(1, 2, stock);
    struct store_cells few = cells_of(2, 100, 2, stock);

    (void)state;
    assert_false(product->chores.weigh);
    few.segments = 10;
    assert_true(copy_count(product, &few));
    assert_true(product->chores.weigh);
}

#define TEST(test) cmocka_unit_test_teardown(test, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_products_are_found),
        TEST(test_as_likely_as_it_has_units),
        TEST(test_only_those_that_have_enough),
        TEST(test_never_more_than_it_has),
        TEST(test_short_is_not_asked_again),
        TEST(test_tickets_stay_out_over_a_count),
        TEST(test_a_sale_counts_once),
        TEST(test_hearing),
        TEST(test_uneven),
        TEST(test_uneven_while_some_are_retired),
        TEST(test_a_count_of_few_is_to_be_weighed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

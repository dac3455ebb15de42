/* The desk's queueing policy, without threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "server/order/lane.h"

#define TICKETS 6

static struct ticket tickets[TICKETS];
static struct ticket *batch[TICKETS];

static struct lanes *lanes_with(bool combine, const int64_t products[], int n)
{
    struct lanes *lanes = lanes_new(combine);

    memset(tickets, 0, sizeof(tickets));
    for (int i = 0; i < n; i++) {
        tickets[i].order.product_id = products[i];
        assert_true(lanes_push(lanes, &tickets[i]));
    }
    return lanes;
}

static void combine_takes_a_whole_lane(void **state)
{
    struct lanes *lanes = lanes_with(true, (int64_t[]){7, 8, 7, 7, 8}, 5);
    struct lane *seven, *eight;

    (void)state;
    assert_int_equal(lanes_take(lanes, batch, TICKETS, &seven), 3);
    assert_ptr_equal(batch[0], &tickets[0]);
    assert_ptr_equal(batch[1], &tickets[2]);
    assert_ptr_equal(batch[2], &tickets[3]);
    assert_int_equal(lanes_take(lanes, batch, TICKETS, &eight), 2);
    lanes_give_back(lanes, eight);
    lanes_give_back(lanes, seven);
    lanes_free(lanes);
}

static void combine_keeps_others_out_of_a_taken_lane(void **state)
{
    struct lanes *lanes = lanes_with(true, (int64_t[]){7}, 1);
    struct lane *seven, *other;

    (void)state;
    assert_int_equal(lanes_take(lanes, batch, TICKETS, &seven), 1);
    tickets[1].order.product_id = 7;
    lanes_push(lanes, &tickets[1]);
    assert_int_equal(lanes_take(lanes, batch, TICKETS, &other), 0);
    lanes_give_back(lanes, seven);
    assert_int_equal(lanes_take(lanes, batch, TICKETS, &other), 1);
    assert_ptr_equal(batch[0], &tickets[1]);
    lanes_give_back(lanes, other);
    lanes_free(lanes);
}

static void combine_bounds_a_batch_and_goes_on(void **state)
{
    struct lanes *lanes = lanes_with(true, (int64_t[]){7, 7, 7}, 3);
    struct lane *lane;

    (void)state;
    assert_int_equal(lanes_take(lanes, batch, 2, &lane), 2);
    lanes_give_back(lanes, lane);
    assert_int_equal(lanes_take(lanes, batch, 2, &lane), 1);
    lanes_give_back(lanes, lane);
    assert_int_equal(lanes_take(lanes, batch, 2, &lane), 0);
    lanes_free(lanes);
}

static void a_busy_lane_does_not_starve_others(void **state)
{
    struct lanes *lanes = lanes_with(true, (int64_t[]){7, 7, 7, 8}, 4);
    struct lane *lane;

    (void)state;
    lanes_take(lanes, batch, 1, &lane);
    lanes_give_back(lanes, lane);
    assert_int_equal(lanes_take(lanes, batch, 1, &lane), 1);
    assert_int_equal(batch[0]->order.product_id, 8);
    lanes_give_back(lanes, lane);
    lanes_free(lanes);
}

static void direct_gives_one_at_a_time_to_everybody(void **state)
{
    struct lanes *lanes = lanes_with(false, (int64_t[]){7, 8, 7}, 3);
    struct lane *a, *b, *c, *none;

    (void)state;
    assert_int_equal(lanes_take(lanes, batch, TICKETS, &a), 1);
    assert_ptr_equal(batch[0], &tickets[0]);
    assert_int_equal(lanes_take(lanes, batch, TICKETS, &b), 1);
    assert_ptr_equal(batch[0], &tickets[1]);
    assert_int_equal(lanes_take(lanes, batch, TICKETS, &c), 1);
    assert_int_equal(lanes_take(lanes, batch, TICKETS, &none), 0);
    lanes_give_back(lanes, a);
    lanes_give_back(lanes, b);
    lanes_give_back(lanes, c);
    lanes_free(lanes);
}

static void the_oldest_of_all_lanes_is_evicted_first(void **state)
{
    struct lanes *lanes = lanes_with(true, (int64_t[]){7, 8, 7, 9, 8}, 5);
    struct lane *lane;

    (void)state;
    assert_ptr_equal(lanes_evict(lanes), &tickets[0]);
    assert_ptr_equal(lanes_oldest(lanes), &tickets[1]);
    assert_int_equal(lanes_take(lanes, batch, TICKETS, &lane), 1);
    assert_ptr_equal(batch[0], &tickets[2]); /* what is left of lane 7 */
    lanes_give_back(lanes, lane);
    assert_ptr_equal(lanes_evict(lanes), &tickets[1]);
    assert_ptr_equal(lanes_evict(lanes), &tickets[3]);
    assert_ptr_equal(lanes_evict(lanes), &tickets[4]);
    assert_null(lanes_evict(lanes));
    assert_null(lanes_oldest(lanes));
    lanes_free(lanes);
}

static void evicted_tickets_are_not_served(void **state)
{
    struct lanes *lanes = lanes_with(true, (int64_t[]){7, 8, 7}, 3);
    struct lane *lane;
    int evicted = 0;

    (void)state;
    while (lanes_evict(lanes))
        evicted++;
    assert_int_equal(evicted, 3);
    assert_int_equal(lanes_take(lanes, batch, TICKETS, &lane), 0);
    lanes_free(lanes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(combine_takes_a_whole_lane),
        cmocka_unit_test(combine_keeps_others_out_of_a_taken_lane),
        cmocka_unit_test(combine_bounds_a_batch_and_goes_on),
        cmocka_unit_test(a_busy_lane_does_not_starve_others),
        cmocka_unit_test(direct_gives_one_at_a_time_to_everybody),
        cmocka_unit_test(the_oldest_of_all_lanes_is_evicted_first),
        cmocka_unit_test(evicted_tickets_are_not_served),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

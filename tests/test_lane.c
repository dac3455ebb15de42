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

static void push(struct lanes *lanes, int i, int64_t product)
{
    tickets[i] = (struct ticket){.order.product_id = product,
                                 .submitted_us = (uint64_t)(i + 1) * 1000};
    assert_non_null(lanes_push(lanes, &tickets[i]));
}

static void push_to(struct lanes *lanes, int i, int64_t segment)
{
    tickets[i] = (struct ticket){.order.product_id = 7,
                                 .choice.lane = segment,
                                 .submitted_us = (uint64_t)(i + 1) * 1000};
    assert_non_null(lanes_push(lanes, &tickets[i]));
}

static struct lanes *lanes_with(const int64_t products[], int n)
{
    struct lanes *lanes = lanes_new();

    for (int i = 0; i < n; i++)
        push(lanes, i, products[i]);
    return lanes;
}

static size_t count(const struct ticket *list)
{
    size_t n = 0;

    for (; list; list = list->next)
        n++;
    return n;
}

static struct lane *enter_and_open(struct lanes *lanes)
{
    struct lane *lane = lanes_enter(lanes);

    assert_non_null(lane);
    lanes_open(lanes, lane);
    return lane;
}

static void give_back(struct lanes *lanes, struct lane *lane)
{
    lanes_leave(lanes, lane);
    lanes_shut(lanes, lane);
}

static void a_lane_that_is_open_gives_all_its_orders(void **state)
{
    struct lanes *lanes = lanes_with((int64_t[]){7, 8, 7, 7, 8}, 5);
    struct lane *seven = enter_and_open(lanes), *eight = enter_and_open(lanes);

    (void)state;
    assert_int_equal(seven->product_id, 7);
    assert_false(lanes_wanted(lanes));
    assert_ptr_equal(lanes_take(lanes, TICKETS), seven);
    assert_ptr_equal(seven->placing, &tickets[0]);
    assert_ptr_equal(seven->placing->next, &tickets[2]);
    assert_int_equal(count(seven->placing), 3);
    assert_ptr_equal(lanes_take(lanes, TICKETS), eight);
    assert_int_equal(count(eight->placing), 2);
    assert_false(lanes_flowing(lanes));
    lanes_placed(lanes, eight);
    lanes_placed(lanes, seven);
    give_back(lanes, seven);
    give_back(lanes, eight);
    lanes_free(lanes);
}

static void a_lane_that_is_shut_gives_none(void **state)
{
    struct lanes *lanes = lanes_with((int64_t[]){7}, 1);
    struct lane *lane;

    (void)state;
    assert_null(lanes_take(lanes, TICKETS));
    lane = lanes_enter(lanes);
    assert_null(lanes_enter(lanes));
    assert_null(lanes_take(lanes, TICKETS));
    lanes_open(lanes, lane);
    assert_ptr_equal(lanes_take(lanes, TICKETS), lane);
    lanes_placed(lanes, lane);
    give_back(lanes, lane);
    assert_null(lanes_enter(lanes));
    lanes_free(lanes);
}

/* What comes while a batch is on its way waits for the next one. */
static void one_batch_of_a_lane_at_a_time(void **state)
{
    struct lanes *lanes = lanes_with((int64_t[]){7}, 1);
    struct lane *lane = enter_and_open(lanes);

    (void)state;
    assert_ptr_equal(lanes_take(lanes, TICKETS), lane);
    push(lanes, 1, 7);
    assert_null(lanes_take(lanes, TICKETS));
    lanes_placed(lanes, lane);
    assert_ptr_equal(lanes_take(lanes, TICKETS), lane);
    assert_ptr_equal(lane->placing, &tickets[1]);
    lanes_placed(lanes, lane);
    give_back(lanes, lane);
    lanes_free(lanes);
}

static void a_busy_lane_does_not_starve_others(void **state)
{
    struct lanes *lanes = lanes_with((int64_t[]){7, 7, 7, 8}, 4);
    struct lane *seven = enter_and_open(lanes), *eight = enter_and_open(lanes);

    (void)state;
    assert_ptr_equal(lanes_take(lanes, 1), seven);
    lanes_placed(lanes, seven);
    assert_ptr_equal(lanes_take(lanes, 1), eight);
    lanes_placed(lanes, eight);
    assert_ptr_equal(lanes_take(lanes, 1), seven);
    assert_ptr_equal(lanes_take(lanes, 1), NULL);
    lanes_placed(lanes, seven);
    assert_ptr_equal(lanes_pop(lanes), &tickets[2]);
    give_back(lanes, seven);
    give_back(lanes, eight);
    lanes_free(lanes);
}

/* Left while orders wait: it has to be entered anew for them. */
static void a_lane_that_is_left_gives_no_more(void **state)
{
    struct lanes *lanes = lanes_with((int64_t[]){7, 7}, 2);
    struct lane *lane = enter_and_open(lanes);

    (void)state;
    assert_ptr_equal(lanes_take(lanes, 1), lane);
    lanes_leave(lanes, lane);
    lanes_placed(lanes, lane);
    assert_null(lanes_take(lanes, 1));
    assert_null(lanes_enter(lanes));
    lanes_shut(lanes, lane);
    assert_ptr_equal(lanes_enter(lanes), lane);
    lanes_open(lanes, lane);
    assert_ptr_equal(lanes_take(lanes, 1), lane);
    lanes_placed(lanes, lane);
    give_back(lanes, lane);
    lanes_free(lanes);
}

static void only_the_chosen_are_taken(void **state)
{
    struct lanes *lanes = lanes_with((int64_t[]){7, 7}, 2);
    struct lane *lane = lanes_enter(lanes);

    (void)state;
    lanes_choose(lanes, lane, TICKETS);
    push(lanes, 2, 7);
    assert_ptr_equal(lanes_oldest(lanes), &tickets[2]);
    lanes_open(lanes, lane);
    lanes_leave(lanes, lane); /* not before they are placed */
    assert_false(lane_is_clear(lane));
    assert_ptr_equal(lanes_take(lanes, 1), lane);
    assert_int_equal(count(lane->placing), 2);
    lanes_placed(lanes, lane);
    assert_true(lane_is_clear(lane));
    assert_null(lanes_take(lanes, TICKETS));
    lanes_shut(lanes, lane);
    assert_ptr_equal(enter_and_open(lanes), lane);
    assert_ptr_equal(lanes_take(lanes, TICKETS), lane);
    assert_ptr_equal(lane->placing, &tickets[2]);
    lanes_placed(lanes, lane);
    give_back(lanes, lane);
    lanes_free(lanes);
}

static void who_comes_back_comes_first(void **state)
{
    struct lanes *lanes = lanes_with((int64_t[]){7, 7, 7}, 3);
    struct lane *lane = enter_and_open(lanes);
    struct ticket *again;

    (void)state;
    assert_ptr_equal(lanes_take(lanes, 2), lane);
    again = lane->placing;
    lanes_placed(lanes, lane);
    assert_null(lanes_push_back(lanes, again));
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(lanes_pop(lanes), &tickets[i]);
    assert_null(lanes_pop(lanes));
    give_back(lanes, lane);
    lanes_free(lanes);
}

static void the_oldest_of_all_lanes_is_popped_first(void **state)
{
    struct lanes *lanes = lanes_with((int64_t[]){7, 8, 7, 9, 8}, 5);

    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_ptr_equal(lanes_oldest(lanes), &tickets[i]);
        assert_ptr_equal(lanes_pop(lanes), &tickets[i]);
    }
    assert_null(lanes_pop(lanes));
    assert_null(lanes_oldest(lanes));
    assert_false(lanes_wanted(lanes));
    lanes_free(lanes);
}

static void those_that_came_before_are_popped_alone(void **state)
{
    struct lanes *lanes = lanes_with((int64_t[]){7, 8, 7, 7}, 4);
    struct lane *lane = lanes_enter(lanes);

    (void)state;
    assert_int_equal(count(lanes_pop_before(lanes, lane, 4000)), 2);
    assert_ptr_equal(lanes_pop(lanes), &tickets[1]);
    assert_ptr_equal(lanes_pop(lanes), &tickets[3]);
    lanes_shut(lanes, lane);
    lanes_free(lanes);
}

static void lanes_are_forgotten_when_nobody_needs_them(void **state)
{
    struct lanes *lanes = lanes_with((int64_t[]){7, 7, 8}, 3);
    struct lane *lane = lanes_enter(lanes);

    (void)state;
    assert_int_equal(lane_expects_us(lane), 1000);
    for (int i = 0; i < 3; i++)
        lanes_pop(lanes);
    lanes_shut(lanes, lane);
    lanes_forget(lanes, 2500); /* of 8 was one later, of 7 not */
    push(lanes, 3, 7);
    push(lanes, 4, 8);
    assert_int_equal(lane_expects_us(tickets[3].lane), UINT64_MAX);
    assert_int_equal(lane_expects_us(tickets[4].lane), 2000);
    lanes_pop(lanes);
    lanes_pop(lanes);
    lanes_free(lanes);
}

/* Whoever is sent on to another lane comes before those who came later. */
static void who_is_sent_on_keeps_his_age(void **state)
{
    struct lanes *lanes = lanes_new();
    struct ticket *again;
    struct lane *lane;

    (void)state;
    for (int i = 0; i < 4; i++)
        push_to(lanes, i, i % 2);
    lane = enter_and_open(lanes);
    assert_int_equal(lane->segment, 0);
    assert_ptr_equal(lanes_take(lanes, TICKETS), lane);
    again = lane->placing; /* 0 and 2 */
    tickets[0].choice.lane = 1;
    tickets[2].choice.lane = STORE_SEGMENT_ANY;
    assert_null(lanes_push_back(lanes, again));
    lanes_placed(lanes, lane);
    give_back(lanes, lane);
    lane = enter_and_open(lanes);
    assert_ptr_equal(lane, lanes_find(lanes, 7, 1));
    assert_ptr_equal(lanes_take(lanes, 2), lane);
    assert_ptr_equal(lane->placing, &tickets[0]);
    assert_ptr_equal(lane->placing->next, &tickets[1]);
    assert_ptr_equal(lanes_oldest(lanes), &tickets[2]);
    lanes_placed(lanes, lane);
    for (int i = 2; i < 4; i++)
        assert_ptr_equal(lanes_pop(lanes), &tickets[i]);
    give_back(lanes, lane);
    lanes_free(lanes);
}

/* The lane of all segments is entered: an open one places who waits, and no
 * more; none is entered, also a new one; then it is their turn. */
static void single_segments_yield_to_all(void **state)
{
    struct lanes *lanes = lanes_new();
    struct lane *open, *all;

    (void)state;
    push_to(lanes, 0, 0);
    open = enter_and_open(lanes);
    push_to(lanes, 1, STORE_SEGMENT_ANY);
    all = lanes_enter(lanes);
    assert_int_equal(all->segment, STORE_SEGMENT_ANY);
    lanes_yield(lanes, open, TICKETS);
    push_to(lanes, 2, 0);
    push_to(lanes, 3, 5);
    push_to(lanes, 4, STORE_SEGMENT_ANY);
    assert_ptr_equal(lanes_take(lanes, TICKETS), open);
    assert_int_equal(count(open->placing), 1);
    lanes_placed(lanes, open);
    assert_null(lanes_take(lanes, TICKETS));
    give_back(lanes, open);
    assert_null(lanes_enter(lanes));
    lanes_choose(lanes, all, 1);
    lanes_open(lanes, all);
    assert_ptr_equal(lanes_take(lanes, TICKETS), all);
    lanes_placed(lanes, all);
    give_back(lanes, all);
    assert_ptr_equal(lanes_enter(lanes), open);
    assert_ptr_equal(lanes_enter(lanes), lanes_find(lanes, 7, 5));
    assert_ptr_equal(lanes_enter(lanes), all);
    for (int i = 2; i < 5; i++)
        assert_ptr_equal(lanes_pop(lanes), &tickets[i]);
    for (int64_t i = 0; i < 6; i++)
        if (lanes_find(lanes, 7, i))
            lanes_shut(lanes, lanes_find(lanes, 7, i));
    lanes_shut(lanes, all);
    lanes_free(lanes);
}

/* Two threads hand in orders, and who came first gets here last: no gap at all,
 * not one of centuries. */
static void who_came_earlier_leaves_no_gap(void **state)
{
    struct lanes *lanes = lanes_with((int64_t[]){7, 7, 7}, 3);
    struct lane *lane = lanes_find(lanes, 7, 0);
    struct ticket late = {.order.product_id = 7, .submitted_us = 1500};

    (void)state;
    assert_int_equal(lane_expects_us(lane), 1000);
    assert_ptr_equal(lanes_push(lanes, &late), lane);
    assert_int_equal(lane_expects_us(lane), 875); /* an eighth of it is new */
    assert_int_equal(lane->pushed_us, 3000);
    while (lanes_pop(lanes))
        ;
    lanes_free(lanes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_that_is_open_gives_all_its_orders),
        cmocka_unit_test(a_lane_that_is_shut_gives_none),
        cmocka_unit_test(one_batch_of_a_lane_at_a_time),
        cmocka_unit_test(a_busy_lane_does_not_starve_others),
        cmocka_unit_test(a_lane_that_is_left_gives_no_more),
        cmocka_unit_test(only_the_chosen_are_taken),
        cmocka_unit_test(who_comes_back_comes_first),
        cmocka_unit_test(the_oldest_of_all_lanes_is_popped_first),
        cmocka_unit_test(those_that_came_before_are_popped_alone),
        cmocka_unit_test(who_is_sent_on_keeps_his_age),
        cmocka_unit_test(single_segments_yield_to_all),
        cmocka_unit_test(who_came_earlier_leaves_no_gap),
        cmocka_unit_test(lanes_are_forgotten_when_nobody_needs_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Nodes of the search, without a stage: which of them it tries, and which states are
 * new to it. A mistake there makes a search say "all" of less than
 * all, and the locks' own tests can only notice it where a fault hides behind.
 */
#include "server/lab/search/search.h"
#include "tests/support/unit_test.h"

#define MANY 20000 /* states */

/* Both actors can make a step. */
static const struct search_node both = {
    .moves_n = 2,
    .moves = {{.actor = 0, .kind = 's'}, {.actor = 1, .kind = 's'}}};

UNIT_TEST(test_a_preemption_is_of_one_who_could_go_on)
{
    struct search_bounds bounds = {.moves = 9};
    struct search_node node = both, child;

    node.last = 0;
    assert_true(search_child(&bounds, &node, 0, &child));
    assert_int_equal(child.used.of[SEARCH_MOVES], 1);
    assert_false(search_child(&bounds, &node, 1, &child));
    bounds.most[SEARCH_PREEMPTIONS] = 1;
    assert_true(search_child(&bounds, &node, 1, &child));
    assert_int_equal(child.used.of[SEARCH_PREEMPTIONS], 1);
    node.used = child.used; /* there is none left */
    assert_false(search_child(&bounds, &node, 1, &child));
    node.moves[0].kind = '+'; /* it waits, and is not kept from anything */
    assert_true(search_child(&bounds, &node, 1, &child));
}

UNIT_TEST(test_twins_have_their_letters_as_they_come)
{
    struct search_bounds bounds = {.moves = 9, .are_alike = true};
    struct search_node node = both, child;

    node.last = -1;
    assert_false(search_child(&bounds, &node, 1, &child));
    assert_true(search_child(&bounds, &node, 0, &child));
    assert_int_equal(child.begun, 1);
    assert_int_equal(child.last, 0);
    node.begun = child.begun;
    assert_true(search_child(&bounds, &node, 1, &child));
    bounds.are_alike = false;
    node.begun = 0;
    assert_true(search_child(&bounds, &node, 1, &child));
}

/* A wait ends by time only where its actor cannot step, as explore_tell.c says. */
UNIT_TEST(test_who_can_step_does_not_give_up)
{
    const struct search_bounds bounds = {.moves = 9, .waits = 1};
    struct search_node node = both, child;

    node.last = 0;
    node.moves[1] = (struct stage_move){.actor = 0, .kind = '+'};
    assert_false(search_child(&bounds, &node, 1, &child));
    node.moves[0].kind = 'w';
    assert_true(search_child(&bounds, &node, 1, &child));
}

UNIT_TEST(test_a_lease_that_ends_in_a_wait_counts)
{
    struct search_bounds bounds = {.moves = 9, .troubles = 1};
    struct search_node node = {.lapses = 1}, child = {.lapses = 2, .last = -1};

    child.move.kind = '+';
    assert_false(search_is_within(&bounds, &node, &child));
    bounds.most[SEARCH_EXPIRIES] = 1;
    child.used = node.used;
    assert_true(search_is_within(&bounds, &node, &child));
    child.lapses = node.lapses;
    bounds.most[SEARCH_EXPIRIES] = 0;
    assert_true(search_is_within(&bounds, &node, &child));
}

/* A watchdog outlives its actor's work: its pass is a renewal, whoever is inside. */
UNIT_TEST(test_a_pass_of_a_watchdog)
{
    struct search_bounds bounds = {.moves = 9, .troubles = 1};
    struct search_node node = {.moves_n = 1, .moves = {{0, 'w'}}}, child;

    assert_false(search_child(&bounds, &node, 0, &child));
    bounds.most[SEARCH_RENEWALS] = 1;
    assert_true(search_child(&bounds, &node, 0, &child));
    assert_int_equal(child.used.of[SEARCH_RENEWALS], 1);
}

/* Troubles of one kind have no more left than all of them together. */
UNIT_TEST(test_freedom)
{
    const struct search_bounds bounds = {
        .moves = 9, .preemptions = 2, .troubles = 2, .expiries = 5};
    struct search_used a = {{0}}, b = {{0}};

    assert_true(search_is_as_free(&bounds, &a, &b));
    a.of[SEARCH_PREEMPTIONS] = 1;
    assert_false(search_is_as_free(&bounds, &a, &b));
    assert_true(search_is_as_free(&bounds, &b, &a));
    b.of[SEARCH_PREEMPTIONS] = 1;
    a.of[SEARCH_TROUBLES] = b.of[SEARCH_TROUBLES] = 1;
    a.of[SEARCH_EXPIRIES] = 1; /* b had another one; both have one left */
    assert_true(search_is_as_free(&bounds, &a, &b));
    assert_true(search_is_as_free(&bounds, &b, &a));
    a.of[SEARCH_EXPIRIES] = 5;
    assert_false(search_is_as_free(&bounds, &a, &b));
}

/* A state is new again to who comes with more freedom. */
UNIT_TEST(test_states_that_were_seen)
{
    const struct search_bounds bounds = {.moves = 9, .preemptions = 2};
    struct search_table table = {.bounds = &bounds};
    struct search_node node = {.state = 1};

    node.used.of[SEARCH_PREEMPTIONS] = 1;
    for (uint64_t i = 0; i < MANY; i++) {
        node.state = 1 + i * 0x9e3779b97f4a7c15;
        assert_true(search_table_put(&table, &node));
    }
    for (uint64_t i = 0; i < MANY; i++) {
        node.state = 1 + i * 0x9e3779b97f4a7c15;
        node.used.of[SEARCH_PREEMPTIONS] = 1;
        assert_false(search_table_put(&table, &node));
        node.used.of[SEARCH_PREEMPTIONS] = 2;
        assert_false(search_table_put(&table, &node));
        node.used.of[SEARCH_PREEMPTIONS] = 0;
        assert_true(search_table_put(&table, &node));
        assert_false(search_table_put(&table, &node));
    }
    free(table.places);
}

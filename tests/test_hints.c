/*
 * Stock hints, as the dispatcher uses them: what the store has said, and which
 * segment an order is sent to. No Redis: see test_hints_redis.c.
 */
#include "server/base/app.h"
#include "server/order/hints.h"
#include "tests/support/unit_test.h"

#define DRAWS     20000
#define TOLERANCE 600 /* of DRAWS: more than 8 standard deviations */
#define TOLD_NOT  (-1)
#define N_MAX     6

static struct app app;

static int set_up(void **state)
{
    return (*state = hints_open(&app, NULL)) ? 0 : -1;
}

static int tear_down(void **state)
{
    hints_close(*state);
    return 0;
}

/* Of many orders, so many are sent to each of N segments, of a sum of SHARES.
 * What they are thought to have taken is told to be there again. */
static void expect_shares(struct hints *hints, int64_t quantity, int64_t n,
                          const int64_t left[], const unsigned shares[])
{
    unsigned counts[N_MAX] = {0}, sum = 0;
    int64_t segment;

    for (int i = 0; i < DRAWS; i++) {
        segment = hints_choose(hints, 1, quantity);
        assert_in_range(segment, 0, n - 1);
        counts[segment]++;
        hints_note(hints, 1, 0, segment, left[segment]);
    }
    for (int64_t i = 0; i < n; i++)
        sum += shares[i];
    for (int64_t i = 0; i < n; i++) {
        unsigned most = DRAWS * shares[i] / sum;

        if (shares[i] == 0 || shares[i] == sum)
            assert_int_equal(counts[i], most);
        else
            assert_in_range(counts[i], most - TOLERANCE, most + TOLERANCE);
    }
}

static const struct {
    const char *what;
    int64_t quantity, n, left[N_MAX];
    unsigned shares[N_MAX];
} choices[] = {
    {"weighted by what is left", 1, 4, .left = {100, 300, 0, 600},
     .shares = {1, 3, 0, 6}},
    {"not one with too few", 5, 3, .left = {4, 15, 5}, .shares = {0, 3, 1}},
    {"an unknown one weighs as the average, that of those with enough", 50, 6,
     .left = {100, TOLD_NOT, 300, 49, 50, TOLD_NOT},
     .shares = {2, 3, 6, 0, 1, 3}},
    {"nothing is known at first", 3, 4,
     .left = {TOLD_NOT, TOLD_NOT, TOLD_NOT, TOLD_NOT}, .shares = {1, 1, 1, 1}},
    {"if none has enough, the richest", 8, 3, .left = {3, 7, 5},
     .shares = {0, 1, 0}},
    {"rather an unknown one than one with too few", 8, 2, .left = {7, TOLD_NOT},
     .shares = {0, 1}},
    {"the greatest numbers there are", 1, 3,
     .left = {STORE_NUMBER_MAX, TOLD_NOT, STORE_NUMBER_MAX},
     .shares = {1, 1, 1}},
};

UNIT_TEST(a_segment_is_chosen_by_what_is_left)
{
    for (size_t i = 0; i < COUNT_OF(choices); i++) {
        struct hints *hints = hints_open(&app, NULL);

        print_message("%s\n", choices[i].what);
        for (int64_t k = 0; k < choices[i].n; k++)
            hints_note(hints, 1, choices[i].n, k, choices[i].left[k]);
        expect_shares(hints, choices[i].quantity, choices[i].n, choices[i].left,
                      choices[i].shares);
        hints_close(hints);
    }
}

/* Whose lock another instance has, unless the others have not enough. */
UNIT_TEST_OF(struct hints *hints, those_of_others_come_last)
{
    const int64_t left[] = {100, TOLD_NOT, 300};

    for (int64_t i = 0; i < 3; i++)
        hints_note(hints, 1, 3, i, left[i]);
    hints_taken(hints, 1, 2, true);
    expect_shares(hints, 1, 3, left, (unsigned[]){1, 1, 0});
    expect_shares(hints, 101, 3, left, (unsigned[]){0, 1, 0});
    hints_taken(hints, 1, 1, true);
    expect_shares(hints, 101, 3, left, (unsigned[]){0, 1, 1});
    hints_taken(hints, 1, 1, false);
    hints_taken(hints, 1, 2, false);
    expect_shares(hints, 1, 3, left, (unsigned[]){1, 2, 3});
}

UNIT_TEST_OF(struct hints *hints, one_segment_needs_no_choice)
{
    assert_int_equal(hints_choose(hints, 1, 1), 0); /* not heard of */
    hints_note(hints, 1, 1, 0, 10);
    hints_note(hints, 1, 0, 5, 10); /* nobody said that it has segments */
    assert_int_equal(hints_choose(hints, 1, 1), 0);
}

/* So that many orders at once are not all sent to the last units. */
UNIT_TEST_OF(struct hints *hints, what_is_sent_there_is_not_left)
{
    unsigned counts[2];

    for (int i = 0; i < 100; i++) {
        hints_note(hints, 1, 2, 0, 9);
        hints_note(hints, 1, 2, 1, 9);
        memset(counts, 0, sizeof(counts));
        for (int k = 0; k < 4; k++)
            counts[hints_choose(hints, 1, 4)]++;
        assert_int_equal(counts[0], 2);
        assert_in_range(hints_choose(hints, 1, 4), 0, 1); /* in vain */
    }
}

/* Orders that came again, or failed, have taken nothing: their segments are not poor. */
UNIT_TEST_OF(struct hints *hints, orders_that_sell_nothing_leave_no_hint_low)
{
    int64_t segment;
    unsigned counts[2] = {0};

    hints_note(hints, 1, 2, 0, 50);
    hints_note(hints, 1, 2, 1, 50);
    for (int i = 0; i < 100; i++) {
        segment = hints_choose(hints, 1, 1);
        hints_note(hints, 1, 0, segment, TOLD_NOT);
    }
    for (int i = 0; i < 100; i++)
        counts[hints_choose(hints, 1, 1)]++;
    assert_true(counts[0] > 0 && counts[1] > 0);
}

/* Those that came are unknown; those that went are not chosen, and forgotten. */
UNIT_TEST_OF(struct hints *hints, after_a_resize)
{
    const int64_t left[] = {10, 0, TOLD_NOT, TOLD_NOT};

    for (int64_t i = 0; i < 4; i++)
        hints_note(hints, 1, 4, i, i < 2 ? left[i] : 1000000);
    hints_note(hints, 1, 2, 0, 10);
    hints_note(hints, 1, 0, 3, 5000); /* late news of one that went */
    expect_shares(hints, 1, 2, left, (unsigned[]){1, 0});
    hints_note(hints, 1, 4, 0, 10);
    expect_shares(hints, 1, 4, left, (unsigned[]){1, 0, 1, 1});
    hints_note(hints, 1, 1, 0, 10);
    assert_int_equal(hints_choose(hints, 1, 20), 0);
}

/* A table has its memory from malloc(), and nothing else here has. */
static bool no_memory;
__typeof__(malloc) __real_malloc, __wrap_malloc;

void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

UNIT_TEST_OF(struct hints *hints, without_memory_nothing_is_known)
{
    no_memory = true;
    hints_note(hints, 1, 2, 1, 1000);
    no_memory = false;
    assert_int_equal(hints_choose(hints, 1, 1), 0);
    hints_note(hints, 1, 2, 0, 0);
    hints_note(hints, 1, 2, 1, 1000);
    assert_int_equal(hints_choose(hints, 1, 1), 1);
}

/* So many products that some have to be forgotten: then they are learned anew. */
UNIT_TEST_OF(struct hints *hints, many_products)
{
    for (int64_t id = 1; id <= 10000; id++) {
        for (int64_t i = 0; i < 3; i++)
            hints_note(hints, id, 3, i, i == 2);
        assert_int_equal(hints_choose(hints, id, 1), 2);
    }
    for (int64_t id = 1; id <= 10000; id++)
        assert_in_range(hints_choose(hints, id, 1), 0, 2);
}

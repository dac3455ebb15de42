/*
 * Time limits: what is due comes out in the order of its time, whatever was set,
 * moved and cancelled before.
 */
#include "server/base/timers.h"
#include "tests/support/unit_test.h"

#define TIMERS_N   200
#define OPERATIONS 20000
#define TIMES      100 /* that are different: so many timers share one */

/* "Never" is a time like others: the last. */
UNIT_TEST(the_end_of_time_is_the_last)
{
    struct timers timers = {0};
    struct timer never = {0}, soon = {0};

    timers_set(&timers, &never, UINT64_MAX);
    assert_true(timers_next_us(&timers) == UINT64_MAX);
    timers_set(&timers, &soon, UINT64_MAX - 1);
    assert_true(timers_next_us(&timers) == UINT64_MAX - 1);
    assert_ptr_equal(timers_pop(&timers, UINT64_MAX - 1), &soon);
    assert_null(timers_pop(&timers, UINT64_MAX - 1));
    assert_ptr_equal(timers_pop(&timers, UINT64_MAX), &never);
}

/* The model: an array of times, UINT64_MAX where none is set. */
struct model {
    struct timers timers;
    struct timer real[TIMERS_N];
    uint64_t due[TIMERS_N];
};

static uint64_t next_of(const struct model *model)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < TIMERS_N; i++)
        if (model->due[i] < next)
            next = model->due[i];
    return next;
}

static void pop(struct model *model, uint64_t now_us)
{
    struct timer *timer = timers_pop(&model->timers, now_us);
    uint64_t next = next_of(model);

    if (next > now_us) {
        assert_null(timer);
        return;
    }
    assert_non_null(timer);
    assert_int_equal(model->due[timer - model->real], next);
    assert_null(timer->place);
    model->due[timer - model->real] = UINT64_MAX;
}

/* Most are set, or moved; few are cancelled, whether they are set or not, and few
 * become due. */
static void operate(struct model *model, size_t timers_n, unsigned *dice)
{
    size_t which = (size_t)rand_r(dice) % timers_n;
    uint64_t time_us = (uint64_t)rand_r(dice) % TIMES;

    switch (rand_r(dice) % 5) {
    case 0:
        pop(model, time_us / 4);
        break;
    case 1:
        timers_cancel(&model->timers, &model->real[which]);
        assert_null(model->real[which].place);
        model->due[which] = UINT64_MAX;
        break;
    default:
        timers_set(&model->timers, &model->real[which], time_us);
        model->due[which] = time_us;
    }
    assert_true(timers_next_us(&model->timers) == next_of(model));
}

static void agrees(size_t timers_n, unsigned dice)
{
    struct model *model = calloc(1, sizeof(*model));

    assert_non_null(model);
    for (size_t i = 0; i < TIMERS_N; i++)
        model->due[i] = UINT64_MAX;
    pop(model, TIMES); /* of none that was ever set */
    for (size_t i = 0; i < OPERATIONS; i++)
        operate(model, timers_n, &dice);
    while (next_of(model) != UINT64_MAX)
        pop(model, TIMES);
    assert_null(timers_pop(&model->timers, UINT64_MAX));
    free(model);
}

UNIT_TEST(random_operations_agree_with_the_model)
{
    for (size_t n = 1; n <= 8; n++)
        agrees(n, (unsigned)n);
    agrees(TIMERS_N, 99);
}

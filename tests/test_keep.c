/*
 * How long a lock is kept, and that a keeper looks at those lanes only that could
 * be due: by a clock that the test sets, without a lock server.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

#include "server/order/desk_private.h"

/* An open lane without orders, one of HELD_N; the last came just now. Borrows
 * HOLD. */
static struct lane lane_at(uint64_t now_us, uint64_t gap_us, size_t held_n,
                           struct hold *hold)
{
    static struct desk desk;
    static struct desk_thread keeper = {.desk = &desk};

    desk.held_n = held_n;
    hold->granted_us = now_us;
    return (struct lane){.state = LANE_OPEN,
                         .pushed_us = now_us,
                         .gap_us = gap_us,
                         .keeper = &keeper,
                         .holds = {.n = 1, .room = 1, .at = hold}};
}

/* Of many products that sell in turns one's next order is often late, and
 * taking a lock anew costs more than the order; but idle it is not kept long. */
static void a_pause_of_a_few_gaps_does_not_cost_the_lock(void **state)
{
    const uint64_t now = 60000000, gap = 10000;
    struct hold hold = {.failed = false};
    struct lane lane = lane_at(now, gap, 1, &hold);

    (void)state;
    assert_false(keep_is_due(&lane, now + 7 * gap));
    assert_true(keep_is_due(&lane, now + 9 * gap));
    lane = lane_at(now, 11 * gap, 1, &hold);
    assert_true(keep_is_due(&lane, now + 1));
}

/* A thousand of them, each every 50 ms: who gave their locks back so soon would
 * do nothing else. */
static void each_of_many_is_kept_for_longer(void **state)
{
    const uint64_t now = 60000000, gap = 50000;
    struct hold hold = {.failed = false};
    struct lane lane = lane_at(now, gap, 1000, &hold);

    (void)state;
    assert_false(keep_is_due(&lane, now + 7 * gap));
    assert_true(keep_is_due(&lane, now + 9 * gap));
    /* And a busy one keeps it, but for no longer than this. */
    lane.pushed_us = now + 2000000;
    assert_false(keep_is_due(&lane, now + 2000000));
    lane.pushed_us = now + 4000000;
    assert_true(keep_is_due(&lane, now + 4000000));
}

#define MANY 2000

/* MANY idle lanes that a keeper has, all of which are due at the same time. */
struct crowd {
    struct keep keep;
    struct hold hold;
    struct lane *lanes;
};

static void crowd_open(struct crowd *crowd, uint64_t now_us, uint64_t gap_us)
{
    keep_init(&crowd->keep);
    crowd->lanes =
        mmap(NULL, MANY * sizeof(*crowd->lanes), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(crowd->lanes != MAP_FAILED);
    for (int i = 0; i < MANY; i++) {
        crowd->lanes[i] = lane_at(now_us, gap_us, MANY, &crowd->hold);
        keep_add(&crowd->keep, &crowd->lanes[i], now_us);
    }
}

/* The pages of all lanes but the last few: who reads one ends the test. */
static void crowd_hide(struct crowd *crowd, int protection)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = (MANY - 10) * sizeof(*crowd->lanes) / page * page;

    assert_int_equal(mprotect(crowd->lanes, size, protection), 0);
}

/* How many are due at NOW_US; they are left. */
static int leave_due(struct crowd *crowd, uint64_t now_us)
{
    struct lane *lane;
    int n = 0;

    for (; (lane = keep_find_due(&crowd->keep, now_us)); n++)
        keep_remove(lane);
    return n;
}

static void crowd_close(struct crowd *crowd)
{
    assert_int_equal(munmap(crowd->lanes, MANY * sizeof(*crowd->lanes)), 0);
}

/* Of thousands that a keeper has it looks at the one that it is called for. */
static void only_who_is_due_is_looked_at(void **state)
{
    const uint64_t now = 60000000, gap = 50000;
    struct crowd crowd;
    struct lane *last;

    (void)state;
    crowd_open(&crowd, now, gap);
    last = &crowd.lanes[MANY - 1];
    crowd_hide(&crowd, PROT_NONE);
    assert_null(keep_find_due(&crowd.keep, now + 1000));
    last->state = LANE_LEAVING;
    assert_true(keep_call(&crowd.keep, last));
    assert_false(keep_call(&crowd.keep, last));
    assert_true(keep_is_called(&crowd.keep));
    assert_ptr_equal(keep_find_due(&crowd.keep, now + 1000), last);
    keep_remove(last);
    assert_false(keep_call(&crowd.keep, last));
    /* And one that was called for in vain. */
    assert_true(keep_call(&crowd.keep, last - 1));
    assert_null(keep_find_due(&crowd.keep, now + 1000));
    /* Who opens another does not look at the others either. */
    last->state = LANE_OPEN;
    keep_add(&crowd.keep, last, now + 1000);
    assert_null(keep_find_due(&crowd.keep, now + 1000));
    crowd_hide(&crowd, PROT_READ | PROT_WRITE);
    crowd_close(&crowd);
}

/* Nobody has to call for them; and who had an order since stays. */
static void in_time_everybody_is_looked_at(void **state)
{
    const uint64_t now = 60000000, gap = 50000, due = now + 8 * gap;
    struct crowd crowd;

    (void)state;
    crowd_open(&crowd, now, gap);
    for (uint64_t at = now; at < due; at += KEEP_LOOK_US)
        assert_int_equal(leave_due(&crowd, at), 0);
    for (int i = 0; i < 10; i++)
        crowd.lanes[i].pushed_us = due;
    assert_int_equal(leave_due(&crowd, due + KEEP_STEP_US), MANY - 10);
    /* Long after that, when the keeper had other things to do. */
    assert_int_equal(leave_due(&crowd, due + 100 * gap), 10);
    crowd_close(&crowd);
}

/* As long as orders are being placed they stay; then they are found, though
 * nobody calls. */
static void who_is_busy_is_looked_at_again(void **state)
{
    const uint64_t now = 60000000, gap = 50000, due = now + 8 * gap;
    struct crowd crowd;
    struct ticket ticket;

    (void)state;
    crowd_open(&crowd, now, gap);
    for (int i = 0; i < MANY; i++)
        crowd.lanes[i].placing = &ticket;
    for (uint64_t at = now; at < due + gap; at += KEEP_LOOK_US)
        assert_int_equal(leave_due(&crowd, at), 0);
    for (int i = 0; i < MANY; i++)
        crowd.lanes[i].placing = NULL;
    assert_int_equal(leave_due(&crowd, due + gap + KEEP_LOOK_US), MANY);
    crowd_close(&crowd);
}

/* They would be kept for 400 ms, but are not many any more. */
static void when_few_are_left_they_are_kept_as_few(void **state)
{
    const uint64_t now = 60000000, gap = 50000;
    const uint64_t round = (uint64_t)KEEP_STEPS * KEEP_STEP_US;
    struct crowd crowd;

    (void)state;
    crowd_open(&crowd, now, gap);
    assert_int_equal(leave_due(&crowd, now + 110000), 0);
    crowd.lanes->keeper->desk->held_n = 1;
    assert_int_equal(leave_due(&crowd, now + 110000 + round), MANY);
    crowd_close(&crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_of_a_few_gaps_does_not_cost_the_lock),
        cmocka_unit_test(each_of_many_is_kept_for_longer),
        cmocka_unit_test(only_who_is_due_is_looked_at),
        cmocka_unit_test(in_time_everybody_is_looked_at),
        cmocka_unit_test(who_is_busy_is_looked_at_again),
        cmocka_unit_test(when_few_are_left_they_are_kept_as_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

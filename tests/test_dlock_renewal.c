/*
 * The queue of the renewals, without a thread and a server: who stands where,
 * and who is looked at for that. Who must not be looked at cannot be: reading it
 * ends the test.
 */
#include <sys/mman.h>

#include "lock/core/client.h"
#include "lock/core/renewal.h"
#include "tests/support/unit_test.h"

enum { MANY = 2000, LEASE_MS = 30000 };

/* MANY live leases, granted one after the other, a millisecond each. */
struct crowd {
    struct dlock_renewal_queue queue;
    struct dlock_renewal *all;
};

static void grant(struct dlock_renewal *renewal, uint64_t due_ms)
{
    *renewal = (struct dlock_renewal){.state = DLOCK_RENEWAL_LIVE,
                                      .due_ms = due_ms,
                                      .deadline_ms = due_ms + LEASE_MS,
                                      .stop_ms = UINT64_MAX};
}

static void crowd_open(struct crowd *crowd)
{
    crowd->all = mmap(NULL, MANY * sizeof(*crowd->all), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(crowd->all != MAP_FAILED);
    TAILQ_INIT(&crowd->queue);
    for (uint64_t i = 0; i < MANY; i++) {
        grant(&crowd->all[i], LEASE_MS + i);
        dlock_renewal_line_up(&crowd->queue, &crowd->all[i]);
    }
}

/* The pages of all but the last few. */
static void crowd_hide(struct crowd *crowd, int protection)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = (MANY - 10) * sizeof(*crowd->all) / page * page;

    assert_int_equal(mprotect(crowd->all, size, protection), 0);
}

static void crowd_close(struct crowd *crowd)
{
    assert_int_equal(munmap(crowd->all, MANY * sizeof(*crowd->all)), 0);
}

UNIT_TEST(test_lining_up_looks_at_nobody_else)
{
    struct dlock_renewal next;
    struct crowd crowd;

    crowd_open(&crowd);
    crowd_hide(&crowd, PROT_NONE);
    grant(&next, LEASE_MS + MANY);
    dlock_renewal_line_up(&crowd.queue, &next);
    assert_ptr_equal(TAILQ_PREV(&next, dlock_renewal_queue, turn),
                     &crowd.all[MANY - 1]);
    dlock_renewal_step_out(&crowd.queue, &crowd.all[MANY - 2]);
    dlock_renewal_line_up(&crowd.queue, &crowd.all[MANY - 2]);
    dlock_renewal_step_out(&crowd.queue, &next);
    assert_ptr_equal(TAILQ_LAST(&crowd.queue, dlock_renewal_queue),
                     &crowd.all[MANY - 1]);
    crowd_hide(&crowd, PROT_READ | PROT_WRITE);
    crowd_close(&crowd);
}

/* Whatever they are given for a new time. */
UNIT_TEST(test_who_is_due_next_stands_first)
{
    const struct dlock_renewal *each;
    struct crowd crowd;
    uint64_t last = 0;
    size_t n = 0;

    crowd_open(&crowd);
    for (uint64_t i = 0; i < MANY; i += 7) {
        crowd.all[i].due_ms = i * 7919 % MANY;
        dlock_renewal_line_up(&crowd.queue, &crowd.all[i]);
    }
    crowd.all[1].state = DLOCK_RENEWAL_LOST; /* and has nothing to wait for */
    dlock_renewal_line_up(&crowd.queue, &crowd.all[1]);
    each = TAILQ_FIRST(&crowd.queue);
    for (; each != NULL; each = TAILQ_NEXT(each, turn), n++) {
        assert_true(each->due_ms >= last);
        assert_ptr_not_equal(each, &crowd.all[1]);
        last = each->due_ms;
    }
    assert_int_equal(n, MANY - 1);
    crowd_close(&crowd);
}

/* The ones that have waited longest; who is not due stays where he is. */
UNIT_TEST(test_a_pass_takes_who_is_due)
{
    const struct dlock client = {.wire = {.command_timeout_ms = 1000}};
    static struct dlock_pass pass;
    struct crowd crowd;

    crowd_open(&crowd);
    assert_false(
        dlock_renewal_collect(&pass, &client, &crowd.queue, LEASE_MS - 1));
    assert_true(
        dlock_renewal_collect(&pass, &client, &crowd.queue, LEASE_MS + 1));
    assert_int_equal(pass.n, 2);
    assert_ptr_equal(TAILQ_FIRST(&crowd.queue), &crowd.all[2]);
    crowd.all[0].due_ms = LEASE_MS + MANY;
    crowd.all[1].state = DLOCK_RENEWAL_LOST;
    dlock_renewal_end(&pass, &crowd.queue);
    assert_ptr_equal(TAILQ_LAST(&crowd.queue, dlock_renewal_queue),
                     &crowd.all[0]);
    assert_true(dlock_renewal_collect(&pass, &client, &crowd.queue,
                                      (uint64_t)2 * LEASE_MS));
    assert_int_equal(pass.n, DLOCK_PASS_MAX);
    assert_ptr_equal(pass.entries[0], &crowd.all[2]);
    crowd_close(&crowd);
}

/*
 * The queue of what is due, without a thread and a server: the order in it, and the
 * entries that are looked at for that. An entry that must not be looked at cannot be,
 * because reading it ends the test.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "lock/core/due.h"
#include "tests/support/unit_test.h"

enum { MANY = 20000, LATER = 30000 };

/* MANY that are due one after the other. */
struct crowd {
    struct dlock_due_queue queue;
    struct dlock_due *all;
};

static void crowd_open(struct crowd *crowd)
{
    crowd->all = mmap(NULL, MANY * sizeof(*crowd->all), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(crowd->all != MAP_FAILED);
    TAILQ_INIT(&crowd->queue);
    for (uint64_t i = 0; i < MANY; i++) {
        crowd->all[i].at = LATER + i;
        dlock_due_put(&crowd->queue, &crowd->all[i]);
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
    struct dlock_due next = {.at = LATER + MANY};
    struct crowd crowd;

    crowd_open(&crowd);
    crowd_hide(&crowd, PROT_NONE);
    dlock_due_put(&crowd.queue, &next);
    assert_ptr_equal(TAILQ_PREV(&next, dlock_due_queue, link),
                     &crowd.all[MANY - 1]);
    dlock_due_remove(&crowd.queue, &crowd.all[MANY - 2]);
    dlock_due_put(&crowd.queue, &crowd.all[MANY - 2]);
    dlock_due_remove(&crowd.queue, &next);
    dlock_due_remove(&crowd.queue, &next);
    assert_ptr_equal(TAILQ_LAST(&crowd.queue, dlock_due_queue),
                     &crowd.all[MANY - 1]);
    crowd_hide(&crowd, PROT_READ | PROT_WRITE);
    crowd_close(&crowd);
}

/* Whatever they are given for a new time. */
UNIT_TEST(test_what_is_due_next_stands_first)
{
    const struct dlock_due *each;
    struct crowd crowd;
    uint64_t last = 0;
    size_t n = 0;

    crowd_open(&crowd);
    for (uint64_t i = 0; i < MANY; i += 97) {
        dlock_due_remove(&crowd.queue, &crowd.all[i]);
        crowd.all[i].at = i * 7919 % MANY;
        dlock_due_put(&crowd.queue, &crowd.all[i]);
    }
    for (each = TAILQ_FIRST(&crowd.queue); each != NULL;
         each = TAILQ_NEXT(each, link), n++) {
        assert_true(each->at >= last);
        last = each->at;
    }
    assert_int_equal(n, MANY);
    crowd_close(&crowd);
}

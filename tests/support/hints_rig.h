/*
 * Stock hints with all that they need around them: a store, workers, a
 * redis-server. The test's thread does what the dispatcher's does, or has it done
 * on the committer's. Standard error goes into a file, so that the log can be
 * read. What is not as it has to be fails the test.
 */
#ifndef HINTS_RIG_H
#define HINTS_RIG_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/order/hints.h"
#include "tests/support/redis_server.h"
#include "tests/support/store_rig.h"

#define HINTS_RIG_NO_KEY    (-1)
#define HINTS_RIG_NO_NUMBER (-2)

struct hints_rig {
    struct redis_server *redis;
    struct store_rig store;
    struct config config;
    struct app app;
    struct hints *hints;
    uint64_t now_us;
    sem_t woken; /* the store's source was: a task has ended, say */
    void (*_Atomic call)(struct hints_rig *); /* on the committer's thread */
    sem_t called;
    bool is_idle;             /* for a CALL to say */
    atomic_int evened_out;    /* writes of the store */
    atomic_bool note_in_even; /* a batch of the same transaction is noted */
    FILE *log;
    int error; /* where standard error went before */
};

/* For cmocka. */
int hints_rig_set_up(void **state);
int hints_rig_tear_down(void **state);

#define HINTS_RIG_TEST(test)                                                   \
    cmocka_unit_test_setup_teardown(test, hints_rig_set_up, hints_rig_tear_down)

/* So many lines of the log have that in them. */
unsigned hints_rig_logged(struct hints_rig *rig, const char *what);

/* Product 1 has three segments: what is left in one of them. */
void hints_rig_note(struct hints_rig *rig, int64_t segment, int64_t left);

/* Until nothing is under way, and nothing is to be begun as of now. */
void hints_rig_settle(struct hints_rig *rig);

/* All orders of product 1 are sent there. It has to have units for 30 of them. */
void hints_rig_expect_choice(struct hints_rig *rig, int64_t quantity,
                             int64_t segment);

/* Has that called on the committer's thread, and waits for it. */
void hints_rig_call(struct hints_rig *rig, void (*call)(struct hints_rig *));

/* What Redis has. */
int64_t hints_rig_key(struct hints_rig *rig, int64_t product_id,
                      int64_t segment);
void hints_rig_set_key(struct hints_rig *rig, int64_t segment,
                       const char *value);

/* How often it was asked that: "set", "get". */
int hints_rig_asked(struct hints_rig *rig, const char *command);

#endif

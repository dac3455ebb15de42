/*
 * Orders that hold their units until they are paid, for tests of these: product 1, whose
 * stock the tests look at, and a wall clock that is the test's. All of it is in the header
 * because a program that defines clock_gettime() has it everywhere.
 */
#ifndef HOLD_RIG_H
#define HOLD_RIG_H

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#define HOUR_MS INT64_C(3600000)

static atomic_int_fast64_t ahead_ms; /* of the real wall clock */

/* In place of the C library's. */
int clock_gettime(clockid_t id, struct timespec *now)
{
    int64_t ms = id == CLOCK_REALTIME ? atomic_load(&ahead_ms) : 0;
    int rc = (int)syscall(SYS_clock_gettime, id, now);

    ms += now->tv_nsec / 1000000;
    now->tv_sec += ms / 1000;
    now->tv_nsec = ms % 1000 * 1000000 + now->tv_nsec % 1000000;
    return rc;
}

static inline void hold_rig_put(struct store_rig *rig,
                                struct store_product product)
{
    product.id = 1;
    product.initial = product.initial ? product.initial : 10;
    product.pay_within_s = product.pay_within_s ? product.pay_within_s : 3600;
    store_rig_put(rig, product);
}

static inline int hold_rig_set_up(void **state)
{
    atomic_store(&ahead_ms, 0);
    store_rig_set_up(state);
    hold_rig_put(*state, (struct store_product){.limit_per_user = 3});
    return 0;
}

static inline bool hold_rig_is_far(const struct store_rig *rig)
{
    return strncmp(rig->dir.url, "mysql:", 6) == 0;
}

static inline struct store_order hold_rig_look(struct store_rig *rig,
                                               const struct store_order *order)
{
    struct store_order found;

    assert_ok(store_order_get(rig->reader, order->id, &found, NULL));
    return found;
}

/* Nothing calls out when a hold has run out but the rows. */
static inline struct store_order hold_rig_wait(struct store_rig *rig,
                                               const struct store_order *order)
{
    struct store_order found;

    while ((found = hold_rig_look(rig, order)).state == STORE_AWAITING)
        usleep(2000);
    assert_int_equal(found.state, STORE_EXPIRED);
    return found;
}

static inline void hold_rig_expect(struct store_rig *rig, int64_t stock,
                                   int64_t held)
{
    struct store_units units;

    assert_int_equal(store_rig_product(rig, 1).stock, stock);
    assert_int_equal(store_rig_audit(rig).held, held);
    assert_ok(store_units_left(rig->reader, &units, NULL));
    assert_int_equal(units.held, held);
    store_rig_expect_sound(rig);
}

/* The hold must outlive its instance, because that would give it back as well: it
 * lasts for an hour, and the clock leaps when the instance is gone. MariaDB's own
 * clock does not leap. */
static inline int64_t hold_rig_pay_within_s(const struct store_rig *rig)
{
    return hold_rig_is_far(rig) ? 3 : 3600;
}

#endif

/*
 * A warm rig with a product on sale. See warm_stage.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/warm_stage.h"

struct warm_rig *warm_stage_begin(void **state, int64_t units, int64_t segments)
{
    struct warm_rig *rig = warm_rig_new(false, true);

    *state = rig;
    warm_rig_put(rig, 1, units, segments);
    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    return rig;
}

int warm_stage_end(void **state)
{
    if (*state)
        warm_rig_free(*state);
    return 0;
}

/* ---- what is seen --------------------------------------------------------- */

/* Puts it back, for the copy to be what it was. */
static enum warm_choice peep(struct warm_rig *rig, int64_t product_id,
                             int64_t units)
{
    struct warm_ticket ticket = {0};
    enum warm_choice choice =
        warm_take(rig->app.warm, product_id, units, &ticket);

    if (choice == WARM_SEGMENT)
        warm_settle(rig->app.warm, &ticket, WARM_KEPT);
    return choice;
}

struct warm_ticket warm_stage_ticket(struct warm_rig *rig, int64_t units)
{
    struct warm_ticket ticket = {0};

    assert_int_equal(warm_take(rig->app.warm, 1, units, &ticket), WARM_SEGMENT);
    return ticket;
}

bool warm_stage_gathers(struct warm_rig *rig, int64_t units)
{
    return peep(rig, 1, units) == WARM_GATHER;
}

bool warm_stage_is_cold(struct warm_rig *rig, int64_t product_id)
{
    return peep(rig, product_id, 1) == WARM_COLD;
}

bool warm_stage_is_warm(struct warm_rig *rig, int64_t product_id)
{
    return !warm_stage_is_cold(rig, product_id);
}

bool warm_stage_is_single(struct warm_rig *rig, int64_t product_id)
{
    return peep(rig, product_id, 1) == WARM_SINGLE;
}

bool warm_stage_has_segments(struct warm_rig *rig, int64_t product_id)
{
    return peep(rig, product_id, 1) == WARM_SEGMENT;
}

int64_t warm_stage_epoch(struct warm_rig *rig)
{
    return warm_rig_cells(rig, 1).epoch;
}

void warm_stage_ask(struct warm_rig *rig, const char *command)
{
    redis_server_ask(rig->redis, command, NULL, 0);
}

void warm_stage_expect_sound(struct warm_rig *rig)
{
    struct store_audit audit;

    assert_int_equal(
        store_audit(rig->reader, NULL, NULL, NULL, 0, &audit, NULL), STORE_OK);
    assert_true(audit.balanced);
}

/*
 * A warm rig as most tests want it: product 1 is on sale in segments, and its
 * keys are written. And what can be seen of it from outside.
 */
#ifndef WARM_STAGE_H
#define WARM_STAGE_H

#include "tests/support/warm_rig.h"

/* A rig of one instance, *state from now on. */
struct warm_rig *warm_stage_begin(void **state, int64_t units,
                                  int64_t segments);

/* The teardown: frees the rig in *state, if there is one. */
int warm_stage_end(void **state);

/* For UNITS of product 1; fails if no segment is chosen. */
struct warm_ticket warm_stage_ticket(struct warm_rig *rig, int64_t units);

/* No segment of product 1 seems to have UNITS. */
bool warm_stage_gathers(struct warm_rig *rig, int64_t units);

/* Of product 1, in the database. */
int64_t warm_stage_epoch(struct warm_rig *rig);

/* Says something to Redis, past the warmer. */
void warm_stage_ask(struct warm_rig *rig, const char *command);

/* The database balances. */
void warm_stage_expect_sound(struct warm_rig *rig);

/* ---- for warm_rig_until() ------------------------------------------------- */

bool warm_stage_is_cold(struct warm_rig *rig, int64_t product_id);
bool warm_stage_is_warm(struct warm_rig *rig, int64_t product_id);
bool warm_stage_is_single(struct warm_rig *rig, int64_t product_id);

/* Chosen among segments: known, and warm. */
bool warm_stage_has_segments(struct warm_rig *rig, int64_t product_id);

#endif

/*
 * Random schedules, for what is beyond all that can be enumerated: 20 to 60 moves of
 * up to four actors.
 *
 * Each schedule draws a priority for every actor, and the first in rank moves; at a
 * few random points the one that would move falls behind all others. A bug that needs
 * d such points comes up with a probability that has a lower bound: this is the PCT
 * scheduler of Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler
 * with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010. Troubles (deaths, ends of
 * leases, lost replies) are drawn into it at random points as well.
 *
 * A schedule that breaks something is shortened before it is told: moves are left out,
 * and those of one actor joined, as long as the same still breaks.
 */
#ifndef STAGE_RANDOM_H
#define STAGE_RANDOM_H

#include "server/lab/explore/search.h"

/*
 * Plays random schedules within BOUNDS, without reduction, on STAGES stages until
 * PROGRESS says false; the rest as of search_run(). Schedule number N of a SEED is the
 * same each time.
 */
bool random_run(const struct stage_scene *scene,
                const struct search_bounds *bounds, uint64_t seed,
                unsigned stages, search_progress *progress, void *ctx,
                struct search_result *result, char *error, size_t error_size);

/* Shortens FOUND, which breaks FAULT on STAGE. False and a text: the stage is
 * broken, or FOUND does not break it. */
bool random_shorten(struct stage *stage, unsigned fault,
                    struct search_found *found, char *error, size_t error_size);

#endif

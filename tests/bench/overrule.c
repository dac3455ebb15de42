/*
 * The server with its lane's choices overruled: for benches only. Linked around
 * the server (ld's --wrap) it makes `stockade-overruled`, which tells what each
 * choice is worth: the same sale with that one made differently. The server's
 * own code is as it is, and has no switch that nobody should touch.
 *
 *   BENCH_BATCH_MAX=N   a batch is closed with N orders in it
 *   BENCH_LINGER_US=N   a batch is kept open for so long after the store was
 *                       ready for it
 *   BENCH_GAP_US=N      so long after each order the next one is expected, so a
 *                       lock that nobody wants is kept for up to eight times
 *                       that, or given back at once if it is too long
 *   BENCH_DEAF=1        nobody of another instance is heard to wait for a lock
 *   BENCH_PUSHY=1       who gave a lock back does not stay away from it
 *
 * Read once, as it starts, when it says what it is. What is not set is not
 * overruled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "db/store.h"
#include "lock/dlock.h"
#include "server/order/lane.h"

static struct {
    size_t batch_max;
    uint64_t linger_us;
    uint64_t gap_us;
    bool deaf;
    bool pushy;
} choices; /* 0: not overruled */

static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void read_choices(void)
{
    choices.batch_max = number_of("BENCH_BATCH_MAX");
    choices.linger_us = number_of("BENCH_LINGER_US");
    choices.gap_us = number_of("BENCH_GAP_US");
    choices.deaf = number_of("BENCH_DEAF") > 0;
    choices.pushy = number_of("BENCH_PUSHY") > 0;
    fprintf(stderr, "stockade-overruled: a bench, not for use\n");
}

/* ---- when a batch is closed ----------------------------------------------- */

struct lane *__real_lanes_take(struct lanes *lanes, size_t n);
struct lane *__wrap_lanes_take(struct lanes *lanes, size_t n);

struct lane *__wrap_lanes_take(struct lanes *lanes, size_t n)
{
    if (choices.batch_max > 0 && choices.batch_max < n)
        n = choices.batch_max;
    return __real_lanes_take(lanes, n);
}

enum store_status __real_store_stream_open(struct store *store,
                                           const struct store_source *source,
                                           struct store_stream **stream,
                                           struct store_error *error);
enum store_status __wrap_store_stream_open(struct store *store,
                                           const struct store_source *source,
                                           struct store_stream **stream,
                                           struct store_error *error);

/* The desk's, of which a process has one. */
static struct store_source desk;

static size_t linger_and_take(void *ctx, struct store_lot lots[], size_t n_max)
{
    const struct timespec linger = {
        .tv_sec = (time_t)(choices.linger_us / 1000000),
        .tv_nsec = (long)(choices.linger_us % 1000000 * 1000)};

    nanosleep(&linger, NULL);
    return desk.take(ctx, lots, n_max);
}

enum store_status __wrap_store_stream_open(struct store *store,
                                           const struct store_source *source,
                                           struct store_stream **stream,
                                           struct store_error *error)
{
    struct store_source between = *source;

    desk = *source;
    if (choices.linger_us > 0)
        between.take = linger_and_take;
    return __real_store_stream_open(store, &between, stream, error);
}

/* ---- how long a lock is kept, and when it is given up --------------------- */

uint64_t __real_lane_expects_us(const struct lane *lane);
uint64_t __wrap_lane_expects_us(const struct lane *lane);

uint64_t __wrap_lane_expects_us(const struct lane *lane)
{
    return choices.gap_us > 0 ? choices.gap_us : __real_lane_expects_us(lane);
}

enum dlock_status __real_dlock_inspect_waiters(struct dlock_session *session,
                                               const char *name,
                                               struct dlock_waiting waiters[],
                                               size_t n_max, size_t *n,
                                               struct dlock_error *error);
enum dlock_status __wrap_dlock_inspect_waiters(struct dlock_session *session,
                                               const char *name,
                                               struct dlock_waiting waiters[],
                                               size_t n_max, size_t *n,
                                               struct dlock_error *error);

enum dlock_status __wrap_dlock_inspect_waiters(struct dlock_session *session,
                                               const char *name,
                                               struct dlock_waiting waiters[],
                                               size_t n_max, size_t *n,
                                               struct dlock_error *error)
{
    if (!choices.deaf)
        return __real_dlock_inspect_waiters(session, name, waiters, n_max, n,
                                            error);
    *n = 0;
    return DLOCK_OK;
}

enum dlock_status __real_dlock_inspect(struct dlock_session *session,
                                       const char *name,
                                       struct dlock_holder *holder,
                                       struct dlock_error *error);
enum dlock_status __wrap_dlock_inspect(struct dlock_session *session,
                                       const char *name,
                                       struct dlock_holder *holder,
                                       struct dlock_error *error);

/* Who has given a lock back asks whether it is somebody's again. */
enum dlock_status __wrap_dlock_inspect(struct dlock_session *session,
                                       const char *name,
                                       struct dlock_holder *holder,
                                       struct dlock_error *error)
{
    enum dlock_status status =
        __real_dlock_inspect(session, name, holder, error);

    if (choices.pushy && status == DLOCK_OK)
        holder->held = true;
    return status;
}

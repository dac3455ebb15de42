/*
 * Coming in again: the end of the textbook ladder, and its complete lock that
 * does without pub/sub. With any lock before, a method that calls another one
 * under the same lock waits for itself until the lease ends.
 *
 *   reentrant-local   `watchdog`, and the session counts. Guarantees that the
 *                     same session gets in again (N). A re-entry does not
 *                     lengthen the lease, nor ask whether there still is one:
 *                     the lease can end inside of the inner section, which is
 *                     the failure it is here to show: a count is a memory of
                     the lock, not the lock.
 *   reentrant-broken  guarantees nothing: its acquire fails with WRONGTYPE,
 *                     always, and leaves a key that never ends (rung_hash.c).
 *   reentrant         the count is in the lock, and every entry begins a whole
 *                     lease. Does not wake waiters (W): they poll, as those of
 *                     all the rungs do, about a thousand times a second each.
 *   spin              `reentrant`, but a waiter that is refused waits twice as
 *                     long before it looks again. Few commands, and late: the
 *                     lock may have been free for an eighth of a second before
 *                     somebody notices (W). What it is here to show is that
 *                     there is no good pause, next to `redisson`.
 *
 * None of them guarantees an order among waiters (F), or survives a lost Redis (M),
 * or stops the writes of a stale holder (S).
 */
#include "lock/textbook/rung.h"

#define RENEWED                                                                \
    (DLOCK_CAP_REMOTE | DLOCK_CAP_LEASE | DLOCK_CAP_OWNER | DLOCK_CAP_RENEW)

enum {
    SPIN_FIRST_US = 1000,
    SPIN_DOUBLINGS = 7, /* up to 128 ms */
};

/*
 * The upper half of it is random. Two that were refused together would come
 * back together for ever, and one of them would always be the second.
 */
static uint64_t spin_pause_us(unsigned look, uint16_t dice)
{
    unsigned doublings = look - 1 < SPIN_DOUBLINGS ? look - 1 : SPIN_DOUBLINGS;
    uint64_t half = (uint64_t)SPIN_FIRST_US << doublings >> 1;

    return half + half * dice / UINT16_MAX;
}

/* Changed, from `watchdog`: the session counts. */
const struct dlock_strategy dlock_strategy_reentrant_local = {
    .info = {.name = "reentrant-local",
             .claim = "The same, and the same session may come in again, for "
                      "what is left of its lease.",
             .capabilities = RENEWED | DLOCK_CAP_REENTRANT},
    .variant = &(const struct dlock_rung){.take = dlock_rung_string_set_nx_px,
                                          .touch = &dlock_rung_string_script,
                                          .id = dlock_rung_id_random,
                                          .counted = true},
    .renew = dlock_rung_string_renew,
    .forced = dlock_force_forced,
    DLOCK_RUNG_FUNCTIONS,
};

/* Changed: the server counts, in a hash that cannot be one. */
const struct dlock_strategy dlock_strategy_reentrant_broken = {
    .info = {.name = "reentrant-broken",
             .claim = "Nothing: it never worked. Published as a tutorial.",
             .capabilities = DLOCK_CAP_REMOTE},
    .variant =
        &(const struct dlock_rung){.take = dlock_rung_hash_tutorial,
                                   .touch = &dlock_rung_hash_touch_tutorial,
                                   .id = dlock_rung_id_random},
    .server = &dlock_redis_server,
    .acquire = dlock_rung_acquire,
    .release = dlock_rung_release,
};

/* Changed: a hash from the start, and a script. */
const struct dlock_strategy dlock_strategy_reentrant = {
    .info = {.name = "reentrant",
             .claim = "One holder while its lease runs, renewed while it "
                      "lives; re-entrant; waiters poll.",
             .capabilities = RENEWED | DLOCK_CAP_REENTRANT},
    .variant =
        &(const struct dlock_rung){.take = dlock_rung_hash_script,
                                   .touch = &dlock_rung_hash_touch_script,
                                   .id = dlock_rung_id_random},
    .renew = dlock_rung_hash_renew,
    .forced = dlock_force_forced,
    DLOCK_RUNG_FUNCTIONS,
};

/* Changed: the pause between two looks of a waiter. */
const struct dlock_strategy dlock_strategy_spin = {
    .info = {.name = "spin",
             .claim = "The same, and waiters look less and less often.",
             .capabilities = RENEWED | DLOCK_CAP_REENTRANT},
    .variant =
        &(const struct dlock_rung){.take = dlock_rung_hash_script,
                                   .touch = &dlock_rung_hash_touch_script,
                                   .id = dlock_rung_id_random},
    .renew = dlock_rung_hash_renew,
    .forced = dlock_force_forced,
    .pause_us = spin_pause_us,
    DLOCK_RUNG_FUNCTIONS,
};

/*
 * Private to the textbook ladder: a rung is a composition of policies.
 *
 *   take      how the lock is asked for              (rung_string.c, rung_hash.c)
 *   touch     how a lock that is held is given back, lengthened, looked at
 *   id        what the owner writes into it
 *   leaving   when the caller gets to its release    (strategy.h, session.c)
 *   renewal   who lengthens the lease: nobody, a guard (rung_guard.c), the
 *             watchdog (watchdog.c)
 *   counted   whether the session counts its re-entries by itself
 *
 * The rows are in rungs.c and lock_reentrant.c: read them from top to
 * bottom, and look for what has changed. What the policies are put together to
 * is in rung.c, the same for all rows.
 */
#ifndef DLOCK_RUNG_H
#define DLOCK_RUNG_H

#include "lock/redis/force.h"

/* One acquire, release or extend, as the policies see it. */
struct dlock_rung_call {
    struct dlock_session *session;
    const struct dlock_attempt *attempt;
    const char *id;   /* what this owner writes into the lock */
    unsigned holds;   /* out, of a take: 1, unless it counts */
    uint64_t busy_ms; /* out, of a take that was refused, if known */
    struct dlock_error *error;
};

/* One try: DLOCK_OK, DLOCK_BUSY, or what the command came to. */
typedef enum dlock_status dlock_rung_take(struct dlock_rung_call *call);

/* How the holder's hand goes at the lock. DLOCK_LOST: found it gone. */
struct dlock_rung_touch {
    enum dlock_status (*release)(struct dlock_rung_call *call);
    enum dlock_status (*extend)(struct dlock_rung_call *call);
    enum dlock_status (*inspect)(struct dlock_rung_call *call,
                                 struct dlock_holder *holder);
};

struct dlock_rung {
    dlock_rung_take *take;
    const struct dlock_rung_touch *touch;
    const char *(*id)(const struct dlock_session *session);
    bool guarded; /* by a thread that knows nothing of the holder */
    bool counted; /* re-entries do not come to the server */
};

/* Owner ids (rung.c) ------------------------------------------------------- */

/* Everybody writes the same, so nobody can tell whose lock it is. */
const char *dlock_rung_id_constant(const struct dlock_session *session);

/*
 * The number of the session within its client, as a thread has a number within
 * its process: the next process counts from 1 as well.
 */
const char *dlock_rung_id_number(const struct dlock_session *session);

/* Differs between any two sessions anywhere. */
const char *dlock_rung_id_random(const struct dlock_session *session);

/* Policies on a plain key (rung_string.c) ---------------------------------- */

dlock_rung_take dlock_rung_string_setnx;
dlock_rung_take dlock_rung_string_setnx_expire;
dlock_rung_take dlock_rung_string_setnx_expire_script;
dlock_rung_take dlock_rung_string_set_nx_px;

extern const struct dlock_rung_touch dlock_rung_string_blind;
extern const struct dlock_rung_touch dlock_rung_string_look_first;
extern const struct dlock_rung_touch dlock_rung_string_script;

/* For the watchdog: what _string_script extends with. */
dlock_renew_slot dlock_rung_string_renew;

/* Policies on a hash, owner -> holds (rung_hash.c) ------------------------- */

dlock_rung_take dlock_rung_hash_tutorial; /* WRONGTYPE */
dlock_rung_take dlock_rung_hash_script;

extern const struct dlock_rung_touch dlock_rung_hash_touch_tutorial;
extern const struct dlock_rung_touch dlock_rung_hash_touch_script;

dlock_renew_slot dlock_rung_hash_renew;

/* The guard thread (rung_guard.c) ------------------------------------------ */

/* As a strategy's open and close: one guard per client, in client->own. */
enum dlock_status dlock_rung_guard_open(struct dlock *client,
                                        struct dlock_error *error);
void dlock_rung_guard_close(struct dlock *client);

/* Memory and a thread for one more name, before the lock is taken. */
struct dlock_guarded *dlock_rung_guard_prepare(struct dlock *client,
                                               const char *name);

/* The lock was taken: guards it from now on; or was not. */
void dlock_rung_guard_start(struct dlock *client,
                            struct dlock_guarded *guarded);
void dlock_rung_guard_discard(struct dlock_guarded *guarded);

/* Ends the guarding of all names of the client: that is its fault. */
void dlock_rung_guard_stop(struct dlock *client);

/* The strategy's functions, from its rung's policies (rung.c) --------------- */

enum dlock_status dlock_rung_acquire(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_grant *grant,
                                     uint64_t *busy_ms,
                                     struct dlock_error *error);
enum dlock_status dlock_rung_extend(struct dlock_session *session,
                                    const struct dlock_attempt *attempt,
                                    struct dlock_error *error);
enum dlock_status dlock_rung_release(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_error *error);
enum dlock_status dlock_rung_inspect(struct dlock_session *session,
                                     const struct dlock_attempt *attempt,
                                     struct dlock_holder *holder,
                                     struct dlock_error *error);

#define DLOCK_RUNG_FUNCTIONS                                                   \
    .acquire = dlock_rung_acquire, .extend = dlock_rung_extend,                \
    .release = dlock_rung_release, .inspect = dlock_rung_inspect,              \
    .force = dlock_force_key, .server = &dlock_redis_server

/* For the policies: one command of the call, sent. */
enum dlock_status dlock_rung_send(const struct dlock_rung_call *call,
                                  const struct dlock_command *command,
                                  struct dlock_reply *reply);

/* The same; the command answers 1 for done, else 0 or -1: lost. */
enum dlock_status dlock_rung_done_or_lost(const struct dlock_rung_call *call,
                                          const struct dlock_command *command);

/*
 * The status of a command that follows another of the same take. If it fails,
 * the first one has had its effect all the same: "no" becomes "don't know".
 */
enum dlock_status dlock_rung_second(enum dlock_status status);

#endif

/*
 * The textbook ladder: the locks that everybody writes on the way to a right
 * one, each a repair of the one before.
 *
 * A rung is a composition of policies (rung.h). The table at the bottom is the
 * history of the field: read it downwards, where a word changes somebody had
 * learnt something. The claim says what a rung gains, and here is what it still
 * does not guarantee, which is the failure that it is here to show:
 *
 *   setnx             an error under the lock, or a crash, leaves it for ever.
 *   setnx-finally     a crash leaves it for ever (C); and its `finally` stands
 *                     around the acquire, so that a loser, who never had the
 *                     lock, deletes the winner's.
 *   setnx-expire      a crash between the two commands leaves it for ever (A).
 *   setnx-expire-lua, set-nx-px
 *                     a holder that pauses beyond its lease deletes the lock of
 *                     the next one, who then has company, and deletes that of
 *                     the next but one, and so on down the queue (P).
 *   token-thread      the numbers are those of one process: the same number in
 *                     another one may delete the lock (2, P).
 *   token             looks, then deletes; in between, the lease ends and the
 *                     next one comes (R).
 *   token-lua         work that takes longer than the lease is not alone (L);
 *                     the same session cannot come in twice (N); waiters poll
 *                     (W). But it deletes no lock except its own.
 *   guard-thread      renews what is not its own, for ever, or stops renewing
 *                     what is: see rung_guard.c.
 *   watchdog          N and W. A holder that is stopped for longer than its
 *                     lease is stopped together with its watchdog: what it
 *                     writes then, no lock can prevent, only fencing (S).
 *
 * None of them re-sends a command whose reply was lost; see rung.c.
 */
#include "lock/textbook/rung.h"

/* Renewal, by whoever lengthens the lease, as the strategy's table has it. */
#define BY_nobody .renew = NULL
#define BY_guard  .open = dlock_rung_guard_open, .close = dlock_rung_guard_close
#define BY_watchdog                                                            \
    .renew = dlock_rung_string_renew, .forced = dlock_force_forced

#define GUARDED_nobody   false
#define GUARDED_guard    true
#define GUARDED_watchdog false

#define KEY     DLOCK_CAP_REMOTE
#define LEASE   (KEY | DLOCK_CAP_LEASE)
#define OWNER   (LEASE | DLOCK_CAP_OWNER)
#define RENEWED (OWNER | DLOCK_CAP_RENEW)

#define RUNG(symbol, text, how, touched, when, whose, renewer, can, gain)      \
    const struct dlock_strategy dlock_strategy_##symbol = {                    \
        .info = {.name = (text), .claim = (gain), .capabilities = (can)},      \
        .leaving = DLOCK_LEAVE_##when,                                         \
        .variant =                                                             \
            &(const struct dlock_rung){                                        \
                .take = dlock_rung_string_##how,                               \
                .touch = &dlock_rung_string_##touched,                         \
                .id = dlock_rung_id_##whose,                                   \
                .guarded = GUARDED_##renewer,                                  \
            },                                                                 \
        BY_##renewer,                                                          \
        DLOCK_RUNG_FUNCTIONS,                                                  \
    };

/*
 * One thing changes from row to row. In setnx_expire it is the lease; the
 * `finally` moves as well, to behind the acquire, so that a lesson that has been
 * learnt does not hide the next ones.
 */
/* clang-format off */
/*   take                 touch       when        id        renewed by */
RUNG(setnx, "setnx",
     setnx,               blind,      ON_SUCCESS, constant, nobody,   KEY,
     "One at a time on any number of hosts, if nobody fails or crashes.")
RUNG(setnx_finally, "setnx-finally",
     setnx,               blind,      ALWAYS,     constant, nobody,   KEY,
     "The same, and an error under the lock does not leave it behind.")
RUNG(setnx_expire, "setnx-expire",
     setnx_expire,        blind,      IF_HELD,    constant, nobody,   LEASE,
     "The same, and a dead holder is got rid of after its lease.")
RUNG(setnx_expire_lua, "setnx-expire-lua",
     setnx_expire_script, blind,      IF_HELD,    constant, nobody,   LEASE,
     "The same, also if it dies while it takes the lock.")
RUNG(set_nx_px, "set-nx-px",
     set_nx_px,           blind,      IF_HELD,    constant, nobody,   LEASE,
     "The same, in one command and without a script.")
RUNG(token_thread, "token-thread",
     set_nx_px,           look_first, IF_HELD,    number,   nobody,   LEASE,
     "The same, and nobody in this process frees the lock of another.")
RUNG(token, "token",
     set_nx_px,           look_first, IF_HELD,    random,   nobody,   LEASE,
     "The same, on all hosts, unless the lease ends while it gives back.")
RUNG(token_lua, "token-lua",
     set_nx_px,           script,     IF_HELD,    random,   nobody,   OWNER,
     "The same, and nobody can free the lock of another.")
RUNG(guard_thread, "guard-thread",
     set_nx_px,           script,     IF_HELD,    random,   guard,    OWNER,
     "The same, and a thread renews the lease, of whomever.")
RUNG(watchdog, "watchdog",
     set_nx_px,           script,     IF_HELD,    random,   watchdog, RENEWED,
     "The same, but it is renewed for its holder only, while that lives.")
/* clang-format on */

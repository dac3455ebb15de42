/*
 * The textbook locks as a set, and fenced-late. Not a part of libdlock.
 */
#include "lock/dlock_textbook.h"

#include <assert.h>

#include "lock/backends.h" /* made by the Makefile */
#include "lock/dlock_quorum.h"
#include "lock/dlock_sql.h"
#include "lock/dlock_tls.h"
#include "lock/dlock_zk.h"
#include "lock/redis/lock_redisson.h"

/*
 * Nothing of the lock is different from fenced. It is the resource that is told,
 * by the capability, to compare at the write and not to stamp before the read:
 * what the holder has read by then may be stale, and its number is the highest.
 */
const struct dlock_strategy dlock_strategy_fenced_late = {
    .info = {.name = "fenced-late",
             .claim =
                 "As fenced, but the resource compares tokens only when it "
                 "is written: the late holder may come first.",
             .capabilities = DLOCK_REDISSON_CAPABILITIES | DLOCK_CAP_FENCED |
                             DLOCK_CAP_FENCED_LATE},
    .variant = &dlock_fenced_kind,
    DLOCK_REDISSON_FUNCTIONS,
    DLOCK_WAITERS_FUNCTIONS,
};

/* recorded is token-lua with a record, and no better than that. */
#if DLOCK_WITH_SQL
#define RECORDED(X) X(recorded)
#else
#define RECORDED(X)
#endif

#define TEXTBOOK(X)                                                            \
    X(mkdir)                                                                   \
    X(setnx)                                                                   \
    X(setnx_finally)                                                           \
    X(setnx_expire)                                                            \
    X(setnx_expire_lua)                                                        \
    X(set_nx_px)                                                               \
    X(token_thread)                                                            \
    X(token)                                                                   \
    X(token_lua)                                                               \
    X(guard_thread)                                                            \
    X(watchdog)                                                                \
    X(reentrant_local)                                                         \
    X(reentrant_broken)                                                        \
    X(reentrant)                                                               \
    X(spin)                                                                    \
    RECORDED(X)                                                                \
    X(fenced_late)

TEXTBOOK(DLOCK_STRATEGY_DECLARE)
DLOCK_STRATEGIES(dlock_textbook_strategies, TEXTBOOK)

void dlock_register_all(void)
{
    const struct dlock_strategies *const parts[] = {
        &dlock_textbook_strategies,
        &dlock_quorum_strategies,
#if DLOCK_WITH_TLS
        &dlock_tls,
#endif
#if DLOCK_WITH_SQL
        &dlock_sql_strategies,
#endif
#if DLOCK_WITH_ZK
        &dlock_zk_strategies,
#endif
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        enum dlock_status status = dlock_register(parts[i], NULL);

        assert(status == DLOCK_OK);
        (void)status;
    }
}

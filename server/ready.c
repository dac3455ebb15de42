/* See ready.h. */
#include "server/ready.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "server/tasks.h"

/*
 * One look at a time; others meanwhile get what the last one found. Otherwise,
 * while the lock server hangs, a few probes a second would keep all readers
 * waiting for it.
 */
static enum dlock_status ask_lock_server(struct dlock_session *session)
{
    static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
    static atomic_int last = DLOCK_UNREACHABLE;
    struct dlock_holder holder;
    enum dlock_status status;

    if (pthread_mutex_trylock(&asking) == 0) {
        status = dlock_inspect(session, "readyz", &holder, NULL);
        /* A strategy that cannot tell has no server to ask. */
        atomic_store(&last, (int)(status == DLOCK_MISUSE ? DLOCK_OK : status));
        pthread_mutex_unlock(&asking);
    }
    return (enum dlock_status)atomic_load(&last);
}

bool ready_look(const struct worker *worker, char *why, size_t size)
{
    struct store_error error = {0};
    struct store_product product;
    enum dlock_status lock;
    size_t n;

    if (store_product_list(worker->reader, 0, 1, &product, &n, &error) !=
        STORE_OK) {
        snprintf(why, size, "store: %s", error.text);
        return false;
    }
    lock = ask_lock_server(worker->session);
    snprintf(why, size, "lock server: %s", dlock_status_text(lock));
    return lock == DLOCK_OK;
}

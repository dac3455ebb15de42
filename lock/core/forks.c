/* See forks.h. */
#include "lock/core/forks.h"

#include <stddef.h>

static const struct dlock_shared *const all[] = {
    &dlock_sessions_shared,
    &dlock_lookup_shared,
    &dlock_process_shared,
};

enum { ALL_N = sizeof(all) / sizeof(all[0]) };

static unsigned forks_n; /* written where there is one thread: in a child */

unsigned dlock_forks(void)
{
    return forks_n;
}

/* The order does not matter, because no thread holds one of these mutexes and takes
 * another: so this cannot end in a deadlock. */
static void before(void)
{
    for (size_t i = 0; i < ALL_N; i++)
        (void)pthread_mutex_lock(all[i]->mutex);
}

static void in_parent(void)
{
    for (size_t i = 0; i < ALL_N; i++)
        (void)pthread_mutex_unlock(all[i]->mutex);
}

static void in_child(void)
{
    /* The count rises before anything else: from here on every call on a client of the
     * parent's is refused. */
    forks_n++;
    for (size_t i = 0; i < ALL_N; i++)
        if (all[i]->forget != NULL)
            all[i]->forget();
    /* The child owns the mutexes that its only thread took before the fork, and gives them
     * back as the parent does. */
    in_parent();
}

static int watch_status;

static void watch_once(void)
{
    watch_status = pthread_atfork(before, in_parent, in_child);
}

bool dlock_forks_watch(void)
{
    /* A handler that is registered twice would lock each mutex twice. */
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    return pthread_once(&once, watch_once) == 0 && watch_status == 0;
}

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

/* Nobody takes one of these mutexes with another one of them. */
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
    forks_n++;
    for (size_t i = 0; i < ALL_N; i++)
        if (all[i]->forget != NULL)
            all[i]->forget();
    in_parent();
}

static int watch_status;

static void watch_once(void)
{
    watch_status = pthread_atfork(before, in_parent, in_child);
}

bool dlock_forks_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    return pthread_once(&once, watch_once) == 0 && watch_status == 0;
}

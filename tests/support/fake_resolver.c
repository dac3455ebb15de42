/* See fake_resolver.h. */
#include "tests/support/fake_resolver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/dial/lookup.h"
#include "tests/support/unit_test.h"

enum { PATIENCE_MS = 20000 };

static struct dlock_places told;
static int fails; /* 0, or an EAI_ */
static atomic_uint asked_n;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool hangs;

static int resolve(const char *host, const char *port,
                   struct dlock_places *places)
{
    atomic_fetch_add(&asked_n, 1);
    (void)pthread_mutex_lock(&mutex);
    while (hangs)
        (void)pthread_cond_wait(&changed, &mutex);
    *places = told;
    (void)pthread_mutex_unlock(&mutex);
    return fails;
}

void fake_resolver_begin(void)
{
    fails = 0;
    told.n = 0;
    fake_resolver_hang(false);
    atomic_store(&asked_n, 0);
    dlock_lookup_by(resolve);
}

void fake_resolver_tell(struct sockaddr_in at)
{
    memcpy(&told.list[told.n].at, &at, sizeof(at));
    told.list[told.n++].len = sizeof(at);
}

void fake_resolver_forget(void)
{
    told.n = 0;
}

void fake_resolver_fail(int error)
{
    fails = error;
}

void fake_resolver_hang(bool on)
{
    (void)pthread_mutex_lock(&mutex);
    hangs = on;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&mutex);
}

void fake_resolver_let_go(const char *host, const char *port)
{
    struct dlock_places places;

    fake_resolver_hang(false);
    (void)dlock_lookup(host, port, dlock_clock_real_now() + PATIENCE_MS,
                       &places);
}

unsigned fake_resolver_asked_n(void)
{
    return atomic_load(&asked_n);
}

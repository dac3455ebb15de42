/* A list of grants, because a session rarely has more than two or three. */
#include "lock/core/held.h"

#include <stdlib.h>
#include <string.h>

struct dlock_held_grant {
    LIST_ENTRY(dlock_held_grant) link;
    uint64_t attempt; /* that won it */
    uint64_t release; /* the attempt that gives it back; 0 = it is held */
    bool uncertain;   /* a release of it may have worked */
    bool is_past;     /* the name has been lost, or taken anew, since */
    char name[];
};

static struct dlock_held_grant *find(const struct dlock_held *held,
                                     uint64_t attempt)
{
    struct dlock_held_grant *grant = LIST_FIRST(&held->grants);

    while (grant != NULL && grant->attempt != attempt)
        grant = LIST_NEXT(grant, link);
    return grant;
}

static void forget(struct dlock_held_grant *grant)
{
    LIST_REMOVE(grant, link);
    free(grant);
}

/* With the mutex. A release that got no answer may still be repeated. */
static void lose(struct dlock_held *held, const char *name)
{
    struct dlock_held_grant *next;

    for (struct dlock_held_grant *each = LIST_FIRST(&held->grants);
         each != NULL; each = next) {
        next = LIST_NEXT(each, link);
        if (strcmp(each->name, name) != 0)
            continue;
        if (each->release == 0)
            forget(each);
        else
            each->is_past = true;
    }
}

void dlock_held_init(struct dlock_held *held)
{
    (void)pthread_mutex_init(&held->mutex, NULL);
}

void dlock_held_release(struct dlock_held *held)
{
    struct dlock_held_grant *each;

    while ((each = LIST_FIRST(&held->grants)) != NULL) {
        LIST_REMOVE(each, link);
        free(each);
    }
    free(held->reserved);
    (void)pthread_mutex_destroy(&held->mutex);
}

unsigned dlock_held_count(const struct dlock_held *held, const char *name)
{
    const struct dlock_held_grant *each;
    unsigned n = 0;

    for (each = LIST_FIRST(&held->grants); each != NULL;
         each = LIST_NEXT(each, link))
        n += each->release == 0 && strcmp(each->name, name) == 0;
    return n;
}

bool dlock_held_reserve(struct dlock_held *held, const char *name)
{
    size_t size = strlen(name) + 1;
    struct dlock_held_grant *grant =
        realloc(held->reserved, sizeof(*grant) + size);

    if (grant == NULL)
        return false;
    memcpy(grant->name, name, size);
    held->reserved = grant;
    return true;
}

/* A server may count on from holds of ours that we know to have given back. */
bool dlock_held_add(struct dlock_held *held, unsigned holds, uint64_t attempt)
{
    struct dlock_held_grant *grant = held->reserved;
    bool held_before = dlock_held_count(held, grant->name) > 0;
    bool anew = held_before && holds == 1;

    (void)pthread_mutex_lock(&held->mutex);
    if (anew || !held_before)
        lose(held, grant->name);
    grant->attempt = attempt;
    grant->release = 0;
    grant->uncertain = grant->is_past = false;
    LIST_INSERT_HEAD(&held->grants, grant, link);
    held->reserved = NULL;
    (void)pthread_mutex_unlock(&held->mutex);
    return anew;
}

void dlock_held_lost(struct dlock_held *held, const char *name)
{
    (void)pthread_mutex_lock(&held->mutex);
    lose(held, name);
    (void)pthread_mutex_unlock(&held->mutex);
}

bool dlock_held_superseded(const struct dlock_held *held, const char *name,
                           uint64_t attempt)
{
    /* The caller only asks, so HELD is const; its mutex is no part of what is held. */
    pthread_mutex_t *mutex = (pthread_mutex_t *)&held->mutex;
    const struct dlock_held_grant *grant;
    bool superseded;

    (void)pthread_mutex_lock(mutex);
    grant = find(held, attempt);
    superseded =
        dlock_held_count(held, name) > 0 && (grant == NULL || grant->is_past);
    (void)pthread_mutex_unlock(mutex);
    return superseded;
}

bool dlock_held_has(const struct dlock_held *held, uint64_t attempt)
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)&held->mutex; /* as above */
    const struct dlock_held_grant *grant;
    bool has;

    (void)pthread_mutex_lock(mutex);
    grant = find(held, attempt);
    has = grant != NULL && !grant->is_past;
    (void)pthread_mutex_unlock(mutex);
    return has;
}

/* A caller that never repeats a release would fill the memory. */
static void limit_releases(struct dlock_held *held)
{
    struct dlock_held_grant *oldest = NULL, *each;
    unsigned n = 0;

    for (each = LIST_FIRST(&held->grants); each != NULL;
         each = LIST_NEXT(each, link)) {
        n += each->release != 0;
        if (each->release != 0 &&
            (oldest == NULL || each->release < oldest->release))
            oldest = each;
    }
    if (n > DLOCK_HELD_RELEASES_MAX)
        forget(oldest);
}

uint64_t dlock_held_give(struct dlock_held *held, uint64_t attempt,
                         uint64_t number, bool *uncertain)
{
    struct dlock_held_grant *grant = find(held, attempt);

    if (grant == NULL)
        return 0;
    *uncertain = grant->uncertain;
    if (grant->release != 0)
        return grant->release;
    (void)pthread_mutex_lock(&held->mutex);
    grant->release = number;
    limit_releases(held);
    (void)pthread_mutex_unlock(&held->mutex);
    return 0;
}

/* Not having reached the server settles nothing. */
void dlock_held_given(struct dlock_held *held, uint64_t attempt,
                      enum dlock_status status)
{
    struct dlock_held_grant *grant = find(held, attempt);

    if (grant == NULL || status == DLOCK_UNREACHABLE)
        return;
    (void)pthread_mutex_lock(&held->mutex);
    if (status == DLOCK_UNKNOWN)
        grant->uncertain = true;
    else
        forget(grant);
    (void)pthread_mutex_unlock(&held->mutex);
}

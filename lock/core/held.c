/*
 * A hash table of locks, by name: a session rarely holds more
 * than two or three at a time, but it may hold a thousand.
 */
#include "lock/core/held.h"

#include <stdlib.h>
#include <string.h>

struct dlock_held_lock {
    struct dlock_held_lock *next;
    unsigned holds;
    uint64_t first; /* the attempt that won the first of them */
    struct dlock_unknown_release unknown;
    uint64_t *grants; /* the attempts that won what is held */
    size_t grants_n;
    size_t room;
    char name[];
};

/* FNV-1a. */
static size_t bucket_of(const char *name)
{
    uint32_t hash = UINT32_C(2166136261);

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT32_C(16777619);
    return hash % DLOCK_HELD_BUCKETS;
}

/* The link that leads to NAME's entry, or to the end. */
static struct dlock_held_lock **find(struct dlock_held *held, const char *name)
{
    struct dlock_held_lock **link = &held->buckets[bucket_of(name)];

    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

static const struct dlock_held_lock *look_up(const struct dlock_held *held,
                                             const char *name)
{
    return *find((struct dlock_held *)held, name);
}

unsigned dlock_held_count(const struct dlock_held *held, const char *name)
{
    const struct dlock_held_lock *entry = look_up(held, name);

    return entry == NULL ? 0 : entry->holds;
}

static void free_entry(struct dlock_held_lock *entry)
{
    free(entry->grants);
    free(entry);
}

bool dlock_held_reserve(struct dlock_held *held, const char *name)
{
    struct dlock_held_lock **link = find(held, name);
    size_t size = strlen(name) + 1;
    uint64_t *grants = NULL;

    (void)pthread_mutex_lock(&held->mutex);
    if (*link == NULL && (*link = calloc(1, sizeof(**link) + size)) != NULL)
        memcpy((*link)->name, name, size);
    if (*link != NULL && (*link)->grants_n < (*link)->room) {
        grants = (*link)->grants;
    } else if (*link != NULL) {
        size_t room = 2 * (*link)->room + 1;

        grants = realloc((*link)->grants, room * sizeof(*grants));
        if (grants != NULL) {
            (*link)->grants = grants;
            (*link)->room = room;
        }
    }
    (void)pthread_mutex_unlock(&held->mutex);
    return grants != NULL;
}

void dlock_held_set(struct dlock_held *held, const char *name, unsigned holds)
{
    struct dlock_held_lock **link = find(held, name);
    struct dlock_held_lock *entry = *link;

    if (entry == NULL)
        return;
    (void)pthread_mutex_lock(&held->mutex);
    entry->holds = holds;
    if (holds == 0) {
        *link = entry->next;
        if (entry->unknown.number != 0)
            held->unknown = entry->unknown;
        free_entry(entry);
    }
    (void)pthread_mutex_unlock(&held->mutex);
}

/* A server may count on from holds of ours that we know to have given back. */
bool dlock_held_add(struct dlock_held *held, const char *name, unsigned holds,
                    uint64_t attempt)
{
    struct dlock_held_lock *entry = *find(held, name);
    bool anew;

    if (entry == NULL)
        return false;
    (void)pthread_mutex_lock(&held->mutex);
    anew = entry->holds > 0 && holds == 1;
    if (entry->holds == 0 || anew) {
        entry->first = attempt;
        entry->grants_n = 0;
    }
    entry->grants[entry->grants_n++] = attempt;
    entry->holds = holds;
    (void)pthread_mutex_unlock(&held->mutex);
    return anew;
}

/* Where GRANT stands; past the end if it does not. */
static size_t place_of(const struct dlock_held_lock *entry, uint64_t grant)
{
    size_t i = 0;

    while (i < entry->grants_n && entry->grants[i] != grant)
        i++;
    return i;
}

void dlock_held_remove(struct dlock_held *held, const char *name,
                       uint64_t grant)
{
    struct dlock_held_lock *entry = *find(held, name);
    size_t i = entry == NULL ? 0 : place_of(entry, grant);

    (void)pthread_mutex_lock(&held->mutex);
    if (entry != NULL && i < entry->grants_n)
        entry->grants[i] = entry->grants[--entry->grants_n];
    (void)pthread_mutex_unlock(&held->mutex);
}

/* A release whose reply was lost is ignored if the hold has been lost since. */
bool dlock_held_superseded(const struct dlock_held *held, const char *name,
                           uint64_t attempt)
{
    /* The caller only asks, so HELD is const; its mutex is no part of what is held. */
    pthread_mutex_t *mutex = (pthread_mutex_t *)&held->mutex;
    const struct dlock_held_lock *entry;
    bool superseded = false;

    (void)pthread_mutex_lock(mutex);
    entry = look_up(held, name);
    if (entry != NULL && entry->holds > 0)
        superseded = attempt < entry->first ||
                     (place_of(entry, attempt) == entry->grants_n &&
                      dlock_held_unknown_release(held, name, attempt) == 0);
    (void)pthread_mutex_unlock(mutex);
    return superseded;
}

static bool is_about(const struct dlock_unknown_release *unknown,
                     uint64_t grant)
{
    return unknown->number != 0 && unknown->grant == grant;
}

/* It may have been there before the entry was. */
void dlock_held_note_unknown(struct dlock_held *held, const char *name,
                             uint64_t grant, uint64_t number)
{
    struct dlock_held_lock *entry = *find(held, name);
    struct dlock_unknown_release *unknown =
        entry == NULL ? &held->unknown : &entry->unknown;

    (void)pthread_mutex_lock(&held->mutex);
    if (is_about(&held->unknown, grant))
        unknown = &held->unknown;
    if (number != 0 || is_about(unknown, grant))
        *unknown =
            (struct dlock_unknown_release){.number = number, .grant = grant};
    (void)pthread_mutex_unlock(&held->mutex);
}

uint64_t dlock_held_unknown_release(const struct dlock_held *held,
                                    const char *name, uint64_t grant)
{
    const struct dlock_held_lock *entry = look_up(held, name);

    if (entry != NULL && is_about(&entry->unknown, grant))
        return entry->unknown.number;
    return is_about(&held->unknown, grant) ? held->unknown.number : 0;
}

void dlock_held_init(struct dlock_held *held)
{
    (void)pthread_mutex_init(&held->mutex, NULL);
}

void dlock_held_release(struct dlock_held *held)
{
    for (size_t i = 0; i < DLOCK_HELD_BUCKETS; i++) {
        while (held->buckets[i] != NULL) {
            struct dlock_held_lock *next = held->buckets[i]->next;

            free_entry(held->buckets[i]);
            held->buckets[i] = next;
        }
    }
    (void)pthread_mutex_destroy(&held->mutex);
}

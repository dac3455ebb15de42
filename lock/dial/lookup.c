/*
 * Names, their last answers, and the threads that ask for new ones. One mutex guards
 * all of it: it is held for moments, never while a name is being looked up. The threads are
 * this file's own, because getaddrinfo_a() does not survive fork(2): in a child its queue
 * believes in helper threads that are gone, and lookups never end.
 */
#include "lock/dial/lookup.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/core/forks.h"

enum { NAMES_MAX = 32 }; /* so many threads, at most, hang in a dead resolver */

/* NEWER_MS_MAX bounds the wait for a newer answer where there is an old one: a resolver
 * that is slow must not make each connect slow. NEWER_SHARE leaves the rest of the caller's
 * time for connecting. */
enum { NEWER_MS_MAX = 250, NEWER_SHARE = 4 };

/* A host and port that was asked for, until others need the place. */
struct name {
    char host[256];
    char port[8];
    uint64_t since;      /* of the names that were asked for, which one it is */
    bool asking;         /* its thread runs: it must not go */
    unsigned waiters_n;  /* the same */
    uint64_t answered_n; /* by how many threads */
    int failure;         /* the last answer: an EAI_; 0 = it was a good one */
    struct dlock_places good; /* the last good answer; n = 0: none yet */
};

/* Asks getaddrinfo(), in the way that FLAGS say. */
static int ask_by(int flags, const char *host, const char *port,
                  struct dlock_places *places)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *list = NULL;
    int failure = getaddrinfo(host, port, &hints, &list);

    if (failure != 0)
        return failure;
    places->n = 0;
    for (const struct addrinfo *each = list;
         each != NULL && places->n < DLOCK_PLACES_MAX; each = each->ai_next) {
        struct dlock_place *place = &places->list[places->n];

        /* An address that is too long for sockaddr_storage comes from a strange resolver
         * only, and is left out. */
        if (each->ai_addrlen > sizeof(place->at))
            continue;
        memcpy(&place->at, each->ai_addr, each->ai_addrlen);
        place->len = each->ai_addrlen;
        places->n++;
    }
    freeaddrinfo(list);
    return places->n > 0 ? 0 : EAI_NONAME;
}

static int ask_system(const char *host, const char *port,
                      struct dlock_places *places)
{
    return ask_by(AI_NUMERICSERV, host, port, places);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered = PTHREAD_COND_INITIALIZER;
/* RESOLVER is atomic, because the thread reads it without the mutex. */
static dlock_resolver *_Atomic resolver = ask_system;
static struct name names[NAMES_MAX]; /* of the process */

/* No thread is left that could answer, or waits. Old answers stay. */
static void forget_threads(void)
{
    /* Waiters of the parent's are counted in the condition, and would never leave it
     * here. */
    answered = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    for (size_t i = 0; i < NAMES_MAX; i++) {
        names[i].asking = false;
        names[i].waiters_n = 0;
    }
}

const struct dlock_shared dlock_lookup_shared = {&mutex, forget_threads};

void dlock_lookup_by(dlock_resolver *another)
{
    DLOCK_LOCKED(&mutex);

    resolver = another != NULL ? another : ask_system;
}

/* With the mutex: the one that there is, or a new one in the place of the one that was
 * asked for first. NULL: all of these are asked for now. */
static struct name *name_of(const char *host, const char *port)
{
    static uint64_t names_n;
    struct name *oldest = NULL;

    for (size_t i = 0; i < NAMES_MAX; i++) {
        struct name *each = &names[i];

        if (strcmp(each->host, host) == 0 && strcmp(each->port, port) == 0)
            return each;
        /* A thread that asks, or one that waits, has a pointer to the name: its place must
         * stay. */
        if (!each->asking && each->waiters_n == 0 &&
            (oldest == NULL || each->since < oldest->since))
            oldest = each;
    }
    if (oldest == NULL)
        return NULL;
    *oldest = (struct name){.since = ++names_n};
    (void)snprintf(oldest->host, sizeof(oldest->host), "%s", host);
    (void)snprintf(oldest->port, sizeof(oldest->port), "%s", port);
    return oldest;
}

/* The thread -------------------------------------------------------------- */

/* Looks one name up, however long that takes. */
static void *look_up(void *arg)
{
    struct name *name = arg;
    struct dlock_places found = {.n = 0};
    /* The mutex is not held here: HOST and PORT do not change while ->asking is true. */
    int failure = resolver(name->host, name->port, &found);
    DLOCK_LOCKED(&mutex);

    name->asking = false;
    name->answered_n++;
    name->failure = failure;
    if (failure == 0)
        /* A failure leaves the last good answer in its place. */
        name->good = found;
    (void)pthread_cond_broadcast(&answered);
    return NULL;
}

/* Questions --------------------------------------------------------------- */

/* With the mutex, which is let go of meanwhile: 0 or an EAI_, which is EAI_INPROGRESS if
 * there was no answer by UNTIL_MS. Nobody joins the thread that asks, because it may hang
 * for as long as the resolver likes. "There is no such name" is an answer; without one,
 * the last good one will do. */
static int ask_for(struct name *name, uint64_t until_ms,
                   struct dlock_places *places)
{
    uint64_t answered_n = name->answered_n;
    int failure = EAI_AGAIN; /* no thread */
    bool time_left = true;
    pthread_t thread;

    if (name->good.n > 0)
        until_ms = dlock_clock_real_until(
            NEWER_MS_MAX, dlock_clock_real_part(until_ms, NEWER_SHARE));
    if (!name->asking &&
        dlock_clock_thread(&thread, "dlock-lookup", look_up, name) == 0) {
        (void)pthread_detach(thread);
        /* The thread was started with the mutex held, so that it cannot say it is done
         * before this. */
        name->asking = true;
    }
    /* A thread that another question has started will do: its answer is younger than any
     * that is there. */
    if (name->asking) {
        name->waiters_n++;
        while (name->answered_n == answered_n && time_left)
            time_left = dlock_clock_wait(dlock_clock_default(), &answered,
                                         &mutex, until_ms);
        name->waiters_n--;
        failure =
            name->answered_n == answered_n ? EAI_INPROGRESS : name->failure;
    }
    /* The copy is made with the mutex: the next thread may write a newer answer. */
    *places = name->good;
    return failure != EAI_NONAME && places->n > 0 ? 0 : failure;
}

enum dlock_status dlock_lookup(const char *host, const char *port,
                               uint64_t until_ms, struct dlock_places *places)
{
    DLOCK_LOCKED(&mutex);
    struct name *name;
    int failure = 0;

    /* Numbers need no resolver, no thread and no place among the names. */
    if (ask_by(AI_NUMERICHOST | AI_NUMERICSERV, host, port, places) == 0)
        return DLOCK_OK;
    name = name_of(host, port);
    if (name != NULL)
        failure = ask_for(name, until_ms, places);
    if (name != NULL && failure == 0)
        return DLOCK_OK;
    return dlock_error_set(DLOCK_UNREACHABLE, "look up %.100s: %s", host,
                           name == NULL                ? "too many at once"
                           : failure == EAI_INPROGRESS ? strerror(ETIMEDOUT)
                                                       : gai_strerror(failure));
}

void dlock_place_text(const struct dlock_place *place,
                      char host[DLOCK_PLACE_BYTES_MAX + 1],
                      char port[DLOCK_PORT_BYTES_MAX + 1])
{
    int failure =
        getnameinfo((const struct sockaddr *)&place->at, place->len, host,
                    DLOCK_PLACE_BYTES_MAX + 1, port, DLOCK_PORT_BYTES_MAX + 1,
                    NI_NUMERICHOST | NI_NUMERICSERV);

    assert(failure == 0);
    (void)failure;
}

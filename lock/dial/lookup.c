/*
 * Names, their last answers, and the questions that wait for new ones. One mutex
 * guards all of it: it is held for moments, never while a name is being looked up.
 */
#include "lock/dial/lookup.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lock/core/clock.h"
#include "lock/core/forks.h"

enum { NAMES_MAX = 32 }; /* so many threads, at most, hang in a dead resolver */

/* A host and port that was asked for. HOST and PORT never change. */
struct name {
    struct name *next;
    char host[256];
    char port[8];
    bool asking;              /* its thread runs: it must not go */
    struct dlock_places good; /* the last good answer; n = 0: none yet */
    struct dlock_lookup *questions;
};

struct dlock_lookup {
    struct name *name;
    struct dlock_lookup *next; /* of the same name */
    int fd;
    bool answered;
    int failure;
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

bool dlock_lookup_numbers(const char *host, const char *port,
                          struct dlock_places *places)
{
    return ask_by(AI_NUMERICHOST | AI_NUMERICSERV, host, port, places) == 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static dlock_resolver *resolver = ask_system;
/* Of the process; they stay until others need room. */
static struct name *names;

/* No thread is left that could answer. Old answers stay. */
static void forget_questions(void)
{
    for (struct name *name = names; name != NULL; name = name->next) {
        name->asking = false;
        while (name->questions != NULL) {
            struct dlock_lookup *gone = name->questions;

            name->questions = gone->next;
            (void)close(gone->fd);
            free(gone);
        }
    }
}

const struct dlock_shared dlock_lookup_shared = {&mutex, forget_questions};

void dlock_lookup_by(dlock_resolver *another)
{
    (void)pthread_mutex_lock(&mutex);
    resolver = another != NULL ? another : ask_system;
    (void)pthread_mutex_unlock(&mutex);
}

/* Names; with the mutex --------------------------------------------------- */

/* Makes room by forgetting the name that was asked for first, if it can. */
static bool make_room(void)
{
    struct name **oldest = NULL;
    struct name *gone;
    size_t n = 0;

    for (struct name **at = &names; *at != NULL; at = &(*at)->next) {
        n++;
        if (!(*at)->asking && (*at)->questions == NULL)
            oldest = at;
    }
    if (n < NAMES_MAX)
        return true;
    if (oldest == NULL)
        return false;
    gone = *oldest;
    *oldest = gone->next;
    free(gone);
    return true;
}

/* The one that there is, or a new one in front. NULL: no memory, no room. */
static struct name *name_of(const char *host, const char *port)
{
    struct name *name = names;

    while (name != NULL &&
           (strcmp(name->host, host) != 0 || strcmp(name->port, port) != 0))
        name = name->next;
    if (name != NULL)
        return name;
    name = make_room() ? calloc(1, sizeof(*name)) : NULL;
    if (name == NULL)
        return NULL;
    (void)snprintf(name->host, sizeof(name->host), "%s", host);
    (void)snprintf(name->port, sizeof(name->port), "%s", port);
    name->next = names;
    names = name;
    return name;
}

/* Tells all that wait for NAME. */
static void answer(struct name *name, int failure)
{
    for (struct dlock_lookup *each = name->questions; each != NULL;
         each = each->next) {
        if (each->answered)
            continue;
        each->answered = true;
        each->failure = failure;
        (void)!eventfd_write(each->fd, 1);
    }
}

/* The thread -------------------------------------------------------------- */

/* Looks one name up, however long that takes. */
static void *look_up(void *arg)
{
    struct name *name = arg;
    struct dlock_places found = {.n = 0};
    dlock_resolver *ask;
    int failure;

    (void)pthread_mutex_lock(&mutex);
    ask = resolver;
    (void)pthread_mutex_unlock(&mutex);
    failure = ask(name->host, name->port, &found);
    (void)pthread_mutex_lock(&mutex);
    name->asking = false;
    if (failure == 0)
        name->good = found;
    answer(name, failure);
    (void)pthread_mutex_unlock(&mutex);
    return NULL;
}

/* Questions --------------------------------------------------------------- */

/* Joins who has asked the same and waits, or starts a thread. */
static bool ask_for(struct dlock_lookup *lookup, const char *host,
                    const char *port)
{
    struct name *name;
    pthread_t thread;

    (void)pthread_mutex_lock(&mutex);
    name = name_of(host, port);
    lookup->name = name;
    if (name != NULL) {
        lookup->next = name->questions;
        name->questions = lookup;
        /* Nobody joins the thread, because it may hang for as long as the resolver
         * likes. */
        if (!name->asking &&
            dlock_clock_thread(&thread, "dlock-lookup", look_up, name) == 0) {
            (void)pthread_detach(thread);
            name->asking = true;
        }
        if (!name->asking)
            answer(name, EAI_AGAIN);
    }
    (void)pthread_mutex_unlock(&mutex);
    return name != NULL;
}

struct dlock_lookup *dlock_lookup_begin(const char *host, const char *port)
{
    struct dlock_lookup *lookup = calloc(1, sizeof(*lookup));

    if (lookup == NULL)
        return NULL;
    lookup->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lookup->fd >= 0 && ask_for(lookup, host, port))
        return lookup;
    if (lookup->fd >= 0)
        (void)close(lookup->fd);
    free(lookup);
    return NULL;
}

int dlock_lookup_fd(const struct dlock_lookup *lookup)
{
    return lookup->fd;
}

bool dlock_lookup_answer(struct dlock_lookup *lookup, int *failure,
                         struct dlock_places *places)
{
    bool answered;

    (void)pthread_mutex_lock(&mutex);
    answered = lookup->answered;
    *failure = lookup->failure;
    if (answered && lookup->failure == 0)
        *places = lookup->name->good;
    (void)pthread_mutex_unlock(&mutex);
    return answered;
}

bool dlock_lookup_remembered(struct dlock_lookup *lookup,
                             struct dlock_places *places)
{
    (void)pthread_mutex_lock(&mutex);
    *places = lookup->name->good;
    (void)pthread_mutex_unlock(&mutex);
    return places->n > 0;
}

void dlock_lookup_end(struct dlock_lookup *lookup)
{
    struct dlock_lookup **at;

    if (lookup == NULL)
        return;
    (void)pthread_mutex_lock(&mutex);
    at = &lookup->name->questions;
    while (*at != lookup)
        at = &(*at)->next;
    *at = lookup->next;
    (void)pthread_mutex_unlock(&mutex);
    (void)close(lookup->fd);
    free(lookup);
}

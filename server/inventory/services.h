/*
 * The inventory services, and tries: one HTTP request each. All of it is the
 * inventory's thread's own, but for what is atomic.
 */
#ifndef SERVICES_H
#define SERVICES_H

#include <stdatomic.h>

#include "server/inventory/inventory.h"

#define SERVICES_MAX      16
#define SERVICE_URL_BYTES 200
#define TRY_WHY_BYTES     256

/* Requests that one inventory service may have at a time: so many connections. A
 * service that hangs takes no more than these with it. */
#define SERVICE_FLYING_MAX 256

struct service {
    char url[SERVICE_URL_BYTES]; /* without a slash at its end */
    atomic_bool is_ready;        /* asked for orders */
    bool is_told;                /* the log has said that it is not ready */
    bool is_probed;              /* a probe is under way */
    unsigned flying;             /* tries under way, without probes */
    uint64_t probe_us, pause_us; /* the next probe; from one to the next */
};

struct services {
    size_t n, turn; /* turn: the service that is asked next */
    struct service list[SERVICES_MAX];
    /* services.c's */
    void *multi;
    LIST_HEAD(try_list, http_try) flying;
};

/* False: TEXT is no list of URLs, and the log says why. */
bool services_read(struct services *services, const char *text);

/* After that, for tries. False: no memory. */
bool services_open(struct services *services);

/* Ends the tries under way. */
void services_close(struct services *services);

/* The first from `turn` on that is ready and has room, but not FAILED, which may be
 * NULL. NULL: none. */
struct service *services_choose(struct services *services,
                                const struct service *failed);

/* Any that is ready, besides FAILED. */
bool services_any(const struct services *services,
                  const struct service *failed);

/* It works, or does not: WHY. */
void services_works(struct service *service, uint64_t now_us);
void services_fails(struct service *service, uint64_t now_us, const char *why);

enum try_end { TRY_ANSWERED, TRY_NOT_SENT, TRY_LOST };

struct http_try {
    struct service *service;
    struct inventory_call *call; /* NULL: it is a probe */
    uint64_t begun_us;
    /* How it ended. */
    enum try_end end;
    char why[TRY_WHY_BYTES]; /* for a person, unless it was answered */
    struct inventory_reply reply;
    /* services.c's */
    void *easy;
    void *fields;
    bool is_sent; /* or is being sent */
    LIST_ENTRY(http_try) place;
};

/* Begins one: of WHAT only what is asked is read; its body stays in place. It ends
 * within LIMIT_MS. NULL: no memory. */
struct http_try *tries_begin(struct services *services, struct service *service,
                             const struct inventory_call *what,
                             uint64_t limit_ms);

/* One that has ended; NULL: none. */
struct http_try *tries_next(struct services *services);

/* Frees one that has ended. */
void tries_free(struct http_try *try);

/* Waits for something to do, and does it; and ends that wait, from any thread. */
void tries_wait(struct services *services, uint64_t ms);
void tries_wake(struct services *services);

#endif

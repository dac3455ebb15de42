/* What the sources in this folder share. All of it is the inventory's thread's own,
 * but for what is atomic. */
#ifndef INVENTORY_PRIVATE_H
#define INVENTORY_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "db/store.h"
#include "server/base/metrics.h"
#include "server/inventory/inventory.h"

#define SERVICES_MAX      16
#define SERVICE_URL_BYTES 200
#define TRY_WHY_BYTES     256

/* Requests that one inventory service may have at a time: so many connections. A
 * service that hangs takes no more than these with it. */
#define SERVICE_FLYING_MAX 256

/* ---- services.c: which one to ask, and whether it is ready ------------------ */

struct service {
    char url[SERVICE_URL_BYTES]; /* without a slash at its end */
    atomic_bool is_ready;        /* asked for orders */
    bool is_told;                /* the log has said that it is not ready */
    bool is_probed;              /* a probe is under way */
    unsigned flying;             /* tries under way, without probes */
    uint64_t probe_us, pause_us; /* the next probe; from one to the next */
    atomic_uint_fast64_t tries, failures, time_us;
};

struct services {
    size_t n, turn; /* turn: who is asked next */
    struct service list[SERVICES_MAX];
};

/* False: TEXT is no list of URLs, and ERROR says why. */
bool services_read(struct services *services, const char *text, char *error,
                   size_t error_size);

/* The first from `turn` on that is ready and has room, but not FAILED, which may be
 * NULL. NULL: none. */
struct service *services_choose(struct services *services,
                                const struct service *failed);

/* Any that is ready, besides FAILED. */
bool services_any(const struct services *services,
                  const struct service *failed);

/* It works, or does not: WHY. */
void service_works(struct service *service, uint64_t now_us);
void service_fails(struct service *service, uint64_t now_us, const char *why);

/* ---- tries.c: one HTTP request each, by libcurl ------------------------------ */

enum try_end { TRY_ANSWERED, TRY_NOT_SENT, TRY_LOST };

struct http_try {
    struct service *service;
    struct inventory_call *call; /* or it is a lookup or a probe: */
    struct unknown *unknown;
    uint64_t begun_us;
    /* How it ended. */
    enum try_end end;
    char why[TRY_WHY_BYTES]; /* for a person, unless it was answered */
    struct inventory_reply reply;
    /* tries.c's */
    void *easy;
    void *fields;
    bool is_sent; /* or is being sent */
    LIST_ENTRY(http_try) place;
};

struct tries;

/* Whether URL is http://HOST[:PORT] and no more. */
bool tries_url_valid(const char *url);

/* NULL: no memory. */
struct tries *tries_open(size_t connections_max);

/* Ends what is under way. NULL is fine. */
void tries_close(struct tries *tries);

/* Begins one: of WHAT only what is asked is read; its body stays in place. It ends
 * within LIMIT_MS. NULL: no memory. */
struct http_try *tries_begin(struct tries *tries, struct service *service,
                             const struct inventory_call *what,
                             uint64_t limit_ms);

/* Does what there is to do, without waiting. Then one that has ended; NULL: none. */
void tries_pass(struct tries *tries);
struct http_try *tries_next(struct tries *tries);

/* It is used again. */
void tries_give_back(struct tries *tries, struct http_try *try);

/* Waits for something to do; and ends that wait, from any thread. */
void tries_wait(struct tries *tries, uint64_t ms);
void tries_wake(struct tries *tries);

/* ---- unknown.c: orders of which nobody knows the outcome --------------------- */

#define UNKNOWN_MAX 1024

enum unknown_outcome {
    UNKNOWN_PLACED,
    UNKNOWN_NOT_FOUND, /* an inventory service says so, at the end of the time */
    UNKNOWN_GIVEN_UP,  /* nobody could be asked; or they are too many */
    UNKNOWN_OUTCOMES
};

struct unknown {
    TAILQ_ENTRY(unknown) place;
    char key[STORE_KEY_BYTES_MAX + 1];
    bool is_asked;   /* a lookup is under way */
    bool is_missing; /* the last lookup that was answered has not found it */
    uint64_t next_us, pause_us, until_us;
};

struct unknowns {
    TAILQ_HEAD(unknown_list, unknown) list;
    atomic_size_t n;
    unsigned flying;
    atomic_uint_fast64_t outcomes[UNKNOWN_OUTCOMES];
};

const char *unknown_outcome_text(enum unknown_outcome outcome);

/* Those at the end of their time go. */
void unknowns_tend(struct unknowns *unknowns, uint64_t now_us);
void unknowns_add(struct unknowns *unknowns, const char *key, uint64_t now_us);

/* One that is due to be looked for; NULL: none. */
struct unknown *unknowns_next(struct unknowns *unknowns, uint64_t now_us);

/* It could not be looked for now. */
void unknowns_put_back(struct unknowns *unknowns, struct unknown *unknown);

/* What a lookup has said: that TRY has ended. */
void unknowns_heard(struct unknowns *unknowns, const struct http_try *try,
                    uint64_t now_us);

/* Gives all of them up. */
void unknowns_end(struct unknowns *unknowns);

/* ---- inventory.c, calls.c ------------------------------------------------------ */

struct inventory {
    const struct app *app;
    struct tries *tries;
    struct services services;
    struct unknowns unknowns;
    pthread_t thread;
    bool runs;
    int news_fd;
    uint64_t try_us; /* the longest a try may take */
    /* The thread's own: */
    TAILQ_HEAD(waiting_calls, inventory_call) waiting;
    unsigned budget;
    uint64_t swept_us; /* when all that wait were looked at */
    bool was_ready;
    /* Everybody's: */
    _Atomic(struct inventory_call *) inbox; /* the last one first */
    atomic_size_t depth;
    atomic_bool asleep, closed;
    /* When an order failed for a reason of ours; 0 = since then one was placed, or a
     * service said that it is ready, which began later. */
    atomic_uint_fast64_t failed_us;
    atomic_uint_fast64_t beat, retries;
};

void calls_init(struct inventory *inventory);

/* An order that began at BEGUN_US would succeed, or did: a failure before counts no
 * more. */
void inventory_worked(struct inventory *inventory, uint64_t begun_us);

/* What other threads have submitted begins to wait. */
void calls_take(struct inventory *inventory, uint64_t now_us);

/* A try of a call has ended. */
void calls_heard(struct inventory *inventory, struct http_try *try,
                 uint64_t now_us);

/* Begins tries of those that wait, as far as there is room; now and then looks at
 * all, for those that have no more time. */
void calls_serve(struct inventory *inventory, uint64_t now_us);

/* ---- report.c: metrics -------------------------------------------------------- */

/* Counts how an order ended, and says it; ORDER_OUTCOME_N: none of the outcomes. */
enum order_outcome report_order(struct metrics *metrics,
                                const struct inventory_call *call,
                                uint64_t now_us);

void report_write(const struct services *services,
                  const struct unknowns *unknowns, uint64_t retries, FILE *out);

#endif

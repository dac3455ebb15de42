/* The inventory services. All of it is the inventory's thread's own, but for what is
 * atomic. */
#ifndef SERVICES_H
#define SERVICES_H

#include <stdatomic.h>

#include "server/inventory/inventory.h"

#define SERVICES_MAX      16
#define SERVICE_URL_BYTES 200

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
};

/* False: TEXT is no list of URLs, and the log says why. */
bool services_read(struct services *services, const char *text);

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

#endif

/*
 * Looking host names up, with a bound. getaddrinfo() takes none, so it runs in a thread
 * of its own, one per name, and a question waits for it as long as its caller likes. The
 * answer goes to all who still wait, and is remembered for later questions that get none.
 *
 * Names belong to the process, not to a client: the thread may come back when the client
 * that asked is long gone.
 */
#ifndef DLOCK_LOOKUP_H
#define DLOCK_LOOKUP_H

#include <sys/socket.h>

#include "lock/dlock.h"

enum { DLOCK_PLACES_MAX = 16 }; /* of one name; more are left out */

/* Where a server may be, the best first. */
struct dlock_places {
    size_t n;
    struct dlock_place {
        struct sockaddr_storage at;
        socklen_t len;
    } list[DLOCK_PLACES_MAX];
};

/* Fills PLACES, and may take its time. 0, or an EAI_ of <netdb.h>. */
typedef int dlock_resolver(const char *host, const char *port,
                           struct dlock_places *places);

/* Puts ANOTHER in the place of getaddrinfo(), for tests; NULL = back again. */
void dlock_lookup_by(dlock_resolver *another);

/* Waits for an answer until UNTIL_MS of real time; if there is an older one, not for long.
 * An address in numbers is its own answer. */
enum dlock_status dlock_lookup(const char *host, const char *port,
                               uint64_t until_ms, struct dlock_places *places);

enum { DLOCK_PLACE_BYTES_MAX = 63, DLOCK_PORT_BYTES_MAX = 5 };

/* PLACE in numbers, for client libraries that look names up without a bound. */
void dlock_place_text(const struct dlock_place *place,
                      char host[DLOCK_PLACE_BYTES_MAX + 1],
                      char port[DLOCK_PORT_BYTES_MAX + 1]);

#endif

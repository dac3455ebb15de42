/*
 * Looking host names up, with a bound. getaddrinfo() takes none, so it runs in a
 * thread of its own, one per name, and a question waits for it as long as its
 * caller likes. The answer goes to the questions that still wait, and is remembered
 * for later ones that get none.
 *
 * Names belong to the process, not to a client: the thread may come back when the
 * client that asked is long gone.
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

/* If HOST is an address in numbers. Asks nobody, starts nothing. */
bool dlock_lookup_numbers(const char *host, const char *port,
                          struct dlock_places *places);

struct dlock_lookup; /* one question; belongs to one thread at a time */

/* NULL: no memory, or too many names are being looked up. */
struct dlock_lookup *dlock_lookup_begin(const char *host, const char *port);

/* Readable once there is an answer. */
int dlock_lookup_fd(const struct dlock_lookup *lookup);

/* False: none yet. Else *FAILURE is an EAI_, or 0 and PLACES are filled. */
bool dlock_lookup_answer(struct dlock_lookup *lookup, int *failure,
                         struct dlock_places *places);

/* The last good answer. False: there was none. */
bool dlock_lookup_remembered(struct dlock_lookup *lookup,
                             struct dlock_places *places);

/* Does not wait for the answer. NULL is fine. */
void dlock_lookup_end(struct dlock_lookup *lookup);

#endif

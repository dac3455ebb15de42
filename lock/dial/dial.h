/*
 * From an address to a connection that commands can be sent on: looks the name
 * up, connects, logs in.
 *
 * UNTIL_MS is real time (clock.h).
 */
#ifndef DLOCK_DIAL_H
#define DLOCK_DIAL_H

#include <stdatomic.h>

#include "lock/core/net.h"

struct dlock_words;

/* Waits until UNTIL_MS at most: DLOCK_OK, and *LINK, a non-blocking socket, is the
 * caller's; or DLOCK_UNREACHABLE. */
enum dlock_status dlock_dial(const struct dlock_address *address,
                             uint64_t until_ms, struct dlock_link *link);

/* Whether the server has hung up because it wants TLS: it has carried out nothing then.
 * Blocks for a quarter of a second at most. */
bool dlock_dial_wants_tls(const struct dlock_address *address,
                          uint64_t until_ms);

struct dlock_dial;

/* Dials, and asks the server something behind that: fills all that is below `done`. */
typedef enum dlock_status dlock_dial_ask(struct dlock_dial *dial);

/* A dial on a thread of its own, for a caller that has other servers to wait for. The thread
 * may outlive the caller: they share this, and the last of them frees it. The thread writes
 * below `done` until that is true, and the caller reads from then on. */
struct dlock_dial {
    atomic_int users_n;
    int fd;              /* an eventfd, readable once it is done */
    dlock_dial_ask *ask; /* NULL = dlock_dial() alone */
    uint64_t until_ms;
    atomic_bool done;
    struct dlock_address address; /* a sentinel's becomes that of the primary */
    long long epoch;              /* the number that a sentinel gives to it */
    enum dlock_status status;
    struct dlock_link link;
    struct dlock_error error;
};

/* NULL: no memory, thread or descriptor. _go_on gives the outcome, as of dlock_dial(), or
 * DLOCK_BUSY. _end gives up what is under way, and waits for nothing; NULL is fine. */
struct dlock_dial *dlock_dial_begin(const struct dlock_address *address,
                                    dlock_dial_ask *ask, uint64_t until_ms);
enum dlock_status dlock_dial_go_on(struct dlock_dial *dial,
                                   struct dlock_link *link);
void dlock_dial_end(struct dlock_dial *dial);

/* dlock_dial() to a url of the kind sentinel:, the primary (sentinel.c). */
enum dlock_status dlock_sentinel_find(const struct dlock_address *address,
                                      uint64_t until_ms,
                                      struct dlock_link *link);

/* AUTH, if ADDRESS has a login: fills *AUTH, which borrows it. */
bool dlock_dial_login(const struct dlock_address *address,
                      struct dlock_words *auth);

/* Addresses, url.c: as in dlock_url.h, for callers that have an error to fill ------- */

/* The forms of a url, for the text of an error. */
extern const char dlock_url_forms[];

/* One url, or the first of several, *REST as of dlock_url_parse(); else DLOCK_MISUSE, with
 * no word of it in the text. */
enum dlock_status dlock_address_parse(const char *url,
                                      struct dlock_address *address);
enum dlock_status dlock_address_first(const char *url,
                                      struct dlock_address *address,
                                      const char **rest);

/* The part of the program that is missing for it, for a person; or NULL. */
const char *dlock_address_lacks(const struct dlock_address *address);

#define DLOCK_PORT_SERVER   "6379"
#define DLOCK_PORT_SENTINEL "26379"

/* One place of a list of "HOST:PORT", and the next one's text; NULL: it makes no
 * sense. At the end of the list, that is "". PORT is that of a place without one. */
const char *dlock_address_next(const char *places, const char *port,
                               struct dlock_address *address);

#endif

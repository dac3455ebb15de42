/* The address of one server, for callers that have a struct dlock_error to fill. */
#ifndef DLOCK_ADDRESS_H
#define DLOCK_ADDRESS_H

#include "lock/dlock.h"
#include "lock/dlock_url.h"

/* The forms of a url, for the text of an error. */
extern const char dlock_url_forms[];

/* One url of dlock_url.h; else DLOCK_MISUSE, with no word of it in ERROR. */
enum dlock_status dlock_address_parse(const char *url,
                                      struct dlock_address *address,
                                      struct dlock_error *error);

/* The part of the program that is missing for it, for a person; or NULL. */
const char *dlock_address_lacks(const struct dlock_address *address);

#define DLOCK_PORT_SERVER   "6379"
#define DLOCK_PORT_SENTINEL "26379"

/* One place of a list of "HOST:PORT", and the next one's text; NULL: it makes no
 * sense. At the end of the list, that is "". PORT is that of a place without one. */
const char *dlock_address_next(const char *places, const char *port,
                               struct dlock_address *address);

#endif

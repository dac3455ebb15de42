/*
 * An address of one server, for those that have a struct dlock_error to fill.
 */
#ifndef DLOCK_ADDRESS_H
#define DLOCK_ADDRESS_H

#include "lock/dlock.h"
#include "lock/dlock_url.h"

/* What a url may look like, for the text of an error. */
extern const char dlock_url_forms[];

/* One url of dlock_url.h; else DLOCK_MISUSE, with no word of it in ERROR. */
enum dlock_status dlock_address_parse(const char *url,
                                      struct dlock_address *address,
                                      struct dlock_error *error);

/* What of the program is missing for it, for a person; or NULL. */
const char *dlock_address_lacks(const struct dlock_address *address);

/* One place of a list of "HOST:PORT", and the next one's text; NULL: it makes no
 * sense. At the end of the list, that is "". */
const char *dlock_address_next(const char *places,
                               struct dlock_address *address);

#endif

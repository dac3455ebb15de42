/*
 * The keys in Redis: one connection, and the two things that can be done to
 * them, each in one step of the server. Belongs to one thread.
 *
 *     stock:{P:k}   a hash: epoch, units, order, segments
 *
 * UNITS are left of segment k of product P by a count that was made under EPOCH
 * and knows of the orders up to ORDER; there were SEGMENTS in use then.
 *
 * A count is written as a whole, the keys of all segments at once, and what else
 * there may be of the product goes in the same step. So whoever dies leaves the
 * keys of one count, and a count that comes too late finds a later one and writes
 * nothing: no key outlives the segment it is of.
 *
 * The braces are a hash tag, the same as that of the segment's lock. A product's
 * keys have as many tags as it has segments, and one step writes them all: that
 * takes one Redis server, with replicas if you like, and not a Redis Cluster.
 */
#ifndef WARM_KEYS_H
#define WARM_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/warm/warm.h"

enum keys_verb {
    KEYS_LOAD, /* write a count; unless there is one of a higher epoch */
    KEYS_TAKE, /* take units off the count of this epoch; 0 = only look */
};

enum keys_answer {
    KEYS_UNSENT,  /* Redis is away, and has not got it */
    KEYS_UNKNOWN, /* nor answered: it may have done it */
    KEYS_DONE,    /* TAKE: number is what is left */
    KEYS_STALE,   /* the count there is of another epoch: number */
    KEYS_MISSING, /* TAKE: there is none, or something else */
    KEYS_OTHERS,  /* LOAD without cells: there are keys of more segments */
};

struct keys_command {
    enum keys_verb verb;
    enum keys_answer answer;
    int64_t product_id;
    const struct store_cells *cells; /* LOAD: what is in all segments; NULL = in
                                        the only one there is are UNITS */
    int64_t segment;                 /* TAKE */
    int64_t epoch;
    int64_t units;
    int64_t order;  /* LOAD; and an answer to TAKE, if done */
    int64_t number; /* see the answers */
};

struct keys;

/*
 * URL as libdlock takes it; of several, the first. Does not connect. NULL if it
 * makes no sense or there is no memory. Between connecting to a server that
 * hangs and being told so are TIMEOUT_MS, and as much for a chunk of commands.
 * The process has to ignore SIGPIPE.
 */
struct keys *keys_open(const struct warm_options *options, unsigned timeout_ms);
void keys_close(struct keys *keys);

/*
 * Whether there is a connection; tries to make one, but not at every call while
 * Redis is away. *fresh: it is new, and what is there may be, too.
 */
bool keys_ready(struct keys *keys, bool *fresh);

/* Before that, _ready does not try again. */
uint64_t keys_again_ms(const struct keys *keys);

/*
 * Does the commands, in few round trips. False: it lost Redis, and the commands
 * from some one on have not been answered.
 */
bool keys_run(struct keys *keys, struct keys_command commands[], size_t n);

#endif

/*
 * The connection that stock hints are written and read by. Whatever goes wrong,
 * the connection is dropped and made anew later: nobody waits for a hint.
 *
 * From one thread at a time.
 */
#ifndef HINT_REDIS_H
#define HINT_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HINT_UNKNOWN (-1)

/* stock:{PRODUCT:SEGMENT} */
struct hint {
    int64_t product_id;
    int64_t segment;
    int64_t units; /* HINT_UNKNOWN: there is none */
};

struct hint_redis;

/* Does not connect. A command may take TIMEOUT_MS. NULL if the URL makes no
 * sense or there is no memory. */
struct hint_redis *hint_redis_open(const char *url, unsigned timeout_ms);

/* NULL is fine. */
void hint_redis_close(struct hint_redis *redis);

/*
 * Writes or reads N hints in one round trip; what is not there, or cannot be
 * read, is HINT_UNKNOWN, which the caller has set. False: Redis is away, or has
 * refused some.
 */
bool hint_redis_run(struct hint_redis *redis, struct hint hints[], size_t n,
                    bool is_write);

#endif

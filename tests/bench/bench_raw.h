/*
 * One cycle of a lock, by the library and without it: the same commands by bare
 * hiredis, as they were overheard.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include "lock/dlock.h"
#include "tests/support/redis_server.h"

/* Takes NAME and gives it back; aborts if it cannot. */
void bench_cycle(struct dlock_session *session, const char *name);

/*
 * Overhears SESSION, while nobody else asks SERVER. The raw cycles are on a
 * connection of their own, with the name "bench:NUMBER" (below 10).
 */
struct bench_raw;
struct bench_raw *bench_raw_open(const struct redis_server *server,
                                 struct dlock_session *session,
                                 unsigned number);
void bench_raw_cycle(struct bench_raw *raw);
void bench_raw_close(struct bench_raw *raw);

#endif

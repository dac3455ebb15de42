/*
 * `make bench-locks`: what a lock costs, and what waiting for one is like.
 * Nothing here passes or fails; it measures.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "lock/dlock.h"
#include "tests/support/redis_server.h"

/* Values of one kind; filled by one thread, then looked at. */
struct bench_series {
    double *at;
    size_t n;
};

/* A lock's cost without contention; a value of each kind for each round. */
struct bench_cost {
    struct bench_series lib, raw, ratio; /* cycles a second */
    struct bench_series p50_us, p99_us, raw_p50_us, raw_p99_us;
};

/* A lock's client, sessions of it and what is sent; aborts if it cannot. */
struct dlock *bench_client(const struct redis_server *server,
                           const char *strategy);
struct dlock_session *bench_session(struct dlock *client);

/* Commands that the step hook of bench_client() has seen, ever. */
uint64_t bench_steps(void);

void bench_add(struct bench_series *series, double value);
void bench_release(struct bench_series *series);

/* The FRACTION quantile, 0.5 is the median; sorts. 0 if there are none. */
double bench_quantile(struct bench_series *series, double fraction);

/*
 * bench_rate.c: THREADS_N connections take and give names of their own, by
 * turns through the library and raw: a few cycles each, on the same thread. A
 * machine that is busy now and idle then is so for both.
 */
void bench_rates(const struct redis_server *server, const char *strategy,
                 unsigned threads_n, unsigned slice_ms,
                 struct bench_cost *cost);

/* Per cycle: commands sent, and executed by the server, scripts' included. */
void bench_commands(const struct redis_server *server, const char *strategy,
                    double *sent, double *executed);

/*
 * bench_raw.c: the same commands by bare hiredis, as they were overheard, on
 * connection NUMBER (below 10) and the name "bench:NUMBER".
 */
struct bench_raw;
struct bench_raw *bench_raw_open(const struct redis_server *server,
                                 const char *strategy, unsigned number);
void bench_raw_cycle(struct bench_raw *raw);
void bench_raw_close(struct bench_raw *raw);

/* bench_wait.c: from a release to the next holder, who was waiting. */
void bench_handover(const struct redis_server *server, const char *strategy,
                    unsigned times_n, struct bench_series *us);

struct bench_crowd {
    double longest_ms; /* that anybody waited */
    double overtakes;  /* who came later and got it before, per grant */
    double worst;      /* overtakes that one waiter suffered */
};

/* 64 waiters for one name, each several times. */
struct bench_crowd bench_crowd(const struct redis_server *server,
                               const char *strategy);

#endif

/*
 * The parts of a running service, wired up once by serve.c and passed down.
 * Not a place for state: each part keeps its own behind its own functions.
 */
#ifndef APP_H
#define APP_H

struct config;
struct desk;
struct dlock;
struct metrics;
struct pool;
struct selfcheck;
struct store;
struct warm;

struct app {
    const struct config *config;
    struct metrics *metrics;
    struct store *store;
    struct dlock *locks;
    struct pool *pool;
    struct warm *warm;
    struct selfcheck *selfcheck;
    struct desk *desk;
};

#endif

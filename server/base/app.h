/*
 * The parts of a running service, wired up once by serve.c and passed down.
 * Not a place for state: each part keeps its own behind its own functions.
 */
#ifndef APP_H
#define APP_H

#include <stdatomic.h>

struct config;
struct dispatcher;
struct dlock;
struct health;
struct hints;
struct inventory;
struct metrics;
struct store;
struct tasks;

struct app {
    const struct config *config;
    struct metrics *metrics;
    struct health *health; /* NULL in tests */
    /* The parts below are there, and stay as they are until HTTP is closed. Before
     * that it waits for its database, and HTTP may not look at them. */
    atomic_bool is_open;
    struct store *store;
    struct dlock *locks;
    struct tasks *workers; /* write hints, sell one by one */
    struct tasks *readers; /* look into the database */
    struct hints *hints;
    struct dispatcher *dispatcher;
    /* An order service has just this in place of the six above. */
    struct inventory *inventory;
};

#endif

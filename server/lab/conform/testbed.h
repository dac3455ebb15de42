/*
 * The testbed of one lock's checks: its servers, its times, the memory that the
 * actors share, and how a check says what it found (conform.c).
 */
#ifndef TESTBED_H
#define TESTBED_H

#include <stdatomic.h>

#include "server/lab/conform/conform.h"

enum {
    TESTBED_NODES_MAX = 5,
    TESTBED_NAME_BYTES_MAX = 48,
    TESTBED_URL_BYTES_MAX = 1024,
};

/* Memory that contenders touch in the critical section; shared by all processes. */
struct testbed_race {
    atomic_int inside;    /* how many are in there now */
    atomic_uint overlaps; /* times that somebody was not alone */
    atomic_uint entered;  /* times that somebody came in */
    atomic_uint counter;  /* read, then written: loses what overlaps */
    atomic_uint refused;  /* takes that ended in anything but OK */
    char refusal[120];    /* why the first of them was */
    atomic_uint turn;     /* who comes when */
};

struct testbed {
    const struct expected *expected;
    const struct conform_servers *servers;
    unsigned capabilities;
    char dir[80];
    char url[TESTBED_URL_BYTES_MAX]; /* for dlock_open(); "" = none */
    struct redis_proc *nodes[TESTBED_NODES_MAX];
    unsigned nodes_n;
    bool together; /* it excludes within a process only: act inside of one */
    unsigned slow; /* all times below have been multiplied by it */
    unsigned lease_ms;  /* a short lease, to be outlived */
    unsigned long_ms;   /* a lease that outlives every check */
    unsigned margin_ms; /* what may pass beyond a lease's end */
    struct testbed_race *race;
    struct deed_tape *tape;        /* of the actors to come; NULL = none */
    struct conform_result *result; /* of the check under way; shared as well */
};

/* One more redis-server, on a socket beside its folder WHAT. NULL and a text: it does
 * not start. */
struct redis_proc *testbed_server(const struct testbed *testbed,
                                  const char *what, struct fail *error);

/* A connection to it; without one the check is broken. */
struct peek *testbed_peek(const struct testbed *testbed,
                          const struct redis_proc *proc);

bool testbed_can(const struct testbed *testbed,
                 enum dlock_capability capability);

/* A lock's name that was not used before, until the end of the check's process. */
const char *testbed_name(const char *what);

/*
 * How a check ends: it notes its result and its process is over. What it has
 * started dies with it. testbed_broken() is for what the lock cannot be blamed
 * for.
 */
_Noreturn void testbed_end(const struct testbed *testbed,
                           enum conform_verdict verdict, const char *format,
                           ...) __attribute__((format(printf, 3, 4)));
#define testbed_holds(testbed, ...)                                            \
    testbed_end(testbed, CONFORM_HOLDS, __VA_ARGS__)
#define testbed_fails(testbed, ...)                                            \
    testbed_end(testbed, CONFORM_FAILS, __VA_ARGS__)
#define testbed_untested(testbed, ...)                                         \
    testbed_end(testbed, CONFORM_UNTESTED, __VA_ARGS__)
#define testbed_not_asked(testbed, ...)                                        \
    testbed_end(testbed, CONFORM_NOT_ASKED, __VA_ARGS__)
#define testbed_broken(testbed, ...)                                           \
    testbed_end(testbed, CONFORM_BROKEN, __VA_ARGS__)

#endif

/*
 * Servers of a lock that is on several, failures of steps at one of them, and looking at
 * each. The clients are lock_rig.h's, whose url is then that of these servers.
 * Failures to set up abort the test.
 */
#ifndef NODE_RIG_H
#define NODE_RIG_H

#include <stdatomic.h>

#include "tests/support/lock_rig.h"

enum {
    NODE_RIG_MAX = 5,
    NODE_RIG_LONGEST_MS = 4900, /* the longest lease, for redlock */
    NODE_RIG_OF_AGE_MS = 7100,  /* up for so long, a server has a vote */
};

/* What a step is to meet with, at one server. */
struct node_fault {
    char step[24];
    enum dlock_phase phase;
    unsigned node;              /* place in the url */
    unsigned n;                 /* how often it is still to fail */
    void (*instead)(void *ctx); /* called at the step; then it may go on */
    void *ctx;
};

struct node_rig {
    unsigned n; /* servers that clients are told of */
    struct redis_server *servers[NODE_RIG_MAX];
    bool down[NODE_RIG_MAX];
    uint64_t started_at_ms[NODE_RIG_MAX];
    pthread_mutex_t mutex; /* guards the faults */
    struct node_fault faults[4];
    char url[NODE_RIG_MAX * 100];
    atomic_uint ahead_ms;    /* of node_rig_ahead */
    struct lock_single a, b; /* open until the next test */
};

extern struct node_rig nodes;

/* The machine's clock, so much ahead as `nodes` says. */
extern const struct dlock_clock node_rig_ahead;

/* All servers are started once for the program. They have the order of their addresses,
 * in which multi takes them. */
int node_rig_setup(void **state);
int node_rig_teardown(void **state);

/* Between tests, for lock_rig_fresh(): all are up and empty, N servers in the url. */
void node_rig_fresh(unsigned n);

/* Opens a and b anew, by the options of now. */
void node_rig_open(const char *strategy);

/* Both for redlock, of whose servers each has a vote; leases are renewed every
 * third of LEASE_MS. */
void node_rig_redlock(unsigned n, unsigned lease_ms);

/* As redis_server_do(); but "restart" needs no "kill" before. */
void node_rig_do(unsigned node, const char *how);

/* Waits until the youngest server has been up for MS. */
void node_rig_age(unsigned ms);

/* The next N times that STEP comes to this phase at NODE, it fails. */
void node_rig_fail(unsigned node, const char *step, enum dlock_phase phase,
                   unsigned n);

/* Nothing fails any more. */
void node_rig_mend(void);

/* Calls INSTEAD the next time, and lets the step go on. */
void node_rig_call(unsigned node, const char *step, enum dlock_phase phase,
                   void (*instead)(void *ctx), void *ctx);

/* Sleeps for MS the next time. */
void node_rig_nap(unsigned node, const char *step, enum dlock_phase phase,
                  unsigned ms);

/* One command to a server. */
void node_rig_ask(unsigned node, const char *command);

/* On how many servers that are up the lock "k" stands. */
unsigned node_rig_held(void);

/* Takes "k". */
enum dlock_status node_take(struct lock_single *user, unsigned wait_ms,
                            unsigned lease_ms);

/* Whether not enough servers have said something. On a machine with much to do some are
 * not given the processor in the time of a try: asked once more, they answer. */
bool node_is_uncertain(enum dlock_status status);

#endif

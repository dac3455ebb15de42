/*
 * A step hook for tests: counts the steps that libdlock takes, makes chosen
 * ones fail, and stops a thread in the middle of one until the test lets it go.
 * That is how the tests make races happen without sleeping and hoping.
 */
#ifndef STEP_LOG_H
#define STEP_LOG_H

#include <pthread.h>
#include <stdint.h>

#include "lock/dlock.h"

/* Most calls of a test have to come to this. */
#define assert_ok(call) assert_int_equal(call, DLOCK_OK)

/* As a number of failures: until the next ones are named. */
#define STEP_LOG_ALWAYS UINT32_MAX

struct step_at {
    char name[24];
    enum dlock_phase phase;
};

struct step_log {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned names_n;
    struct {
        char name[24];
        unsigned n[2]; /* by phase */
    } counts[32];
    struct step_fault {
        struct step_at at;
        unsigned n; /* how often it is still to fail */
    } faults[2];
    struct step_at gate;
    unsigned at_gate_n;
    bool shut;
};

void step_log_init(struct step_log *log);

/* A dlock_step_hook; CTX is the log. */
enum dlock_verdict step_log_hook(void *ctx, const struct dlock_step *step);

/* How often a step was begun, or with NULL: all of them. */
unsigned step_log_count(struct step_log *log, const char *name);

/* How often it was ended: its reply was there. */
unsigned step_log_ended(struct step_log *log, const char *name);

/* Waits until the step has ended N times; fails the test after seconds. */
void step_log_await(struct step_log *log, const char *name, unsigned n);

/*
 * The next N times that the step comes to this phase, it fails; nothing else
 * does, but for one more step that _also names.
 */
void step_log_fail(struct step_log *log, const char *name,
                   enum dlock_phase phase, unsigned n);
void step_log_fail_also(struct step_log *log, const char *name,
                        enum dlock_phase phase, unsigned n);

/* Threads that come to this phase of the step stop there until let go. */
void step_log_shut(struct step_log *log, const char *name,
                   enum dlock_phase phase);
void step_log_await_gate(struct step_log *log, unsigned n);
void step_log_open(struct step_log *log);

/* Forgets all counts. */
void step_log_reset(struct step_log *log);

#endif

/*
 * A step hook for tests: counts the steps that libdlock takes, or the store, makes
 * chosen ones fail, and stops a thread in the middle of one until the test lets it go.
 * That is how the tests make races happen without sleeping and hoping.
 *
 * A step has a name and an id, which is 0 but in tests of the order path: the
 * product's (order_rig.h). An id of 0 in a call below means any.
 */
#ifndef STEP_LOG_H
#define STEP_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "lock/dlock.h"

/* Most calls of a test have to come to this. */
#define assert_ok(call) assert_int_equal(call, DLOCK_OK)

/* As a number of failures: until the next ones are named. */
#define STEP_LOG_ALWAYS UINT32_MAX

struct step_at {
    char name[24];
    int64_t id;
    enum dlock_phase phase;
};

/* How often a step came by, by phase, and as the how-many-eth of all at last. */
struct step_row {
    char name[24];
    int64_t id;
    unsigned n[2], last[2];
};

struct step_log {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct step_row own[32];
    struct step_row *rows; /* NULL = its own */
    unsigned rows_n, rows_max;
    unsigned steps_n;
    struct step_fault {
        struct step_at at;
        unsigned n; /* how often it is still to fail */
    } faults[2];
    struct step_at gate;
    unsigned at_gate_n;
    unsigned round; /* rises when it is opened */
    bool shut;
};

void step_log_init(struct step_log *log);

/* A dlock_step_hook; CTX is the log. */
enum dlock_verdict step_log_hook(void *ctx, const struct dlock_step *step);

/* The same for a step of any kind. */
enum dlock_verdict step_log_note(struct step_log *log, const char *name,
                                 int64_t id, enum dlock_phase phase);

/* How often a step was begun, or with NULL: all of them. */
unsigned step_log_count(struct step_log *log, const char *name);

/* How often it was ended: its reply was there. */
unsigned step_log_ended(struct step_log *log, const char *name);

unsigned step_log_count_at(struct step_log *log, const char *name, int64_t id,
                           enum dlock_phase phase);

/* When it came to that phase for the last time: numbers that rise with each step of
 * any kind. 0 = never. */
unsigned step_log_last(struct step_log *log, const char *name,
                       enum dlock_phase phase);

/* Waits until the step has ended N times, or came to a phase once; fails the test
 * after seconds. */
void step_log_await(struct step_log *log, const char *name, unsigned n);
void step_log_await_at(struct step_log *log, const char *name, int64_t id,
                       enum dlock_phase phase, unsigned n);

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
void step_log_shut_at(struct step_log *log, const char *name, int64_t id,
                      enum dlock_phase phase);
void step_log_await_gate(struct step_log *log, unsigned n);
void step_log_open(struct step_log *log);

/* Lets those go that stand there, and stops the next ones. */
void step_log_pass(struct step_log *log);

/* Forgets all counts. */
void step_log_reset(struct step_log *log);

/* STEP's command, as a line that redis takes when typed in: to be freed. */
char *step_line(const struct dlock_step *step);

/* Waits for CHANGED; UNTIL is what _patience said before. Waiting in vain ends the
 * test program after a time that no test needs. */
struct timespec step_log_patience(void);
void step_log_wait(pthread_cond_t *changed, pthread_mutex_t *mutex,
                   const struct timespec *until, const char *what);

#endif

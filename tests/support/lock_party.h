/*
 * Somebody who takes a lock, for tests of locks over any kind of server: here, as a
 * client with one session, or in a process of its own that is told what to do, and can
 * be stopped and killed.
 */
#ifndef LOCK_PARTY_H
#define LOCK_PARTY_H

#include <stdatomic.h>
#include <sys/types.h>

#include "lock/dlock.h"

struct lock_party_terms {
    const char *strategy;
    const char *url;
    unsigned lease_ms;    /* the watchdog's, or of the session; 0 = default */
    unsigned timeout_ms;  /* of connecting and of a command; 0 = default */
    unsigned deadlock_ms; /* of each acquire */
    const char *label;
};

struct lock_party {
    struct dlock *client;
    struct dlock_session *session;
    struct dlock_grant grant; /* the last */
    struct dlock_error error; /* the last */
    unsigned deadlock_ms;
    atomic_uint lost_n; /* how often it was told of a loss */
};

/* Aborts the test if it cannot be had. */
void lock_party_open(struct lock_party *party,
                     const struct lock_party_terms *terms);
/* By the terms that most have, and no others. */
void lock_party_open_at(struct lock_party *party, const char *url,
                        const char *strategy, unsigned lease_ms,
                        unsigned timeout_ms);
void lock_party_close(struct lock_party *party);

enum dlock_status lock_party_take(struct lock_party *party, const char *name,
                                  unsigned wait_ms);
enum dlock_status lock_party_give(struct lock_party *party);

/* The same in a child process. Start it before any thread, as fork() demands. */
struct lock_process {
    pid_t pid; /* 0 = it has ended */
    int to;
    int from;
};

struct lock_process_report {
    enum dlock_status status;
    char text[200]; /* of the error */
};

void lock_process_start(struct lock_process *process,
                        const struct lock_party_terms *terms);

/* Tells it, and does not wait; _report waits for what came of it. */
void lock_process_tell_take(struct lock_process *process, const char *name,
                            unsigned wait_ms);
struct lock_process_report lock_process_report(struct lock_process *process);

/* Both in one. */
enum dlock_status lock_process_take(struct lock_process *process,
                                    const char *name, unsigned wait_ms);
enum dlock_status lock_process_give(struct lock_process *process);

/* SIGKILL; nothing, if it has ended. SIGSTOP and SIGCONT. */
void lock_process_kill(struct lock_process *process);
void lock_process_pause(struct lock_process *process);
void lock_process_resume(struct lock_process *process);

#endif

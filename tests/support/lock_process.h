/*
 * A process that takes locks: it is told what to do, and can be stopped and killed.
 */
#ifndef LOCK_PROCESS_H
#define LOCK_PROCESS_H

#include "lock/dlock.h"
#include "tests/support/server_proc.h"

struct lock_process {
    struct server_proc proc; /* may be paused and resumed */
    int line;                /* a socket */
};

struct lock_process_report {
    enum dlock_status status;
    uint64_t left_ms;
    char text[200]; /* of the error */
};

/* Has a client by the rig's options of now. Start it before any thread, as fork()
 * demands. */
void lock_process_start(struct lock_process *process, const char *strategy);

/* Tells it, and does not wait; _report waits for what came of it. */
void lock_process_tell_take(struct lock_process *process, const char *name,
                            unsigned wait_ms);
struct lock_process_report lock_process_report(struct lock_process *process);

/* Both in one. */
enum dlock_status lock_process_take(struct lock_process *process,
                                    const char *name, unsigned wait_ms);
enum dlock_status lock_process_give(struct lock_process *process);

/* dlock_remaining_ms() of what it has taken last. */
uint64_t lock_process_left(struct lock_process *process);

/* SIGKILL; nothing, if it has ended. */
void lock_process_kill(struct lock_process *process);

#endif

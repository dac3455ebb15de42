/*
 * Conformance: every property of a lock, measured against every lock.
 *
 * A lock is not asked what it can do. Processes take it, are stopped, killed
 * between any two of their commands, overtaken; servers are lost; and what
 * happened then is the answer. A lock that is there to be wrong has to be
 * found wrong: a property that it holds by accident is as much a difference
 * from what is expected as one that a right lock has lost.
 *
 * Processes, not threads, play the parts, for only a process can be stopped
 * or killed as a whole, with its watchdog. This is how they descend:
 *
 *     suite       one, waits for all                      conform.c
 *     check       one per lock and property: bounded,     check.c; holder.c to zk.c
 *                 with servers of its own
 *     actors      holders, waiters, strangers             cast.c
 *
 * Each forks the next while it still has a single thread, and dies with its
 * parent: whatever goes wrong in a check, killing it cleans up.
 *
 * A busy machine must not decide. A check says "holds" only of what it has seen, so
 * nothing that comes late can make it say so. If what came too late can have made it fail,
 * or it broke off, it is asked again, with times eight times as long, and the second answer
 * counts.
 */
#ifndef CONFORM_H
#define CONFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lock/dlock.h"
#include "server/lab/base/expected.h"
#include "server/lab/servers/folder.h"

enum conform_verdict {
    CONFORM_UNTESTED, /* the question makes no sense, or nobody can ask it */
    CONFORM_HOLDS,
    CONFORM_FAILS,
    CONFORM_NOT_ASKED, /* what the question needs was not given */
    CONFORM_BROKEN,    /* the check broke off, and nobody expects that */
};

/* The result of one check. Its process writes it, into memory that all share. */
struct conform_result {
    enum conform_verdict verdict;
    pid_t pid; /* of its process; 0 = not started yet, or CONFORM_ENDED */
    uint64_t began_ms;
    unsigned ms;     /* how long it took */
    bool is_by_time; /* what came too late can have made it so */
    bool is_again;   /* asked once more, with longer times */
    char text[200];  /* the evidence, one line */
};

enum { CONFORM_ENDED = -1 };

/* The checks of a lock: one for each property, and whether a server that was given
 * answers. */
enum { CONFORM_SERVER = PROPERTIES_N, CONFORM_CHECKS_N };

/*
 * Servers that the suite does not start itself. NULL = there is none. The servers of an
 * ensemble are lost one by one, by the command of who has started them,
 *
 *     COMMAND kill HOST:PORT      with SIGKILL
 *     COMMAND start HOST:PORT     the same again, with its data
 *
 * which need not wait until that is done.
 */
struct conform_servers {
    const char *redis_url; /* for locks on one server; else a private one */
    const char *sql_url;
    const char *zk_url;
    const char *zk_ensemble; /* several ZooKeepers that may be killed, for M */
    const char *zk_node;     /* the command that does it */
};

/* The server given for such a lock, so that none has to be started; NULL = none. */
const char *conform_given(const struct expected *expected);

/* Whether the check of this property loses servers on purpose. */
bool conform_loses_servers(size_t index);

/* Whether what was found is what was EXPECTED of property INDEX. */
bool conform_agrees(const struct expected *expected, size_t index,
                    enum conform_verdict found);

/*
 * The role that the ZooKeeper at HOST:PORT says it has: 'l'eader, 'f'ollower,
 * 's'tandalone; 0: it says nothing, or serves nobody. Blocks for two seconds at most.
 */
char conform_zk_role(const char *at);

/* ---- all of them (conform.c) ----------------------------------------------------- */

/* A row of the table. */
struct suite_lock {
    const struct dlock_strategy_info *info;
    const struct expected *expected; /* NULL = there is no row */
    struct expected own;             /* the row of a lock of somebody's own */
    const char *missing;             /* why it is not run; NULL = it is */
    struct conform_result results[CONFORM_CHECKS_N];
};

enum { SUITE_LOCKS_MAX = 48 };

/* A process has one. */
extern struct suite {
    struct suite_lock *locks; /* shared with all processes */
    size_t locks_n;
    struct conform_servers servers;
    unsigned slow;        /* all times are multiplied by it */
    struct folder folder; /* all servers and files are in it, while it runs */
} suite;

/* Puts ONLY this lock, or all of this build (NULL). false: no such lock. */
bool suite_fill(const char *only);

/* Runs all checks, many at once. To be called from a process with one thread. False and a
 * text: none could be run. */
bool suite_run(struct fail *error);

struct suite_sum {
    size_t all, done;   /* results, when all have been run; and now */
    size_t measured;    /* locks of which there are results */
    size_t unasked;     /* results that are not known, as nothing was given */
    size_t differences; /* and locks without a row */
    bool is_troubled;   /* a server that was given does not answer */
};

struct suite_sum suite_count(void);

/* Whether the result is not the expected one of a lock that was run. */
bool suite_differs(const struct suite_lock *lock, size_t index);

/* The process of a check: all that it does until its end (check.c). */
_Noreturn void check_run(struct suite_lock *lock, size_t index);

/* `stockade lab locks` (lab_locks.c): gets ARGV from its name on, and returns the exit
 * status. */
int lab_locks_main(int argc, char *argv[]);

#endif

/*
 * Deeds of actors: the side of the actor's own process.
 *
 * An actor has a client and up to DEED_HANDS_MAX hands. A hand is a session on
 * a thread of its own; it gets orders through a socket and reports each one's
 * end. An order names a deed, which is a function: actors are forked from the
 * check, so a pointer means the same there.
 *
 * Every hand has a trap in memory that it shares with the check. The step hook
 * counts the hand's commands there, and when the one has come that the trap is
 * set for, the process dies, stops, or the hand tells and perhaps waits. So a
 * check needs no list of the commands that a lock sends: it counts them once
 * and then sets the trap for each. With a tape in the testbed, the hook keeps all
 * commands whole: they can be sent again.
 */
#ifndef DEED_H
#define DEED_H

#include "server/lab/conform/testbed.h"

enum {
    DEED_HANDS_MAX = 6,
    DEED_STEPS_MAX = 48, /* whose names are kept */
    DEED_STEP_BYTES_MAX = 23,
    DEED_GRANTS_MAX = 4,
    DEED_COMMANDS_MAX = 4000,
    DEED_COMMAND_BYTES_MAX = 16384,
    DEED_WORDS_MAX = 64,
};

/* The trap's effect when its step comes. */
enum deed_spring {
    DEED_PASS, /* nothing: count only */
    DEED_DIE,  /* SIGKILL to the process */
    DEED_STOP, /* SIGSTOP to the process */
    DEED_TELL, /* a report says that it has come; the hand goes on */
    DEED_GATE, /* the same, and the hand waits for the next packet */
    DEED_FAIL, /* before: the command is not sent; after: its reply is lost */
    DEED_MUTE, /* the same of all steps from this one on */
};

struct deed_trap {
    atomic_int spring;
    atomic_int phase;       /* of enum dlock_phase */
    atomic_uint at;         /* number of the step, from 0, since it was set */
    atomic_uint steps_n[2]; /* steps since it was set, by phase */
    char names[DEED_STEPS_MAX][DEED_STEP_BYTES_MAX + 1]; /* of the steps */
};

/* A Redis command that an actor has sent. */
struct deed_command {
    unsigned node; /* of the testbed, from 0 */
    unsigned words_n;
    char words[DEED_COMMAND_BYTES_MAX]; /* each with a NUL behind it */
};

/* All of them, in memory that the actors share with the check. */
struct deed_tape {
    atomic_uint n;
    atomic_uint begun_n, ended_n; /* steps, of commands or not */
    struct deed_command commands[DEED_COMMANDS_MAX];
};

struct deed_hand;
struct deed_order;
struct deed_report;

typedef void deed_function(struct deed_hand *hand,
                           const struct deed_order *order,
                           struct deed_report *report);

struct deed_order {
    deed_function *deed;
    char name[TESTBED_NAME_BYTES_MAX + 1];
    unsigned wait_ms;
    unsigned lease_ms;
    int64_t number; /* whatever the deed makes of it */
};

struct deed_report {
    bool at_step;             /* the trap has sprung; the deed goes on */
    bool waits;               /* and waits there for a packet */
    bool broken;              /* there is no actor; the text says why */
    enum dlock_status status; /* of what the deed was about */
    int64_t number;
    uint64_t began_us; /* by the monotonic clock, the same for all processes */
    uint64_t ended_us;
    char text[120]; /* of an error, or the step's name */
};

struct deed_hand {
    struct testbed *testbed;
    struct dlock *client;
    struct dlock_session *session;
    struct deed_trap *trap;
    int fd;
    struct dlock_grant grants[DEED_GRANTS_MAX]; /* last taken last */
    unsigned grants_n;
};

/* The whole life of an actor's process. */
_Noreturn void deed_act(struct testbed *testbed, unsigned watchdog_lease_ms,
                        struct deed_trap traps[], const int fds[],
                        unsigned hands_n);

/* Takes the lock; the grant goes on top of the hand's. */
deed_function deed_take;

/* Gives back the newest grant of that name. */
deed_function deed_give;

/* Gives back what it never got: the stranger's, or the late one's mistake. */
deed_function deed_give_anyway;

/* The thread "dies": its session is closed, nothing is given back. */
deed_function deed_abandon;

#endif

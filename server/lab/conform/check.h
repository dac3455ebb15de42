/*
 * The parts of a check. A check is a process with one testbed, which is its servers, and one
 * cast, so both stand alone, and no function is told which.
 *
 * An actor is a process with a client of the lock. Each of its players is a session on a
 * thread of its own, which gets orders through a socket and reports how each has ended.
 * Usually each actor has one player, so that players are processes; for a lock that
 * excludes within a process only, all are threads of one. An order names a deed, which is
 * a function: actors are forked from the check, so a pointer means the same there.
 *
 * Every player has a trap in memory that it shares with the check. The step hook counts the
 * player's commands there, and when the one has come that the trap is set for, the process
 * dies or stops, or the player waits, or the command is lost. So a check needs no list of
 * the commands that a lock sends: it counts them once and then sets the trap for each.
 *
 * Everything here is bounded, by the alarm of the check (check.c). An actor that does not
 * answer or cannot come on ends the check as broken.
 */
#ifndef CONFORM_CHECK_H
#define CONFORM_CHECK_H

#include <stdatomic.h>

#include "server/lab/conform/conform.h"

/* ---- the testbed (check.c) ------------------------------------------------------ */

enum {
    TESTBED_NODES_MAX = 5,
    TESTBED_COMMANDS_MAX = 4000,
    TESTBED_COMMAND_BYTES_MAX = 16384,
    TESTBED_WORDS_MAX = 64,
    BEGINS_MAX = 10, /* of a check in which a short lease ends too soon */
};

/* Memory that contenders touch in the critical section; shared by all processes. */
struct testbed_race {
    atomic_int inside;    /* how many are in there now */
    atomic_uint overlaps; /* times that somebody was not alone */
    atomic_uint entered;  /* times that somebody came in */
    atomic_uint counter;  /* read, then written: loses what overlaps */
    atomic_uint turn;     /* who comes when */
};

/* All commands that actors have sent to Redis, whole: they can be sent again. Shared. */
struct testbed_tape {
    atomic_uint n;
    atomic_uint steps_n[2]; /* of commands or not, by phase */
    struct testbed_command {
        unsigned node; /* of the testbed, from 0 */
        unsigned words_n;
        char words[TESTBED_COMMAND_BYTES_MAX]; /* each with a NUL behind it */
    } commands[TESTBED_COMMANDS_MAX];
};

/* One check's: its servers, its times. */
extern struct testbed {
    const struct expected *expected;
    size_t index;      /* of the check */
    const char *given; /* the server that was given; NULL = all are ours */
    unsigned capabilities;
    char dir[80];
    char url[1024]; /* for dlock_open(); "" = none */
    struct redis_proc *nodes[TESTBED_NODES_MAX];
    unsigned nodes_n;
    bool together; /* it excludes within a process only: act inside of one */
    unsigned slow; /* all times below have been multiplied by it */
    unsigned lease_ms;  /* a short lease, to be outlived */
    unsigned long_ms;   /* a lease that outlives every check */
    unsigned margin_ms; /* what may pass beyond a lease's end */
    struct testbed_race *race;
    struct testbed_tape *tape; /* of the actors to come; NULL = none */
    struct conform_result *result;
} testbed;

/* One more redis-server, on a socket beside its folder WHAT; a new one in the place of a
 * node; a connection to one. Without it the check is broken. */
struct redis_proc *testbed_server(const char *what);
void testbed_restart(unsigned node);
struct peek *testbed_peek(const struct redis_proc *proc);

bool testbed_can(enum dlock_capability capability);

/* ---- how a check ends (check.c) ------------------------------------------------- */

/* Notes the result and ends the process. What it has started dies with it. It is broken if
 * a server that nobody has lost on purpose does not answer any more. */
_Noreturn void check_end(enum conform_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define check_holds(...)    check_end(CONFORM_HOLDS, __VA_ARGS__)
#define check_fails(...)    check_end(CONFORM_FAILS, __VA_ARGS__)
#define check_untested(...) check_end(CONFORM_UNTESTED, __VA_ARGS__)
#define check_broken(...)   check_end(CONFORM_BROKEN, __VA_ARGS__)

/* The lock fails if it is not so. */
#define must(is_so, ...)                                                       \
    do {                                                                       \
        if (!(is_so))                                                          \
            check_fails(__VA_ARGS__);                                          \
    } while (0)

/* The same of what has a time limit: the check is asked again, with a longer one. */
#define must_in_time(is_so, ...)                                               \
    do {                                                                       \
        testbed.result->is_by_time = !(is_so);                                 \
        must(!testbed.result->is_by_time, __VA_ARGS__);                        \
    } while (0)

/* The check is broken if it is not so: the lock cannot be blamed for that. */
#define need(is_so, ...)                                                       \
    do {                                                                       \
        if (!(is_so))                                                          \
            check_broken(__VA_ARGS__);                                         \
    } while (0)

/* ---- deeds: in the actor's process (cast.c) -------------------------------------- */

enum {
    CAST_PLAYERS_MAX = 36,
    CAST_NAME_BYTES_MAX = 48,
    CAST_STEP_BYTES_MAX = 23,
    CAST_PLACES_MAX = 24,
    CAST_GRANTS_MAX = 4,
};

struct player;
struct deed_order;
struct deed_report;

typedef void deed_function(struct player *player,
                           const struct deed_order *order,
                           struct deed_report *report);

struct deed_order {
    deed_function *deed;
    char name[CAST_NAME_BYTES_MAX + 1]; /* of the lock */
    unsigned wait_ms;
    unsigned lease_ms;
};

struct deed_report {
    bool at_gate;             /* the deed goes on when something is sent */
    bool broken;              /* there is no actor; the text says why */
    enum dlock_status status; /* of what the deed was about */
    struct dlock_error error; /* why, if it is not OK */
    int number;               /* whatever the deed makes of it */
    uint64_t began_us; /* by the monotonic clock, the same for all processes */
    uint64_t ended_us;
};

struct player {
    pid_t pid; /* of its actor; 0 = dead */
    int fd;    /* to whoever is on the other side */
    struct trap *trap;
    struct dlock *client; /* these are the actor's alone */
    struct dlock_session *session;
    struct dlock_grant grants[CAST_GRANTS_MAX]; /* last taken last */
    unsigned grants_n;
};

/* Takes the lock; the grant goes on top of the player's. */
deed_function deed_take;

/* Gives back the newest grant of that name, which stays if there is no answer. */
deed_function deed_give;

/* Gives back what it never got: the stranger's, or the late one's mistake. */
deed_function deed_give_anyway;

/* Asks who holds it. */
deed_function deed_look;

/* The thread "dies": its session is closed, nothing is given back. */
deed_function deed_abandon;

/* ---- the cast: in the check's process (cast.c) ----------------------------------- */

/* The roles of most checks. */
enum { HOLDER, NEXT, THIRD };

/* N players, from 0, all of one process if the testbed says so, or else one each; those
 * before are forgotten. All that come on from now on have this lease. */
void cast_open(unsigned n, unsigned watchdog_lease_ms);

/* N more players, threads of one new process; the number of the first. */
unsigned cast_add(unsigned n);

/* A lock's name that was not used before, until the end of the check. */
const char *cast_name(void);

/* Orders and reports: tell goes on at once, hear waits, ask does both. */
void cast_tell(unsigned who, deed_function *deed, const char *name,
               unsigned wait_ms, unsigned lease_ms);
struct deed_report cast_hear(unsigned who);
struct deed_report cast_ask(unsigned who, deed_function *deed, const char *name,
                            unsigned wait_ms, unsigned lease_ms);

/* The usual orders, short. */
enum dlock_status cast_take(unsigned who, const char *name, unsigned wait_ms,
                            unsigned lease_ms);
enum dlock_status cast_give(unsigned who, const char *name);

/* No answer is not a "no": a busy server may have the next one. */
bool cast_is_silent(enum dlock_status status);

/* cast_take() until there is an answer, for WITHIN_MS at most. */
enum dlock_status cast_insist(unsigned who, const char *name, unsigned wait_ms,
                              unsigned lease_ms, unsigned within_ms);

/* Takes it in this way, and gives it back at once: is it free? */
bool cast_is_free(unsigned who, const char *name);

/* NEXT gets NAME when the short lease of its holder is over; false: it never is. */
bool cast_overtakes(const char *name);

/*
 * How most checks begin: HOLDER takes a new lock for LEASE_MS, and NEXT must find it
 * taken, twice: the first try must not have changed that. If not, this is no lock, and
 * the check is over. The lock's name.
 */
const char *cast_begin(unsigned lease_ms);

/* The trap's effect when its step comes. */
enum trap_spring {
    TRAP_PASS, /* nothing: count only */
    TRAP_DIE,  /* SIGKILL to the process */
    TRAP_STOP, /* SIGSTOP to the process */
    TRAP_GATE, /* a report says that it has come; the player waits */
    TRAP_FAIL, /* before: the command is not sent; after: its reply is lost */
    TRAP_MUTE, /* the same of all steps from this one on */
};

/* Sets the trap and its counters back; step numbers count from here. */
void cast_trap(unsigned who, enum trap_spring spring, enum dlock_phase phase,
               unsigned at);

/* Commands ended since the trap was set. */
unsigned cast_steps(unsigned who);

/* Commands so far of its process, whose first player it is, that no player has sent: the
 * watchdog's. */
unsigned cast_others(unsigned who);

/* The player's whole process, and back when it is so. */
void cast_kill(unsigned who);
void cast_stop(unsigned who);
void cast_continue(unsigned who);

/* A command of a holder's life, by which it can be held up. */
struct cast_place {
    unsigned at; /* of its acquire or of its release, from 0 */
    bool in_release;
    char step[CAST_STEP_BYTES_MAX + 1];
    const char *name; /* the lock's: each place has its own */
};

/* The places of a life without a fault: those of the release come last. */
unsigned cast_places(struct cast_place places[CAST_PLACES_MAX]);

/* A new holder, which dies after the command, or (TRAP_STOP) stops before it. */
unsigned cast_halt(const struct cast_place *place, enum trap_spring spring);

/* ---- the checks ------------------------------------------------------------------ */

/* One for each property, as properties.txt names them: in holder.c, late.c, wait.c and
 * loss.c. Each ends its process by check_end(). */
typedef void conform_check(void);

#define ROW(property, check, letter, text) conform_check check;
#include "server/lab/base/properties.inc"

/* zk.c: M and M2 of locks in ZooKeeper, which lose the server that is ROLE. */
_Noreturn void conform_lose_zk(char role, const char *when);

#endif

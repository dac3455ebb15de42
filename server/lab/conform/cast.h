/*
 * The cast of a check: its actors, from the check's side.
 *
 * Players are numbered from 0. Each is a hand of some actor; usually each actor
 * has one, so that players are processes. For a lock that excludes within a
 * process only, all of them are threads of one.
 *
 * Everything here is bounded, by the alarm of the check (conform.c). An actor that
 * does not answer or cannot come on ends the check as broken.
 */
#ifndef CAST_H
#define CAST_H

#include "server/lab/conform/deed.h"

enum { CAST_PLAYERS_MAX = 36 };

struct cast_player {
    pid_t pid; /* of its actor; 0 = dead */
    int fd;
    struct deed_trap *trap;
};

struct cast {
    struct testbed *testbed;
    unsigned watchdog_lease_ms; /* of the actors that come on from now on */
    struct cast_player players[CAST_PLAYERS_MAX];
    unsigned players_n;
};

/* The roles of most checks. */
enum { CAST_HOLDER, CAST_NEXT, CAST_THIRD };

/* N players, all of one process if the testbed says so, or else one each. */
void cast_open(struct cast *cast, struct testbed *testbed, unsigned n,
               unsigned watchdog_lease_ms);

/* N more players, threads of one new process; the number of the first. */
unsigned cast_add(struct cast *cast, unsigned n);

/* An order to do DEED with lock NAME; what else it needs is 0. */
struct deed_order cast_order(deed_function *deed, const char *name,
                             unsigned wait_ms, unsigned lease_ms);

/* Orders and reports: tell goes on at once, hear waits, ask does both. */
void cast_tell(struct cast *cast, unsigned who, struct deed_order order);
struct deed_report cast_hear(struct cast *cast, unsigned who);
struct deed_report cast_ask(struct cast *cast, unsigned who,
                            struct deed_order order);

/* The usual orders, short. */
enum dlock_status cast_take(struct cast *cast, unsigned who, const char *name,
                            unsigned wait_ms, unsigned lease_ms);
enum dlock_status cast_do(struct cast *cast, unsigned who, deed_function *deed,
                          const char *name);
enum dlock_status cast_give(struct cast *cast, unsigned who, const char *name);

/* No answer is not a "no": a busy server may have the next one. */
bool cast_is_silent(enum dlock_status status);

/* cast_take() until there is an answer, for WITHIN_MS at most. */
enum dlock_status cast_insist(struct cast *cast, unsigned who, const char *name,
                              unsigned wait_ms, unsigned lease_ms,
                              unsigned within_ms);

/* Takes it in this way, and gives it back at once: is it free? */
bool cast_is_free(struct cast *cast, unsigned who, const char *name);

/* NEXT gets NAME when the short lease of its holder is over; false: it never is. */
bool cast_overtakes(struct cast *cast, const char *name);

/*
 * How most checks begin: HOLDER takes NAME for LEASE_MS, and NEXT must find it
 * taken, twice: the first try must not have changed that. If not, this is no
 * lock, and the check is over.
 */
void cast_begin(struct cast *cast, const char *name, unsigned lease_ms);

/* Sets the trap and its counters back; step numbers count from here. */
void cast_trap(struct cast *cast, unsigned who, enum deed_spring spring,
               enum dlock_phase phase, unsigned at);

/* Commands ended since the trap was set. */
unsigned cast_steps(const struct cast *cast, unsigned who);

/* The player's whole process, and back when it is so. */
void cast_kill(struct cast *cast, unsigned who);
void cast_stop(struct cast *cast, unsigned who);
void cast_continue(struct cast *cast, unsigned who);

/* A command of a holder's life, by which it can be held up. */
struct cast_place {
    unsigned at; /* of its acquire or of its release, from 0 */
    bool in_release;
    char step[DEED_STEP_BYTES_MAX + 1];
    const char *name; /* the lock's: each place has its own */
};

enum { CAST_PLACES_MAX = 24 };

/* The places of a life without a fault: those of the release come last. */
unsigned cast_places(struct cast *cast, struct cast_place places[]);

/* A new holder, which dies after the command, or (DEED_STOP) stops before it. */
unsigned cast_halt(struct cast *cast, const struct cast_place *place,
                   enum deed_spring spring);

/*
 * The checks, one per property, as properties.txt names them: in holder.c, crash.c, late.c,
 * wait.c and loss.c. Each runs in a process of its own and ends it with
 * testbed_holds(), _fails() or _untested().
 */
typedef void conform_check(struct testbed *testbed);

#define ROW(property, check, letter, text) conform_check check;
#include "server/lab/properties.inc"

/* zk.c: the same of locks in ZooKeeper, which lose the server that is ROLE. */
_Noreturn void conform_lose_zk(struct testbed *testbed, char role,
                               const char *when);

#endif

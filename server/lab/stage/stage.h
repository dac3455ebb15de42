/*
 * The stage: real interleavings, step by step.
 *
 * Actors in processes of their own, as a rule buyers, run the real code of one
 * order each (lock, decide, unlock) against a real redis-server and a real SQLite
 * file. Nobody runs unless a *move* says so, and time passes only by moves: the
 * same schedule gives the same steps every time.
 *
 *     struct stage_scene scene = STAGE_SCENE("set-nx-px");
 *     struct stage *stage = stage_open(&scene, &error);
 *     int n = stage_parse("a a b L b a", moves, &error);
 *
 *     for (int i = 0; i < n; i++)
 *         stage_move(stage, moves[i], &error);
 *     stage_look(stage, &view);
 *     stage_close(stage);
 *
 * To be used by a process with one thread: stage_open() and stage_begin() fork, and
 * from then on SIGCHLD and SIGPIPE are ignored. Whatever takes an ERROR writes a text
 * there when it fails, cut to its size.
 *
 * Actors
 * ------
 * Each is a process, forked once and kept from schedule to schedule: a store, a
 * lock client, a worker. It runs a *program*: "order", unless the scene gives it
 * the role of another (programs/program.h). The program begins with the actor's
 * first move, and stops before each step. A death is a SIGKILL; another process
 * takes its place in the next schedule.
 *
 * With one_process all actors are threads of one process: they share its store and
 * its lock client, each with a session of its own, and die together.
 *
 * With batched each actor is an instance of the service that sells in batches: the
 * program "instance". Its steps are those of its threads: of the committer BEGIN and
 * the look which locks it has, each lot that is decided, COMMIT, each answer; of the
 * worker what it does about locks. Where both could go on, a is the committer's.
 *
 * Steps
 * -----
 * A step is what others can see: a Redis command, an SQL transaction, a nap after which the
 * actor looks again, a message that its subscriber reads. What an actor does by
 * itself between two steps belongs to the first of them.
 *
 * Moves
 * -----
 *     a    the next step of actor a
 *     a~   the same, and the reply is lost on its way back
 *     a^   the command is held up in the network: a hears nothing
 *     ^    what was held up first arrives
 *     a-   the database is busy: the transaction does not begin
 *     ax   its COMMIT fails, and nothing of it stays
 *     a+   what a waits for does not come in time
 *     aw   the next step of a's watchdog, when that is due
 *     ai   an order comes in at instance a; after the last one it stops
 *     al   instance a does something about a lock, although a batch is under way
 *     ae   a's committer looks for orders that were not paid in time, when that
 *          is due, and gives their units back
 *     a!   a's process dies
 *     L    the lease of the lock ends, by all clocks; of several the next one
 *     F    Redis forgets all it knows
 *     H    the time runs out in which an order must be paid; of several the next one
 * With one server that has a replica:
 *     R    the replica lags: what is written from now on it does not get
 *     P    the server dies, and the replica is promoted in its place
 * With locks on several servers, and a server's number before:
 *     2L   the clock of server 2 leaps: the lease of the lock ends there
 *     2!   server 2 dies, and begins anew with nothing
 *     2F   server 2 forgets all it knows, and does not say so by its age
 * Moves have spaces between them, or none where that is clear: "a a b L b".
 *
 * Time
 * ----
 * One clock for all, also the redis-server's. L sets it to the end of the lock's
 * lease, H to the end of the time to pay, a+ to the end of a's wait, aw to when the
 * watchdog is due. Steps and naps take no time. Nothing sleeps.
 */
#ifndef STAGE_H
#define STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/config.h"
#include "server/lab/base/fail.h"
#include "server/order/order.h"

enum {
    STAGE_ACTORS_MAX = 4,
    STAGE_MOVES_MAX = 64,   /* of one schedule */
    STAGE_ENABLED_MAX = 80, /* at one moment */
    STAGE_STEPS_MAX = 512,  /* records of one schedule */
    STAGE_REDIS_BYTES_MAX = 4096,
    STAGE_LOCKS_MAX = 4,
    STAGE_NAME_BYTES = 32,
};

/* An actor's role. All zero: an order, with what the scene says. */
struct stage_role {
    const char *program;   /* NULL = "order" */
    int64_t product, user; /* 0 = product 1, and 1 for a, 2 for b, ... */
    int64_t other;         /* of programs with two products: 0 = product + 1 */
    int64_t quantity;      /* 0 = the scene's */
    int64_t segments;      /* of "resize" */
    const char *key;       /* Idempotency-Key; NULL = none */
};

/* A scene: all that is on the stage. The stage copies it, and goes on using its texts. */
struct stage_scene {
    const char *lock;
    enum config_lock_per lock_per; /* of orders */
    unsigned buyers;               /* actors, whatever they do */
    struct stage_role roles[STAGE_ACTORS_MAX];
    bool one_process;
    bool batched;         /* all actors are instances, see above */
    bool replica;         /* of the only server */
    int64_t products;     /* each with the stock below; 0 = 1 */
    int64_t segments;     /* of each product; 0 = 1 */
    int64_t limit;        /* units of a product that a user may buy; 0 = any */
    int64_t pay_within_s; /* for an order to be paid; 0 = it need not */
    enum config_deduct deduct;
    int64_t stock;    /* of each product */
    int64_t quantity; /* of each order */
    int64_t wait_ms;  /* --lock-wait-ms: longer than a lease; else an actor that
                         waits has given up before the lease ends */
    int64_t lease_ms; /* --lock-lease-ms */
    int64_t max_hold_ms; /* --lock-max-hold-ms; 0 = 60000 */
};

#define STAGE_SCENE(name)                                                      \
    {                                                                          \
        .lock = (name), .buyers = 2, .deduct = DEDUCT_NAIVE, .stock = 1,       \
        .quantity = 1, .wait_ms = 30000                                        \
    }

struct stage_move {
    signed char actor; /* from 0; -1 = the world; -2 = server 1, ... */
    char kind; /* 's' a step; '~' '^' '-' 'x' '+' 'w' 'e' 'i' 'l' '!'; of the
                  world: '^' 'L' 'F' 'H' 'R' 'P'; of a server: 'L' 'F' '!' */
};

/* A line of what has happened. */
struct stage_step {
    unsigned move;     /* which one it belongs to, from 1; 0 = before all */
    signed char actor; /* -1 = the world */
    bool is_sql;
    bool is_local;  /* nothing goes over a wire */
    unsigned node;  /* the server that it is for, from 0 */
    uint64_t at_us; /* since the schedule began */
    char who[12];   /* the part of the actor: "watchdog"; "" = the program */
    char name[24];  /* "" = not a step: what became of something */
    char key[64];   /* the lock's name */
    char sent[320];
    char reply[96];
    char mark[80]; /* what is wrong about it, in words; "" = nothing */
};

/* The faults, in faults.txt each with its words. */
enum stage_fault {
#define ROW(name, word, by, text, goal) name,
#include "server/lab/stage/faults.inc"
    STAGE_FAULT_N
};

/* Remarks are no faults of a lock: no lock keeps its holders apart when its lease has
 * ended or its key is lost, and with tokens that does no harm. */
#define STAGE_REMARKS (1u << STAGE_TWO_LATE | 1u << STAGE_TWO_LOST)

const char *stage_fault_word(enum stage_fault fault);
const char *stage_fault_text(enum stage_fault fault);

/* FAULT as a goal of a player, "sell more units than there are"; NULL: it is none. */
const char *stage_fault_goal(enum stage_fault fault);

/* The faults among FAULTS that are goals. */
unsigned stage_goals(unsigned faults);

/* The audit of the store, as faults: the same for a schedule of the stage and for real
 * instances under load. A bit 1u << fault for each that is one at any time; and the rest,
 * because an order that is under way may have taken units, and not be there yet. */
unsigned ledger_faults(const struct store_audit *audit);
unsigned ledger_faults_at_the_end(const struct store_audit *audit);

struct stage_actor_view {
    bool is_dead, is_done, is_inside;
    bool answered;
    enum order_outcome outcome;
    char next[200]; /* what it would do, or waits for, in plain words */
};

/* A lock: "lock:{1:0}" is that of segment 0 of product 1. */
struct stage_lock_view {
    char name[STAGE_NAME_BYTES];
    int holder;     /* whose it is by the servers; -1 = nobody's */
    int64_t ttl_ms; /* -1 = it never expires; -2 = no key */
};

/* All that can be seen at one moment. */
struct stage_view {
    uint64_t now_us; /* since the schedule began */
    struct stage_actor_view actors[STAGE_ACTORS_MAX];
    unsigned locks_n; /* that have been seen so far; the first is lock:{1:0} */
    struct stage_lock_view locks[STAGE_LOCKS_MAX];
    char redis[STAGE_REDIS_BYTES_MAX]; /* a line for each key */
    unsigned late_n;                   /* commands that are held up */
    int64_t stock, sold, orders;
    bool over; /* all are done or dead, and nothing is held up */
};

struct stage;

/* Whether the stage has its lock and its programs. */
bool stage_can_play(const struct stage_scene *scene, struct fail *error);

/* At the start of a schedule. NULL and a text: the scene cannot be played, or there
 * is no redis-server. */
struct stage *stage_open(const struct stage_scene *scene, struct fail *error);
void stage_close(struct stage *stage); /* NULL is fine */

/* Back to the start. False and a text: the stage itself is broken, and can only be
 * closed. */
bool stage_begin(struct stage *stage, struct fail *error);

/* One move. False and a text: it is not enabled, the text says which moves are, and
 * nothing has happened; or the stage is broken. */
bool stage_move(struct stage *stage, struct stage_move move,
                struct fail *error);

/* Reads a schedule: how many moves it has. -1 and a text: it is none. */
int stage_parse(const char *text, struct stage_move moves[STAGE_MOVES_MAX],
                struct fail *error);

/* A phrase for a move that is no plain step; "" = there is no such move. %d is the number
 * of a server. */
const char *stage_move_words(struct stage_move move);

/* Writes one move, "a~"; and many, with spaces between. Both return TEXT. */
const char *stage_move_text(struct stage_move move, char text[4]);
const char *stage_text(const struct stage_move moves[], size_t n, char text[],
                       size_t size);

/* The moves that there are now, in a fixed order. */
size_t stage_enabled(struct stage *stage,
                     struct stage_move moves[STAGE_ENABLED_MAX]);

/* Whether MOVE is one of them. */
bool stage_has_move(struct stage *stage, struct stage_move move);

void stage_look(struct stage *stage, struct stage_view *view);

/* The role of actor ACTOR, with all defaults filled in. */
struct stage_role stage_role(const struct stage_scene *scene, unsigned actor);

/* The steps since stage_begin(), until the next move. */
const struct stage_step *stage_steps(const struct stage *stage, size_t *n);

/* The verdict on a run. */
struct stage_verdict {
    unsigned faults;  /* a bit 1u << fault for each; of STAGE_REMARKS none */
    unsigned remarks; /* the same, of STAGE_REMARKS */
    unsigned moves[STAGE_FAULT_N]; /* at which move each came about, from 1 */
};

/* All that has broken since stage_begin(). A fault has its move only if a caller asks after
 * each. When all is over, a program's check may add a line to stage_steps(). */
void stage_judge(struct stage *stage, struct stage_verdict *verdict);

/* The faults for a search of a lock's: without remarks, and without units that vanish
 * under the naive way, which loses them by itself when it is cut short. */
unsigned stage_faults(struct stage *stage);

/* Whether a move could not be made whole, or the ledger not be read: then there is no
 * verdict. */
bool stage_is_broken(const struct stage *stage);

/* Whether an actor believes to have a lock; and how many leases have ended. */
bool stage_is_inside(const struct stage *stage, unsigned actor);
unsigned stage_lapses(const struct stage *stage);

/* Two schedules with the same number cannot differ in what follows: it has all
 * that decides what follows. Of an actor that is all that has come into its process,
 * the clock as often as it has read another time. */
uint64_t stage_hash(struct stage *stage);

#endif

/*
 * A scene, its moves, and the steps and faults that come of them. The stage plays it:
 * see stage.h.
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
 */
#ifndef SCENE_H
#define SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/config.h"
#include "server/lab/base/fail.h"

enum {
    STAGE_ACTORS_MAX = 4,
    STAGE_NODES_MAX = 5,  /* servers */
    STAGE_MOVES_MAX = 64, /* of one schedule */
    STAGE_REDIS_BYTES_MAX = 4096,
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
    bool batched;         /* all actors are instances, see stage.h */
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
#include "server/lab/scene/faults.inc"
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

/* The role of actor ACTOR, with all defaults filled in. */
struct stage_role stage_role(const struct stage_scene *scene, unsigned actor);

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

#endif

/*
 * The stage: real interleavings, step by step.
 *
 * Actors in processes of their own, as a rule buyers, run the real code of one
 * order each (lock, decide, unlock) against a real redis-server and a real SQLite
 * file. Nobody runs unless a *move* (scene.h) says so, and time passes only by moves: the
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
 * Time
 * ----
 * One clock for all, also the redis-server's. L sets it to the end of the lock's
 * lease, H to the end of the time to pay, a+ to the end of a's wait, aw to when the
 * watchdog is due. Steps and naps take no time. Nothing sleeps.
 */
#ifndef STAGE_H
#define STAGE_H

#include "server/lab/scene/scene.h"
#include "server/order/order.h"

enum {
    STAGE_ENABLED_MAX = 80, /* at one moment */
    STAGE_STEPS_MAX = 512,  /* records of one schedule */
    STAGE_LOCKS_MAX = 32,   /* that one schedule may touch */
};

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

/* The moves that there are now, in a fixed order. */
size_t stage_enabled(struct stage *stage,
                     struct stage_move moves[STAGE_ENABLED_MAX]);

/* Whether MOVE is one of them. */
bool stage_has_move(struct stage *stage, struct stage_move move);

void stage_look(struct stage *stage, struct stage_view *view);

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

/* Whether all are done or dead, and nothing is held up. */
bool stage_is_over(const struct stage *stage);

/* Whether a move could not be made whole, or the ledger not be read, and a text: then there
 * is no verdict. A judgement may find out, too. */
bool stage_is_broken(const struct stage *stage, struct fail *error);

/* Whether an actor believes to have a lock; and how many leases have ended. */
bool stage_is_inside(const struct stage *stage, unsigned actor);
unsigned stage_lapses(const struct stage *stage);

/* Two schedules with the same number cannot differ in what follows: it has all
 * that decides what follows. Of an actor that is all that has come into its process,
 * the clock as often as it has read another time. */
uint64_t stage_hash(struct stage *stage);

#endif

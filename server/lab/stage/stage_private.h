/* The files of the stage share this: stage.c opens and begins, and has the actors'
 * turns, stage_settle.c what follows them, stage_moves.c the moves, stage_rules.c and
 * stage_verdict.c what broke, stage_view.c what can be seen. */
#ifndef STAGE_PRIVATE_H
#define STAGE_PRIVATE_H

#include <sys/types.h>

#include "server/lab/base/expected.h"
#include "server/lab/stage/stage.h"
#include "server/lab/world/world.h"

enum {
    STAGE_LATE_MAX = 8,
    STAGE_PRODUCTS_N = 12,
    STAGE_TOKENS_MAX = 16,
    STAGE_ORDERS_MAX = 16,
    STAGE_RUN_MAX = 40,
};

/* An actor, and what the stage has noted of it. */
struct actor {
    struct stage *stage;
    int index; /* from 0: a is 0 */
    struct stage_role role;
    const struct program *program;
    struct page *page;        /* its process; with one_process all have one */
    struct page_lane *lane;   /* its own words */
    struct page_thread first; /* the first step of its program */

    /* The schedule under way: all 0 at its start. */
    bool is_dead;
    unsigned died_at;     /* the move */
    bool hears_nothing;   /* its last step had no reply */
    uint64_t asleep_hash; /* of the keys when its nap began; 0 = it is awake */
    bool was_inside;      /* before this move; and when it came in: */
    unsigned lapses, losses; /* those of the stage */
    unsigned tokens_n;       /* grants with a token, before this move */
    /* Its place in the queue of `fair`. */
    unsigned place;      /* from 1; 0 = it does not wait */
    unsigned sure_place; /* the same, if the server gave it up in between */
    unsigned asks_n;     /* questions of it that were answered */
    uint64_t asked_us;   /* the time of the last one */
    uint64_t steady_us;  /* no heartbeat of it was late since then */
    /* Its last order. */
    unsigned orders_n;        /* the number of that */
    unsigned order_cut_short; /* the order that has lost its units; 0 = none */
    bool saw_short;           /* too few units were there at some time of it */
    /* The lock that it wants. */
    bool wishes;   /* it wanted one before this move */
    bool was_free; /* nobody else had or wanted that, ever since it does */
    char loss[48]; /* for people: the reason for which its lock was lost */
    unsigned reads[STAGE_PRODUCTS_N]; /* the versions of stocks, as read */
};

/* A command that is held up in the network. */
struct stage_late {
    struct actor *actor;
    unsigned newer;           /* commands of its actor for its lock since */
    struct page_thread shown; /* it, as its thread has shown it */
};

/* A lock as the servers have it. */
struct stage_lock {
    char name[STAGE_NAME_BYTES];
    struct actor *holder; /* NULL = nobody, or it is not known */
    bool has_key;         /* on one server at least */
    bool taken_late; /* by a late command, and its holder has sent none since */
    bool token_is_over; /* the lock was free since TOKEN was granted */
    unsigned freed_at;  /* the move that took its key away */
    uint64_t ends_us;   /* its lease, on the last of the servers; PAGE_NEVER */
    uint64_t lapsed_us; /* the last time at which a lease ended; 0 = never */
    uint64_t node_ends_us[STAGE_NODES_MAX]; /* on each; 0 = it is not there */
    struct actor
        *owners[STAGE_NODES_MAX]; /* of each, where there are several */
    uint64_t token;               /* the last one that was granted; 0 = none */
    struct actor *token_by;
};

/*
 * A look at the servers and the ledger, after a move of the last schedule. A schedule
 * that begins with the same moves leads to the same, and need not look again.
 */
struct stage_past {
    struct stage_move move;
    bool has_look, has_audit;
    struct world_look look;
    struct store_audit audit;
    int64_t units[STAGE_PRODUCTS_N];
};

struct stage {
    struct stage_scene scene;
    const struct expected *expected; /* of its lock; NULL = nothing */
    struct world world;
    struct actor actors[STAGE_ACTORS_MAX], *end; /* END: behind the last */
    struct stage_late late[STAGE_LATE_MAX];
    struct stage_late delivered; /* by this move, if */
    struct stage_step steps[STAGE_STEPS_MAX];
    struct stage_past past[STAGE_MOVES_MAX + 1]; /* by moves_n */
    const struct world_look *look; /* all that Redis has, in PAST */
    struct fail error;             /* the stage itself is broken: why */

    /* The schedule under way: all 0 at its start, if begin() says nothing else. */
    size_t steps_n, steps_before; /* all; and those before this move */
    unsigned moves_n, past_n;
    bool repeats; /* all moves so far are those of the last schedule */
    bool is_delivery;
    bool has_ghost; /* see stage_rules.c */
    unsigned late_n;
    unsigned places_n;                        /* that waiters were given */
    struct stage_lock locks[STAGE_LOCKS_MAX]; /* those seen so far */
    unsigned locks_n;
    unsigned lapses; /* of leases, and of locks that the only server has lost */
    unsigned losses; /* the latter */

    bool touched; /* this move may have changed what Redis has, or the time */
    bool posted;  /* what this move has sent is not waited for by who sent it */
    bool is_audited; /* since the last write: these are of now, in PAST: */
    const struct store_audit *audit;
    const int64_t *units;         /* that are left, by product; 0 = of all */
    bool unfaithful;              /* somebody died, or a reply was lost; */
    bool is_disturbed;            /* anything but the latter */
    bool cut_short;               /* an order was, between its statements */
    char kind;                    /* of the move under way */
    struct stage_verdict verdict; /* so far */
    uint64_t written;    /* a hash of all that was written to the database */
    struct actor *mover; /* whose move it is; NULL = the world's */
    unsigned run_n;      /* moves of it in a row, without any trouble */
    uint64_t tokens[STAGE_TOKENS_MAX]; /* that were granted, as they rose */
    unsigned tokens_n;
    unsigned insiders; /* a bit for each who shares a lock with another */
    unsigned stocks[STAGE_PRODUCTS_N]; /* the version of each product's stock */
    unsigned restarts; /* of one of several servers, which then knows nothing */
};

/* How long an order waits for a lock: the service leaves time for a last command. */
uint64_t stage_wait_us(const struct stage *stage);

/* Its program has begun, and it may be over or dead by now; it lives, and has not ended. */
static inline bool stage_has_begun(const struct actor *actor)
{
    return actor->lane->phase != PAGE_CLOSED;
}

static inline bool stage_is_playing(const struct actor *actor)
{
    return !actor->is_dead && actor->lane->phase == PAGE_RUNS;
}

/* -1 = the world, or nobody. */
static inline int stage_index(const struct actor *actor)
{
    return actor ? actor->index : -1;
}

/* The thread that runs its program. */
static inline const struct page_thread *
stage_main_thread(const struct actor *actor)
{
    return &actor->page->threads[actor->lane->thread];
}

static inline uint64_t stage_now_us(const struct stage *stage)
{
    return atomic_load(&stage->world.board->now_us);
}

static inline bool stage_has_time_passed(const struct stage *stage)
{
    return stage_now_us(stage) != WORLD_BEGINS_US;
}

/* The mover is in the process of ACTOR: so it may be its watchdog. */
static inline bool stage_moves_in(const struct stage *stage,
                                  const struct actor *actor)
{
    return stage->mover && stage->mover->page == actor->page;
}

/* The units that are left of its product, if there is one. */
static inline int64_t stage_units_for(const struct actor *actor)
{
    int64_t product = actor->role.product;

    return product < STAGE_PRODUCTS_N ? actor->stage->units[product] : 0;
}

/* It is waiting for the lock of that NAME. */
static inline bool stage_wants(const struct actor *actor, const char *name)
{
    return stage_is_playing(actor) && strcmp(actor->lane->wants, name) == 0;
}

/* When the time to pay of the next order runs out; 0: nobody has to pay. */
uint64_t stage_next_payment(struct stage *stage);

/* Hands the turn to an actor until it gives it back, and writes down what has
 * happened. False: stage->error. */
bool stage_hand(struct actor *actor, enum page_order order,
                const struct page_thread *thread, enum page_verdict verdict);

/* After a move: looks into Redis, has the actors look what has come for them, and
 * notes who holds what. False: stage->error. */
bool stage_settle(struct stage *stage);

/* After a move, with what the servers said before it (stage_rules.c). */
void stage_check_locks(struct stage *stage, const struct stage_lock before[]);
void stage_check_sleepers(struct stage *stage);

/* The dead actor may have been told that the lock is free. */
bool stage_may_be_woken(const struct actor *actor);

/* Its lock tells late and doubled commands apart by numbers: what it says is exact. */
bool stage_is_exact(const struct stage *stage);

/* Trouble explains what a lock that would be right without any has done: a lost reply does
 * not, if it asks again. */
bool stage_is_excused(const struct stage *stage);

/* The hash of the keys, without the time that is left: naps end when that has changed. */
uint64_t stage_keys_hash(const struct stage *stage);

/* The fault or remark came about with this move, if it did not before. */
void stage_broke(struct stage *stage, enum stage_fault fault);

/* ---- marks (stage_view.c): for people, on what no state depends -------- */

/* STEP was done: tells its tokens as #1, #2, and what is wrong about it. */
void stage_mark_step(struct stage *stage, struct stage_step *step);

/* Redis may have a token that nobody was told of yet. */
void stage_note_tokens_in_keys(struct stage *stage);

/* The mover took the lock away from its HOLDER. IS_GONE: the key is not there. */
void stage_mark_loss(struct stage *stage, struct actor *holder, bool is_gone);

/* The holder's lease has ended. */
void stage_note_expiry(struct actor *holder);

/* A bit for each of INSIDERS is set: they share a lock; KIND says how that came. */
void stage_mark_insiders(struct stage *stage, unsigned insiders,
                         enum stage_fault kind);

/* The lock was given back, and somebody who waits for a message has none. */
void stage_mark_silence(struct stage *stage);

/* A fault of the ledger came about with this move. */
void stage_mark_fault(struct stage *stage, enum stage_fault fault);

/* ---- */

/* Adds a line to what has happened. ACTOR: whose; NULL = the world's. NAME: of the
 * step; "" = it is none. */
void stage_tell(struct stage *stage, const struct actor *actor,
                const char *name, const char *reply);

/* The last line of the move under way of ACTOR: its step NAME, or any (NULL), or what it was
 * told (""). NULL: there is none. */
struct stage_step *stage_line_of(struct stage *stage, const struct actor *actor,
                                 const char *name);

/* SIGKILL to a process, and so to all actors in it; returns when the servers have
 * seen its connections end. */
void stage_kill(struct stage *stage, struct page *page);

/* An actor's process (actor.c): it has what an instance of the service has, and runs the
 * program of one actor, or with one_process of all, at the stage's pace. Never returns.
 * FIRST: the process's first actor, from 0. */
_Noreturn void actor_main(const struct world *world, unsigned first,
                          const struct stage_scene *scene);

/* The threads that an actor's moves are of; NULL: there is none. */
struct stage_threads {
    const struct page_thread *step;    /* it makes the next one */
    const struct page_thread *second;  /* of an instance, the one after it */
    const struct page_thread *opening; /* it is about to begin a transaction */
    const struct page_thread *waiting; /* its time comes first */
    const struct page_thread *keeper;  /* a watchdog, due or not */
    const struct page_thread *committer; /* it waits for a time */
};
struct stage_threads stage_threads(const struct actor *actor);

/* The lock of that NAME; NULL: it was not seen yet. */
struct stage_lock *stage_lock_of(struct stage *stage, const char *name);

/* No server has a key of the lock that it wants; nor does anybody in its process believe to
 * have that, if it is one that lives in processes. */
bool stage_is_free_for(const struct actor *actor);

/* Whether any lock has a key. */
bool stage_has_key(const struct stage *stage);

/* Whether a line of the keys is that of a lock: "lock:{...}". */
bool stage_is_lock(const char *line);

/* Its last order was refused as sold out, though there were enough units all the time. */
bool stage_has_refused_with_stock(const struct actor *actor);

/* Brings stage->audit and the units up to date, after each move. False: stage->error. */
bool stage_read_ledger(struct stage *stage);

/* The number of the order that has this ID; 0: none has it, or stage->error. */
uint64_t stage_order_of(struct stage *stage, const char *id);

/* Puts the actors' letters in place of their owner ids, everywhere in TEXT. */
void stage_name_owners(const struct stage *stage, char text[]);

#endif

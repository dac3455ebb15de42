/* What the files of the stage share: stage.c has the actors and their turns,
 * stage_settle.c what follows them, stage_moves.c the moves, stage_view.c what can be seen and what broke. */
#ifndef STAGE_PRIVATE_H
#define STAGE_PRIVATE_H

#include <sys/types.h>

#include "server/lab/stage/world.h"

enum { STAGE_LATE_MAX = 8 };

/* A command that is held up in the network. */
struct stage_late {
    unsigned actor;
    struct page_thread step;
    uint64_t sent; /* a hash of what its actor had heard then: what it is */
};

struct stage_part {
    pid_t pid; /* 0 = not there */
    int pidfd; /* readable when it has ended */
    bool is_dead, has_begun;
    bool hears_nothing;   /* its last step had no reply */
    bool is_asleep;       /* it naps, */
    uint64_t asleep_hash; /* and so were the keys when it began to */
    bool was_inside;
    unsigned lapses;  /* that there had been when it came in */
    uint64_t history; /* all that it has heard */
};

struct stage {
    struct stage_scene scene;
    struct world world;
    struct board *board;
    struct stage_part parts[STAGE_ACTORS_MAX];
    struct page_thread first; /* what each actor's first step will be */
    struct stage_late late[STAGE_LATE_MAX];
    unsigned late_n;

    struct stage_step steps[STAGE_STEPS_MAX];
    size_t steps_n;
    unsigned moves_n;

    char keys[STAGE_REDIS_BYTES_MAX]; /* all that Redis has, see peek_keys() */
    bool has_key;                     /* the lock's own */
    uint64_t ends_us;                 /* its lease; PAGE_NEVER */
    int setter;                       /* who took it; -1 = nobody */
    unsigned lapses;                  /* of leases, and losses of all data */

    bool posted; /* what this move has sent is not waited for by who sent it */
    uint64_t written; /* a hash of all that was written to the database */
    int64_t orders;   /* that were tried to be written there */
    bool unread;      /* it has changed since the last audit */
    bool unfaithful;  /* somebody died, or a reply was lost */
    unsigned faults;  /* found so far */
    struct store_audit audit;
    char error[200]; /* the stage itself is broken: why */
};

#define STAGE_HASH_SEED UINT64_C(1469598103934665603)

/* FNV-1a, from HASH on. */
uint64_t stage_hash_bytes(uint64_t hash, const void *bytes, size_t len);
uint64_t stage_hash_text(uint64_t hash, const char *text);

/* Hands the turn to an actor until it gives it back, and writes down what has
 * happened. False: stage->error. */
bool stage_hand(struct stage *stage, unsigned actor, enum page_order order,
                unsigned thread, enum page_verdict verdict);

/* Looks into Redis, and has the actors look what has come for them. MOVER: who
 * did what was done; -1 = the world. */
bool stage_settle(struct stage *stage, int mover);

/* Of the keys, without the time that is left: naps end when that has changed. */
uint64_t stage_keys_hash(const struct stage *stage);

/* What nobody waits for is done all the same when this returns. */
void stage_wait_for_server(const struct stage *stage);

/* A line that is no actor's. */
void stage_tell(struct stage *stage, const char *name, const char *sent,
                const char *reply);

void stage_kill(struct stage *stage, unsigned actor);

/* An actor's name for the id that stands for it in Redis, all over TEXT. */
void stage_name_owners(const struct stage *stage, char text[]);

/* Its process is there, and its order under way. */
bool stage_is_playing(const struct stage *stage, unsigned actor);

/* The virtual clock is at least so late. */
void stage_pass(struct stage *stage, uint64_t until_us);

#endif

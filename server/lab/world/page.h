/*
 * The page of the stage and its actors: memory that all of them have mapped.
 *
 * The thread that is not waiting for a semaphore here has the turn, and nobody else
 * touches anything meanwhile: so nothing below needs a lock. The virtual clock
 * stands first, because redis-server maps the first page as well (see
 * clock_preload.c).
 */
#ifndef STAGE_PAGE_H
#define STAGE_PAGE_H

#include <limits.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>

#include "server/lab/scene/scene.h"
#include "server/order/order.h"

enum {
    PAGE_THREADS_MAX = 10,
    PAGE_RECORDS_MAX = 32, /* of one move of one actor */
    PAGE_WORDS_MAX = 20,
    PAGE_WORDS_BYTES_MAX = 16384,
    PAGE_HOLDS_MAX = 4, /* of one actor */
    PAGE_PLACED_MAX = 4,
};

#define PAGE_NEVER UINT64_MAX
#define PAGE_ASYNC UINT_MAX

#define PAGE_HASH_SEED UINT64_C(1469598103934665603)

/* FNV-1a, from HASH on. */
static inline uint64_t page_hash(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *each = bytes;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ each[i]) * UINT64_C(1099511628211);
    return hash;
}

static inline uint64_t page_hash_text(uint64_t hash, const char *text)
{
    return page_hash(hash, text, strlen(text) + 1);
}

/* The reason for which an actor's thread waits. */
enum page_wait {
    PAGE_NOTHING, /* there is no such thread */
    PAGE_STEP,    /* to be let do its next step */
    PAGE_SLEEP,   /* it takes a nap, and looks again after it */
    PAGE_TIMED,   /* somebody's word, until a time at most */
    PAGE_SOCKET,  /* something to read, which has not come */
    PAGE_MESSAGE, /* the same, and it has come */
    PAGE_OTHERS,  /* another thread of this actor */
};

/* The part of a transaction that a step is, if it writes to the database. */
enum page_part {
    PAGE_WHOLE,   /* from BEGIN to COMMIT */
    PAGE_OPENS,   /* BEGIN: nobody else writes from then on */
    PAGE_INSIDE,  /* between the two */
    PAGE_COMMITS, /* COMMIT */
    PAGE_BY_HAND, /* a statement of a lesson's, of a transaction or not */
};

struct page_thread {
    enum page_wait wait;
    bool is_main;      /* it runs an actor's program; else a helper */
    char name[16];     /* "" = the one that runs a program */
    uint64_t until_us; /* of PAGE_SLEEP, PAGE_TIMED; PAGE_NEVER */
    uint64_t pending;  /* of PAGE_MESSAGE: a hash of what has come */
    /* From here on of PAGE_STEP only. */
    struct stage_step step; /* without a reply */
    bool is_write;          /* of SQL */
    enum page_part part;    /* of is_write */
    unsigned words_n;       /* of a Redis command, each with a NUL behind it */
    char words[PAGE_WORDS_BYTES_MAX];
};

/* An order as its customer was told of it; "" = by a lesson, which has no ids. */
struct page_placed {
    char id[STORE_ID_BYTES_MAX + 1];
    int64_t user_id, price_cents;
};

/* An order of the stage to an actor, to which it hands the turn. */
enum page_order {
    PAGE_GO,   /* the thread's step, with the verdict; or its message is read */
    PAGE_TIME, /* the thread's time is up */
    PAGE_LOOK, /* only say what has come */
    PAGE_BEGIN, /* an actor's program, from a fresh start */
    PAGE_END,   /* the program lets go of all it is in, and of connections */
};

enum page_verdict {
    PAGE_OK,
    PAGE_LOSE,   /* the step is done, and its reply gets lost */
    PAGE_HOLD,   /* the command is held up in the network */
    PAGE_REFUSE, /* SQLITE_BUSY: the transaction does not begin */
    PAGE_FAIL,   /* its COMMIT fails, and nothing of it stays */
};

enum page_phase {
    PAGE_CLOSED,  /* between two schedules */
    PAGE_RUNS,    /* its program is under way */
    PAGE_DONE,    /* the program is over */
    PAGE_TROUBLE, /* it could not begin: the text of a record says why */
};

/* A lock that an actor believes to have: one for each time that it was granted. */
struct page_hold {
    char name[STAGE_NAME_BYTES]; /* "" = a free place */
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    uint64_t attempt; /* of the owner: it tells grants apart */
    uint64_t at_us;   /* since when its actor has known of it */
};

/* An actor's own words of itself and of its locks. "" is no lock. */
struct page_lane {
    enum page_phase phase;
    unsigned thread; /* that runs its program */
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    struct page_hold holds[PAGE_HOLDS_MAX];
    unsigned faults; /* of its lock's commands: bits of enum stage_fault */
    bool is_wrong;   /* its program has broken a promise, and said which */
    char heard[80];  /* the answer to its lock's last command, in words, if that
                        was no reply of a lock's; else "" */

    /* An acquire. */
    char wants[STAGE_NAME_BYTES];
    unsigned wishes_n;     /* acquires under way */
    unsigned wants_thread; /* that waits; PAGE_ASYNC: one of the lock library's
                              asynchronous calls */
    bool may_wait;
    uint64_t wished_us; /* since then */
    unsigned asks_n;    /* answers "not yet" */
    bool cut_off; /* it could not tell its server that it waits no longer */

    /* A grant, or an extend. */
    char granted[STAGE_NAME_BYTES]; /* in this move */
    uint64_t granted_until_us;      /* as it was told; PAGE_NEVER */
    uint64_t granted_for_us;        /* the length that an extend sets; or 0 */
    bool has_extended;              /* since the last grant, or is about to */
    unsigned tokens_n;              /* grants with a token; the last one: */
    uint64_t token;
    char token_of[STAGE_NAME_BYTES];
    uint64_t floor; /* the highest token of that lock, by the database */
    char floor_of[STAGE_NAME_BYTES];

    /* A release. GAVE: the last hold was given back in this move, and all is well;
     * GAVE_ONE: a hold was, the last or not. The next release begins in the same move. */
    char gave[STAGE_NAME_BYTES], gave_one[STAGE_NAME_BYTES];
    uint64_t gives_since_us; /* the time of the hold's grant; 0 = it has none */

    /* A loss, or a reply that did not come. */
    bool unsure;                 /* it does not know what came of a command */
    char lost[STAGE_NAME_BYTES]; /* it was told so in this move */
    bool lost_unsure;            /* UNSURE before that */

    /* Its orders. */
    bool answered; /* one of those that have begun: */
    unsigned orders_n;
    unsigned outcomes; /* of all answers: a bit 1u << outcome for each */
    unsigned placed_n; /* answered as placed; the first of these: */
    struct page_placed placed[PAGE_PLACED_MAX];
    enum order_outcome outcome; /* of the last one, */
    enum order_outcome of_key;  /* and of the last one with its role's key */
};

static inline bool page_believes(const struct page_lane *lane, const char *name)
{
    for (unsigned i = 0; i < PAGE_HOLDS_MAX; i++)
        if (strcmp(lane->holds[i].name, name) == 0)
            return true;
    return false;
}

/* How many holds of locks it believes to have. */
static inline unsigned page_holds(const struct page_lane *lane)
{
    unsigned n = 0;

    for (unsigned i = 0; i < PAGE_HOLDS_MAX; i++)
        n += lane->holds[i].name[0] != '\0';
    return n;
}

/* One process. */
struct page {
    pid_t pid;     /* 0 = not there */
    int pidfd;     /* readable when it has ended */
    sem_t go;      /* the process has the turn */
    sem_t stopped; /* the stage has it back */
    enum page_order order;
    unsigned thread; /* of PAGE_GO, PAGE_TIME */
    unsigned lane;   /* the actor whose move it is, from 0 */
    enum page_verdict verdict;
    uint64_t seed;  /* of all that is random in the process */
    uint64_t heard; /* a hash of all that has come into it, see turns_hear() */

    bool in_transaction; /* nobody else can write */

    unsigned threads_n;
    struct page_thread threads[PAGE_THREADS_MAX];
    unsigned records_n; /* of this move; only the stage has their MOVE, MARK */
    struct stage_step records[PAGE_RECORDS_MAX];
};

struct board {
    _Alignas(4096) _Atomic uint64_t now_us; /* Unix time; all clocks are it */
    _Atomic uint64_t ahead_us[STAGE_NODES_MAX]; /* but a server's, by so much */
    uint64_t resets;                            /* schedules so far */
    struct page pages[STAGE_ACTORS_MAX];        /* of each process */
    struct page_lane lanes[STAGE_ACTORS_MAX];   /* of each actor */
};

#endif

/*
 * Asking several servers the same thing at once: everything is sent before
 * anything is read, so that a slow server costs one timeout, whatever the
 * number of slow ones.
 */
#ifndef DLOCK_ASK_H
#define DLOCK_ASK_H

#include "lock/redis/call.h"

/* The end of one command at one server. Statuses as in call.h. */
struct dlock_answer {
    struct dlock_reply reply; /* valid if status is DLOCK_OK */
    enum dlock_status status;
    bool begun; /* the hook let it go */
    bool sent;
    bool again; /* with the script's text: the server did not know it */
    bool due;   /* the reply has not come yet */
};

/* One of the servers. */
struct dlock_asked {
    struct dlock_wire *wire;      /* NULL = leave this one out */
    struct dlock_answer *answers; /* to each command; filled by the asking */
    bool connecting;              /* the rest is the asking's own */
    bool waiting;
    bool agreed;
    bool refused;
};

/* A command to all, and how long to wait for whom. */
struct dlock_question {
    const struct dlock_exchange *exchanges; /* only the commands count */
    size_t n;
    uint64_t limit_ms;   /* lease time */
    unsigned timeout_ms; /* for all together */

    /* As soon as so many have agreed to all of it, or so many have refused that not
     * so many can agree any more, the others get only a little more time: about as
     * long again as it took. A later reply is DLOCK_UNKNOWN. 0 = wait for all. */
    size_t needed;

    /* It must reach the servers that do not answer in time, too. They may not know
     * the script, so they get its text as well. */
    bool insists;
    bool (*agrees)(const struct dlock_reply *reply);
};

/*
 * Asks the N servers and fills their answers; of those left out, or if no time
 * is left, with DLOCK_UNREACHABLE. Nothing that may have had an effect is sent a
 * second time, but for repeatable commands of a question that insists.
 */
void dlock_ask(struct dlock_asked asked[], size_t n,
               const struct dlock_question *question,
               struct dlock_error *error);

#endif

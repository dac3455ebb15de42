/*
 * Private to lock/: a lock on several independent Redis servers, of which a
 * number must agree: all of them (multi) or more than half (redlock). What the
 * two have in common is here; how they acquire is in their files.
 *
 * On each server the lock is what it is for redisson, see node.h. The url lists
 * the servers, with commas between; they are gone through in the order of their
 * addresses, whatever their order in the url.
 */
#ifndef DLOCK_QUORUM_H
#define DLOCK_QUORUM_H

#include "lock/redis/node.h"
#include "lock/redis/wakeup.h"

/* One of several servers that are asked the same at once (ask.c): everything is sent before
 * anything is read, so that slow servers cost one timeout together. */
struct dlock_asked {
    struct dlock_wire *wire;        /* NULL = leave this one out */
    struct dlock_exchange *answers; /* to each command; filled by the asking */
    bool connecting;                /* the rest is the asking's own */
    bool waiting;
};

/* A command to all, and how long to wait for whom. */
struct dlock_question {
    const struct dlock_command *commands;
    size_t n;
    uint64_t limit_ms;   /* lease time */
    unsigned timeout_ms; /* for all together; 0 = the command timeout */

    /* Once so many have agreed to all of it, or cannot any more, the others get only
     * a little more time; 0 = wait for all. */
    size_t needed;
    /* Servers that do not answer in time must hear it, too, and get the script's text
     * as well: a copy must change nothing. */
    bool insists;
    bool (*agrees)(const struct dlock_reply *reply);
};

/* Asks the N servers and fills their answers; of those left out, or if no time is left,
 * with DLOCK_UNREACHABLE. */
void dlock_ask(const struct dlock *client, struct dlock_asked asked[], size_t n,
               const struct dlock_question *question);

enum { DLOCK_NODES_MAX = 9 };

/* client->own. */
struct dlock_nodes {
    size_t n;
    size_t needed; /* so many have to agree */
    struct dlock_wire_config configs[DLOCK_NODES_MAX];
    struct dlock_asked renewers[DLOCK_NODES_MAX]; /* the watchdog's */
    struct dlock_exchange renewals[DLOCK_NODES_MAX][DLOCK_PASS_MAX];
};

/* A server's age as a session knows it; see lock_redlock.c. */
struct dlock_voter {
    uint64_t connection; /* on which it was asked */
    uint64_t up_ms;      /* it had been up so long at least, */
    uint64_t at_ms;      /* at this point of lease time */
    char run[41];        /* the id of the server's run; "" = not known */
};

/* session->own. asked[i].answers is one answer, answers[i]. */
struct dlock_poll {
    size_t n;
    size_t needed;
    struct dlock_asked asked[DLOCK_NODES_MAX];
    struct dlock_exchange answers[DLOCK_NODES_MAX];
    struct dlock_voter voters[DLOCK_NODES_MAX];
};

/* A server's answer to an acquire. */
struct dlock_vote {
    enum dlock_status
        held;    /* DLOCK_OK or _UNKNOWN: it may have to be given back */
    bool counts; /* it has agreed, and its answer is PART */
    struct dlock_grant part;
};

/* How the servers answered one question. */
struct dlock_count {
    size_t yes;
    size_t no;      /* answered, and did not agree */
    size_t unknown; /* may have agreed, and may have acted so */
};

/* For .open: all servers of the url, or with MAJORITY more than half. */
enum dlock_status dlock_quorum_open(struct dlock *client, bool majority);

/* Asks all servers QUESTION's one command about ATTEMPT, and counts. The answers stay in
 * the poll. The end of the time, and how many are needed, is filled in. */
struct dlock_count dlock_quorum_ask(const struct dlock_attempt *attempt,
                                    const struct dlock_question *question);

/* The usual answer of a script that did it: its first integer is 1. */
bool dlock_quorum_is_one(const struct dlock_reply *reply);

/* The end of an acquire, to which VOTES came. With STATUS DLOCK_OK enough of them count:
 * its grant is filled, and its token made known to enough servers. Otherwise it is taken
 * back, last server first, from each that agreed, or may have. Returns what the acquire
 * is to answer: also DLOCK_UNKNOWN, if so many servers may keep it until its lease ends
 * that nobody else can get it. With DLOCK_BUSY, BUSY_MS is when the lease of a holder
 * ends; SPLIT: each of several that try at once may have got a part. */
enum dlock_status dlock_quorum_end(const struct dlock_attempt *attempt,
                                   const struct dlock_vote votes[],
                                   enum dlock_status status, bool split,
                                   uint64_t busy_ms);

/* The slots that are the same for both. */
void dlock_quorum_close(struct dlock *client);
enum dlock_status dlock_quorum_session_open(struct dlock_session *session);
void dlock_quorum_session_close(struct dlock_session *session);
enum dlock_status dlock_quorum_extend(const struct dlock_attempt *attempt);
enum dlock_status dlock_quorum_release(const struct dlock_attempt *attempt);
enum dlock_status dlock_quorum_inspect(const struct dlock_attempt *attempt,
                                       struct dlock_holder *holder);
enum dlock_status dlock_quorum_force(const struct dlock_attempt *attempt);
dlock_renew_slot dlock_quorum_renew;
dlock_forced_slot dlock_quorum_forced;

/* All slots but .open, .acquire and .extend. */
#define DLOCK_QUORUM_FUNCTIONS                                                 \
    .drifts = true, .knows_copies = true, .close = dlock_quorum_close,         \
    .session_open = dlock_quorum_session_open,                                 \
    .session_close = dlock_quorum_session_close,                               \
    .release = dlock_quorum_release, .inspect = dlock_quorum_inspect,          \
    .renew = dlock_quorum_renew, .forced = dlock_quorum_forced,                \
    .force = dlock_quorum_force, DLOCK_WAKEUP_FUNCTIONS

#endif

/*
 * Calls: every command that the library sends goes through here, past the step hook.
 *
 * Statuses, on which a caller may rely:
 *   DLOCK_OK           the reply is there (it may say no)
 *   DLOCK_UNREACHABLE  nothing was sent, or the server refused with an error:
 *                      the command had no effect
 *   DLOCK_UNKNOWN      it was sent, and no reply came, or an error in the middle of
 *                      a script: it may have had one
 *
 * If a step fails for lack of a server, the hook's AFTER call still comes, with
 * "(unreachable)" or "(no reply)" as the reply.
 */
#ifndef DLOCK_CALL_H
#define DLOCK_CALL_H

#include "lock/redis/wire.h"

/* A command of a batch, and what came of it. */
struct dlock_exchange {
    const struct dlock_command *command; /* has to live as long */
    struct dlock_reply reply;            /* valid if status is DLOCK_OK */
    enum dlock_status status;
    enum {
        DLOCK_EXCHANGE_NONE,  /* it was left out, or kept back by the hook */
        DLOCK_EXCHANGE_BEGUN, /* the hook let it go: its AFTER call is due */
        DLOCK_EXCHANGE_SENT,
        DLOCK_EXCHANGE_OVER, /* the status is the last one */
    } stage;
};

/* Sends COMMAND and waits for its reply: at most the command timeout, and not beyond
 * LIMIT_MS of lease time. A repeatable command whose reply was lost is sent again on a
 * fresh connection, while there is time, a few times at most. */
enum dlock_status dlock_call(struct dlock_wire *wire,
                             const struct dlock_command *command,
                             uint64_t limit_ms, struct dlock_reply *reply);

/* Sends N commands in one go and reads their replies: one round trip. Nothing is sent
 * again. */
void dlock_call_batch(struct dlock_wire *wire, struct dlock_exchange *exchanges,
                      size_t n, uint64_t limit_ms);

/* Its pieces, for one server, in this order; there has to be a connection before the
 * second. _exchange connects, if need be, sends and reads. Scripts that the server did
 * not know go once more, one by one, after all replies, because these come in the order
 * of the commands. At the end, those that were not sent are DLOCK_UNREACHABLE, and those
 * that were not answered DLOCK_UNKNOWN. */
void dlock_batch_begin(const struct dlock_wire *wire,
                       struct dlock_exchange exchanges[], size_t n);
void dlock_batch_send(struct dlock_wire *wire, struct dlock_exchange *exchanges,
                      size_t n, uint64_t until_ms);
void dlock_batch_read(struct dlock_wire *wire, struct dlock_exchange *exchanges,
                      size_t n, uint64_t until_ms);
void dlock_batch_exchange(struct dlock_wire *wire,
                          struct dlock_exchange exchanges[], size_t n,
                          uint64_t real_limit_ms);
void dlock_batch_conclude(struct dlock_wire *wire,
                          struct dlock_exchange exchanges[], size_t n);

/* Whether a reply is an error that begins with CODE. */
bool dlock_call_is_error(const struct dlock_reply *reply, const char *code);

/* Whether it refuses since it is not, not yet, or no longer the one to talk to. */
bool dlock_call_is_elsewhere(const struct dlock_reply *reply);

/* Sends, within WITHIN_MS of real time, and waits for no reply: to a subscriber it comes as
 * an event, and the hook is told of it then. */
enum dlock_status dlock_call_post(struct dlock_wire *wire,
                                  const struct dlock_command *command,
                                  uint64_t within_ms);

/* The same, and drops the connection with the reply; only that of a cluster is awaited. */
void dlock_call_abandon(struct dlock_wire *wire,
                        const struct dlock_command *command,
                        uint64_t within_ms);

#endif

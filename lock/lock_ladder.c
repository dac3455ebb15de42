/*
 * The textbook ladder: the locks that everybody writes on the way to a right
 * one, each a repair of the one before.
 *
 * A rung is a composition of policies: how to take the lock, how to give it
 * back, what to write into it as the owner's name, how to lengthen the lease.
 * The rows at the bottom are the history of the field: where one differs from
 * the one before, a policy has changed, and the claim says what that gains.
 *
 * What they guarantee stands in the claims. What they do not:
 *
 *   setnx       a holder that crashes leaves the lock for ever (C).
 *   set-nx-px   a holder that pauses beyond its lease deletes the lock of the
 *               next one, who then has company, and deletes that of the next
 *               but one, and so on down the queue (P).
 *   token-lua   work that takes longer than the lease is not alone any more
 *               (L); the same session cannot come in twice (N); waiters poll
 *               (W). But it deletes no lock except its own.
 *
 * None of them re-sends a command whose reply was lost: to SET NX, its own
 * success looks like somebody else's. They answer "don't know".
 */
#include "lock/strategy.h"

#include <string.h>

#include "lock/error.h"

static const struct dlock_script token_release_script = {
#include "lock/token_release.lua.inc"
};

static const struct dlock_script token_renew_script = {
#include "lock/token_renew.lua.inc"
};

/* The policies of a rung: each puts together one command. */
struct rung {
    void (*take)(struct dlock_command *command, const char *id,
                 unsigned lease_ms);
    void (*give)(struct dlock_command *command, const char *id);
    const char *(*id)(const struct dlock_session *session);
    void (*extend)(struct dlock_command *command, const char *id,
                   unsigned lease_ms); /* NULL: no lease */
};

/* Owner ids ----------------------------------------------------------------- */

/* Everybody writes the same, so nobody can tell whose lock it is. */
static const char *id_constant(const struct dlock_session *session)
{
    (void)session;
    return "locked";
}

/* Differs between any two sessions anywhere. */
static const char *id_random(const struct dlock_session *session)
{
    return session->owner;
}

/* Taking -------------------------------------------------------------------- */

static void take_setnx(struct dlock_command *command, const char *id,
                       unsigned lease_ms)
{
    (void)lease_ms;
    command->step = "set-nx";
    dlock_command_arg(command, "SETNX");
    dlock_command_arg(command, command->name);
    dlock_command_arg(command, id);
}

/* The lease is a part of the same command: nothing can come in between. */
static void take_set_nx_px(struct dlock_command *command, const char *id,
                           unsigned lease_ms)
{
    command->step = "set-nx-px";
    dlock_command_arg(command, "SET");
    dlock_command_arg(command, command->name);
    dlock_command_arg(command, id);
    dlock_command_arg(command, "NX");
    dlock_command_arg(command, "PX");
    dlock_command_number(command, lease_ms);
}

/* Giving back --------------------------------------------------------------- */

static void give_del(struct dlock_command *command, const char *id)
{
    (void)id;
    command->step = "del";
    dlock_command_arg(command, "DEL");
    dlock_command_arg(command, command->name);
}

static void give_script(struct dlock_command *command, const char *id)
{
    command->step = "eval-release";
    command->script = &token_release_script;
    dlock_command_key(command, command->name);
    dlock_command_arg(command, id);
}

/* Lengthening the lease ----------------------------------------------------- */

static void extend_any(struct dlock_command *command, const char *id,
                       unsigned lease_ms)
{
    (void)id;
    command->step = "pexpire";
    dlock_command_arg(command, "PEXPIRE");
    dlock_command_arg(command, command->name);
    dlock_command_number(command, lease_ms);
}

static void extend_script(struct dlock_command *command, const char *id,
                          unsigned lease_ms)
{
    command->step = "eval-renew";
    command->script = &token_renew_script;
    dlock_command_key(command, command->name);
    dlock_command_arg(command, id);
    dlock_command_number(command, lease_ms);
}

/* The strategy's functions, the same for all rungs -------------------------- */

/* The table row says which rung this session's client stands on. */
static const struct rung *rung_of(const struct dlock_session *session)
{
    return session->client->strategy->variant;
}

static enum dlock_status send(struct dlock_session *session,
                              const struct dlock_attempt *attempt,
                              const struct dlock_command *command,
                              struct dlock_reply *reply,
                              struct dlock_error *error)
{
    return dlock_call(session->wire, command, attempt->limit_ms, reply, error);
}

static enum dlock_status acquire(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_grant *grant, uint64_t *busy_ms,
                                 struct dlock_error *error)
{
    const struct rung *rung = rung_of(session);
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    (void)busy_ms;
    dlock_command_init(&command, NULL, attempt->name, NULL);
    rung->take(&command, rung->id(session), attempt->lease_ms);
    status = send(session, attempt, &command, &reply, error);
    if (status != DLOCK_OK)
        return status;
    /* SETNX says 1 or 0, SET NX says OK or nil. */
    if (reply.kind != DLOCK_REPLY_STRING && reply.integers[0] != 1)
        return DLOCK_BUSY;
    grant->token = 0;
    grant->holds = 1;
    return DLOCK_OK;
}

/* 1 = done, 0 = there was no such lock. */
static enum dlock_status done_or_lost(enum dlock_status status,
                                      const struct dlock_reply *reply)
{
    if (status == DLOCK_OK && reply->integers[0] != 1)
        return DLOCK_LOST;
    return status;
}

static enum dlock_status release(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_error *error)
{
    const struct rung *rung = rung_of(session);
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_command_init(&command, NULL, attempt->name, NULL);
    rung->give(&command, rung->id(session));
    status = send(session, attempt, &command, &reply, error);
    return done_or_lost(status, &reply);
}

static enum dlock_status extend(struct dlock_session *session,
                                const struct dlock_attempt *attempt,
                                struct dlock_error *error)
{
    const struct rung *rung = rung_of(session);
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    if (rung->extend == NULL)
        return dlock_error_set(error, DLOCK_MISUSE, "no lease to extend");
    dlock_command_init(&command, NULL, attempt->name, NULL);
    rung->extend(&command, rung->id(session), attempt->lease_ms);
    status = send(session, attempt, &command, &reply, error);
    return done_or_lost(status, &reply);
}

/*
 * Two questions, because a plain key has no script to ask both at once. Between
 * them the lock may change hands: this is a look, not a decision.
 */
static enum dlock_status inspect(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder,
                                 struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_command_init(&command, "get", attempt->name, NULL);
    dlock_command_arg(&command, "GET");
    dlock_command_arg(&command, attempt->name);
    status = send(session, attempt, &command, &reply, error);
    if (status != DLOCK_OK || reply.kind == DLOCK_REPLY_NIL)
        return status;
    holder->held = true;
    holder->holds = 1;
    memcpy(holder->owner, reply.string, DLOCK_OWNER_BYTES_MAX);
    dlock_command_init(&command, "pttl", attempt->name, NULL);
    dlock_command_arg(&command, "PTTL");
    dlock_command_arg(&command, attempt->name);
    status = send(session, attempt, &command, &reply, error);
    if (status != DLOCK_OK)
        return status;
    /* -1 = no lease, -2 = it went between our two questions. */
    holder->held = reply.integers[0] != -2;
    holder->remaining_ms =
        reply.integers[0] < 0 ? UINT64_MAX : (uint64_t)reply.integers[0];
    return DLOCK_OK;
}

/* The rungs ----------------------------------------------------------------- */

#define RUNG_FUNCTIONS                                                         \
    .acquire = acquire, .extend = extend, .release = release, .inspect = inspect

static const struct dlock_strategy setnx = {
    .info = {.name = "setnx",
             .claim = "One at a time on any number of hosts, if nobody "
                      "crashes.",
             .capabilities = DLOCK_CAP_REMOTE},
    .variant = &(const struct rung){take_setnx, give_del, id_constant, NULL},
    RUNG_FUNCTIONS,
};

/* Changed: the key ends by itself. */
static const struct dlock_strategy set_nx_px = {
    .info = {.name = "set-nx-px",
             .claim = "The same, and a dead holder is got rid of after its "
                      "lease.",
             .capabilities = DLOCK_CAP_REMOTE | DLOCK_CAP_LEASE},
    .variant =
        &(const struct rung){take_set_nx_px, give_del, id_constant, extend_any},
    RUNG_FUNCTIONS,
};

/* Changed: the lock says whose it is, and whoever touches it looks first. */
static const struct dlock_strategy token_lua = {
    .info = {.name = "token-lua",
             .claim = "The same, and nobody can free the lock of another.",
             .capabilities =
                 DLOCK_CAP_REMOTE | DLOCK_CAP_LEASE | DLOCK_CAP_OWNER},
    .variant = &(const struct rung){take_set_nx_px, give_script, id_random,
                                    extend_script},
    RUNG_FUNCTIONS,
};

const struct dlock_strategy *const dlock_strategy_ladder[] = {
    &setnx,
    &set_nx_px,
    &token_lua,
    NULL,
};

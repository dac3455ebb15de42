/*
 * The ladder's policies on a plain key: the lock is the key, its value the
 * owner's id, its time to live the lease.
 *
 * Every command is a step of its own with a name of its own: what can go wrong
 * between two of them can be made to go wrong.
 *
 *   taking             steps
 *   setnx              set-nx
 *   setnx_expire       set-nx, expire        a crash in between: no lease
 *   .._expire_script   eval-take
 *   set_nx_px          set-nx-px
 *
 *   touching           release     extend
 *   blind              del         pexpire         whoever holds it by now
 *   look_first         get, del    get, pexpire    somebody else in between
 *   script             eval-release, eval-renew    nobody can come in between
 */
#include "lock/textbook/rung.h"

#include <string.h>

#include "lock/textbook/scripts.h"

/* A command about the lock's own key: VERB NAME. */
static void begin_command(struct dlock_command *command, const char *step,
                          const char *verb, const char *name)
{
    dlock_command_init(command, step, name, NULL);
    dlock_command_arg(command, verb);
    dlock_command_arg(command, name);
}

/* The same without more arguments, sent. */
static enum dlock_status ask(const struct dlock_rung_call *call,
                             const char *step, const char *verb,
                             struct dlock_reply *reply)
{
    struct dlock_command command;

    begin_command(&command, step, verb, call->attempt->name);
    return dlock_rung_send(call, &command, reply);
}

/* Taking -------------------------------------------------------------------- */

/* SETNX and the script say 1 or 0, SET NX says OK or nil. */
static enum dlock_status taken_or_busy(const struct dlock_rung_call *call,
                                       const struct dlock_command *command)
{
    struct dlock_reply reply;
    enum dlock_status status = dlock_rung_send(call, command, &reply);

    if (status == DLOCK_OK && reply.kind != DLOCK_REPLY_STRING &&
        reply.integers[0] != 1)
        return DLOCK_BUSY;
    return status;
}

enum dlock_status dlock_rung_string_setnx(struct dlock_rung_call *call)
{
    struct dlock_command command;

    begin_command(&command, "set-nx", "SETNX", call->attempt->name);
    dlock_command_arg(&command, call->id);
    return taken_or_busy(call, &command);
}

/* Whoever stops between the two commands leaves a lock without an end. */
enum dlock_status dlock_rung_string_setnx_expire(struct dlock_rung_call *call)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status = dlock_rung_string_setnx(call);

    if (status != DLOCK_OK)
        return status;
    /* PEXPIRE, because leases are milliseconds here; EXPIRE in the textbook. */
    begin_command(&command, "expire", "PEXPIRE", call->attempt->name);
    dlock_command_number(&command, call->attempt->lease_ms);
    return dlock_rung_second(dlock_rung_send(call, &command, &reply));
}

enum dlock_status
dlock_rung_string_setnx_expire_script(struct dlock_rung_call *call)
{
    struct dlock_command command;

    dlock_command_init(&command, "eval-take", call->attempt->name,
                       &dlock_script_setnx_expire);
    dlock_command_key(&command, call->attempt->name);
    dlock_command_arg(&command, call->id);
    dlock_command_number(&command, call->attempt->lease_ms);
    return taken_or_busy(call, &command);
}

/* The lease is a part of the same command: nothing can come in between. */
enum dlock_status dlock_rung_string_set_nx_px(struct dlock_rung_call *call)
{
    struct dlock_command command;

    begin_command(&command, "set-nx-px", "SET", call->attempt->name);
    dlock_command_arg(&command, call->id);
    dlock_command_arg(&command, "NX");
    dlock_command_arg(&command, "PX");
    dlock_command_number(&command, call->attempt->lease_ms);
    return taken_or_busy(call, &command);
}

/* Touching blindly ---------------------------------------------------------- */

static enum dlock_status release_blind(struct dlock_rung_call *call)
{
    struct dlock_command command;

    begin_command(&command, "del", "DEL", call->attempt->name);
    return dlock_rung_done_or_lost(call, &command);
}

static enum dlock_status extend_blind(struct dlock_rung_call *call)
{
    struct dlock_command command;

    begin_command(&command, "pexpire", "PEXPIRE", call->attempt->name);
    dlock_command_number(&command, call->attempt->lease_ms);
    return dlock_rung_done_or_lost(call, &command);
}

/* Looking first ------------------------------------------------------------- */

/* DLOCK_OK: it was ours when the server looked. That was a moment ago. */
static enum dlock_status look(const struct dlock_rung_call *call)
{
    struct dlock_reply reply;
    enum dlock_status status = ask(call, "get", "GET", &reply);

    if (status == DLOCK_UNKNOWN)
        return DLOCK_UNREACHABLE; /* a look has no effect */
    if (status == DLOCK_OK && (reply.kind != DLOCK_REPLY_STRING ||
                               strcmp(reply.string, call->id) != 0))
        return DLOCK_LOST;
    return status;
}

static enum dlock_status release_looked(struct dlock_rung_call *call)
{
    enum dlock_status status = look(call);

    return status == DLOCK_OK ? release_blind(call) : status;
}

static enum dlock_status extend_looked(struct dlock_rung_call *call)
{
    enum dlock_status status = look(call);

    return status == DLOCK_OK ? extend_blind(call) : status;
}

/* Looking and touching in one ----------------------------------------------- */

static enum dlock_status release_script_call(struct dlock_rung_call *call)
{
    struct dlock_command command;

    dlock_command_init(&command, "eval-release", call->attempt->name,
                       &dlock_script_token_release);
    dlock_command_key(&command, call->attempt->name);
    dlock_command_arg(&command, call->id);
    return dlock_rung_done_or_lost(call, &command);
}

static void fill_renewal(const char *name, const char *owner, uint64_t number,
                         unsigned lease_ms, struct dlock_command *command)
{
    (void)number; /* who sends what is not remembered there */
    dlock_command_init(command, "eval-renew", name, &dlock_script_token_renew);
    dlock_command_key(command, name);
    dlock_command_arg(command, owner);
    dlock_command_number(command, lease_ms);
}

void dlock_rung_string_renew(struct dlock *client, struct dlock_renew renews[],
                             size_t n, unsigned lease_ms, uint64_t limit_ms)
{
    dlock_redis_renew(client, renews, n, lease_ms, limit_ms, fill_renewal);
}

static enum dlock_status extend_script_call(struct dlock_rung_call *call)
{
    struct dlock_command command;

    fill_renewal(call->attempt->name, call->id, 0, call->attempt->lease_ms,
                 &command);
    return dlock_rung_done_or_lost(call, &command);
}

/* The holder ---------------------------------------------------------------- */

/*
 * Two questions, because a plain key has no script to ask both at once. Between
 * them the lock may change hands: this is a look, not a decision.
 */
static enum dlock_status inspect(struct dlock_rung_call *call,
                                 struct dlock_holder *holder)
{
    struct dlock_reply reply;
    enum dlock_status status = ask(call, "get", "GET", &reply);

    if (status != DLOCK_OK || reply.kind == DLOCK_REPLY_NIL)
        return status;
    holder->held = true;
    holder->holds = 1;
    memcpy(holder->owner, reply.string, DLOCK_OWNER_BYTES_MAX);
    status = ask(call, "pttl", "PTTL", &reply);
    if (status != DLOCK_OK)
        return status;
    /* -1 = no lease, -2 = it went between our two questions. */
    holder->held = reply.integers[0] != -2;
    holder->remaining_ms =
        reply.integers[0] < 0 ? UINT64_MAX : (uint64_t)reply.integers[0];
    return DLOCK_OK;
}

const struct dlock_rung_touch dlock_rung_string_blind = {release_blind,
                                                         extend_blind, inspect};

const struct dlock_rung_touch dlock_rung_string_look_first = {
    release_looked, extend_looked, inspect};

const struct dlock_rung_touch dlock_rung_string_script = {
    release_script_call, extend_script_call, inspect};

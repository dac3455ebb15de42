/*
 * The ladder's policies on a hash: the lock is the key, in it one field, the
 * owner, and its value how often that owner came in.
 *
 *   tutorial   set-nx, hset      then WRONGTYPE, for ever: see below
 *              hget, hincr       release: count down,
 *              hget, del         or remove
 *   script     eval-take, eval-release, eval-renew
 *
 * tutorial takes the lock as a string and counts in a hash of the same name. A
 * key has one type, so the second command is refused, every time, on every
 * version of Redis. It was published, copied and explained line by line, and
 * can never have run. The failure it is here to show is of the reader: nobody
 * tried it.
 */
#include "lock/textbook/rung.h"

#include <stdlib.h>

#include "lock/redis/node.h"
#include "lock/textbook/scripts.h"

/* The tutorial -------------------------------------------------------------- */

/* VERB NAME OWNER [VALUE], sent. */
static enum dlock_status ask_field(const struct dlock_rung_call *call,
                                   const char *step, const char *verb,
                                   const char *value, struct dlock_reply *reply)
{
    struct dlock_command command;

    dlock_command_init(&command, step, call->attempt->name, NULL);
    dlock_command_arg(&command, verb);
    dlock_command_arg(&command, call->attempt->name);
    dlock_command_arg(&command, call->id);
    if (value != NULL)
        dlock_command_arg(&command, value);
    return dlock_rung_send(call, &command, reply);
}

/* How often we hold it, by the hash; 0 = not at all. A look has no effect. */
static enum dlock_status count_holds(const struct dlock_rung_call *call,
                                     long *holds)
{
    struct dlock_reply reply;
    enum dlock_status status = ask_field(call, "hget", "HGET", NULL, &reply);

    *holds = status == DLOCK_OK && reply.kind == DLOCK_REPLY_STRING
                 ? strtol(reply.string, NULL, 10)
                 : 0;
    return status == DLOCK_UNKNOWN ? DLOCK_UNREACHABLE : status;
}

/* "If it is taken, perhaps by us? Then count." */
static enum dlock_status enter_again(struct dlock_rung_call *call)
{
    struct dlock_reply reply;
    long holds;
    enum dlock_status status = count_holds(call, &holds);

    if (status != DLOCK_OK)
        return status;
    if (holds == 0)
        return DLOCK_BUSY;
    status = ask_field(call, "hincr", "HINCRBY", "1", &reply);
    call->holds = (unsigned)holds + 1;
    return status;
}

enum dlock_status dlock_rung_hash_tutorial(struct dlock_rung_call *call)
{
    struct dlock_reply reply;
    enum dlock_status status = dlock_rung_string_setnx(call);

    if (status == DLOCK_BUSY)
        return enter_again(call);
    if (status != DLOCK_OK)
        return status;
    /* The key is a string by now, without a lease, and will be for ever. */
    return dlock_rung_second(ask_field(call, "hset", "HSET", "1", &reply));
}

static enum dlock_status release_tutorial(struct dlock_rung_call *call)
{
    struct dlock_reply reply;
    long holds;
    enum dlock_status status = count_holds(call, &holds);

    if (status != DLOCK_OK)
        return status;
    if (holds == 0)
        return DLOCK_LOST;
    if (holds > 1)
        return ask_field(call, "hincr", "HINCRBY", "-1", &reply);
    return dlock_rung_string_blind.release(call);
}

const struct dlock_rung_touch dlock_rung_hash_touch_tutorial = {
    .release = release_tutorial};

/* The script ---------------------------------------------------------------- */

enum dlock_status dlock_rung_hash_script(struct dlock_rung_call *call)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_command_init(&command, "eval-take", call->attempt->name,
                       &dlock_script_reentrant_take);
    dlock_command_key(&command, call->attempt->name);
    dlock_command_arg(&command, call->id);
    dlock_command_number(&command, call->attempt->lease_ms);
    status = dlock_rung_send(call, &command, &reply);
    if (status != DLOCK_OK)
        return status;
    if (reply.integers[0] == 1) {
        call->holds = (unsigned)reply.integers[1];
        return DLOCK_OK;
    }
    if (reply.integers[1] >= 0)
        call->busy_ms = (uint64_t)reply.integers[1];
    return DLOCK_BUSY;
}

static enum dlock_status release_script_call(struct dlock_rung_call *call)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_command_init(&command, "eval-release", call->attempt->name,
                       &dlock_script_reentrant_release);
    dlock_command_key(&command, call->attempt->name);
    dlock_command_arg(&command, call->id);
    dlock_command_number(&command, call->attempt->holds);
    status = dlock_rung_send(call, &command, &reply);
    if (status == DLOCK_OK && reply.integers[0] < 0)
        return DLOCK_LOST;
    return status;
}

/* WAY: see renew.lua. The lock does not remember numbers. */
static void fill_renewal(struct dlock_command *command, const char *name,
                         const char *owner, unsigned lease_ms, const char *way)
{
    dlock_command_init(command, "eval-renew", name,
                       &dlock_script_reentrant_renew);
    dlock_command_key(command, name);
    dlock_command_arg(command, owner);
    dlock_command_number(command, lease_ms);
    dlock_command_number(command, 0);
    dlock_command_arg(command, way);
}

static void fill_watchdog(const char *name, const char *owner, uint64_t number,
                          unsigned lease_ms, struct dlock_command *command)
{
    (void)number;
    fill_renewal(command, name, owner, lease_ms, "renew");
}

void dlock_rung_hash_renew(struct dlock *client, struct dlock_renew renews[],
                           size_t n, unsigned lease_ms, uint64_t limit_ms)
{
    dlock_redis_renew(client, renews, n, lease_ms, limit_ms, fill_watchdog);
}

static enum dlock_status extend_script_call(struct dlock_rung_call *call)
{
    struct dlock_command command;

    fill_renewal(&command, call->attempt->name, call->id,
                 call->attempt->lease_ms,
                 call->attempt->holds <= 1 ? "set" : "lengthen");
    return dlock_rung_done_or_lost(call, &command);
}

static enum dlock_status inspect_script_call(struct dlock_rung_call *call,
                                             struct dlock_holder *holder)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_node_fill_inspect(call->session, call->attempt, &command);
    status = dlock_rung_send(call, &command, &reply);
    if (status == DLOCK_OK)
        dlock_node_read_inspect(&reply, holder);
    return status;
}

const struct dlock_rung_touch dlock_rung_hash_touch_script = {
    release_script_call, extend_script_call, inspect_script_call};

/*
 * ZooKeeper commands, with deadlines.
 *
 * The library's blocking calls take as long as the session's timeout to find
 * that nobody answers. So each command is an asynchronous call here, and its
 * answer is waited for as long as its deadline allows. An answer that comes
 * later finds that nobody wants it, and is thrown away.
 */
#include "lock/zookeeper/zk.h"

#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/core/step.h"
#include "lock/zookeeper/zk_session.h"

void dlock_zk_reply_release(struct dlock_zk_reply *reply)
{
    for (size_t i = 0; i < reply->children_n; i++)
        free(reply->children[i]);
    free(reply->children);
    reply->children_n = 0;
    reply->children = NULL;
}

/* Whoever is last frees a call: its caller or its answer. */
static void call_free(struct dlock_zk_call *call)
{
    dlock_zk_reply_release(&call->reply);
    free(call);
}

void dlock_zk_answered(void *ctx, struct dlock_zk_call *call)
{
    struct dlock_zk *zk = ctx;
    bool abandoned;

    (void)pthread_mutex_lock(&zk->mutex);
    call->done = true;
    abandoned = call->abandoned;
    (void)pthread_cond_broadcast(&zk->changed);
    (void)pthread_mutex_unlock(&zk->mutex);
    if (abandoned)
        call_free(call);
}

/* Takes the answer out of the call, or leaves the call to its late answer. */
static enum dlock_status await(struct dlock_zk *zk, struct dlock_zk_call *call,
                               uint64_t until_ms, struct dlock_zk_reply *reply,
                               struct dlock_error *error)
{
    enum dlock_status status;
    bool time_left = true;
    bool done;

    (void)pthread_mutex_lock(&zk->mutex);
    while (!call->done && time_left)
        time_left = dlock_zk_sleep_until(zk, until_ms);
    done = call->done;
    call->abandoned = !done;
    (void)pthread_mutex_unlock(&zk->mutex);
    if (!done)
        return dlock_error_set(error, DLOCK_UNKNOWN, "zookeeper: timed out");
    *reply = call->reply;
    status = call->status;
    if (status != DLOCK_OK)
        (void)dlock_error_set(error, status, "%s", call->error.text);
    free(call);
    if (status != DLOCK_OK)
        dlock_zk_reply_release(reply);
    return status;
}

/* The real time by which something of at most MS has to end. */
static uint64_t real_until(unsigned ms, uint64_t left_ms)
{
    return dlock_clock_real_now() + (left_ms < ms ? left_ms : ms);
}

/* With the mutex: another thread may be about to close the handle. */
static enum dlock_status post(struct dlock_zk *zk,
                              const struct dlock_zk_command *command,
                              struct dlock_zk_call *call, uint64_t *session)
{
    enum dlock_status status =
        command->session != 0 ? DLOCK_LOST : DLOCK_UNREACHABLE;

    (void)pthread_mutex_lock(&zk->mutex);
    *session = zk->number;
    if (zk->handle != NULL &&
        (command->session == 0 || command->session == zk->number))
        status = dlock_zk_handle_post(zk->handle, command, call);
    (void)pthread_mutex_unlock(&zk->mutex);
    return status;
}

static enum dlock_status carry_out(struct dlock_zk *zk,
                                   const struct dlock_zk_command *command,
                                   uint64_t left_ms,
                                   struct dlock_zk_reply *reply,
                                   struct dlock_error *error)
{
    const struct dlock_wire_config *config = &zk->session->client->wire;
    enum dlock_status status =
        dlock_zk_ready(zk, command->session,
                       real_until(config->connect_timeout_ms, left_ms), error);
    struct dlock_zk_call *call;
    uint64_t session;

    if (status != DLOCK_OK)
        return status;
    call = calloc(1, sizeof(*call));
    if (call == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    status = post(zk, command, call, &session);
    if (status != DLOCK_OK) {
        (void)dlock_error_set(error, status, "%s", call->error.text);
        call_free(call);
        return status;
    }
    status = await(zk, call, real_until(config->command_timeout_ms, left_ms),
                   reply, error);
    reply->session = session;
    return status;
}

enum dlock_status dlock_zk_do(struct dlock_zk *zk,
                              const struct dlock_zk_command *command,
                              uint64_t limit_ms, struct dlock_zk_reply *reply,
                              struct dlock_error *error)
{
    uint64_t left_ms = dlock_clock_until(zk->session->client->clock, limit_ms);
    enum dlock_status status;
    enum dlock_status told;
    char text[160];

    memset(reply, 0, sizeof(*reply));
    if (left_ms == 0)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "no time left");
    status = dlock_step_begin(zk->session, command->by, command->step,
                              command->name, error);
    if (status != DLOCK_OK)
        return status;
    status = carry_out(zk, command, left_ms, reply, error);
    dlock_zk_describe(status, reply, text, sizeof(text));
    told = dlock_step_end(zk->session, command->by, command->step,
                          command->name, text, status, error);
    if (told != DLOCK_OK)
        dlock_zk_reply_release(reply);
    return told;
}

/*
 * ZooKeeper sessions and commands, with deadlines.
 *
 * The library's blocking calls take as long as the session's timeout to find
 * that nobody answers. So each command is an asynchronous call here, and its
 * answer is waited for as long as its deadline allows. An answer that comes
 * later finds that nobody wants it, and is thrown away.
 */
#include "lock/zk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lock/clock.h"
#include "lock/error.h"
#include "lock/step.h"
#include "lock/zk_handle.h"

struct dlock_zk {
    const struct dlock_session *session;
    const struct dlock_zk_config *config;
    struct dlock_zk_listener listener;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by the mutex, as they are the library's threads' as well. */
    struct dlock_zk_handle *handle; /* changed by the session's thread; NULL =
                                       none */
    uint64_t number;                /* of the handle, from 1; the same */
    bool connected;
    bool ended;
    bool woken;
    uint64_t expires_ms; /* real time; while not connected; 0 = never was */
    unsigned session_ms; /* as the server sees it */
};

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

/* On the library's threads -------------------------------------------------- */

/* A watch that fires and a session that ends are worth a look for a waiter. A
 * connection that comes and goes is not: watches outlive it. */
static void on_event(void *ctx, enum dlock_zk_event event, unsigned session_ms)
{
    struct dlock_zk *zk = ctx;
    uint64_t number;
    bool ends;

    (void)pthread_mutex_lock(&zk->mutex);
    /* The library hangs up when it has heard nothing for two thirds of the
     * timeout: a third of it is left for sure. */
    if (zk->connected && event == DLOCK_ZK_DISCONNECTED)
        zk->expires_ms = dlock_clock_real_now() + zk->session_ms / 3;
    if (event == DLOCK_ZK_CONNECTED)
        zk->session_ms = session_ms;
    if (event != DLOCK_ZK_FIRED)
        zk->connected = event == DLOCK_ZK_CONNECTED;
    ends = event == DLOCK_ZK_ENDED && !zk->ended;
    zk->ended = zk->ended || ends;
    zk->woken = zk->woken || ends || event == DLOCK_ZK_FIRED;
    number = zk->number;
    (void)pthread_cond_broadcast(&zk->changed);
    (void)pthread_mutex_unlock(&zk->mutex);
    if (ends)
        zk->config->on_ended(zk->config->ctx, number, DLOCK_LOSS_EXPIRED);
}

/* With the mutex; of a session that has not ended. */
static uint64_t left_ms(const struct dlock_zk *zk)
{
    uint64_t now = dlock_clock_real_now();

    if (zk->connected || zk->expires_ms == 0)
        return UINT64_MAX;
    return now < zk->expires_ms ? zk->expires_ms - now : 0;
}

uint64_t dlock_zk_left_ms(struct dlock_zk *zk, uint64_t number)
{
    uint64_t left = 0;

    (void)pthread_mutex_lock(&zk->mutex);
    if (zk->number == number && !zk->ended)
        left = left_ms(zk);
    (void)pthread_mutex_unlock(&zk->mutex);
    return left;
}

/*
 * A session that cannot be kept alive is over when the server may think so. It
 * never tells by itself: a client that is not connected hears nothing; and a
 * server that has lost its data turns away all who know better.
 */
uint64_t dlock_zk_check(struct dlock_zk *zk)
{
    uint64_t left = UINT64_MAX;
    uint64_t number;
    bool ends;

    (void)pthread_mutex_lock(&zk->mutex);
    if (!zk->ended)
        left = left_ms(zk);
    ends = left == 0;
    zk->ended = zk->ended || ends;
    zk->woken = zk->woken || ends;
    number = zk->number;
    (void)pthread_cond_broadcast(&zk->changed);
    (void)pthread_mutex_unlock(&zk->mutex);
    if (ends)
        zk->config->on_ended(zk->config->ctx, number, DLOCK_LOSS_UNREACHABLE);
    return ends ? UINT64_MAX : left;
}

static void on_answer(void *ctx, struct dlock_zk_call *call)
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

/* Sessions ------------------------------------------------------------------- */

struct dlock_zk *dlock_zk_open(const struct dlock_session *session,
                               const struct dlock_zk_config *config)
{
    struct dlock_zk *zk = calloc(1, sizeof(*zk));

    if (zk == NULL)
        return NULL;
    if (dlock_clock_cond_init(&zk->changed) != 0) {
        free(zk);
        return NULL;
    }
    (void)pthread_mutex_init(&zk->mutex, NULL);
    zk->session = session;
    zk->config = config;
    zk->listener = (struct dlock_zk_listener){
        .event = on_event, .answer = on_answer, .ctx = zk};
    return zk;
}

/* Every call under way is answered on the way, and the threads have ended. */
void dlock_zk_drop(struct dlock_zk *zk)
{
    struct dlock_zk_handle *handle;

    (void)pthread_mutex_lock(&zk->mutex);
    handle = zk->handle;
    zk->handle = NULL;
    zk->ended = true;
    (void)pthread_cond_broadcast(&zk->changed);
    (void)pthread_mutex_unlock(&zk->mutex);
    dlock_zk_handle_close(handle);
}

void dlock_zk_close(struct dlock_zk *zk)
{
    if (zk == NULL)
        return;
    dlock_zk_drop(zk);
    (void)pthread_cond_destroy(&zk->changed);
    (void)pthread_mutex_destroy(&zk->mutex);
    free(zk);
}

bool dlock_zk_is_live(struct dlock_zk *zk, uint64_t number)
{
    bool live;

    (void)pthread_mutex_lock(&zk->mutex);
    live = zk->handle != NULL && zk->number == number && !zk->ended;
    (void)pthread_mutex_unlock(&zk->mutex);
    return live;
}

void dlock_zk_bury(struct dlock_zk *zk)
{
    if (zk->handle != NULL && !dlock_zk_is_live(zk, zk->number))
        dlock_zk_drop(zk);
}

static bool open_handle(struct dlock_zk *zk)
{
    struct dlock_zk_handle *handle;

    (void)pthread_mutex_lock(&zk->mutex);
    zk->connected = false;
    zk->ended = false;
    zk->expires_ms = 0;
    zk->number++;
    (void)pthread_mutex_unlock(&zk->mutex);
    handle = dlock_zk_handle_open(zk->config->servers, zk->config->session_ms,
                                  &zk->listener);
    (void)pthread_mutex_lock(&zk->mutex);
    zk->handle = handle;
    (void)pthread_mutex_unlock(&zk->mutex);
    return handle != NULL;
}

/* There is a session, or there is a new one. */
static bool has_session(struct dlock_zk *zk)
{
    dlock_zk_bury(zk);
    return zk->handle != NULL || open_handle(zk);
}

/* Sleeps, in real time. False: it is over. With the mutex. */
static bool sleep_until(struct dlock_zk *zk, uint64_t until_ms)
{
    return dlock_clock_wait(dlock_clock_default(), &zk->changed, &zk->mutex,
                            until_ms);
}

/* A connection, and a session that has not ended; a new one if need be. */
static enum dlock_status ready(struct dlock_zk *zk, uint64_t session,
                               uint64_t until_ms, struct dlock_error *error)
{
    bool time_left = true;
    bool connected = false;

    while (time_left && !connected) {
        if (session != 0 && !dlock_zk_is_live(zk, session))
            return DLOCK_LOST;
        if (session == 0 && !has_session(zk))
            return dlock_error_set(error, DLOCK_UNREACHABLE,
                                   "zookeeper: no handle for '%.80s'",
                                   zk->config->servers);
        (void)pthread_mutex_lock(&zk->mutex);
        while (time_left && !zk->connected && !zk->ended)
            time_left = sleep_until(zk, until_ms);
        connected = zk->connected && !zk->ended;
        (void)pthread_mutex_unlock(&zk->mutex);
    }
    if (connected)
        return DLOCK_OK;
    return dlock_error_set(error, DLOCK_UNREACHABLE,
                           "zookeeper: no connection to %.80s",
                           zk->config->servers);
}

void dlock_zk_wake(struct dlock_zk *zk)
{
    (void)pthread_mutex_lock(&zk->mutex);
    zk->woken = true;
    (void)pthread_cond_broadcast(&zk->changed);
    (void)pthread_mutex_unlock(&zk->mutex);
}

/* What happens from here on is seen by the look that follows, or ends the next
 * wait: nothing falls in between. */
void dlock_zk_wait(struct dlock_zk *zk, uint64_t until_ms)
{
    const struct dlock_clock *clock = zk->session->client->clock;
    bool time_left = true;

    (void)pthread_mutex_lock(&zk->mutex);
    while (!zk->woken && time_left && !dlock_wait_ended(zk->session))
        time_left = dlock_clock_wait(clock, &zk->changed, &zk->mutex, until_ms);
    zk->woken = false;
    (void)pthread_mutex_unlock(&zk->mutex);
}

/* Commands ------------------------------------------------------------------- */

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
        time_left = sleep_until(zk, until_ms);
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

/* With the mutex, as the session's thread may be about to close the handle. */
static enum dlock_status post(struct dlock_zk *zk,
                              const struct dlock_zk_command *command,
                              struct dlock_zk_call *call, uint64_t *session)
{
    enum dlock_status status = DLOCK_LOST;

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
        ready(zk, command->session,
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

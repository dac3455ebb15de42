/*
 * Sessions of ZooKeeper: what the library tells of them, when one is over, and
 * the next one.
 */
#include "lock/zookeeper/zk_session.h"

#include <stdlib.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"

/* On the library's threads -------------------------------------------------- */

/* With the mutex. */
static void wake(struct dlock_zk *zk)
{
    zk->woken = true;
    dlock_wake_call(&zk->call);
}

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
    if (ends || event == DLOCK_ZK_FIRED)
        wake(zk);
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
    if (ends)
        wake(zk);
    number = zk->number;
    (void)pthread_cond_broadcast(&zk->changed);
    (void)pthread_mutex_unlock(&zk->mutex);
    if (ends)
        zk->config->on_ended(zk->config->ctx, number, DLOCK_LOSS_UNREACHABLE);
    return ends ? UINT64_MAX : left;
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
        .event = on_event, .answer = dlock_zk_answered, .ctx = zk};
    return zk;
}

/* Ends the session if it IS_OVER. Every call under way is answered on the way,
 * and the threads have ended. */
static void end_session(struct dlock_zk *zk,
                        bool is_over(const struct dlock_zk *zk))
{
    struct dlock_zk_handle *handle = NULL;

    (void)pthread_mutex_lock(&zk->mutex);
    if (is_over(zk)) {
        handle = zk->handle;
        zk->handle = NULL;
        zk->ended = true;
    }
    (void)pthread_cond_broadcast(&zk->changed);
    (void)pthread_mutex_unlock(&zk->mutex);
    dlock_zk_handle_close(handle);
}

static bool in_any_case(const struct dlock_zk *zk)
{
    (void)zk;
    return true;
}

static bool has_ended(const struct dlock_zk *zk)
{
    return zk->ended;
}

static bool has_reconnected(const struct dlock_zk *zk)
{
    return zk->ended && zk->connected;
}

void dlock_zk_drop(struct dlock_zk *zk)
{
    end_session(zk, in_any_case);
}

void dlock_zk_drop_ended(struct dlock_zk *zk)
{
    end_session(zk, has_ended);
}

void dlock_zk_drop_reconnected(struct dlock_zk *zk)
{
    end_session(zk, has_reconnected);
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
    bool there;

    dlock_zk_drop_ended(zk);
    (void)pthread_mutex_lock(&zk->mutex);
    there = zk->handle != NULL;
    (void)pthread_mutex_unlock(&zk->mutex);
    return there || open_handle(zk);
}

bool dlock_zk_sleep_until(struct dlock_zk *zk, uint64_t until_ms)
{
    return dlock_clock_wait(dlock_clock_default(), &zk->changed, &zk->mutex,
                            until_ms);
}

enum dlock_status dlock_zk_ready(struct dlock_zk *zk, uint64_t session,
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
            time_left = dlock_zk_sleep_until(zk, until_ms);
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
    wake(zk);
    (void)pthread_mutex_unlock(&zk->mutex);
}

void dlock_zk_listen(struct dlock_zk *zk, const struct dlock_wake_call *call)
{
    (void)pthread_mutex_lock(&zk->mutex);
    zk->call = *call;
    if (zk->woken)
        dlock_wake_call(&zk->call);
    (void)pthread_mutex_unlock(&zk->mutex);
}

/* Events from here on are seen by the look that follows, or end the next wait: nothing
 * falls in between. */
void dlock_zk_unlisten(struct dlock_zk *zk)
{
    (void)pthread_mutex_lock(&zk->mutex);
    zk->call.told = NULL;
    zk->woken = false;
    (void)pthread_mutex_unlock(&zk->mutex);
}

/*
 * Clients and sessions of zk and zk-fair, and how they wait.
 *
 * One session of ZooKeeper for each of ours: the owner of locks and the owner
 * of nodes are the same then, and closing one ends the other. It costs two
 * threads and a connection per session, and none per waiter: watches come on
 * the connection that there is.
 */
#include "lock/zookeeper/zk_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/zookeeper/zk_left.h"

struct worker {
    bool runs;
    pthread_t thread;
    bool nudged;                 /* it has something to do */
    struct dlock_zk_own *served; /* it works on this, without the mutex */
};

/* client->own: what the sessions of a client share. */
struct zk_shared {
    char servers[512];
    uint64_t period_ms; /* of the guard */
    uint64_t look_ms;   /* of the keeper, at what is held */
    const struct dlock *client;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by the mutex. */
    struct dlock_zk_own *first;
    bool closing;
    struct worker guard;
    struct worker keeper;
};

/* The guard looks so often: before a session without a connection is over, so
 * that it can be there on time (a third of the timeout, see zk.c). */
enum { LOOKS_PER_SESSION = 6 };

/* Before the keeper tries again what did not work. */
enum { RETRY_MS = 200 };

/* "HOST[:PORT]", up to the comma, the slash or the end. */
static bool is_server(const char *text, size_t len)
{
    const char *colon = memrchr(text, ':', len);
    size_t digits;

    if (colon == NULL)
        return len > 0;
    digits = strspn(colon + 1, "0123456789");
    return colon > text && digits > 0 && digits < 6 &&
           colon + 1 + digits == text + len;
}

/* Of "zk:HOST:PORT,HOST:PORT/ROOT", as the library takes it: each with its port. */
static bool read_servers(const char *url, char *servers, size_t size)
{
    size_t len, used = 0;

    if (url == NULL || strncmp(url, "zk:", 3) != 0)
        return false;
    for (url += 3;; url += len + 1) {
        len = strcspn(url, ",/");
        if (!is_server(url, len))
            return false;
        used +=
            (size_t)snprintf(servers + used, size - used, "%.*s%s%s", (int)len,
                             url, memchr(url, ':', len) == NULL ? ":2181" : "",
                             url[len] == ',' ? "," : url + len);
        if (used >= size)
            return false;
        if (url[len] != ',')
            return true;
    }
}

/* With the mutex. */
static void sleep_for(struct zk_shared *shared, uint64_t ms)
{
    (void)dlock_clock_wait(dlock_clock_default(), &shared->changed,
                           &shared->mutex, dlock_clock_real_now() + ms);
}

/* With the mutex: until WORKER has something to do. */
static void rest(struct zk_shared *shared, const struct worker *worker,
                 uint64_t until_ms)
{
    bool time_left = true;

    while (time_left && !worker->nudged && !shared->closing)
        time_left = dlock_clock_wait(dlock_clock_default(), &shared->changed,
                                     &shared->mutex, until_ms);
}

/* One session's turn: in between no mutex is held, and the session stays. */
static void begin_turn(struct zk_shared *shared, struct worker *worker,
                       struct dlock_zk_own *own)
{
    worker->served = own;
    (void)pthread_mutex_unlock(&shared->mutex);
}

static void end_turn(struct zk_shared *shared, struct worker *worker)
{
    (void)pthread_mutex_lock(&shared->mutex);
    worker->served = NULL;
    (void)pthread_cond_broadcast(&shared->changed);
}

/* With the mutex. */
static bool next_untold(struct zk_shared *shared, struct dlock_zk_loss *loss)
{
    struct dlock_zk_own *own = shared->first;

    while (own != NULL && !dlock_zk_next_untold(own, loss))
        own = own->next;
    return own != NULL;
}

/* With the mutex, which is let go of for the hook: no session waits for that. */
static void tell(struct zk_shared *shared)
{
    const struct dlock *client = shared->client;
    struct dlock_zk_loss loss;

    while (client->on_lost != NULL && next_untold(shared, &loss)) {
        (void)pthread_mutex_unlock(&shared->mutex);
        client->on_lost(client->on_lost_ctx, loss.name, loss.owner, loss.why);
        (void)pthread_mutex_lock(&shared->mutex);
    }
}

/* A thread per client that ends sessions which have lost their server, and tells
 * of all that is lost. */
static void *guard(void *arg)
{
    struct zk_shared *shared = arg;
    struct worker *me = &shared->guard;

    (void)pthread_mutex_lock(&shared->mutex);
    while (!shared->closing) {
        uint64_t nap_ms = shared->period_ms;

        me->nudged = false;
        for (struct dlock_zk_own *own = shared->first; own != NULL;
             own = own->next) {
            uint64_t left_ms;

            begin_turn(shared, me, own);
            left_ms = dlock_zk_check(own->zk);
            end_turn(shared, me);
            nap_ms = left_ms < nap_ms ? left_ms : nap_ms;
        }
        tell(shared);
        rest(shared, me, dlock_clock_real_now() + nap_ms);
    }
    (void)pthread_mutex_unlock(&shared->mutex);
    return NULL;
}

static bool keep(struct zk_shared *shared, struct dlock_zk_own *own, bool looks)
{
    bool done;

    begin_turn(shared, &shared->keeper, own);
    dlock_zk_drop_reconnected(own->zk);
    done = dlock_zk_left_clear(own);
    if (looks)
        dlock_zk_look_after(own);
    end_turn(shared, &shared->keeper);
    return done;
}

/*
 * Another thread per client, which may wait for servers: the guard has to be on
 * time.
 */
static void *keeper(void *arg)
{
    struct zk_shared *shared = arg;

    uint64_t look_ms = dlock_clock_real_now() + shared->look_ms;

    (void)pthread_mutex_lock(&shared->mutex);
    while (!shared->closing) {
        uint64_t now = dlock_clock_real_now();
        bool looks = now >= look_ms;
        bool done = true;

        shared->keeper.nudged = false;
        look_ms = looks ? now + shared->look_ms : look_ms;
        for (struct dlock_zk_own *own = shared->first; own != NULL;
             own = own->next)
            done = keep(shared, own, looks) && done;
        rest(shared, &shared->keeper, done ? look_ms : now + RETRY_MS);
    }
    (void)pthread_mutex_unlock(&shared->mutex);
    return NULL;
}

static void nudge(struct zk_shared *shared, struct worker *worker)
{
    (void)pthread_mutex_lock(&shared->mutex);
    worker->nudged = true;
    (void)pthread_cond_broadcast(&shared->changed);
    (void)pthread_mutex_unlock(&shared->mutex);
}

void dlock_zk_nudge(struct dlock_session *session)
{
    struct zk_shared *shared = session->client->own;

    nudge(shared, &shared->keeper);
}

void dlock_zk_nudge_guard(struct dlock_session *session)
{
    struct zk_shared *shared = session->client->own;

    nudge(shared, &shared->guard);
}

/* With the mutex. */
static bool begin(struct worker *worker, const char *name, void *(*run)(void *),
                  struct zk_shared *shared)
{
    if (!worker->runs)
        worker->runs =
            dlock_clock_thread(&worker->thread, name, run, shared) == 0;
    return worker->runs;
}

static void end(struct worker *worker)
{
    if (worker->runs)
        (void)pthread_join(worker->thread, NULL);
}

static void end_workers(struct zk_shared *shared)
{
    (void)pthread_mutex_lock(&shared->mutex);
    shared->closing = true;
    (void)pthread_cond_broadcast(&shared->changed);
    (void)pthread_mutex_unlock(&shared->mutex);
    end(&shared->guard);
    end(&shared->keeper);
}

enum dlock_status dlock_zk_client_open(struct dlock *client,
                                       struct dlock_error *error)
{
    struct zk_shared *shared;

    shared = calloc(1, sizeof(*shared));
    if (shared == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    if (!read_servers(client->url, shared->servers, sizeof(shared->servers))) {
        free(shared);
        return dlock_error_set(error, DLOCK_MISUSE,
                               "the url: use zk:HOST[:PORT][,HOST[:PORT]]");
    }
    if (dlock_clock_cond_init(&shared->changed) != 0) {
        free(shared);
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    }
    (void)pthread_mutex_init(&shared->mutex, NULL);
    shared->period_ms = client->watchdog_lease_ms / LOOKS_PER_SESSION + 1;
    shared->look_ms = client->watchdog_lease_ms / 3 + 1;
    shared->client = client;
    client->own = shared;
    return DLOCK_OK;
}

void dlock_zk_client_close(struct dlock *client)
{
    struct zk_shared *shared = client->own;

    end_workers(shared);
    (void)pthread_cond_destroy(&shared->changed);
    (void)pthread_mutex_destroy(&shared->mutex);
    free(shared);
}

static struct dlock_zk_own *own_new(struct dlock_session *session,
                                    const struct zk_shared *shared)
{
    struct dlock_zk_own *own = calloc(1, sizeof(*own));

    if (own == NULL)
        return NULL;
    own->session = session;
    own->config = (struct dlock_zk_config){
        .servers = shared->servers,
        .session_ms = session->client->watchdog_lease_ms,
        .on_ended = dlock_zk_nodes_lost,
        .ctx = own};
    own->zk = dlock_zk_open(session, &own->config);
    if (own->zk == NULL || dlock_clock_cond_init(&own->cleared) != 0) {
        dlock_zk_close(own->zk);
        free(own);
        return NULL;
    }
    (void)pthread_mutex_init(&own->mutex, NULL);
    return own;
}

/* The session of ZooKeeper goes first: its threads know the list of nodes. */
static void own_free(struct dlock_zk_own *own)
{
    dlock_zk_close(own->zk);
    dlock_zk_left_forget(own);
    while (own->nodes != NULL)
        dlock_zk_node_forget(own->session, own->nodes);
    (void)pthread_cond_destroy(&own->cleared);
    (void)pthread_mutex_destroy(&own->mutex);
    free(own);
}

/* Without its workers, a session would not hear of its end. */
enum dlock_status dlock_zk_session_open(struct dlock_session *session,
                                        struct dlock_error *error)
{
    struct zk_shared *shared = session->client->own;
    struct dlock_zk_own *own = own_new(session, shared);
    bool watched = false;

    if (own == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    (void)pthread_mutex_lock(&shared->mutex);
    watched = begin(&shared->guard, "dlock-zk-guard", guard, shared) &&
              begin(&shared->keeper, "dlock-zk-keeper", keeper, shared);
    if (watched) {
        own->next = shared->first;
        shared->first = own;
    }
    (void)pthread_mutex_unlock(&shared->mutex);
    session->own = own;
    if (watched)
        return DLOCK_OK;
    own_free(own);
    return dlock_error_set(error, DLOCK_UNREACHABLE, "no thread");
}

/* With the session of ZooKeeper there is nothing left for the keeper to do. */
void dlock_zk_session_close(struct dlock_session *session)
{
    struct zk_shared *shared = session->client->own;
    struct dlock_zk_own *own = session->own;
    struct dlock_zk_own **link = &shared->first;

    dlock_zk_drop(own->zk);
    (void)pthread_mutex_lock(&shared->mutex);
    while (shared->guard.served == own || shared->keeper.served == own)
        sleep_for(shared, shared->period_ms);
    while (*link != own)
        link = &(*link)->next;
    *link = own->next;
    (void)pthread_mutex_unlock(&shared->mutex);
    own_free(own);
}

/* Waiting --------------------------------------------------------------------- */

/* The try before has set a watch at the server already. */
void *dlock_zk_watch(struct dlock_session *session, const char *name)
{
    (void)name;
    return session->own;
}

uint64_t dlock_zk_arm(struct dlock_session *session, void *watch,
                      uint64_t until_ms, const struct dlock_wake_call *call)
{
    struct dlock_zk_own *own = watch;

    (void)session;
    dlock_zk_listen(own->zk, call);
    return until_ms;
}

void dlock_zk_disarm(struct dlock_session *session, void *watch)
{
    struct dlock_zk_own *own = watch;

    (void)session;
    dlock_zk_unlisten(own->zk);
}

void dlock_zk_unwatch(struct dlock_session *session, void *watch, bool unused)
{
    (void)session;
    (void)watch;
    (void)unused;
}

void dlock_zk_wake_all(struct dlock *client)
{
    struct zk_shared *shared = client->own;

    (void)pthread_mutex_lock(&shared->mutex);
    for (struct dlock_zk_own *own = shared->first; own != NULL; own = own->next)
        dlock_zk_wake(own->zk);
    (void)pthread_mutex_unlock(&shared->mutex);
}

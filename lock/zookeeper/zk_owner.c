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

#include "lock/clock.h"
#include "lock/error.h"
#include "lock/zookeeper/zk_left.h"

struct worker {
    bool runs;
    pthread_t thread;
};

/* client->own: for waking all who wait, and telling what is lost. */
struct family {
    char servers[512];
    uint64_t period_ms; /* of the guard */
    uint64_t look_ms;   /* of the keeper, at what is held */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Guarded by the mutex. */
    struct dlock_zk_own *first;
    struct dlock_zk_own *kept; /* the keeper is at it, without the mutex */
    bool kicked;               /* the keeper has something to do */
    bool closing;
    struct worker guard;
    struct worker keeper;
};

/* The guard looks so often: before a session without a connection is over, so
 * that it can be there on time (a third of the timeout, see zk.c). */
enum { LOOKS_PER_SESSION = 6 };

/* Before the keeper tries again what did not work. */
enum { RETRY_MS = 200 };

/* "HOST:PORT", up to the comma, the slash or the end. */
static bool is_server(const char *text, size_t len)
{
    const char *colon = memrchr(text, ':', len);
    size_t digits;

    if (colon == NULL || colon == text)
        return false;
    digits = strspn(colon + 1, "0123456789");
    return digits > 0 && digits < 6 && colon + 1 + digits == text + len;
}

/* "zk:HOST:PORT,HOST:PORT/ROOT"; the library takes it from there. */
static bool is_url(const char *url)
{
    size_t len;

    if (url == NULL || strncmp(url, "zk:", 3) != 0 ||
        strlen(url) >= sizeof(((struct family *)NULL)->servers))
        return false;
    url += 3;
    for (;;) {
        len = strcspn(url, ",/");
        if (!is_server(url, len))
            return false;
        if (url[len] != ',')
            return true;
        url += len + 1;
    }
}

/* With the mutex. */
static void sleep_for(struct family *family, uint64_t ms)
{
    (void)dlock_clock_wait(dlock_clock_default(), &family->changed,
                           &family->mutex, dlock_clock_real_now() + ms);
}

/* A thread per client that ends sessions which have lost their server. */
static void *guard(void *arg)
{
    struct family *family = arg;

    (void)pthread_mutex_lock(&family->mutex);
    while (!family->closing) {
        uint64_t nap_ms = family->period_ms;

        for (struct dlock_zk_own *own = family->first; own != NULL;
             own = own->next) {
            uint64_t left_ms = dlock_zk_check(own->zk);

            nap_ms = left_ms < nap_ms ? left_ms : nap_ms;
        }
        sleep_for(family, nap_ms);
    }
    (void)pthread_mutex_unlock(&family->mutex);
    return NULL;
}

/* One session's turn; no mutex is held while the server is asked. */
static bool keep(struct family *family, struct dlock_zk_own *own, bool looks)
{
    bool done;

    family->kept = own;
    (void)pthread_mutex_unlock(&family->mutex);
    dlock_zk_bury_revived(own->zk);
    done = dlock_zk_left_clear(own);
    if (looks)
        dlock_zk_look_after(own);
    (void)pthread_mutex_lock(&family->mutex);
    family->kept = NULL;
    (void)pthread_cond_broadcast(&family->changed);
    return done;
}

/* With the mutex: until there is something to do. */
static void rest(struct family *family, uint64_t until_ms)
{
    bool time_left = true;

    while (time_left && !family->kicked && !family->closing)
        time_left = dlock_clock_wait(dlock_clock_default(), &family->changed,
                                     &family->mutex, until_ms);
}

/*
 * Another thread per client, which may wait for servers: the guard has to be on
 * time. A session that it is at stays in the list until it has left it.
 */
static void *keeper(void *arg)
{
    struct family *family = arg;

    uint64_t look_ms = dlock_clock_real_now() + family->look_ms;

    (void)pthread_mutex_lock(&family->mutex);
    while (!family->closing) {
        uint64_t now = dlock_clock_real_now();
        bool looks = now >= look_ms;
        bool done = true;

        family->kicked = false;
        look_ms = looks ? now + family->look_ms : look_ms;
        for (struct dlock_zk_own *own = family->first; own != NULL;
             own = own->next)
            done = keep(family, own, looks) && done;
        rest(family, done ? look_ms : now + RETRY_MS);
    }
    (void)pthread_mutex_unlock(&family->mutex);
    return NULL;
}

void dlock_zk_kick(struct dlock_session *session)
{
    struct family *family = session->client->own;

    (void)pthread_mutex_lock(&family->mutex);
    family->kicked = true;
    (void)pthread_cond_broadcast(&family->changed);
    (void)pthread_mutex_unlock(&family->mutex);
}

/* With the mutex. */
static bool begin(struct worker *worker, const char *name, void *(*run)(void *),
                  struct family *family)
{
    if (!worker->runs)
        worker->runs =
            dlock_clock_thread(&worker->thread, name, run, family) == 0;
    return worker->runs;
}

static void end(struct worker *worker)
{
    if (worker->runs)
        (void)pthread_join(worker->thread, NULL);
}

static void end_workers(struct family *family)
{
    (void)pthread_mutex_lock(&family->mutex);
    family->closing = true;
    (void)pthread_cond_broadcast(&family->changed);
    (void)pthread_mutex_unlock(&family->mutex);
    end(&family->guard);
    end(&family->keeper);
}

enum dlock_status dlock_zk_client_open(struct dlock *client,
                                       struct dlock_error *error)
{
    struct family *family;

    if (!is_url(client->url))
        return dlock_error_set(error, DLOCK_MISUSE,
                               "the url: use zk:HOST:PORT[,HOST:PORT]");
    family = calloc(1, sizeof(*family));
    if (family == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    (void)snprintf(family->servers, sizeof(family->servers), "%s",
                   client->url + 3);
    if (dlock_clock_cond_init(&family->changed) != 0) {
        free(family);
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    }
    (void)pthread_mutex_init(&family->mutex, NULL);
    family->period_ms = client->watchdog_lease_ms / LOOKS_PER_SESSION + 1;
    family->look_ms = client->watchdog_lease_ms / 3 + 1;
    client->own = family;
    return DLOCK_OK;
}

void dlock_zk_client_close(struct dlock *client)
{
    struct family *family = client->own;

    end_workers(family);
    (void)pthread_cond_destroy(&family->changed);
    (void)pthread_mutex_destroy(&family->mutex);
    free(family);
}

static struct dlock_zk_own *own_new(struct dlock_session *session,
                                    const struct family *family)
{
    struct dlock_zk_own *own = calloc(1, sizeof(*own));

    if (own == NULL)
        return NULL;
    own->session = session;
    own->forces = -1;
    own->config = (struct dlock_zk_config){
        .servers = family->servers,
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
    struct family *family = session->client->own;
    struct dlock_zk_own *own = own_new(session, family);
    bool watched = false;

    if (own == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    (void)pthread_mutex_lock(&family->mutex);
    watched = begin(&family->guard, "dlock-zk-guard", guard, family) &&
              begin(&family->keeper, "dlock-zk-keeper", keeper, family);
    if (watched) {
        own->next = family->first;
        family->first = own;
    }
    (void)pthread_mutex_unlock(&family->mutex);
    session->own = own;
    if (watched)
        return DLOCK_OK;
    own_free(own);
    return dlock_error_set(error, DLOCK_UNREACHABLE, "no thread");
}

/* With the session of ZooKeeper there is nothing left for the keeper to do. */
void dlock_zk_session_close(struct dlock_session *session)
{
    struct family *family = session->client->own;
    struct dlock_zk_own *own = session->own;
    struct dlock_zk_own **link = &family->first;

    dlock_zk_drop(own->zk);
    (void)pthread_mutex_lock(&family->mutex);
    while (family->kept == own)
        sleep_for(family, family->period_ms);
    while (*link != own)
        link = &(*link)->next;
    *link = own->next;
    (void)pthread_mutex_unlock(&family->mutex);
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
    struct family *family = client->own;

    (void)pthread_mutex_lock(&family->mutex);
    for (struct dlock_zk_own *own = family->first; own != NULL; own = own->next)
        dlock_zk_wake(own->zk);
    (void)pthread_mutex_unlock(&family->mutex);
}

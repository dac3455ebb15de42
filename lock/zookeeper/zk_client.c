/*
 * Clients and sessions of zk and zk-fair, the two threads that look after them, and
 * how they wait.
 *
 * One session of ZooKeeper for each of ours costs two threads and a connection per
 * session, and none per waiter: watches come on the connection that there is.
 */
#include "lock/zookeeper/zk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/dial/dial.h"

/* The guard looks so often: before a session without a connection is over, so
 * that it can be there on time (a third of the timeout, see zk.c). */
enum { LOOKS_PER_SESSION = 6 };

/* Before the keeper tries again what did not work. */
enum { RETRY_MS = 200 };

/* "zk:HOST[:PORT][,HOST[:PORT]][/ROOT]" */
static bool read_url(const char *url, struct dlock_zk_client *own)
{
    struct dlock_address server;
    const char *next = own->hosts;
    size_t len;

    if (url == NULL || strncmp(url, "zk:", 3) != 0 ||
        strlen(url + 3) >= sizeof(own->hosts) - 1)
        return false;
    len = strcspn(url + 3, "/");
    memcpy(own->hosts, url + 3, len);
    own->root = own->hosts + len + 1;
    memcpy(own->hosts + len + 1, url + 3 + len, strlen(url + 3 + len) + 1);
    while (next != NULL && *next != '\0')
        next = dlock_address_next(next, DLOCK_ZK_PORT, &server);
    return next != NULL && len > 0 && next[-1] != ',';
}

/* The workers ----------------------------------------------------------------- */

/* With the mutex: until there is news since SEEN, or it is UNTIL_MS. */
static void rest(struct dlock_zk_client *client, unsigned seen,
                 uint64_t until_ms)
{
    bool time_left = true;

    while (time_left && client->news == seen && !client->closing)
        time_left = dlock_clock_wait(dlock_clock_default(), &client->changed,
                                     &client->mutex, until_ms);
}

/*
 * With the mutex, which is let go of for the hook: that is the program's, and may
 * want a mutex that is held by the thread that closes a session, and so waits for
 * ours. A grant that is being given back is not told: its release says so. False:
 * there is none to tell.
 */
static bool tell_one(struct dlock_zk_client *client)
{
    const struct dlock *whose = client->client;
    struct dlock_zk_node *node = NULL;
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    struct dlock_zk_node lost;

    for (struct dlock_zk *zk = LIST_FIRST(&client->sessions);
         zk != NULL && node == NULL; zk = LIST_NEXT(zk, link)) {
        node = LIST_FIRST(&zk->nodes);
        while (node != NULL &&
               !(node->untold && node->state == DLOCK_ZK_NODE_HELD))
            node = LIST_NEXT(node, link);
        memcpy(owner, zk->session->owner, sizeof(owner));
    }
    if (node == NULL || whose->on_lost == NULL)
        return false;
    node->untold = false;
    lost = *node;
    (void)pthread_mutex_unlock(&client->mutex);
    whose->on_lost(whose->on_lost_ctx, lost.name, owner, lost.why);
    (void)pthread_mutex_lock(&client->mutex);
    return true;
}

/* A thread per client that ends sessions which have lost their server, and tells
 * of all that is lost. It waits for no server, because it must be on time. */
static void *guard(void *arg)
{
    struct dlock_zk_client *client = arg;

    (void)pthread_mutex_lock(&client->mutex);
    while (!client->closing) {
        uint64_t now = dlock_clock_real_now();
        uint64_t nap_ms = client->period_ms;
        unsigned seen;

        for (struct dlock_zk *zk = LIST_FIRST(&client->sessions); zk != NULL;
             zk = LIST_NEXT(zk, link)) {
            uint64_t left_ms = dlock_zk_check(zk);

            nap_ms = left_ms < nap_ms ? left_ms : nap_ms;
        }
        seen = client->news;
        while (tell_one(client))
            continue;
        rest(client, seen, now + nap_ms);
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return NULL;
}

/* Another one, which waits for servers and resolvers: it deletes nodes that are left,
 * closes sessions that have ended, before the library makes a connection for them again,
 * and looks names up for those that have found no server yet. */
static void *keeper(void *arg)
{
    struct dlock_zk_client *client = arg;

    (void)pthread_mutex_lock(&client->mutex);
    while (!client->closing) {
        uint64_t nap_ms = client->period_ms;
        unsigned seen = client->news;

        (void)pthread_mutex_unlock(&client->mutex);
        dlock_zk_look_up(client);
        (void)pthread_mutex_lock(&client->mutex);
        for (struct dlock_zk *zk = LIST_FIRST(&client->sessions); zk != NULL;
             zk = LIST_NEXT(zk, link)) {
            bool cleared;

            client->served = zk;
            (void)pthread_mutex_unlock(&client->mutex);
            dlock_zk_drop(zk, true);
            cleared = dlock_zk_node_clear(zk);
            (void)pthread_mutex_lock(&client->mutex);
            client->served = NULL;
            (void)pthread_cond_broadcast(&client->changed);
            if (!cleared && nap_ms > RETRY_MS)
                nap_ms = RETRY_MS;
        }
        rest(client, seen, dlock_clock_real_now() + nap_ms);
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return NULL;
}

/* With the mutex. */
static bool begin_workers(struct dlock_zk_client *client)
{
    if (client->workers_n == 0 &&
        dlock_clock_thread(&client->workers[0], "dlock-zk-guard", guard,
                           client) == 0)
        client->workers_n = 1;
    if (client->workers_n == 1 &&
        dlock_clock_thread(&client->workers[1], "dlock-zk-keeper", keeper,
                           client) == 0)
        client->workers_n = 2;
    return client->workers_n == 2;
}

/* Clients and sessions --------------------------------------------------------- */

enum dlock_status dlock_zk_client_open(struct dlock *client)
{
    struct dlock_zk_client *own = calloc(1, sizeof(*own));

    if (own == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    (void)pthread_mutex_init(&own->mutex, NULL);
    (void)pthread_cond_init(&own->changed, NULL);
    own->client = client;
    own->period_ms = client->watchdog_lease_ms / LOOKS_PER_SESSION + 1;
    client->own = own;
    if (read_url(client->url, own))
        return DLOCK_OK;
    dlock_zk_client_close(client);
    return dlock_error_set(DLOCK_MISUSE,
                           "the url: use zk:HOST[:PORT][,HOST[:PORT]]");
}

void dlock_zk_client_close(struct dlock *client)
{
    struct dlock_zk_client *own = client->own;

    (void)pthread_mutex_lock(&own->mutex);
    own->closing = true;
    (void)pthread_cond_broadcast(&own->changed);
    (void)pthread_mutex_unlock(&own->mutex);
    while (own->workers_n > 0)
        (void)pthread_join(own->workers[--own->workers_n], NULL);
    (void)pthread_cond_destroy(&own->changed);
    (void)pthread_mutex_destroy(&own->mutex);
    free(own);
    client->own = NULL;
}

/* Without its workers, a session would not hear of its end. */
enum dlock_status dlock_zk_client_session_open(struct dlock_session *session)
{
    struct dlock_zk_client *client = session->client->own;
    struct dlock_zk *zk = calloc(1, sizeof(*zk));
    bool watched;

    if (zk == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    (void)pthread_cond_init(&zk->changed, NULL);
    zk->session = session;
    zk->client = client;
    session->own = zk;
    (void)pthread_mutex_lock(&client->mutex);
    watched = begin_workers(client);
    LIST_INSERT_HEAD(&client->sessions, zk, link);
    (void)pthread_mutex_unlock(&client->mutex);
    if (watched)
        return DLOCK_OK;
    dlock_zk_client_session_close(session);
    return dlock_error_set(DLOCK_UNREACHABLE, "no thread");
}

/* With the session of ZooKeeper there is nothing left for the keeper to do. */
void dlock_zk_client_session_close(struct dlock_session *session)
{
    struct dlock_zk_client *client = session->client->own;
    struct dlock_zk *zk = session->own;

    dlock_zk_drop(zk, false);
    (void)pthread_mutex_lock(&client->mutex);
    while (client->served == zk)
        (void)pthread_cond_wait(&client->changed, &client->mutex);
    LIST_REMOVE(zk, link);
    (void)pthread_mutex_unlock(&client->mutex);
    while (!LIST_EMPTY(&zk->nodes))
        dlock_zk_node_forget(session, LIST_FIRST(&zk->nodes));
    (void)pthread_cond_destroy(&zk->changed);
    free(zk);
}

/* Waiting --------------------------------------------------------------------- */

/* The try before has set a watch at the server already. */
void *dlock_zk_client_watch(struct dlock_session *session, const char *name)
{
    (void)name;
    return session->own;
}

/* *CALL is called when a watched node goes, the session ends, or somebody wakes
 * it; at once if that has come since the last disarm. */
uint64_t dlock_zk_client_arm(void *watch, uint64_t until_ms,
                             const struct dlock_wake_call *call)
{
    struct dlock_zk *zk = watch;

    (void)pthread_mutex_lock(&zk->client->mutex);
    zk->call = *call;
    if (zk->woken)
        dlock_wake_call(&zk->call);
    (void)pthread_mutex_unlock(&zk->client->mutex);
    return until_ms;
}

/* Events from here on are seen by the look that follows, or end the next wait: nothing
 * falls in between. */
void dlock_zk_client_disarm(void *watch)
{
    struct dlock_zk *zk = watch;

    (void)pthread_mutex_lock(&zk->client->mutex);
    zk->call.told = NULL;
    zk->woken = false;
    (void)pthread_mutex_unlock(&zk->client->mutex);
}

void dlock_zk_client_wake_all(struct dlock *client)
{
    struct dlock_zk_client *own = client->own;

    (void)pthread_mutex_lock(&own->mutex);
    for (struct dlock_zk *zk = LIST_FIRST(&own->sessions); zk != NULL;
         zk = LIST_NEXT(zk, link))
        dlock_zk_wake(zk);
    (void)pthread_mutex_unlock(&own->mutex);
}

/*
 * Clients and sessions of zk and zk-fair: the nodes that they make, hold and delete, the
 * two threads that look after them, and how they wait.
 *
 * A delete needs no question "is it still mine?" before it, and a pause can do no harm: it
 * is sent in the session that made the node, and once that has ended, the server refuses
 * all commands in its name. But a delete without an answer may have let somebody else in,
 * who has the same path if it is shared: so the node is looked for before the next one.
 *
 * One session of ZooKeeper for each of ours costs two threads and a connection per session,
 * and none per waiter: watches come on the connection that there is.
 */
#include "lock/zookeeper/zk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dial/dial.h"

enum { TRIES_MAX = 3 }; /* to delete a node */

/* Before the keeper tries again what did not work. */
enum { RETRY_MS = 200 };

void dlock_zk_node_owner(const char *tag, char owner[DLOCK_OWNER_BYTES_MAX + 1])
{
    (void)snprintf(owner, DLOCK_OWNER_BYTES_MAX + 1, "%.*s",
                   (int)strcspn(tag, ":"), tag);
}

/* The list ------------------------------------------------------------------- */

/* With the mutex. */
static struct dlock_zk_node *node_of(const struct dlock_zk *zk,
                                     const char *name,
                                     enum dlock_zk_node_state state)
{
    struct dlock_zk_node *node = LIST_FIRST(&zk->nodes);

    while (node != NULL && (node->state != state ||
                            (name != NULL && strcmp(node->name, name) != 0)))
        node = LIST_NEXT(node, link);
    return node;
}

struct dlock_zk_node *dlock_zk_node_of(const struct dlock_session *session,
                                       const char *name,
                                       enum dlock_zk_node_state state)
{
    const struct dlock_zk *zk = session->own;
    DLOCK_LOCKED(&zk->client->mutex);

    return node_of(zk, name, state);
}

void dlock_zk_node_forget(struct dlock_session *session,
                          struct dlock_zk_node *node)
{
    struct dlock_zk *zk = session->own;
    DLOCK_LOCKED(&zk->client->mutex);

    /* await_cleared() waits for a name without a node. */
    LIST_REMOVE(node, link);
    (void)pthread_cond_broadcast(&zk->changed);
    free(node);
}

/* Waits until no node is left for NAME, or else DLOCK_UNKNOWN at UNTIL_MS of lease
 * time. */
static enum dlock_status await_cleared(struct dlock_session *session,
                                       const char *name, uint64_t until_ms)
{
    struct dlock_zk *zk = session->own;
    bool time_left = true;
    DLOCK_LOCKED(&zk->client->mutex);

    while (node_of(zk, name, DLOCK_ZK_NODE_LEFT) != NULL) {
        /* The look comes after the wait has ended, so that a node which was cleared at the
         * last moment counts as cleared. */
        if (!time_left)
            return dlock_error_set(
                DLOCK_UNKNOWN,
                "zookeeper: an old node is not known to be deleted");
        time_left = dlock_clock_wait(session->client->clock, &zk->changed,
                                     &zk->client->mutex, until_ms);
    }
    return DLOCK_OK;
}

/* Making and holding ---------------------------------------------------------- */

/* The keeper's, from here on. */
static void leave_behind(struct dlock_session *session,
                         struct dlock_zk_node *node)
{
    struct dlock_zk_client *client = session->client->own;
    DLOCK_LOCKED(&client->mutex);

    node->state = DLOCK_ZK_NODE_LEFT;
    dlock_zk_nudge_workers(client);
}

/* A request that got no answer is either done by now, or never will be. */
static enum dlock_status look_for(const struct dlock_attempt *attempt,
                                  struct dlock_zk_node *node)
{
    const struct dlock_zk_kind *kind =
        attempt->session->client->strategy->variant;
    struct dlock_zk_command sync = {.verb = DLOCK_ZK_SYNC,
                                    .step = "sync",
                                    .path = kind->root,
                                    .session = node->session};
    struct dlock_zk_reply reply;
    enum dlock_status status = dlock_zk_do(attempt, &sync, &reply);

    return status == DLOCK_OK ? kind->find(attempt, node) : status;
}

/* A node that cannot be looked for stays behind. To end the session would take it along only
 * if the server is there to be told. */
enum dlock_status dlock_zk_node_make(const struct dlock_attempt *attempt,
                                     bool in_queue, struct dlock_zk_node **node)
{
    struct dlock_session *session = attempt->session;
    struct dlock_zk *zk = session->own;
    uint64_t until_ms = dlock_session_limit(session, 1, 0);
    struct dlock_zk_command create = {
        .verb = in_queue ? DLOCK_ZK_CREATE_SEQUENTIAL : DLOCK_ZK_CREATE,
        .step = "create"};
    struct dlock_zk_reply reply;
    struct dlock_zk_node *made;
    enum dlock_status status;

    *node = NULL;
    /* An acquire that waits long looks again later: one timeout is all that a node which is
     * left may cost each try. */
    if (attempt->limit_ms < until_ms)
        until_ms = attempt->limit_ms;
    if (await_cleared(session, attempt->name, until_ms) != DLOCK_OK)
        return DLOCK_UNREACHABLE;
    made = calloc(1, sizeof(*made));
    if (made == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    made->attempt = attempt->number;
    (void)snprintf(made->name, sizeof(made->name), "%s", attempt->name);
    (void)snprintf(made->tag, sizeof(made->tag), "%s:%" PRIu64 ":",
                   session->owner, attempt->number);
    create.data = made->tag;
    create.child = in_queue ? made->tag : NULL;
    status = dlock_zk_create(attempt, &create, &reply);
    /* The session is noted before the answer is looked at, because a create without an
     * answer is looked for in it. */
    made->session = reply.session;
    /* A create without an answer has worked if its node is found. A node that cannot be
     * looked for stays in doubt, and the keeper looks for it again. */
    if (status == DLOCK_UNKNOWN && look_for(attempt, made) == DLOCK_OK) {
        status = made->found ? DLOCK_OK : DLOCK_UNREACHABLE;
    } else if (status == DLOCK_OK && reply.answer == DLOCK_ZK_DONE) {
        made->found = true;
        made->zxid = reply.zxid;
        (void)snprintf(made->path, sizeof(made->path), "%s", reply.text);
    } else if (status == DLOCK_OK) {
        status = DLOCK_BUSY;
    }
    if (status != DLOCK_OK && status != DLOCK_UNKNOWN) {
        free(made);
        return status;
    }
    (void)pthread_mutex_lock(&zk->client->mutex);
    LIST_INSERT_HEAD(&zk->nodes, made, link);
    (void)pthread_mutex_unlock(&zk->client->mutex);
    if (status == DLOCK_OK)
        *node = made;
    else
        leave_behind(session, made);
    return status;
}

enum dlock_status dlock_zk_node_watch(const struct dlock_attempt *attempt,
                                      const char *child)
{
    const struct dlock_zk_command watch = {
        .verb = DLOCK_ZK_WATCH, .step = "watch", .child = child};
    struct dlock_zk *zk = attempt->session->own;
    struct dlock_zk_reply reply;
    enum dlock_status status = dlock_zk_do(attempt, &watch, &reply);

    if (status == DLOCK_UNKNOWN)
        return DLOCK_UNREACHABLE; /* nothing is held for it */
    /* The node went between the try and the watch: no event will come of it. */
    if (status == DLOCK_OK && reply.answer == DLOCK_ZK_NONE) {
        (void)pthread_mutex_lock(&zk->client->mutex);
        dlock_zk_wake(zk);
        (void)pthread_mutex_unlock(&zk->client->mutex);
    }
    return status == DLOCK_OK ? DLOCK_BUSY : status;
}

/* The mutex makes sure that the end of the session is told: here if it came before, and to
 * the holder, by end(), if it comes later. */
enum dlock_status dlock_zk_node_hold(struct dlock_session *session,
                                     struct dlock_zk_node *node)
{
    const struct dlock_zk *zk = session->own;
    DLOCK_LOCKED(&zk->client->mutex);

    /* HELD lets end() mark the node as lost, and the guard tell its holder. */
    if (dlock_zk_is_live(zk, node->session)) {
        node->state = DLOCK_ZK_NODE_HELD;
        return DLOCK_OK;
    }
    LIST_REMOVE(node, link);
    free(node);
    return dlock_error_set(DLOCK_UNREACHABLE,
                           "zookeeper: the session has expired");
}

/* A grant that was given back is over, too. */
uint64_t dlock_zk_node_remaining(const struct dlock_session *session,
                                 const struct dlock_grant *grant)
{
    struct dlock_zk *zk = session->own;
    const struct dlock_zk_node *node;
    DLOCK_LOCKED(&zk->client->mutex);

    LIST_FOREACH(node, &zk->nodes, link)
        if (node->state == DLOCK_ZK_NODE_HELD &&
            node->attempt == grant->attempt)
            return dlock_zk_left_ms(zk, node->session);
    return 0;
}

/* Deleting -------------------------------------------------------------------- */

/* DLOCK_OK: there was one; DLOCK_LOST: there was none any more. After no answer the path
 * may be somebody else's: the node must be looked for before the next try. A node that is
 * gone after that is no loss; a session that has ended is one. */
static enum dlock_status delete_node(const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node)
{
    const struct dlock_zk_command command = {.verb = DLOCK_ZK_DELETE,
                                             .step = "delete",
                                             .path = node->path,
                                             .session = node->session};
    enum dlock_status status = DLOCK_UNKNOWN;
    enum dlock_status gone = DLOCK_LOST; /* if it is not there */
    struct dlock_zk_reply reply;

    for (int i = 0; i < TRIES_MAX && status == DLOCK_UNKNOWN; i++) {
        status = node->found ? DLOCK_OK : look_for(attempt, node);
        if (status == DLOCK_OK && !node->found)
            return gone;
        if (status != DLOCK_OK)
            continue;
        status = dlock_zk_do(attempt, &command, &reply);
        if (status == DLOCK_OK && reply.answer == DLOCK_ZK_NONE)
            return gone;
        if (status == DLOCK_UNKNOWN) {
            /* A node that is not there at the next look was deleted by this one. */
            gone = DLOCK_OK;
            node->found = false;
        }
    }
    /* A delete that got no answer may have worked, whatever a later try was refused for. */
    return status == DLOCK_UNREACHABLE && gone == DLOCK_OK ? DLOCK_UNKNOWN
                                                           : status;
}

enum dlock_status dlock_zk_node_give(const struct dlock_attempt *attempt,
                                     struct dlock_zk_node *node)
{
    struct dlock_session *session = attempt->session;
    struct dlock_zk_client *client = session->client->own;
    enum dlock_status status;

    (void)pthread_mutex_lock(&client->mutex);
    /* GIVEN keeps the guard from telling of a loss, and the keeper from deleting it as
     * well. */
    node->state = DLOCK_ZK_NODE_GIVEN;
    (void)pthread_mutex_unlock(&client->mutex);
    status = delete_node(attempt, node);
    if (status == DLOCK_OK || status == DLOCK_LOST)
        dlock_zk_node_forget(session, node);
    else
        leave_behind(session, node);
    return status;
}

/* A release without an answer is done when its node has gone, for whatever reason. */
enum dlock_status dlock_zk_node_release(const struct dlock_attempt *attempt)
{
    struct dlock_session *session = attempt->session;
    struct dlock_zk_node *node =
        dlock_zk_node_of(session, attempt->name, DLOCK_ZK_NODE_HELD);
    enum dlock_status status = DLOCK_LOST;

    if (node != NULL)
        status = dlock_zk_node_give(attempt, node);
    /* The first release has left the node to the keeper: this one waits for that. */
    else if (attempt->repeats != 0)
        status = await_cleared(session, attempt->name, attempt->limit_ms);
    return status;
}

/* On the keeper's thread, which alone takes them off: deletes all nodes that are left;
 * false: some still are, because the server does not answer. */
static bool clear(struct dlock_zk *zk)
{
    struct dlock_session *session = zk->session;
    struct dlock_zk_node *node;

    /* The keeper alone takes nodes of this state off the list, so NODE stays valid without
     * the mutex. */
    while ((node = dlock_zk_node_of(session, NULL, DLOCK_ZK_NODE_LEFT)) !=
           NULL) {
        struct dlock_attempt attempt = {.session = session,
                                        .name = node->name,
                                        .limit_ms =
                                            dlock_session_limit(session, 1, 0)};
        enum dlock_status status = delete_node(&attempt, node);

        if (status != DLOCK_OK && status != DLOCK_LOST)
            return false;
        dlock_zk_node_forget(session, node);
    }
    return true;
}

/* "zk:HOST[:PORT][,HOST[:PORT]]" */
static bool read_url(const char *url, struct dlock_zk_client *own)
{
    struct dlock_address server;
    const char *next = own->hosts;

    if (url == NULL || strncmp(url, "zk:", 3) != 0 || url[3] == '\0' ||
        strchr(url, '/') || strlen(url + 3) >= sizeof(own->hosts))
        return false;
    memcpy(own->hosts, url + 3, strlen(url + 3) + 1);
    while (next != NULL && *next != '\0')
        next = dlock_address_next(next, DLOCK_ZK_PORT, &server);
    return next != NULL && next[-1] != ',';
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

/* With the mutex, which is let go of for the hook: that is the program's, and may want a
 * mutex that is held by the thread that closes a session, and so waits for ours. A grant
 * that is being given back is not told: its release says so. False: there is none to
 * tell. */
static bool tell_one(struct dlock_zk_client *client)
{
    const struct dlock *whose = client->client;
    struct dlock_zk_node *node, *untold = NULL, lost;
    char owner[DLOCK_OWNER_BYTES_MAX + 1];
    const struct dlock_zk *zk;

    LIST_FOREACH(zk, &client->sessions, link) {
        LIST_FOREACH(node, &zk->nodes, link)
            if (node->untold && node->state == DLOCK_ZK_NODE_HELD)
                untold = node;
    }
    if (untold == NULL || whose->on_lost == NULL)
        return false;
    /* The mark goes before the hook is called, and what it needs is copied: the holder may
     * give the node back meanwhile. */
    untold->untold = false;
    lost = *untold;
    dlock_zk_node_owner(lost.tag, owner);
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
    struct dlock_zk *zk;
    DLOCK_LOCKED(&client->mutex);

    while (!client->closing) {
        uint64_t now = dlock_clock_real_now();
        uint64_t nap_ms = client->period_ms;
        unsigned seen;

        LIST_FOREACH(zk, &client->sessions, link) {
            uint64_t left_ms = dlock_zk_left_ms(zk, zk->number);

            /* The guard comes again when the first session without a connection ends. */
            if (left_ms > 0 && left_ms < nap_ms)
                nap_ms = left_ms;
        }
        /* The count is read after the sessions were looked at and before the hooks: news
         * that comes during a hook ends the rest at once. */
        seen = client->news;
        while (tell_one(client))
            continue;
        rest(client, seen, now + nap_ms);
    }
    return NULL;
}

/* Another one, which waits for servers: it deletes nodes that are left, and closes
 * sessions that have ended, before the library makes a connection for them again. */
static void *keeper(void *arg)
{
    struct dlock_zk_client *client = arg;
    struct dlock_zk *zk;
    DLOCK_LOCKED(&client->mutex);

    while (!client->closing) {
        uint64_t nap_ms = client->period_ms;
        unsigned seen = client->news;

        LIST_FOREACH(zk, &client->sessions, link) {
            bool cleared;

            /* SERVED keeps the session from being closed, and with it this place in the
             * list, while the mutex is not held. */
            client->served = zk;
            /* This is a look as well, because the guard may be in a slow hook. */
            (void)dlock_zk_left_ms(zk, zk->number);
            (void)pthread_mutex_unlock(&client->mutex);
            /* The drop comes before the deletes: those of an ended session are answered by
             * DLOCK_LOST, and need no server. */
            dlock_zk_drop(zk, true);
            cleared = clear(zk);
            (void)pthread_mutex_lock(&client->mutex);
            client->served = NULL;
            (void)pthread_cond_broadcast(&client->changed);
            if (!cleared && nap_ms > RETRY_MS)
                nap_ms = RETRY_MS;
        }
        rest(client, seen, dlock_clock_real_now() + nap_ms);
    }
    return NULL;
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
    own->period_ms = client->watchdog_lease_ms / DLOCK_ZK_LOOKS + 1;
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
    /* The sessions are closed by now, so that no hook and no delete is due. */
    while (own->workers_n > 0)
        (void)pthread_join(own->workers[--own->workers_n], NULL);
    (void)pthread_cond_destroy(&own->changed);
    (void)pthread_mutex_destroy(&own->mutex);
}

/* Without its workers, a session would not hear of its end. */
enum dlock_status dlock_zk_client_session_open(struct dlock_session *session)
{
    static const struct {
        const char *name;
        void *(*run)(void *client);
    } workers[] = {{"dlock-zk-guard", guard}, {"dlock-zk-keeper", keeper}};
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
    while (client->workers_n < 2 &&
           dlock_clock_thread(&client->workers[client->workers_n],
                              workers[client->workers_n].name,
                              workers[client->workers_n].run, client) == 0)
        client->workers_n++;
    watched = client->workers_n == 2;
    /* The session is put into the list also without workers, because the close below takes
     * it off. */
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

    /* The session of ZooKeeper ends first: what the keeper may be doing in it fails at
     * once, and the wait below is short. */
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
    DLOCK_LOCKED(&zk->client->mutex);

    zk->call = *call;
    /* An event since the last disarm came while nobody was armed: it is told now. */
    if (zk->woken)
        dlock_wake_call(&zk->call);
    return until_ms;
}

/* Events from here on are seen by the look that follows, or end the next wait: nothing
 * falls in between. */
void dlock_zk_client_disarm(void *watch)
{
    struct dlock_zk *zk = watch;
    DLOCK_LOCKED(&zk->client->mutex);

    zk->call.told = NULL;
    zk->woken = false;
}

void dlock_zk_client_wake_all(struct dlock *client)
{
    struct dlock_zk_client *own = client->own;
    struct dlock_zk *zk;
    DLOCK_LOCKED(&own->mutex);

    LIST_FOREACH(zk, &own->sessions, link) {
        dlock_zk_wake(zk);
    }
}

/*
 * Clients and sessions: making them and taking them down. A client owns what its sessions
 * share: the watchdog, the subscriber, and the random half of their owner ids. Nothing here
 * connects.
 *
 * A child of fork(2) has copies of all this, and of the connections, but not of the
 * threads. What it sent would go out in the parent's name; so it is refused.
 */
#include "lock/dlock.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lock/core/session.h"
#include "lock/core/held.h"

/* Options of 0 stand for these, as dlock.h promises. */
enum {
    CONNECT_TIMEOUT_MS = 500,
    COMMAND_TIMEOUT_MS = 1000,
    WATCHDOG_LEASE_MS = 10000,
};

enum { HOST_BYTES_MAX = 63 }; /* of a label */

/* Guards the lists of open sessions, of all clients: it is rarely taken. */
static pthread_mutex_t sessions_mutex = PTHREAD_MUTEX_INITIALIZER;

const struct dlock_shared dlock_sessions_shared = {.mutex = &sessions_mutex};

/* Clients ---------------------------------------------------------------- */

/* In the options, 0 stands for "you choose". */
static unsigned or_default(unsigned value, unsigned fallback)
{
    return value == 0 ? fallback : value;
}

/* Turns options into the client's own settings, or says what is wrong. */
static enum dlock_status configure(struct dlock *client,
                                   const struct dlock_options *options)
{
    const char *name = options->strategy == NULL ? "fenced" : options->strategy;
    const char *where = dlock_strategy_where(name);
    struct dlock_address *address = &client->wire.address;
    enum dlock_status status = dlock_check_options(options);

    if (status != DLOCK_OK)
        return status;
    client->strategy = dlock_strategy_called(name);
    if (client->strategy == NULL)
        return dlock_error_set(
            DLOCK_MISUSE, "no strategy '%.40s' in this program: %s", name,
            where != NULL ? where : "there is none of that name");
    client->watchdog_lease_ms =
        or_default(options->watchdog_lease_ms, WATCHDOG_LEASE_MS);
    client->longest_lease_ms = options->longest_lease_ms;
    client->wire.connect_timeout_ms =
        or_default(options->connect_timeout_ms, CONNECT_TIMEOUT_MS);
    client->wire.command_timeout_ms =
        or_default(options->command_timeout_ms, COMMAND_TIMEOUT_MS);
    client->wire.clock = client->clock;
    client->wire.on_step = options->on_step;
    client->wire.on_step_ctx = options->on_step_ctx;
    client->on_lost = options->on_lost;
    client->on_lost_ctx = options->on_lost_ctx;
    client->url = options->url;
    if (client->strategy->wires == NULL)
        return DLOCK_OK;
    status = client->strategy->wires->parse(client->url, address);
    /* Another server may take over, as sentinels or a cluster say. */
    if (status == DLOCK_OK && (address->cluster || address->primary[0] != '\0'))
        client->wire.primary = &client->primary;
    if (status == DLOCK_OK && address->cluster)
        client->wire.silent = client->silent;
    return status;
}

/* People want to know whose a lock is, and owner ids are random. */
static void make_label(struct dlock *client, const char *label)
{
    char host[HOST_BYTES_MAX + 1] = "";

    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
        (void)snprintf(host, sizeof(host), "unknown");
    for (char *at = host; *at != '\0'; at++)
        if (!isgraph((unsigned char)*at))
            *at = '?';
    (void)snprintf(client->label, sizeof(client->label), "%s:%ld:%s", host,
                   (long)getpid(), label);
}

/* 128 random bits: two clients anywhere, at any time, must not share them. A host name
 * and a process id do get used again, on containers all the time. */
static void make_id(struct dlock *client)
{
    int before = PTHREAD_CANCEL_ENABLE;
    unsigned char bytes[16];

    /* getrandom() heeds a cancel, and the client would be left half made. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    client->clock->random(client->clock->ctx, bytes, sizeof(bytes));
    (void)pthread_setcancelstate(before, NULL);
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(&client->id[2 * i], 3, "%02x", bytes[i]);
}

/* WIRE may be NULL: it is not open. */
static void close_wire(const struct dlock *client, struct dlock_wire *wire)
{
    if (client->strategy->wires != NULL)
        client->strategy->wires->close(wire);
}

static void close_watchdog(struct dlock *client)
{
    dlock_watchdog_close(client->watchdog);
    close_wire(client, client->renewal_wire);
}

/* Its thread starts when there is something to renew. */
static enum dlock_status open_watchdog(struct dlock *client)
{
    const struct dlock_wire_kind *wires = client->strategy->wires;
    unsigned capabilities = client->strategy->info.capabilities;
    bool has_wire = wires != NULL && (capabilities & DLOCK_CAP_RENEW) != 0;

    if (has_wire)
        client->renewal_wire = wires->open(&client->wire, "watchdog");
    if (!has_wire || client->renewal_wire != NULL)
        client->watchdog = dlock_watchdog_open(client);
    if (client->watchdog != NULL)
        return DLOCK_OK;
    close_watchdog(client);
    return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
}

static enum dlock_status open_client(struct dlock *client,
                                     const struct dlock_options *options)
{
    enum dlock_status status;

    client->forks = dlock_forks();
    client->clock =
        options->clock != NULL ? options->clock : dlock_clock_default();
    status = configure(client, options);
    if (status == DLOCK_OK) {
        make_id(client);
        if (options->label != NULL)
            make_label(client, options->label);
        status = open_watchdog(client);
    }
    if (status != DLOCK_OK)
        return status;
    if (client->strategy->open != NULL)
        status = client->strategy->open(client);
    client->url = NULL;
    if (status == DLOCK_OK && (client->async = dlock_async_open()) == NULL) {
        status = dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
        if (client->strategy->close != NULL)
            client->strategy->close(client);
    }
    if (status != DLOCK_OK) {
        free(client->own);
        close_watchdog(client);
    }
    return status;
}

enum dlock_status dlock_open(const struct dlock_options *options,
                             struct dlock **client, struct dlock_error *error)
{
    struct dlock *made = NULL;
    enum dlock_status status;

    if (options == NULL || client == NULL)
        status = dlock_error_set(DLOCK_MISUSE, "no options");
    else if (!dlock_forks_watch() || !(made = calloc(1, sizeof(*made))))
        status = dlock_error_set(DLOCK_UNREACHABLE, "no memory");
    else
        status = open_client(made, options);
    if (status == DLOCK_OK)
        *client = made;
    else
        free(made);
    return dlock_error_report(error, status, "open");
}

/* Sessions --------------------------------------------------------------- */

enum dlock_status dlock_session_open(struct dlock *client,
                                     struct dlock_session **session,
                                     struct dlock_error *error)
{
    struct dlock_session *made = NULL;
    enum dlock_status status = DLOCK_OK;

    if (client == NULL || session == NULL)
        status = dlock_error_set(DLOCK_MISUSE, "no client");
    else if (!dlock_is_ours(client))
        status = dlock_error_set(DLOCK_MISUSE, "the client is the parent's");
    else if ((made = calloc(1, sizeof(*made))) == NULL)
        status = dlock_error_set(DLOCK_UNREACHABLE, "no memory");
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "session");
    made->client = client;
    (void)snprintf(
        made->owner, sizeof(made->owner), "%s-%llu", client->id,
        (unsigned long long)atomic_fetch_add(&client->sessions_n, 1) + 1);
    if (client->strategy->wires != NULL) {
        made->wire = client->strategy->wires->open(&client->wire, made->owner);
        if (made->wire == NULL)
            status = dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    }
    if (status == DLOCK_OK && client->strategy->session_open != NULL)
        status = client->strategy->session_open(made);
    if (status != DLOCK_OK) {
        close_wire(client, made->wire);
        free(made);
        return dlock_error_report(error, status, "session");
    }
    *session = made;
    DLOCK_LOCKED(&sessions_mutex);
    LIST_INSERT_HEAD(&client->sessions, made, link);
    return DLOCK_OK;
}

const char *dlock_session_owner(const struct dlock_session *session)
{
    return session == NULL ? "" : session->owner;
}

/* Closing ---------------------------------------------------------------- */

/* Takes SESSION, NULL for any one, off CLIENT's list: the one that closes it does so,
 * and no other one then sees it. NULL: there is none, or another one closes it. */
static struct dlock_session *delist(struct dlock *client,
                                    struct dlock_session *session)
{
    DLOCK_LOCKED(&sessions_mutex);

    if (session == NULL)
        session = LIST_FIRST(&client->sessions);
    if (session == NULL || atomic_exchange(&session->closing, true))
        return NULL;
    LIST_REMOVE(session, link);
    return session;
}

/* The parent's connection stays open, because closing it would say good-bye in its name. The
 * list of held locks stays if it may have been in the middle of a change at the fork. */
static void forget_parents(struct dlock_session *session)
{
    if (atomic_load(&session->state) == DLOCK_SESSION_IDLE)
        dlock_held_close(session);
    free(session);
}

/* With no thread to be cancelled. */
static void close_delisted(struct dlock_session *session)
{
    struct dlock *client = session->client;

    if (!dlock_is_ours(client)) {
        forget_parents(session);
        return;
    }
    dlock_async_drain(client->async, session);
    /* A lock that it holds ends with its lease, as after a crash. */
    dlock_held_close(session);
    if (client->strategy->session_close != NULL)
        client->strategy->session_close(session);
    close_wire(client, session->wire);
    free(session);
}

/* A callback that closes a session which is being closed has no need to. */
void dlock_session_close(struct dlock_session *session)
{
    int before = PTHREAD_CANCEL_ENABLE;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    if (session != NULL && delist(session->client, session) != NULL)
        close_delisted(session);
    (void)pthread_setcancelstate(before, NULL);
}

/* In a child of fork(2), what the threads of the parent's client used stays, because they
 * may have been in the middle of it. */
void dlock_close(struct dlock *client)
{
    int before = PTHREAD_CANCEL_ENABLE;
    struct dlock_session *session;

    if (client == NULL)
        return;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    while ((session = delist(client, NULL)) != NULL)
        close_delisted(session);
    if (dlock_is_ours(client)) {
        dlock_async_close(client->async);
        close_watchdog(client);
        if (client->strategy->close != NULL)
            client->strategy->close(client);
        free(client->own);
    }
    free(client);
    (void)pthread_setcancelstate(before, NULL);
}

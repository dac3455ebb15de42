/*
 * Wake-ups. The reader thread alone touches the subscriber's connection; other threads change
 * the list of names under the mutex and poke the thread through an eventfd.
 *
 * A name that nobody waits for any more stays subscribed for a moment: under contention the
 * next waiter is about to come, and would need a round trip more before it may sleep.
 */
#include "lock/redis/wakeup.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "lock/redis/node.h"

enum {
    LINGER_MS = 1000, /* a subscription outlives its last waiter */
    ASKED_MS = 5000,  /* longer, while it is not confirmed: it may be refused */
    DOWN_RETRY_MS = 100, /* waiters look by themselves: nobody will tell */
    /* The same, because a node that has left its cluster, or was cut off from it, keeps its
     * subscribers, and answers them, and hears of no release. */
    CLUSTER_LOOK_MS = 1000,
    BACKOFF_MIN_MS = 20, /* between two tries to connect */
    BACKOFF_MAX_MS = 1000,
};

/* A name that is waited for. */
struct topic {
    struct topic *next;
    enum {
        TOPIC_NEW,    /* the server does not know of it */
        TOPIC_ASKED,  /* SUBSCRIBE was sent */
        TOPIC_STANDS, /* and confirmed: no message will be missed */
    } state;
    TAILQ_HEAD(waiters, waiter) waiters; /* in order of arrival */
    uint64_t idle_since_ms; /* real time; valid if there is no waiter */
    char name[DLOCK_NAME_BYTES_MAX + 1];
    char channel[DLOCK_KEY_BYTES_MAX + 1];
};

struct waiter {
    TAILQ_ENTRY(waiter) link;
    struct dlock_wakeup *wakeup;
    struct topic *topic;
    struct dlock_wake_call call; /* not yet called if .told is there */
    bool permit;                 /* it is worth trying */
    uint64_t until_ms;           /* it sleeps; UINT64_MAX = it is trying */
};

/* One per client; made with it, its thread with the first waiter. */
struct dlock_wakeup {
    const struct dlock_clock *clock;
    struct dlock_wire *wire; /* the thread's own */
    int poke_fd;
    pthread_mutex_t mutex; /* guards everything below */
    struct topic *topics;
    bool started;
    bool stop;
    pthread_t thread;
    /* The thread's own. */
    uint64_t backoff_ms;
    uint64_t retry_at_ms; /* real time; not before may it connect */
    uint64_t ping_at_ms;
    bool pinged; /* and nothing was heard since */
};

enum dlock_status dlock_wakeup_open(struct dlock *client)
{
    struct dlock_wakeup *wakeup = calloc(1, sizeof(*wakeup));

    if (wakeup == NULL)
        goto err;
    wakeup->clock = client->clock;
    wakeup->wire = dlock_wire_open(&client->wire, "subscriber");
    if (wakeup->wire == NULL)
        goto err_after_alloc;
    /* The descriptor is opened with the client, so that a waiter cannot fail for lack of
     * one. */
    wakeup->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wakeup->poke_fd < 0)
        goto err_after_wire;
    wakeup->backoff_ms = BACKOFF_MIN_MS;
    (void)pthread_mutex_init(&wakeup->mutex, NULL);
    client->wakeup = wakeup;
    return DLOCK_OK;

err_after_wire:
    dlock_wire_close(wakeup->wire);
err_after_alloc:
    free(wakeup);
err:
    return dlock_error_set(DLOCK_UNREACHABLE,
                           "no memory or no descriptor for wake-ups");
}

static void poke(const struct dlock_wakeup *wakeup)
{
    /* It can only fail by being full, and then the thread is poked already. */
    (void)!eventfd_write(wakeup->poke_fd, 1);
}

void dlock_wakeup_close(struct dlock *client)
{
    struct dlock_wakeup *wakeup = client->wakeup;

    if (wakeup->started) {
        (void)pthread_mutex_lock(&wakeup->mutex);
        /* The poke comes after the flag: the thread must find it when it wakes up. */
        wakeup->stop = true;
        (void)pthread_mutex_unlock(&wakeup->mutex);
        poke(wakeup);
        (void)pthread_join(wakeup->thread, NULL);
    }
    /* Waiters are gone by now, since their sessions are closed: only topics that linger are
     * left. */
    while (wakeup->topics != NULL) {
        struct topic *next = wakeup->topics->next;

        free(wakeup->topics);
        wakeup->topics = next;
    }
    (void)pthread_mutex_destroy(&wakeup->mutex);
    (void)close(wakeup->poke_fd);
    dlock_wire_close(wakeup->wire);
    free(wakeup);
}

/* Names that are waited for; with the mutex --------------------------------- */

/* The topic of CHANNEL, or NULL. The list is as long as the names waited for at one moment
 * in one process, and a string comparison is nothing beside a round trip. */
static struct topic *find_topic(struct topic *list, const char *channel)
{
    while (list != NULL && strcmp(list->channel, channel) != 0)
        list = list->next;
    return list;
}

/* The same, made if need be. NULL: no memory. */
static struct topic *need_topic(struct topic **list, const char *name,
                                const char *channel)
{
    struct topic *topic = find_topic(*list, channel);

    if (topic != NULL)
        return topic;
    topic = calloc(1, sizeof(*topic));
    if (topic == NULL)
        return NULL;
    (void)snprintf(topic->name, sizeof(topic->name), "%s", name);
    (void)snprintf(topic->channel, sizeof(topic->channel), "%s", channel);
    TAILQ_INIT(&topic->waiters);
    topic->next = *list;
    *list = topic;
    return topic;
}

static void permit(struct waiter *waiter)
{
    /* The permit stays when the waiter is not armed: it is the next arm that is called at
     * once. */
    waiter->permit = true;
    dlock_wake_call(&waiter->call);
}

/* A permit for the waiter that has waited longest, of those that have none: they are about
 * to try. (That is not fairness: a newcomer elsewhere may still be faster.) */
static void wake_one(const struct topic *topic)
{
    struct waiter *each = TAILQ_FIRST(&topic->waiters);

    while (each != NULL && each->permit)
        each = TAILQ_NEXT(each, link);
    if (each != NULL)
        permit(each);
}

static void wake_all(const struct topic *topic)
{
    struct waiter *each;

    TAILQ_FOREACH(each, &topic->waiters, link) {
        permit(each);
    }
}

/* A permit for the first waiter, unless one of them wakes by UNTIL_MS: that one passes
 * on what it hears. */
static void wake_by(const struct topic *topic, uint64_t until_ms)
{
    struct waiter *each = TAILQ_FIRST(&topic->waiters);

    while (each != NULL && !each->permit && each->until_ms > until_ms)
        each = TAILQ_NEXT(each, link);
    if (each == NULL && !TAILQ_EMPTY(&topic->waiters))
        permit(TAILQ_FIRST(&topic->waiters));
}

/* The next thing that the server has to be told: a topic to subscribe to, which is marked
 * as asked for and put into COPY; or one that nobody has waited for since IDLE_BEFORE_MS,
 * which is taken off the list and is the caller's to free. NULL: nothing. */
static struct topic *next_task(struct dlock_wakeup *wakeup,
                               uint64_t idle_before_ms, struct topic *copy)
{
    DLOCK_LOCKED(&wakeup->mutex);

    for (struct topic **link = &wakeup->topics; *link != NULL;
         link = &(*link)->next) {
        struct topic *each = *link;

        /* The topic leaves the list before UNSUBSCRIBE is sent: a waiter that comes
         * meanwhile makes a new one, whose SUBSCRIBE the server reads later. One that was
         * asked for stays: its confirmation would be taken for that of the new one. */
        if (TAILQ_EMPTY(&each->waiters) &&
            each->idle_since_ms + (each->state == TOPIC_ASKED ? ASKED_MS : 0) <=
                idle_before_ms) {
            *link = each->next;
            return each;
        }
        if (each->state == TOPIC_NEW && !TAILQ_EMPTY(&each->waiters)) {
            /* The mark is set before the command is sent, with the mutex: the confirmation
             * may come at once. */
            each->state = TOPIC_ASKED;
            /* The copy is for sending without the mutex, since the topic may be freed only
             * by this thread, but its list of waiters changes. */
            *copy = *each;
            return copy;
        }
    }
    return NULL;
}

/* The reader thread -------------------------------------------------------- */

/* Drops the connection, and tells everybody that messages may be missed. */
static void disconnected(struct dlock_wakeup *wakeup)
{
    dlock_wire_drop(wakeup->wire);
    wakeup->pinged = false;
    wakeup->retry_at_ms = dlock_clock_real_now() + wakeup->backoff_ms;
    /* The pause grows up to a second, so that a server that refuses is not asked by each
     * client fifty times in one; a confirmed subscription sets it back. */
    wakeup->backoff_ms *= 2;
    if (wakeup->backoff_ms > BACKOFF_MAX_MS)
        wakeup->backoff_ms = BACKOFF_MAX_MS;
    DLOCK_LOCKED(&wakeup->mutex);
    for (struct topic *each = wakeup->topics; each != NULL; each = each->next) {
        /* Waiters are woken once: while the connection is down they look by themselves. */
        if (each->state != TOPIC_NEW)
            wake_all(each);
        each->state = TOPIC_NEW;
    }
}

/* Sends SUBSCRIBE or UNSUBSCRIBE; the answer comes as an event. */
static bool post(struct dlock_wakeup *wakeup, const char *step,
                 const char *verb, const struct topic *topic)
{
    struct dlock_command command;

    dlock_command_init(&command, step, topic->name, NULL);
    dlock_command_arg(&command, verb);
    dlock_command_arg(&command, topic->channel);
    return dlock_call_post(wakeup->wire, &command, UINT64_MAX) == DLOCK_OK;
}

/* Brings the server's list of our subscriptions up to date. */
static bool tell_server(struct dlock_wakeup *wakeup)
{
    struct topic copy;
    struct topic *task;
    bool good = true;

    while (good) {
        task = next_task(wakeup, dlock_clock_real_now() - LINGER_MS, &copy);
        if (task == NULL)
            return true;
        if (task == &copy) {
            good = post(wakeup, "subscribe", "SUBSCRIBE", task);
            continue;
        }
        /* A topic that the server never heard of, or whose connection has gone, needs no
         * good-bye, and must not make a connection. */
        if (task->state != TOPIC_NEW && wakeup->wire->link.fd >= 0)
            good = post(wakeup, "unsubscribe", "UNSUBSCRIBE", task);
        /* next_task() has taken it off the list, and nobody else knows of it. */
        free(task);
    }
    return false;
}

/* False if the reply was lost on the way, by the hook's will. */
static bool heard(struct dlock_wakeup *wakeup, const struct dlock_event *event)
{
    char name[DLOCK_NAME_BYTES_MAX + 1];
    struct topic *topic;

    if (event->kind == DLOCK_EVENT_OTHER)
        return true;
    {
        DLOCK_LOCKED(&wakeup->mutex);

        topic = find_topic(wakeup->topics, event->channel);
        /* The topic was given up a second after its last waiter had left, which has passed
         * on what it owed: the message is for nobody. */
        if (topic == NULL)
            return true;
        if (event->kind == DLOCK_EVENT_MESSAGE) {
            (event->all ? wake_all : wake_one)(topic);
            return true;
        }
        /* The hook is called without the mutex, so it gets a copy of the name, and the
         * topic is looked for again after it. */
        memcpy(name, topic->name, sizeof(name));
    }
    if (dlock_step_after(wakeup->wire->config,
                         &(struct dlock_step){.name = "subscribe",
                                              .owner = wakeup->wire->owner,
                                              .key = name,
                                              .reply = "subscribed"},
                         DLOCK_OK) != DLOCK_OK)
        return false;
    /* A confirmation shows that the server is well: one that takes connections and closes
     * them must not be asked at once each time. */
    wakeup->backoff_ms = BACKOFF_MIN_MS;
    DLOCK_LOCKED(&wakeup->mutex);
    topic = find_topic(wakeup->topics, event->channel);
    /* A topic that is not ASKED came anew: this confirmation is for one of the same name
     * that was given up. */
    if (topic != NULL && topic->state == TOPIC_ASKED) {
        topic->state = TOPIC_STANDS;
        /* The lock may have become free before the subscription stood, and nobody was told:
         * each waiter looks once more. */
        wake_all(topic);
    }
    return true;
}

static bool is_stopped(struct dlock_wakeup *wakeup)
{
    DLOCK_LOCKED(&wakeup->mutex);
    return wakeup->stop;
}

/* Takes all that has arrived; a server may send faster than that. False if the connection
 * is to be dropped. */
static bool hear_server(struct dlock_wakeup *wakeup)
{
    struct dlock_event event;

    while (wakeup->wire->link.fd >= 0 && !is_stopped(wakeup)) {
        if (dlock_wire_event(wakeup->wire, &event) != DLOCK_OK)
            return false;
        if (event.kind == DLOCK_EVENT_NONE)
            return true;
        /* Each event is a sign of life, not only the answer to the PING. */
        wakeup->pinged = false;
        if (!heard(wakeup, &event))
            return false;
    }
    return true;
}

/* A server that hangs or is cut off says nothing, and never that it is over, though there
 * may be another one to go to by then. So silence is asked about, but not of a Unix
 * socket, which is closed with its server. False if the connection is to be dropped. */
static bool has_pulse(struct dlock_wakeup *wakeup)
{
    struct dlock_command command;
    uint64_t now = dlock_clock_real_now();

    if (wakeup->wire->config->address.local || wakeup->wire->link.fd < 0)
        return true;
    /* The primary may have changed, as another wire of the client has found: releases are
     * published at the new one now. */
    if (dlock_wire_outdated(wakeup->wire) ||
        (wakeup->pinged && now >= wakeup->ping_at_ms))
        return false;
    if (now < wakeup->ping_at_ms)
        return true;
    wakeup->pinged = true;
    /* ping_at_ms is from now on the time by which something must have been heard, which the
     * branch above looks at. */
    wakeup->ping_at_ms = now + LINGER_MS;
    dlock_command_init(&command, "ping", "", NULL);
    dlock_command_arg(&command, "PING");
    return dlock_call_post(wakeup->wire, &command, UINT64_MAX) == DLOCK_OK;
}

/* Sleeps until there is something to read, to say, or to tidy up. */
static void sleep_reader(struct dlock_wakeup *wakeup, bool idle)
{
    struct pollfd pollers[2] = {
        {.fd = wakeup->poke_fd, .events = POLLIN},
        {.fd = wakeup->wire->link.fd, .events = POLLIN}, /* may be -1 */
    };
    uint64_t now = dlock_clock_real_now();
    int timeout = LINGER_MS;
    eventfd_t pokes;

    /* A timeout would wake an idle process once a second for nothing: watch() pokes with
     * its first topic. */
    if (idle)
        timeout = -1;
    else if (pollers[1].fd < 0 && wakeup->retry_at_ms > now)
        timeout = (int)(wakeup->retry_at_ms - now);
    (void)poll(pollers, 2, timeout);
    /* The pokes are read before the list is looked at, because one that comes after this
     * look must wake the next poll. */
    (void)!eventfd_read(wakeup->poke_fd, &pokes);
}

/* The thread. Without topics it sleeps until it is poked; with some it looks at least
 * once in LINGER_MS, to find those that nobody waits for any more. */
static void *read_events(void *arg)
{
    struct dlock_wakeup *wakeup = arg;

    for (;;) {
        bool idle;

        {
            DLOCK_LOCKED(&wakeup->mutex);

            if (wakeup->stop)
                return NULL;
            idle = wakeup->topics == NULL;
        }
        sleep_reader(wakeup, idle);
        /* Hearing comes first: the answer to a PING may lie in the socket when its time is
         * up. */
        if (!hear_server(wakeup) || !has_pulse(wakeup))
            disconnected(wakeup);
        /* The thread connects in tell_server() by itself, but not before the pause of
         * disconnected() is over. */
        if (wakeup->wire->link.fd < 0 &&
            dlock_clock_real_now() < wakeup->retry_at_ms)
            continue;
        if (!tell_server(wakeup))
            disconnected(wakeup);
    }
}

/* Waiters ------------------------------------------------------------------ */

/* All waiters of a client listen on one channel, or each on its own. */
void *dlock_wakeup_watch(struct dlock_session *session, const char *name)
{
    const struct dlock_node_kind *kind = dlock_node_kind_of(session);
    struct dlock_wakeup *wakeup = session->client->wakeup;
    struct waiter *waiter = calloc(1, sizeof(*waiter));
    char channel[DLOCK_KEY_BYTES_MAX + 1];
    struct topic *topic;
    bool stands = false;

    if (waiter == NULL)
        return NULL;
    waiter->wakeup = wakeup;
    waiter->until_ms = UINT64_MAX;
    dlock_key_derive(channel, name, kind->channel,
                     kind->leave != NULL ? session->owner : "");
    (void)pthread_mutex_lock(&wakeup->mutex);
    topic = need_topic(&wakeup->topics, name, channel);
    if (topic != NULL) {
        stands = topic->state == TOPIC_STANDS;
        /* The waiter is in the list before the mutex is given back: from here on no message
         * is missed by it. */
        TAILQ_INSERT_TAIL(&topic->waiters, waiter, link);
        waiter->topic = topic;
        /* A release may have come between the last try and this moment, and told others
         * only: the waiter tries once more. */
        waiter->permit = stands;
    }
    /* Without a thread the waiters look by themselves: slow, but it works. */
    if (!wakeup->started)
        wakeup->started = dlock_clock_thread(&wakeup->thread, "dlock-wakeup",
                                             read_events, wakeup) == 0;
    (void)pthread_mutex_unlock(&wakeup->mutex);
    if (topic == NULL) {
        free(waiter);
        return NULL;
    }
    if (!stands)
        poke(wakeup);
    return waiter;
}

uint64_t dlock_wakeup_arm(void *watch, uint64_t until_ms,
                          const struct dlock_wake_call *call)
{
    struct waiter *waiter = watch;
    struct dlock_wakeup *wakeup = waiter->wakeup;
    uint64_t now = dlock_clock_now(wakeup->clock), look_ms = UINT64_MAX;
    DLOCK_LOCKED(&wakeup->mutex);

    if (waiter->topic->state != TOPIC_STANDS)
        look_ms = dlock_clock_after(now, DOWN_RETRY_MS);
    else if (wakeup->wire->config->address.cluster)
        look_ms = dlock_clock_after(now, CLUSTER_LOOK_MS);
    if (look_ms < until_ms)
        until_ms = look_ms;
    waiter->call = *call;
    waiter->until_ms = until_ms;
    /* The call comes at once, inside of arm, and waiter->call is cleared by it: a later
     * message finds nobody to call and leaves the permit. */
    if (waiter->permit)
        dlock_wake_call(&waiter->call);
    return until_ms;
}

/* A permit is taken away here, and from then on is the caller's duty: to try, and if the
 * try gets no answer, to say so when it leaves. */
void dlock_wakeup_disarm(void *watch)
{
    struct waiter *waiter = watch;
    DLOCK_LOCKED(&waiter->wakeup->mutex);

    waiter->call.told = NULL;
    waiter->until_ms = UINT64_MAX;
    waiter->permit = false;
}

void dlock_wakeup_all(struct dlock *client)
{
    DLOCK_LOCKED(&client->wakeup->mutex);

    for (struct topic *each = client->wakeup->topics; each != NULL;
         each = each->next)
        wake_all(each);
}

/* Both a permit not yet seen and one seen in vain belong to the next. A lease that is
 * shorter than the one before is known only to the waiter that was woken, so another one
 * must look, unless there is one that wakes in time. */
void dlock_wakeup_leave(void *watch, uint64_t free_ms)
{
    struct waiter *waiter = watch;
    struct dlock_wakeup *wakeup = waiter->wakeup;
    struct topic *topic = waiter->topic;
    DLOCK_LOCKED(&wakeup->mutex);

    TAILQ_REMOVE(&topic->waiters, waiter, link);
    /* Empty, it stays for a while; the reader thread tidies up. */
    if (TAILQ_EMPTY(&topic->waiters))
        topic->idle_since_ms = dlock_clock_real_now();
    /* The next waiter of this name gets both kinds of debt: a permit that this one never
     * saw, and one whose try had no answer. */
    if (waiter->permit || free_ms == 0)
        wake_one(topic);
    else
        wake_by(topic, dlock_clock_after(free_ms, LINGER_MS));
    free(waiter);
}

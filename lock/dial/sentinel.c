/*
 * Where the primary is now: all sentinels of an address are asked at once, and
 * each server that one of them names is connected to and asked whether it is a
 * primary. Both are talked to in the same way, each on a thread of its own: a dial, a
 * question, a reply.
 *
 * A sentinel that was cut off, or has not heard yet, may name the old one; so the
 * newest configuration counts, by the number that sentinels give it (the epoch),
 * and those that have not answered are waited for, for a moment.
 */
#include "lock/dial/dial.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/dial/question.h"

/* So long is a newer answer waited for, once there is a primary. */
enum { GRACE_MS = 30 };

enum { REPLIES_BYTES_MAX = 8192 }; /* of a server; longer ones are refused */

struct talk {
    struct search *search;
    bool to_sentinel;
    enum { NOT_YET, TALKS, ANSWERED, FAILED } stage;
    struct dlock_address at;
    long long epoch;        /* of a server: of the newest that named it */
    struct dlock_link link; /* of a primary */
};

/* Its caller and the threads of its talks share it; the last of them frees it. The
 * mutex guards stages, epochs, users_n and failure. A talk that has ANSWERED or FAILED
 * is not its thread's any more. */
struct search {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned users_n;
    struct dlock_address address;
    uint64_t until_ms; /* of talks: the caller's end comes first, and is told */
    size_t sentinels_n;
    struct talk sentinels[DLOCK_HOSTS_MAX];
    struct talk servers[DLOCK_HOSTS_MAX]; /* that were named */
    char failure[sizeof(((struct dlock_error *)NULL)->text)]; /* the last */
};

/* With the mutex, which goes: one user less. */
static void leave(struct search *search)
{
    bool is_last = --search->users_n == 0;

    (void)pthread_mutex_unlock(&search->mutex);
    if (!is_last)
        return;
    for (size_t i = 0; i < DLOCK_HOSTS_MAX; i++)
        dlock_net_close(&search->servers[i].link);
    (void)pthread_cond_destroy(&search->changed);
    (void)pthread_mutex_destroy(&search->mutex);
    free(search);
}

/* Talking, on a thread for each ---------------------------------------------- */

/* The value called NAME of a list of names and values. False: none, or too long. */
static bool value_of(const redisReply *reply, const char *name, char *value,
                     size_t size)
{
    for (size_t i = 0;
         reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const redisReply *found = reply->element[i + 1];

        if (reply->element[i]->type == REDIS_REPLY_STRING &&
            found->type == REDIS_REPLY_STRING && found->len < size &&
            strcmp(reply->element[i]->str, name) == 0) {
            memcpy(value, found->str, found->len + 1);
            return true;
        }
    }
    return false;
}

/*
 * The last reply to the commands counts; it is to be freed. A login goes to each
 * sentinel: one that wants none refuses it, and answers all the same.
 */
static redisReply *ask(const struct talk *talk)
{
    const struct search *search = talk->search;
    struct dlock_words commands[2] = {{{"INFO", "replication"}}};
    redisReply *replies[2];
    enum dlock_status status;
    size_t n = 0;

    if (talk->to_sentinel) {
        n = dlock_dial_login(&search->address, &commands[0]);
        commands[n] = (struct dlock_words){
            {"SENTINEL", "MASTER", search->address.primary}};
    }
    status = dlock_question(talk->link, commands, n + 1, REPLIES_BYTES_MAX,
                            search->until_ms, replies);
    if (n > 0)
        freeReplyObject(replies[0]);
    if (status == DLOCK_OK && replies[n]->type == REDIS_REPLY_ERROR)
        status = dlock_error_set(DLOCK_UNREACHABLE, "refused: %.100s",
                                 replies[n]->str);
    if (status == DLOCK_OK)
        return replies[n];
    freeReplyObject(replies[n]);
    return NULL;
}

static void begin_talk(struct search *search, struct talk *talk);

/* With the mutex: a server that was not named before is talked to. */
static void name_server(struct search *search, const struct talk *named)
{
    struct talk *server = search->servers;

    while (server->stage != NOT_YET &&
           (strcmp(server->at.host, named->at.host) != 0 ||
            strcmp(server->at.port, named->at.port) != 0))
        server++;
    if (server->epoch < named->epoch)
        server->epoch = named->epoch;
    if (server->stage != NOT_YET)
        return;
    server->at = named->at;
    begin_talk(search, server);
}

/* With the mutex. WHY is told if nothing better comes. */
static void fail(struct search *search, struct talk *talk, const char *why)
{
    (void)snprintf(search->failure, sizeof(search->failure), "%s %.60s:%s: %s",
                   talk->to_sentinel ? "sentinel" : "primary", talk->at.host,
                   talk->at.port, why);
    talk->stage = FAILED;
}

/* A server is to be a primary; a sentinel is to name one. */
static void *run(void *arg)
{
    struct talk *talk = arg;
    struct search *search = talk->search;
    struct talk named = {.at = search->address};
    redisReply *reply = NULL;
    char epoch[24] = "0";
    bool good = false;

    if (dlock_dial(&talk->at, search->until_ms, &talk->link) == DLOCK_OK)
        reply = ask(talk);
    if (reply != NULL && talk->to_sentinel) {
        good = value_of(reply, "ip", named.at.host, sizeof(named.at.host)) &&
               value_of(reply, "port", named.at.port, sizeof(named.at.port));
        named.at.primary[0] = '\0';
        (void)value_of(reply, "config-epoch", epoch, sizeof(epoch));
        named.epoch = strtoll(epoch, NULL, 10);
        dlock_error_say("names no primary");
    } else if (reply != NULL) {
        good = reply->type == REDIS_REPLY_STRING &&
               strstr(reply->str, "role:master") != NULL;
        dlock_error_say("is a replica");
    }
    freeReplyObject(reply);
    if (!good || talk->to_sentinel)
        dlock_net_close(&talk->link);
    (void)pthread_mutex_lock(&search->mutex);
    if (good)
        talk->stage = ANSWERED;
    else
        fail(search, talk, dlock_error_text());
    if (good && talk->to_sentinel)
        name_server(search, &named);
    (void)pthread_cond_broadcast(&search->changed);
    leave(search);
    return NULL;
}

/* With the mutex. */
static void begin_talk(struct search *search, struct talk *talk)
{
    pthread_t thread;

    talk->search = search;
    talk->stage = TALKS;
    search->users_n++;
    if (dlock_clock_thread(&thread, "dlock-sentinel", run, talk) == 0) {
        (void)pthread_detach(thread);
        return;
    }
    search->users_n--;
    fail(search, talk, "no thread");
}

/* The search --------------------------------------------------------------- */

/* The newest primary that there is, or NULL. *WAITS: there may come a newer one. */
static struct talk *find_best(struct search *search, bool *waits)
{
    struct talk *best = NULL;

    *waits = false;
    for (size_t i = 0; i < search->sentinels_n; i++) {
        struct talk *server = &search->servers[i];

        if (server->stage == ANSWERED &&
            (best == NULL || server->epoch > best->epoch))
            best = server;
    }
    for (size_t i = 0; i < search->sentinels_n; i++)
        *waits |= search->sentinels[i].stage == TALKS ||
                  (search->servers[i].stage == TALKS &&
                   (best == NULL || search->servers[i].epoch > best->epoch));
    return best;
}

/* With the mutex, which is let go of meanwhile. */
static struct talk *await_best(struct search *search, uint64_t until_ms,
                               bool *waits)
{
    bool grace = false, time_left = true;
    struct talk *best;

    while ((best = find_best(search, waits)), *waits && time_left) {
        if (best != NULL && !grace)
            until_ms = dlock_clock_real_until(GRACE_MS, until_ms);
        grace = best != NULL;
        time_left = dlock_clock_wait(dlock_clock_default(), &search->changed,
                                     &search->mutex, until_ms);
    }
    return best;
}

static struct search *open_search(const struct dlock_address *address,
                                  uint64_t until_ms)
{
    struct search *search = calloc(1, sizeof(*search));
    const char *next = address->hosts;

    if (search == NULL)
        return NULL;
    (void)pthread_mutex_init(&search->mutex, NULL);
    (void)pthread_cond_init(&search->changed, NULL);
    search->users_n = 1;
    search->address = *address;
    search->until_ms = until_ms + GRACE_MS;
    for (size_t i = 0; i < DLOCK_HOSTS_MAX; i++)
        search->servers[i].link = dlock_link_plain(-1);
    (void)pthread_mutex_lock(&search->mutex);
    while (next != NULL && *next != '\0') {
        struct talk *talk = &search->sentinels[search->sentinels_n++];

        next = dlock_address_next(next, DLOCK_PORT_SENTINEL, &talk->at);
        talk->to_sentinel = true;
        talk->at.tls = address->tls;
        memcpy(talk->at.ca, address->ca, sizeof(address->ca));
        memcpy(talk->at.cert, address->cert, sizeof(address->cert));
        memcpy(talk->at.key, address->key, sizeof(address->key));
        begin_talk(search, talk);
    }
    return search;
}

enum dlock_status dlock_sentinel_find(const struct dlock_address *address,
                                      uint64_t until_ms,
                                      struct dlock_link *link)
{
    struct search *search = open_search(address, until_ms);
    const struct talk *server;
    struct talk *best;
    bool waits;

    if (search == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    server = search->servers;
    best = await_best(search, until_ms, &waits);
    if (best != NULL) {
        *link = best->link;
        best->link = dlock_link_plain(-1);
    } else if (server->stage == TALKS) {
        dlock_error_say("primary %.100s:%s, named by a sentinel: %s",
                        server->at.host, server->at.port, strerror(ETIMEDOUT));
    } else if (server->stage == NOT_YET && waits) {
        dlock_error_say("none of %zu sentinels answers: %.120s",
                        search->sentinels_n, search->failure);
    } else {
        dlock_error_say("%s", search->failure);
    }
    leave(search);
    return best != NULL ? DLOCK_OK : DLOCK_UNREACHABLE;
}

/*
 * Where the primary is now: all sentinels of an address are asked at once, and
 * each server that one of them names is connected to and asked whether it is a
 * primary. Both are talked to in the same way: a dial, a question, a reply.
 *
 * A sentinel that was cut off, or has not heard yet, may name the old one; so the
 * newest configuration counts, by the number that sentinels give it (the epoch),
 * and those that have not answered are waited for, for a moment.
 */
#include "lock/dial/sentinel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lock/core/error.h"
#include "lock/dial/address.h"
#include "lock/dial/dial.h"
#include "lock/dial/login.h"
#include "lock/dial/question.h"

/* So long is a newer answer waited for, once there is a primary. */
enum { GRACE_MS = 30 };

enum { REPLIES_BYTES_MAX = 8192 }; /* of a server; longer ones are refused */

struct talk {
    enum { NOT_YET, DIALS, ASKS, ANSWERED, FAILED } stage;
    struct dlock_address at;
    struct dlock_dial *dial;
    struct dlock_link link;
    long long epoch; /* of a server: of the newest that named it */
    struct dlock_question question;
    redisReply *reply; /* when it has ANSWERED, up to its end */
};

struct dlock_search {
    const struct dlock_address *address;
    uint64_t until_ms;
    int poll_fd;
    int timer_fd; /* the end of the grace; set = it runs */
    bool grace;
    size_t sentinels_n;
    struct talk sentinels[DLOCK_HOSTS_MAX];
    struct talk servers[DLOCK_HOSTS_MAX]; /* that were named */
    char failure[sizeof(((struct dlock_error *)NULL)->text)]; /* the last */
};

static bool watch(const struct dlock_search *search, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(search->poll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Talking ------------------------------------------------------------------ */

static void hang_up(struct talk *talk)
{
    dlock_dial_end(talk->dial);
    talk->dial = NULL;
    dlock_question_end(&talk->question);
    freeReplyObject(talk->reply);
    talk->reply = NULL;
    dlock_net_close(&talk->link);
}

static bool is_sentinel(const struct dlock_search *search,
                        const struct talk *talk)
{
    return talk < search->servers;
}

/* WHY is told if nothing better comes. */
static void fail(struct dlock_search *search, struct talk *talk,
                 const char *why)
{
    (void)snprintf(search->failure, sizeof(search->failure), "%s %.60s:%s: %s",
                   is_sentinel(search, talk) ? "sentinel" : "primary",
                   talk->at.host, talk->at.port, why);
    hang_up(talk);
    talk->stage = FAILED;
}

static void call(struct dlock_search *search, struct talk *talk)
{
    struct dlock_error error = {""};

    talk->stage = DIALS;
    talk->dial = dlock_dial_begin(&talk->at, search->until_ms, &error);
    if (talk->dial == NULL)
        fail(search, talk, error.text);
    else if (!watch(search, dlock_dial_fd(talk->dial)))
        fail(search, talk, strerror(errno));
}

/* A login goes to each sentinel: one that wants none refuses it, and answers all the
 * same. */
static enum dlock_status ask(struct dlock_search *search, struct talk *talk,
                             struct dlock_error *error)
{
    struct dlock_words commands[2] = {{{"INFO", "replication"}}};
    size_t n = 0;

    if (is_sentinel(search, talk)) {
        n = dlock_login_words(search->address, &commands[0]);
        commands[n] = (struct dlock_words){
            {"SENTINEL", "MASTER", search->address->primary}};
    }
    return dlock_question_begin(&talk->question, talk->link, commands, n + 1,
                                REPLIES_BYTES_MAX, error);
}

/* The last reply counts. */
static enum dlock_status hear(struct talk *talk, struct dlock_error *error)
{
    enum dlock_status status;

    do {
        freeReplyObject(talk->reply);
        talk->reply = NULL;
        status = dlock_question_go_on(&talk->question, talk->link, 0,
                                      &talk->reply, error);
    } while (status == DLOCK_OK && talk->question.left > 0);
    if (status == DLOCK_OK && talk->reply->type == REDIS_REPLY_ERROR)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "refused: %.100s",
                               talk->reply->str);
    return status;
}

/* The connection stands, and the server has been logged in to. */
static enum dlock_status connected(struct dlock_search *search,
                                   struct talk *talk, struct dlock_error *error)
{
    enum dlock_status status = dlock_dial_go_on(talk->dial, &talk->link, error);

    if (status != DLOCK_OK)
        return status;
    dlock_dial_end(talk->dial);
    talk->dial = NULL;
    talk->stage = ASKS;
    if (!watch(search, talk->link.fd))
        return dlock_error_set(error, DLOCK_UNREACHABLE, "epoll: %s",
                               strerror(errno));
    return ask(search, talk, error);
}

/* As far as it goes without waiting. True: the answer has come just now. */
static bool advance(struct dlock_search *search, struct talk *talk)
{
    struct dlock_error error = {""};
    enum dlock_status status = DLOCK_OK;

    if (talk->stage == DIALS)
        status = connected(search, talk, &error);
    if (talk->stage == ASKS && status == DLOCK_OK)
        status = hear(talk, &error);
    if (status == DLOCK_UNREACHABLE)
        fail(search, talk, error.text);
    if (talk->stage != ASKS || status != DLOCK_OK)
        return false;
    talk->stage = ANSWERED;
    return true;
}

/* Their answers ------------------------------------------------------------ */

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

/* A server that was not named before is called. */
static void name_server(struct dlock_search *search,
                        const struct dlock_address *at, long long epoch)
{
    struct talk *server = search->servers;

    while (server->stage != NOT_YET &&
           (strcmp(server->at.host, at->host) != 0 ||
            strcmp(server->at.port, at->port) != 0))
        server++;
    if (server->epoch < epoch)
        server->epoch = epoch;
    if (server->stage != NOT_YET)
        return;
    server->at = *at;
    call(search, server);
}

static void hear_sentinel(struct dlock_search *search, struct talk *sentinel)
{
    struct dlock_address at = *search->address;
    char epoch[24] = "0";

    at.primary[0] = '\0';
    if (!value_of(sentinel->reply, "ip", at.host, sizeof(at.host)) ||
        !value_of(sentinel->reply, "port", at.port, sizeof(at.port))) {
        fail(search, sentinel, "names no primary");
        return;
    }
    (void)value_of(sentinel->reply, "config-epoch", epoch, sizeof(epoch));
    hang_up(sentinel);
    name_server(search, &at, strtoll(epoch, NULL, 10));
}

/* The search --------------------------------------------------------------- */

void dlock_search_end(struct dlock_search *search)
{
    if (search == NULL)
        return;
    for (size_t i = 0; i < DLOCK_HOSTS_MAX; i++) {
        hang_up(&search->sentinels[i]);
        hang_up(&search->servers[i]);
    }
    free(search);
}

struct dlock_search *dlock_search_begin(const struct dlock_address *address,
                                        int poll_fd, int timer_fd,
                                        uint64_t until_ms,
                                        struct dlock_error *error)
{
    struct dlock_search *search = calloc(1, sizeof(*search));
    const char *next = address->hosts;

    if (search == NULL) {
        (void)dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
        return NULL;
    }
    search->address = address;
    search->poll_fd = poll_fd;
    search->timer_fd = timer_fd;
    search->until_ms = until_ms;
    for (size_t i = 0; i < DLOCK_HOSTS_MAX; i++)
        search->sentinels[i].link = search->servers[i].link =
            dlock_link_plain(-1);
    while (next != NULL && *next != '\0') {
        struct talk *talk = &search->sentinels[search->sentinels_n++];

        next = dlock_address_next(next, DLOCK_PORT_SENTINEL, &talk->at);
        talk->at.tls = address->tls;
        memcpy(talk->at.ca, address->ca, sizeof(address->ca));
        memcpy(talk->at.cert, address->cert, sizeof(address->cert));
        memcpy(talk->at.key, address->key, sizeof(address->key));
        call(search, talk);
    }
    return search;
}

/* Whether something may come yet that is newer than BEST. */
static bool may_be_newer(const struct dlock_search *search,
                         const struct talk *best)
{
    for (size_t i = 0; i < search->sentinels_n; i++) {
        const struct talk *server = &search->servers[i];

        if (search->sentinels[i].stage == DIALS ||
            search->sentinels[i].stage == ASKS)
            return true;
        if ((server->stage == DIALS || server->stage == ASKS) &&
            (best == NULL || server->epoch > best->epoch))
            return true;
    }
    return false;
}

static struct talk *newest_primary(struct dlock_search *search)
{
    struct talk *best = NULL;

    for (size_t i = 0; i < search->sentinels_n; i++) {
        struct talk *server = &search->servers[i];

        if (server->stage == ANSWERED &&
            (best == NULL || server->epoch > best->epoch))
            best = server;
    }
    return best;
}

/* Whether the grace has run out; it begins with the first primary that there is. */
static bool grace_is_over(struct dlock_search *search)
{
    struct itimerspec in = {.it_value = {.tv_nsec = GRACE_MS * 1000000L}};
    uint64_t times;

    if (search->grace)
        return read(search->timer_fd, &times, sizeof(times)) == sizeof(times);
    search->grace = true;
    return timerfd_settime(search->timer_fd, 0, &in, NULL) != 0;
}

enum dlock_status dlock_search_go_on(struct dlock_search *search,
                                     struct dlock_link *link,
                                     struct dlock_error *error)
{
    struct talk *best;
    bool waits;

    *link = dlock_link_plain(-1);
    for (size_t i = 0; i < search->sentinels_n; i++)
        if (advance(search, &search->sentinels[i]))
            hear_sentinel(search, &search->sentinels[i]);
    for (size_t i = 0; i < search->sentinels_n; i++) {
        struct talk *server = &search->servers[i];

        if (advance(search, server) &&
            (server->reply->type != REDIS_REPLY_STRING ||
             strstr(server->reply->str, "role:master") == NULL))
            fail(search, server, "is a replica");
    }
    best = newest_primary(search);
    waits = may_be_newer(search, best);
    if (waits && (best == NULL || !grace_is_over(search)))
        return DLOCK_BUSY;
    if (best == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "%s", search->failure);
    *link = best->link;
    best->link = dlock_link_plain(-1);
    return DLOCK_OK;
}

void dlock_search_late(const struct dlock_search *search,
                       struct dlock_error *error)
{
    const struct talk *server = search->servers;

    if (server->stage == NOT_YET)
        (void)dlock_error_set(error, DLOCK_UNREACHABLE,
                              "none of %zu sentinels answers: %.120s",
                              search->sentinels_n, search->failure);
    else
        (void)dlock_error_set(error, DLOCK_UNREACHABLE,
                              "primary %.100s:%s, named by a sentinel: %s",
                              server->at.host, server->at.port,
                              strerror(ETIMEDOUT));
}

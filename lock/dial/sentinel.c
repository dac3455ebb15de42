/*
 * Where the primary is now: all sentinels of an address are asked at once, and
 * each server that one of them names is connected to and asked whether it is a
 * primary. Each of them is a dial on a thread of its own, with a question behind it.
 *
 * A sentinel that was cut off, or has not heard yet, may name the old one; so the
 * newest configuration counts, by the number that sentinels give it (the epoch),
 * and those that have not answered are waited for, for a moment.
 */
#include "lock/dial/dial.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/dial/question.h"

/* So long is a newer answer waited for, once there is a primary. */
enum { GRACE_MS = 30 };

enum { REPLIES_BYTES_MAX = 8192 }; /* of a server; longer ones are refused */

/* On the dials' threads -------------------------------------------------------- */

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

/* Connects to AT. The last reply to the commands counts, and is to be freed. */
static redisReply *ask(struct dlock_dial *dial, const struct dlock_address *at,
                       const struct dlock_words commands[], size_t n)
{
    redisReply *replies[2] = {NULL};
    enum dlock_status status = dlock_dial(at, dial->until_ms, &dial->link);

    if (status == DLOCK_OK)
        status = dlock_question(dial->link, commands, n, REPLIES_BYTES_MAX,
                                dial->until_ms, replies);
    if (n > 1)
        freeReplyObject(replies[0]);
    if (status == DLOCK_OK && replies[n - 1]->type == REDIS_REPLY_ERROR)
        status = dlock_error_set(DLOCK_UNREACHABLE, "refused: %.100s",
                                 replies[n - 1]->str);
    if (status == DLOCK_OK)
        return replies[n - 1];
    freeReplyObject(replies[n - 1]);
    return NULL;
}

/* The sentinel at the address is to name a primary, which the address is then. A login goes
 * to each sentinel: one that wants none refuses it, and answers all the same. */
static enum dlock_status ask_sentinel(struct dlock_dial *dial)
{
    struct dlock_address *named = &dial->address, at = *named;
    struct dlock_words commands[2];
    size_t n = dlock_dial_login(named, &commands[0]);
    char epoch[24] = "0";
    redisReply *reply;
    bool good = false;

    at.user[0] = at.password[0] = at.primary[0] = '\0';
    at.database = 0;
    commands[n] = (struct dlock_words){{"SENTINEL", "MASTER", named->primary}};
    reply = ask(dial, &at, commands, n + 1);
    if (reply != NULL) {
        good = value_of(reply, "ip", named->host, sizeof(named->host)) &&
               value_of(reply, "port", named->port, sizeof(named->port));
        (void)value_of(reply, "config-epoch", epoch, sizeof(epoch));
        dial->epoch = strtoll(epoch, NULL, 10);
        dlock_error_say("names no primary");
    }
    freeReplyObject(reply);
    dlock_net_close(&dial->link);
    if (good)
        return DLOCK_OK;
    return dlock_error_set(DLOCK_UNREACHABLE, "sentinel %.60s:%s: %s", at.host,
                           at.port, dlock_error_text());
}

/* The server at the address is to be a primary. */
static enum dlock_status ask_server(struct dlock_dial *dial)
{
    const struct dlock_address *at = &dial->address;
    const struct dlock_words words = {{"INFO", "replication"}};
    redisReply *reply = ask(dial, at, &words, 1);
    bool good = reply != NULL && reply->type == REDIS_REPLY_STRING &&
                strstr(reply->str, "role:master") != NULL;

    if (reply != NULL)
        dlock_error_say("is a replica");
    freeReplyObject(reply);
    if (good)
        return DLOCK_OK;
    dlock_net_close(&dial->link);
    return dlock_error_set(DLOCK_UNREACHABLE, "primary %.60s:%s: %s", at->host,
                           at->port, dlock_error_text());
}

/* The search --------------------------------------------------------------- */

struct talk {
    struct dlock_dial *dial; /* NULL = not begun */
    bool over;               /* its outcome was looked at */
    long long epoch;         /* of a server: of the newest that named it */
};

/* Talks with sentinels stand in the first half, those with the servers that they named in
 * the second one. */
struct search {
    const struct dlock_address *address;
    uint64_t until_ms; /* after the caller's end, which has its own text */
    size_t sentinels_n;
    struct talk talks[2 * DLOCK_HOSTS_MAX];
    struct talk *servers;       /* the second half */
    struct dlock_error failure; /* the last */
};

enum { TALKS_N = 2 * DLOCK_HOSTS_MAX };

static bool is_under_way(const struct talk *talk)
{
    return talk->dial != NULL && !talk->over;
}

static void begin(struct search *search, struct talk *talk,
                  const struct dlock_address *at, dlock_dial_ask *ask_it)
{
    talk->dial = dlock_dial_begin(at, ask_it, search->until_ms);
    if (talk->dial == NULL)
        search->failure = dlock_error_take();
}

/* A server that was not named before is talked to. */
static void name_server(struct search *search, const struct dlock_dial *named)
{
    struct dlock_address at = *search->address;
    struct talk *server = search->servers;

    while (server->dial != NULL &&
           (strcmp(server->dial->address.host, named->address.host) != 0 ||
            strcmp(server->dial->address.port, named->address.port) != 0))
        server++;
    if (server->epoch < named->epoch)
        server->epoch = named->epoch;
    if (server->dial != NULL)
        return;
    at.primary[0] = '\0';
    memcpy(at.host, named->address.host, sizeof(at.host));
    memcpy(at.port, named->address.port, sizeof(at.port));
    begin(search, server, &at, ask_server);
}

/* The newest primary that there is, or NULL. *WAITS: there may come a newer one. */
static struct talk *find_best(struct search *search, bool *waits)
{
    struct talk *best = NULL;

    *waits = false;
    for (size_t i = 0; i < DLOCK_HOSTS_MAX; i++) {
        struct talk *server = &search->servers[i];

        if (server->over && server->dial->status == DLOCK_OK &&
            (best == NULL || server->epoch > best->epoch))
            best = server;
    }
    for (size_t i = 0; i < DLOCK_HOSTS_MAX; i++)
        *waits |= is_under_way(&search->talks[i]) ||
                  (is_under_way(&search->servers[i]) &&
                   (best == NULL || search->servers[i].epoch > best->epoch));
    return best;
}

/* Waits for an outcome. False: time is up, and those that have come are looked at. */
static bool hear(struct search *search, uint64_t until_ms)
{
    uint64_t left_ms = dlock_clock_real_left(until_ms);
    struct pollfd pollers[TALKS_N];

    for (size_t i = 0; i < TALKS_N; i++) {
        const struct talk *talk = &search->talks[i];

        pollers[i].fd = is_under_way(talk) ? talk->dial->fd : -1;
        pollers[i].events = POLLIN;
    }
    (void)poll(pollers, TALKS_N, left_ms > 60000 ? 60000 : (int)left_ms);
    for (size_t i = 0; i < TALKS_N; i++) {
        struct talk *talk = &search->talks[i];

        if (!is_under_way(talk) || !atomic_load(&talk->dial->done))
            continue;
        talk->over = true;
        if (talk->dial->status != DLOCK_OK)
            search->failure = talk->dial->error;
        else if (talk < search->servers)
            name_server(search, talk->dial);
    }
    return left_ms > 0;
}

enum dlock_status dlock_sentinel_find(const struct dlock_address *address,
                                      uint64_t until_ms,
                                      struct dlock_link *link)
{
    struct search search = {.address = address,
                            .until_ms = until_ms + GRACE_MS,
                            .servers = &search.talks[DLOCK_HOSTS_MAX]};
    struct dlock_address at = *address;
    const char *next = address->hosts;
    bool waits, grace = false, time_left = true;
    const struct talk *first = search.servers;
    struct talk *best;

    while (next != NULL && *next != '\0') {
        next = dlock_address_next(next, DLOCK_PORT_SENTINEL, &at);
        begin(&search, &search.talks[search.sentinels_n++], &at, ask_sentinel);
    }
    while ((best = find_best(&search, &waits)), waits && time_left) {
        if (best != NULL && !grace)
            until_ms = dlock_clock_real_until(GRACE_MS, until_ms);
        grace = best != NULL;
        time_left = hear(&search, until_ms);
    }
    if (best != NULL) {
        *link = best->dial->link;
        best->dial->link = dlock_link_plain(-1);
    } else if (is_under_way(first)) {
        dlock_error_say("primary %.100s:%s, named by a sentinel: %s",
                        first->dial->address.host, first->dial->address.port,
                        strerror(ETIMEDOUT));
    } else if (first->dial == NULL && waits) {
        dlock_error_say("none of %zu sentinels answers: %.120s",
                        search.sentinels_n, search.failure.text);
    } else {
        dlock_error_say("%s", search.failure.text);
    }
    for (size_t i = 0; i < TALKS_N; i++)
        dlock_dial_end(search.talks[i].dial);
    return best != NULL ? DLOCK_OK : DLOCK_UNREACHABLE;
}

/*
 * Where the primary is now: all sentinels of an address are asked at once, each by a
 * dial on a thread of its own, and the server that is named is connected to and asked
 * whether it is a primary.
 *
 * A sentinel that was cut off, or has not heard yet, may name the old one; so the
 * newest configuration is tried first, by the number that sentinels give it (the epoch),
 * and those that have not answered are waited for, for a moment.
 */
#include "lock/dial/dial.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/dial/question.h"

/* So long is a newer answer waited for, once there is one. */
enum { GRACE_MS = 30 };

enum { REPLIES_BYTES_MAX = 8192 }; /* of a server; longer ones are refused */

/* Questions ---------------------------------------------------------------- */

/* The value called NAME of a list of names and values. False: none, or too long. */
static bool value_of(const redisReply *reply, const char *name, char *value,
                     size_t size)
{
    for (size_t i = 0;
         reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const redisReply *found = reply->element[i + 1];

        /* A value that is too long for its field counts as none: a host that is cut would
         * be another host. */
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
static redisReply *ask(const struct dlock_address *at,
                       const struct dlock_words commands[], size_t n,
                       uint64_t until_ms, struct dlock_link *link)
{
    redisReply *replies[2] = {NULL};
    enum dlock_status status = dlock_dial(at, until_ms, link);

    if (status == DLOCK_OK)
        status = dlock_question(*link, commands, n, REPLIES_BYTES_MAX, until_ms,
                                replies);
    if (n > 1)
        /* The first of two is AUTH's, which a sentinel without a password refuses: that is
         * no reason to stop. */
        freeReplyObject(replies[0]);
    if (status == DLOCK_OK && replies[n - 1]->type == REDIS_REPLY_ERROR)
        status = dlock_error_set(DLOCK_UNREACHABLE, "refused: %.100s",
                                 replies[n - 1]->str);
    if (status == DLOCK_OK)
        return replies[n - 1];
    freeReplyObject(replies[n - 1]);
    return NULL;
}

/* On the dial's thread: the sentinel at the address is to name a primary, which the address
 * is then. A login goes to each sentinel: one that wants none refuses it, and answers all
 * the same. */
static enum dlock_status ask_sentinel(struct dlock_dial *dial)
{
    struct dlock_address *named = &dial->address, at = *named;
    struct dlock_words commands[2];
    size_t n = dlock_dial_login(named, &commands[0]);
    char epoch[24] = "0";
    redisReply *reply;
    bool good = false;

    /* AUTH goes with the question instead, because a dial fails where its login is refused;
     * and a database is the server's matter. */
    at.user[0] = at.password[0] = at.primary[0] = '\0';
    at.database = 0;
    commands[n] = (struct dlock_words){{"SENTINEL", "MASTER", named->primary}};
    reply = ask(&at, commands, n + 1, dial->until_ms, &dial->link);
    if (reply != NULL) {
        good = value_of(reply, "ip", named->host, sizeof(named->host)) &&
               value_of(reply, "port", named->port, sizeof(named->port));
        /* A sentinel that tells no epoch stands behind all others. */
        (void)value_of(reply, "config-epoch", epoch, sizeof(epoch));
        dial->epoch = strtoll(epoch, NULL, 10);
        named->primary[0] = '\0';
        dlock_error_say("names no primary");
    }
    freeReplyObject(reply);
    /* The sentinel has said all: nobody keeps a connection to it. */
    dlock_net_close(&dial->link);
    if (good)
        return DLOCK_OK;
    return dlock_error_set(DLOCK_UNREACHABLE, "sentinel %.60s:%s: %s", at.host,
                           at.port, dlock_error_text());
}

/* The server AT is to be a primary. */
static enum dlock_status ask_server(const struct dlock_address *at,
                                    uint64_t until_ms, struct dlock_link *link)
{
    const struct dlock_words words = {{"INFO", "replication"}};
    redisReply *reply = ask(at, &words, 1, until_ms, link);
    bool good = reply != NULL && reply->type == REDIS_REPLY_STRING &&
                strstr(reply->str, "role:master") != NULL;

    if (reply != NULL)
        /* The text is for a role that is wrong; a failure of ask() has left one of its
         * own. */
        dlock_error_say("is a replica");
    freeReplyObject(reply);
    if (good)
        return DLOCK_OK;
    dlock_net_close(link);
    return dlock_error_set(DLOCK_UNREACHABLE,
                           "primary %.60s:%s, named by a sentinel: %s",
                           at->host, at->port, dlock_error_text());
}

/* The search --------------------------------------------------------------- */

struct search {
    size_t n;
    struct dlock_dial *dials[DLOCK_HOSTS_MAX]; /* NULL = its answer was used */
    struct dlock_error failure;                /* the last */
};

static void use_up(struct dlock_dial **dial)
{
    dlock_dial_end(*dial);
    *dial = NULL;
}

/* The newest answer that has come, or NULL. *WAITS: others may come. */
static struct dlock_dial *find_newest(struct search *search, bool *waits)
{
    struct dlock_dial *newest = NULL;

    *waits = false;
    for (size_t i = 0; i < search->n; i++) {
        struct dlock_dial *each = search->dials[i];

        if (each == NULL)
            continue;
        /* The fields of a dial may be read once ->done is true: its thread has written them
         * before. */
        if (!atomic_load(&each->done)) {
            *waits = true;
        } else if (each->status != DLOCK_OK) {
            search->failure = each->error;
            use_up(&search->dials[i]);
        } else if (newest == NULL || each->epoch > newest->epoch) {
            newest = each;
        }
    }
    return newest;
}

/* Waits for the next outcome. */
static void hear(const struct search *search, uint64_t until_ms)
{
    uint64_t left_ms = dlock_clock_real_left(until_ms);
    struct pollfd pollers[DLOCK_HOSTS_MAX];

    for (size_t i = 0; i < search->n; i++) {
        struct dlock_dial *each = search->dials[i];
        bool comes = each != NULL && !atomic_load(&each->done);

        /* A dial that is done stays readable, and would end each poll at once: its place is
         * left empty. */
        pollers[i] =
            (struct pollfd){.fd = comes ? each->fd : -1, .events = POLLIN};
    }
    (void)poll(pollers, search->n, left_ms > 60000 ? 60000 : (int)left_ms);
}

/* Tries the server that NEWEST names, and forgets all that name it. While others may name
 * another one, it has half of the time. */
static enum dlock_status try_newest(struct search *search,
                                    const struct dlock_dial *newest,
                                    uint64_t until_ms, struct dlock_link *link)
{
    /* The address is copied first, because NEWEST itself is among those that are used up
     * below. */
    struct dlock_address at = newest->address;
    enum dlock_status status;
    size_t others_n = 0;

    for (size_t i = 0; i < search->n; i++) {
        const struct dlock_dial *each = search->dials[i];

        if (each != NULL && atomic_load(&each->done) &&
            strcmp(each->address.host, at.host) == 0 &&
            strcmp(each->address.port, at.port) == 0)
            use_up(&search->dials[i]);
        /* Sentinels that have not answered count as well: they may name another server. */
        others_n += search->dials[i] != NULL;
    }
    status = ask_server(
        &at, dlock_clock_real_part(until_ms, others_n > 0 ? 2 : 1), link);
    if (status != DLOCK_OK)
        search->failure = dlock_error_take();
    return status;
}

enum dlock_status dlock_sentinel_find(const struct dlock_address *address,
                                      uint64_t until_ms,
                                      struct dlock_link *link)
{
    enum dlock_status status = DLOCK_UNREACHABLE;
    struct dlock_address at = *address;
    const char *next = address->hosts;
    uint64_t grace_until_ms = UINT64_MAX;
    struct search search = {.n = 0};
    const struct dlock_dial *newest;
    bool waits, tried = false;

    while (next != NULL && *next != '\0') {
        /* The url was checked when it was read: the list has at most DLOCK_HOSTS_MAX
         * places. */
        next = dlock_address_next(next, DLOCK_PORT_SENTINEL, &at);
        /* Its end is after the caller's, which has its own text. */
        search.dials[search.n] =
            dlock_dial_begin(&at, ask_sentinel, until_ms + GRACE_MS);
        if (search.dials[search.n++] == NULL)
            search.failure = dlock_error_take();
    }
    while (status != DLOCK_OK &&
           ((newest = find_newest(&search, &waits)) != NULL || waits) &&
           dlock_clock_real_left(until_ms) > 0) {
        /* The grace begins with the first answer and is not begun again: stragglers cannot
         * add up. */
        if (newest != NULL && grace_until_ms == UINT64_MAX)
            grace_until_ms = dlock_clock_real_until(GRACE_MS, until_ms);
        if (newest == NULL) {
            hear(&search, until_ms);
        } else if (waits && dlock_clock_real_left(grace_until_ms) > 0) {
            hear(&search, grace_until_ms);
        } else {
            tried = true;
            status = try_newest(&search, newest, until_ms, link);
        }
    }
    /* A server that was tried tells more than sentinels that are silent: its failure is the
     * text then. */
    if (status != DLOCK_OK && waits && !tried)
        dlock_error_say("none of %zu sentinels answers: %.120s", search.n,
                        search.failure.text);
    else if (status != DLOCK_OK)
        dlock_error_say("%s", search.failure.text);
    for (size_t i = 0; i < search.n; i++)
        dlock_dial_end(search.dials[i]);
    return status;
}

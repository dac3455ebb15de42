/*
 * CLUSTER SLOTS, on a connection of its own. Its reply is a list of ranges:
 *
 *     [first slot, last slot, [host, port, ...] of the primary, of a replica, ...]
 *
 * Lists in lists, which the wire's plain replies have no place for.
 */
#include "lock/redis/topology.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lock/core/error.h"
#include "lock/dial/dial.h"
#include "lock/dial/question.h"

enum { REPLY_BYTES_MAX = 4 << 20 }; /* each slot by itself takes less */

static const struct dlock_words words = {{"CLUSTER", "SLOTS"}};

/* Its reply ----------------------------------------------------------------- */

static const redisReply *part(const redisReply *list, size_t index, int type)
{
    if (list == NULL || list->type != REDIS_REPLY_ARRAY ||
        index >= list->elements || list->element[index]->type != type)
        return NULL;
    return list->element[index];
}

/* [host, port, ...]. Without a host it is the one that was ASKED. */
static struct dlock_map_node *take_node(const redisReply *from,
                                        const struct dlock_address *asked,
                                        struct dlock_cluster *cluster)
{
    const redisReply *host = part(from, 0, REDIS_REPLY_STRING);
    const redisReply *port = part(from, 1, REDIS_REPLY_INTEGER);
    char digits[sizeof(asked->port)];

    if (port == NULL || port->integer < 1 || port->integer > 65535)
        return NULL;
    (void)snprintf(digits, sizeof(digits), "%u", (unsigned)port->integer);
    return dlock_map_node(
        cluster, host == NULL || host->len == 0 ? asked->host : host->str,
        digits);
}

static void take_range(const redisReply *from,
                       const struct dlock_address *asked,
                       struct dlock_cluster *cluster)
{
    const redisReply *first = part(from, 0, REDIS_REPLY_INTEGER);
    const redisReply *last = part(from, 1, REDIS_REPLY_INTEGER);

    if (first == NULL || last == NULL || first->integer < 0 ||
        last->integer >= DLOCK_MAP_SLOTS_N)
        return;
    for (size_t i = 2; i < from->elements; i++) {
        struct dlock_map_node *node =
            take_node(from->element[i], asked, cluster);

        if (i > 2 || node == NULL)
            continue;
        node->is_primary = true;
        dlock_map_give(cluster, (unsigned)first->integer,
                       (unsigned)last->integer, node);
    }
}

static enum dlock_status take_all(const redisReply *reply,
                                  const struct dlock_address *asked,
                                  struct dlock_cluster *cluster,
                                  struct dlock_error *error)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "%.100s", reply->str);
    if (part(reply, 0, REDIS_REPLY_ARRAY) == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "it knows of no cluster yet");
    dlock_map_clear(cluster);
    for (size_t i = 0; i < reply->elements; i++)
        take_range(reply->element[i], asked, cluster);
    return DLOCK_OK;
}

/* ERROR, with who it was that said so. */
static void sign(const struct dlock_address *address, struct dlock_error *error)
{
    struct dlock_error said = *error;

    (void)dlock_error_set(error, DLOCK_UNREACHABLE, "%.60s:%s: %.120s",
                          address->host, address->port, said.text);
}

enum dlock_status dlock_topology_ask(const struct dlock_address *address,
                                     uint64_t until_ms,
                                     struct dlock_cluster *cluster,
                                     struct dlock_link *link,
                                     struct dlock_error *error)
{
    enum dlock_status status = dlock_dial(address, until_ms, link, error);
    struct dlock_question question;
    redisReply *reply = NULL;

    if (status != DLOCK_OK)
        return status;
    status = dlock_question_begin(&question, *link, &words, 1, REPLY_BYTES_MAX,
                                  error);
    if (status == DLOCK_OK)
        status =
            dlock_question_go_on(&question, *link, until_ms, &reply, error);
    if (status == DLOCK_BUSY)
        status = dlock_error_set(error, DLOCK_UNREACHABLE, "%s",
                                 strerror(ETIMEDOUT));
    if (status == DLOCK_OK && reply != NULL) {
        status = take_all(reply, address, cluster, error);
        freeReplyObject(reply);
    }
    dlock_question_end(&question);
    if (status != DLOCK_OK) {
        sign(address, error);
        dlock_net_close(link);
    }
    return status;
}

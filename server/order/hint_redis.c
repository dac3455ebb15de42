/* hiredis, pipelined, with a pause between two attempts to connect. */
#include "server/order/hint_redis.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/store.h"
#include "lock/dlock_url.h"
#include "server/clock.h"
#include "server/log.h"

#define PAUSE_MS 500 /* after a failure nothing is tried for so long */

struct hint_redis {
    struct dlock_address at; /* the first of the url */
    unsigned timeout_ms;
    redisContext *connection; /* NULL = away */
    bool is_away;             /* and that was logged */
    bool refuses;             /* to write, and that was logged */
    uint64_t again_ms;
};

struct hint_redis *hint_redis_open(const char *url, unsigned timeout_ms)
{
    struct hint_redis *redis = calloc(1, sizeof(*redis));

    if (redis && dlock_url_parse(url, &redis->at)) {
        redis->timeout_ms = timeout_ms;
        return redis;
    }
    free(redis);
    return NULL;
}

void hint_redis_close(struct hint_redis *redis)
{
    if (!redis)
        return;
    if (redis->connection)
        redisFree(redis->connection);
    free(redis);
}

/* One line in the log when it begins. */
static bool drop(struct hint_redis *redis, const char *why)
{
    if (!redis->is_away)
        log_warn("hints", "redis=away error=\"%s\"", why);
    redis->is_away = true;
    if (redis->connection)
        redisFree(redis->connection);
    redis->connection = NULL;
    redis->again_ms = clock_ms() + PAUSE_MS;
    return false;
}

/* A refusal may quote what it was given, so only its first word is told. */
static bool is_accepted(struct hint_redis *redis, redisReply *reply)
{
    char why[80] = "";

    if (!reply)
        return drop(redis, redis->connection->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        snprintf(why, sizeof(why), "login refused: %.*s",
                 (int)strcspn(reply->str, " "), reply->str);
    freeReplyObject(reply);
    return *why ? drop(redis, why) : true;
}

/* As the locks do: nothing is asked of a database that is not the one meant. */
static bool log_in(struct hint_redis *redis)
{
    const struct dlock_address *at = &redis->at;
    redisContext *made = redis->connection;

    if (dlock_url_has_login(at) &&
        !is_accepted(redis, *at->user
                                ? redisCommand(made, "AUTH %s %s", at->user,
                                               at->password)
                                : redisCommand(made, "AUTH %s", at->password)))
        return false;
    return at->database == 0 ||
           is_accepted(redis, redisCommand(made, "SELECT %u", at->database));
}

static bool connect_now(struct hint_redis *redis)
{
    struct timeval timeout = {
        .tv_sec = (time_t)(redis->timeout_ms / 1000),
        .tv_usec = (suseconds_t)(redis->timeout_ms % 1000) * 1000};
    redisContext *made;

    if (redis->connection)
        return true;
    if (clock_ms() < redis->again_ms)
        return false;
    made = redis->at.local
               ? redisConnectUnixWithTimeout(redis->at.host, timeout)
               : redisConnectWithTimeout(redis->at.host, atoi(redis->at.port),
                                         timeout);
    redis->connection = made;
    if (!made || made->err || redisSetTimeout(made, timeout) != REDIS_OK)
        return drop(redis, made ? made->errstr : "out of memory");
    (void)fcntl(made->fd, F_SETFD, FD_CLOEXEC);
    return log_in(redis);
}

/* What is no number of units is no hint. */
static int64_t units_of(const redisReply *reply)
{
    char *end;
    long long units;

    if (reply->type != REDIS_REPLY_STRING || reply->len == 0)
        return HINT_UNKNOWN;
    units = strtoll(reply->str, &end, 10);
    return *end == '\0' && units >= 0 && units <= STORE_NUMBER_MAX
               ? units
               : HINT_UNKNOWN;
}

/* A server that is full has its own line in the log when that begins. Only a
 * write can tell: such a server goes on answering reads. */
static bool hear(struct hint_redis *redis, struct hint *hint, bool is_write)
{
    void *raw = NULL;
    const redisReply *reply;
    bool is_error;

    if (redisGetReply(redis->connection, &raw) != REDIS_OK)
        return drop(redis, redis->connection->errstr);
    if (redis->is_away)
        log_info("hints", "redis=back");
    redis->is_away = false;
    reply = raw;
    is_error = reply->type == REDIS_REPLY_ERROR;
    if (!is_write) {
        hint->units = units_of(reply);
    } else if (is_error != redis->refuses) {
        redis->refuses = is_error;
        if (is_error)
            log_warn("hints", "redis=refuses error=\"%.150s\"", reply->str);
        else
            log_info("hints", "redis=takes-them-again");
    }
    freeReplyObject(raw);
    return !is_error;
}

bool hint_redis_run(struct hint_redis *redis, struct hint hints[], size_t n,
                    bool is_write)
{
    char key[64];
    bool all = true;

    if (!connect_now(redis))
        return false;
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "stock:{%" PRId64 ":%" PRId64 "}",
                 hints[i].product_id, hints[i].segment);
        if ((is_write ? redisAppendCommand(redis->connection, "SET %s %lld",
                                           key, (long long)hints[i].units)
                      : redisAppendCommand(redis->connection, "GET %s", key)) !=
            REDIS_OK)
            return drop(redis, "out of memory");
    }
    for (size_t i = 0; i < n && redis->connection; i++)
        all &= hear(redis, &hints[i], is_write);
    return all;
}

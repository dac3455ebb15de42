/* See peek.h. */
#include "server/lab/servers/peek.h"

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lock/textbook/textbook.h"

enum {
    ANSWER_S_MAX = 30, /* a redis-server that takes longer is broken */
    PORT_TRIES = 5,    /* somebody else may be faster with a free port */
};

struct peek {
    redisContext *redis;
    char sha[48]; /* of the script */
};

static const char script[] =
#include "server/lab/servers/look.lua.inc"
    ;

struct peek *peek_open(const char *url, struct fail *error)
{
    const char *path = url + strlen("unix:");
    const struct timeval most = {.tv_sec = ANSWER_S_MAX};
    struct peek *peek = calloc(1, sizeof(*peek));
    redisReply *reply = NULL;

    if (!peek)
        return NULL;
    peek->redis = redisConnectUnix(path);
    /* A server that answers nothing must not keep its caller for ever. */
    if (peek->redis && peek->redis->err == 0 &&
        redisSetTimeout(peek->redis, most) == REDIS_OK)
        /* The look is sent by its sum: it is taken after nearly each move. */
        reply = redisCommand(peek->redis, "SCRIPT LOAD %s", script);
    if (reply && reply->type == REDIS_REPLY_STRING) {
        (void)snprintf(peek->sha, sizeof(peek->sha), "%s", reply->str);
        freeReplyObject(reply);
        return peek;
    }
    (void)fail_with(error, "cannot talk to redis-server at %s", path);
    freeReplyObject(reply);
    peek_close(peek);
    return NULL;
}

void peek_close(struct peek *peek)
{
    if (!peek)
        return;
    redisFree(peek->redis);
    free(peek);
}

static void tell(const redisReply *reply, char text[], size_t size)
{
    if (reply->type == REDIS_REPLY_INTEGER)
        (void)snprintf(text, size, "%lld", reply->integer);
    else if (reply->type == REDIS_REPLY_NIL)
        (void)snprintf(text, size, "(nil)");
    else if (reply->type == REDIS_REPLY_ARRAY)
        (void)snprintf(text, size, "(%zu values)", reply->elements);
    else
        (void)snprintf(text, size, "%s", reply->str);
}

enum peek_answer peek_send(struct peek *peek, size_t n, const char *words[],
                           char text[], size_t size)
{
    redisReply *reply = redisCommandArgv(peek->redis, (int)n, words, NULL);
    enum peek_answer answer = PEEK_REPLY;

    /* hiredis takes no more commands on a connection that has failed. */
    if (!reply)
        return PEEK_NONE;
    if (reply->type == REDIS_REPLY_ERROR)
        answer = PEEK_ERROR;
    tell(reply, text, size);
    freeReplyObject(reply);
    return answer;
}

/* A script with an error in it would fail in some schedules only. The line in Redis'
 * text counts from the one behind EVAL's. */
bool peek_compiles(struct peek *peek, const char *lock, struct fail *error)
{
    const char *text;
    unsigned line;

    for (size_t i = 0; (text = dlock_textbook_script(lock, i, &line)) != NULL;
         i++) {
        const char *words[] = {"SCRIPT", "LOAD", text}, *why, *at;
        char reply[200] = "no answer";

        /* A script that compiles is known to the server from here on, and
         * changes nothing. */
        if (peek_send(peek, 3, words, reply, sizeof(reply)) == PEEK_REPLY)
            continue;
        at = strstr(reply, "user_script:");
        why = at != NULL ? strstr(at, ": ") : NULL;
        (void)fail_with(
            error, "%s:%lu: Redis does not compile this script: %s", lock,
            why ? line + strtoul(strchr(at, ':') + 1, NULL, 10) : line,
            why ? why + 2 : reply);
        return false;
    }
    return true;
}

bool peek_ask(struct peek *peek, const char *wanted, const char *const words[])
{
    const char *sent[8];
    char reply[96];
    size_t n = 0;

    for (; n < sizeof(sent) / sizeof(sent[0]) && words[n]; n++)
        sent[n] = words[n];
    return peek_send(peek, n, sent, reply, sizeof(reply)) &&
           strcmp(reply, wanted) == 0;
}

/* Into TEXT, which is cut if it has too little room. */
static bool tell_whole(const redisReply *reply, char text[], size_t size)
{
    tell(reply, text, size);
    return reply->type == REDIS_REPLY_STRING && strlen(text) == reply->len;
}

bool peek_look(struct peek *peek, char keys[], size_t keys_size,
               char listeners[], size_t listeners_size, struct fail *error)
{
    redisReply *reply = redisCommand(peek->redis, "EVALSHA %s 0", peek->sha);
    bool good =
        reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;

    keys[0] = listeners[0] = '\0';
    /* One script has told both parts: nothing happens between them. */
    if (!good)
        (void)fail_with(error, "redis-server has died");
    else if (!tell_whole(reply->element[0], keys, keys_size) ||
             !tell_whole(reply->element[1], listeners, listeners_size))
        good = fail_with(error, PEEK_TOO_MUCH);
    freeReplyObject(reply);
    return good;
}

bool peek_listen(struct peek *peek, char port[], size_t size)
{
    struct sockaddr_in at;
    socklen_t len = sizeof(at);

    /* A server waits for more replicas to come before it begins, unless told that
     * none will. */
    if (!PEEK_ASK(peek, "OK", "CONFIG", "SET", "bind", "127.0.0.1") ||
        !PEEK_ASK(peek, "OK", "CONFIG", "SET", "repl-diskless-sync-delay", "0"))
        return false;
    for (int i = 0; i < PORT_TRIES; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        at = (struct sockaddr_in){.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        if (fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0)
            (void)getsockname(fd, (struct sockaddr *)&at, &len);
        if (fd >= 0)
            (void)close(fd);
        /* A port that is free now may be taken in a moment: then another one is tried. */
        (void)snprintf(port, size, "%u", ntohs(at.sin_port));
        if (PEEK_ASK(peek, "OK", "CONFIG", "SET", "port", port))
            return true;
    }
    return false;
}

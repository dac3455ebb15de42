/*
 * MONITOR shows each command with its arguments quoted, as the server itself
 * takes them when they are typed in. So a line of it can be sent as it is.
 */
#include "server/lab/conform/tape.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct tape {
    redisContext *monitor; /* what the server shows */
    redisContext *ask;     /* a connection for our own commands */
    unsigned marks;
    char **lines;
    size_t n;
    size_t unrecorded_n; /* that would have been worth it */
};

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(70);
}

static redisContext *connect_to(const char *path)
{
    redisContext *redis = redisConnectUnix(path);

    if (!redis || redis->err)
        die("tape: connect");
    return redis;
}

/* The answer to a command, which must have come. */
static redisReply *answer(void *reply)
{
    if (!reply)
        die("tape: no answer");
    return reply;
}

/* Whether the command is worth a replay: not our own, and not about a
 * connection. */
static bool is_kept(const char *command)
{
    static const char *const left_out[] = {
        "\"ECHO\"",   "\"DUMP\"", "\"PEXPIRETIME\"", "\"SUBSCRIBE\"",
        "\"SCRIPT\"", "\"INFO\"", "\"UNSUBSCRIBE\"", "\"MONITOR\"",
        "\"PING\"",   "\"AUTH\"", "\"SELECT\"",      "\"PUBSUB\""};

    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
        if (strncasecmp(command, left_out[i], strlen(left_out[i])) == 0)
            return false;
    return true;
}

static void keep(struct tape *tape, const char *command)
{
    char **lines = realloc(tape->lines, (tape->n + 1) * sizeof(*lines));

    if (!lines)
        die("tape: no memory");
    tape->lines = lines;
    lines[tape->n] = strdup(command);
    if (!lines[tape->n])
        die("tape: no memory");
    lines[tape->n][strcspn(lines[tape->n], "\r\n")] = '\0';
    tape->n++;
}

/* Takes what was shown so far, up to a mark of our own; RECORDS it, or not. */
static void wind(struct tape *tape, bool records)
{
    char mark[40];
    redisReply *shown;
    const char *command;
    bool is_end = false;

    (void)snprintf(mark, sizeof(mark), "\"ECHO\" \"tape-mark-%08u\"",
                   ++tape->marks);
    freeReplyObject(
        answer(redisCommand(tape->ask, "ECHO tape-mark-%08u", tape->marks)));
    while (!is_end) {
        if (redisGetReply(tape->monitor, (void **)&shown) != REDIS_OK)
            die("tape: monitor");
        command = strstr(shown->str, "] ");
        if (!command)
            die("tape: a line of MONITOR");
        command += 2;
        is_end = strcmp(command, mark) == 0;
        /* "[0 lua]": a script has called it. */
        if (is_kept(command) && strncmp(command - 5, "lua] ", 5) != 0) {
            if (records)
                keep(tape, command);
            else
                tape->unrecorded_n++;
        }
        freeReplyObject(shown);
    }
}

struct tape *tape_open(const char *path)
{
    struct tape *tape = calloc(1, sizeof(*tape));
    if (!tape)
        die("tape: no memory");
    tape->monitor = connect_to(path);
    tape->ask = connect_to(path);
    freeReplyObject(answer(redisCommand(tape->monitor, "MONITOR")));
    return tape;
}

void tape_close(struct tape *tape)
{
    if (!tape)
        return;
    for (size_t i = 0; i < tape->n; i++)
        free(tape->lines[i]);
    free(tape->lines);
    redisFree(tape->monitor);
    redisFree(tape->ask);
    free(tape);
}

size_t tape_n(struct tape *tape)
{
    wind(tape, true);
    return tape->n;
}

size_t tape_unrecorded_n(const struct tape *tape)
{
    return tape->unrecorded_n;
}

const char *tape_text(const struct tape *tape, size_t i)
{
    return tape->lines[i];
}

void tape_replay(struct tape *tape, size_t i)
{
    redisReply *reply;

    (void)redisAppendFormattedCommand(tape->ask, tape->lines[i],
                                      strlen(tape->lines[i]));
    (void)redisAppendFormattedCommand(tape->ask, "\r\n", 2);
    if (redisGetReply(tape->ask, (void **)&reply) != REDIS_OK)
        die("tape: replay");
    freeReplyObject(reply);
    wind(tape, false);
}

static void run_script(struct tape *tape, const char *script, const char *key)
{
    freeReplyObject(
        answer(redisCommand(tape->ask, "EVAL %s 0 *%s*", script, key)));
    wind(tape, false);
}

void tape_save(struct tape *tape, const char *key)
{
    run_script(tape,
               "for _, k in ipairs(redis.call('keys', ARGV[1])) do "
               "redis.call('copy', k, 'saved:' .. k, 'replace') end",
               key);
}

void tape_restore(struct tape *tape, const char *key)
{
    run_script(tape,
               "for _, k in ipairs(redis.call('keys', ARGV[1])) do "
               "if string.sub(k, 1, 6) ~= 'saved:' then "
               "redis.call('del', k) end end "
               "for _, k in ipairs(redis.call('keys', 'saved:' .. ARGV[1])) do "
               "redis.call('rename', k, string.sub(k, 7)) end",
               key);
}

void tape_state(struct tape *tape, const char *key, char text[], size_t size,
                bool *exists)
{
    redisReply *value = answer(redisCommand(tape->ask, "DUMP %s", key));
    redisReply *ends = answer(redisCommand(tape->ask, "PEXPIRETIME %s", key));
    size_t used;

    *exists = value->type == REDIS_REPLY_STRING;
    used = (size_t)snprintf(text, size, "%lld ", ends->integer);
    for (size_t i = 0; *exists && i < value->len && used + 2 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%02x",
                                 (unsigned char)value->str[i]);
    freeReplyObject(value);
    freeReplyObject(ends);
    wind(tape, false);
}

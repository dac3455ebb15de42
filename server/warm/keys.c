/*
 * hiredis, and nothing but hiredis. The lock library keeps its own connections
 * to itself, and what is said here is worth less than a lock: whatever goes
 * wrong, the connection is dropped, the warmer counts anew, and nobody waits.
 *
 * Scripts are loaded with each connection and called by their hash. A server
 * that has lost them answers an error, and like every other error that is the
 * end of the connection.
 */
#include "server/warm/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/log.h"

#define KEYS_CHUNK        256 /* commands in one round trip */
#define KEYS_PAUSE_MS_MIN 100 /* between two attempts to connect */
#define KEYS_PAUSE_MS_MAX 1000
#define KEYS_WORDS_MAX    (5 + 2 * STORE_SEGMENTS_MAX)
#define KEYS_WORD_BYTES   64 /* a key, a number or a hash */
#define KEYS_SHA_BYTES    40

struct keys {
    const struct warm_options *options;
    char host[256]; /* or the socket's path */
    int port;       /* 0 = a Unix socket */
    unsigned timeout_ms;
    redisContext *redis; /* NULL = away */
    char sha[2][KEYS_SHA_BYTES + 1];
    bool said_away;
    uint64_t again_ms; /* not before that */
    uint64_t pause_ms;
    char text[KEYS_WORDS_MAX][KEYS_WORD_BYTES]; /* of the command to be sent */
    const char *words[KEYS_WORDS_MAX];
    int words_n;
};

static const struct {
    const char *step;
    const char *text;
} scripts[] = {
    [KEYS_LOAD] =
        {
            "warm-load",
#include "server/warm/load.lua.inc"
        },
    [KEYS_TAKE] =
        {
            "warm-take",
#include "server/warm/take.lua.inc"
        },
};

/* ---- where it is ---------------------------------------------------------- */

/* "unix:PATH", "redis://HOST:PORT", "redis://[V6]:PORT", up to a comma. */
static bool parse(const char *url, struct keys *keys)
{
    const char *unix_scheme = "unix:", *tcp_scheme = "redis://";
    char *colon;

    snprintf(keys->host, sizeof(keys->host), "%.*s", (int)strcspn(url, ","),
             url);
    if (strncmp(keys->host, unix_scheme, strlen(unix_scheme)) == 0) {
        memmove(keys->host, keys->host + strlen(unix_scheme),
                strlen(keys->host) - strlen(unix_scheme) + 1);
        return true;
    }
    colon = strrchr(keys->host, ':');
    if (strncmp(keys->host, tcp_scheme, strlen(tcp_scheme)) != 0 || !colon)
        return false;
    keys->port = atoi(colon + 1);
    *colon = '\0';
    url = keys->host + strlen(tcp_scheme);
    if (*url == '[' && colon[-1] == ']') {
        url++;
        colon[-1] = '\0';
    }
    memmove(keys->host, url, strlen(url) + 1);
    return keys->port > 0 && keys->port <= 65535;
}

struct keys *keys_open(const struct warm_options *options, unsigned timeout_ms)
{
    struct keys *keys = calloc(1, sizeof(*keys));

    if (!keys)
        return NULL;
    keys->options = options;
    keys->timeout_ms = timeout_ms;
    if (parse(options->redis_url, keys))
        return keys;
    free(keys);
    return NULL;
}

void keys_close(struct keys *keys)
{
    if (!keys)
        return;
    if (keys->redis)
        redisFree(keys->redis);
    free(keys);
}

/* ---- the connection ------------------------------------------------------- */

/* Drops it; one line when it was there, and a longer pause when it was not. */
static bool drop(struct keys *keys, const char *why)
{
    char text[200];

    if (!keys->said_away)
        log_warn("warm", "redis=away error=%s",
                 log_quote(why, text, sizeof(text)));
    keys->said_away = true;
    if (keys->redis)
        redisFree(keys->redis);
    keys->redis = NULL;
    keys->pause_ms = 2 * keys->pause_ms;
    if (keys->pause_ms < KEYS_PAUSE_MS_MIN)
        keys->pause_ms = KEYS_PAUSE_MS_MIN;
    if (keys->pause_ms > KEYS_PAUSE_MS_MAX)
        keys->pause_ms = KEYS_PAUSE_MS_MAX;
    keys->again_ms = clock_ms() + keys->pause_ms;
    return false;
}

static bool drop_failed(struct keys *keys)
{
    if (!keys->redis)
        return drop(keys, "out of memory");
    return drop(keys, keys->redis->err == REDIS_ERR_IO && errno == EAGAIN
                          ? "timed out"
                          : keys->redis->errstr);
}

/* An answer that is of this type; otherwise the connection has gone. */
static redisReply *answer_of(struct keys *keys, int type)
{
    void *raw = NULL;
    redisReply *reply;

    if (redisGetReply(keys->redis, &raw) != REDIS_OK) {
        drop_failed(keys);
        return NULL;
    }
    reply = raw;
    if (reply->type == type)
        return reply;
    drop(keys, reply->type == REDIS_REPLY_ERROR ? reply->str
                                                : "an answer of another kind");
    freeReplyObject(reply);
    return NULL;
}

static bool load_script(struct keys *keys, enum keys_verb verb)
{
    const char *words[] = {"SCRIPT", "LOAD", scripts[verb].text};
    redisReply *reply;

    if (redisAppendCommandArgv(keys->redis, 3, words, NULL) != REDIS_OK)
        return drop_failed(keys);
    reply = answer_of(keys, REDIS_REPLY_STRING);
    if (!reply)
        return false;
    snprintf(keys->sha[verb], sizeof(keys->sha[verb]), "%s", reply->str);
    freeReplyObject(reply);
    return true;
}

static bool connect_now(struct keys *keys)
{
    struct timeval timeout = {
        .tv_sec = (time_t)(keys->timeout_ms / 1000),
        .tv_usec = (suseconds_t)(keys->timeout_ms % 1000) * 1000};

    if (keys->port)
        keys->redis = redisConnectWithTimeout(keys->host, keys->port, timeout);
    else
        keys->redis = redisConnectUnixWithTimeout(keys->host, timeout);
    if (!keys->redis || keys->redis->err ||
        redisSetTimeout(keys->redis, timeout) != REDIS_OK)
        return drop_failed(keys);
    (void)fcntl(keys->redis->fd, F_SETFD, FD_CLOEXEC);
    return load_script(keys, KEYS_LOAD) && load_script(keys, KEYS_TAKE);
}

bool keys_ready(struct keys *keys, bool *fresh)
{
    *fresh = false;
    if (keys->redis)
        return true;
    if (clock_ms() < keys->again_ms || !connect_now(keys))
        return false;
    if (keys->said_away)
        log_info("warm", "redis=back");
    keys->said_away = false;
    keys->pause_ms = 0;
    *fresh = true;
    return true;
}

uint64_t keys_again_ms(const struct keys *keys)
{
    return keys->again_ms;
}

/* ---- commands ------------------------------------------------------------- */

/* False: the hook wants it to have failed. */
static bool step(struct keys *keys, const struct keys_command *command,
                 enum warm_phase phase)
{
    const struct warm_options *options = keys->options;

    return !options->on_step ||
           options->on_step(options->on_step_ctx, scripts[command->verb].step,
                            command->product_id, phase) == WARM_GO;
}

__attribute__((format(printf, 2, 3))) static void
add_word(struct keys *keys, const char *format, ...)
{
    char *text = keys->text[keys->words_n];
    va_list args;

    va_start(args, format);
    vsnprintf(text, KEYS_WORD_BYTES, format, args);
    va_end(args);
    keys->words[keys->words_n++] = text;
}

static void add_number(struct keys *keys, int64_t number)
{
    add_word(keys, "%" PRId64, number);
}

/* All keys that there can be, if all is known that is to be in them. */
static void add_keys(struct keys *keys, const struct keys_command *command)
{
    int64_t n = command->cells ? STORE_SEGMENTS_MAX : 1;

    add_number(keys, n);
    for (int64_t i = 0; i < n; i++)
        add_word(keys, "stock:{%" PRId64 ":%" PRId64 "}", command->product_id,
                 command->segment + i);
}

static bool append(struct keys *keys, const struct keys_command *command)
{
    const struct store_cells *cells = command->cells;

    keys->words_n = 0;
    add_word(keys, "EVALSHA");
    add_word(keys, "%s", keys->sha[command->verb]);
    add_keys(keys, command);
    add_number(keys, command->epoch);
    if (command->verb == KEYS_LOAD)
        add_number(keys, command->order);
    if (!cells)
        add_number(keys, command->units);
    for (size_t i = 0; cells && i < cells->n; i++)
        add_number(keys, cells->cells[i].stock);
    return redisAppendCommandArgv(keys->redis, keys->words_n, keys->words,
                                  NULL) == REDIS_OK;
}

/* {code, number, order}: the scripts say what they mean. */
static bool understand(struct keys_command *command, const redisReply *reply)
{
    const enum keys_answer answers[] = {KEYS_DONE, KEYS_STALE, KEYS_MISSING,
                                        KEYS_OTHERS};
    int64_t values[3];

    if (reply->elements != 3)
        return false;
    for (size_t i = 0; i < 3; i++) {
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            return false;
        values[i] = reply->element[i]->integer;
        if (values[i] < 0 || values[i] > STORE_NUMBER_MAX)
            return false;
    }
    if (values[0] > 3)
        return false;
    command->answer = answers[values[0]];
    command->number = values[1];
    if (command->verb == KEYS_TAKE)
        command->order = values[2];
    return true;
}

static bool hear(struct keys *keys, struct keys_command *command)
{
    redisReply *reply = answer_of(keys, REDIS_REPLY_ARRAY);
    const char *why = NULL;

    if (!reply)
        return false;
    if (!step(keys, command, WARM_AFTER))
        why = "the answer was lost on purpose";
    else if (!understand(command, reply))
        why = "an answer that makes no sense";
    freeReplyObject(reply);
    return !why || drop(keys, why);
}

static bool run_chunk(struct keys *keys, struct keys_command commands[],
                      size_t n)
{
    uint64_t until_ms = clock_ms() + keys->timeout_ms;

    for (size_t i = 0; i < n; i++) {
        if (!step(keys, &commands[i], WARM_BEFORE))
            return drop(keys, "failed on purpose");
        if (!append(keys, &commands[i]))
            return drop_failed(keys);
    }
    for (size_t i = 0; i < n; i++)
        commands[i].answer = KEYS_UNKNOWN;
    for (size_t i = 0; i < n; i++) {
        if (!hear(keys, &commands[i]))
            return false;
        if (i + 1 < n && clock_ms() > until_ms)
            return drop(keys, "too slow");
    }
    return true;
}

/* Who watches the steps wants them one by one. */
bool keys_run(struct keys *keys, struct keys_command commands[], size_t n)
{
    size_t chunk = keys->options->on_step ? 1 : KEYS_CHUNK;

    for (size_t i = 0; i < n; i++)
        commands[i].answer = KEYS_UNSENT;
    for (size_t at = 0; at < n; at += chunk) {
        if (!keys->redis ||
            !run_chunk(keys, commands + at, n - at < chunk ? n - at : chunk))
            return false;
    }
    return true;
}

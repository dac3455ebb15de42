/*
 * The yardstick: what a lock's commands cost when nobody thinks about them. A
 * cycle of the library is overheard (MONITOR), twice; then hiredis sends the
 * same arguments in a bare loop. An argument that differed between the two is
 * a number that rises (an attempt), and goes on rising in the loop, or else
 * the scripts would take every cycle for a copy of the first and do less.
 */
#include "tests/bench/bench_raw.h"

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    COMMANDS_MAX = 8,
    ARGS_MAX = 16,
    ARG_BYTES_MAX = 8191, /* a textbook's script goes as text */
};

static const char heard_name[] = "bench:h";

struct command {
    int args_n;
    char args[ARGS_MAX][ARG_BYTES_MAX + 1];
    long long step[ARGS_MAX]; /* by which it rises per cycle; 0 = it does not */
};

struct cycle {
    int commands_n;
    struct command commands[COMMANDS_MAX];
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench: raw: %s\n", what);
    abort();
}

static redisContext *connect_to(const struct redis_server *server)
{
    redisContext *context =
        redisConnectUnix(redis_server_url(server) + strlen("unix:"));

    if (context == NULL || context->err != 0)
        die("connect");
    return context;
}

/* Overhearing -------------------------------------------------------------- */

/* One "quoted \"word\"" of a line of MONITOR; what follows it, or NULL. */
static const char *read_word(const char *from, char *word)
{
    size_t len = 0;

    if (*from++ != '"')
        return NULL;
    for (; *from != '"' && *from != '\0'; from++) {
        if (len == ARG_BYTES_MAX)
            die("an argument is too long");
        if (*from == '\\' && *++from == 'n')
            word[len] = '\n';
        else
            word[len] = *from;
        len++;
    }
    word[len] = '\0';
    return *from == '"' ? from + 1 : NULL;
}

/* "1700000000.123456 [0 unix:PATH] "SET" ..."; false: not sent by a client. */
static bool read_line(const char *line, struct command *command)
{
    const char *at = strchr(line, ']');

    command->args_n = 0;
    if (at == NULL || strstr(line, " lua] ") != NULL)
        return false;
    at++;
    while (at != NULL && *at == ' ' && command->args_n < ARGS_MAX)
        at = read_word(at + 1, command->args[command->args_n++]);
    return command->args_n > 0 && strcmp(command->args[0], "PING") != 0;
}

/* What is sent until the ECHO that says it is over. */
static void listen_to(redisContext *monitor, struct cycle *cycle)
{
    cycle->commands_n = 0;
    for (;;) {
        struct command *command = &cycle->commands[cycle->commands_n];
        redisReply *reply = NULL;
        bool heard;

        if (redisGetReply(monitor, (void **)&reply) != REDIS_OK)
            die("monitor");
        heard = read_line(reply->str, command);
        freeReplyObject(reply);
        if (heard && strcasecmp(command->args[0], "ECHO") == 0)
            return;
        if (heard && ++cycle->commands_n == COMMANDS_MAX)
            die("too many commands in a cycle");
    }
}

void bench_cycle(struct dlock_session *session, const char *name)
{
    const struct dlock_terms terms = {.lease_ms = 30000};
    struct dlock_grant grant;

    if (dlock_acquire(session, name, &terms, &grant, NULL) != DLOCK_OK ||
        dlock_release(session, &grant, NULL) != DLOCK_OK)
        die("the library's cycle");
}

/* Where the two cycles differ there is a number, and it rises. */
static void find_steps(struct cycle *first, const struct cycle *second)
{
    if (first->commands_n != second->commands_n || first->commands_n == 0)
        die("two cycles are not alike");
    for (int i = 0; i < first->commands_n; i++)
        for (int j = 0; j < first->commands[i].args_n; j++)
            first->commands[i].step[j] =
                strtoll(second->commands[i].args[j], NULL, 10) -
                strtoll(first->commands[i].args[j], NULL, 10);
}

static void overhear(const struct redis_server *server,
                     struct dlock_session *session, struct cycle *cycle)
{
    redisContext *monitor = connect_to(server);
    struct cycle second;

    memset(cycle, 0, sizeof(*cycle));
    bench_cycle(session, heard_name); /* connects and loads scripts */
    freeReplyObject(redisCommand(monitor, "MONITOR"));
    bench_cycle(session, heard_name);
    redis_server_tell(server, "ECHO over");
    listen_to(monitor, cycle);
    bench_cycle(session, heard_name);
    redis_server_tell(server, "ECHO over");
    listen_to(monitor, &second);
    find_steps(cycle, &second);
    redisFree(monitor);
}

/* The bare loop ------------------------------------------------------------ */

struct bench_raw {
    redisContext *context;
    struct cycle cycle; /* with a name of its own */
};

/* Another name, of the same length: the same work. */
static void make_own(struct cycle *cycle, unsigned number)
{
    for (int i = 0; i < cycle->commands_n; i++)
        for (int j = 0; j < cycle->commands[i].args_n; j++) {
            char *arg = cycle->commands[i].args[j];
            char *name = strstr(arg, heard_name);

            if (name != NULL)
                name[strlen(heard_name) - 1] = (char)('0' + number);
        }
}

static void send_one(redisContext *context, struct command *command)
{
    const char *args[ARGS_MAX];
    redisReply *reply;

    for (int i = 0; i < command->args_n; i++) {
        if (command->step[i] != 0)
            (void)snprintf(command->args[i], sizeof(command->args[i]), "%lld",
                           strtoll(command->args[i], NULL, 10) +
                               command->step[i]);
        args[i] = command->args[i];
    }
    reply = redisCommandArgv(context, command->args_n, args, NULL);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        die(reply == NULL ? "no reply" : reply->str);
    freeReplyObject(reply);
}

struct bench_raw *bench_raw_open(const struct redis_server *server,
                                 struct dlock_session *session, unsigned number)
{
    struct bench_raw *raw = calloc(1, sizeof(*raw));

    if (raw == NULL)
        die("no memory");
    overhear(server, session, &raw->cycle);
    make_own(&raw->cycle, number);
    raw->context = connect_to(server);
    return raw;
}

void bench_raw_cycle(struct bench_raw *raw)
{
    for (int i = 0; i < raw->cycle.commands_n; i++)
        send_one(raw->context, &raw->cycle.commands[i]);
}

void bench_raw_close(struct bench_raw *raw)
{
    redisFree(raw->context);
    free(raw);
}

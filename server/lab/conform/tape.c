/*
 * MONITOR shows each command with its arguments quoted, as the server itself
 * takes them when they are typed in. So a line of it can be sent as it is.
 */
#include "server/lab/conform/tape.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct tape {
    FILE *monitor; /* what the server shows */
    FILE *ask;     /* a connection for our own commands */
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

static FILE *connect_to(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FILE *file;

    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        die("tape: connect");
    file = fdopen(fd, "r");
    if (!file)
        die("tape: fdopen");
    return file;
}

static void say(FILE *file, const char *line)
{
    if (dprintf(fileno(file), "%s\r\n", line) < 0)
        die("tape: write");
}

static bool begins_with(const char *text, const char *start)
{
    size_t n = strlen(start);

    return strncmp(text, start, n) == 0;
}

/* Sends COMMAND and one that marks the end of its reply, which goes to REPLY. */
static void ask(struct tape *tape, const char *command, char reply[],
                size_t size)
{
    char mark[40], *line = NULL;
    size_t room = 0, used = 0;
    ssize_t got;

    (void)snprintf(mark, sizeof(mark), "ECHO tape-mark-%08u", ++tape->marks);
    say(tape->ask, command);
    say(tape->ask, mark);
    while ((got = getline(&line, &room, tape->ask)) > 0 &&
           !begins_with(line, mark + 5))
        for (ssize_t i = 0; i < got && used + 3 < size; i++)
            used += (size_t)snprintf(reply + used, size - used,
                                     isprint((unsigned char)line[i]) ? "%c"
                                                                     : "%02x",
                                     (unsigned char)line[i]);
    if (got <= 0)
        die("tape: read");
    free(line);
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

/* Takes what was shown up to our own last mark; RECORDS it, or not. */
static void wind(struct tape *tape, bool records)
{
    char mark[40], *line = NULL, *command;
    size_t room = 0;

    (void)snprintf(mark, sizeof(mark), "\"ECHO\" \"tape-mark-%08u\"",
                   tape->marks);
    for (;;) {
        if (getline(&line, &room, tape->monitor) <= 0)
            die("tape: monitor");
        command = strstr(line, "] ");
        if (!command)
            continue;
        command += 2;
        if (strncmp(command, mark, strlen(mark)) == 0)
            break;
        /* "[0 lua]": a script has called it. */
        if (strncmp(command - 5, "lua] ", 5) == 0 || !is_kept(command))
            continue;
        if (records)
            keep(tape, command);
        else
            tape->unrecorded_n++;
    }
    free(line);
}

struct tape *tape_open(const char *path)
{
    struct tape *tape = calloc(1, sizeof(*tape));
    char line[16];

    if (!tape)
        die("tape: no memory");
    tape->monitor = connect_to(path);
    tape->ask = connect_to(path);
    say(tape->monitor, "MONITOR");
    if (!fgets(line, sizeof(line), tape->monitor))
        die("tape: MONITOR");
    return tape;
}

void tape_close(struct tape *tape)
{
    if (!tape)
        return;
    for (size_t i = 0; i < tape->n; i++)
        free(tape->lines[i]);
    free(tape->lines);
    (void)fclose(tape->monitor);
    (void)fclose(tape->ask);
    free(tape);
}

size_t tape_n(struct tape *tape)
{
    char reply[64];

    ask(tape, "PING", reply, sizeof(reply));
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
    char reply[64];

    ask(tape, tape->lines[i], reply, sizeof(reply));
    wind(tape, false);
}

static void run_script(struct tape *tape, const char *script, const char *key)
{
    char command[600], reply[64];

    (void)snprintf(command, sizeof(command), "EVAL \"%s\" 0 *%s*", script, key);
    ask(tape, command, reply, sizeof(reply));
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
    char command[600];
    size_t used;

    (void)snprintf(command, sizeof(command), "DUMP %s", key);
    ask(tape, command, text, size);
    *exists = strncmp(text, "$-1", 3) != 0;
    used = strlen(text);
    (void)snprintf(command, sizeof(command), "PEXPIRETIME %s", key);
    ask(tape, command, text + used, size - used);
    wind(tape, false);
}

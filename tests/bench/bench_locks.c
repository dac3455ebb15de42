/*
 * `make bench-locks`: what a lock costs without contention. Nothing here passes
 * or fails; it measures.
 *
 * Connections take and give names of their own, by turns through the library
 * and raw: some cycles each, on the same thread, so that a machine which is
 * busy now and idle then is so for both. The ratio is that of the library's
 * rate to the raw one's. Its range over the rounds is printed with it: a ratio
 * means something when that range is narrow.
 *
 * The yardstick is what a lock's commands cost when nobody thinks about them: a cycle of
 * the library is overheard (MONITOR), twice; then hiredis sends the same arguments in a
 * bare loop. An argument that differed between the two is a number that rises (an
 * attempt), and goes on rising in the loop, or else the scripts would take every cycle
 * for a copy of the first and do less.
 */
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lock/textbook/textbook.h"
#include "server/base/clock.h"
#include "tests/support/redis_server.h"

enum {
    COMMANDS_MAX = 8,
    ARGS_MAX = 32,
};

static const char heard_name[] = "bench:h";

/* Its words stay for ever. */
struct command {
    int args_n;
    sds *args;
    long long step[ARGS_MAX]; /* by which it rises per cycle; 0 = it does not */
};

struct cycle {
    int commands_n;
    struct command commands[COMMANDS_MAX];
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
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

/* The next command that a client sends, in words of its own; false: it is the ECHO that
 * says it is over. A script's commands have "lua" for an address. */
static bool hear(redisContext *monitor, struct command *command)
{
    bool is_of_script;

    do {
        redisReply *reply = NULL;

        if (redisGetReply(monitor, (void **)&reply) != REDIS_OK)
            die("monitor");
        is_of_script = strstr(reply->str, " lua] ") != NULL;
        command->args =
            sdssplitargs(strchr(reply->str, ']') + 1, &command->args_n);
        freeReplyObject(reply);
    } while (is_of_script || strcasecmp(command->args[0], "PING") == 0);
    return strcasecmp(command->args[0], "ECHO") != 0;
}

static void listen_to(redisContext *monitor, struct cycle *cycle)
{
    cycle->commands_n = 0;
    while (hear(monitor, &cycle->commands[cycle->commands_n]))
        if (++cycle->commands_n == COMMANDS_MAX)
            die("too many commands in a cycle");
}

/* Takes NAME and gives it back. */
static void lib_cycle(struct dlock_session *session, const char *name)
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
    for (int i = 0; i < first->commands_n; i++) {
        struct command *command = &first->commands[i];
        const struct command *other = &second->commands[i];

        if (command->args_n != other->args_n || command->args_n > ARGS_MAX)
            die("two commands are not alike");
        for (int j = 0; j < command->args_n; j++)
            command->step[j] = strtoll(other->args[j], NULL, 10) -
                               strtoll(command->args[j], NULL, 10);
    }
}

static void overhear(const struct redis_server *server,
                     struct dlock_session *session, struct cycle *cycle)
{
    redisContext *monitor = connect_to(server);
    struct cycle second;

    memset(cycle, 0, sizeof(*cycle));
    lib_cycle(session, heard_name); /* connects and loads scripts */
    freeReplyObject(redisCommand(monitor, "MONITOR"));
    lib_cycle(session, heard_name);
    redis_server_tell(server, "ECHO over");
    listen_to(monitor, cycle);
    lib_cycle(session, heard_name);
    redis_server_tell(server, "ECHO over");
    listen_to(monitor, &second);
    find_steps(cycle, &second);
    redisFree(monitor);
}

/* The bare loop ------------------------------------------------------------ */

struct raw {
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
    redisReply *reply;

    for (int i = 0; i < command->args_n; i++) {
        sds *arg = &command->args[i];
        long long number;

        if (command->step[i] == 0)
            continue;
        number = strtoll(*arg, NULL, 10) + command->step[i];
        sdsclear(*arg);
        *arg = sdscatprintf(*arg, "%lld", number);
    }
    reply = redisCommandArgv(context, command->args_n,
                             (const char **)command->args, NULL);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        die(reply == NULL ? "no reply" : reply->str);
    freeReplyObject(reply);
}

/* Overhears SESSION, while nobody else asks SERVER. The raw cycles are of the name
 * "bench:NUMBER" (below 10). */
static struct raw *raw_open(const struct redis_server *server,
                            struct dlock_session *session, unsigned number)
{
    struct raw *raw = calloc(1, sizeof(*raw));

    if (raw == NULL)
        die("no memory");
    overhear(server, session, &raw->cycle);
    make_own(&raw->cycle, number);
    raw->context = connect_to(server);
    return raw;
}

static void raw_cycle(struct raw *raw)
{
    for (int i = 0; i < raw->cycle.commands_n; i++)
        send_one(raw->context, &raw->cycle.commands[i]);
}

static void raw_close(struct raw *raw)
{
    redisFree(raw->context);
    free(raw);
}

/* Measuring ---------------------------------------------------------------- */

enum {
    ROUNDS = 5,
    SLICE_MS = 300,
    TURN_CYCLES = 50, /* before it is the other one's turn */
    CYCLES_COUNTED = 200,
    THREADS_MAX = 8,
};

static const char *const locks[] = {"set-nx-px", "token-lua", "spin",
                                    "redisson",  "fair",      "fenced"};
static const unsigned threads[] = {1, THREADS_MAX};

enum { LOCKS_N = sizeof(locks) / sizeof(locks[0]) };

/* Cycles a second, of each round. */
struct cost {
    double lib[ROUNDS], raw[ROUNDS], ratio[ROUNDS];
};

/* Per cycle: commands sent, and executed by the server, scripts' included. */
struct commands {
    double sent, executed;
};

struct runner {
    pthread_t thread;
    struct dlock_session *session;
    struct raw *raw;
    unsigned long long cycles, lib_us, raw_us;
    char name[32];
};

static atomic_uint_fast64_t steps_n;

static enum dlock_verdict count_step(void *ctx, const struct dlock_step *step)
{
    if (step->phase == DLOCK_BEFORE)
        (void)atomic_fetch_add(&steps_n, 1);
    return DLOCK_GO;
}

static struct dlock *open_client(const struct redis_server *server,
                                 const char *strategy)
{
    const struct dlock_options options = {.strategy = strategy,
                                          .url = redis_server_url(server),
                                          .on_step = count_step};
    struct dlock *client;

    if (dlock_open(&options, &client, NULL) != DLOCK_OK)
        die("open");
    return client;
}

static struct dlock_session *open_session(struct dlock *client)
{
    struct dlock_session *session;

    if (dlock_session_open(client, &session, NULL) != DLOCK_OK)
        die("session");
    return session;
}

static void *run(void *arg)
{
    struct runner *runner = arg;
    uint64_t until_ms = clock_ms() + SLICE_MS;

    while (clock_ms() < until_ms) {
        uint64_t began_us = clock_us(), between_us;

        for (int i = 0; i < TURN_CYCLES; i++)
            lib_cycle(runner->session, runner->name);
        between_us = clock_us();
        for (int i = 0; i < TURN_CYCLES; i++)
            raw_cycle(runner->raw);
        runner->lib_us += between_us - began_us;
        runner->raw_us += clock_us() - between_us;
        runner->cycles += TURN_CYCLES;
    }
    return NULL;
}

static void measure_round(const struct redis_server *server,
                          const char *strategy, unsigned threads_n,
                          struct cost *cost, unsigned round)
{
    struct dlock *client = open_client(server, strategy);
    struct runner runners[THREADS_MAX] = {{.cycles = 0}};

    for (unsigned i = 0; i < threads_n; i++) {
        runners[i].session = open_session(client);
        runners[i].raw = raw_open(server, runners[i].session, i);
        (void)snprintf(runners[i].name, sizeof(runners[i].name), "bench:%u", i);
    }
    for (unsigned i = 0; i < threads_n; i++)
        (void)pthread_create(&runners[i].thread, NULL, run, &runners[i]);
    for (unsigned i = 0; i < threads_n; i++) {
        struct runner *runner = &runners[i];
        double cycles;

        (void)pthread_join(runner->thread, NULL);
        cycles = 1e6 * (double)runner->cycles;
        cost->lib[round] += cycles / (double)runner->lib_us;
        cost->raw[round] += cycles / (double)runner->raw_us;
        raw_close(runner->raw);
        dlock_session_close(runner->session);
    }
    cost->ratio[round] = cost->lib[round] / cost->raw[round];
    dlock_close(client);
}

static struct commands count_commands(const struct redis_server *server,
                                      const char *strategy)
{
    static const char ever[] = "total_commands_processed:";
    struct dlock *client = open_client(server, strategy);
    struct dlock_session *session = open_session(client);
    struct commands commands;
    long long executed;

    lib_cycle(session, "bench:count"); /* connects and loads scripts */
    executed = redis_server_info(server, "stats", ever);
    atomic_store(&steps_n, 0);
    for (unsigned i = 0; i < CYCLES_COUNTED; i++)
        lib_cycle(session, "bench:count");
    commands.sent = (double)atomic_load(&steps_n) / CYCLES_COUNTED;
    /* One of them is the question itself. */
    executed = redis_server_info(server, "stats", ever) - executed - 1;
    commands.executed = (double)executed / CYCLES_COUNTED;
    dlock_session_close(session);
    dlock_close(client);
    return commands;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Sorts as well. */
static double median(double *rounds)
{
    qsort(rounds, ROUNDS, sizeof(rounds[0]), compare);
    return rounds[ROUNDS / 2];
}

static void print_row(const char *lock, unsigned threads_n, struct cost *cost,
                      struct commands commands)
{
    double ratio = median(cost->ratio);

    printf("%-12s %4u %10.0f %10.0f %6.3f %5.2f-%-5.2f %6.2f %9.2f\n", lock,
           threads_n, median(cost->lib), median(cost->raw), ratio,
           cost->ratio[0], cost->ratio[ROUNDS - 1], commands.sent,
           commands.executed);
}

int main(void)
{
    static struct cost costs[LOCKS_N][2];
    struct commands commands[LOCKS_N];
    struct redis_server *server = redis_server_start();

    dlock_register_all();
    for (int i = 0; i < LOCKS_N; i++)
        commands[i] = count_commands(server, locks[i]);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2 * LOCKS_N; i++) {
            fprintf(stderr, "\rround %u of %d, %-12s", round + 1, ROUNDS,
                    locks[i / 2]);
            measure_round(server, locks[i / 2], threads[i % 2],
                          &costs[i / 2][i % 2], round);
        }
    redis_server_stop(server);
    fprintf(stderr, "\r%40s\r", "");
    printf("%-12s %4s %10s %10s %6s %11s %6s %9s\n", "lock", "conn", "cycles/s",
           "raw/s", "ratio", "range", "sent", "executed");
    for (int i = 0; i < 2 * LOCKS_N; i++)
        print_row(i % 2 ? "" : locks[i / 2], threads[i % 2],
                  &costs[i / 2][i % 2], commands[i / 2]);
    return 0;
}

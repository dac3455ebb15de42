/* See site.h. */
#include "server/lab/load/site.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/child.h"
#include "server/base/clock.h"
#include "server/base/redis_proc.h"
#include "server/lab/servers/peek.h"

enum {
    READY_MS = 30000,
    END_MS = 5000,
    STOP_MS = 10000,
    TURN_MS = 20,
    INFO_BYTES_MAX = 65536,
    ARGS_MAX = 48
};

struct site site;

bool site_goes_on(void)
{
    return !site.is_interrupted || !site.is_interrupted() ||
           site_fail("interrupted");
}

/* kill -9, if it has not ended by itself. */
static void reap(struct site_instance *instance)
{
    pid_t ended;

    /* The child was not waited for yet: its pid is still its own. */
    if (instance->pid > 0) {
        (void)kill(instance->pid, SIGKILL);
        do
            ended = waitpid(instance->pid, NULL, 0);
        while (ended < 0 && errno == EINTR);
    }
    if (instance->log >= 0)
        (void)close(instance->log);
    instance->pid = 0;
    instance->log = -1;
    instance->state = SITE_GONE;
}

/* Opening and closing ---------------------------------------------------------- */

bool site_open(bool (*is_interrupted)(void))
{
    char path[sizeof(site.folder.path) + 8];

    /* A run before this one has left its errors and states here. */
    site = (struct site){.is_interrupted = is_interrupted};
    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++)
        site.instances[i].log = -1;
    if (!folder_open(&site.folder, FOLDER_IN_MEMORY, "load", &site.error))
        return false;
    (void)snprintf(site.db_url, sizeof(site.db_url), "sqlite:%s/db",
                   site.folder.path);
    (void)snprintf(path, sizeof(path), "%s/locks", site.folder.path);
    (void)mkdir(path, 0700); /* without it there is no place for the socket */
    site.redis =
        redis_proc_start(path, site.error.text, sizeof(site.error.text));
    return site.redis;
}

void site_close(void)
{
    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++)
        reap(&site.instances[i]);
    redis_proc_stop(site.redis);
    site.redis = NULL;
    folder_close(&site.folder);
}

/* Instances -------------------------------------------------------------------- */

/* Not the settings that somebody has made for servers of their own: no setting begins in
 * this way. */
static void forget_settings(void)
{
    /* The first letter is enough: the name is another one then. */
    for (char **each = environ; *each; each++)
        if (strncmp(*each, "STOCKADE_", 9) == 0)
            **each = '_';
}

bool site_start(unsigned who, const char *lock, char *flags)
{
    struct site_instance *instance = &site.instances[who];
    char path[PATH_MAX], *rest = NULL;
    const char *argv[ARGS_MAX + 1] = {
        path,        "serve",       "--listen", "127.0.0.1:0",
        "--db",      site.db_url,   "--redis",  redis_proc_url(site.redis),
        "--no-seed", "--log-level", "info",     "--lock",
        lock};
    int ends[2], n = 13;

    for (char *flag = strtok_r(flags, " ", &rest); flag && n < ARGS_MAX;
         flag = strtok_r(NULL, " ", &rest))
        argv[n++] = flag;
    /* The pipe's ends must not go to the other instances: one would keep the log of
     * another open. */
    if (!child_path("stockade", path) || pipe2(ends, O_CLOEXEC) != 0)
        return site_fail("cannot start a server: %s", strerror(errno));
    *instance = (struct site_instance){.log = ends[0], .state = SITE_STARTS};
    /* The log is read until it is empty: a read must not wait. */
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    /* An instance must end with us, however we end. */
    instance->pid = child_fork(SIGKILL);
    if (instance->pid == 0) {
        forget_settings();
        child_become((char *const *)argv, ends[1]);
    }
    /* Only the instance may have this end: its death is the end of the log. */
    (void)close(ends[1]);
    if (instance->pid > 0)
        return true;
    instance->pid = 0;
    reap(instance);
    return site_fail("cannot start a server: %s", strerror(errno));
}

/* The logs ---------------------------------------------------------------------- */

/* The value of KEY=... in a line of the log, up to a blank. */
static void take_value(const char *line, const char *key, char *value,
                       size_t size)
{
    const char *at = strstr(line, key);

    if (at)
        (void)snprintf(value, size, "%.*s", (int)strcspn(at + strlen(key), " "),
                       at + strlen(key));
}

static void take_line(struct site_instance *instance, const char *line)
{
    char step[40] = "?", phase[16] = "?", action[16] = "?";

    if (strstr(line, " msg=ready ")) {
        take_value(line, " listen=", instance->address,
                   sizeof(instance->address));
        instance->state = SITE_RUNS;
    } else if (!strstr(line, " msg=failpoint ")) {
        (void)snprintf(instance->last, sizeof(instance->last), "%s", line);
    } else {
        take_value(line, " step=", step, sizeof(step));
        take_value(line, " phase=", phase, sizeof(phase));
        take_value(line, " action=", action, sizeof(action));
        (void)snprintf(instance->acted, sizeof(instance->acted), "%s:%s", step,
                       phase);
        instance->has_acted = true;
        /* The word stays after its process has ended: a death at a failpoint is
         * no failure. */
        instance->is_to_crash |= strcmp(action, "crash") == 0;
        if (strcmp(action, "hold") == 0)
            instance->state = SITE_HELD;
        else if (strcmp(action, "stop") == 0)
            instance->state = SITE_STOPPED;
    }
}

/* The end of its log is its own end. */
static void read_log(struct site_instance *instance)
{
    char *line, *end;
    ssize_t n;

    for (;;) {
        if (instance->said_n + 1 >= sizeof(instance->said))
            instance->said_n = 0; /* a line is shorter than 2 KiB: see log.h */
        n = read(instance->log, instance->said + instance->said_n,
                 sizeof(instance->said) - 1 - instance->said_n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        instance->said_n += (size_t)n;
        instance->said[instance->said_n] = '\0';
        /* Whole lines are taken; the rest waits for its end. */
        line = instance->said;
        while ((end = strchr(line, '\n'))) {
            *end = '\0';
            take_line(instance, line);
            line = end + 1;
        }
        instance->said_n = strlen(line);
        if (line != instance->said && instance->said_n > 0)
            memmove(instance->said, line, instance->said_n + 1);
    }
    /* Nothing more will come: the process has ended, or is about to. */
    if (n == 0)
        reap(instance);
}

size_t site_fds(struct pollfd fds[SITE_INSTANCES_MAX])
{
    size_t n = 0;

    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++)
        if (site.instances[i].log >= 0)
            fds[n++] =
                (struct pollfd){.fd = site.instances[i].log, .events = POLLIN};
    return n;
}

void site_read(void)
{
    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++)
        if (site.instances[i].log >= 0)
            read_log(&site.instances[i]);
}

static unsigned count_in(enum site_state state)
{
    unsigned n = 0;

    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++)
        n += site.instances[i].state == state;
    return n;
}

bool site_ready(unsigned who)
{
    const struct site_instance *instance = &site.instances[who];
    uint64_t until_ms = clock_ms() + READY_MS;
    struct pollfd fds[SITE_INSTANCES_MAX];

    while (instance->state == SITE_STARTS) {
        if (clock_ms() > until_ms)
            return site_fail("a server did not come up in %d s",
                             READY_MS / 1000);
        if (!site_goes_on())
            return false;
        (void)poll(fds, site_fds(fds), TURN_MS);
        site_read();
    }
    /* An instance that has ended before it was ready may have left a last line. */
    return *instance->address ||
           site_fail("a server did not come up: %s",
                     *instance->last ? instance->last
                                     : "it has ended without a word");
}

bool site_is_whole(void)
{
    /* The logs say how an instance has ended: nothing of them may be unread. */
    site_read();
    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++) {
        const struct site_instance *instance = &site.instances[i];

        if (instance->state == SITE_GONE && instance->address[0] &&
            !instance->is_to_crash)
            return site_fail("instance %c has ended by itself", 'a' + (int)i);
    }
    return true;
}

/* Going on and ending ---------------------------------------------------------- */

void site_go_on(unsigned who)
{
    struct site_instance *instance = &site.instances[who];
    uint64_t until_ms = clock_ms() + STOP_MS;
    siginfo_t info = {0};

    if (instance->state == SITE_STOPPED) {
        /* It has said in its log that it stops itself: waits until it has. Its end is
         * left for reap() to take. */
        while (clock_ms() < until_ms &&
               waitid(P_PID, (id_t)instance->pid, &info,
                      WSTOPPED | WEXITED | WNOWAIT | WNOHANG) == 0 &&
               info.si_pid == 0)
            (void)poll(NULL, 0, 1);
        (void)kill(instance->pid, SIGCONT);
    } else if (instance->state == SITE_HELD) {
        (void)kill(instance->pid, SIGUSR2);
    }
    /* The state goes on at once: a step that comes next may set it anew. */
    if (instance->pid > 0)
        instance->state = SITE_RUNS;
    instance->has_acted = false;
}

void site_stop_all(void)
{
    uint64_t until_ms = clock_ms() + END_MS;
    struct pollfd fds[SITE_INSTANCES_MAX];

    /* One that cannot act on a SIGTERM, because it is held, stopped or not there yet,
     * is killed. */
    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++)
        if (site.instances[i].state == SITE_RUNS)
            (void)kill(site.instances[i].pid, SIGTERM);
        else
            reap(&site.instances[i]);
    /* Logs are read meanwhile: an instance whose pipe is full would not end. */
    while (count_in(SITE_GONE) < SITE_INSTANCES_MAX && clock_ms() < until_ms) {
        (void)poll(fds, site_fds(fds), TURN_MS);
        site_read();
    }
    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++)
        reap(&site.instances[i]);
}

/* A look from outside ---------------------------------------------------------- */

static void on_line(void *stock, const struct store_audit_line *line)
{
    *(int64_t *)stock += line->stock;
}

bool site_audit(struct store_audit *audit, int64_t *stock)
{
    struct store_reader *reader;
    struct store_error error = {""};
    enum store_status status =
        store_reader_open_url(site.db_url, &reader, &error);

    /* Each look opens the file anew: the servers may have ended, and a journal may
     * be there. */
    if (status == STORE_OK) {
        status = store_audit(reader, on_line, stock, NULL, 0, audit, &error);
        store_reader_close(reader);
    }
    return status == STORE_OK ||
           site_fail("cannot audit %s: %s", site.db_url, error.text);
}

bool site_requests(uint64_t *n)
{
    /* Reads are counted, and not commands: those of a script would be among them. */
    static const char field[] = "total_reads_processed:";
    const char *words[] = {"INFO", "stats"}, *at = NULL;
    char reply[INFO_BYTES_MAX];
    struct peek *peek = peek_open(redis_proc_url(site.redis), &site.error);

    if (peek && peek_send(peek, 2, words, reply, sizeof(reply)))
        at = strstr(reply, field);
    peek_close(peek);
    *n = at ? strtoull(at + strlen(field), NULL, 10) : 0;
    return at || site_fail("redis-server does not answer INFO stats");
}

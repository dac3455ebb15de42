/*
 * Rules that no row of the table can tell: the form of addresses, and which settings
 * do not go together. Each rule answers with what to do instead.
 */
#include "server/base/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lock/textbook/textbook.h"
#include "server/base/address.h"

enum { WRITER_MS_MAX = 5000 }; /* of a FIFO */
enum { CONNECTIONS_MIN = 8 };  /* as in settings.txt */

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0 &&
           text[strlen(prefix)] != '\0';
}

bool config_rules_listen(const char *text, char host[128], char port[6])
{
    int end = 0;

    if (sscanf(text, "[%127[^]]]:%5[0-9]%n", host, port, &end) < 2)
        sscanf(text, "%127[^][:]:%5[0-9]%n", host, port, &end);
    return end && !text[end] && strtol(port, NULL, 10) <= 65535;
}

/* Where the lock lives, if it is not in Redis alone. */
static const char *lock_url_broken(const struct config *c, unsigned lock,
                                   const char **name)
{
    *name = *c->lock_url ? "lock-url" : "lock";
    if (lock & (DLOCK_CAP_SQL | DLOCK_CAP_RECORD))
        return has_prefix(c->lock_url, "mysql:")
                   ? NULL
                   : "this lock needs a database: --lock-url "
                     "mysql:unix:PATH?db=NAME&user=NAME or "
                     "mysql://USER:PASSWORD@HOST:PORT/DB";
    if (lock & DLOCK_CAP_ZK)
        return has_prefix(c->lock_url, "zk:")
                   ? NULL
                   : "this lock needs a ZooKeeper: --lock-url zk:HOST:PORT, "
                     "several with commas between";
    return *c->lock_url ? "is for locks that are not in Redis: see --lock"
                        : NULL;
}

/* The form of one setting's value, where the table cannot say it. Which locks take several
 * Redis, libdlock knows. */
static const char *form_broken(const struct config *c, const char **name)
{
    static struct dlock_error own;
    struct dlock_address one;
    const char *redis = c->redis;
    char host[128], port[6];

    *name = "lock";
    if (dlock_textbook_is_file(c->lock) &&
        dlock_textbook_open(c->lock, false, &own) != DLOCK_OK)
        return own.text;
    if (!dlock_strategy_find(c->lock)) {
        if (strncmp(c->lock, "zk", 2) == 0 ||
            strncmp(c->lock, "sql-", 4) == 0 ||
            strcmp(c->lock, "recorded") == 0)
            return "was left out of this build, for want of "
                   "libzookeeper-mt-dev or libmariadb-dev; install that and "
                   "run make again";
        return "there is no such lock; stockade serve --help lists them";
    }
    /* The rules stand in the order of the settings, and the first that is
     * broken is told: to mend it may mend others. */
    *name = "db";
    if (!has_prefix(c->db, "sqlite:") && !has_prefix(c->db, "mysql:"))
        return "takes sqlite:PATH, mysql://USER@HOST[:PORT]/DB or "
               "mysql:unix:PATH?db=NAME&user=NAME";
    *name = "redis";
    while ((redis = dlock_url_parse(redis, &one)) && *redis)
        redis++; /* a comma */
    if (strcmp(c->redis, "spawn") != 0 && !redis)
        return "takes spawn, unix:PATH, "
               "redis://[USER:PASSWORD@]HOST[:PORT][/DB], "
               "sentinel://HOST,HOST/NAME or cluster://HOST,HOST, each with "
               "its :PORT if it is another; several, with commas between, for "
               "multi and redlock";
    *name = "listen";
    if (!config_rules_listen(c->listen, host, port))
        return "takes HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080, with a "
               "port up to 65535";
    *name = "trusted-proxy";
    if (!address_list_valid(c->trusted_proxy))
        return "takes addresses and networks with commas between, such as "
               "127.0.0.1,10.0.0.0/8,fd00::/8";
    return NULL;
}

/* The setting that is named was given: it is not as by default. */
const char *config_rules_broken(const struct config *c, const char **name)
{
    const char *broken = form_broken(c, name);
    const struct dlock_strategy_info *lock = dlock_strategy_find(c->lock);

    if (broken)
        return broken;
    *name = "trusted-proxy";
    if (*c->trusted_proxy && !*c->admin_token_file)
        return "needs an --admin-token-file: what a proxy on this machine "
               "forwards looks as if it came from here";
    *name = "deduct";
    if (c->deduct == DEDUCT_NAIVE && c->orders == ORDERS_BATCHED)
        return "goes with --orders one-by-one: a batch is one transaction "
               "already";
    *name = "lock-per"; /* a user's lock guards the limit, and no stock */
    if (c->lock_per == LOCK_PER_USER && c->orders == ORDERS_BATCHED)
        return "goes with --orders one-by-one: a batch has orders of many "
               "users";
    if (c->lock_per == LOCK_PER_USER && (lock->capabilities & DLOCK_CAP_FENCED))
        return "goes with a lock without fencing tokens, such as --lock "
               "redisson: the database compares those of a product";
    *name = "shared";
    if (c->shared && strcmp(c->redis, "spawn") == 0 &&
        config_rules_uses_redis(lock))
        return "needs a Redis that all instances use: give --redis unix:PATH "
               "or redis://HOST:PORT, not spawn";
    return lock_url_broken(c, lock->capabilities, name);
}

FILE *config_rules_open(const char *path, const char **why)
{
    /* Without O_NONBLOCK the open of a FIFO would wait for its writer, for ever
     * if none comes. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct pollfd writer = {.fd = fd, .events = POLLIN};
    FILE *file = NULL;
    struct stat what;

    /* A FIFO is read to its end, which comes when its last writer closes it: the
     * poll tells of that unasked. */
    if (fd >= 0 && fstat(fd, &what) == 0 && S_ISFIFO(what.st_mode))
        writer.events = 0;
    if (fd >= 0 && poll(&writer, 1, WRITER_MS_MAX) == 0)
        *why = "nobody writes to it, or not to its end";
    else if (fd < 0 || fcntl(fd, F_SETFL, 0) < 0 || !(file = fdopen(fd, "r")))
        *why = strerror(errno);
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

int config_rules_read_token(struct config *config, char *error,
                            unsigned error_size)
{
    /* Room for the newline, and for one more byte, by which a token that is too
     * long is noticed. */
    char text[sizeof(config->admin_token) + 2] = "";
    size_t size = 0, len = 0;
    const char *why;
    FILE *file;

    if (!*config->admin_token_file)
        return 0;
    file = config_rules_open(config->admin_token_file, &why);
    if (file)
        size = fread(text, 1, sizeof(text) - 1, file);
    if (!file || ferror(file)) {
        snprintf(error, error_size, "cannot read it: %s",
                 file ? strerror(errno) : why);
        if (file)
            fclose(file);
        return -1;
    }
    fclose(file);
    size -= size > 0 && text[size - 1] == '\n';
    while (isgraph((unsigned char)text[len]))
        len++;
    /* A NUL or a blank in the file ends the count before its size: a token that
     * is cut would be a shorter one than its author believes. */
    if (len == 0 || len != size || len >= sizeof(config->admin_token)) {
        snprintf(error, error_size,
                 "what is in it has to be one line of 1 to 127 visible ASCII "
                 "characters");
        return -1;
    }
    memcpy(config->admin_token, text, len);
    return 0;
}

/* Elements of a list with commas between. */
static int64_t count(const char *list)
{
    int64_t n = 1;

    for (; *list; list++)
        n += *list == ',';
    return n;
}

/* Too few are no error as long as some connections are left: a service that closes idle
 * ones sooner still sells, and one that runs out of descriptors in a sale does not.
 *
 * A session of the lock client has a connection to each lock server, or to a SQL
 * server. Order by order each worker has one, and the database open, which is three
 * descriptors at most. An order service has a probe of each inventory service as well. */
bool config_rules_fit(struct config *config, char *why, unsigned why_size)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    int64_t servers = count(config->redis), others, needed, most;

    if (config->http_threads == 0)
        /* The other half of the cores is for the committer, the lock client and
         * Redis. */
        config->http_threads = cores > 3 ? cores / 2 : 1;
    if (*config->inventory)
        others = count(config->inventory) * (CONFIG_FLYING_MAX + 1);
    else if (config->orders == ORDERS_BATCHED)
        others = CONFIG_SESSIONS_MAX * servers;
    else
        others = config->workers * (servers + 3);
    needed = config->connections_max + others + config->http_threads * 8 + 64;
    getrlimit(RLIMIT_NOFILE, &limit);
    /* The usual soft limit of 1024 is for programs that use select(); the hard
     * one is what we may have. */
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    most = limit.rlim_max < INT64_MAX ? (int64_t)limit.rlim_max : INT64_MAX;
    if (needed <= most)
        return true;
    /* Only the connections can give way: all the others are needed for each
     * order. */
    config->connections_max -= needed - most;
    snprintf(why, why_size,
             "%" PRId64 " file descriptors are needed, %" PRId64
             " allowed: ulimit -n %" PRId64 ", LimitNOFILE=%" PRId64
             " in the unit, or fewer connections",
             needed, most, needed, needed);
    if (config->connections_max < CONNECTIONS_MIN)
        return false;
    log_warn("file-descriptors", "connections_max=%" PRId64 " reason=\"%s\"",
             config->connections_max, why);
    return true;
}

bool config_rules_uses_redis(const struct dlock_strategy_info *lock)
{
    unsigned elsewhere = DLOCK_CAP_SQL | DLOCK_CAP_ZK;

    return (lock->capabilities & DLOCK_CAP_REMOTE) &&
           !(lock->capabilities & elsewhere);
}

unsigned config_rules_command_timeout_ms(const struct config *config)
{
    /* A quarter of the wait: so a command that fails leaves time to be tried
     * once more. */
    int64_t ms = config->lock_wait_ms / 4;

    return ms < 100 ? 100 : ms > 1000 ? 1000 : (unsigned)ms;
}

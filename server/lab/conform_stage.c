#include "server/lab/conform_stage.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "server/lab/conform_node.h"

enum {
    LEASE_MS = 150,
    LONG_MS = 20000,
    LONG_AGED_MS = 2000, /* shorter: its nodes have to grow older than that */
    MARGIN_MS = 500,
};

unsigned conform_slow(void)
{
    const char *slow = getenv("STOCKADE_SLOW");
    long times = slow ? strtol(slow, NULL, 10) : 1;

    return times > 0 && times < 100 ? (unsigned)times : 1;
}

/*
 * Waits until the nodes have been up for longer than the longest lease. They
 * tell their age in whole seconds, one of which is not believed.
 */
static void nodes_age(const struct stage *stage)
{
    if (stage->expected->aged)
        stage_sleep_ms(stage->long_ms + stage->long_ms / 10 + 2000);
}

/* The servers that the lock needs, ours or given, as one url; or a place. */
static bool backend_start(struct stage *stage,
                          const struct conform_servers *servers, char *error,
                          size_t error_size)
{
    enum conform_backend backend = stage->expected->backend;
    unsigned nodes_n = backend == CONFORM_REDIS  ? stage->expected->nodes_n
                       : backend == CONFORM_BOTH ? 1
                                                 : 0;
    const char *given = backend == CONFORM_ZK ? servers->zk_url
                        : backend == CONFORM_SQL || backend == CONFORM_BOTH
                            ? servers->sql_url
                        : nodes_n == 1 ? servers->redis_url
                                       : NULL;
    size_t len;

    if (given && backend == CONFORM_REDIS)
        nodes_n = 0;

    if (backend == CONFORM_LOCAL)
        (void)snprintf(stage->url, sizeof(stage->url), "dir:%s/locks",
                       stage->dir);
    if (!node_start_all(stage, nodes_n, error, error_size))
        return false;
    len = strlen(stage->url);
    if (given)
        (void)snprintf(stage->url + len, sizeof(stage->url) - len, "%s%s",
                       len > 0 ? "," : "", given);
    return true;
}

static int remove_one(const char *path, const struct stat *status, int type,
                      struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    (void)remove(path);
    return 0;
}

void stage_sweep(const char *dir)
{
    (void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

bool stage_open(struct stage *stage, const struct conform_expectation *expected,
                const struct conform_servers *servers, char *error,
                size_t error_size)
{
    const struct dlock_strategy_info *info =
        dlock_strategy_find(expected->lock);
    unsigned slow = conform_slow();

    *stage = (struct stage){
        .expected = expected,
        .servers = servers,
        .capabilities = info ? info->capabilities : 0,
        .slow = slow,
        .lease_ms = LEASE_MS * slow,
        .long_ms = (expected->aged ? LONG_AGED_MS : LONG_MS) * slow,
        .margin_ms = MARGIN_MS * slow,
        .out = -1};
    (void)snprintf(stage->dir, sizeof(stage->dir), "%s/lab-XXXXXX",
                   servers->dir ? servers->dir : "/tmp");
    stage->race = mmap(NULL, sizeof(*stage->race), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stage->race == MAP_FAILED || !mkdtemp(stage->dir)) {
        (void)snprintf(error, error_size, "no room for a stage: %s",
                       strerror(errno));
        return false;
    }
    if (!backend_start(stage, servers, error, error_size)) {
        stage_close(stage);
        return false;
    }
    nodes_age(stage);
    return true;
}

void stage_close(struct stage *stage)
{
    node_stop_all(stage);
    /* Databases, directories of `mkdir`: whatever the checks have left. */
    stage_sweep(stage->dir);
    (void)munmap(stage->race, sizeof(*stage->race));
}

bool stage_mend(struct stage *stage, char *error, size_t error_size)
{
    if (!node_mend_all(stage, error, error_size))
        return false;
    nodes_age(stage);
    return true;
}

bool stage_can(const struct stage *stage, enum dlock_capability capability)
{
    return (stage->capabilities & (unsigned)capability) != 0;
}

void stage_name(char name[STAGE_NAME_BYTES_MAX + 1], const char *what)
{
    static unsigned n; /* each check is a process of its own: hence the pid */

    (void)snprintf(name, STAGE_NAME_BYTES_MAX + 1, "lab:%.16s:%d:%u", what,
                   (int)getpid(), n++);
}

void stage_sleep_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000,
                            .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

/* Home with it: who reads it ends this process, if it does not itself. */
__attribute__((format(printf, 3, 0))) static void
tell(const struct stage *stage, enum conform_verdict verdict,
     const char *format, va_list args)
{
    struct conform_result result = {.verdict = verdict};

    (void)vsnprintf(result.text, sizeof(result.text), format, args);
    if (write(stage->out, &result, sizeof(result)) != (ssize_t)sizeof(result))
        _exit(1);
}

void stage_holds(const struct stage *stage, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(stage, CONFORM_HOLDS, format, args);
    va_end(args);
    _exit(0);
}

void stage_fails(const struct stage *stage, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(stage, CONFORM_FAILS, format, args);
    va_end(args);
    _exit(0);
}

void stage_untested(const struct stage *stage, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(stage, CONFORM_UNTESTED, format, args);
    va_end(args);
    _exit(0);
}

void stage_not_asked(const struct stage *stage, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell(stage, CONFORM_NOT_ASKED, format, args);
    va_end(args);
    _exit(0);
}

void stage_broken(const struct stage *stage, const char *format, ...)
{
    char text[200] = "BROKEN: ";
    size_t len = strlen(text);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text + len, sizeof(text) - len, format, args);
    va_end(args);
    stage_untested(stage, "%s", text);
}

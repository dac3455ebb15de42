/*
 * wrk as the crowd: 64 buyers who order as fast as they are answered, with the
 * script of the load tests (loadtest/orders.lua). It drops what is under way when it
 * ends: so the ledger may have more orders than it has seen, and never fewer. See load.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/child.h"
#include "server/base/clock.h"
#include "server/lab/load/load.h"

enum { SECONDS = 2, END_MS_MAX = 20000, TURN_MS = 20 };

static const char script[] =
#include "loadtest/orders.lua.inc"
    ;

/* In the child. */
static _Noreturn void become(char *path, const char *out)
{
    char targets[SITE_INSTANCES_MAX * 72] = "", connections[16], seconds[16],
                                      url[96];
    char *const argv[] = {"wrk",   "-t", "2",  "-c", connections, "-d",
                          seconds, "-s", path, url,  NULL};
    size_t len = 0;

    /* The script takes turns over all instances; wrk itself wants one url. */
    for (unsigned i = 0; i < load.play->instances; i++)
        len += (size_t)snprintf(targets + len, sizeof(targets) - len, "%s ",
                                site.instances[i].address);
    (void)snprintf(connections, sizeof(connections), "%u",
                   load.play->wrk_connections);
    (void)snprintf(seconds, sizeof(seconds), "%ds", SECONDS);
    (void)snprintf(url, sizeof(url), "http://%s/", site.instances[0].address);
    (void)setenv("LOADTEST_TARGETS", targets, 1);
    (void)setenv("LOADTEST_OUT", out, 1);
    /* Settings of somebody's own load test must not change this one. */
    (void)unsetenv("LOADTEST_BURST");
    (void)unsetenv("LOADTEST_QUANTITY");
    child_become(argv, -1);
}

/* The logs are read meanwhile: who cannot log does not sell. */
static bool await(pid_t pid, int *status)
{
    uint64_t until_ms = clock_ms() + END_MS_MAX;
    pid_t ended;

    while ((ended = waitpid(pid, status, WNOHANG)) == 0 ||
           (ended < 0 && errno == EINTR)) {
        if (clock_ms() > until_ms)
            (void)site_fail("wrk does not end");
        /* wrk is killed, and waited for: it must not buy while the next run begins. */
        if (clock_ms() > until_ms || !site_goes_on()) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, status, 0);
            return false;
        }
        buyers_turn(TURN_MS);
    }
    return true;
}

bool load_wrk(void)
{
    char path[96], out[96], told[64] = "";
    pid_t pid;
    FILE *file;
    int status = 0;

    /* Nothing seen is -1: a file that is not there must not read as no orders. */
    load.seen_by_wrk = -1;
    (void)snprintf(path, sizeof(path), "%s/orders.lua", site.folder.path);
    (void)snprintf(out, sizeof(out), "%s/wrk.json", site.folder.path);
    if (!file_write(path, script, strlen(script)))
        return site_fail("cannot write %s: %s", path, strerror(errno));
    load_tell(-1, "wrk begins: %u connections, %d s",
              load.play->wrk_connections, SECONDS);
    pid = child_fork(SIGKILL);
    if (pid == 0)
        become(path, out);
    if (pid < 0)
        return site_fail("cannot start wrk: %s", strerror(errno));
    if (!await(pid, &status))
        return false;
    if (status != 0)
        /* The shell's number for a program that was not found; child_become() uses it
         * as well. */
        return site_fail(WIFEXITED(status) && WEXITSTATUS(status) == 127
                             ? "wrk is not there: apt-get install wrk"
                             : "wrk has failed");
    file = fopen(out, "re");
    if (file && fgets(told, sizeof(told), file))
        (void)sscanf(told, "{\"accepted\":%" SCNd64, &load.seen_by_wrk);
    if (file)
        (void)fclose(file);
    if (load.seen_by_wrk < 0)
        return site_fail("wrk has not told what it saw");
    load_tell(-1, "wrk ends: it has seen %" PRId64 " orders confirmed",
              load.seen_by_wrk);
    return true;
}

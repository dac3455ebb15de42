/* See lab_hooks.h. */
#include "server/lab/live/lab_hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/child.h"
#include "server/base/config.h"
#include "server/base/health.h"
#include "server/base/log.h"
#include "server/lab/live/failpoint.h"
#include "server/lab/timeline/timeline_live.h"

/* ---- the page beside the service --------------------------------------------
 *
 * `stockade lab serve` is a process of its own. The service has no route of it, and what
 * the page plays touches neither its locks nor its store. It ends with the service,
 * however that ends.
 */

enum { READY_MS = 10000, END_MS = 5000 };

/* In the child, where nothing may be called that takes a lock. */
static _Noreturn void become(const char *path, char *port, bool is_public,
                             int out)
{
    char *const argv[] = {"stockade-lab",
                          "serve",
                          "--port",
                          port,
                          is_public ? "--lab-public" : NULL,
                          NULL};

    if (dup2(out, STDOUT_FILENO) >= 0)
        (void)execv(path, argv);
    _exit(127);
}

/* Waits until its games have ended, but not for long: the service ends behind it, and whoever
 * ends that has a limit. 0 = there is none. */
static void beside_close(pid_t pid)
{
    struct pollfd page = {.events = POLLIN};

    if (pid == 0)
        return;
    page.fd = pidfd_open(pid, 0);
    (void)kill(pid, SIGTERM);
    (void)poll(&page, 1, END_MS);
    if (page.fd >= 0)
        (void)close(page.fd);
    /* The page was not waited for yet: its pid is still its own. Games of a page that is
     * killed end when nobody asks them any more. */
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* From the main thread, because the page ends with the thread that began it. Waits until
 * the page can be opened. False and a text: it cannot, and nothing runs. */
static bool beside_open(int64_t port, bool is_public, pid_t *pid,
                        struct fail *error)
{
    /* The pipe is closed on exec but for its copy: so the end of its output is the
     * page's end. */
    char path[PATH_MAX], number[24], said = '\0';
    struct pollfd output = {.events = POLLIN};
    int ends[2];

    (void)fail_with(error, "%s", "it does not begin");
    if (!child_path("stockade-lab", path) || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    (void)snprintf(number, sizeof(number), "%" PRId64, port);
    /* The page must end with us, by a signal that lets it end its games. */
    *pid = child_fork(SIGTERM);
    if (*pid == 0)
        become(path, number, is_public, ends[1]);
    (void)close(ends[1]);
    output.fd = ends[0];
    /* The page says where it is when it listens; the end of its output is its own end. */
    if (*pid > 0 && poll(&output, 1, READY_MS) > 0 &&
        read(ends[0], &said, 1) != 1)
        (void)fail_with(error, "%.1000s does not run, or port %s is not free",
                        path, number);
    /* The page writes to nobody from here on, and does not mind. */
    (void)close(ends[0]);
    if (said)
        return true;
    if (*pid > 0)
        beside_close(*pid);
    *pid = 0;
    return false;
}

/* ---- the hooks -------------------------------------------------------------- */

bool lab_hooks_open(struct lab_hooks *hooks, const struct config *config)
{
    struct fail error;

    /* Failpoints block a signal: they come before the threads. */
    if (!*config->lab_failpoint)
        return true;
    hooks->failpoints = failpoints_open(config->lab_failpoint, &error);
    if (hooks->failpoints)
        return true;
    log_error("failpoint", "error=\"%s\"", error.text);
    return false;
}

bool lab_hooks_begin(struct lab_hooks *hooks, const struct config *config)
{
    struct fail error;

    /* The file is opened as late as can be: an instance that does not start must not
     * empty it. */
    if (*config->lab_timeline) {
        hooks->timeline = timeline_live_open(config, &error);
        if (!hooks->timeline) {
            log_error("timeline", "error=\"%s\"", error.text);
            return false;
        }
    }
    if (config->lab == 0)
        return true;
    if (!beside_open(config->lab, config->lab_public, &hooks->page, &error)) {
        log_error("lab", "error=\"%s\"", error.text);
        return false;
    }
    log_info("lab", "page=http://127.0.0.1:%" PRId64 "/lab", config->lab);
    return true;
}

/* The timeline has the step before a fault holds it up. Faults are of orders' locks only,
 * because what health tries comes at any time. */
static enum dlock_verdict on_lock_step(void *ctx, const struct dlock_step *step)
{
    struct lab_hooks *hooks = ctx;

    if (hooks->timeline)
        timeline_live_on_lock(hooks->timeline, step);
    /* Only with failpoints may a step fail. */
    return hooks->failpoints &&
                   !(step->key && strcmp(step->key, HEALTH_PROBE_LOCK) == 0) &&
                   failpoints_act(hooks->failpoints, step->name,
                                  step->phase == DLOCK_AFTER)
               ? DLOCK_FAIL
               : DLOCK_GO;
}

static enum store_verdict on_store_step(void *ctx,
                                        const struct store_step *step)
{
    struct lab_hooks *hooks = ctx;

    if (hooks->timeline)
        timeline_live_on_store(hooks->timeline, step);
    return hooks->failpoints && failpoints_act(hooks->failpoints, step->name,
                                               step->phase == STORE_AFTER)
               ? STORE_FAIL
               : STORE_GO;
}

static bool has_steps(const struct lab_hooks *hooks)
{
    return hooks->failpoints || hooks->timeline;
}

void lab_hooks_of_locks(struct lab_hooks *hooks, const struct config *config,
                        struct dlock_options *options)
{
    if (config->lab_lease_ms > 0)
        options->watchdog_lease_ms = (unsigned)config->lab_lease_ms;
    /* Without a hook a step costs nothing. */
    if (!has_steps(hooks))
        return;
    options->on_step = on_lock_step;
    options->on_step_ctx = hooks;
}

void lab_hooks_of_store(struct lab_hooks *hooks, struct store_options *options)
{
    if (!has_steps(hooks))
        return;
    options->on_step = on_store_step;
    options->on_step_ctx = hooks;
}

void lab_hooks_close(struct lab_hooks *hooks)
{
    /* The page ends first: its games are none of what is closed below. */
    beside_close(hooks->page);
    timeline_live_close(hooks->timeline);
    failpoints_close(hooks->failpoints);
}

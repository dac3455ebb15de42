/*
 * The main thread while the service runs: it waits until all is open, acts
 * on signals, starts its private redis-server anew if that dies, and tells a service
 * manager (systemd) by sd_notify how things are.
 *
 * READY=1 is sent, and `ready` logged, once an order would succeed, and until then
 * EXTEND_TIMEOUT_USEC= each second; STATUS= says
 * in one line what is wrong, or that nothing is, whenever that changes; WATCHDOG=1
 * only while the committer's thread, which decides all orders, goes on looking for
 * them: a thread that hangs there has the service started anew.
 */
#ifndef MAIN_LOOP_H
#define MAIN_LOOP_H

#include <stdbool.h>

#include "server/base/config.h"

struct app;
struct redis_proc;

/* All of it is borrowed. */
struct main_loop {
    const struct app *app;
    struct config *config; /* that of the app: SIGHUP changes it */
    const char *address;
    int argc; /* as for config_load() */
    char **argv;
    int signals;   /* of main_loop_signals() */
    int opened_fd; /* readable once opened() is to be called; -1 = no more */
    const char *redis_url;
    struct redis_proc *redis; /* NULL = not ours, or the app is not open yet */
    /* The app is open, or cannot be opened: sets the three above. False: the service
     * ends. */
    bool (*opened)(struct main_loop *loop);
    void *owner; /* for opened() */
};

/* SIGTERM, SIGINT and SIGHUP become readable; every thread made later has them
 * blocked as well. A descriptor, or -1. */
int main_loop_signals(void);

/* Returns after SIGTERM or SIGINT, or when the app could not be opened. */
void main_loop_run(struct main_loop *loop);

#endif

/*
 * The service: serve.c builds it and takes it apart, and main_loop.c has its main
 * thread meanwhile.
 */
#ifndef SERVICE_H
#define SERVICE_H

#include <pthread.h>
#include <stdbool.h>

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/lab/live/lab_hooks.h"

struct http;
struct redis_proc;

enum opener_answer { OPENER_NOT_NOW, OPENER_OPEN, OPENER_NEVER };

struct service {
    int argc; /* as for config_load() */
    char **argv;
    struct config config; /* SIGHUP changes it */
    struct app app;
    const struct dlock_strategy_info *lock;
    const char *db_path; /* NULL: the database is no file */
    struct http *http;
    struct lab_hooks hooks;
    int signals; /* of main_loop_signals() */
    int exit_code;
    pthread_t opener;       /* the thread that opens all but HTTP */
    bool opens;             /* it has not been joined */
    int stop_fd, opened_fd; /* eventfds: no further try is to come, or will */
    /* The opener's until it was joined: */
    enum opener_answer answer;
    struct redis_proc *redis; /* NULL = not ours */
};

/* The opener's last try is over. False: the service ends. */
bool service_opened(struct service *service);

/* SIGTERM, SIGINT and SIGHUP become readable; every thread made later has them
 * blocked as well. A descriptor, or -1. */
int main_loop_signals(void);

/*
 * Waits until all is open, acts on signals, starts the private redis-server anew if
 * that dies, and tells a service manager (systemd) by sd_notify how things are. Returns
 * after SIGTERM or SIGINT, or when all could not be opened.
 *
 * READY=1 is sent, and `ready` logged, once an order would succeed, and until then
 * EXTEND_TIMEOUT_USEC= each second; STATUS= says in one line what is wrong, or that
 * nothing is, when the log does; WATCHDOG=1 only while the committer's thread, which
 * decides all orders, goes on looking for them: a thread that hangs there has the
 * service started anew.
 */
void main_loop_run(struct service *service);

#endif

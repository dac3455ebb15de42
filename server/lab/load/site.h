/*
 * A site: real servers for an experiment. A temporary folder with a database and a
 * redis-server of its own, and instances of `stockade serve` on free ports, each a
 * process that can be stopped, killed and let go on.
 *
 * Their logs come through pipes. So nobody has to guess when an instance is ready,
 * or has come to its failpoint: it says so.
 *
 * Every wait is bounded. The children and the folder end with this process, however it
 * ends. From the main thread only.
 */
#ifndef SITE_H
#define SITE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "db/store.h"
#include "lock/dlock.h"
#include "server/lab/base/fail.h"
#include "server/lab/servers/folder.h"

enum {
    SITE_INSTANCES_MAX = 4,
    SITE_LOG_BYTES = 8192,
};

enum site_state {
    SITE_GONE, /* not started, or it has died */
    SITE_STARTS,
    SITE_RUNS,
    SITE_HELD,    /* one of its threads waits at a failpoint */
    SITE_STOPPED, /* all of it */
};

struct site_instance {
    pid_t pid; /* 0 = none */
    int log;   /* -1 = none */
    enum site_state state;
    bool has_acted;   /* a failpoint has, since site_go_on() */
    bool is_to_crash; /* by a failpoint */
    char acted[64];   /* "naive-update:before" */
    char address[64]; /* HOST:PORT */
    char last[300];   /* line of its log, of another kind */
    size_t said_n;
    char said[SITE_LOG_BYTES]; /* of its log, up to a whole line */
};

/* A process has one. */
extern struct site {
    struct folder folder;
    char db_url[128];
    struct redis_proc *redis;
    struct site_instance instances[SITE_INSTANCES_MAX];
    bool (*is_interrupted)(void); /* asked while it waits; then waits fail */
    struct fail error;            /* of what has failed: for a person */
} site;

/* The folder and Redis. False, and site.error says why; to be closed all the same. */
bool site_open(bool (*is_interrupted)(void));

/* Ends all that runs, and removes the folder. */
void site_close(void);

/* Instance WHO begins, with LOCK and FLAGS, which are taken apart at their blanks;
 * site_ready() waits until it is there. */
bool site_start(unsigned who, const char *lock, char *flags);
bool site_ready(unsigned who);

/* False: one that began has ended, and not by its failpoint. */
bool site_is_whole(void);

/* SIGTERM to all, and up to five seconds to end; whoever is held or stopped, and who
 * takes longer, is killed. */
void site_stop_all(void);

/* The instances' logs: how many FDS there are to poll, and reading what has come. */
size_t site_fds(struct pollfd fds[SITE_INSTANCES_MAX]);
void site_read(void);

/* Lets an instance go on that waits at a failpoint, held or stopped. */
void site_go_on(unsigned who);

/* False, with "interrupted" in site.error: somebody has pressed Ctrl-C. */
bool site_goes_on(void);

/* Fails: formats site.error. */
#define site_fail(...) fail_with(&site.error, __VA_ARGS__)

/* How often the redis-server has been asked something so far, by its INFO: a script
 * is one, whatever it does inside. False: it did not answer. */
bool site_requests(uint64_t *n);

/* The whole ledger, and in *STOCK the units left, of all segments. False: it could
 * not be read. */
bool site_audit(struct store_audit *audit, int64_t *stock);

#endif

/* The world around an instance: its lock server, other processes, locks of
 * others. See order_rig.h. */
#include "tests/support/order_rig.h"

#include <inttypes.h>
#include <signal.h>

#define CHILDREN_MAX 4

static struct redis_server *redis;
static struct server_proc children[CHILDREN_MAX];
static size_t children_n;

static _Noreturn void die(const char *what)
{
    server_proc_die("order_rig", what);
}

uint64_t order_rig_slow(void)
{
    const char *slow = getenv("STOCKADE_SLOW");

    return slow && atoi(slow) > 0 ? (uint64_t)atoi(slow) : 1;
}

/* ---- the lock server ------------------------------------------------------- */

int order_rig_group_setup(void **state)
{
    (void)signal(SIGPIPE, SIG_IGN);
    alarm(500);
    redis = redis_server_start();
    return 0;
}

static void kill_children(void)
{
    while (children_n > 0)
        server_proc_kill(&children[--children_n]);
}

int order_rig_group_teardown(void **state)
{
    kill_children();
    redis_server_stop(redis);
    return 0;
}

/* A test that failed may have left the server stopped, or away; and children. */
void order_rig_world_reset(void)
{
    kill_children();
    redis_server_kill(redis);
    redis_server_restart(redis);
}

struct redis_server *order_rig_redis(void)
{
    return redis;
}

/* ---- other processes ------------------------------------------------------- */

/* Its input is a pipe to which nobody writes: it stays. */
static char keeper[] =
    "mkfifo -m 600 \"$0.$$\" && exec sqlite3 -bail -cmd '.timeout 10000' "
    "-cmd \"$1\" -cmd '.print at work' \"$0\" <>\"$0.$$\"";

struct server_proc *order_rig_child(const struct order_rig *rig,
                                    const char *sql)
{
    char *argv[] = {"sh",        "-c",
                    keeper,      (char *)order_rig_url(rig) + strlen("sqlite:"),
                    (char *)sql, NULL};

    if (children_n == CHILDREN_MAX)
        die("too many children");
    children[children_n] = (struct server_proc){.what = "sqlite3"};
    (void)server_proc_start(&children[children_n], argv, "at work", NULL);
    return &children[children_n++];
}

/* ---- locks of others ------------------------------------------------------- */

struct order_foreign {
    struct dlock *client;
    struct dlock_session *session;
    struct dlock_grant *grants;
    int64_t n;
};

static void name_lock(char *name, size_t size, int64_t product_id,
                      int64_t segment)
{
    snprintf(name, size, "lock:{%" PRId64 ":%" PRId64 "}", product_id, segment);
}

static struct order_foreign *open_foreign(int64_t n)
{
    struct order_foreign *foreign = calloc(1, sizeof(*foreign));
    const struct dlock_options options = {.url = redis_server_url(redis),
                                          .connect_timeout_ms = 20000,
                                          .command_timeout_ms = 20000};

    if (!foreign)
        die("no memory");
    foreign->grants = calloc((size_t)n + 1, sizeof(*foreign->grants));
    if (!foreign->grants ||
        dlock_open(&options, &foreign->client, NULL) != DLOCK_OK ||
        dlock_session_open(foreign->client, &foreign->session, NULL) !=
            DLOCK_OK)
        die("no client of locks");
    return foreign;
}

/* Somebody may have a lock for a moment yet: so it is waited for. */
struct order_foreign *order_foreign_open(int64_t first, int64_t n,
                                         unsigned lease_ms)
{
    struct order_foreign *foreign = open_foreign(n);
    const struct dlock_terms terms = {.wait_ms = 60000, .lease_ms = lease_ms};
    char name[64];

    for (int64_t i = 0; i < n; i++) {
        name_lock(name, sizeof(name), first + i, 0);
        if (dlock_acquire(foreign->session, name, &terms, &foreign->grants[i],
                          NULL) != DLOCK_OK)
            die("a lock cannot be had");
        foreign->n++;
    }
    return foreign;
}

void order_foreign_close(struct order_foreign *foreign)
{
    for (int64_t i = 0; i < foreign->n; i++)
        (void)dlock_release(foreign->session, &foreign->grants[i], NULL);
    dlock_session_close(foreign->session);
    dlock_close(foreign->client);
    free(foreign->grants);
    free(foreign);
}

struct dlock_holder order_rig_holder(int64_t product_id, int64_t segment)
{
    struct order_foreign *asker = open_foreign(0);
    struct dlock_holder holder = {0};
    char name[64];

    name_lock(name, sizeof(name), product_id, segment);
    if (dlock_inspect(asker->session, name, &holder, NULL) != DLOCK_OK)
        die("the lock server does not say who holds a lock");
    order_foreign_close(asker);
    return holder;
}

bool order_rig_lock_is_held(int64_t product_id, int64_t segment)
{
    return order_rig_holder(product_id, segment).held;
}

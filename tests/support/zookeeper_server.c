/*
 * One that is alone is an ensemble of one. As a "standalone" server ZooKeeper
 * 3.8.0 listens before it has its data: a client that comes too early makes it
 * fail (a NullPointerException in removeCnxn) without hanging up, and hears
 * nothing for two thirds of its session's timeout. A member does not do that.
 */
#include "tests/support/zookeeper_server.h"

#include <sys/stat.h>

#include "server/lab/conform/conform.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

enum {
    PATH_BYTES = TEMP_DIR_BYTES_MAX + 32,
    PORTS_TRIED = 8, /* somebody else may be quicker */
    LOOK_MS = 50,    /* nobody tells that an election is over */
    LOOKS_MAX = 1200,
};

/* The last line that it logs on its way up; of a member without the others. */
static const char ready[] = "Peer state changed: leading - broadcast";
static const char member_ready[] = "binding to port";
static const char port_taken[] = "Address already in use";

/* What makes it an ensemble of one. */
static void write_alone(FILE *file)
{
    fprintf(file,
            "standaloneEnabled=false\n"
            "initLimit=100\n"
            "syncLimit=50\n"
            "server.1=127.0.0.1:%u:%u\n",
            server_proc_free_port("zookeeper_server"),
            server_proc_free_port("zookeeper_server"));
}

static void write_config(struct zookeeper_server *server)
{
    FILE *file = fopen(server->config, "we");

    if (file == NULL)
        server_proc_die("zookeeper_server", server->config);
    fprintf(file,
            "tickTime=100\n"
            "dataDir=%s/data\n"
            "clientPortAddress=127.0.0.1\n"
            "clientPort=%u\n"
            "maxClientCnxns=0\n"
            "maxSessionTimeout=60000\n"
            "admin.enableServer=false\n"
            "%s",
            server->dir.path, server->port, server->members);
    if (server->number == 0)
        write_alone(file);
    if (fclose(file) != 0)
        server_proc_die("zookeeper_server", server->config);
    (void)snprintf(server->url, sizeof(server->url), "zk:127.0.0.1:%u",
                   server->port);
}

/* By this a member knows which of them it is. */
static void write_number(const struct zookeeper_server *server)
{
    char path[PATH_BYTES];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%.200s/data", server->dir.path);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%.200s/data/myid", server->dir.path);
    file = fopen(path, "we");
    if (file == NULL ||
        fprintf(file, "%u\n", server->number > 0 ? server->number : 1) < 0 ||
        fclose(file) != 0)
        server_proc_die("zookeeper_server", path);
}

/* A small JVM that starts quickly; empty directories are removed every second
 * instead of every minute; nothing has to survive a power cut. */
static bool start(struct zookeeper_server *server)
{
    static char classes[] = "/usr/share/java/zookeeper.jar:"
                            "/usr/share/java/slf4j-simple.jar";
    char *argv[] = {"java",
                    "-Xmx64m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-Dzookeeper.forceSync=no",
                    "-Dzookeeper.preAllocSize=64",
                    "-Dznode.container.checkIntervalMs=1000",
                    "-cp",
                    classes,
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    server->config,
                    NULL};

    write_number(server);
    return server_proc_start(&server->proc, argv,
                             server->number > 0 ? member_ready : ready,
                             port_taken);
}

/* NUMBER is from 1, and MEMBERS are the lines of its configuration that say who the
 * others are: it does not wait for them. */
static struct zookeeper_server *start_member(unsigned number,
                                             const char *members)
{
    struct zookeeper_server *server = calloc(1, sizeof(*server));

    if (server == NULL)
        abort();
    server->number = number;
    server->members = members;
    server->proc.what = "zookeeper_server";
    temp_dir_make(&server->dir);
    (void)snprintf(server->config, sizeof(server->config), "%s/zoo.cfg",
                   server->dir.path);
    for (int i = 0; i < PORTS_TRIED; i++) {
        server->port = server_proc_free_port("zookeeper_server");
        write_config(server);
        if (start(server))
            return server;
    }
    server_proc_die("zookeeper_server", "no port stays free");
}

/* The first session must have time, because a JVM still loads what serves it. */
static void warm_up(const char *url)
{
    struct dlock_terms terms = {.wait_ms = LOCK_RIG_LONG_MS};
    struct dlock *client = lock_rig_open(
        &(struct dlock_options){.strategy = "zk",
                                .url = url,
                                .connect_timeout_ms = LOCK_RIG_LONG_MS,
                                .command_timeout_ms = LOCK_RIG_LONG_MS});
    struct dlock_session *session = lock_rig_session(client);
    struct dlock_grant grant;
    struct dlock_error error;

    if (dlock_acquire(session, "warm", &terms, &grant, &error) != DLOCK_OK ||
        dlock_release(session, &grant, &error) != DLOCK_OK)
        server_proc_die("zookeeper_server", error.text);
    dlock_session_close(session);
    dlock_close(client);
}

struct zookeeper_server *zookeeper_server_start(void)
{
    struct zookeeper_server *server = start_member(0, "");

    warm_up(server->url);
    return server;
}

/* On the same port: clients come back to where they were. */
void zookeeper_server_restart(struct zookeeper_server *server)
{
    if (!start(server))
        server_proc_die("zookeeper_server", "its port was taken meanwhile");
    if (server->number == 0)
        warm_up(server->url);
}

static void restart_empty(struct zookeeper_server *server)
{
    struct temp_dir data;

    server_proc_kill(&server->proc);
    (void)snprintf(data.path, sizeof(data.path), "%.200s/data",
                   server->dir.path);
    temp_dir_remove(&data);
    zookeeper_server_restart(server);
}

void zookeeper_server_stop(struct zookeeper_server *server)
{
    if (server == NULL)
        return;
    server_proc_kill(&server->proc);
    temp_dir_remove(&server->dir);
    free(server);
}

struct zookeeper_server *the_zookeeper;

static struct {
    unsigned session_ms, timeout_ms;
} times;

static void fresh(const char *lock)
{
    rig.url = the_zookeeper->url;
    rig.watchdog_lease_ms = times.session_ms;
    rig.command_timeout_ms = times.timeout_ms;
}

static void serve(const char *how, const char *which)
{
    if (strcmp(how, "empty") == 0)
        restart_empty(the_zookeeper);
    else if (!server_proc_do(&the_zookeeper->proc, how))
        zookeeper_server_restart(the_zookeeper);
}

int zookeeper_server_set_up(unsigned session_ms, unsigned timeout_ms)
{
    static const struct lock_story_host host = {fresh, serve};

    lock_story_host = &host;
    times.session_ms = session_ms;
    times.timeout_ms = timeout_ms;
    the_zookeeper = zookeeper_server_start();
    return lock_rig_setup(NULL);
}

int zookeeper_server_tear_down(void **state)
{
    (void)lock_rig_teardown(state);
    zookeeper_server_stop(the_zookeeper);
    return 0;
}

/* ---- an ensemble ---------------------------------------------------------- */

static void write_members(struct zookeeper_ensemble *ensemble)
{
    size_t size = sizeof(ensemble->config);
    size_t len = (size_t)snprintf(ensemble->config, size,
                                  "initLimit=100\nsyncLimit=50\n");

    for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++)
        len += (size_t)snprintf(ensemble->config + len, size - len,
                                "server.%u=127.0.0.1:%u:%u\n", i + 1,
                                server_proc_free_port("zookeeper_server"),
                                server_proc_free_port("zookeeper_server"));
}

/* Until every member leads or follows. */
static void await_all(const struct zookeeper_ensemble *ensemble)
{
    for (unsigned look = 0; look < LOOKS_MAX; look++) {
        unsigned n = 0;

        for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++)
            n += conform_zk_role(ensemble->members[i]->url + strlen("zk:")) !=
                 '\0';
        if (n == ZOOKEEPER_MEMBERS_N)
            return;
        lock_rig_sleep_ms(LOOK_MS);
    }
    server_proc_die("zookeeper_ensemble", "they do not come together");
}

struct zookeeper_ensemble *zookeeper_ensemble_start(void)
{
    struct zookeeper_ensemble *ensemble = calloc(1, sizeof(*ensemble));
    size_t len = 0;

    if (ensemble == NULL)
        abort();
    write_members(ensemble);
    for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++) {
        const char *url;

        ensemble->members[i] = start_member(i + 1, ensemble->config);
        url = ensemble->members[i]->url;
        len +=
            (size_t)snprintf(ensemble->url + len, sizeof(ensemble->url) - len,
                             "%s%s", i > 0 ? "," : "", i > 0 ? url + 3 : url);
    }
    await_all(ensemble);
    for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++)
        warm_up(ensemble->members[i]->url);
    return ensemble;
}

void zookeeper_ensemble_stop(struct zookeeper_ensemble *ensemble)
{
    if (ensemble == NULL)
        return;
    for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++)
        zookeeper_server_stop(ensemble->members[i]);
    free(ensemble);
}

struct zookeeper_server *
zookeeper_ensemble_at(const struct zookeeper_ensemble *ensemble, const char *at)
{
    for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++)
        if (strcmp(ensemble->members[i]->url + strlen("zk:"), at) == 0)
            return ensemble->members[i];
    return NULL;
}

#include "tests/support/mariadb_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* mariadbd refuses to run as root unless it is told to. */
static char *as_user(void)
{
    return geteuid() == 0 ? "--user=root" : "--console";
}

/* Small, and with no more to write than has to be: it lives for seconds. */
void mariadb_server_restart(struct mariadb_server *server)
{
    char *argv[] = {"mariadbd",
                    "--no-defaults",
                    "--skip-networking",
                    "--innodb-buffer-pool-size=8M",
                    "--innodb-log-file-size=4M",
                    "--innodb-flush-log-at-trx-commit=2",
                    "--skip-log-bin",
                    server->datadir,
                    server->tmpdir,
                    server->socket,
                    as_user(),
                    NULL};

    (void)server_proc_start(&server->proc, argv, "ready for connections", NULL);
}

static void make_data(struct mariadb_server *server)
{
    char *argv[] = {"mariadb-install-db",
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-name-resolve",
                    "--innodb-log-file-size=4M",
                    server->datadir,
                    server->tmpdir,
                    geteuid() == 0 ? "--user=root" : NULL,
                    NULL};

    server_proc_run("mariadb-install-db", argv);
}

struct mariadb_server *mariadb_server_start(void)
{
    struct mariadb_server *server = calloc(1, sizeof(*server));

    if (server == NULL)
        abort();
    server->proc.what = "mariadb_server";
    temp_dir_make(&server->dir);
    (void)snprintf(server->datadir, sizeof(server->datadir),
                   "--datadir=%s/data", server->dir.path);
    (void)snprintf(server->tmpdir, sizeof(server->tmpdir), "--tmpdir=%s",
                   server->dir.path);
    (void)snprintf(server->socket, sizeof(server->socket), "--socket=%s/sql",
                   server->dir.path);
    (void)snprintf(server->url, sizeof(server->url), "mysql:unix:%s/sql",
                   server->dir.path);
    make_data(server);
    mariadb_server_restart(server);
    return server;
}

void mariadb_server_stop(struct mariadb_server *server)
{
    if (server == NULL)
        return;
    server_proc_kill(&server->proc);
    temp_dir_remove(&server->dir);
    free(server);
}

void mariadb_server_do(const struct mariadb_server *server, const char *sql)
{
    char statement[1024];
    char socket[sizeof(server->socket)];
    char *argv[] = {"mariadb", "--no-defaults", socket, "--user=root", "test",
                    "-e",      statement,       NULL};

    (void)snprintf(socket, sizeof(socket), "%s", server->socket);
    (void)snprintf(statement, sizeof(statement), "%s", sql);
    server_proc_run("mariadb", argv);
}

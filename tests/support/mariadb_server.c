#include "tests/support/mariadb_server.h"

#include "tests/support/unit_test.h"

/* NAME is an option whose value is its directory, or below it. */
static char *below(const struct mariadb_server *server, const char *name,
                   const char *path)
{
    return (char *)text_of("--%s=%s%s", name, server->dir.path, path);
}

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
                    below(server, "datadir", "/data"),
                    below(server, "tmpdir", ""),
                    below(server, "socket", "/sql"),
                    as_user(),
                    NULL};

    (void)server_proc_start(&server->proc, argv, "ready for connections", NULL);
}

/* The tmpdir must be its own, because another install removes what this one begins with. */
static void make_data(struct mariadb_server *server)
{
    char *argv[] = {"mariadb-install-db",
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-name-resolve",
                    "--innodb-log-file-size=4M",
                    below(server, "datadir", "/data"),
                    below(server, "tmpdir", ""),
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
    char *argv[] = {"mariadb",
                    "--no-defaults",
                    below(server, "socket", "/sql"),
                    "--user=root",
                    "test",
                    "-e",
                    (char *)sql,
                    NULL};

    server_proc_run("mariadb", argv);
}

/*
 * Runs a command with a private MariaDB and a private ZooKeeper at hand:
 *
 *     with_servers COMMAND [ARGUMENT...]
 *
 * The command finds their urls in its environment, as SQL and ZK. They are gone
 * when it has ended; its exit status is ours.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* for the servers' own checks */

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/mariadb_server.h"
#include "tests/support/zookeeper_server.h"

static int run(char *argv[])
{
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        execvp(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status))
        return 2;
    return WEXITSTATUS(status);
}

int main(int argc, char *argv[])
{
    struct mariadb_server *sql;
    struct zookeeper_server *zk;
    int code;

    if (argc < 2) {
        fprintf(stderr, "usage: with_servers COMMAND [ARGUMENT...]\n");
        return 2;
    }
    sql = mariadb_server_start();
    zk = zookeeper_server_start();
    setenv("SQL", mariadb_server_url(sql), 1);
    setenv("ZK", zookeeper_server_url(zk), 1);
    code = run(argv + 1);
    zookeeper_server_stop(zk);
    mariadb_server_stop(sql);
    return code;
}

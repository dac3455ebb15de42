/*
 * Runs a command with a private MariaDB, a private ZooKeeper and an ensemble of
 * three more at hand:
 *
 *     with_servers COMMAND [ARGUMENT...]
 *
 * The command finds their urls in its environment, as SQL, ZK and ZK_ENSEMBLE;
 * and as ZK_NODE what kills one of the ensemble and starts it again: a script
 * that writes a line into a pipe that we read. All are gone when the command has
 * ended; its exit status is ours.
 */
#include <poll.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/support/mariadb_server.h"
#include "tests/support/server_proc.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unit_test.h" /* for the servers' own checks */
#include "tests/support/zookeeper_server.h"

/* "kill HOST:PORT" or "start HOST:PORT", as the script has written it. */
static void obey(struct zookeeper_ensemble *ensemble, char *line)
{
    char *verb = strtok(line, " \n");
    char *at = strtok(NULL, " \n");
    struct zookeeper_server *member =
        at != NULL ? zookeeper_ensemble_at(ensemble, at) : NULL;

    if (member == NULL)
        fprintf(stderr, "with_servers: there is no such server\n");
    else if (strcmp(verb, "start") != 0)
        server_proc_kill(&member->proc);
    else if (member->proc.pid == 0)
        zookeeper_server_restart(member);
}

/* The script and the pipe, in DIR; the end that we read. */
static FILE *make_node_command(const struct temp_dir *dir)
{
    char pipe[TEMP_DIR_BYTES_MAX + 16];
    char script[TEMP_DIR_BYTES_MAX + 16];
    FILE *file;

    (void)snprintf(pipe, sizeof(pipe), "%s/orders", dir->path);
    (void)snprintf(script, sizeof(script), "%s/zk-node", dir->path);
    file = fopen(script, "we");
    if (file == NULL || mkfifo(pipe, 0600) != 0 ||
        fprintf(file, "#!/bin/sh\necho \"$1 $2\" >'%s'\n", pipe) < 0 ||
        fclose(file) != 0 || chmod(script, 0700) != 0)
        server_proc_die("with_servers", script);
    setenv("ZK_NODE", script, 1);
    /* For writing as well: it does not end when a writer has gone. */
    file = fopen(pipe, "r+e");
    if (file == NULL)
        server_proc_die("with_servers", pipe);
    return file;
}

static pid_t start(char *argv[])
{
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        execvp(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    return child;
}

/* Until the command has ended. Lines come one at a time, whole. */
static int run(char *argv[], struct zookeeper_ensemble *ensemble, FILE *orders)
{
    pid_t child = start(argv);
    struct pollfd ends[] = {
        {.fd = child < 0 ? -1 : pidfd_open(child, 0), .events = POLLIN},
        {.fd = fileno(orders), .events = POLLIN}};
    char line[128];
    int status = 0;

    if (ends[0].fd < 0)
        return 2;
    while (ends[0].revents == 0 && poll(ends, 2, -1) > 0)
        if (ends[1].revents != 0 && fgets(line, sizeof(line), orders) != NULL)
            obey(ensemble, line);
    (void)close(ends[0].fd);
    if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status))
        return 2;
    return WEXITSTATUS(status);
}

int main(int argc, char *argv[])
{
    struct zookeeper_ensemble *ensemble;
    struct mariadb_server *sql;
    struct zookeeper_server *zk;
    struct temp_dir dir;
    FILE *orders;
    int code;

    if (argc < 2) {
        fprintf(stderr, "usage: with_servers COMMAND [ARGUMENT...]\n");
        return 2;
    }
    temp_dir_make(&dir);
    sql = mariadb_server_start();
    zk = zookeeper_server_start();
    ensemble = zookeeper_ensemble_start();
    orders = make_node_command(&dir);
    setenv("SQL", sql->url, 1);
    setenv("ZK", zk->url, 1);
    setenv("ZK_ENSEMBLE", ensemble->url, 1);
    code = run(argv + 1, ensemble, orders);
    (void)fclose(orders);
    zookeeper_ensemble_stop(ensemble);
    zookeeper_server_stop(zk);
    mariadb_server_stop(sql);
    temp_dir_remove(&dir);
    return code;
}

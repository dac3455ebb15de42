/*
 * A private MariaDB for a test: on a Unix socket in a directory of its own,
 * with an empty database "test" and a root without a password. It dies with the
 * test; see server_proc.h.
 */
#ifndef MARIADB_SERVER_H
#define MARIADB_SERVER_H

struct mariadb_server;

/* Makes the data directory, starts the server, returns when it is there. */
struct mariadb_server *mariadb_server_start(void);

/* Kills it and removes its directory. NULL is fine. */
void mariadb_server_stop(struct mariadb_server *server);

/* "mysql:unix:PATH", also while the server is down. */
const char *mariadb_server_url(const struct mariadb_server *server);

/* SIGKILL, and the same server again, with its data. */
void mariadb_server_kill(struct mariadb_server *server);
void mariadb_server_restart(struct mariadb_server *server);

/* SIGSTOP and SIGCONT. */
void mariadb_server_pause(struct mariadb_server *server);
void mariadb_server_resume(struct mariadb_server *server);

/* Runs SQL with the mariadb client, which has to succeed. */
void mariadb_server_do(const struct mariadb_server *server, const char *sql);

#endif

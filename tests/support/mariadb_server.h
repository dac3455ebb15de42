/*
 * A private MariaDB for a test: on a Unix socket in a directory of its own,
 * with an empty database "test" and a root without a password. It dies with the
 * test; see server_proc.h.
 */
#ifndef MARIADB_SERVER_H
#define MARIADB_SERVER_H

#include "tests/support/server_proc.h"
#include "tests/support/temp_dir.h"

struct mariadb_server {
    struct server_proc proc; /* may be killed, paused and resumed */
    struct temp_dir dir;
    char url[TEMP_DIR_BYTES_MAX + 32]; /* mysql:unix:PATH */
};

/* Makes the data directory, starts the server, returns when it is there. */
struct mariadb_server *mariadb_server_start(void);

/* Kills it and removes its directory. NULL is fine. */
void mariadb_server_stop(struct mariadb_server *server);

/* After a kill: the same server again, with its data. */
void mariadb_server_restart(struct mariadb_server *server);

/* Runs SQL with the mariadb client, which has to succeed. */
void mariadb_server_do(const struct mariadb_server *server, const char *sql);

#endif

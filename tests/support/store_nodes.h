/*
 * Two instances of a test at two nodes of a Galera cluster, STORE_RIG_MYSQL and
 * STORE_RIG_MYSQL_2; or both at one MariaDB, or at one SQLite file.
 */
#ifndef STORE_NODES_H
#define STORE_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/sql.h"
#include "tests/support/store_rig.h"

#define STORE_NODES_BUSY_MS 60000

/* Connections of the test's own. */
struct store_nodes {
    struct sql *second; /* NULL: SQLite */
    struct sql *first;  /* NULL: no cluster. It has a table "held" then */
};

/* The second instance's --db. */
void store_nodes_url(const struct store_rig *rig, char *url, size_t size);

void store_nodes_open(struct store_nodes *nodes, const struct store_rig *rig);
void store_nodes_close(struct store_nodes *nodes);

/* One more to the second node, as a store has it. */
struct sql *store_nodes_connect(const struct store_rig *rig);

/* Whether one instance may be waiting for the other one's transaction. */
bool store_nodes_is_blocked(const struct store_nodes *nodes);

/* Of a cluster: transactions that the second node commits from now on are ordered,
 * and not known to the first one, until its COMMIT waits behind them. */
void store_nodes_hold_back(const struct store_nodes *nodes);
void store_nodes_let_in(const struct store_nodes *nodes);

void store_nodes_glance(void);

/* The first column of the first row; arguments as of sql_query(). */
#define store_nodes_number(...) store_nodes_first_number(sql_query(__VA_ARGS__))

int64_t store_nodes_first_number(struct sql_query *query);

/* ---- a store that is stopped -------------------------------------------------- */

/* Before one of its statements: a table of functions stands before its engine's. One
 * store of the process at a time. */
#define STORE_NODES_COMMIT (-1)

/* The store's next transaction stops before its statement AT, 1 is the first, or
 * before its COMMIT. Nothing may be under way in it. */
void store_nodes_stop_at(struct store *store, int at);

/* Waits until it has stopped, or *DONE; whether it has stopped. If it has not, it
 * will not. */
bool store_nodes_await_stop(const bool *done);

/* It goes on, and stops no more. */
void store_nodes_go_on(void);

/* For who waits here: sets *DONE; and looks at it. */
void store_nodes_tell(bool *done);
bool store_nodes_is_told(const bool *done);

#endif

/*
 * libdlock-sql: locks in a SQL database, a MariaDB or MySQL.
 *
 *   sql-table  One at a time by a unique index in a SQL table, if nobody crashes;
 *              re-entrant.
 *   sql-row    One at a time by a lock that a SQL connection holds: a dead holder
 *              is got rid of at once.
 *
 * A program that links the library, pkg-config's dlock-sql, registers them:
 *
 *     dlock_register(&dlock_sql_strategies, &error);
 *
 * Their url is "mysql:unix:PATH?db=NAME&user=NAME" or
 * "mysql://USER:PASSWORD@HOST[:PORT]/DB". A HOST that is a name is looked up by the
 * client library, several times for a new connection, and as long as the resolver
 * takes: no time of dlock.h bounds that. Addresses in numbers do not wait.
 */
#ifndef DLOCK_SQL_PUBLIC_H
#define DLOCK_SQL_PUBLIC_H

#include "lock/dlock.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct dlock_strategies dlock_sql_strategies;

#ifdef __cplusplus
}
#endif

#endif

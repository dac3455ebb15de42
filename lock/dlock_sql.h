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
 * Their url, one server, is "mysql:unix:PATH[?db=NAME&user=NAME]" or
 * "mysql://USER[:PASSWORD]@HOST[:PORT]/DB"; without a user it is root, without a database
 * test, and 3306 the port. Unlike in dlock_url.h nothing is decoded: USER can have
 * neither ':' nor '@', PASSWORD no '@', PATH no '?'. A HOST that is a name is looked up as
 * dlock_url.h says, and the client library is given the address: a certificate that it
 * checks by itself (Connector/C from 3.4 on) has to be that of the address.
 *
 * A server that has become read-only is left for the one that the address leads to by then.
 * Locks of sql-row do not move there, and rows only as far as they were replicated: two may
 * hold one then, and the release of sql-row's older holder says DLOCK_LOST.
 */
#ifndef DLOCK_SQL_PUBLIC_H
#define DLOCK_SQL_PUBLIC_H

#include "lock/dlock.h"

DLOCK_BEGIN

extern const struct dlock_strategies dlock_sql_strategies;

DLOCK_END

#endif

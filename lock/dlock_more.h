/*
 * libdlock: what a program may register besides the locks of dlock.h.
 *
 *     cc ... $(pkg-config --cflags --libs dlock-quorum dlock-tls)
 *
 *     dlock_register(&dlock_quorum_strategies, &error);
 *     dlock_register(&dlock_tls, &error);
 *     dlock_deadlock_register();
 *
 * Each dlock-NAME is a library of its own, which is built where its client library is.
 * Deadlocks are in libdlock itself.
 *
 * dlock-quorum: locks on several independent Redis servers
 * --------------------------------------------------------
 *   multi    One lock on all of them: none that loses its data lets a second
 *            holder in.
 *   redlock  One lock on more than half of them: it goes on when the others fail.
 *
 * Their url is a list of those of dlock_url.h, of different servers, with commas between.
 *
 * dlock-sql: locks in a SQL database, a MariaDB or MySQL
 * ------------------------------------------------------
 *   sql-table  One at a time by a unique index in a SQL table, if nobody crashes;
 *              re-entrant.
 *   sql-row    One at a time by a lock that a SQL connection holds: a dead holder
 *              is got rid of at once.
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
 *
 * dlock-zk: locks in ZooKeeper
 * ----------------------------
 *   zk       One holder while its ZooKeeper session lives; all who wait are woken
 *            at once.
 *   zk-fair  As zk, first come, first served: a release wakes one waiter; grants
 *            have a rising token.
 *
 * Their url is "zk:HOST[:PORT]", several with commas between. A HOST is a name,
 * 10.0.0.7, or [V6]; names are looked up as dlock_url.h says, those of one url one after
 * the other, when a session begins. One whose servers have moved ends with its timeout.
 *
 * Neither can be released by force (DLOCK_MISUSE); nor by hand: the holder of a node
 * that somebody deletes is not told.
 *
 * The client library's descriptors, a socket and two pipes' ends for each session, stay
 * open in a program that the process executes. No lock does: a session ends when
 * its owner is not heard of.
 *
 * A server that restarts with its data keeps the sessions, and so the locks, if
 * the client is back in a third of the session's timeout (watchdog_lease_ms).
 * With ZooKeeper 3.8.0 as the only server it may come back too late: that one
 * listens before it has its data, and a client that comes in between (in the
 * tests one in twenty) hears nothing for two thirds of the timeout. The lock is
 * told lost then. A server of an ensemble does not do that.
 * A process that was stopped for two thirds of the timeout has lost its locks.
 *
 * dlock-tls: TLS to Redis, by OpenSSL
 * -----------------------------------
 * Urls of the kinds rediss:, sentinels: and clusters:, of dlock_url.h. The server's
 * certificate has to be good for the host, or the address, of the url, and be signed by CA,
 * or by one of those that the system trusts.
 *
 * Deadlocks between those that wait for each other
 * ------------------------------------------------
 *     struct dlock_terms terms = {.wait_ms = 30000, .deadlock_ms = 500};
 *     status = dlock_acquire(session, "B", &terms, &grant, &error);
 *     if (status == DLOCK_DEADLOCK) ... give back what this session holds, try again
 *
 * A wait that lasts longer than deadlock_ms tells the server what for, and follows from
 * there who waits for whom: the holder of B waits for A, which this session holds. The
 * waiter in the cycle that has told its wait last gets DLOCK_DEADLOCK, with the cycle in
 * the text of the error; the others wait on.
 *
 * Only waits with deadlock_ms are known, and of them those that reach the server; a
 * hundred are followed, no more. It takes deadlock_ms and about half a second, and two
 * commands a second more. It never tells of a deadlock that was none: the look is repeated
 * until all in the cycle are known to have been in the same wait before the first look and
 * after it. A waiter that is stopped meanwhile, or cannot reach the server, is not heard
 * of, and then nothing is said.
 *
 * For redisson, fenced and fair, on one Redis; elsewhere deadlock_ms is DLOCK_MISUSE,
 * over a cluster too, because none of its nodes knows the locks of all, and by the first
 * look for a user of the server that has no right to it. An owner is a session: a process
 * that holds A in one session, and waits for B in another, is no edge from A to B.
 */
#ifndef DLOCK_MORE_H
#define DLOCK_MORE_H

#include "lock/dlock.h"

DLOCK_BEGIN

#define DLOCK_WAITS_BYTES_MAX 160

extern const struct dlock_strategies dlock_quorum_strategies;
extern const struct dlock_strategies dlock_sql_strategies;
extern const struct dlock_strategies dlock_zk_strategies;
extern const struct dlock_strategies dlock_tls;

/* Makes terms.deadlock_ms count: at the time for dlock_register(). */
void dlock_deadlock_register(void);

/* Follows who waits for whom from the holder of NAME on, for anybody who wants to know;
 * TEXT says it, with labels (dlock_inspect.h): "A is held by P, which waits for B, which
 * is held by Q, which is not known to wait". DLOCK_OK: no deadlock is known;
 * DLOCK_DEADLOCK: there is one, and TEXT has the way into it; else TEXT is left alone,
 * and the status is as of dlock_inspect(). Takes up to 2 s and a command's timeout. */
enum dlock_status dlock_waits_for(struct dlock_session *session,
                                  const char *name,
                                  char text[DLOCK_WAITS_BYTES_MAX],
                                  struct dlock_error *error);

DLOCK_END

#endif

/*
 * libdlock-zk: locks in ZooKeeper.
 *
 *   zk       One holder while its ZooKeeper session lives; all who wait are woken
 *            at once.
 *   zk-fair  As zk, first come, first served: a release wakes one waiter; grants
 *            have a rising token.
 *
 * A program that links the library, pkg-config's dlock-zk, registers them:
 *
 *     dlock_register(&dlock_zk_strategies, &error);
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
 */
#ifndef DLOCK_ZK_PUBLIC_H
#define DLOCK_ZK_PUBLIC_H

#include "lock/dlock.h"

DLOCK_BEGIN

extern const struct dlock_strategies dlock_zk_strategies;

DLOCK_END

#endif

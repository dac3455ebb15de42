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
 *     dlock_register(&dlock_zk_strategies);
 *
 * Their url is "zk:HOST:PORT", several with commas between.
 */
#ifndef DLOCK_ZK_PUBLIC_H
#define DLOCK_ZK_PUBLIC_H

#include "lock/dlock.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct dlock_strategies dlock_zk_strategies;

#ifdef __cplusplus
}
#endif

#endif

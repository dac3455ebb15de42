/*
 * libdlock-sentinel: urls of the kind sentinel:, of dlock_url.h. The primary that
 * sentinels name is followed to wherever it fails over.
 *
 * A program that links the library, pkg-config's dlock-sentinel, registers it:
 *
 *     dlock_register(&dlock_sentinel, &error);
 */
#ifndef DLOCK_SENTINEL_PUBLIC_H
#define DLOCK_SENTINEL_PUBLIC_H

#include "lock/dlock.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct dlock_strategies dlock_sentinel;

#ifdef __cplusplus
}
#endif

#endif

/*
 * What the files of the store that stores nothing share.
 */
#ifndef NULL_STORE_H
#define NULL_STORE_H

#include "db/store.h"

/* STORE_MISUSE, and the text that says why. */
enum store_status null_refuse(struct store_error *error);

#endif

/*
 * Stops a store before one of its statements: a table of functions before its
 * engine's. One store of the process at a time.
 */
#ifndef STORE_STEPPER_H
#define STORE_STEPPER_H

#include <stdbool.h>

#include "db/store.h"

#define STORE_STEPPER_COMMIT (-1)

/* The store's next transaction stops before its statement AT, 1 is the first, or
 * before its COMMIT. Nothing may be under way in it. */
void store_stepper_set(struct store *store, int at);

/* Waits until it has stopped, or *DONE; whether it has stopped. If it has not, it
 * will not. */
bool store_stepper_wait(const bool *done);

/* It goes on, and stops no more. */
void store_stepper_go_on(void);

/* For who waits here: sets *DONE; and looks at it. */
void store_stepper_tell(bool *done);
bool store_stepper_is_told(const bool *done);

#endif

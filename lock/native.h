/*
 * Private to lock/: what newer servers do in one command of their own, for
 * which others need a script.
 *
 *                    Redis 8.4                Valkey 9
 *   delete if equal  DELEX key IFEQ id        DELIFEQ key id
 *   extend if equal  SET key id IFEQ id PX n  the same
 *
 * A connection asks once which of them its server has.
 */
#ifndef DLOCK_NATIVE_H
#define DLOCK_NATIVE_H

#include "lock/command.h"

/* What a server has. */
enum dlock_native {
    DLOCK_NATIVE_UNASKED,
    DLOCK_NATIVE_NONE,
    DLOCK_NATIVE_DELEX,
    DLOCK_NATIVE_DELIFEQ,
};

/* Fills *PROBE with the question, and tells what the reply says. */
void dlock_native_probe(struct dlock_command *probe, const char *name);
enum dlock_native dlock_native_answer(const struct dlock_reply *reply);

/*
 * Fills *FORM with the server's own way to do what COMMAND's script does; it
 * borrows from COMMAND. False: there is none.
 */
bool dlock_native_form(enum dlock_native native,
                       const struct dlock_command *command,
                       struct dlock_command *form);

/* Makes the reply to a form the one that the script would have given. */
void dlock_native_translate(struct dlock_reply *reply);

#endif

/*
 * Private to the wire: commands in the server's protocol, and numbers as text.
 */
#ifndef DLOCK_ENCODE_H
#define DLOCK_ENCODE_H

#include "lock/redis/command.h"

/* Grows with the longest command; its owner frees BYTES. */
struct dlock_encoded {
    char *bytes;
    size_t len;
    size_t size;
};

/* COMMAND as it is sent; what was in OUT goes. False: no memory. */
bool dlock_encode(const struct dlock_command *command, enum dlock_script_by by,
                  struct dlock_encoded *out);

#endif

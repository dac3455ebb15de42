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

/* A script takes three words before its keys: what to do, which, how many keys. */
enum { DLOCK_WORDS_MAX = 3 + DLOCK_ARGS_MAX };

/* COMMAND as words, a script by its hash, and how many. KEYS_N has the text of one
 * of them. */
size_t dlock_encode_words(const struct dlock_command *command,
                          char keys_n[DLOCK_DIGITS_MAX + 1],
                          const char *words[DLOCK_WORDS_MAX]);

/* COMMAND as it is sent; what was in OUT goes. False: no memory. */
bool dlock_encode(const struct dlock_command *command, enum dlock_script_by by,
                  struct dlock_encoded *out);

#endif

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

/* Words before the command's own arguments, if it is a script, and those. */
enum { DLOCK_WORDS_MAX = 2 + DLOCK_SCRIPT_PARTS_MAX + DLOCK_ARGS_MAX };

/* COMMAND as words, and how many. If PARTS_N is not 0, so many words behind the
 * first are to be sent as one. KEYS_N has the text of one of them. */
size_t dlock_encode_words(const struct dlock_command *command,
                          enum dlock_script_by by,
                          char keys_n[DLOCK_DIGITS_MAX + 1],
                          const char *words[DLOCK_WORDS_MAX], size_t *parts_n);

/* COMMAND as it is sent, in place of the last one. False: no memory. */
bool dlock_encode(const struct dlock_command *command, enum dlock_script_by by,
                  struct dlock_encoded *out);

#endif

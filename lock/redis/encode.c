/*
 * Commands in the server's protocol: "*2\r\n$3\r\nGET\r\n$4\r\nname\r\n".
 *
 * Why not by hiredis' formatter? It prints every argument's length by
 * sprintf(), twice, and allocates memory for every command. That was half of
 * all that a lock's command cost this process.
 */
#include "lock/redis/encode.h"

#include <stdlib.h>
#include <string.h>

/* The frame of an argument, or of the whole: a mark, a number, line ends. */
enum { FRAME_BYTES_MAX = 1 + DLOCK_DIGITS_MAX + 4 };

static char *put(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

/* "*12\r\n" or "$3\r\n". */
static char *put_count(char *at, char mark, size_t n)
{
    *at++ = mark;
    at += dlock_digits(at, n);
    return put(at, "\r\n", 2);
}

static bool make_room(struct dlock_encoded *out, size_t size)
{
    char *bytes;

    if (size <= out->size)
        return true;
    bytes = realloc(out->bytes, size);
    if (bytes == NULL)
        return false;
    out->bytes = bytes;
    out->size = size;
    return true;
}

/* Words [1, PARTS_N] are parts of one argument. */
static bool encode(const char *const words[], size_t n, size_t parts_n,
                   struct dlock_encoded *out)
{
    size_t lens[DLOCK_WORDS_MAX];
    size_t size = FRAME_BYTES_MAX;
    size_t parts_len = 0;
    char *at;

    for (size_t i = 0; i < n; i++) {
        lens[i] = strlen(words[i]);
        size += FRAME_BYTES_MAX + lens[i];
        if (i >= 1 && i <= parts_n)
            parts_len += lens[i];
    }
    if (!make_room(out, size))
        return false;
    at = put_count(out->bytes, '*', parts_n > 0 ? n - parts_n + 1 : n);
    for (size_t i = 0; i < n; i++) {
        bool in_parts = i >= 1 && i <= parts_n;

        if (!in_parts || i == 1)
            at = put_count(at, '$', in_parts ? parts_len : lens[i]);
        at = put(at, words[i], lens[i]);
        if (!in_parts || i == parts_n)
            at = put(at, "\r\n", 2);
    }
    out->len = (size_t)(at - out->bytes);
    return true;
}

size_t dlock_encode_words(const struct dlock_command *command,
                          enum dlock_script_by by,
                          char keys_n[DLOCK_DIGITS_MAX + 1],
                          const char *words[DLOCK_WORDS_MAX], size_t *parts_n)
{
    const struct dlock_script *script = command->script;
    size_t n = 0;

    *parts_n = 0;
    if (script != NULL && by == DLOCK_BY_SHA) {
        words[n++] = "EVALSHA";
        words[n++] = script->sha;
    } else if (script != NULL) {
        words[n++] = "EVAL";
        while (*parts_n < DLOCK_SCRIPT_PARTS_MAX &&
               script->parts[*parts_n] != NULL)
            words[n++] = script->parts[(*parts_n)++];
    }
    if (script != NULL) {
        (void)dlock_digits(keys_n, command->keys_n);
        words[n++] = keys_n;
    }
    for (size_t i = 0; i < command->args_n; i++)
        words[n++] = command->args[i];
    return n;
}

bool dlock_encode(const struct dlock_command *command, enum dlock_script_by by,
                  struct dlock_encoded *out)
{
    const char *words[DLOCK_WORDS_MAX];
    char keys_n[DLOCK_DIGITS_MAX + 1];
    size_t parts_n;
    size_t n = dlock_encode_words(command, by, keys_n, words, &parts_n);

    return encode(words, n, parts_n, out);
}

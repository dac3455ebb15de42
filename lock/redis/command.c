/*
 * Putting commands together, and into the server's protocol:
 *
 *     "*2\r\n$3\r\nGET\r\n$4\r\nname\r\n"
 *
 * Why not by hiredis' formatter? It prints every argument's length by sprintf(), twice,
 * and allocates memory for every command. That was half of all that a lock's command
 * cost this process.
 *
 * A full argument list is a bug of the strategy that filled it, not something
 * that input can cause: hence the asserts.
 */
#include "lock/redis/command.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/client.h"

size_t dlock_digits(char text[DLOCK_DIGITS_MAX + 1], uint64_t number)
{
    char *at = text;
    uint64_t unit = 1;

    /* The division keeps UNIT from overflowing: a comparison with 10 * UNIT would wrap at
     * 20 digits. */
    while (number / unit >= 10)
        unit *= 10;
    for (; unit > 0; unit /= 10)
        *at++ = (char)('0' + number / unit % 10);
    *at = '\0';
    return (size_t)(at - text);
}

void dlock_command_init(struct dlock_command *command, const char *step,
                        const char *name, const struct dlock_script *script)
{
    /* The fields are set one by one, because a struct literal would clear some five
     * kilobytes of arrays for each command. */
    command->step = step;
    command->name = name;
    command->script = script;
    command->repeatable = command->must_go = false;
    command->waits = NULL;
    command->keys_n = 0;
    command->args_n = 0;
    command->numbers_n = 0;
    command->derived_n = 0;
}

bool dlock_command_unwanted(const struct dlock_command *command)
{
    return command->waits != NULL && dlock_wait_ended(command->waits);
}

void dlock_command_arg(struct dlock_command *command, const char *text)
{
    assert(command->args_n < DLOCK_ARGS_MAX);
    command->args[command->args_n++] = text;
}

void dlock_command_number(struct dlock_command *command, uint64_t number)
{
    char *text;

    assert(command->numbers_n < DLOCK_NUMBERS_MAX);
    text = command->numbers[command->numbers_n++];
    (void)dlock_digits(text, number);
    dlock_command_arg(command, text);
}

void dlock_command_key(struct dlock_command *command, const char *key)
{
    /* Keys are the first arguments, because EVAL takes their number and not their
     * places. */
    assert(command->keys_n == command->args_n);
    dlock_command_arg(command, key);
    command->keys_n++;
}

/* The command keeps the text, so that nobody else has to. */
static const char *derive(struct dlock_command *command, const char *suffix,
                          const char *detail)
{
    char *text;

    /* The text stays in the command's own array, which args[] points into: hence "do not
     * copy it" in command.h. */
    assert(command->derived_n < DLOCK_DERIVED_MAX);
    text = command->derived[command->derived_n++];
    dlock_key_derive(text, command->name, suffix, detail);
    return text;
}

void dlock_command_derived(struct dlock_command *command, const char *suffix,
                           const char *detail)
{
    dlock_command_arg(command, derive(command, suffix, detail));
}

void dlock_command_derived_key(struct dlock_command *command,
                               const char *suffix, const char *detail)
{
    dlock_command_key(command, derive(command, suffix, detail));
}

/* The tag of KEY, and its length; NULL: it has none. Redis' own rule: what is between the
 * first '{' and the first '}' after it, and not nothing. */
static const char *tag_of(const char *key, size_t *len)
{
    const char *open = strchr(key, '{');
    const char *shut = open == NULL ? NULL : strchr(open, '}');

    *len = shut == NULL ? 0 : (size_t)(shut - open) - 1;
    return *len > 0 ? open + 1 : NULL;
}

/* CRC-16/XMODEM, which the specification of Redis Cluster names, of the tag; or of all of
 * KEY, if it has none. */
unsigned dlock_key_slot(const char *key)
{
    size_t len;
    const char *tag = tag_of(key, &len);
    const char *at = tag != NULL ? tag : key;
    const char *end = tag != NULL ? tag + len : strchr(key, '\0');
    unsigned crc = 0;

    for (; at < end; at++) {
        crc ^= (unsigned)(unsigned char)*at << 8;
        for (int bit = 0; bit < 8; bit++)
            /* CRC grows beyond 16 bits and is not cut, because no step looks above bit 15,
             * and the slot is its low 14 bits. */
            crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
    }
    return crc % DLOCK_SLOTS_N;
}

void dlock_key_derive(char key[DLOCK_KEY_BYTES_MAX + 1], const char *name,
                      const char *suffix, const char *detail)
{
    size_t tag_len;
    bool tagged = tag_of(name, &tag_len) != NULL;
    /* One more colon, so that "{Q}" and "Q" do not share what they keep. */
    const char *const parts[] = {tagged ? "" : "{", name, tagged ? ":" : "}",
                                 suffix, detail};
    size_t used = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t len = strlen(parts[i]);

        assert(used + len <= DLOCK_KEY_BYTES_MAX);
        memcpy(key + used, parts[i], len + 1);
        used += len;
    }
}

/* The protocol ------------------------------------------------------------- */

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

size_t dlock_encode_words(const struct dlock_command *command,
                          enum dlock_script_by by,
                          char keys_n[DLOCK_DIGITS_MAX + 1],
                          const char *words[DLOCK_WORDS_MAX], size_t *parts_n)
{
    const struct dlock_script *script = command->script;
    size_t n = 0;

    *parts_n = 0;
    /* A script without a hash is of a lock's text, which is put together while the program
     * runs. */
    if (script != NULL && script->sha != NULL && by == DLOCK_BY_SHA) {
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
    size_t lens[DLOCK_WORDS_MAX];
    size_t size = FRAME_BYTES_MAX;
    size_t parts_len = 0;
    char *at;

    for (size_t i = 0; i < n; i++) {
        /* The room is counted before a byte is written, at the most that a frame can take:
         * so the second loop needs no checks. */
        lens[i] = strlen(words[i]);
        size += FRAME_BYTES_MAX + lens[i];
        /* The parts of a script stand between "EVAL" and the number of keys. */
        if (i >= 1 && i <= parts_n)
            parts_len += lens[i];
    }
    /* The buffer is the wire's and only grows, so that most commands allocate nothing. */
    if (size > out->size) {
        char *bytes = realloc(out->bytes, size);

        if (bytes == NULL)
            return false;
        out->bytes = bytes;
        out->size = size;
    }
    /* The server counts the parts of the script as one argument. */
    at = put_count(out->bytes, '*', parts_n > 0 ? n - parts_n + 1 : n);
    for (size_t i = 0; i < n; i++) {
        /* Words [1, PARTS_N] are parts of one argument. */
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

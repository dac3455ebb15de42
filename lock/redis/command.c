/*
 * Putting commands together.
 *
 * A full argument list is a bug of the strategy that filled it, not something
 * that input can cause: hence the asserts.
 */
#include "lock/redis/command.h"

#include <assert.h>
#include <string.h>

size_t dlock_digits(char text[DLOCK_DIGITS_MAX + 1], uint64_t number)
{
    char *at = text;
    uint64_t unit = 1;

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
    command->step = step;
    command->name = name;
    command->script = script;
    command->repeatable = false;
    command->unwanted = NULL;
    command->session = NULL;
    command->keys_n = 0;
    command->args_n = 0;
    command->numbers_n = 0;
    command->derived_n = 0;
}

bool dlock_command_unwanted(const struct dlock_command *command)
{
    return command->unwanted != NULL && command->unwanted(command->session);
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
    assert(command->keys_n == command->args_n);
    dlock_command_arg(command, key);
    command->keys_n++;
}

/* The command keeps the text, so that nobody else has to. */
static const char *derive(struct dlock_command *command, const char *suffix,
                          const char *detail)
{
    char *text;

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

/* Redis' own rule: the first '{', the first '}' after it, and not nothing. */
static bool has_tag(const char *name)
{
    const char *open = strchr(name, '{');
    const char *shut = open == NULL ? NULL : strchr(open, '}');

    return shut != NULL && shut > open + 1;
}

void dlock_key_derive(char key[DLOCK_KEY_BYTES_MAX + 1], const char *name,
                      const char *suffix, const char *detail)
{
    bool tagged = has_tag(name);
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

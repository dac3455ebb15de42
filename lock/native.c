/*
 * Native forms of scripts. A command of the server's own is parsed and counted
 * as what it is, and needs no cache of scripts that a restart may empty; what
 * it does is the same, and so is what the caller is told.
 */
#include "lock/native.h"

#include <string.h>

void dlock_native_probe(struct dlock_command *probe, const char *name)
{
    dlock_command_init(probe, "command-info", name, NULL);
    probe->repeatable = true;
    dlock_command_arg(probe, "COMMAND");
    dlock_command_arg(probe, "INFO");
    dlock_command_arg(probe, "DELEX");
    dlock_command_arg(probe, "DELIFEQ");
}

/* A list of two: a command's description, its name first, or nil. */
enum dlock_native dlock_native_answer(const struct dlock_reply *reply)
{
    if (strcmp(reply->string, "delex") == 0)
        return DLOCK_NATIVE_DELEX;
    if (strcmp(reply->string, "delifeq") == 0)
        return DLOCK_NATIVE_DELIFEQ;
    return DLOCK_NATIVE_NONE;
}

static void form_delete(enum dlock_native native,
                        const struct dlock_command *command,
                        struct dlock_command *form)
{
    bool delex = native == DLOCK_NATIVE_DELEX;

    dlock_command_init(form, delex ? "delex" : "delifeq", command->name, NULL);
    dlock_command_arg(form, delex ? "DELEX" : "DELIFEQ");
    dlock_command_arg(form, command->args[0]);
    if (delex)
        dlock_command_arg(form, "IFEQ");
    dlock_command_arg(form, command->args[1]);
}

/* The value stays what it is. */
static void form_extend(const struct dlock_command *command,
                        struct dlock_command *form)
{
    dlock_command_init(form, "set-ifeq", command->name, NULL);
    dlock_command_arg(form, "SET");
    dlock_command_arg(form, command->args[0]);
    dlock_command_arg(form, command->args[1]);
    dlock_command_arg(form, "IFEQ");
    dlock_command_arg(form, command->args[1]);
    dlock_command_arg(form, "PX");
    dlock_command_arg(form, command->args[2]);
}

bool dlock_native_form(enum dlock_native native,
                       const struct dlock_command *command,
                       struct dlock_command *form)
{
    if (native == DLOCK_NATIVE_UNASKED || native == DLOCK_NATIVE_NONE)
        return false;
    if (command->native == DLOCK_DELETE_IF_EQUAL)
        form_delete(native, command, form);
    else
        form_extend(command, form);
    form->repeatable = command->repeatable;
    return true;
}

/* DELEX and DELIFEQ count, as the script; SET says OK or nothing. */
void dlock_native_translate(struct dlock_reply *reply)
{
    if (reply->kind == DLOCK_REPLY_STRING)
        reply->integers[0] = 1;
    reply->integers_n = 1;
}

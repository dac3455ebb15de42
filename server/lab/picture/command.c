/* See draw.h. */
#include "server/lab/picture/draw.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

bool command_has_programs(const struct stage_scene *scene)
{
    for (unsigned i = 0; i < scene->buyers; i++)
        if (strcmp(stage_role(scene, i).program, "order") != 0)
            return true;
    return false;
}

/* A line that is full ends with a backslash. */
struct command {
    FILE *out;
    int column;
};

/* One word or flag with its value. One that is wider than a line is broken behind its
 * commas: the shell puts it together again. */
static void write_word(struct command *command, const char *format, ...)
{
    int columns = draw_columns(command->out) - 2; /* for the backslash */
    char text[500];
    const char *at = text;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* The first word never moves to a line of its own. */
    if (command->column > 0 &&
        command->column + 1 + (int)strlen(text) > columns)
        command->column = fprintf(command->out, " \\\n   ") - 3;
    if (command->column > 0)
        command->column += fprintf(command->out, " ");
    /* A backslash at the end of a line, and no blank: the shell joins the two parts as
     * they were. */
    while (command->column + (int)strlen(at) > columns && strchr(at, ',')) {
        const char *cut = strchr(at, ',') + 1;

        fprintf(command->out, "%.*s\\\n", (int)(cut - at), at);
        command->column = 0;
        at = cut;
    }
    command->column += fprintf(command->out, "%s", at);
}

static void write_flag(struct command *command, const char *name, int64_t value,
                       int64_t preset)
{
    /* A setting as replay has it by itself is left out: 0 is one of those. */
    if (value > 0 && value != preset)
        write_word(command, "--%s %" PRId64, name, value);
}

/* The settings of a role besides its program: ":user=5:key=k". */
static size_t list_settings(const struct stage_role *role, char text[],
                            size_t size)
{
    size_t used = 0;

    text[0] = '\0';
#define ROW(member, flag, words)                                               \
    if (role->member > 0)                                                      \
        used += (size_t)snprintf(text + used, size - used,                     \
                                 ":" flag "=%" PRId64, role->member);
#include "server/lab/scene/roles.inc"
    if (role->key)
        used +=
            (size_t)snprintf(text + used, size - used, ":key=%s", role->key);
    return used;
}

void command_replay(FILE *out, const struct stage_scene *scene,
                    const char *schedule)
{
    char programs[(STAGE_ACTORS_MAX + 1) * 2 * STAGE_NAME_BYTES] = "";
    bool is_plain = true;
    struct command command = {.out = out};
    char settings[100];
    size_t used = 0;

    write_word(&command, "%s replay", draw_program());
#define ROW(member, least, most, preset, flag)                                 \
    write_flag(&command, flag, scene->member, preset);
#include "server/lab/scene/numbers.inc"
    if (scene->lock_per == LOCK_PER_USER)
        write_word(&command, "--lock-per user");
    if (scene->one_process)
        write_word(&command, "--one-process");
    if (scene->replica)
        write_word(&command, "--replica");
    /* An instance deducts guarded without being told. */
    if (scene->batched)
        write_word(&command, "--batched");
    else if (scene->deduct == DEDUCT_GUARDED)
        write_word(&command, "--deduct guarded");
    for (unsigned i = 0; i < scene->buyers; i++) {
        const char *program = stage_role(scene, i).program;

        if (list_settings(&scene->roles[i], settings, sizeof(settings)) > 0 ||
            strcmp(program, "order") != 0)
            is_plain = false;
        /* All roles are told if one differs: a role's place in the list is its actor. */
        used +=
            (size_t)snprintf(programs + used, sizeof(programs) - used, "%s%s%s",
                             i == 0 ? "" : ",", program, settings);
    }
    if (!is_plain)
        write_word(&command, "--programs %s", programs);
    write_word(&command, "%s", scene->lock);
    /* Quotes, because a schedule has blanks, and signs that a shell would read. */
    write_word(&command, "'%s'", schedule);
}

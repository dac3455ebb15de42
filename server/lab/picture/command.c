/* See draw.h. */
#include "server/lab/picture/draw.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool command_has_programs(const struct stage_scene *scene)
{
    for (unsigned i = 0; i < scene->buyers; i++)
        if (strcmp(stage_role(scene, i).program, "order") != 0)
            return true;
    return false;
}

void command_settings(FILE *out, const struct stage_scene *scene, char before)
{
    static const struct stage_role none;
    bool is_plain = !command_has_programs(scene);

    /* A number below the least that replay takes is one that nobody has set. */
#define ROW(member, least, most, preset, flag)                                 \
    if (scene->member >= (least) && scene->member != (preset))                 \
        fprintf(out, "%c--" flag " %" PRId64, before, (int64_t)scene->member);
#include "server/lab/scene/numbers.inc"
    if (scene->lock_per == LOCK_PER_USER)
        fprintf(out, "%c--lock-per user", before);
    if (scene->one_process)
        fprintf(out, "%c--one-process", before);
    if (scene->replica)
        fprintf(out, "%c--replica", before);
    /* An instance deducts guarded without being told. */
    if (scene->batched)
        fprintf(out, "%c--batched", before);
    else if (scene->deduct == DEDUCT_GUARDED)
        fprintf(out, "%c--deduct guarded", before);
    for (unsigned i = 0; i < scene->buyers; i++) {
        struct stage_role role = scene->roles[i];

        role.program = NULL;
        is_plain = is_plain && memcmp(&role, &none, sizeof(role)) == 0;
    }
    /* All roles are told if one differs: a role's place in the list is its actor. */
    for (unsigned i = 0; i < scene->buyers && !is_plain; i++) {
        const struct stage_role *role = &scene->roles[i];

        if (i == 0)
            fprintf(out, "%c--programs ", before);
        fprintf(out, "%s%s", i == 0 ? "" : ",", stage_role(scene, i).program);
#define ROW(member, flag, words)                                               \
    if (role->member > 0)                                                      \
        fprintf(out, ":" flag "=%" PRId64, role->member);
#include "server/lab/scene/roles.inc"
        if (role->key)
            fprintf(out, ":key=%s", role->key);
    }
}

/* One word or flag with its value, behind COLUMN; returns where it ends. A line that is
 * full ends with a backslash. */
static int write_word(FILE *out, int column, const char *at)
{
    int columns = draw_columns(out) - 2; /* for the backslash */

    /* The first word never moves to a line of its own. */
    if (column > 0 && column + 1 + (int)strlen(at) > columns)
        column = fprintf(out, " \\\n   ") - 3;
    if (column > 0)
        column += fprintf(out, " ");
    /* A backslash at the end of a line, and no blank, behind a comma: the shell joins the
     * two parts as they were. */
    while (column + (int)strlen(at) > columns && strchr(at, ',')) {
        const char *cut = strchr(at, ',') + 1;

        fprintf(out, "%.*s\\\n", (int)(cut - at), at);
        column = 0;
        at = cut;
    }
    return column + fprintf(out, "%s", at);
}

void command_replay(FILE *out, const struct stage_scene *scene,
                    const char *schedule)
{
    char *text = NULL, *rest, *word;
    int column = 0;
    size_t size;
    FILE *words = open_memstream(&text, &size); /* a line for each */

    if (words) {
        fprintf(words, "%s replay", draw_program());
        command_settings(words, scene, '\n');
        /* Quotes, because a schedule has blanks, and signs that a shell would read. */
        fprintf(words, "\n%s\n'%s'", scene->lock, schedule);
        (void)fclose(words);
    }
    for (rest = text; (word = strsep(&rest, "\n")) != NULL;)
        column = write_word(out, column, word);
    free(text);
}

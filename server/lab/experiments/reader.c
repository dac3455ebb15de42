/* See reader.h. */
#include "server/lab/experiments/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/lab/stage/stage_options.h"

bool reader_fail(struct reader *reader, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fail_in_file(reader->error, reader->file, reader->line, format, args);
    va_end(args);
    return false;
}

/* ---- lines -------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next line, with those behind it that begin with a blank. A blank joins them, but
 * not behind a Chinese character. NULL: no more. */
static char *next_line(struct reader *reader)
{
    char *line = reader->at, *from = line, *to = line;

    if (!*from)
        return NULL;
    reader->line = reader->lines_n + 1;
    do {
        reader->lines_n++;
        if (to > line && (unsigned char)to[-1] < 0x80)
            *to++ = ' ';
        while (is_blank(*from))
            from++;
        while (*from && *from != '\n')
            *to++ = *from++;
        while (to > line && is_blank(to[-1]))
            to--;
        from += *from == '\n';
    } while (is_blank(*from));
    reader->at = from;
    *to = '\0';
    return line;
}

static bool begin_section(struct reader *reader, const char *line)
{
    const char *const *sections = reader->sections;
    char all[80] = "", name[16];

    for (size_t i = 0, used = 0; sections[i]; i++)
        used += (size_t)snprintf(all + used, sizeof(all) - used, " [%s]",
                                 sections[i]);
    do {
        if (!sections[++reader->section])
            return reader_fail(reader, "%s: the sections are%s, in this order",
                               line, all);
        (void)snprintf(name, sizeof(name), "[%s]", sections[reader->section]);
    } while (strcmp(line, name) != 0);
    reader->keys_n = 0;
    return true;
}

/* "key       value" */
static bool take_value(struct reader *reader, char *line)
{
    char *key = strsep(&line, " \t"), *value = line ? line : key + strlen(key);

    value += strspn(value, " \t");
    for (unsigned i = 0; i < reader->keys_n; i++)
        if (strcmp(reader->keys[i], key) == 0)
            return reader_fail(reader, "'%s' is there twice", key);
    if (reader->keys_n < READER_KEYS_MAX)
        reader->keys[reader->keys_n++] = key;
    return reader->set(reader, key, value);
}

bool reader_read(struct reader *reader, char id[8], char name[40])
{
    const char *base = strrchr(reader->file, '/');
    bool good = reader->at || reader_fail(reader, "no memory");
    int end = 0;
    char *line;

    base = base ? base + 1 : reader->file;
    if (good &&
        (sscanf(base, "%7[0-9w]-%39[a-z0-9-].txt%n", id, name, &end) != 2 ||
         end == 0 || base[end]))
        good = reader_fail(reader,
                           "a file is called NUMBER-NAME.txt, 08-my-own.txt");
    reader->section = -1;
    while (good && (line = next_line(reader)) != NULL)
        if (*line == '[')
            good = begin_section(reader, line) && reader->begin(reader);
        else if (*line && *line != '#')
            good = take_value(reader, line);
    return good;
}

/* ---- values ------------------------------------------------------------- */

bool reader_faults(struct reader *reader, unsigned *faults, char *words)
{
    char *rest = NULL;

    for (char *word = strtok_r(words, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        unsigned fault = 0;

        while (fault < STAGE_FAULT_N &&
               strcmp(stage_fault_word(fault), word) != 0)
            fault++;
        if (fault == STAGE_FAULT_N)
            return reader_fail(reader, "there is no fault '%s'", word);
        *faults |= 1u << fault;
    }
    return true;
}

static const char **text_at(const void *texts, const struct reader_text *text)
{
    return (const char **)(void *)((char *)texts + text->offset);
}

/* A file of somebody's own may be in any encoding. */
json_t *reader_json(const struct reader_text list[], const void *texts)
{
    json_t *object = json_object();

    for (; list->name; list++)
        if (*text_at(texts, list))
            (void)json_object_set_new(object, list->name,
                                      draw_json_text(*text_at(texts, list), 0));
    return object;
}

bool reader_text(struct reader *reader, const struct reader_text list[],
                 void *texts, const char *key, const char *value)
{
    for (; list->name; list++)
        if (strcmp(list->name, key) == 0) {
            *text_at(texts, list) = value;
            return true;
        }
    return reader_fail(reader, "there is no text '%s'", key);
}

bool reader_has_texts(struct reader *reader, const struct reader_text list[],
                      size_t n, void *texts, const char *section)
{
    for (size_t i = 0; i < n; i++) {
        const char *text = *text_at(texts, &list[i]);

        if (!text || !*text)
            return reader_fail(reader, "[%s] has no %s", section, list[i].name);
    }
    return true;
}

bool reader_play(struct reader *reader, struct stage_scene *scene,
                 const char **schedule, const char *key, char *value)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    bool is_order = strcmp(value, "order") == 0;
    struct fail error;

    if (strcmp(key, "schedule") == 0) {
        *schedule = value;
        return stage_parse(value, moves, &error) >= 0 ||
               reader_fail(reader, "%s", error.text);
    }
    if (strcmp(key, "lock") == 0)
        scene->lock = value;
    else if (!stage_options_set(scene, key, value, &error))
        return reader_fail(reader, "%s", error.text);
    if (is_order) /* as if nothing were said */
        scene->roles[0].program = NULL;
    return !scene->lock || stage_can_play(scene, &error) ||
           reader_fail(reader, "%s", error.text);
}

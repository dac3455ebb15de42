/* See reader.h. */
#include "server/lab/experiments/reader.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/scene/stage_options.h"

enum { WORD_BYTES_MAX = 64 /* longer ones are like no other */ };

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
    /* An error names the first line of several that are one. */
    reader->line = reader->lines_n + 1;
    do {
        reader->lines_n++;
        /* A line is put together in its own place: it only gets shorter. */
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
    const char *const *sections = reader->folder->sections;
    char all[80] = "", name[16];

    for (size_t i = 0, used = 0; sections[i]; i++)
        used += (size_t)snprintf(all + used, sizeof(all) - used, " [%s]",
                                 sections[i]);
    /* Sections may be left out, but stand in one order: so a name that came before is
     * wrong here. */
    do {
        if (!sections[++reader->section])
            return reader_fail(reader, "%s: the sections are%s, in this order",
                               line, all);
        (void)snprintf(name, sizeof(name), "[%s]", sections[reader->section]);
    } while (strcmp(line, name) != 0);
    /* Each section has its own keys: "twice" is within one. */
    reader->had_n = 0;
    return reader->section < EXPERIMENT_LANGUAGES_N ||
           reader->folder->begin(reader);
}

/* ---- texts -------------------------------------------------------------- */

static bool take_text(struct reader *reader, const char *word,
                      const char *value)
{
    const char *const *keys = reader->folder->texts;
    struct reader_entry *entry = reader->into;

    for (size_t i = 0; keys[i]; i++)
        if (strcmp(keys[i], word) == 0) {
            entry->texts[reader->section][i] = value;
            return true;
        }
    return reader_fail(reader, "there is no text '%s'", word);
}

/* A file of somebody's own may be in English alone. */
static bool has_texts(struct reader *reader)
{
    const struct reader_folder *folder = reader->folder;
    struct reader_entry *entry = reader->into;

    /* The English stands in for a language that a file has not. */
    if (!entry->texts[EXPERIMENT_ZH][0])
        memcpy(entry->texts[EXPERIMENT_ZH], entry->texts[EXPERIMENT_EN],
               sizeof(entry->texts[EXPERIMENT_ZH]));
    for (int i = 0; i < EXPERIMENT_LANGUAGES_N; i++)
        for (size_t j = 0; j < folder->texts_needed_n; j++)
            if (!entry->texts[i][j] || !*entry->texts[i][j])
                return reader_fail(reader, "[%s] has no %s",
                                   folder->sections[i], folder->texts[j]);
    return true;
}

enum experiment_language experiment_language(unsigned look)
{
    return look & DRAW_CHINESE ? EXPERIMENT_ZH : EXPERIMENT_EN;
}

const char *const *reader_texts(const struct reader_entry *entry, unsigned look)
{
    return entry->texts[experiment_language(look)];
}

/* A file of somebody's own may be in any encoding. */
json_t *reader_json(const struct reader_folder *folder,
                    const struct reader_entry *entry, unsigned look)
{
    const char *const *texts = reader_texts(entry, look);
    json_t *object = json_object();

    for (size_t i = 0; folder->texts[i]; i++)
        if (texts[i])
            (void)json_object_set_new(object, folder->texts[i],
                                      draw_json_text(texts[i], 0));
    return object;
}

/* ---- files -------------------------------------------------------------- */

/* "key       value" */
static bool take_value(struct reader *reader, char *line)
{
    char *word = strsep(&line, " \t"),
         *value = line ? line : word + strlen(word);
    const struct reader_key *key = reader->keys;
    int section = reader->section;

    /* A key without a value has an empty one: whoever takes it says whether that
     * will do. */
    value += strspn(value, " \t");
    /* A key that is there twice would be taken twice, and the first one be lost. */
    for (unsigned i = 0; i < reader->had_n; i++)
        if (strcmp(reader->had[i], word) == 0)
            return reader_fail(reader, "'%s' is there twice", word);
    if (reader->had_n < READER_KEYS_MAX)
        reader->had[reader->had_n++] = word;
    if (section >= 0 && section < EXPERIMENT_LANGUAGES_N)
        return take_text(reader, word, value);
    /* The last row of the table has no name, and takes any other word; or nothing. */
    while (key->name && strcmp(key->name, word) != 0)
        key++;
    if (!key->take)
        return reader_fail(reader, "there is no '%s' before [en]", word);
    reader->word = word;
    reader->key = key;
    return key->take(reader, (char *)reader->part + key->offset, value);
}

/* "08" and "longer-than-the-lease" of a file that is called so. */
static bool read_name(struct reader *reader, struct reader_entry *entry)
{
    const char *base = strrchr(reader->file, '/');
    int end = 0;

    base = base ? base + 1 : reader->file;
    /* The end is asked for: sscanf() says two also if ".txt" does not follow. */
    return (sscanf(base, "%7[0-9w]-%39[a-z0-9-].txt%n", entry->id, entry->name,
                   &end) == 2 &&
            end > 0 && !base[end]) ||
           reader_fail(reader,
                       "a file is called NUMBER-NAME.txt, 08-my-own.txt");
}

bool reader_read(const struct reader_folder *folder, const char *path,
                 char *content, void *entry, struct fail *error)
{
    struct reader reader = {.folder = folder,
                            .file = path,
                            .at = content,
                            .into = entry,
                            .error = error,
                            .section = -1};
    struct reader_entry *begin = entry;
    bool good;
    char *line;

    memset(entry, 0, folder->entry_bytes);
    /* The content is the entry's from here on, and freed if the file is wrong. */
    begin->content = content;
    good = (content || reader_fail(&reader, "no memory")) &&
           read_name(&reader, entry) && folder->begin(&reader);
    while (good && (line = next_line(&reader)) != NULL)
        if (*line == '[')
            good = begin_section(&reader, line);
        else if (*line && *line != '#')
            good = take_value(&reader, line);
    good = good && has_texts(&reader) && folder->end(&reader);
    if (!good) {
        free(content);
        begin->content = NULL;
    }
    return good;
}

/* A file that is wrong is a bug of ours, which each test of the lab finds. */
const void *reader_at(struct reader_folder *folder, size_t index)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct fail error = {"no memory"};
    bool good;

    /* The mutex is held until all files are read: threads of `lab serve` may come here
     * meanwhile. */
    (void)pthread_mutex_lock(&mutex);
    if (!folder->all) {
        folder->all = calloc(folder->files_n, folder->entry_bytes);
        good = folder->all;
        for (size_t i = 0; i < folder->files_n && good; i++)
            good = reader_read(folder, folder->files[i].name,
                               strdup(folder->files[i].content),
                               folder->all + i * folder->entry_bytes, &error);
        if (!good)
            exit(fail_to_run("%s", error.text));
    }
    (void)pthread_mutex_unlock(&mutex);
    return index < folder->files_n ? folder->all + index * folder->entry_bytes
                                   : NULL;
}

/* By how many bytes have to be put in, taken out or changed to make WORD of NAME
 * (Levenshtein). ROW has what that is for the beginnings of WORD. */
static size_t distance(const char *name, const char *word)
{
    size_t row[WORD_BYTES_MAX + 1], n = strlen(word), corner, change;

    if (n > WORD_BYTES_MAX)
        /* The row is of one letter more of NAME in each round; CORNER is the cell up
         * and to the left. */
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; name[i]; i++) {
        corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            change = corner + (name[i] != word[j]);
            corner = row[j + 1];
            row[j + 1] = 1 + (corner < row[j] ? corner : row[j]);
            if (change < row[j + 1])
                row[j + 1] = change;
        }
    }
    return row[n];
}

const void *reader_find(struct reader_folder *folder, const char *name,
                        struct fail *error)
{
    const struct reader_entry *one, *begun = NULL;
    /* A name may differ by two letters, and by more if it is longer. */
    size_t least = 2 + strlen(name) / 4, far;
    const char *nearest = NULL;
    unsigned begun_n = 0;

    (void)fail_with(error, "which one: ");
    for (size_t i = 0; (one = reader_at(folder, i)) != NULL; i++) {
        /* The number with its 0 or without, and the whole name, come
         * before beginnings. */
        if (strcmp(one->name, name) == 0 || strcmp(one->id, name) == 0 ||
            (one->id[0] == '0' && strcmp(one->id + 1, name) == 0))
            return one;
        far = distance(name, one->name);
        /* The first of two that are equally near stays. */
        if (far < least) {
            least = far;
            nearest = one->name;
        }
        if (*name && strncmp(one->name, name, strlen(name)) == 0) {
            begun = one;
            (void)fail_more(error, "%s%s", begun_n++ > 0 ? ", " : "",
                            one->name);
        }
    }
    /* The beginning of one name only is that name. */
    if (begun_n == 1)
        return begun;
    if (begun_n > 1)
        (void)fail_more(error, "?");
    else
        (void)fail_with(
            error, nearest ? "%s '%s'; is it %s?" : "%s '%s'; %s has all",
            folder->no_such, name, nearest ? nearest : folder->list);
    return NULL;
}

/* ---- values ------------------------------------------------------------- */

bool reader_text(struct reader *reader, void *at, char *value)
{
    (void)reader;
    *(const char **)at = value;
    return true;
}

bool reader_number(struct reader *reader, void *at, char *value)
{
    unsigned most = reader->key->most;
    char *end;
    unsigned long n = strtoul(value, &end, 10);

    *(unsigned *)at = (unsigned)n;
    return (*value >= '0' && *value <= '9' && *end == '\0' && n <= most) ||
           reader_fail(reader, "%s takes 0 to %u", reader->word, most);
}

bool reader_schedule(struct reader *reader, void *at, char *value)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    struct fail error;

    *(const char **)at = value;
    return stage_parse(value, moves, &error) >= 0 ||
           reader_fail(reader, "%s", error.text);
}

bool reader_faults(struct reader *reader, void *at, char *value)
{
    char *rest = NULL;

    for (char *word = strtok_r(value, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        unsigned fault = 0;

        while (fault < STAGE_FAULT_N &&
               strcmp(stage_fault_word(fault), word) != 0)
            fault++;
        if (fault == STAGE_FAULT_N)
            return reader_fail(reader, "there is no fault '%s'", word);
        *(unsigned *)at |= 1u << fault;
    }
    return true;
}

bool reader_scene(struct reader *reader, void *at, char *value)
{
    bool is_order = strcmp(value, "order") == 0;
    struct stage_scene *scene = at;
    /* A program that is the usual one is none: the command line for it has no flag. */
    struct fail error;

    if (strcmp(reader->word, "lock") == 0)
        scene->lock = value;
    else if (!stage_options_set(scene, reader->word, value, &error))
        return reader_fail(reader, "%s", error.text);
    if (is_order) /* as if nothing were said */
        scene->roles[0].program = NULL;
    /* A scene is checked as soon as it has a lock, after each key: an error names
     * its line. */
    return !scene->lock || stage_can_play(scene, &error) ||
           reader_fail(reader, "%s", error.text);
}

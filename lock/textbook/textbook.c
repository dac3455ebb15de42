/*
 * The textbook locks as a set: those that are texts (text.h), mkdir, recorded, and
 * fenced-late; and the files of one's own. Not a part of libdlock.
 */
#include "lock/textbook/textbook.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/backends.h" /* made by the Makefile */
#include "lock/dlock_more.h"
#include "lock/textbook/text.h"

/* Made by the Makefile from NAME.lock. */
static const struct {
    const char *name;
    const char *text;
} texts[] = {
#include "lock/textbook/all.inc"
};

extern const struct dlock_strategy dlock_strategy_fenced, dlock_strategy_mkdir,
    dlock_strategy_recorded;

enum {
    TEXTS_N = sizeof(texts) / sizeof(texts[0]),
    OTHERS_N = 3,
    OWN_MAX = 4,
    ALL_MAX = TEXTS_N + OTHERS_N + OWN_MAX,
};

static const struct dlock_strategy *all[ALL_MAX + 1]; /* a NULL ends it */
static size_t all_n;

static const struct dlock_strategies textbook = {.core = &DLOCK_CORE,
                                                 .all = all};

/* Nothing of the lock is different from fenced. It is the resource that is told, by the
 * capability, to compare at the write and not to stamp before the read: what the holder
 * has read by then may be stale, and its number is the highest. */
static const struct dlock_strategy *make_fenced_late(void)
{
    static struct dlock_strategy late;

    /* The copy has other words and one more capability; its slots are those of fenced. */
    late = dlock_strategy_fenced;
    late.info.name = "fenced-late";
    late.info.claim =
        "As fenced, but the resource compares tokens only when it is written: "
        "the late holder may come first.";
    late.info.capabilities |= DLOCK_CAP_FENCED_LATE;
    return &late;
}

static void read_texts(void)
{
    all[all_n++] = &dlock_strategy_mkdir;
#if DLOCK_WITH_SQL
    all[all_n++] = &dlock_strategy_recorded;
#endif
    all[all_n++] = make_fenced_late();
    for (size_t i = 0; i < TEXTS_N; i++) {
        const struct dlock_text *text =
            dlock_text_read(texts[i].name, texts[i].text);

        /* These texts are part of the program: a fault in one is a fault of the build. */
        if (text == NULL) {
            fprintf(stderr, "stockade: %s\n", dlock_error_text());
            abort();
        }
        all[all_n++] = &text->strategy;
    }
}

void dlock_register_all(void)
{
    const struct dlock_strategies *const parts[] = {
        &textbook,
        &dlock_quorum_strategies,
#if DLOCK_WITH_TLS
        &dlock_tls,
#endif
#if DLOCK_WITH_SQL
        &dlock_sql_strategies,
#endif
#if DLOCK_WITH_ZK
        &dlock_zk_strategies,
#endif
    };

    /* The list is filled once, also if somebody registers again. */
    if (all_n == 0)
        read_texts();
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        enum dlock_status status = dlock_register(parts[i], NULL);

        assert(status == DLOCK_OK);
        (void)status;
    }
}

const char *dlock_textbook_text(const char *name)
{
    for (size_t i = 0; i < TEXTS_N; i++)
        if (strcmp(texts[i].name, name) == 0)
            return texts[i].text;
    return NULL;
}

enum dlock_status dlock_textbook_unnamed(const char *lock, unsigned line,
                                         const char *reply,
                                         struct dlock_error *error)
{
    dlock_error_say("%s:%u: it does not say what %s means", lock, line, reply);
    return dlock_error_report(error, DLOCK_UNKNOWN, NULL);
}

/* One's own ------------------------------------------------------------------ */

bool dlock_textbook_is_file(const char *name)
{
    size_t length = strlen(name);

    return length > 5 && strcmp(name + length - 5, ".lock") == 0;
}

static const char *script_of(const struct dlock_text *text, size_t i,
                             unsigned *line)
{
    for (int part = 0; part < DLOCK_TEXT_PARTS_N; part++)
        for (size_t j = 0; j < text->parts[part].n; j++) {
            const struct dlock_text_command *command =
                &text->parts[part].commands[j];

            *line = command->line;
            /* The first two parts ask for rights; the script itself is the third. */
            if (command->script.parts[0] != NULL && i-- == 0)
                return command->script.parts[2];
        }
    return NULL;
}

/* The text of the lock NAME, NULL: it has none. */
static const struct dlock_text *text_called(const char *name)
{
    const struct dlock_strategy *strategy = dlock_strategy_called(name);

    /* The slots tell a strategy of a text, whose variant is the text. */
    return strategy != NULL && strategy->acquire == dlock_text_slots.acquire
               ? strategy->variant
               : NULL;
}

const char *dlock_textbook_script(const char *name, size_t i, unsigned *line)
{
    const struct dlock_text *text = text_called(name);

    return text != NULL ? script_of(text, i, line) : NULL;
}

bool dlock_textbook_has_finally(const char *name)
{
    const struct dlock_text *text = text_called(name);

    return text == NULL ||
           text->settings[DLOCK_TEXT_FINALLY] != DLOCK_TEXT_NONE;
}

bool dlock_textbook_has_keys_beside(const char *name)
{
    const struct dlock_text *text = text_called(name);

    for (int part = 0; text != NULL && part < DLOCK_TEXT_PARTS_N; part++)
        for (size_t i = 0; i < text->parts[part].n; i++)
            for (size_t j = 0; j < text->parts[part].commands[i].args_n; j++)
                if (strncmp(text->parts[part].commands[i].args[j],
                            "$name:", 6) == 0)
                    return true;
    return false;
}

/* All of the file, to be freed. NULL: it cannot be read. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *bytes = file == NULL ? NULL : calloc(1, DLOCK_TEXT_BYTES_MAX + 2);
    size_t n =
        bytes == NULL ? 0 : fread(bytes, 1, DLOCK_TEXT_BYTES_MAX + 1, file);
    bool good = bytes != NULL && ferror(file) == 0;

    if (!good)
        dlock_error_say("%s: %s", path, strerror(errno));
    if (file != NULL)
        (void)fclose(file);
    /* The read asks for one byte more than the most, so that a file that is too long is
     * known; a NUL in it is no text. */
    if (good && n <= DLOCK_TEXT_BYTES_MAX && strlen(bytes) == n)
        return bytes;
    if (good)
        dlock_error_say("%s: is no text of at most %d bytes", path,
                        DLOCK_TEXT_BYTES_MAX);
    free(bytes);
    return NULL;
}

static enum dlock_status open_own(const char *path, bool scripts)
{
    struct dlock_text *text;
    unsigned line;
    char *bytes;

    /* A file that was read before stays as it was: clients may have its strategy. */
    if (dlock_strategy_called(path) != NULL)
        return DLOCK_OK;
    if (strlen(path) > DLOCK_TEXT_PATH_BYTES_MAX)
        return dlock_error_set(DLOCK_MISUSE,
                               "a lock's file has a path of at most %d bytes",
                               DLOCK_TEXT_PATH_BYTES_MAX);
    /* The list does not grow, because dlock_register() keeps a pointer to it. */
    if (all_n == ALL_MAX)
        return dlock_error_set(DLOCK_MISUSE,
                               "%s: there are %d locks of one's own already",
                               path, OWN_MAX);
    bytes = read_file(path);
    if (bytes == NULL)
        return DLOCK_MISUSE;
    text = dlock_text_read(path, bytes);
    /* dlock_text_read() has made a copy. */
    free(bytes);
    if (text == NULL)
        return DLOCK_MISUSE;
    /* Redis cannot stop a script in time: a server with other people's locks must not run
     * one. */
    if (!scripts && script_of(text, 0, &line) != NULL) {
        dlock_text_free(text);
        return dlock_error_set(DLOCK_MISUSE,
                               "%s: a script of one's own runs in the "
                               "laboratory only, on its private server: "
                               "stockade explore, replay, lab",
                               path);
    }
    all[all_n++] = &text->strategy;
    return DLOCK_OK;
}

enum dlock_status dlock_textbook_open(const char *path, bool scripts,
                                      struct dlock_error *error)
{
    return dlock_error_report(error, open_own(path, scripts), NULL);
}

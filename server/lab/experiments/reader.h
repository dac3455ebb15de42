/*
 * Folders of text files: experiments, and the stops of the path (server/lab/path).
 * README.md in server/lab is the manual of these files.
 *
 * A line has a key and its value, and goes on in lines that begin with a blank; a line
 * with '#' is a comment; "[name]" begins a section. Which keys a section has, and what is
 * made of each value, is a table.
 */
#ifndef EXPERIMENTS_READER_H
#define EXPERIMENTS_READER_H

#include "server/lab/picture/draw.h"

enum { READER_KEYS_MAX = 24 /* of a section */, READER_TEXTS_MAX = 6 };

enum experiment_language {
    EXPERIMENT_EN,
    EXPERIMENT_ZH,
    EXPERIMENT_LANGUAGES_N
};

/* The language of LOOK (draw.h). */
enum experiment_language experiment_language(unsigned look);

/* The head of what is made of a file: an experiment, or a path. */
struct reader_entry {
    char id[8];    /* "08", as in the list of the README; "08w" in the wild */
    char name[40]; /* "longer-than-the-lease" */
    const char *texts[EXPERIMENT_LANGUAGES_N][READER_TEXTS_MAX]; /* or NULL */
    char *content; /* of its file: all texts are in it */
};

struct reader;

/* A key of a section. The table of all of them ends with one that has no name, which takes
 * any other, or has no .take. */
struct reader_key {
    const char *name;
    bool (*take)(struct reader *reader, void *at, char *value);
    size_t offset; /* of AT, behind the begin of reader->part */
    unsigned most; /* of a number */
};

#define READER_KEY(word, how, part, member)                                    \
    .name = (word), .take = (how), .offset = offsetof(part, member)

/* A folder, as the build has found it. */
struct reader_folder {
    const char *const *sections; /* in their order, up to a NULL; the first ones
                                    are the languages */
    const char *const *texts;    /* their keys, up to a NULL */
    size_t texts_needed_n;
    size_t entry_bytes;
    bool (*begin)(struct reader *reader); /* puts .part and .keys of .section */
    bool (*end)(struct reader *reader);   /* whether all is there */
    const char *no_such;                  /* "there is no experiment" */
    const char *list;                     /* the command that has all */
    const struct reader_file {
        const char *name, *content;
    } * files;
    size_t files_n;
    char *all; /* entries; NULL: they were not read yet */
};

/* One file that is read. */
struct reader {
    const struct reader_folder *folder;
    const char *file;
    char *at;   /* the rest of its text */
    void *into; /* the entry */
    struct fail *error;
    unsigned line, lines_n; /* the number of the line in hand; of all */
    int section;            /* of sections[]; -1 = none yet */
    void *part;             /* of the entry, that the section is about */
    const struct reader_key *keys, *key; /* that it may have; in hand */
    const char *word;                    /* the key as it is written */
    const char *had[READER_KEYS_MAX];
    unsigned had_n;
};

/* ---- for tables of keys ----------------------------------------------------- */

/* Writes "FILE:LINE: ..." as the error, and returns false: so does all here if the file is
 * wrong. */
bool reader_fail(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

bool reader_text(struct reader *reader, void *at, char *value);
bool reader_number(struct reader *reader, void *at, char *value);
bool reader_schedule(struct reader *reader, void *at, char *value);
/* Words, with blanks between, a bit for each. */
bool reader_faults(struct reader *reader, void *at, char *value);
/* "lock", or a flag of `stockade replay`, into a struct stage_scene. */
bool reader_scene(struct reader *reader, void *at, char *value);

/* ---- all of them ------------------------------------------------------------------ */

/* Reads CONTENT, from malloc(), which is taken, of the file PATH. False: ERROR says which
 * line is wrong, and there is nothing to free. */
bool reader_read(const struct reader_folder *folder, const char *path,
                 char *content, void *entry, struct fail *error);

/* All by their numbers, to any thread. NULL: no more. */
const void *reader_at(struct reader_folder *folder, size_t index);

/* By id or name, or by how one name only begins; "8" is "08". NULL: there is none, and
 * ERROR says which may be meant. */
const void *reader_find(struct reader_folder *folder, const char *name,
                        struct fail *error);

/* The texts of ENTRY in the language of LOOK, in the order of their keys. */
const char *const *reader_texts(const struct reader_entry *entry,
                                unsigned look);

/* The same as a JSON object, without those that are NULL. */
json_t *reader_json(const struct reader_folder *folder,
                    const struct reader_entry *entry, unsigned look);

#endif

/*
 * Reads a text file of the laboratory line by line: an experiment, a stop of
 * the path (server/lab/path). README.md in server/lab is the manual of these files.
 *
 * A line has a key and its value, and goes on in lines that begin with a blank; a line
 * with '#' is a comment; "[name]" begins a section.
 */
#ifndef EXPERIMENTS_READER_H
#define EXPERIMENTS_READER_H

#include "server/lab/picture/draw.h"

enum { READER_KEYS_MAX = 24 /* of a section */ };

/* One that is read: all of the first part is set by its caller. */
struct reader {
    const char *file;
    char *at;                    /* its text, from malloc(); NULL: no memory */
    const char *const *sections; /* in their order, up to a NULL */
    void *into;                  /* of these, which are told that .section has
                                    begun, and a value that it has: */
    bool (*begin)(struct reader *reader);
    bool (*set)(struct reader *reader, const char *key, char *value);
    struct fail *error;

    unsigned line, lines_n; /* the number of the line in hand; of all */
    int section;            /* of sections[]; -1 = none yet */
    const char *keys[READER_KEYS_MAX]; /* that this section has had */
    unsigned keys_n;
};

/* Reads all of it, and "08" and "longer-than-the-lease" of a file that is called so. */
bool reader_read(struct reader *reader, char id[8], char name[40]);

/* Writes "FILE:LINE: ..." as the error, and returns false: so does all here if the file is
 * wrong. */
bool reader_fail(struct reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds WORDS, with blanks between, to FAULTS, a bit for each. */
bool reader_faults(struct reader *reader, unsigned *faults, char *words);

/* A text of a struct of texts, by its name; in a list that ends with a NULL. */
struct reader_text {
    const char *name;
    size_t offset;
};

extern const struct reader_text experiment_texts[], path_texts[];

/* Takes KEY, of LIST, into TEXTS. */
bool reader_text(struct reader *reader, const struct reader_text list[],
                 void *texts, const char *key, const char *value);

/* TEXTS as a JSON object, without those that are NULL. */
json_t *reader_json(const struct reader_text list[], const void *texts);

/* Whether TEXTS, of SECTION, has the first N of LIST. */
bool reader_has_texts(struct reader *reader, const struct reader_text list[],
                      size_t n, void *texts, const char *section);

/* Takes KEY, "lock", "schedule" or a flag of `stockade replay`, into what is played. */
bool reader_play(struct reader *reader, struct stage_scene *scene,
                 const char **schedule, const char *key, char *value);

#endif

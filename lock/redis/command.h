/*
 * A command for the lock server, being put together, and a reply of it, taken
 * apart: plain structs, so that no strategy ever sees hiredis.
 */
#ifndef DLOCK_COMMAND_H
#define DLOCK_COMMAND_H

#include "lock/dlock.h"

enum {
    DLOCK_KEY_BYTES_MAX = DLOCK_NAME_BYTES_MAX + 80, /* a derived key */
    DLOCK_ARGS_MAX = 16,
    DLOCK_NUMBERS_MAX = 8,
    DLOCK_DERIVED_MAX = 5,
    DLOCK_INTEGERS_MAX = 4,
    DLOCK_DIGITS_MAX = 20, /* of a number of 64 bits */
};

/* Scripts go by their hash; as text to a server that does not know them. */
enum dlock_script_by { DLOCK_BY_SHA, DLOCK_BY_TEXT };

/* A Lua script: its parts, one behind the other, as scripts.mk says. Static. */
enum { DLOCK_SCRIPT_PARTS_MAX = 6 };

struct dlock_script {
    const char *sha; /* by which a server knows it; NULL: it goes as text */
    const char *parts[DLOCK_SCRIPT_PARTS_MAX]; /* those that are not NULL */
};

/* It points to the texts of its numbers and derived keys in itself: do not copy it. Plain
 * arguments are borrowed. */
struct dlock_command {
    const char *step;                  /* "eval-acquire" */
    const char *name;                  /* the lock, for the step hook */
    const struct dlock_script *script; /* NULL: args[0] is the command */
    bool repeatable; /* sending it twice is the same as once */
    bool must_go;    /* to a silent node of a cluster as well, see silence.h */
    const struct dlock_session *waits; /* for it, see below; NULL = nobody */
    size_t keys_n; /* the first args are the script's KEYS */
    size_t args_n;
    const char *args[DLOCK_ARGS_MAX];
    size_t numbers_n;
    char numbers[DLOCK_NUMBERS_MAX][DLOCK_DIGITS_MAX + 1];
    size_t derived_n;
    char derived[DLOCK_DERIVED_MAX][DLOCK_KEY_BYTES_MAX + 1];
};

enum dlock_reply_kind {
    DLOCK_REPLY_NIL,
    DLOCK_REPLY_INTEGER,
    DLOCK_REPLY_STRING,
    DLOCK_REPLY_LIST,
    DLOCK_REPLY_ERROR,
};

struct dlock_reply {
    enum dlock_reply_kind kind;
    size_t integers_n;
    int64_t integers[DLOCK_INTEGERS_MAX]; /* the integers in it, in order */
    char string[300]; /* the first string in it: MOVED and a host fit */
    char text[160];   /* all of it, for a person */
    bool of_copy; /* an earlier copy of the command may still be on its way */
};

/* NUMBER as text, and how long that is. As printf() would, but much faster. */
size_t dlock_digits(char text[DLOCK_DIGITS_MAX + 1], uint64_t number);

/* An empty command. SCRIPT may be NULL. */
void dlock_command_init(struct dlock_command *command, const char *step,
                        const char *name, const struct dlock_script *script);

/* Whether the wait that it is sent for has ended: then it is not sent again. */
bool dlock_command_unwanted(const struct dlock_command *command);

/* Adds an argument; of a script, after its keys. */
void dlock_command_arg(struct dlock_command *command, const char *text);
void dlock_command_number(struct dlock_command *command, uint64_t number);

/* Adds a key, for a script: before the other arguments. */
void dlock_command_key(struct dlock_command *command, const char *key);

/* Adds what dlock_key_derive() makes of the lock's name: as an argument, or as a key. */
void dlock_command_derived(struct dlock_command *command, const char *suffix,
                           const char *detail);
void dlock_command_derived_key(struct dlock_command *command,
                               const char *suffix, const char *detail);

/* A key beside the lock's own: NAME, SUFFIX, DETAIL, in the same slot of a Redis cluster,
 * which hashes only the first {braces}: a name that has a {tag} keeps it, and any other
 * becomes the tag. (A name with a '}' but no tag cannot be matched: CROSSSLOT.) */
void dlock_key_derive(char key[DLOCK_KEY_BYTES_MAX + 1], const char *name,
                      const char *suffix, const char *detail);

/* The slot of KEY in a Redis cluster. */
enum { DLOCK_SLOTS_N = 16384 };
unsigned dlock_key_slot(const char *key);

/* Grows with the longest command; its owner frees BYTES. */
struct dlock_encoded {
    char *bytes;
    size_t len;
    size_t size;
};

/* COMMAND as words, and how many. If PARTS_N is not 0, so many words behind the first are
 * to be sent as one. KEYS_N has the text of one of them. */
enum { DLOCK_WORDS_MAX = 2 + DLOCK_SCRIPT_PARTS_MAX + DLOCK_ARGS_MAX };
size_t dlock_encode_words(const struct dlock_command *command,
                          enum dlock_script_by by,
                          char keys_n[DLOCK_DIGITS_MAX + 1],
                          const char *words[DLOCK_WORDS_MAX], size_t *parts_n);

/* COMMAND as it is sent, in place of the last one. False: no memory. */
bool dlock_encode(const struct dlock_command *command, enum dlock_script_by by,
                  struct dlock_encoded *out);

#endif

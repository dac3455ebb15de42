/*
 * A connection of the lab's own to a redis-server: what is in there, and commands
 * that arrive late. An answer here says that the server has also written all that
 * was due to others before. An answer that takes longer than 30 s is none; then,
 * and when the server has died, the calls return false from then on.
 *
 * From one thread at a time.
 */
#ifndef PEEK_H
#define PEEK_H

#include <stdbool.h>
#include <stddef.h>

#include "server/lab/base/fail.h"

struct peek;

/* URL: "unix:PATH". NULL and a text: it cannot connect. */
struct peek *peek_open(const char *url, struct fail *error);
void peek_close(struct peek *peek);

/* Sends the N words, and their answer's text goes to REPLY, cut: "(nil)" for none,
 * "(3 values)" for an array. */
enum peek_answer { PEEK_NONE, PEEK_REPLY, PEEK_ERROR };
enum peek_answer peek_send(struct peek *peek, size_t n, const char *words[],
                           char reply[], size_t size);

/* False: a script of the text of LOCK does not compile, and ERROR says which and why, with
 * the file's line. A lock that is no text has none. */
bool peek_compiles(struct peek *peek, const char *lock, struct fail *error);

/* Sends WORDS, at most eight, which end with NULL. False: another answer than WANTED,
 * or none. */
bool peek_ask(struct peek *peek, const char *wanted, const char *const words[]);
#define PEEK_ASK(peek, wanted, ...)                                            \
    peek_ask((peek), (wanted), (const char *const[]){__VA_ARGS__, NULL})

/* A part of what there is would make states look equal, and hide locks. */
#define PEEK_TOO_MUCH "Redis has more in it than can be looked at"

/* KEYS: all keys in order, a line each: key, type, milliseconds left (-1 = no end),
 * value, with tabs between. LISTENERS: the channels that somebody listens to, and how
 * many do. False and a text: no answer, or one that does not go in whole. */
bool peek_look(struct peek *peek, char keys[], size_t keys_size,
               char listeners[], size_t listeners_size, struct fail *error);

/* The server listens on a free port of the loopback as well, which PORT names, because a
 * replica follows by TCP alone; and sends what it has to a replica at once. False: it
 * does not. */
bool peek_listen(struct peek *peek, char port[], size_t size);

#endif

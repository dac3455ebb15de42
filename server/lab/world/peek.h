/* The stage's own connection to its redis-server: what is in there, and commands
 * that arrive late. Whoever has an answer here knows that the server has also
 * written all that was due to others before. */
#ifndef STAGE_PEEK_H
#define STAGE_PEEK_H

#include <stdbool.h>
#include <stddef.h>

struct peek;

/* NULL and a text if it cannot connect to the Unix socket PATH. */
struct peek *peek_open(const char *path, char *error, size_t error_size);
void peek_close(struct peek *peek);

bool peek_flush(struct peek *peek);

/* Sends the N words, and their answer's text goes to REPLY. */
bool peek_send(struct peek *peek, size_t n, const char *words[], char reply[],
               size_t size);

/* All keys in order, a line each: key, type, milliseconds left (-1 = no end),
 * value, with tabs between. False: no answer. */
bool peek_keys(struct peek *peek, char text[], size_t size);

#endif

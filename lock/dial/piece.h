/*
 * Private to lock/dial/: taking a url apart, piece by piece, where it stands.
 */
#ifndef DLOCK_PIECE_H
#define DLOCK_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define DLOCK_URL_LOCAL "unix:"

/* A piece of a url, from its first byte to before END. */
struct dlock_piece {
    const char *text;
    const char *end;
};

static inline size_t dlock_piece_length(struct dlock_piece piece)
{
    return (size_t)(piece.end - piece.text);
}

static inline bool dlock_piece_begins(struct dlock_piece piece,
                                      const char *with)
{
    return dlock_piece_length(piece) >= strlen(with) &&
           strncmp(piece.text, with, strlen(with)) == 0;
}

/* The last BYTE of it, or NULL. */
static inline const char *dlock_piece_last(struct dlock_piece piece, char byte)
{
    return memrchr(piece.text, byte, dlock_piece_length(piece));
}

#endif

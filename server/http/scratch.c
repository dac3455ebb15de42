/*
 * Freeing a piece of scratch does nothing; its address tells which it is. What
 * does not fit is malloc()ed: a body of 16 KiB may need more than there is, and
 * nobody sends such bodies often.
 */
#include "server/http/scratch.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define SCRATCH_BYTES 4096

static _Thread_local struct {
    _Alignas(max_align_t) char bytes[SCRATCH_BYTES];
    size_t used;
    bool open;
} scratch;

void scratch_begin(void)
{
    scratch.used = 0;
    scratch.open = true;
}

void scratch_end(void)
{
    scratch.open = false;
}

void *scratch_malloc(size_t size)
{
    const size_t align = _Alignof(max_align_t);
    char *piece = scratch.bytes + scratch.used;

    if (!scratch.open || size > SCRATCH_BYTES - scratch.used)
        return malloc(size);
    /* A multiple, as SCRATCH_BYTES is: never beyond it. */
    scratch.used += (size + align - 1) / align * align;
    return piece;
}

void scratch_free(void *piece)
{
    /* As integers: pointers into different pieces must not be compared. */
    if ((uintptr_t)piece - (uintptr_t)scratch.bytes >= SCRATCH_BYTES)
        free(piece);
}

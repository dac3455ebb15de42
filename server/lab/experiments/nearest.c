/* See nearest.h. */
#include "server/lab/experiments/nearest.h"

#include <string.h>

enum { WORD_BYTES_MAX = 64 }; /* longer ones are like no other */

/* How many bytes have to be put in, taken out or changed to make B of A
 * (Levenshtein). ROW has what that is for the beginnings of B. */
static size_t edits(const char *a, const char *b)
{
    size_t row[WORD_BYTES_MAX + 1], n = strlen(b), corner, change;

    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            change = corner + (a[i] != b[j]);
            corner = row[j + 1];
            row[j + 1] = 1 + (corner < row[j] ? corner : row[j]);
            if (change < row[j + 1])
                row[j + 1] = change;
        }
    }
    return row[n];
}

bool nearest_is(const char *name, const char *word, size_t *least)
{
    size_t n;

    if (*least == 0)
        *least = 2 + strlen(name) / 4;
    if (strlen(word) > WORD_BYTES_MAX)
        return false;
    n = edits(name, word);
    if (n >= *least)
        return false;
    *least = n;
    return true;
}

/*
 * Public order ids. See order_id.h.
 */
#include "db/order_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/*
 * A call into the kernel for each order would cost more than its INSERT. The
 * kernel gives up to 256 bytes whole, and no signal interrupts it in that.
 */
#define ORDER_ID_POOL (256 / sizeof(int64_t))

bool order_id_secret(int64_t *secret)
{
    static _Thread_local int64_t pool[ORDER_ID_POOL];
    static _Thread_local size_t left;

    if (left == 0) {
        if (getrandom(pool, sizeof(pool), 0) != (ssize_t)sizeof(pool))
            return false;
        left = ORDER_ID_POOL;
    }
    *secret = pool[--left];
    pool[left] = 0; /* nobody needs it here any more */
    return true;
}

/* Every order passes here: by hand, for snprintf() takes longer than SQLite
 * takes for the row. */
void order_id_format(int64_t number, int64_t secret,
                     char id[STORE_ID_BYTES_MAX + 1])
{
    char digits[20];
    size_t n = sizeof(digits);
    uint64_t rest = (uint64_t)number;

    do {
        digits[--n] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    memcpy(id, digits + n, sizeof(digits) - n);
    id += sizeof(digits) - n;
    *id++ = '-';
    for (int shift = 60; shift >= 0; shift -= 4)
        *id++ = "0123456789abcdef"[((uint64_t)secret >> shift) & 15];
    *id = '\0';
}

bool order_id_parse(const char *id, int64_t *number, int64_t *secret)
{
    char again[STORE_ID_BYTES_MAX + 1];
    uint64_t bits;

    if (sscanf(id, "%18" SCNd64 "-%16" SCNx64, number, &bits) != 2)
        return false;
    *secret = (int64_t)bits;
    /* sscanf is lenient (spaces, signs, capitals, a tail): compare. */
    order_id_format(*number, *secret, again);
    return *number > 0 && strcmp(id, again) == 0;
}

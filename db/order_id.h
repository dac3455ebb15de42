/*
 * Public order ids: NUMBER-SECRET, "17-9f86d081884c7d65".
 *
 * The number finds the row without an index of its own; the 64 random bits
 * behind it keep a buyer from guessing the neighbour's order.
 */
#ifndef STORE_ORDER_ID_H
#define STORE_ORDER_ID_H

#include "db/store.h"

/* False: the kernel gives no random bytes; then nothing may be sold. */
bool order_id_secret(int64_t *secret);

void order_id_format(int64_t number, int64_t secret,
                     char id[STORE_ID_BYTES_MAX + 1]);

/* False: this is not the text of an id; exactly one text stands for each. */
bool order_id_parse(const char *id, int64_t *number, int64_t *secret);

#endif

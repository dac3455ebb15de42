/*
 * What the service asks the store without waiting (db/store_async.h), for tests
 * that wait; and a look at one product.
 */
#ifndef STORE_WAIT_H
#define STORE_WAIT_H

#include "db/store_async.h"

enum store_status store_cancel(struct store *store, const char *id,
                               struct store_order *order,
                               struct store_error *error);
enum store_status store_pay(struct store *store, const char *id,
                            const char *payment, struct store_pay *pay);
enum store_status store_restock(struct store *store, int64_t product_id,
                                int64_t quantity, const char *key,
                                struct store_product *product,
                                struct store_error *error);
enum store_status store_even_out(struct store *store, int64_t product_id,
                                 bool *moved, struct store_error *error);

enum store_status store_change(struct store *store, struct store_change *change,
                               struct store_error *error);

enum store_status store_probe(struct store *store, struct store_error *error);

enum store_status store_product_get(struct store_reader *reader, int64_t id,
                                    struct store_product *product,
                                    struct store_error *error);

#endif

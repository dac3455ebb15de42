/*
 * JSON in: the bodies of requests as the structs of the store. Strict: what is
 * unknown, missing, there twice, of the wrong type or out of range is an error
 * that names its field.
 *
 * All the functions below return false for what they refuse, and then have
 * filled the error, if they have one. They keep no state, and may be called
 * from any thread after parse_init().
 */
#ifndef PARSE_H
#define PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "db/store_async.h"
#include "server/http/problem.h"

#define PARSE_FAULTS_MAX      8
#define PARSE_QUANTITY_MAX    1000000
#define PARSE_PRICE_CENTS_MAX 1000000000 /* with the above still below 2^53 */

/* What is wrong with one field. */
struct parse_fault {
    char field[40];
    const char *detail; /* static */
};

struct parse_error {
    enum problem problem; /* PROBLEM_BAD_JSON or PROBLEM_FIELDS */
    char detail[200];
    struct parse_fault faults[PARSE_FAULTS_MAX];
    size_t faults_n;
};

/* Before threads are started: seeds the hash of JSON objects. */
void parse_init(void);

/* {"product_id", "user_id", "quantity"}. Fills just these. */
bool parse_order(const char *body, size_t size, struct store_order *order,
                 struct parse_error *error);

/*
 * {"name", "price_cents", "limit_per_user", "pay_within_s", "opens_at", "ends_at",
 * "stock", "segments"}: what of it is there is set in *GIVEN (enum store_given); "stock"
 * becomes ->initial. In a PUT all but the name may be left out. In a PATCH all
 * may; null sets price, limits and times to 0 (RFC 7396).
 */
bool parse_product(const char *body, size_t size, bool patch,
                   struct store_product *product, unsigned *given,
                   struct parse_error *error);

/* {"payment"}: visible ASCII, without what JSON escapes, so that it is shown as it is.
 * PAYMENT has STORE_PAYMENT_BYTES_MAX + 1 bytes. */
bool parse_payment(const char *body, size_t size, char *payment,
                   struct parse_error *error);

/* {"quantity"} */
bool parse_restock(const char *body, size_t size, int64_t *quantity,
                   struct parse_error *error);

/*
 * The value of an Idempotency-Key, bare or "quoted": 1 to 128 visible ASCII
 * characters. KEY has STORE_KEY_BYTES_MAX + 1 bytes.
 */
bool parse_key(const char *text, char *key);

/* "42": 1 .. STORE_NUMBER_MAX in decimal, nothing else. */
bool parse_number(const char *text, int64_t *number);

/* Adds DETAIL, static, for each of these fields of a product (enum store_given)
 * to an error that began as {0}. */
void parse_add_faults(struct parse_error *error, unsigned given,
                      const char *detail);

#endif

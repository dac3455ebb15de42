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

/*
 * The bodies, and what each fills:
 *   ORDER     {"product_id", "user_id", "quantity"} of a struct store_order
 *   PRODUCT   {"name", "price_cents", "limit_per_user", "pay_within_s", "opens_at",
 *             "ends_at", "stock", "segments"} of a struct store_product, by PUT: all but
 *             the name may be left out; "stock" becomes ->initial
 *   PATCH     the same by PATCH: all may be left out; null sets price, limits and
 *             times to 0 (RFC 7396)
 *   RESTOCK   {"quantity"}: an int64_t
 *   PAYMENT   {"payment"}: STORE_PAYMENT_BYTES_MAX + 1 bytes, visible ASCII without
 *             what JSON escapes, so that it is shown as it is
 */
enum parse_document {
    PARSE_ORDER,
    PARSE_PRODUCT,
    PARSE_PATCH,
    PARSE_RESTOCK,
    PARSE_PAYMENT,
};

/* Fields that the BODY lacks leave OUT as it was. *GIVEN (may be NULL): which fields of a
 * product were there (enum store_given). */
bool parse_body(enum parse_document document, const char *body, size_t size,
                void *out, unsigned *given, struct parse_error *error);

/* The value of an Idempotency-Key, bare or "quoted": 1 to 128 visible ASCII characters.
 * KEY has STORE_KEY_BYTES_MAX + 1 bytes. */
bool parse_key(const char *text, char *key);

/* "42": 1 .. STORE_NUMBER_MAX in decimal, nothing else. */
bool parse_number(const char *text, int64_t *number);

/* Adds DETAIL, static, for each of these fields of a product (enum store_given)
 * to an error that began as {0}. */
void parse_add_faults(struct parse_error *error, unsigned given,
                      const char *detail);

#endif

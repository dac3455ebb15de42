/*
 * The verdict over the whole ledger.
 */
#ifndef STORE_AUDIT_H
#define STORE_AUDIT_H

#include "db/sqlite.h"

/* What the caller of store_audit gave. */
struct audit_request {
    void (*on_line)(void *ctx, const struct store_audit_line *line);
    void *ctx;
    const char *const *acked;
    size_t acked_n;
};

enum store_status audit_run(struct sqlite *db,
                            const struct audit_request *request,
                            struct store_audit *audit,
                            struct store_error *error);

#endif

/*
 * The store's step hook; a part of store.h, which includes this. As in the lock
 * library: called before and after each step, on the thread that does it. It may block.
 *
 * Steps of the calling thread: "naive-select", "naive-update", "naive-insert", "stamp",
 * "place". Steps of the committer's thread: "begin" and "commit" of its transaction; in
 * it "place" of a lot, "cancel", "pay", "expire", "restock", "product-put", "even-out";
 * and "rollback", which no verdict keeps from being done. The lab's timeline, failpoints
 * and explorer use it.
 */
#ifndef STORE_STEP_H
#define STORE_STEP_H

#include <stdint.h>

enum store_phase { STORE_BEFORE, STORE_AFTER };

enum store_verdict {
    STORE_GO,
    STORE_FAIL, /* BEFORE: do not do it, behave as if the disk had failed; of
                   "begin", as if another process had the database.
                   AFTER "commit": it is on disk, but the answer got lost;
                   ignored after other steps, which answer to us alone */
};

struct store_step {
    const char *name;
    int64_t product_id; /* 0 = no product alone */
    enum store_phase phase;
    const char *reply; /* AFTER: what came of it, in short; BEFORE: NULL */
};

typedef enum store_verdict store_step_hook(void *ctx,
                                           const struct store_step *step);

#endif

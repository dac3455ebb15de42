/*
 * The probe: whether an order could be written, without one.
 *
 * It writes what an order writes: a fence, a purchase, a segment's stock, an order
 * with the longest key, a hold; fence and purchase twice, since most orders find theirs. So
 * no trigger, constraint or right is left out. All but one row of that is undone
 * before the COMMIT, and what triggers have made of it: nobody ever reads it, and
 * nothing is deleted, which an order never does. The order's number is below zero:
 * numbers of orders go on as if it had not been, and two instances do not meet.
 *
 * Room
 * ----
 * SQLite never writes a page that a transaction takes and gives back, so that would
 * tell nothing of a full disk. The fence stays instead, as long as all pages that an
 * order may need anew, until the next probe has written its own. A probe that went
 * through leaves those of the one before it free: an order finds them. (MariaDB writes
 * what is taken back as well. There the fence goes at once.)
 */
#include "db/ledger/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

/* A name between these: no lock has it. */
#define FENCE "readyz-%016" PRIx64

struct trial {
    int64_t number;
    int64_t product_id, segment; /* 0, 0: there is no product */
    int64_t stock;
    char fence[32], key[STORE_KEY_BYTES_MAX + 1];
};

/* TEXT has the fence's name as ?1. */
static void run_fence(struct sql *db, const char *text,
                      const struct trial *trial)
{
    sql_finish(sql_bind_text(sql_query(db, text), 1, trial->fence));
}

static void draw(struct sql *db, struct trial *trial)
{
    uint64_t bits = 0;

    if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
        sql_fail(db, STORE_IO, "the kernel gives no randomness");
    *trial = (struct trial){.number = -1 - (int64_t)(bits >> 1)};
    snprintf(trial->fence, sizeof(trial->fence), FENCE, bits);
    snprintf(trial->key, sizeof(trial->key), "readyz-%0*" PRIx64,
             STORE_KEY_BYTES_MAX - 7, bits);
}

enum store_status probe_flush(struct sql *db)
{
    struct trial trial;

    draw(db, &trial);
    run_fence(db, db->engine->words.take_room, &trial);
    run_fence(db, db->engine->words.free_room, &trial);
    return db->status;
}

/* A stock with its last bit turned is in range as well, and another one. */
enum store_status probe_write(struct sql *db)
{
    struct sql_query *query;
    struct trial trial;
    int64_t version = 0;

    draw(db, &trial);
    /* A database that was replaced, or brought up by a newer program, must not
     * pass for ours. */
    schema_inspect(db, &version);
    run_fence(db, db->engine->words.take_room, &trial);
    run_fence(db,
              "UPDATE fences SET token = token + 1, writes = writes + 1 "
              "WHERE name = ?1",
              &trial);
    run_fence(db, db->engine->words.free_room, &trial);
    sql_first(sql_query(db, "SELECT product_id, segment, stock "
                            "FROM segments LIMIT 1 " SQL_FOR_UPDATE),
              &trial.product_id, &trial.segment, &trial.stock);
    /* Without a product no order can be placed; that is no fault of the
     * database. */
    if (trial.product_id == 0)
        return db->status;
    /* From here on all is undone: the fence above is the one row that stays. */
    sql_run(db, "SAVEPOINT trial");
    for (int units = 1; units <= 2; units++)
        sql_run(db, db->engine->words.buy_units, trial.number, trial.product_id,
                trial.number, 1, 2, 0);
    sql_run(db,
            "UPDATE segments SET stock = ?3 "
            "WHERE product_id = ?1 AND segment = ?2",
            trial.product_id, trial.segment, trial.stock ^ 1);
    query = sql_query(db,
                      "INSERT INTO orders (number, secret, product_id, "
                      "segment, user_id, quantity, price_cents, "
                      "limit_per_user, fence, state, created_ms, "
                      "cancelled_ms, `key`) "
                      "VALUES (?1, ?1, ?2, ?3, 1, 1, 0, 0, 0, 0, ?4, 0, ?5)",
                      trial.number, trial.product_id, trial.segment, now_ms());
    sql_finish(sql_bind_text(query, 5, trial.key));
    sql_run(db,
            "INSERT INTO holds (number, pay_until_ms, quantity) "
            "VALUES (?1, 1, 1)",
            trial.number);
    sql_run(db, "ROLLBACK TO SAVEPOINT trial");
    return sql_run(db, "RELEASE SAVEPOINT trial");
}

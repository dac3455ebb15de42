/*
 * Lessons: wrong code, as programs of the stage (server/lab/programs/program.h), and
 * the right code beside it where the service has none. They are what is taught:
 * real SQL on the ledger's tables and real Redis commands, each a step. Numbers are
 * those of the experiments.
 *
 * An order by hand ends like one of the service: with program_reply().
 */
#include "server/lab/programs/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/lab/world/world.h"

/* A statement, as for program_sql(): whether it was done. */
#define SQL(...) (program_sql(self, __VA_ARGS__) == PROGRAM_OK)

/* The row that a statement is about, with ROW_OF(). */
#define A_ROW                 "WHERE product_id = %" PRId64 " AND segment = %" PRId64
#define ROW_OF(self, segment) (self)->role.product, (int64_t)(segment)

/* One of two programs: the wrong way and the right one are often one function, which
 * differs in one thing. */
static bool is_named(const struct program_actor *self, const char *name)
{
    return strcmp(self->role.program, name) == 0;
}

/* The customer's answer: PLACED if the order was WRITTEN. */
static void tell(bool written)
{
    program_reply(written ? ORDER_PLACED : ORDER_STORE_UNAVAILABLE);
}

static bool insert(struct program_actor *self, int64_t segment)
{
    return program_insert(self, segment) == PROGRAM_OK;
}

/* As program_take(); false: the customer is told that the lock was not to be had. */
static bool take(struct program_actor *self, int64_t product,
                 struct lock_task *lock)
{
    if (program_take(self, product, lock) == DLOCK_OK)
        return true;
    program_reply(ORDER_LOCK_TIMEOUT);
    return false;
}

/* Takes the units on condition that they are there: from *ROWS rows. */
static enum program_answer update(struct program_actor *self, int64_t segment,
                                  int64_t *rows)
{
    return program_sql(self, rows,
                       "UPDATE segments SET stock = stock - %" PRId64 " " A_ROW
                       " AND stock >= %" PRId64,
                       self->role.quantity, ROW_OF(self, segment),
                       self->role.quantity);
}

/* The right way, which counts the rows. PROGRAM_NO: there are too few units. */
static enum program_answer deduct(struct program_actor *self, int64_t segment)
{
    int64_t rows = 0;
    enum program_answer answer = update(self, segment, &rows);

    /* A statement that changed no row was done all the same: only the count says that
     * it took nothing. */
    return answer == PROGRAM_OK && rows == 0 ? PROGRAM_NO : answer;
}

/* deduct() and the order's row. The customer is told. */
static enum program_answer sell(struct program_actor *self, int64_t segment)
{
    enum program_answer answer = deduct(self, segment);

    if (answer == PROGRAM_OK)
        answer = program_insert(self, segment);
    /* A constraint that refuses is a no as well: the units are not there. */
    if (answer == PROGRAM_NO)
        program_reply(ORDER_SOLD_OUT);
    else
        tell(answer == PROGRAM_OK);
    return answer;
}

/* The textbook's way reads the stock. False: there are too few units, or it cannot be
 * read, which the customer is told. */
static bool read_stock(struct program_actor *self, int64_t *stock)
{
    /* The read is outside of any transaction: what it says may be old when it
     * is written. */
    if (!SQL(stock, "SELECT stock FROM segments " A_ROW, ROW_OF(self, 0)))
        program_reply(ORDER_STORE_UNAVAILABLE);
    else if (*stock < self->role.quantity)
        program_reply(ORDER_SOLD_OUT);
    else
        return true;
    return false;
}

/* Then it writes what is left of it, and the order's row. */
static bool write_order(struct program_actor *self, int64_t stock)
{
    return SQL(NULL, "UPDATE segments SET stock = %" PRId64 " " A_ROW,
               stock - self->role.quantity, ROW_OF(self, 0)) &&
           insert(self, 0);
}

/* Cancels the order with the role's key; its units go to SEGMENT. False: there is none
 * that is not cancelled. In the caller's transaction. */
static bool give_back(struct program_actor *self, int64_t segment)
{
    int64_t rows = 0;

    /* One row tells a cancel from the second one, which gives nothing back. */
    return SQL(&rows,
               "UPDATE orders SET state = 1, cancelled_ms = 1 "
               "WHERE key = '%s' AND state = 0",
               self->role.key) &&
           rows == 1 &&
           SQL(NULL, "UPDATE segments SET stock = stock + %" PRId64 " " A_ROW,
               self->role.quantity, ROW_OF(self, segment));
}

/* 41, 42. The right way in one transaction: the database is its own until it commits. */
void lesson_order_whole(struct program_actor *self)
{
    /* Any of these may find the database busy: then nothing was done, and the customer
     * is told so. */
    tell(SQL(NULL, "BEGIN IMMEDIATE") && deduct(self, 0) == PROGRAM_OK &&
         insert(self, 0) && SQL(NULL, "COMMIT"));
}

/* ---- around an order ---------------------------------------------------------
 *
 * The lock works, and yet too much is sold: both sell like the textbook.
 */

/* 26. The release stands inside of the transaction, as it does where a framework
 * commits when the method that has the lock returns; or behind it. */
void lesson_order_in_transaction(struct program_actor *self)
{
    bool unlocks_first = is_named(self, "order-unlocks-first"), good;
    struct lock_task lock;
    int64_t stock;

    if (!take(self, self->role.product, &lock))
        return;
    /* The lock goes back on each way out: the lesson is about its place, and not about
     * a lock that stays. */
    if (!read_stock(self, &stock)) {
        (void)program_give(self, &lock);
        return;
    }
    good = SQL(NULL, "BEGIN IMMEDIATE") && write_order(self, stock);
    if (unlocks_first) /* the next one reads what was before */
        (void)program_give(self, &lock);
    /* The COMMIT that fails has sold nothing, whichever way it was. */
    tell(good && SQL(NULL, "COMMIT"));
    if (!unlocks_first)
        (void)program_give(self, &lock);
}

/* 28. The stock is the product's; the lock is the user's. */
void lesson_order_locks_user(struct program_actor *self)
{
    struct lock_task lock;
    int64_t stock;

    if (!take(self, 0, &lock))
        return;
    if (read_stock(self, &stock))
        tell(write_order(self, stock));
    (void)program_give(self, &lock);
}

/* ---- a disk ---------------------------------------------------------------- */

/* 42. A transaction that is over for all who read the file, and nowhere on disk. */
void lesson_order_on_disk(struct program_actor *self)
{
    unsigned before = disk_syncs();

    /* The setting is the connection's, and dies with it. */
    (void)SQL(NULL, "PRAGMA synchronous = %s",
              is_named(self, "order-synced") ? "FULL" : "OFF");
    lesson_order_whole(self);
    turns_note(disk_syncs() > before
                   ? "fsync: the disk has it"
                   : "no fsync: only the kernel's memory has it");
}

/* Not a buyer but the machine. */
void lesson_power_cut(struct program_actor *self)
{
    const struct page_thread shown = {.step = {.is_sql = true,
                                               .name = DISK_PROGRAM,
                                               .sent = "the power fails"},
                                      .is_write = true,
                                      .part = PAGE_BY_HAND};

    (void)turns_step(&shown);
    if (turns_ending())
        return;
    (void)turns_stepped(0, disk_cut(self->db_path)
                               ? "what was synced is there"
                               : "what was synced cannot be read");
}

/* ---- one statement -----------------------------------------------------------
 *
 * A condition is not the right one, or nobody reads an answer. No lock is needed to
 * make these go wrong, and few would help.
 */

/* 29. Looks how many the user has, and then writes. Two clicks look at once. */
void lesson_order_checks_first(struct program_actor *self)
{
    int64_t bought;

    if (!SQL(&bought,
             "SELECT COUNT(*) FROM orders WHERE product_id = %" PRId64
             " AND user_id = %" PRId64 " AND state = 0",
             self->role.product, self->role.user))
        program_reply(ORDER_STORE_UNAVAILABLE);
    else if (bought >= self->scene->limit)
        program_reply(ORDER_PURCHASE_LIMIT);
    else
        (void)sell(self, 0);
}

/* A row for the product and the user, which both clicks have to change. False: the
 * customer is told why not. */
static bool take_row(struct program_actor *self)
{
    int64_t units = self->role.quantity, rows = 0;

    /* The condition and the write are one statement: the second click waits for the row,
     * and finds it. */
    if (!SQL(&rows,
             "INSERT INTO purchases "
             "(bucket_of_64, product_id, user_id, units) "
             "VALUES (0, %" PRId64 ", %" PRId64 ", %" PRId64 ") "
             "ON CONFLICT DO UPDATE SET units = units + "
             "%" PRId64 " WHERE units + %" PRId64 " <= %" PRId64,
             self->role.product, self->role.user, units, units, units,
             self->scene->limit))
        program_reply(ORDER_STORE_UNAVAILABLE);
    else if (rows == 0)
        program_reply(ORDER_PURCHASE_LIMIT);
    else
        return true;
    return false;
}

void lesson_order_has_row(struct program_actor *self)
{
    if (take_row(self))
        (void)sell(self, 0);
}

/* The row keeps the limit; the stock is read, and written as it was read. */
void lesson_order_has_row_alone(struct program_actor *self)
{
    int64_t stock;

    if (take_row(self) && read_stock(self, &stock))
        tell(write_order(self, stock));
}

/* 32. The condition asks for any stock, and the order takes two units. The table has
 * no CHECK, which would refuse it. */
void lesson_order_off_by_one(struct program_actor *self)
{
    int64_t rows = 0;

    /* The check is the schema's last resort: it would hide what is taught. */
    (void)SQL(NULL, "PRAGMA ignore_check_constraints = ON");
    if (!SQL(&rows,
             "UPDATE segments SET stock = stock - %" PRId64 " " A_ROW
             " AND stock > 0",
             self->role.quantity, ROW_OF(self, 0)))
        program_reply(ORDER_STORE_UNAVAILABLE);
    else if (rows == 0)
        program_reply(ORDER_SOLD_OUT);
    else
        tell(insert(self, 0));
}

/* 33. The statement is right. It succeeds also if it has changed no row. */
void lesson_order_counts_no_rows(struct program_actor *self)
{
    tell(update(self, 0, NULL) == PROGRAM_OK && insert(self, 0));
}

/* 32, 33. Asks for enough, and looks at how many rows have changed. */
void lesson_order_counts_rows(struct program_actor *self)
{
    (void)sell(self, 0);
}

/* ---- stock over segments -----------------------------------------------------
 *
 * An order sells from one of them, units move between them, or go back to one.
 */

/* How many segments the product has now. */
static int64_t segments_of(struct program_actor *self)
{
    /* A product that cannot be read counts as whole. */
    int64_t n = 0;

    (void)SQL(&n, "SELECT segments FROM products WHERE id = %" PRId64,
              self->role.product);
    return n > 0 ? n : 1;
}

/* 34. The user's number chooses the segment, and no other is asked. */
void lesson_order_pinned(struct program_actor *self)
{
    (void)sell(self, self->role.user % segments_of(self));
}

/* 35. Asks all segments; but each has to have all that is wanted. */
void lesson_order_probes(struct program_actor *self)
{
    int64_t n = segments_of(self);

    for (int64_t segment = 0; segment < n; segment++) {
        enum program_answer answer = deduct(self, segment);

        /* Only a no goes on: an answer that was lost may have taken the units. */
        if (answer == PROGRAM_NO)
            continue;
        tell(answer == PROGRAM_OK && insert(self, segment));
        return;
    }
    program_reply(ORDER_SOLD_OUT);
}

/* UNITS go out of the sale, or come into it, at SEGMENT. */
static bool put(struct program_actor *self, int64_t units, int64_t segment)
{
    /* INITIAL moves along, because the audit compares the stock with it. */
    return SQL(NULL,
               "UPDATE segments SET initial = initial %+" PRId64
               ", stock = stock %+" PRId64 " " A_ROW,
               units, units, ROW_OF(self, segment));
}

/* 36. Each statement is on disk when it ends; or all of them are, or none. */
void lesson_move_units(struct program_actor *self)
{
    bool at_once = is_named(self, "move-at-once");
    int64_t units = self->role.quantity;

    if ((!at_once || SQL(NULL, "BEGIN IMMEDIATE")) && put(self, -units, 0) &&
        put(self, units, 1) &&
        SQL(NULL,
            "INSERT INTO transfers (product_id, from_segment, "
            "to_segment, units, created_ms) VALUES (%" PRId64 ", 0, 1, %" PRId64
            ", 0)",
            self->role.product, units) &&
        at_once)
        (void)SQL(NULL, "COMMIT");
}

/* 37. The segment is computed once more, from what may have changed since. */
void lesson_cancel_pinned(struct program_actor *self)
{
    int64_t segment = self->role.user % segments_of(self);

    if (!SQL(NULL, "BEGIN IMMEDIATE"))
        return;
    (void)give_back(self, segment);
    (void)SQL(NULL, "COMMIT");
}

/* ---- a yes or a no -----------------------------------------------------------
 *
 * An answer was given too early, remembered for too long, or guessed.
 */

/* 39. Redis decides and the customer is told. The ledger is written after that. */
void lesson_order_in_redis(struct program_actor *self)
{
    static const char script[] =
        "if tonumber(redis.call('get', KEYS[1]) or 0) < tonumber(ARGV[1]) "
        "then return 0 end "
        "redis.call('decrby', KEYS[1], ARGV[1]) return 1";
    char stock[24], quantity[24], reply[32];

    /* The stock goes into Redis once, whoever comes first. */
    (void)snprintf(stock, sizeof(stock), "%" PRId64, self->scene->stock);
    (void)snprintf(quantity, sizeof(quantity), "%" PRId64, self->role.quantity);
    (void)program_redis(
        self, reply, sizeof(reply),
        (const char *[]){"SET", "stock:{1}", stock, "NX", NULL});
    if (program_redis(self, reply, sizeof(reply),
                      (const char *[]){"EVAL", script, "1", "stock:{1}",
                                       quantity, NULL}) != PROGRAM_OK) {
        program_reply(ORDER_STORE_UNAVAILABLE);
        return;
    }
    program_reply(strcmp(reply, "1") == 0 ? ORDER_PLACED : ORDER_SOLD_OUT);
    if (strcmp(reply, "1") == 0 && deduct(self, 0) == PROGRAM_OK)
        (void)program_insert(self, 0);
}

/* 40. The flag spares a write for each buyer who comes too late. It has the product's
 * epoch in it, which each cancel raises. One of an older epoch says nothing; but only
 * who LOOKS at the epoch knows that. */
void lesson_order_flagged(struct program_actor *self)
{
    bool looks = is_named(self, "order-epoch");
    const char *get[] = {"GET", "sold-out:{1}", NULL};
    char epoch[24], flag[32];
    int64_t number = 0;

    /* The epoch is read before the flag is: a cancel in between makes the flag an
     * old one. */
    (void)SQL(&number, "SELECT epoch FROM products WHERE id = %" PRId64,
              self->role.product);
    (void)snprintf(epoch, sizeof(epoch), "%" PRId64, number);
    if (program_redis(self, flag, sizeof(flag), get) == PROGRAM_OK &&
        (looks ? strcmp(flag, epoch) == 0 : strcmp(flag, "(nil)") != 0)) {
        program_reply(ORDER_SOLD_OUT);
        return;
    }
    if (sell(self, 0) == PROGRAM_NO)
        (void)program_redis(
            self, flag, sizeof(flag),
            (const char *[]){"SET", "sold-out:{1}", epoch, NULL});
}

/* The units are back and the epoch is over at once, in one transaction. */
void lesson_cancel_epoch(struct program_actor *self)
{
    if (!SQL(NULL, "BEGIN IMMEDIATE"))
        return;
    if (give_back(self, 0))
        (void)SQL(NULL,
                  "UPDATE products SET epoch = epoch + 1 WHERE id = %" PRId64,
                  self->role.product);
    (void)SQL(NULL, "COMMIT");
}

/* 41. Whatever is not a yes is told as a no. */
void lesson_order_busy_is_no(struct program_actor *self)
{
    if (deduct(self, 0) == PROGRAM_OK)
        tell(insert(self, 0));
    else
        program_reply(ORDER_SOLD_OUT);
}

/* ---- a look and a deed -------------------------------------------------------
 *
 * Time is between them: what was true at the look need not be at the deed.
 */

enum { SALE_ENDS_IN_MS = 5000 };

static int64_t now_ms(void)
{
    return (int64_t)(turns_now_us() / 1000);
}

void lesson_end_soon(struct program_actor *self)
{
    struct store_change change = {
        .product = {.id = self->role.product,
                    .ends_ms = now_ms() + SALE_ENDS_IN_MS},
        .given = STORE_GIVEN_ENDS,
        .patch = true};

    (void)program_write(self, "product-put",
                        "UPDATE the product: its sale ends in 5 s",
                        STORE_CHANGE, &change.write);
}

const struct program_check lesson_sale_ended = {
    NULL,
    "SELECT COUNT(*) FROM orders JOIN products ON products.id = product_id "
    "WHERE ends_ms > 0 AND orders.created_ms >= ends_ms",
    "an order was sold after the end of the sale"};

/* 43. Looks at the clock at the door, and then waits for its turn. */
void lesson_order_late(struct program_actor *self)
{
    struct lock_task lock;
    int64_t is_open = 0;

    (void)SQL(&is_open,
              "SELECT ends_ms = 0 OR ends_ms > %" PRId64
              " FROM products WHERE id = %" PRId64,
              now_ms(), self->role.product);
    if (!is_open) {
        program_reply(ORDER_SALE_ENDED);
        return;
    }
    if (!take(self, self->role.product, &lock))
        return;
    (void)sell(self, 0);
    (void)program_give(self, &lock);
}

const struct program_check lesson_bill_paid = {
    "SELECT COUNT(*) FROM sqlite_master WHERE name = 'bills'",
    "SELECT COUNT(*) FROM bills JOIN orders USING (key) "
    "WHERE charged AND state = 1",
    "the order is paid for, and its units are on sale again"};

/* Whether the bill is STATUS from now on. The wrong way: look, then write. The right
 * one is a compare-and-set, of which one of two who try changes a row. */
static bool set_bill(struct program_actor *self, const char *status)
{
    bool compares =
        is_named(self, "pay-compares") || is_named(self, "expire-compares");
    int64_t is_open = 0, rows = 0;

    if (compares)
        return SQL(&rows,
                   "UPDATE bills SET status = '%s' "
                   "WHERE key = '%s' AND status = 'open'",
                   status, self->role.key) &&
               rows == 1;
    return SQL(&is_open, "SELECT status = 'open' FROM bills WHERE key = '%s'",
               self->role.key) &&
           is_open &&
           SQL(NULL, "UPDATE bills SET status = '%s' WHERE key = '%s'", status,
               self->role.key);
}

/* Orders; then the customer pays. */
void lesson_pay(struct program_actor *self)
{
    program_order(self);
    /* The bills are made when there is an order: a step of the stage, as all that is
     * by hand. */
    if (turns_ending() || self->order.outcome != ORDER_PLACED)
        return;
    (void)SQL(NULL, "CREATE TABLE bills AS SELECT key, 'open' AS status, "
                    "0 AS charged FROM orders");
    /* The charge comes after the bill's word: money moves outside of the database. */
    if (set_bill(self, "paid"))
        (void)SQL(NULL, "UPDATE bills SET charged = 1 WHERE key = '%s'",
                  self->role.key);
    else
        turns_note("the bill is not open: nothing is charged");
}

/* The job that cancels what was not paid in time, by the service's own cancel. */
void lesson_expire(struct program_actor *self)
{
    if (set_bill(self, "expired"))
        program_cancel(self);
    else
        turns_note("the bill is not open: nothing is cancelled");
}

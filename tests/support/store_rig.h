/*
 * A store in a directory of its own, a reader of it, and a source of orders: what
 * a test of the store begins with. What is not as it has to be fails the test.
 *
 * With STORE_RIG_MYSQL=mysql:unix:SOCKET in the environment, a server where we are
 * root, the store is a new database there.
 */
#ifndef STORE_RIG_H
#define STORE_RIG_H

#include <pthread.h>
#include <sqlite3.h>
#include <sys/types.h>

#include "db/store_async.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unit_test.h"

#define assert_ok(call) assert_int_equal(call, STORE_OK)

/* What the step hook sees, and does. */
struct store_rig_steps {
    const char *failing; /* this step fails; NULL = none */
    bool hold;           /* commits wait before they happen */
    int commits, held;   /* begun; waiting now */
};

#define STORE_RIG_LOTS 2

/* What a test offers is one transaction. */
struct store_rig_feed {
    void (*on_attend)(
        void *ctx); /* on the committer's thread; NULL = nothing; set it with
                       the mutex held, once the source is attached */
    void *ctx;
    struct store_lot next[STORE_RIG_LOTS]; /* what take() hands out */
    size_t next_n;
    struct store_lot told[STORE_RIG_LOTS]; /* as done() got them */
    struct store_error why;
    int attends, takes, dones; /* calls so far */
};

struct store_rig {
    struct temp_dir dir;
    struct store *store;
    struct store_reader *reader;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    struct store_rig_steps steps;
    struct store_rig_feed feed;
};

/* For cmocka: *state becomes a rig with an open store, without a product; or one
 * with a directory only, and nothing in it. */
int store_rig_set_up(void **state);
int store_rig_set_up_dir(void **state);
int store_rig_tear_down(void **state);

/* Heads of tests of RIG: of these; and of what the file's own set_up() makes, which in
 * shared mode finds *state not NULL: not shared, shared, and one after the other. */
#define STORE_TEST(test)                                                       \
    STORE_TEST_OF(struct store_rig *rig, test, store_rig_set_up, NULL)
#define STORE_DIR_TEST(test)                                                   \
    STORE_TEST_OF(struct store_rig *rig, test, store_rig_set_up_dir, NULL)
#define STORE_OWN_TEST(test)                                                   \
    STORE_TEST_OF(struct store_rig *rig, test, set_up, NULL)
#define STORE_SHARED_TEST(test)                                                \
    STORE_TEST_OF(struct store_rig *rig, test, set_up, STORE_SHARED)
#define STORE_BOTH_TEST(test)                                                  \
    UNIT_TEST_HEAD(struct store_rig *rig, test)                                \
    STORE_ADD(add_##test, test, set_up, NULL)                                  \
    STORE_ADD(add_##test##_shared, test, set_up, STORE_SHARED)                 \
    static void test(struct store_rig *rig)
#define STORE_SHARED (void *)"shared"

/* The same of another FIXTURE. */
#define STORE_TEST_OF(fixture, test, set_up, state)                            \
    UNIT_TEST_HEAD(fixture, test)                                              \
    STORE_ADD(add_##test, test, set_up, state)                                 \
    static void test(fixture)
#define STORE_ADD(add, test, set_up, state)                                    \
    UNIT_TEST_ADD(add, #test, test##_of, set_up, store_rig_tear_down, state)

/*
 * The same in steps, for a fixture that has a rig and more: makes the
 * directory, or uses one that is there; opens the store and a reader there, by
 * OPTIONS, whose url is the rig's, and whose hook is store_rig_on_step() if it
 * has none; closes what is open; removes the directory as well.
 */
void store_rig_begin(struct store_rig *rig);
void store_rig_begin_in(struct store_rig *rig, const struct temp_dir *dir);
void store_rig_open(struct store_rig *rig, struct store_options options);
void store_rig_close(struct store_rig *rig);
void store_rig_end(struct store_rig *rig);

/* ---- steps and processes ------------------------------------------------ */

/* A store_step_hook; CTX is the rig. */
enum store_verdict store_rig_on_step(void *ctx, const struct store_step *step);

/* Commits wait from now on, and are counted anew; or go on. */
void store_rig_hold(struct store_rig *rig, bool on);

/* Waits until one of the rig's numbers is LEAST. */
void store_rig_wait(struct store_rig *rig, const int *number, int least);

/* The time of day: of orders, and of when a sale opens and ends. */
int64_t store_rig_wall_ms(void);

/* Runs MAIN(CTX) in a process of its own; a failed assertion aborts it. */
pid_t store_rig_fork(void (*main)(void *ctx), void *ctx);

/* Waits for it: its status has to be 0. */
void store_rig_join(pid_t child);

/* ---- any product -------------------------------------------------------- */

/* Puts PRODUCT on sale, or changes it. It needs no name. */
void store_rig_put(struct store_rig *rig, struct store_product product);
struct store_product store_rig_product(struct store_rig *rig, int64_t id);

/* An order to be placed. KEY is "" for none. */
struct store_order store_rig_ask(int64_t product_id, int64_t user_id,
                                 int64_t quantity, const char *key);

/* Places it alone and unfenced; order->status says how that ended. */
void store_rig_place(struct store_rig *rig, struct store_order *order);

/* Both; how it ended. */
enum store_status store_rig_buy(struct store_rig *rig, int64_t product_id,
                                int64_t user_id, int64_t quantity,
                                const char *key);

struct store_audit store_rig_audit(struct store_rig *rig);

/* By a reader of its own, as of orders of which N were acknowledged. */
struct store_audit store_rig_audit_dir(const struct temp_dir *dir,
                                       const char *const acked[], size_t n);
void store_rig_expect_sound(struct store_rig *rig);

bool store_rig_on_mysql(const struct store_rig *rig);

/* Of a test that is about SQLite's files and locks: with another database it ends
 * here, as skipped. */
void store_rig_sqlite_only(const struct store_rig *rig);
/* Of a test that is about a server with locks for rows: the other way round. */
void store_rig_mysql_only(const struct store_rig *rig);

/* SQL by a connection of its own, as another process would run it; the
 * connection, to be closed, with the locks that the SQL has taken: to SQLite
 * only. */
void store_rig_sql(const struct store_rig *rig, const char *sql);
sqlite3 *store_rig_connect(const struct store_rig *rig, const char *sql);

/* One number; -1: the database cannot tell. */
int64_t store_rig_number(sqlite3 *db, const char *sql);

/* Byte AT of the database's file, or of a file beside it; -1: there is none. */
int store_rig_byte(const struct store_rig *rig, const char *suffix, long at);

/* ---- product 1, split over segments ------------------------------------- */

/* Creates it, or resizes it. UNITS are its first ones. */
void store_rig_split(struct store_rig *rig, int64_t units, int64_t segments);
void store_rig_resize(struct store_rig *rig, int64_t segments);

/* Places one order of user 1, unfenced, which has to end well. */
struct store_order store_rig_order_at(struct store_rig *rig, int64_t segment,
                                      int64_t quantity);

void store_rig_cancel(struct store_rig *rig, const struct store_order *it);

void store_rig_restock(struct store_rig *rig, int64_t units);

/* The stock of the segments in use: "3 3 2 2". */
#define STORE_RIG_TEXT_BYTES 4096
void store_rig_stock(struct store_rig *rig, char text[STORE_RIG_TEXT_BYTES]);

/* It is exactly that. */
void store_rig_expect(struct store_rig *rig, const char *stock);

/* ---- the source of orders ----------------------------------------------- */

/* Attaches it; it is detached when the store is closed. */
void store_rig_feed(struct store_rig *rig);

/* The next transaction is to have these; and one begins. */
void store_rig_offer(struct store_rig *rig, const struct store_lot lots[],
                     size_t n);

/* One transaction of these, and its end; how that was for the first of them. */
enum store_status store_rig_go(struct store_rig *rig,
                               const struct store_lot lots[], size_t n);

/* The same of one order, without a lock. */
enum store_status store_rig_go_order(struct store_rig *rig,
                                     struct store_order *order);

#endif

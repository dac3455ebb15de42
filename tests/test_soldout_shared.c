/*
 * What one instance knows to be sold out, and another one brings back. Each has
 * its own process: a servant, which was forked before there were threads, does
 * what it is told, and is killed or stopped where it hurts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/till.h"

#define STOCK 2

enum what { CANCEL, RESTOCK, RESPLIT, RESTORE, BUY, ASK };
enum fate { LIVE, DIE_BEFORE_COMMIT, DIE_AFTER_COMMIT, STOP_AFTER_COMMIT };

/* What a servant is told to do, and what happens to it then. */
struct task {
    enum what what;
    enum fate fate;
    char id[STORE_ID_BYTES_MAX + 1]; /* of an order */
};

struct fixture {
    struct temp_dir dir;
    char lock[TEMP_DIR_BYTES_MAX + 32]; /* the lock file */
    struct till till;
    char ids[STOCK][STORE_ID_BYTES_MAX + 1]; /* what was bought */
    pid_t servant;
    int tasks, answers; /* pipes to and from it */
};

/* ---- the servant ---------------------------------------------------------- */

static struct task task; /* that it is at */

static enum store_verdict meet_fate(void *ctx, const char *step,
                                    int64_t product_id, enum store_phase phase)
{
    (void)ctx, (void)product_id;
    if (strcmp(step, "commit") != 0)
        return STORE_GO;
    if (task.fate ==
        (phase == STORE_BEFORE ? DIE_BEFORE_COMMIT : DIE_AFTER_COMMIT))
        raise(SIGKILL);
    if (task.fate == STOP_AFTER_COMMIT && phase == STORE_AFTER) {
        task.fate = LIVE;
        raise(SIGSTOP);
    }
    return STORE_GO;
}

static int do_task(struct till *till)
{
    struct store_product product = {
        .id = 1, .initial = STOCK, .name = "Thing", .segments = 2};
    struct store_order order;

    switch (task.what) {
    case CANCEL:
        return (int)store_cancel(till->store, task.id, &order, NULL);
    case RESTOCK:
        return (int)store_restock(till->store, 1, 1, "", &product, NULL);
    case RESPLIT:
        return (int)store_product_put(till->store, &product, NULL, NULL);
    case RESTORE: /* as the textbook puts a unit back */
        return (int)store_naive_update(till->store, 1, 0, 1, NULL, NULL);
    case BUY:
        return (int)till_buy(till, 1, &order);
    case ASK:
        return till_knows(till, 1);
    }
    return -1;
}

static void serve(const struct temp_dir *dir, int tasks, int answers)
{
    struct till till;
    int answer;

    till_open(&till, dir, meet_fate, NULL);
    while (read(tasks, &task, sizeof(task)) == sizeof(task)) {
        answer = do_task(&till);
        if (write(answers, &answer, sizeof(answer)) != sizeof(answer))
            _exit(1);
    }
    till_close(&till);
    _exit(0);
}

static void engage(struct fixture *f)
{
    int down[2], up[2];

    assert_int_equal(pipe(down) | pipe(up), 0);
    fflush(NULL);
    f->servant = fork();
    if (f->servant == 0) {
        close(down[1]);
        close(up[0]);
        serve(&f->dir, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    f->tasks = down[1];
    f->answers = up[0];
}

static void tell(struct fixture *f, struct task it)
{
    assert_int_equal(write(f->tasks, &it, sizeof(it)), sizeof(it));
}

static int answer_of(struct fixture *f)
{
    int answer = -1;

    assert_int_equal(read(f->answers, &answer, sizeof(answer)), sizeof(answer));
    return answer;
}

static int have_done(struct fixture *f, enum what what)
{
    struct task it = {.what = what};

    snprintf(it.id, sizeof(it.id), "%s", f->ids[0]);
    tell(f, it);
    return answer_of(f);
}

/* A servant's cancel that ends as FATE says; returns when it has met it. */
static void have_cancelled(struct fixture *f, enum fate fate)
{
    struct task it = {.what = CANCEL, .fate = fate};
    int status;

    snprintf(it.id, sizeof(it.id), "%s", f->ids[0]);
    tell(f, it);
    assert_int_equal(waitpid(f->servant, &status, WUNTRACED), f->servant);
    assert_true(fate == STOP_AFTER_COMMIT ? WIFSTOPPED(status)
                                          : WIFSIGNALED(status));
}

/* ---- the one that remembers ------------------------------------------------ */

static enum store_status buy(struct fixture *f, int i)
{
    struct store_order order;
    enum store_status status = till_buy(&f->till, 1, &order);

    snprintf(f->ids[i], sizeof(f->ids[i]), "%s", order.id);
    return status;
}

/* Refused once; from then on it costs nothing. */
static void expect_sold_out(struct fixture *f)
{
    struct store_order order;
    int commits;

    assert_int_equal(till_buy(&f->till, 1, &order), STORE_SOLD_OUT);
    commits = atomic_load(&f->till.commits);
    for (int i = 0; i < 100; i++)
        assert_true(till_knows(&f->till, 1));
    assert_int_equal(atomic_load(&f->till.commits), commits);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    temp_dir_make(&f->dir);
    snprintf(f->lock, sizeof(f->lock), "%s.lock", f->dir.db);
    engage(f);
    till_open(&f->till, &f->dir, NULL, NULL);
    /* The servant may still be at opening: that forgets, too. */
    assert_int_equal(have_done(f, ASK), false);
    till_put(&f->till, STOCK);
    for (int i = 0; i < STOCK; i++)
        assert_int_equal(buy(f, i), STORE_OK);
    assert_false(till_knows(&f->till, 1));
    expect_sold_out(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    close(f->tasks);
    close(f->answers);
    kill(f->servant, SIGCONT); /* a test that failed may have left it stopped */
    waitpid(f->servant, NULL, 0);
    till_close(&f->till);
    temp_dir_remove(&f->dir);
    free(f);
    return 0;
}

/* ---- what comes back elsewhere --------------------------------------------- */

/* Whatever brings units back: the very next order gets one. */
static void the_next_order_gets_what_comes_back(void **state)
{
    static const enum what ways[] = {CANCEL, RESTOCK, RESTORE, CANCEL};
    struct fixture *f = *state;

    /* It brings nothing, but who knows? */
    assert_int_equal(have_done(f, RESPLIT), STORE_OK);
    assert_false(till_knows(&f->till, 1));
    expect_sold_out(f);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        assert_int_equal(have_done(f, ways[i]), STORE_OK);
        assert_false(till_knows(&f->till, 1));
        assert_int_equal(buy(f, 0), STORE_OK);
        expect_sold_out(f);
    }
}

static void both_remember(void **state)
{
    struct fixture *f = *state;
    struct store_order order;

    assert_int_equal(have_done(f, BUY), STORE_SOLD_OUT);
    assert_true(have_done(f, ASK));
    assert_int_equal(store_cancel(f->till.store, f->ids[0], &order, NULL),
                     STORE_OK);
    assert_false(have_done(f, ASK));
    assert_false(till_knows(&f->till, 1));
    assert_int_equal(have_done(f, BUY), STORE_OK);
    expect_sold_out(f);
}

/* What is sold elsewhere is no reason to look again. */
static void orders_elsewhere_do_not_disturb(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(have_done(f, BUY), STORE_SOLD_OUT);
    assert_true(till_knows(&f->till, 1));
}

/* Anybody can send these, a thousand times a second. Nothing came back. */
static void what_brings_nothing_back_voids_nothing(void **state)
{
    struct fixture *f = *state;
    struct store *store = f->till.store;
    struct store_product product;
    struct store_order order;

    assert_int_equal(store_restock(store, 1, 1, "k", &product, NULL), STORE_OK);
    assert_int_equal(store_cancel(store, f->ids[1], &order, NULL), STORE_OK);
    assert_int_equal(buy(f, 1), STORE_OK);
    assert_int_equal(buy(f, 1), STORE_OK);
    assert_int_equal(have_done(f, CANCEL), STORE_OK);
    assert_int_equal(buy(f, 1), STORE_OK);
    expect_sold_out(f);
    assert_int_equal(have_done(f, CANCEL), STORE_OK); /* once more */
    assert_true(till_knows(&f->till, 1));
    assert_int_equal(store_cancel(store, "garbage", &order, NULL),
                     STORE_NO_ORDER);
    assert_int_equal(store_cancel(store, f->ids[0], &order, NULL), STORE_OK);
    assert_true(order.replayed);
    assert_true(till_knows(&f->till, 1));
    assert_int_equal(store_restock(store, 1, 1, "k", &product, NULL), STORE_OK);
    assert_int_equal(store_restock(store, 2, 1, "", &product, NULL),
                     STORE_NO_PRODUCT);
    assert_int_equal(store_restock(store, 1, 0, "", &product, NULL),
                     STORE_RANGE);
    assert_true(till_knows(&f->till, 1));
}

/* ---- kill -9, and worse ----------------------------------------------------- */

static void killed_before_its_commit(void **state)
{
    struct fixture *f = *state;

    have_cancelled(f, DIE_BEFORE_COMMIT);
    assert_false(till_knows(&f->till, 1)); /* it has only forgotten */
    expect_sold_out(f);
}

static void killed_after_its_commit(void **state)
{
    struct fixture *f = *state;

    have_cancelled(f, DIE_AFTER_COMMIT);
    assert_false(till_knows(&f->till, 1));
    assert_int_equal(buy(f, 0), STORE_OK);
    expect_sold_out(f);
}

/* Units that can be seen are not denied, also if nobody has been told of them. */
static void stopped_after_its_commit(void **state)
{
    struct fixture *f = *state;

    have_cancelled(f, STOP_AFTER_COMMIT);
    assert_int_equal(till_stock(&f->till), 1);
    assert_false(till_knows(&f->till, 1));
    kill(f->servant, SIGCONT);
    assert_int_equal(answer_of(f), STORE_OK);
    assert_int_equal(buy(f, 0), STORE_OK);
}

/* ---- what others do to the lock file ----------------------------------------- */

static void the_lock_file_is_cut(void **state)
{
    struct fixture *f = *state;
    struct store_order order;

    assert_int_equal(truncate(f->lock, 0), 0);
    assert_false(till_knows(&f->till, 1));
    assert_int_equal(till_buy(&f->till, 1, &order), STORE_SOLD_OUT);
    assert_false(till_knows(&f->till, 1)); /* it would not hear of the end */
    assert_int_equal(have_done(f, CANCEL), STORE_OK);
    assert_int_equal(buy(f, 0), STORE_OK);
    expect_sold_out(f);
}

static void the_lock_file_is_filled_with_zeros(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(truncate(f->lock, 0) | truncate(f->lock, 8), 0);
    assert_false(till_knows(&f->till, 1));
    assert_int_equal(have_done(f, CANCEL), STORE_OK);
    assert_false(till_knows(&f->till, 1));
    assert_int_equal(buy(f, 0), STORE_OK);
    expect_sold_out(f);
}

/* Who opens the database now finds another file, and sets its marks there. */
static void the_lock_file_is_replaced(void **state)
{
    struct fixture *f = *state;
    struct store_order order;
    char away[sizeof(f->lock) + 8];
    struct till third;

    snprintf(away, sizeof(away), "%s.away", f->lock);
    assert_int_equal(rename(f->lock, away), 0);
    assert_false(till_knows(&f->till, 1));
    till_open(&third, &f->dir, NULL, NULL);
    assert_int_equal(till_buy(&third, 1, &order), STORE_SOLD_OUT);
    assert_true(till_knows(&third, 1));
    assert_int_equal(have_done(f, CANCEL), STORE_IO); /* the third is deaf */
    assert_int_equal(till_stock(&third), 0);
    assert_int_equal(store_cancel(third.store, f->ids[0], &order, NULL),
                     STORE_OK);
    assert_false(till_knows(&f->till, 1));
    assert_int_equal(have_done(f, BUY), STORE_OK);
    till_close(&third);
}

static void a_write_without_a_mark_says_why(void **state)
{
    struct fixture *f = *state;
    struct store_error error;
    struct store_order order;

    assert_int_equal(unlink(f->lock), 0);
    assert_int_equal(store_cancel(f->till.store, f->ids[0], &order, &error),
                     STORE_IO);
    assert_non_null(strstr(error.text, "restart the service"));
    assert_int_equal(till_stock(&f->till), 0);
    assert_int_equal(till_buy(&f->till, 1, &order), STORE_SOLD_OUT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_next_order_gets_what_comes_back),
        TEST(both_remember),
        TEST(orders_elsewhere_do_not_disturb),
        TEST(what_brings_nothing_back_voids_nothing),
        TEST(killed_before_its_commit),
        TEST(killed_after_its_commit),
        TEST(stopped_after_its_commit),
        TEST(the_lock_file_is_cut),
        TEST(the_lock_file_is_filled_with_zeros),
        TEST(the_lock_file_is_replaced),
        TEST(a_write_without_a_mark_says_why),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

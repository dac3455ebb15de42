/*
 * What one instance knows to be sold out, and another one brings back. Each has
 * its own process: a servant, which was forked before there were threads, does
 * what it is told, and is killed or stopped where it hurts.
 */
#include "tests/support/store_rig.h"
#include "tests/support/store_wait.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define STOCK  2
#define SHARED .shared = true, .busy_ms = 20000

enum what { CANCEL, RESTOCK, RESPLIT, RESTORE, BUY, ASK };
enum fate { LIVE, DIE_BEFORE_COMMIT, DIE_AFTER_COMMIT, STOP_AFTER_COMMIT };

/* What a servant is told to do, and what happens to it then. */
struct task {
    enum what what;
    enum fate fate;
    char id[STORE_ID_BYTES_MAX + 1]; /* of an order */
};

struct fixture {
    struct store_rig rig;
    char lock[TEMP_DIR_BYTES_MAX + 32];      /* the lock file */
    char ids[STOCK][STORE_ID_BYTES_MAX + 1]; /* what was bought */
    pid_t servant;
    int line;          /* to it */
    bool is_overtaken; /* the servant cancels when the next commit is through */
};

/* ---- the servant ---------------------------------------------------------- */

static struct task task; /* that it is at */

static enum store_verdict meet_fate(void *ctx, const struct store_step *step)
{
    if (strcmp(step->name, "commit") != 0)
        return STORE_GO;
    if (task.fate ==
        (step->phase == STORE_BEFORE ? DIE_BEFORE_COMMIT : DIE_AFTER_COMMIT))
        raise(SIGKILL);
    if (task.fate == STOP_AFTER_COMMIT && step->phase == STORE_AFTER) {
        task.fate = LIVE;
        raise(SIGSTOP);
    }
    return STORE_GO;
}

static bool knows(struct store_rig *rig)
{
    return store_knows_sold_out(rig->store, 1, 1);
}

/* A unit, from wherever it is; ID may be NULL. */
static enum store_status buy_one(struct store_rig *rig, char *id)
{
    struct store_order order = store_rig_ask(1, 1, 1, "");
    enum store_status status;

    order.gather = true;
    status = store_rig_go_order(rig, &order);
    if (id)
        memcpy(id, order.id, sizeof(order.id));
    return status;
}

static int do_task(struct store_rig *rig)
{
    struct store_product product = {
        .id = 1, .initial = STOCK, .name = "Thing", .segments = 2};
    struct store_order order;

    switch (task.what) {
    case CANCEL:
        return (int)store_cancel(rig->store, task.id, &order, NULL);
    case RESTOCK:
        return (int)store_restock(rig->store, 1, 1, "", &product, NULL);
    case RESPLIT:
        return (int)store_product_put(rig->store, &product, NULL, NULL);
    case RESTORE: /* as the textbook puts a unit back */
        return (int)store_naive_update(rig->store, 1, 0, 1, NULL, NULL);
    case BUY:
        return (int)buy_one(rig, NULL);
    case ASK:
        return knows(rig);
    }
    return -1;
}

/* Its end of the line: it reads tasks and writes answers. */
struct servant {
    int ends[2];
    const struct temp_dir *dir;
};

static void serve(void *ctx)
{
    const struct servant *self = ctx;
    struct store_rig rig;
    int answer;

    close(self->ends[0]);
    store_rig_begin_in(&rig, self->dir);
    store_rig_open(&rig, (struct store_options){SHARED, .on_step = meet_fate});
    store_rig_feed(&rig);
    while (read(self->ends[1], &task, sizeof(task)) == sizeof(task)) {
        answer = do_task(&rig);
        assert_int_equal(write(self->ends[1], &answer, sizeof(answer)),
                         sizeof(answer));
    }
    store_rig_close(&rig);
}

static void tell(struct fixture *f, enum what what, enum fate fate)
{
    struct task it = {.what = what, .fate = fate};

    memcpy(it.id, f->ids[0], sizeof(it.id));
    assert_int_equal(write(f->line, &it, sizeof(it)), sizeof(it));
}

static int answer_of(struct fixture *f)
{
    int answer = -1;

    assert_int_equal(read(f->line, &answer, sizeof(answer)), sizeof(answer));
    return answer;
}

static int have_done(struct fixture *f, enum what what)
{
    tell(f, what, LIVE);
    return answer_of(f);
}

/* A servant's cancel that ends as FATE says; returns when it has met it. */
static void have_cancelled(struct fixture *f, enum fate fate)
{
    int status;

    tell(f, CANCEL, fate);
    assert_int_equal(waitpid(f->servant, &status, WUNTRACED), f->servant);
    assert_true(fate == STOP_AFTER_COMMIT ? WIFSTOPPED(status)
                                          : WIFSIGNALED(status));
    assert_false(knows(&f->rig)); /* at least it has forgotten */
}

/* ---- the one that remembers ------------------------------------------------ */

static enum store_status buy(struct fixture *f, int i)
{
    return buy_one(&f->rig, f->ids[i]);
}

/* Refused once; from then on it costs nothing. */
static void expect_sold_out(struct fixture *f)
{
    int commits;

    assert_int_equal(buy_one(&f->rig, NULL), STORE_SOLD_OUT);
    commits = f->rig.steps.commits;
    for (int i = 0; i < 100; i++)
        assert_true(knows(&f->rig));
    assert_int_equal(f->rig.steps.commits, commits);
}

/* On the committer's thread, which has not told yet what it has decided. */
static enum store_verdict on_step(void *ctx, const struct store_step *step)
{
    struct fixture *f = ctx;

    if (f->is_overtaken && step->phase == STORE_AFTER &&
        strcmp(step->name, "commit") == 0) {
        f->is_overtaken = false;
        assert_int_equal(have_done(f, CANCEL), STORE_OK);
    }
    return store_rig_on_step(&f->rig, step);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct servant servant = {.dir = &f->rig.dir};

    signal(SIGPIPE, SIG_IGN);
    store_rig_begin(&f->rig);
    snprintf(f->lock, sizeof(f->lock), "%s.lock", f->rig.dir.db);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, servant.ends), 0);
    f->servant = store_rig_fork(serve, &servant);
    close(servant.ends[1]);
    f->line = servant.ends[0];
    store_rig_open(&f->rig, (struct store_options){SHARED, .on_step = on_step,
                                                   .on_step_ctx = f});
    store_rig_feed(&f->rig);
    /* The servant may still be at opening: that forgets, too. */
    assert_int_equal(have_done(f, ASK), false);
    store_rig_split(&f->rig, STOCK, 1);
    for (int i = 0; i < STOCK; i++)
        assert_int_equal(buy(f, i), STORE_OK);
    assert_false(knows(&f->rig));
    expect_sold_out(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    close(f->line);
    kill(f->servant, SIGCONT); /* a test that failed may have left it stopped */
    waitpid(f->servant, NULL, 0);
    store_rig_end(&f->rig);
    free(f);
    return 0;
}

/* ---- what comes back elsewhere --------------------------------------------- */

/* Whatever brings units back: the very next order gets one. */
UNIT_TEST_OF(struct fixture *f, the_next_order_gets_what_comes_back)
{
    static const enum what ways[] = {CANCEL, RESTOCK, RESTORE, CANCEL};

    /* It brings nothing, but who knows? */
    assert_int_equal(have_done(f, RESPLIT), STORE_OK);
    assert_false(knows(&f->rig));
    expect_sold_out(f);
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        assert_int_equal(have_done(f, ways[i]), STORE_OK);
        assert_false(knows(&f->rig));
        assert_int_equal(buy(f, 0), STORE_OK);
        expect_sold_out(f);
    }
}

/* The refusal was right when it was decided: nobody may hear it from memory then. */
UNIT_TEST_OF(struct fixture *f, a_refusal_that_is_overtaken_is_not_remembered)
{
    f->is_overtaken = true;
    assert_int_equal(buy_one(&f->rig, NULL), STORE_SOLD_OUT);
    assert_false(f->is_overtaken);
    assert_false(knows(&f->rig));
    assert_int_equal(buy(f, 0), STORE_OK);
    expect_sold_out(f);
}

UNIT_TEST_OF(struct fixture *f, both_remember)
{
    struct store_order order;

    assert_int_equal(have_done(f, BUY), STORE_SOLD_OUT);
    assert_true(have_done(f, ASK));
    assert_true(knows(&f->rig)); /* an order elsewhere voids nothing */
    assert_ok(store_cancel(f->rig.store, f->ids[0], &order, NULL));
    assert_false(have_done(f, ASK));
    assert_false(knows(&f->rig));
    assert_int_equal(have_done(f, BUY), STORE_OK);
    expect_sold_out(f);
}

/* Anybody can send these, a thousand times a second. Nothing came back. */
UNIT_TEST_OF(struct fixture *f, what_brings_nothing_back_voids_nothing)
{
    struct store *store = f->rig.store;
    struct store_product product;
    struct store_order order;

    assert_ok(store_restock(store, 1, 1, "k", &product, NULL));
    assert_ok(store_cancel(store, f->ids[1], &order, NULL));
    assert_int_equal(buy(f, 1), STORE_OK);
    assert_int_equal(buy(f, 1), STORE_OK);
    assert_int_equal(have_done(f, CANCEL), STORE_OK);
    assert_int_equal(buy(f, 1), STORE_OK);
    expect_sold_out(f);
    assert_int_equal(have_done(f, CANCEL), STORE_OK); /* once more */
    assert_true(knows(&f->rig));
    assert_int_equal(store_cancel(store, "garbage", &order, NULL),
                     STORE_NO_ORDER);
    assert_ok(store_cancel(store, f->ids[0], &order, NULL));
    assert_true(order.replayed);
    assert_true(knows(&f->rig));
    assert_ok(store_restock(store, 1, 1, "k", &product, NULL));
    assert_int_equal(store_restock(store, 2, 1, "", &product, NULL),
                     STORE_NO_PRODUCT);
    assert_int_equal(store_restock(store, 1, 0, "", &product, NULL),
                     STORE_RANGE);
    assert_true(knows(&f->rig));
}

/* ---- kill -9, and worse ----------------------------------------------------- */

UNIT_TEST_OF(struct fixture *f, killed_before_its_commit)
{
    have_cancelled(f, DIE_BEFORE_COMMIT);
    expect_sold_out(f);
}

UNIT_TEST_OF(struct fixture *f, killed_after_its_commit)
{
    have_cancelled(f, DIE_AFTER_COMMIT);
    assert_int_equal(buy(f, 0), STORE_OK);
    expect_sold_out(f);
}

/* Units that can be seen are not denied, also if nobody has been told of them. */
UNIT_TEST_OF(struct fixture *f, stopped_after_its_commit)
{
    have_cancelled(f, STOP_AFTER_COMMIT);
    assert_int_equal(store_rig_product(&f->rig, 1).stock, 1);
    kill(f->servant, SIGCONT);
    assert_int_equal(answer_of(f), STORE_OK);
    assert_int_equal(buy(f, 0), STORE_OK);
}

/* ---- what others do to the lock file ----------------------------------------- */

/* It is cut, and in the second round filled with zeros. */
UNIT_TEST_OF(struct fixture *f, the_lock_file_is_overwritten)
{
    for (off_t size = 0; size <= 8; size += 8) {
        assert_int_equal(truncate(f->lock, 0) | truncate(f->lock, size), 0);
        assert_false(knows(&f->rig));
        if (size == 0) { /* it would not hear of the end */
            assert_int_equal(buy_one(&f->rig, NULL), STORE_SOLD_OUT);
            assert_false(knows(&f->rig));
        }
        assert_int_equal(have_done(f, CANCEL), STORE_OK);
        assert_false(knows(&f->rig));
        assert_int_equal(buy(f, 0), STORE_OK);
        expect_sold_out(f);
    }
}

/*
 * An order of a split stock, at each step of which something goes wrong: the
 * process is killed, or the step fails. A step is a command to the lock server,
 * or whatever the store does. The customer asks again, with the same key, and is
 * served once; what was acknowledged is there, and where it was said that nothing
 * was ordered nothing was.
 *
 *   gather   more than any segment has: units are moved into one
 *   probe    most segments have run dry: the order goes on to another one, and
 *            the stock is evened out
 *
 * What is killed between two statements of the store, also of a cancel or a
 * resize: test_store_crash.c.
 */
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/base/metrics.h"
#include "server/order/dispatcher.h"
#include "server/order/hints.h"
#include "tests/support/redis_server.h"
#include "tests/support/store_rig.h"

#define UNITS     24
#define SEGMENTS  4
#define LEASE_MS  60 /* that a dead holder leaves behind */
#define WAIT_MS   5000
#define STEPS_MAX 200

struct deed {
    enum config_orders orders;
    bool by_kill; /* or the step fails */
    int64_t quantity;
    int64_t dry; /* segments that are sold out before */
};

static struct redis_server *redis;
static struct temp_dir dir;

/* ---- what goes wrong ------------------------------------------------------- */

static atomic_int to_go = -1; /* steps until it does; < 0: it does not */
static bool by_kill;

/* A step begins or ends. True: it is to fail. */
static bool goes_wrong(void)
{
    if (atomic_load(&to_go) < 0 || atomic_fetch_sub(&to_go, 1) != 0)
        return false;
    if (by_kill)
        raise(SIGKILL);
    return true;
}

static enum store_verdict on_store(void *ctx, const struct store_step *step)
{
    (void)ctx, (void)step;
    return goes_wrong() ? STORE_FAIL : STORE_GO;
}

static enum dlock_verdict on_lock(void *ctx, const struct dlock_step *step)
{
    (void)ctx, (void)step;
    return goes_wrong() ? DLOCK_FAIL : DLOCK_GO;
}

/* ---- one life -------------------------------------------------------------- */

struct life {
    struct config config;
    struct app app;
    struct order order;
    sem_t answered;
};

static void begin(struct life *life, const struct deed *deed)
{
    const struct store_options store = {.url = dir.url, .on_step = on_store};
    const struct dlock_options locks = {.strategy = "fenced",
                                        .url = redis_server_url(redis),
                                        .on_step = on_lock};
    struct app *app = &life->app;

    *life = (struct life){.config = {.lock = "fenced",
                                     .orders = deed->orders,
                                     .workers = 2,
                                     .queue_max = 10,
                                     .lock_wait_ms = WAIT_MS,
                                     .lock_lease_ms = LEASE_MS,
                                     .request_deadline_ms = 60000}};
    sem_init(&life->answered, 0, 0);
    app->config = &life->config;
    app->metrics = metrics_new();
    assert_int_equal(store_open(&store, &app->store, NULL), STORE_OK);
    assert_int_equal(dlock_open(&locks, &app->locks, NULL), DLOCK_OK);
    app->workers = tasks_open(app, "worker", 2);
    app->hints = hints_open(app, redis_server_url(redis));
    app->dispatcher = dispatcher_open(app);
    assert_non_null(app->dispatcher);
}

static void end(struct life *life)
{
    dispatcher_close(life->app.dispatcher);
    hints_close(life->app.hints);
    tasks_close(life->app.workers);
    dlock_close(life->app.locks);
    store_close(life->app.store);
    metrics_free(life->app.metrics);
    sem_destroy(&life->answered);
}

static void is_answered(struct order *order)
{
    sem_post(&((struct life *)order->owner)->answered);
}

static enum order_outcome buy(struct life *life, const struct deed *deed)
{
    life->order = (struct order){.record = {.product_id = 1,
                                            .user_id = 1,
                                            .quantity = deed->quantity,
                                            .key = "deed"},
                                 .done = is_answered,
                                 .owner = life};
    dispatcher_submit(life->app.dispatcher, &life->order);
    sem_wait(&life->answered);
    return life->order.outcome;
}

/* ---- from life to life ----------------------------------------------------- */

/* What the customer heard, also if the process died then. */
static struct {
    atomic_bool is_yes, is_nothing;
    char id[STORE_ID_BYTES_MAX + 1];
} * heard;

static void hear(const struct life *life)
{
    memcpy(heard->id, life->order.record.id, sizeof(heard->id));
    heard->is_yes = life->order.outcome == ORDER_PLACED;
    heard->is_nothing =
        strstr(life->order.detail, "nothing was ordered") != NULL;
}

static void prepare(const struct deed *deed)
{
    struct store_rig rig;

    memset(heard, 0, sizeof(*heard));
    store_rig_begin(&rig);
    dir = rig.dir;
    store_rig_open(&rig, (struct store_options){0});
    store_rig_split(&rig, UNITS, SEGMENTS);
    for (int64_t i = 0; i < deed->dry; i++)
        (void)store_rig_order_at(&rig, i, UNITS / SEGMENTS);
    store_rig_close(&rig);
}

/* Something goes wrong at the N-th step. False: there are not so many. */
static bool live(const struct deed *deed, int n)
{
    struct life life;

    begin(&life, deed);
    atomic_store(&to_go, n);
    (void)buy(&life, deed);
    hear(&life);
    end(&life);
    return atomic_exchange(&to_go, -1) < 0;
}

/* The same in a process of its own, which dies. */
static bool die(const struct deed *deed, int n)
{
    pid_t child;
    int status;

    (void)fflush(NULL);
    child = fork();
    if (child == 0)
        _exit(live(deed, n));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static void expect_sold(int64_t units, int n)
{
    struct store_audit verdict = store_rig_audit_dir(&dir, NULL, 0);

    if (!verdict.balanced || verdict.stranded || verdict.fence_regressions ||
        verdict.sold != units)
        fail_msg("step %d: %ld units sold", n, (long)verdict.sold);
}

/* Asks again. A lock whose reply was lost is in the way for as long as its lease. */
static void ask_again(const struct deed *deed, int n)
{
    enum order_outcome outcome;
    struct life life;

    begin(&life, deed);
    outcome = buy(&life, deed);
    if (outcome != ORDER_REPLAYED && (outcome != ORDER_PLACED || heard->is_yes))
        fail_msg("step %d: %s, %s", n, order_outcome_slug(outcome),
                 life.order.detail);
    if (outcome == ORDER_REPLAYED && heard->is_nothing)
        fail_msg("step %d: nothing was ordered, but it was", n);
    if (heard->is_yes)
        assert_string_equal(life.order.record.id, heard->id);
    expect_sold(deed->quantity + deed->dry * UNITS / SEGMENTS, n);
    end(&life);
}

static void at_each_step(void **state)
{
    const struct deed *deed = *state;
    bool goes_on = true;
    int n;

    by_kill = deed->by_kill;
    for (n = 0; goes_on && n < STEPS_MAX; n++) {
        prepare(deed);
        goes_on = deed->by_kill ? die(deed, n) : live(deed, n);
        ask_again(deed, n);
        temp_dir_remove(&dir);
    }
    print_message("%d steps\n", n - 1);
    assert_in_range(n, 9, STEPS_MAX - 1); /* the lock, the store, the commit */
}

static int set_up(NO_STATE)
{
    (void)signal(SIGPIPE, SIG_IGN);
    redis = redis_server_start();
    heard = mmap(NULL, sizeof(*heard), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return heard == MAP_FAILED;
}

static int tear_down(NO_STATE)
{
    redis_server_stop(redis);
    return 0;
}

#define DEED(name, ...)                                                        \
    CASE_TEST(name, at_each_step, &((struct deed){__VA_ARGS__}))
#define DEEDS(name, ...)                                                       \
    DEED(name ", batched, kill", ORDERS_BATCHED, true, __VA_ARGS__),           \
        DEED(name ", batched, fail", ORDERS_BATCHED, false, __VA_ARGS__),      \
        DEED(name ", one by one, kill", ORDERS_ONE_BY_ONE, true, __VA_ARGS__), \
        DEED(name ", one by one, fail", ORDERS_ONE_BY_ONE, false, __VA_ARGS__)

static const struct CMUnitTest tests[] = {
    DEEDS("gather", 10, 0),
    DEEDS("probe", 1, SEGMENTS - 1),
};

TEST_MAIN_WITHIN(tests, set_up, tear_down)

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
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/order_rig.h"
#include "tests/support/store_rig.h"

#define UNITS     24
#define SEGMENTS  4
#define LEASE_MS  60 /* that a dead holder leaves behind */
#define STEPS_MAX 200

struct deed {
    bool one_by_one;
    bool by_kill; /* or the step fails */
    int64_t quantity;
    int64_t dry; /* segments that are sold out before */
};

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

/* An instance is opened, at whose N-th step from now on something goes wrong (-1: at
 * none), and the deed is ordered. */
static struct rig_order *buy(const struct deed *deed, int n)
{
    struct order_rig *rig = order_rig_open(
        &(struct order_rig_options){.db_url = dir.url,
                                    .one_by_one = deed->one_by_one,
                                    .lock_lease_ms = LEASE_MS,
                                    .goes_wrong = goes_wrong});
    struct rig_order *order;

    atomic_store(&to_go, n);
    order = order_rig_submit(rig, 1, 1, deed->quantity, "deed");
    order_rig_await(rig, order);
    return order;
}

/* ---- from life to life ----------------------------------------------------- */

/* What the customer heard, also if the process died then. */
static struct {
    atomic_bool is_yes, is_nothing;
    char id[STORE_ID_BYTES_MAX + 1];
} * heard;

static void hear(const struct rig_order *order)
{
    memcpy(heard->id, order->id, sizeof(heard->id));
    heard->is_yes = order->outcome == ORDER_PLACED;
    heard->is_nothing = strstr(order->detail, "nothing was ordered") != NULL;
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

static void close_instance(void)
{
    if (order_rig_teardown(NULL) != 0)
        server_proc_die("test_segment_steps", "it was not answered once");
}

/* Something goes wrong at the N-th step. False: there are not so many. */
static bool live(const struct deed *deed, int n)
{
    hear(buy(deed, n));
    close_instance();
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
    assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : status,
                     WIFSIGNALED(status) ? SIGKILL : 0);
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
    const struct rig_order *order = buy(deed, -1);
    enum order_outcome outcome = order->outcome;

    if (outcome != ORDER_REPLAYED && (outcome != ORDER_PLACED || heard->is_yes))
        fail_msg("step %d: %s, %s", n, order_outcome_slug(outcome),
                 order->detail);
    if (outcome == ORDER_REPLAYED && heard->is_nothing)
        fail_msg("step %d: nothing was ordered, but it was", n);
    if (heard->is_yes)
        assert_string_equal(order->id, heard->id);
    expect_sold(deed->quantity + deed->dry * UNITS / SEGMENTS, n);
    close_instance();
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

static int set_up(void **state)
{
    (void)signal(SIGPIPE, SIG_IGN);
    heard = mmap(NULL, sizeof(*heard), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return heard == MAP_FAILED || order_rig_group_setup(state);
}

#define DEED(name, ...)                                                        \
    CASE_TEST(name, at_each_step, &((struct deed){__VA_ARGS__}))
#define DEEDS(name, ...)                                                       \
    DEED(name ", batched, kill", false, true, __VA_ARGS__),                    \
        DEED(name ", batched, fail", false, false, __VA_ARGS__),               \
        DEED(name ", one by one, kill", true, true, __VA_ARGS__),              \
        DEED(name ", one by one, fail", true, false, __VA_ARGS__)

static const struct CMUnitTest tests[] = {
    DEEDS("gather", 10, 0),
    DEEDS("probe", 1, SEGMENTS - 1),
};

TEST_MAIN_WITHIN(tests, set_up, order_rig_group_teardown)

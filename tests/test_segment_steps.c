/*
 * kill -9 at each step of what the service does with segments: an order that
 * probes, one that gathers, a cancel of the latter, resizes, an even-out, a
 * warm-up. A step is a command to Redis, of the locks or of the warm keys, and
 * whatever the store does. A life that is left alone shows which there are; then
 * it dies before and after each of them, one after the other.
 *
 * In the next life, on the same database and the same Redis with all that the
 * dead left in it, what was acknowledged is there; the client that got no answer
 * asks again, and it is done once; the warm keys say what the database says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db/store.h"
#include "lock/dlock.h"
#include "server/app.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/order/desk.h"
#include "server/warm/warm.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

#define UNITS      24
#define SEGMENTS   4
#define GATHERED   10 /* more than any segment has */
#define LEASE_MS   100
#define POINTS_MAX 64
#define TIMES_MAX  3    /* of the same step; looks at keys come for ever */
#define WAIT_MS    5000 /* for a dead holder's lease, and for the warmer */

static struct redis_server *redis;
static struct temp_dir dir;
static char gathered[STORE_ID_BYTES_MAX + 1]; /* an order of before */

/* A step's beginning or end, and how often it comes. */
struct point {
    char name[40];
    int n;
};

/* What parent and child both see; in the child, under the mutex. */
static struct {
    bool acked; /* the deed was acknowledged to the client */
    size_t n;
    struct point points[POINTS_MAX]; /* that came by */
} * told;

/* ---- how it dies ---------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool armed;
static struct point death; /* where it dies; n = 0: nowhere */

static struct point *find(const char *name)
{
    size_t i = 0;

    while (i < told->n && strcmp(told->points[i].name, name) != 0)
        i++;
    assert_true(i < POINTS_MAX);
    if (i == told->n)
        (void)snprintf(told->points[told->n++].name, sizeof(death.name), "%s",
                       name);
    return &told->points[i];
}

static void point(const char *step, bool after)
{
    char name[sizeof(death.name)];

    if (!atomic_load(&armed))
        return;
    (void)snprintf(name, sizeof(name), "%s %s", after ? "after" : "before",
                   step);
    pthread_mutex_lock(&mutex);
    if (++find(name)->n == death.n && strcmp(name, death.name) == 0)
        raise(SIGKILL);
    pthread_mutex_unlock(&mutex);
}

static enum store_verdict on_store(void *ctx, const char *step, int64_t id,
                                   enum store_phase phase)
{
    (void)ctx;
    (void)id;
    point(step, phase == STORE_AFTER);
    return STORE_GO;
}

static enum dlock_verdict on_lock(void *ctx, const struct dlock_step *step)
{
    (void)ctx;
    point(step->name, step->phase == DLOCK_AFTER);
    return DLOCK_GO;
}

static enum warm_verdict on_warm(void *ctx, const char *step, int64_t id,
                                 enum warm_phase phase)
{
    (void)ctx;
    (void)id;
    if (strcmp(step, "warm-pass") != 0)
        point(step, phase == WARM_AFTER);
    return WARM_GO;
}

/* ---- one life ------------------------------------------------------------- */

struct life {
    struct config config;
    struct app app;
    struct ticket ticket;
    sem_t answered;
};

static void begin(struct life *life, enum config_desk desk)
{
    const struct store_options store = {.url = dir.url, .on_step = on_store};
    const struct dlock_options locks = {.strategy = "fenced",
                                        .url = redis_server_url(redis),
                                        .on_step = on_lock};
    const struct warm_options warm = {.redis_url = redis_server_url(redis),
                                      .on_step = on_warm};

    memset(life, 0, sizeof(*life));
    life->config = (struct config){.lock = "fenced",
                                   .desk = desk,
                                   .workers = 2,
                                   .queue_max = 10,
                                   .lock_wait_ms = WAIT_MS,
                                   .lock_lease_ms = LEASE_MS,
                                   .request_deadline_ms = 60000};
    sem_init(&life->answered, 0, 0);
    life->app.config = &life->config;
    life->app.metrics = metrics_new();
    assert_int_equal(store_open(&store, &life->app.store, NULL), STORE_OK);
    assert_int_equal(dlock_open(&locks, &life->app.locks, NULL), DLOCK_OK);
    life->app.warm = warm_open_with(&life->app, &warm);
    life->app.desk = desk_open(&life->app);
    assert_true(life->app.warm && life->app.desk);
}

static void end(struct life *life)
{
    desk_close(life->app.desk);
    warm_close(life->app.warm);
    dlock_close(life->app.locks);
    store_close(life->app.store);
    metrics_free(life->app.metrics);
    sem_destroy(&life->answered);
}

/* ---- what is done --------------------------------------------------------- */

static void put(struct store *store, int64_t segments)
{
    struct store_product product = {
        .id = 1, .name = "Thing", .initial = UNITS, .segments = segments};

    assert_int_equal(store_product_put(store, &product, NULL, NULL), STORE_OK);
}

static void is_answered(struct ticket *ticket)
{
    sem_post(&((struct life *)ticket->owner)->answered);
}

/* With a key, so that it can be asked for again. */
static void buy(struct life *life, int64_t quantity)
{
    life->ticket = (struct ticket){
        .order = {.product_id = 1, .user_id = 1, .quantity = quantity},
        .done = is_answered,
        .owner = life};
    (void)snprintf(life->ticket.order.key, sizeof(life->ticket.order.key),
                   "deed");
    assert_null(desk_submit(life->app.desk, &life->ticket));
    sem_wait(&life->answered);
    assert_true(life->ticket.outcome == ORDER_PLACED ||
                life->ticket.outcome == ORDER_REPLAYED);
}

static void gather(struct life *life)
{
    buy(life, GATHERED);
}

static void probe(struct life *life)
{
    buy(life, 1);
}

static void cancel(struct life *life)
{
    struct store_order order;

    assert_int_equal(store_cancel(life->app.store, gathered, &order, NULL),
                     STORE_OK);
    warm_moved(life->app.warm, 1);
}

static void more(struct life *life)
{
    put(life->app.store, 9);
    warm_moved(life->app.warm, 1);
}

static void fewer(struct life *life)
{
    put(life->app.store, 2);
    warm_moved(life->app.warm, 1);
}

static void one(struct life *life)
{
    put(life->app.store, 1);
    warm_moved(life->app.warm, 1);
}

static void even_out(struct life *life)
{
    assert_int_equal(store_even_out(life->app.store, 1, NULL, NULL), STORE_OK);
    warm_moved(life->app.warm, 1);
}

static void warm_keys(struct life *life)
{
    struct store_cells cells;
    bool in_redis;

    assert_int_equal(warm_up(life->app.warm, 1, &cells, &in_redis, NULL),
                     STORE_OK);
    assert_true(in_redis);
}

struct deed {
    void (*run)(struct life *life);
    int64_t sold;      /* by it, over that of before */
    bool is_unseen;    /* segments run dry, and the desk has not heard of it */
    const char *steps; /* at which it has to die at least once */
};

/* ---- how it is found ------------------------------------------------------ */

static struct store_audit audit(void)
{
    struct store_reader *reader;
    struct store_audit verdict;

    assert_int_equal(store_reader_open_url(dir.url, &reader, NULL), STORE_OK);
    assert_int_equal(store_audit(reader, NULL, NULL, NULL, 0, &verdict, NULL),
                     STORE_OK);
    store_reader_close(reader);
    return verdict;
}

/* Sound, and the deed is done or it is not; done, if that was acknowledged. */
static void expect(const struct deed *deed, int64_t before, bool is_done)
{
    struct store_audit verdict = audit();

    if (!verdict.balanced || verdict.stranded || verdict.fence_regressions)
        fail_msg("not sound, died %s", death.name);
    if (verdict.sold != before + deed->sold &&
        (is_done || verdict.sold != before))
        fail_msg("sold %" PRId64 " of %" PRId64 "%+" PRId64 ", died %s",
                 verdict.sold, before, deed->sold, death.name);
}

/* Whether segment K's key is what CELLS says; those of others are not there. */
static bool is_key_right(const struct store_cells *cells, size_t k)
{
    char command[80], has[200] = "", right[200] = "*2\r\n$-1\r\n$-1\r\n";
    char epoch[32], units[32];

    (void)snprintf(command, sizeof(command), "HMGET stock:{1:%zu} epoch units",
                   k);
    redis_server_ask(redis, command, has, sizeof(has));
    if (k < cells->n) {
        (void)snprintf(epoch, sizeof(epoch), "%" PRId64, cells->epoch);
        (void)snprintf(units, sizeof(units), "%" PRId64, cells->cells[k].stock);
        (void)snprintf(right, sizeof(right),
                       "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(epoch),
                       epoch, strlen(units), units);
    }
    return strcmp(has, right) == 0;
}

static bool are_keys_right(struct store_reader *reader)
{
    struct store_cells cells;

    assert_int_equal(store_cells_get(reader, 1, &cells, NULL), STORE_OK);
    for (size_t k = 0; k < 12; k++)
        if (!is_key_right(&cells, k))
            return false;
    return true;
}

static bool await_keys(struct life *life)
{
    struct store_reader *reader;
    bool right;

    assert_int_equal(store_reader_open(life->app.store, &reader, NULL),
                     STORE_OK);
    for (int ms = 0; !(right = are_keys_right(reader)) && ms < WAIT_MS; ms++)
        usleep(1000);
    store_reader_close(reader);
    return right;
}

/* ---- from life to life ---------------------------------------------------- */

static void sell_unseen(struct store *store, int64_t segment, int64_t units,
                        char *id)
{
    struct store_order order = {
        .product_id = 1, .user_id = 9, .quantity = units, .segment = segment};
    struct store_order *orders[] = {&order};

    assert_int_equal(store_place(store, orders, 1, NULL, NULL), STORE_OK);
    assert_int_equal(order.status, STORE_OK);
    if (id)
        memcpy(id, order.id, sizeof(order.id));
}

/* 24 over four segments; 8 are sold, from two of them. */
static int64_t prepare(void)
{
    struct store_options options = {0};
    struct store *store;

    temp_dir_make(&dir);
    options.url = dir.url;
    redis_server_ask(redis, "FLUSHALL", NULL, 0);
    assert_int_equal(store_open(&options, &store, NULL), STORE_OK);
    put(store, SEGMENTS);
    sell_unseen(store, STORE_SEGMENT_ANY, 8, gathered);
    store_close(store);
    return 8;
}

/* Behind the desk's back: the two segments that seem to have the most run dry, so
 * that most orders are sent there, and sent on. */
static void run_dry(struct life *life)
{
    sell_unseen(life->app.store, 2, UNITS / SEGMENTS, NULL);
    sell_unseen(life->app.store, 3, UNITS / SEGMENTS, NULL);
}

/* Of sales that it has not heard of it tells nobody. */
static void child_main(const struct deed *deed, enum config_desk desk)
{
    struct life life;
    bool right;

    begin(&life, desk);
    right = await_keys(&life);
    if (deed->is_unseen)
        run_dry(&life);
    atomic_store(&armed, true);
    deed->run(&life);
    told->acked = true;
    right &= deed->is_unseen || await_keys(&life);
    end(&life);
    _exit(right ? 0 : 1);
}

/* False: it had done all before its time had come. */
static bool dies(const struct deed *deed, enum config_desk desk)
{
    pid_t child;
    int status;

    memset(told, 0, sizeof(*told));
    fflush(NULL);
    child = fork();
    if (child == 0)
        child_main(deed, desk);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

static bool survive(const struct deed *deed, enum config_desk desk)
{
    int64_t before = prepare();
    struct life life;
    bool dead = dies(deed, desk);

    if (deed->is_unseen)
        before += INT64_C(2) * UNITS / SEGMENTS;
    expect(deed, before, told->acked);
    begin(&life, desk);
    deed->run(&life);
    expect(deed, before, true);
    if (!await_keys(&life))
        fail_msg("the keys are not what the database says, died %s",
                 death.name);
    end(&life);
    expect(deed, before, true);
    temp_dir_remove(&dir);
    return dead;
}

/* At this point, each time that it comes; how often that was. */
static int kill_at(const struct deed *deed, enum config_desk desk,
                   const struct point *at)
{
    int n = 0;

    death = *at;
    for (death.n = 1; death.n <= TIMES_MAX && survive(deed, desk); death.n++)
        n++;
    return n;
}

/* Strikes the point off the list of those at which it has to die. */
static void strike(char *points, const char *name)
{
    char *at = strstr(points, name);

    if (at)
        memset(at, '-', strlen(name));
}

static void kill_everywhere(const struct deed *deed, enum config_desk desk)
{
    struct point points[POINTS_MAX];
    char steps[256];
    int n;

    death = (struct point){.n = 0};
    assert_false(survive(deed, desk));
    memcpy(points, told->points, sizeof(points));
    (void)snprintf(steps, sizeof(steps), "%s", deed->steps);
    for (size_t i = 0; i < POINTS_MAX && points[i].n > 0; i++) {
        n = kill_at(deed, desk, &points[i]);
        print_message("died %d times %s\n", n, points[i].name);
        if (n > 0)
            strike(steps, points[i].name);
    }
    if (strspn(steps, "-,") != strlen(steps))
        fail_msg("never died %s", steps);
}

#define LOCKED "before eval-acquire,after eval-acquire,"
#define STORED "before commit,after commit,"
#define WARMED                                                                 \
    "before warm-load,after warm-load,before new-epoch,after new-epoch"

#define BOTH(deed)                                                             \
    static void test_##deed(void **state)                                      \
    {                                                                          \
        kill_everywhere(&deed##_deed, *(const enum config_desk *)*state);      \
    }

static const struct deed gather_deed = {
    .run = gather, .sold = GATHERED, .steps = LOCKED STORED WARMED};
static const struct deed probe_deed = {
    .run = probe, .sold = 1, .is_unseen = true, .steps = LOCKED STORED};
static const struct deed cancel_deed = {
    .run = cancel, .sold = -8, .steps = STORED WARMED};
static const struct deed more_deed = {.run = more, .steps = STORED WARMED};
static const struct deed fewer_deed = {.run = fewer, .steps = STORED WARMED};
static const struct deed one_deed = {.run = one, .steps = STORED WARMED};
static const struct deed even_out_deed = {.run = even_out,
                                          .steps = STORED WARMED};
static const struct deed warm_keys_deed = {.run = warm_keys,
                                           .steps = STORED WARMED};

BOTH(gather)
BOTH(probe)
BOTH(cancel)
BOTH(more)
BOTH(fewer)
BOTH(one)
BOTH(even_out)
BOTH(warm_keys)

static int set_up(void **state)
{
    (void)state;
    redis = redis_server_start();
    told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return told == MAP_FAILED;
}

static int tear_down(void **state)
{
    (void)state;
    redis_server_stop(redis);
    return 0;
}

static enum config_desk combine = DESK_COMBINE, direct = DESK_DIRECT;

#define COMBINE(test)                                                          \
    {                                                                          \
#test " (combine)", test, NULL, NULL, &combine                         \
    }
#define DIRECT(test)                                                           \
    {                                                                          \
#test " (direct)", test, NULL, NULL, &direct                           \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        COMBINE(test_gather),    DIRECT(test_gather),  COMBINE(test_probe),
        DIRECT(test_probe),      COMBINE(test_cancel), COMBINE(test_more),
        COMBINE(test_fewer),     COMBINE(test_one),    COMBINE(test_even_out),
        COMBINE(test_warm_keys),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/*
 * Two instances in two processes buy and cancel the only unit as fast as they
 * can, and each of them asks all the time what it knows. All is written down
 * with its times, and judged afterwards: nobody may have heard "sold out" who
 * asked after the unit was back - a cancel was answered, or the unit seen in the
 * database - and was answered before anybody began to buy it again.
 */
#include "tests/support/store_rig.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#define PROCESSES  2
#define SALES      100 /* of each process */
#define SALES_MAX  ((size_t)PROCESSES * (SALES + 1))
#define ASKS       3 /* of each other process while the unit is there */
#define EVENTS_MAX 1000000
#define SHARED     ((struct store_options){.shared = true, .busy_ms = 20000})

enum kind { SOLD, CANCELLED, SEEN, DENIED, KINDS };

struct event {
    enum kind kind;
    uint64_t from_ns, to_ns; /* asked, answered */
};

/* What the processes share. */
struct stage {
    atomic_int sellers; /* that are not done yet */
    atomic_uint asks[PROCESSES];
    atomic_size_t events_n;
    struct event events[EVENTS_MAX];
};

/* From ns, exclusive, the unit is there, until ns. */
struct window {
    uint64_t from_ns, to_ns;
};

struct player {
    struct stage *stage;
    int self;
    struct store_rig rig;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void write_down(struct player *player, enum kind kind, uint64_t from_ns)
{
    size_t i = atomic_fetch_add(&player->stage->events_n, 1);

    if (i < EVENTS_MAX)
        player->stage->events[i] = (struct event){kind, from_ns, now_ns()};
}

/* ---- the processes ---------------------------------------------------------- */

static void ask(struct player *player)
{
    uint64_t from_ns = now_ns();

    if (store_knows_sold_out(player->rig.store, 1, 1))
        write_down(player, DENIED, from_ns);
    atomic_fetch_add(&player->stage->asks[player->self], 1);
}

static void *asker_main(void *arg)
{
    struct player *player = arg;
    uint64_t from_ns;

    while (atomic_load(&player->stage->sellers) > 0) {
        from_ns = now_ns();
        if (store_rig_product(&player->rig, 1).stock > 0)
            write_down(player, SEEN, from_ns);
        ask(player);
    }
    return NULL;
}

/* The unit is there until all others have had the time to deny it. */
static void let_ask(const struct player *player)
{
    struct stage *stage = player->stage;
    unsigned until[PROCESSES];

    for (int i = 0; i < PROCESSES; i++)
        until[i] = atomic_load(&stage->asks[i]) + ASKS;
    for (int i = 0; i < PROCESSES; i++)
        while ((int)(atomic_load(&stage->asks[i]) - until[i]) < 0)
            sched_yield();
}

/* Whether a unit was bought. */
static bool try_to_buy(struct player *player, struct store_order *order)
{
    uint64_t from_ns = now_ns();
    enum store_status status = STORE_SOLD_OUT;

    *order = store_rig_ask(1, 1, 1, "");
    if (!store_knows_sold_out(player->rig.store, 1, 1))
        status = store_rig_go_order(&player->rig, order);
    assert_true(status == STORE_OK || status == STORE_SOLD_OUT);
    write_down(player, status == STORE_OK ? SOLD : DENIED, from_ns);
    if (status == STORE_SOLD_OUT)
        sched_yield();
    return status == STORE_OK;
}

/* Over, too, when nothing more can be written down: what sticks does so for
 * ever. */
static bool is_over(struct stage *stage)
{
    return atomic_load(&stage->sellers) < PROCESSES ||
           atomic_load(&stage->events_n) >= EVENTS_MAX;
}

static void sell(struct player *player)
{
    struct store_order order;
    uint64_t from_ns;
    int sales = 0;

    while (sales < SALES && !is_over(player->stage)) {
        if (!try_to_buy(player, &order))
            continue;
        from_ns = now_ns();
        store_rig_cancel(&player->rig, &order);
        write_down(player, CANCELLED, from_ns);
        let_ask(player);
        sales++;
    }
    atomic_fetch_sub(&player->stage->sellers, 1);
}

static void play(void *ctx)
{
    struct player *player = ctx;
    pthread_t asker;

    store_rig_open(&player->rig, SHARED);
    store_rig_feed(&player->rig);
    pthread_create(&asker, NULL, asker_main, player);
    sell(player);
    pthread_join(asker, NULL);
    store_rig_close(&player->rig);
}

/* ---- the verdict -------------------------------------------------------------- */

/* The sale that took it after it was there: the first to ask for it ends the
 * window. SALES_N: nobody has. */
static size_t next_sale(const struct event *back, const struct event sales[],
                        size_t sales_n)
{
    size_t first = sales_n;

    for (size_t i = 0; i < sales_n; i++)
        if (sales[i].to_ns > back->from_ns &&
            (first == sales_n || sales[i].from_ns < sales[first].from_ns))
            first = i;
    return first;
}

/* One for each sale that ends it, and one that none ends; empty ones, too.
 * *THERE: how often it was there. */
static size_t find_windows(const struct stage *stage, size_t events_n,
                           struct window windows[], size_t *there)
{
    struct event sales[SALES_MAX];
    const struct event *event;
    size_t n = 0, i;

    for (event = stage->events; event < stage->events + events_n; event++)
        if (event->kind == SOLD && n < SALES_MAX)
            sales[n++] = *event;
    for (i = 0; i < n; i++)
        windows[i] = (struct window){UINT64_MAX, sales[i].from_ns};
    windows[n] = (struct window){UINT64_MAX, UINT64_MAX};
    for (event = stage->events; event < stage->events + events_n; event++) {
        if (event->kind != CANCELLED && event->kind != SEEN)
            continue;
        i = next_sale(event, sales, n);
        *there += event->to_ns < windows[i].to_ns;
        if (event->to_ns < windows[i].from_ns)
            windows[i].from_ns = event->to_ns;
    }
    return n + 1;
}

static bool is_within(const struct event *event, const struct window windows[],
                      size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (windows[i].from_ns < event->from_ns &&
            windows[i].to_ns > event->to_ns)
            return true;
    return false;
}

static void judge(const struct stage *stage, size_t events_n)
{
    struct window windows[SALES_MAX + 1];
    size_t wrong = 0, there = 0, counts[KINDS] = {0};
    size_t n = find_windows(stage, events_n, windows, &there);

    for (size_t i = 0; i < events_n; i++) {
        counts[stage->events[i].kind]++;
        wrong += stage->events[i].kind == DENIED &&
                 is_within(&stage->events[i], windows, n);
    }
    print_message("%zu sold, %zu cancelled, seen %zu times, denied %zu times, "
                  "%zu times wrongly; %zu times it was there\n",
                  counts[SOLD], counts[CANCELLED], counts[SEEN], counts[DENIED],
                  wrong, there);
    assert_int_equal(wrong, 0);
    assert_true(counts[CANCELLED] >= SALES);
    assert_true(counts[DENIED] >= SALES);
    assert_true(there >= SALES);
}

static void nobody_is_denied_what_is_there(NO_STATE)
{
    struct stage *stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct player player = {.stage = stage};
    pid_t children[PROCESSES] = {0};
    size_t events_n;

    assert_true(stage != MAP_FAILED);
    store_rig_begin(&player.rig);
    store_rig_open(&player.rig, SHARED);
    store_rig_split(&player.rig, 1, 1);
    store_rig_close(&player.rig);
    atomic_store(&stage->sellers, PROCESSES);
    for (; player.self < PROCESSES; player.self++)
        children[player.self] = store_rig_fork(play, &player);
    for (int i = 0; i < PROCESSES; i++)
        store_rig_join(children[i]);
    events_n = atomic_load(&stage->events_n);
    judge(stage, events_n < EVENTS_MAX ? events_n : EVENTS_MAX);
    munmap(stage, sizeof(*stage));
    store_rig_end(&player.rig);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nobody_is_denied_what_is_there),
};

TEST_MAIN(tests)

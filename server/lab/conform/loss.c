/*
 * When the lock itself is lost. M: a Redis node fails over to a replica that is
 * behind; M2: the node is away, and comes back empty; S: the lease has ended,
 * nobody told the holder, and the store is the last one who can say no.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "db/store.h"
#include "server/base/redis_proc.h"
#include "server/lab/conform/cast.h"
#include "server/lab/servers/peek.h"

enum {
    TRIES_MS = 500, /* M: connections are dead, the first tries may fail */
    STOCK = 10,
    PRODUCT = 1,
};

/* Nodes, and ways to lose one --------------------------------------------------- */

/* The socket, whose name is the node's address. */
static const char *path_of(const struct redis_proc *proc)
{
    return redis_proc_url(proc) + strlen("unix:");
}

/* The server goes on listening; its name is what changes. */
static void move(const struct testbed *testbed, const char *from,
                 const char *to)
{
    if (rename(from, to) != 0)
        testbed_broken(testbed, "%.80s: %s", from, strerror(errno));
}

/* No new connection gets to it; or they do again. */
static void node_hide(struct testbed *testbed, unsigned index, bool hides)
{
    const char *path = path_of(testbed->nodes[index]);
    char hidden[sizeof(testbed->dir) + 32];

    (void)snprintf(hidden, sizeof(hidden), "%s.hidden", path);
    move(testbed, hides ? path : hidden, hides ? hidden : path);
}

/*
 * A replica of node 0 that hears of everything up to now, of which the check is sure by
 * WAIT, and of nothing after. WAIT counts those that have heard of what its own
 * connection has written. Replication knows no Unix sockets: the master gets a port, on
 * loopback.
 */
static struct redis_proc *node_part(struct testbed *testbed)
{
    struct fail error;
    char port[16];
    struct redis_proc *replica = testbed_server(testbed, "replica", &error);
    struct peek *master, *follower;

    if (!replica)
        testbed_broken(testbed, "%.150s", error.text);
    master = testbed_peek(testbed, testbed->nodes[0]);
    follower = testbed_peek(testbed, replica);
    if (!peek_listen(master, port, sizeof(port)) ||
        !PEEK_ASK(follower, "OK", "REPLICAOF", "127.0.0.1", port) ||
        !PEEK_ASK(master, "OK", "SET", "lab:heard", "1") ||
        !PEEK_ASK(master, "1", "WAIT", "1", "5000"))
        testbed_broken(testbed, "the replica does not follow");
    if (!PEEK_ASK(master, "OK", "CONFIG", "SET", "port", "0") ||
        !PEEK_ASK(master, "1", "CLIENT", "KILL", "TYPE", "replica"))
        testbed_broken(testbed, "the replica does not go");
    peek_close(master);
    peek_close(follower);
    return replica;
}

/* M, M2: a node is lost ----------------------------------------------------- */

static enum dlock_status try_hard(struct cast *cast, unsigned who,
                                  const char *name)
{
    return cast_insist(cast, who, name, 0, cast->testbed->long_ms,
                       TRIES_MS * cast->testbed->slow);
}

/* WHO gives NAME back; is it NEXT's then? */
static void check_handed_on(struct cast *cast, unsigned who, const char *name,
                            const char *when)
{
    enum dlock_status status;

    (void)cast_give(cast, who, name);
    status = try_hard(cast, CAST_NEXT, name);
    if (status != DLOCK_OK)
        testbed_fails(cast->testbed, "%s: nobody gets it (%s)", when,
                      dlock_status_text(status));
}

/*
 * A new holder of NAME. Of several nodes it could not reach the last one, which
 * will vote for somebody else as soon as it is back. Who needs all of them has
 * to get them.
 */
static unsigned hold_barely(struct cast *cast, const char *name)
{
    struct testbed *testbed = cast->testbed;
    unsigned who = cast_add(cast, 1); /* it has no connection yet */
    enum dlock_status status = DLOCK_UNREACHABLE;

    if (testbed->nodes_n > 1) {
        node_hide(testbed, testbed->nodes_n - 1, true);
        status = cast_take(cast, who, name, 0, testbed->long_ms);
        node_hide(testbed, testbed->nodes_n - 1, false);
    }
    if (status != DLOCK_OK)
        status = try_hard(cast, who, name);
    if (status != DLOCK_OK)
        testbed_fails(testbed, "nobody gets it: %s", dlock_status_text(status));
    return who;
}

/*
 * Each of several nodes in turn is the only one that somebody can reach. That
 * is too few; and nothing of it may be left, or it will be too few for others.
 */
static void check_partitions(struct cast *cast)
{
    struct testbed *testbed = cast->testbed;
    const char *name = testbed_name("m-partition");
    unsigned n = testbed->nodes_n > 1 ? testbed->nodes_n : 0;

    for (unsigned one = 0; one < n; one++) {
        unsigned who = cast_add(cast, 1); /* it has no connection yet */

        for (unsigned i = 0; i < n; i++)
            if (i != one)
                node_hide(testbed, i, true);
        if (cast_take(cast, who, name, 0, testbed->long_ms) == DLOCK_OK)
            testbed_fails(testbed, "one of %u nodes was enough", n);
        for (unsigned i = 0; i < n; i++)
            if (i != one)
                node_hide(testbed, i, false);
    }
    if (n > 0 && !cast_is_free(cast, CAST_NEXT, name))
        testbed_fails(testbed, "who reached one node only holds it still");
}

/* HOLDER has NAME, node 0 has gone away; it is NEXT's in the end. */
static void check_away(struct cast *cast, const char *name, const char *when)
{
    if (try_hard(cast, CAST_NEXT, name) == DLOCK_OK)
        testbed_fails(cast->testbed, "%s: two holders", when);
    check_handed_on(cast, CAST_HOLDER, name, when);
}

/*
 * M: a master dies, and its replica takes over. The lock that it had heard of
 * is there; and the one that came after?
 */
void conform_check_m(struct testbed *testbed)
{
    static const char when[] = "a replica took over that had not heard of it";
    const char *heard = testbed_name("m-heard");
    const char *name = testbed_name("m");
    struct redis_proc *replica;
    enum dlock_status status;
    struct cast cast;
    struct peek *peek;
    unsigned who;

    if (testbed->expected->kept == KEPT_IN_ZK)
        conform_lose_zk(testbed, 'l', "the leader went");
    cast_open(&cast, testbed, 3, testbed->long_ms);
    cast_begin(&cast, heard, testbed->long_ms);
    if (testbed->nodes_n == 0)
        testbed_untested(testbed, "it has no Redis node to lose");
    check_partitions(&cast);
    replica = node_part(testbed);
    who = hold_barely(&cast, name);
    /* The replica takes over at the address of its master, as behind a virtual IP. So
     * clients need to be told nothing. */
    peek = testbed_peek(testbed, replica);
    redis_proc_kill(testbed->nodes[0]);
    if (!PEEK_ASK(peek, "OK", "REPLICAOF", "NO", "ONE"))
        testbed_broken(testbed, "the replica does not take over");
    peek_close(peek);
    move(testbed, path_of(replica), path_of(testbed->nodes[0]));
    if (try_hard(&cast, CAST_THIRD, heard) != DLOCK_BUSY)
        testbed_broken(testbed, "the replica had not heard of anything");
    status = try_hard(&cast, CAST_NEXT, name);
    if (status == DLOCK_OK)
        testbed_fails(testbed, "%s: two holders", when);
    if (status != DLOCK_BUSY)
        testbed_fails(testbed, "%s: %s", when, dlock_status_text(status));
    check_handed_on(&cast, who, name, when);
    testbed_holds(testbed, "%s: one holder", when);
}

/*
 * M2: a node hangs; it is killed; it comes back, empty, and then it is the next
 * one's turn. What has forgotten whom it voted for must not vote again: NEXT
 * holds it all the time.
 */
void conform_check_m2(struct testbed *testbed)
{
    const char *name;
    struct fail error;
    struct cast cast;

    if (testbed->expected->kept == KEPT_IN_ZK)
        conform_lose_zk(testbed, 'f', "a follower went");
    name = testbed_name("m2-hangs");
    cast_open(&cast, testbed, 3, testbed->long_ms);
    cast_begin(&cast, name, testbed->long_ms);
    if (testbed->nodes_n == 0)
        testbed_untested(testbed, "it has no Redis node to lose");
    if (testbed->nodes_n > 1) {
        redis_proc_signal(testbed->nodes[0], SIGSTOP);
        check_away(&cast, name, "one node hangs");
        redis_proc_signal(testbed->nodes[0], SIGCONT);
    }
    name = testbed_name("m2");
    cast_begin(&cast, name, testbed->long_ms);
    redis_proc_kill(testbed->nodes[0]);
    check_away(&cast, name, "one node is down");
    for (unsigned i = 0; i < 2 && i < testbed->nodes_n; i++) {
        redis_proc_kill(testbed->nodes[i]);
        if (!redis_proc_tend(testbed->nodes[i], error.text, sizeof(error.text)))
            testbed_broken(testbed, "%.150s", error.text);
    }
    if (try_hard(&cast, CAST_THIRD, name) == DLOCK_OK)
        testbed_fails(testbed, "nodes were restarted one by one: two holders");
    testbed_holds(testbed,
                  "one of %u nodes hung, was down, came back empty: one "
                  "holder, and to be had",
                  testbed->nodes_n);
}

/* S ------------------------------------------------------------------------ */

/* The actor's store, which stays open between its deeds. One per process, because an
 * actor has one hand here. */
static struct {
    struct store *store;
    struct store_reader *reader;
    struct store_fence fence; /* its name is the grant's */
} desk;

static void report_store(struct deed_report *report, enum store_status status)
{
    report->status = status == STORE_OK ? DLOCK_OK : DLOCK_LOST;
    (void)snprintf(report->text, sizeof(report->text), "%.100s",
                   store_status_text(status));
}

/* The begin of a critical section: announce oneself, then read. */
static void deed_read(struct deed_hand *hand, const struct deed_order *order,
                      struct deed_report *report)
{
    const struct dlock_grant *grant = &hand->grants[hand->grants_n - 1];
    struct store_order wanted = {
        .product_id = PRODUCT, .user_id = 1, .quantity = 1};
    char url[sizeof(hand->testbed->dir) + 32];
    const struct store_options options = {.url = url, .shared = true};
    struct store_product product = {
        .id = PRODUCT, .name = "lab", .price_cents = 1, .initial = STOCK};
    enum store_status status;
    bool created;

    (void)order;
    (void)snprintf(url, sizeof(url), "sqlite:%s/ledger.db", hand->testbed->dir);
    status = store_open(&options, &desk.store, NULL);
    if (status == STORE_OK)
        status = store_product_put(desk.store, &product, &created, NULL);
    if (status == STORE_OK)
        status = store_reader_open(desk.store, &desk.reader, NULL);
    desk.fence = (struct store_fence){
        .name = grant->name,
        .token = grant->token,
        .late = testbed_can(hand->testbed, DLOCK_CAP_FENCED_LATE)};
    if (status == STORE_OK && desk.fence.token > 0 && !desk.fence.late)
        status = store_stamp(desk.store, &desk.fence, NULL);
    if (status == STORE_OK)
        status =
            store_naive_select(desk.reader, &wanted, &report->number, NULL);
    report_store(report, status);
}

/* Its end: write what was read, less one. The number says which status. */
static void deed_write(struct deed_hand *hand, const struct deed_order *order,
                       struct deed_report *report)
{
    enum store_status status = store_naive_update(
        desk.store, PRODUCT, 0, order->number - 1, &desk.fence, NULL);

    (void)hand;
    report_store(report, status);
    report->number = (int64_t)status;
}

static int64_t read_stock(struct cast *cast, unsigned who, const char *name)
{
    struct deed_report report =
        cast_ask(cast, who, cast_order(deed_read, name, 0, 0));

    if (report.status != DLOCK_OK)
        testbed_broken(cast->testbed, "player %u cannot read: %s", who,
                       report.text);
    return report.number;
}

static enum store_status write_stock(struct cast *cast, unsigned who,
                                     int64_t seen)
{
    const struct deed_order order = {.deed = deed_write, .number = seen};

    return (enum store_status)cast_ask(cast, who, order).number;
}

/* LATE_FIRST: the late one writes before or after the other one. */
static void check_late(struct testbed *testbed, bool late_first)
{
    const char *name = testbed_name("s");
    enum store_status late = STORE_OK, next;
    int64_t holder_saw, next_saw;
    struct cast cast;

    /* The clients' own lease is short too: it is what ends a session. */
    cast_open(&cast, testbed, 2, testbed->lease_ms);
    /* HOLDER reads and is stopped; its lease ends; NEXT is in and has read. */
    cast_begin(&cast, name, testbed->lease_ms);
    holder_saw = read_stock(&cast, CAST_HOLDER, name);
    cast_stop(&cast, CAST_HOLDER);
    if (!cast_overtakes(&cast, name))
        testbed_untested(testbed, "a stopped holder is not overtaken");
    next_saw = read_stock(&cast, CAST_NEXT, name);
    if (!late_first && write_stock(&cast, CAST_NEXT, next_saw) != STORE_OK)
        testbed_fails(testbed, "the rightful holder's write was refused");
    cast_continue(&cast, CAST_HOLDER);
    late = write_stock(&cast, CAST_HOLDER, holder_saw);
    next = late_first ? write_stock(&cast, CAST_NEXT, next_saw) : STORE_OK;
    if (late == STORE_OK)
        testbed_fails(testbed,
                      "the late holder wrote %s the next one: both took "
                      "unit %" PRId64,
                      late_first ? "before" : "after", holder_saw);
    if (late != STORE_STALE_FENCE || next != STORE_OK)
        testbed_broken(testbed, "late: %s, next: %s", store_status_text(late),
                       store_status_text(next));
    cast_kill(&cast, CAST_HOLDER);
    cast_kill(&cast, CAST_NEXT);
}

void conform_check_s(struct testbed *testbed)
{
    if (testbed->together)
        testbed_untested(testbed, "it has no lease: nobody is overtaken");
    check_late(testbed, false);
    check_late(testbed, true);
    testbed_holds(testbed,
                  "the late holder's write was refused, before and after "
                  "the next one's");
}

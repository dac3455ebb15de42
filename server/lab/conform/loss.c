/*
 * When the lock itself is lost. M: a Redis node fails over to a replica that is
 * behind; M2: the node is away, and comes back empty; S: the lease has ended,
 * nobody told the holder, and the store is the last one who can say no.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "db/store.h"
#include "server/base/redis_proc.h"
#include "server/lab/conform/check.h"
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
static void move(const char *from, const char *to)
{
    need(rename(from, to) == 0, "%.80s: %s", from, strerror(errno));
}

/* No new connection gets to it; or they do again. */
static void node_hide(unsigned index, bool hides)
{
    const char *path = path_of(testbed.nodes[index]);
    char hidden[sizeof(testbed.dir) + 32];

    (void)snprintf(hidden, sizeof(hidden), "%s.hidden", path);
    move(hides ? path : hidden, hides ? hidden : path);
}

/*
 * A replica of node 0 that hears of everything up to now, of which the check is sure by
 * WAIT, and of nothing after. WAIT counts those that have heard of what its own
 * connection has written. Replication knows no Unix sockets: the master gets a port, on
 * loopback.
 */
static struct redis_proc *node_part(void)
{
    char port[16];
    struct redis_proc *replica = testbed_server("replica");
    struct peek *master = testbed_peek(testbed.nodes[0]);
    struct peek *follower = testbed_peek(replica);

    need(peek_listen(master, port, sizeof(port)) &&
             PEEK_ASK(follower, "OK", "REPLICAOF", "127.0.0.1", port) &&
             PEEK_ASK(master, "OK", "SET", "lab:heard", "1") &&
             PEEK_ASK(master, "1", "WAIT", "1", "5000"),
         "the replica does not follow");
    /* The port is closed before the connection: the replica would come back at once. */
    need(PEEK_ASK(master, "OK", "CONFIG", "SET", "port", "0") &&
             PEEK_ASK(master, "1", "CLIENT", "KILL", "TYPE", "replica"),
         "the replica does not go");
    peek_close(master);
    peek_close(follower);
    return replica;
}

/* It takes over at the address of node 0, which dies, as behind a virtual IP. So clients
 * need to be told nothing. */
static void take_over(struct redis_proc *replica)
{
    struct peek *peek = testbed_peek(replica);

    /* The old master must be gone before its address is the replica's. */
    redis_proc_kill(testbed.nodes[0]);
    need(PEEK_ASK(peek, "OK", "REPLICAOF", "NO", "ONE"),
         "the replica does not take over");
    peek_close(peek);
    /* Sockets are known by their path: the new server is reached under the old name. */
    move(path_of(replica), path_of(testbed.nodes[0]));
}

/* M, M2: a node is lost ----------------------------------------------------- */

static enum dlock_status try_hard(unsigned who, const char *name)
{
    return cast_insist(who, name, 0, testbed.long_ms, TRIES_MS * testbed.slow);
}

/* WHO gives NAME back; is it NEXT's then? */
static void check_handed_on(unsigned who, const char *name, const char *when)
{
    enum dlock_status status;

    /* An answer of any kind: what the release has done shows in what NEXT gets. */
    (void)cast_give(who, name);
    status = try_hard(NEXT, name);
    /* Without a node no time helps. */
    testbed.result->is_by_time = status != DLOCK_OK && testbed.nodes_n > 1;
    must(status == DLOCK_OK, "%s: nobody gets it (%s)", when,
         dlock_status_text(status));
}

/*
 * A new holder of NAME. Of several nodes it could not reach the last one, which
 * will vote for somebody else as soon as it is back. Who needs all of them has
 * to get them.
 */
static unsigned hold_barely(const char *name)
{
    unsigned who = cast_add(1); /* it has no connection yet */
    enum dlock_status status = DLOCK_UNREACHABLE;

    if (testbed.nodes_n > 1) {
        /* The last node is hidden, and not stopped: it answers at once that it is
         * not there. */
        node_hide(testbed.nodes_n - 1, true);
        status = cast_take(who, name, 0, testbed.long_ms);
        node_hide(testbed.nodes_n - 1, false);
    }
    if (status != DLOCK_OK)
        status = try_hard(who, name);
    must_in_time(status == DLOCK_OK, "nobody gets it: %s",
                 dlock_status_text(status));
    return who;
}

/*
 * Each of several nodes in turn is the only one that somebody can reach. That
 * is too few; and nothing of it may be left, or it will be too few for others.
 */
static void check_partitions(void)
{
    const char *name = cast_name();
    /* One node is the only one, and no part of a network. */
    unsigned n = testbed.nodes_n > 1 ? testbed.nodes_n : 0;

    for (unsigned one = 0; one < n; one++) {
        unsigned who = cast_add(1); /* it has no connection yet */

        for (unsigned i = 0; i < n; i++)
            if (i != one)
                node_hide(i, true);
        /* No time limit: a grant by too few is wrong however it came. */
        must(cast_take(who, name, 0, testbed.long_ms) != DLOCK_OK,
             "one of %u nodes was enough", n);
        for (unsigned i = 0; i < n; i++)
            if (i != one)
                node_hide(i, false);
    }
    must_in_time(n == 0 || cast_is_free(NEXT, name),
                 "who reached one node only holds it still");
}

/* HOLDER has NAME, node 0 has gone away; it is NEXT's in the end. */
static void check_away(const char *name, const char *when)
{
    must(try_hard(NEXT, name) != DLOCK_OK, "%s: two holders", when);
    check_handed_on(HOLDER, name, when);
}

/*
 * M: a master dies, and its replica takes over. The lock that it had heard of
 * is there; and the one that came after?
 */
void conform_check_m(void)
{
    static const char when[] = "a replica took over that had not heard of it";
    struct redis_proc *replica;
    enum dlock_status status;
    const char *heard, *name;
    unsigned who;

    if (testbed.expected->kept == KEPT_IN_ZK)
        conform_lose_zk('l', "the leader went");
    cast_open(3, testbed.long_ms);
    heard = cast_begin(testbed.long_ms);
    if (testbed.nodes_n == 0)
        check_untested("it has no Redis node to lose");
    check_partitions();
    replica = node_part();
    name = cast_name();
    who = hold_barely(name);
    take_over(replica);
    /* The check itself is tested: the replica has what came before the cut. */
    need(try_hard(THIRD, heard) == DLOCK_BUSY,
         "the replica had not heard of anything");
    status = try_hard(NEXT, name);
    must(status != DLOCK_OK, "%s: two holders", when);
    must_in_time(status == DLOCK_BUSY, "%s: %s", when,
                 dlock_status_text(status));
    check_handed_on(who, name, when);
    check_holds("%s: one holder", when);
}

/*
 * M2: a node hangs; it is killed; it comes back, empty, and then it is the next
 * one's turn. What has forgotten whom it voted for must not vote again: NEXT
 * holds it all the time.
 */
void conform_check_m2(void)
{
    const char *name;

    if (testbed.expected->kept == KEPT_IN_ZK)
        conform_lose_zk('f', "a follower went");
    cast_open(3, testbed.long_ms);
    name = cast_begin(testbed.long_ms);
    if (testbed.nodes_n == 0)
        check_untested("it has no Redis node to lose");
    if (testbed.nodes_n > 1) {
        /* A node that hangs takes its time to be given up: only where others can
         * stand in. */
        redis_proc_signal(testbed.nodes[0], SIGSTOP);
        check_away(name, "one node hangs");
        redis_proc_signal(testbed.nodes[0], SIGCONT);
    }
    name = cast_begin(testbed.long_ms);
    redis_proc_kill(testbed.nodes[0]);
    check_away(name, "one node is down");
    /* Two at least are restarted, where there are so many: each alone must
     * not outvote. */
    for (unsigned i = 0; i < 2 && i < testbed.nodes_n; i++)
        testbed_restart(i);
    must(try_hard(THIRD, name) != DLOCK_OK,
         "nodes were restarted one by one: two holders");
    check_holds("one of %u nodes hung, was down, came back empty: one holder, "
                "and the lock can be taken",
                testbed.nodes_n);
}

/* S ------------------------------------------------------------------------ */

/* The actor's store, which stays open between its deeds. One per process, because an
 * actor has one player here. */
static struct {
    struct store *store;
    struct store_reader *reader;
    struct store_fence fence; /* its name is the grant's */
    int64_t seen;             /* the stock */
} desk;

/* The begin of a critical section: announce oneself, then read. The number says which
 * status. */
static void deed_read(struct player *player, const struct deed_order *order,
                      struct deed_report *report)
{
    const struct dlock_grant *grant = &player->grants[player->grants_n - 1];
    struct store_order wanted = {
        .product_id = PRODUCT, .user_id = 1, .quantity = 1};
    char url[sizeof(testbed.dir) + 32];
    const struct store_options options = {.url = url, .shared = true};
    struct store_product product = {
        .id = PRODUCT, .name = "lab", .price_cents = 1, .initial = STOCK};
    enum store_status status;
    bool created;

    (void)order;
    (void)snprintf(url, sizeof(url), "sqlite:%s/ledger.db", testbed.dir);
    status = store_open(&options, &desk.store, NULL);
    if (status == STORE_OK)
        status = store_product_put(desk.store, &product, &created, NULL);
    if (status == STORE_OK)
        status = store_reader_open(desk.store, &desk.reader, NULL);
    desk.fence =
        (struct store_fence){.name = grant->name,
                             .token = grant->token,
                             .late = testbed_can(DLOCK_CAP_FENCED_LATE)};
    /* A token that is compared only with writes is announced by none. */
    if (status == STORE_OK && desk.fence.token > 0 && !desk.fence.late)
        status = store_stamp(desk.store, &desk.fence, NULL);
    if (status == STORE_OK)
        status = store_naive_select(desk.reader, &wanted, &desk.seen, NULL);
    report->number = (int)status;
}

/* Its end: write what was read, less one. */
static void deed_write(struct player *player, const struct deed_order *order,
                       struct deed_report *report)
{
    (void)player;
    (void)order;
    report->number = (int)store_naive_update(desk.store, PRODUCT, 0,
                                             desk.seen - 1, &desk.fence, NULL);
}

static enum store_status do_in_store(unsigned who, deed_function *deed)
{
    return (enum store_status)cast_ask(who, deed, "", 0, 0).number;
}

static void read_stock(unsigned who)
{
    enum store_status status = do_in_store(who, deed_read);

    need(status == STORE_OK, "player %u cannot read: %s", who,
         store_status_text(status));
}

/* LATE_FIRST: the late one writes before or after the other one. */
static void check_late(bool late_first)
{
    enum store_status late, next;
    const char *name;

    /* The clients' own lease is short too: it is what ends a session. */
    cast_open(2, testbed.lease_ms);
    /* HOLDER reads and is stopped; its lease ends; NEXT is in and has read. */
    name = cast_begin(testbed.lease_ms);
    read_stock(HOLDER);
    cast_stop(HOLDER);
    /* A lease that did not end says nothing: asked again, with longer times. */
    if (!cast_overtakes(name)) {
        testbed.result->is_by_time = true;
        check_untested("a stopped holder is not overtaken");
    }
    read_stock(NEXT);
    /* NEXT writes while the late one is stopped; or only after that has written. */
    next = late_first ? STORE_OK : do_in_store(NEXT, deed_write);
    must(next != STORE_STALE_FENCE, "the rightful holder's write was refused");
    cast_continue(HOLDER);
    late = do_in_store(HOLDER, deed_write);
    if (late_first)
        next = do_in_store(NEXT, deed_write);
    must(late != STORE_OK,
         "the late holder wrote %s the next one: both took the same unit",
         late_first ? "before" : "after");
    /* The refusal must be for its token, and the next one's write must have worked:
     * else nothing was shown. */
    need(late == STORE_STALE_FENCE && next == STORE_OK, "late: %s, next: %s",
         store_status_text(late), store_status_text(next));
    /* Both stores must be closed before the second round opens the same file. */
    cast_kill(HOLDER);
    cast_kill(NEXT);
}

void conform_check_s(void)
{
    if (testbed.together)
        check_untested("it has no lease: nobody is overtaken");
    check_late(false);
    check_late(true);
    check_holds("the late holder's write was refused, before and after the "
                "next one's");
}

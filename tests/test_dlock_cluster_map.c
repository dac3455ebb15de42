/*
 * The map of a Redis Cluster, as nodes tell it that no real server of ours can be brought
 * to be: one that has the slots no more and does not say MOVED, as those of a hosted cluster;
 * hosts that come, and take the places of others.
 */
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>

#include "lock/core/clock.h"
#include "lock/redis/call.h"
#include "lock/redis/cluster.h"
#include "lock/redis/silence.h"
#include "tests/support/deaf_server.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

enum {
    PROMPT_MS = LOCK_RIG_PROMPT_MS,
    AGAIN_US = 150 * 1000, /* the map is asked for anew after 100 ms */
    CLIENTS_MAX = 8,
};

/* The node ------------------------------------------------------------------- */

/* A node that says SAYS to all but CLUSTER SLOTS, and there as below. */
struct demoted {
    int fd;
    unsigned port;
    atomic_uint first; /* port: has the first slots, "b" in them; 0 = nobody */
    atomic_uint primary; /* port: has the others, "k" in them */
    const char *_Atomic says;
};

#define RANGE "*3\r\n:%u\r\n:%u\r\n*2\r\n$9\r\n127.0.0.1\r\n:%u\r\n"

static bool demoted_answers(struct demoted *node, int fd)
{
    char heard[4096], reply[400];
    ssize_t got = recv(fd, heard, sizeof(heard) - 1, 0);

    if (got <= 0)
        return false;
    heard[got] = '\0';
    (void)snprintf(reply, sizeof(reply), "%s", atomic_load(&node->says));
    if (strstr(heard, "SLOTS") != NULL && atomic_load(&node->first) == 0)
        (void)snprintf(reply, sizeof(reply), "*1\r\n" RANGE, 4096U, 16383U,
                       atomic_load(&node->primary));
    else if (strstr(heard, "SLOTS") != NULL)
        (void)snprintf(reply, sizeof(reply), "*2\r\n" RANGE RANGE, 0U, 4095U,
                       atomic_load(&node->first), 4096U, 16383U,
                       atomic_load(&node->primary));
    return send(fd, reply, strlen(reply), MSG_NOSIGNAL) > 0;
}

static void *demoted_run(void *arg)
{
    struct demoted *node = arg;
    struct pollfd fds[1 + CLIENTS_MAX] = {{.fd = node->fd, .events = POLLIN}};

    for (size_t i = 1; i < COUNT_OF(fds); i++)
        fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    while (poll(fds, COUNT_OF(fds), -1) > 0 &&
           (fds[0].revents & POLLHUP) == 0) {
        bool comes = (fds[0].revents & POLLIN) != 0;

        for (size_t i = 1; i < COUNT_OF(fds); i++)
            if (fds[i].fd < 0 && comes) {
                fds[i].fd = accept(node->fd, NULL, NULL);
                comes = false;
            } else if (fds[i].fd >= 0 && fds[i].revents != 0 &&
                       !demoted_answers(node, fds[i].fd)) {
                (void)close(fds[i].fd);
                fds[i].fd = -1;
            }
    }
    for (size_t i = 1; i < COUNT_OF(fds); i++)
        if (fds[i].fd >= 0)
            (void)close(fds[i].fd);
    return NULL;
}

/* One command alone, or a batch of one, as the watchdog sends its renewals. */
static enum dlock_status send_get(struct dlock_wire *wire, const char *key,
                                  bool in_batch)
{
    struct dlock_command command;
    struct dlock_exchange each = {.command = &command};

    dlock_command_init(&command, "get", key, NULL);
    dlock_command_arg(&command, "GET");
    dlock_command_arg(&command, key);
    if (!in_batch)
        return dlock_call(wire, &command, UINT64_MAX, &each.reply);
    dlock_call_batch(wire, &each, 1, UINT64_MAX);
    return each.status;
}

static struct demoted node;
static struct redis_server *real[2];
static pthread_t thread;

static int set_up(NO_STATE)
{
    struct sockaddr_in at;

    for (size_t i = 0; i < COUNT_OF(real); i++)
        real[i] = redis_server_start_tcp(NULL);
    node = (struct demoted){.fd = deaf_server_bind(&at, CLIENTS_MAX)};
    node.port = ntohs(at.sin_port);
    return pthread_create(&thread, NULL, demoted_run, &node);
}

static int tear_down(NO_STATE)
{
    (void)shutdown(node.fd, SHUT_RDWR);
    (void)pthread_join(thread, NULL);
    (void)close(node.fd);
    for (size_t i = 0; i < COUNT_OF(real); i++)
        redis_server_stop(real[i]);
    return 0;
}

#define TEST(test) UNIT_TEST_WITH(NO_FIXTURE, test, set_up, tear_down, NULL)

static unsigned port_of(const struct redis_server *server)
{
    return (unsigned)redis_server_port(server);
}

static struct dlock_wire_config config;

/* A wire to the cluster that the node tells of, whose slots PRIMARY has. */
static struct dlock_wire *open_wire(unsigned primary)
{
    static atomic_uint_fast64_t silent[DLOCK_SILENT_MAX];

    for (size_t i = 0; i < DLOCK_SILENT_MAX; i++)
        atomic_store(&silent[i], 0);
    config = (struct dlock_wire_config){.connect_timeout_ms = PROMPT_MS,
                                        .command_timeout_ms = PROMPT_MS,
                                        .clock = dlock_clock_default(),
                                        .silent = silent};
    assert_non_null(dlock_url_parse(
        text_of("cluster://127.0.0.1:%u", node.port), &config.address));
    atomic_store(&node.primary, primary);
    return dlock_wire_open(&config, "me");
}

/* Tests ---------------------------------------------------------------------- */

/* The node fails as SAYS; then its successor is to be found. */
static void finds_the_successor(const char *says, bool in_batch)
{
    struct dlock_wire *wire = open_wire(node.port);
    uint64_t began_ms = lock_rig_now_ms();

    atomic_store(&node.says, ":1\r\n");
    assert_ok(send_get(wire, "k", in_batch));
    atomic_store(&node.says, says);
    assert_int_equal(send_get(wire, "k", in_batch), DLOCK_UNREACHABLE);
    atomic_store(&node.primary, port_of(real[0]));
    while (send_get(wire, "k", in_batch) != DLOCK_OK)
        if (lock_rig_now_ms() - began_ms > PROMPT_MS)
            fail_msg("%s it goes on asking who says %s",
                     in_batch ? "in a batch" : "alone", says);
    dlock_wire_close(wire);
}

TEST(who_had_it_refuses)
{
    static const char *const says[] = {
        "-READONLY You can't write against a read only replica.\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
        "-ERR Error running script: @user_script: 9: -READONLY no \r\n",
    };

    for (size_t i = 0; i < COUNT_OF(says); i++)
        for (int in_batch = 0; in_batch < 2; in_batch++)
            finds_the_successor(says[i], in_batch);
}

/* MOVED, to a host with a name as long as names may be. */
TEST(it_moves_far)
{
    struct dlock_wire *wire = open_wire(node.port);

    atomic_store(&node.says, text_of("-MOVED 16383 %0244o.0.0.1:%u\r\n", 127,
                                     port_of(real[0])));
    assert_ok(send_get(wire, "k", false));
    dlock_wire_close(wire);
}

/* The connection is the one to the primary, because "ID" passes for a key of its slots. */
static int64_t connection_id(struct dlock_wire *wire)
{
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_command_init(&command, "id", "k", NULL);
    dlock_command_arg(&command, "CLIENT");
    dlock_command_arg(&command, "ID");
    assert_ok(dlock_call(wire, &command, UINT64_MAX, &reply));
    return reply.integers[0];
}

/* The next map begins with a host that is new: the others keep their connections. */
TEST(a_host_comes_in)
{
    struct dlock_wire *wire = open_wire(port_of(real[0]));
    int64_t id = connection_id(wire);

    atomic_store(&node.first, port_of(real[1]));
    while (send_get(wire, "b", false) != DLOCK_OK)
        continue;
    assert_int_equal(connection_id(wire), id);
    dlock_wire_close(wire);
}

/* A host that is new is asked at once, though the one that failed has left. */
TEST(a_host_replaces_another)
{
    struct dlock_wire *wire = open_wire(port_of(real[0]));

    assert_ok(send_get(wire, "k", false));
    redis_server_kill(real[0]);
    atomic_store(&node.primary, port_of(real[1]));
    dlock_clock_sleep_us(AGAIN_US);
    assert_ok(send_get(wire, "k", false));
    dlock_wire_close(wire);
    redis_server_restart(real[0]);
}

/* ---- nodes that hang --------------------------------------------------------- */

static struct dlock_address local(unsigned port)
{
    struct dlock_address at = config.address;

    (void)snprintf(at.host, sizeof(at.host), "127.0.0.1");
    (void)snprintf(at.port, sizeof(at.port), "%u", port);
    return at;
}

/* One that hangs while it is connected to, as by a login or TLS, gets no command. */
TEST(a_node_that_takes_no_connection_is_silent)
{
    struct deaf_server deaf = deaf_server_open();
    struct dlock_wire *wire = open_wire(ntohs(deaf.at.sin_port));
    struct dlock_address at = local(ntohs(deaf.at.sin_port));

    config.connect_timeout_ms = 300;
    assert_int_equal(send_get(wire, "k", false), DLOCK_UNREACHABLE);
    assert_true(dlock_silence_is_silent(&config, &at));
    at = local(node.port);
    assert_false(dlock_silence_is_silent(&config, &at));
    dlock_wire_close(wire);
    deaf_server_close(&deaf);
}

/* Those that were silent before may have left for good: one of them makes room. */
TEST(the_last_that_fell_silent_is_known)
{
    struct dlock_wire *wire = open_wire(node.port);

    for (unsigned port = 1; port <= DLOCK_SILENT_MAX + 3; port++) {
        struct dlock_wire_config its = config;

        its.address = local(port);
        dlock_silence_end(&its, false, false);
        assert_true(dlock_silence_is_silent(&config, &its.address));
    }
    dlock_wire_close(wire);
}

/* The url may name a node that hangs by another name than the map: it is asked last. */
TEST(the_map_is_asked_of_nodes_that_are_known)
{
    struct deaf_server deaf = deaf_server_open();
    struct dlock_wire *wire = open_wire(node.port);
    struct dlock_link link;
    uint64_t began_ms;

    assert_non_null(
        dlock_url_parse(text_of("cluster://localhost:%u,127.0.0.1:%u",
                                ntohs(deaf.at.sin_port), node.port),
                        &config.address));
    for (int i = 0; i < 8; i++) {
        began_ms = lock_rig_now_ms();
        assert_ok(dlock_cluster_ask(dlock_cluster_of(wire),
                                    began_ms + PROMPT_MS, &link));
        dlock_net_close(&link);
        if (i > 0) /* before it there is no map */
            assert_in_range(lock_rig_now_ms() - began_ms, 0, PROMPT_MS / 4);
    }
    dlock_wire_close(wire);
    deaf_server_close(&deaf);
}

LOCK_RIG_MAIN

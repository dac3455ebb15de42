/*
 * Names and connections: a resolver that hangs, a server with several addresses
 * of which some are dead, and bounds that hold all the same.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/dial/lookup.h"
#include "lock/redis/call.h"
#include "tests/support/deaf_server.h"
#include "tests/support/fake_resolver.h"
#include "tests/support/lock_rig.h"

/* Each test has a name of its own: what is remembered is the process'. */
static struct dlock_wire_config config_for(const char *host)
{
    struct dlock_wire_config config = {.connect_timeout_ms = 1000,
                                       .command_timeout_ms = 1000,
                                       .clock = dlock_clock_default()};

    (void)snprintf(config.address.host, sizeof(config.address.host), "%s",
                   host);
    (void)snprintf(config.address.port, sizeof(config.address.port), "6379");
    return config;
}

/* How long a new connection took; it has to answer. UINT64_MAX if none
 * came in time. */
static uint64_t connect_once_ms(const struct dlock_wire_config *config)
{
    struct dlock_wire *wire = dlock_wire_open(config, "me");
    struct dlock_command command;
    struct dlock_reply reply;
    uint64_t start_ms = lock_rig_now_ms();
    uint64_t took_ms;

    if (dlock_wire_ready(wire, start_ms + config->connect_timeout_ms) !=
        DLOCK_OK) {
        print_message("# %s\n", dlock_error_text());
        dlock_wire_close(wire);
        return UINT64_MAX;
    }
    took_ms = lock_rig_now_ms() - start_ms;
    dlock_command_init(&command, "ping", "n", NULL);
    dlock_command_arg(&command, "PING");
    assert_ok(dlock_call(wire, &command, UINT64_MAX, &reply));
    dlock_wire_close(wire);
    return took_ms;
}

/* One of some takes no more than MOST_MS: a busy machine may be late, but not each
 * time. None takes less than LEAST_MS. */
static void connects_in(const struct dlock_wire_config *config,
                        uint64_t least_ms, uint64_t most_ms)
{
    uint64_t took_ms = UINT64_MAX;

    for (int i = 0; i < 20 && took_ms > most_ms; i++) {
        took_ms = connect_once_ms(config);
        assert_true(took_ms >= least_ms);
    }
    assert_in_range(took_ms, least_ms, most_ms);
}

static void connects(const struct dlock_wire_config *config)
{
    connects_in(config, 0, UINT64_MAX - 1);
}

/* How long it took to find that there is none. */
static uint64_t fail_ms(const struct dlock_wire_config *config)
{
    struct dlock_wire *wire = dlock_wire_open(config, "me");
    uint64_t start_ms = lock_rig_now_ms();

    assert_int_equal(
        dlock_wire_ready(wire, start_ms + config->connect_timeout_ms),
        DLOCK_UNREACHABLE);
    assert_int_equal(wire->link.fd, -1);
    dlock_wire_close(wire);
    return lock_rig_now_ms() - start_ms;
}

static int fresh(void **state)
{
    fake_resolver_begin();
    return lock_rig_fresh(state);
}

/* Several addresses -------------------------------------------------------- */

#define TEST(test) UNIT_TEST_WITH(NO_FIXTURE, test, fresh, NULL, NULL)

TEST(test_first_address_never_answers)
{
    struct dlock_wire_config config = config_for("two.test");
    struct deaf_server deaf = deaf_server_open();

    fake_resolver_tell(deaf.at);
    fake_resolver_tell(lock_rig_at());
    /* Both share the time. */
    connects_in(&config, 490, 999);
    config.connect_timeout_ms = 400;
    connects_in(&config, 190, 399);
    deaf_server_close(&deaf);
}

TEST(test_refusing_address_costs_nothing)
{
    struct dlock_wire_config config = config_for("refuses.test");
    struct sockaddr_in refuses;
    int fd = deaf_server_bind(&refuses, -1);

    fake_resolver_tell(refuses);
    fake_resolver_tell(refuses);
    fake_resolver_tell(lock_rig_at());
    connects_in(&config, 0, 300);
    (void)close(fd);
}

TEST(test_no_address_answers)
{
    struct dlock_wire_config config = config_for("deaf.test");
    struct deaf_server deaf = deaf_server_open();

    config.connect_timeout_ms = 200;
    for (int i = 0; i < 3; i++)
        fake_resolver_tell(deaf.at);
    assert_in_range(fail_ms(&config), 199, LOCK_RIG_PROMPT_MS);
    assert_string_equal(dlock_error_text(),
                        "connect to deaf.test:6379: Connection timed out");
    deaf_server_close(&deaf);
}

/* Servers are asked at once. */
TEST(test_servers_asked_together)
{
    struct deaf_server deaf = deaf_server_open();

    fake_resolver_tell(deaf.at);
    fake_resolver_tell(lock_rig_at());
    lock_rig_works(
        &(struct dlock_options){.strategy = "multi",
                                .url = "redis://asked.test:6379",
                                .connect_timeout_ms = LOCK_RIG_TIMEOUT_MS,
                                .command_timeout_ms = 2000});
    deaf_server_close(&deaf);
}

/* A resolver that hangs ---------------------------------------------------- */

TEST(test_resolver_hangs)
{
    static const char *const strategies[] = {"fenced", "multi"};

    fake_resolver_hang(true);
    for (int i = 0; i < 2; i++) {
        const struct dlock_options options = {.strategy = strategies[i],
                                              .url = "redis://hangs.test:6379",
                                              .connect_timeout_ms = 200,
                                              .command_timeout_ms = 200};
        uint64_t start_ms = lock_rig_now_ms();

        /* Closing waits for nobody either. */
        assert_int_equal(lock_rig_try(&options, NULL), DLOCK_UNREACHABLE);
        assert_in_range(lock_rig_now_ms() - start_ms, 0, LOCK_RIG_PROMPT_MS);
    }
    /* Both clients are gone; one thread is there, and comes back now. */
    assert_int_equal(fake_resolver_asked_n(), 1);
    fake_resolver_let_go("hangs.test", "6379");
}

TEST(test_last_answer_is_used)
{
    struct dlock_wire_config config = config_for("remembered.test");

    fake_resolver_tell(lock_rig_at());
    (void)connect_once_ms(&config);
    fake_resolver_hang(true);
    for (int i = 0; i < 3; i++)
        connects_in(&config, 240, 550);
    config.connect_timeout_ms = 400;
    connects_in(&config, 95, 399);
    /* They all hang on one thread. */
    assert_int_equal(fake_resolver_asked_n(), 2);
    fake_resolver_let_go("remembered.test", "6379");
    /* The resolver's own trouble is no answer; that there is no name is one. */
    fake_resolver_fail(EAI_AGAIN);
    connects(&config);
    /* A place has a port in it: those of another one are of no use. */
    memcpy(config.address.port, "6380", sizeof("6380"));
    (void)fail_ms(&config);
    memcpy(config.address.port, "6379", sizeof("6379"));
    fake_resolver_fail(EAI_NONAME);
    config.connect_timeout_ms = LOCK_RIG_LONG_MS;
    assert_in_range(fail_ms(&config), 0, LOCK_RIG_PROMPT_MS);
    assert_non_null(strstr(dlock_error_text(), "look up remembered.test: "));
}

/* A newer answer is used when it comes late, by the next connection. */
TEST(test_late_answer_is_remembered)
{
    struct dlock_wire_config config = config_for("late.test");
    struct sockaddr_in refuses;
    int fd = deaf_server_bind(&refuses, -1);

    fake_resolver_tell(refuses);
    (void)fail_ms(&config);
    assert_non_null(
        strstr(dlock_error_text(), "late.test:6379: Connection refused"));
    fake_resolver_hang(true);
    fake_resolver_forget();
    fake_resolver_tell(lock_rig_at());
    (void)fail_ms(&config);
    fake_resolver_let_go("late.test", "6379");
    fake_resolver_hang(true);
    connects(&config);
    fake_resolver_let_go("late.test", "6379");
    (void)close(fd);
}

TEST(test_numbers_and_paths_ask_nobody)
{
    struct dlock_wire_config config = config_for("127.0.0.1");

    fake_resolver_hang(true);
    (void)snprintf(config.address.port, sizeof(config.address.port), "%d",
                   ntohs(lock_rig_at().sin_port));
    connects(&config);
    assert_ok(
        dlock_address_parse(redis_server_url(rig.server), &config.address));
    connects(&config);
    assert_int_equal(fake_resolver_asked_n(), 0);
}

/* The watchdog's connection and the subscriber's, both new. */
TEST(test_threads_of_a_client)
{
    struct lock_single a;
    struct dlock_grant grant;

    rig.url = "redis://threads.test:6379";
    rig.watchdog_lease_ms = 3000;
    rig.command_timeout_ms = LOCK_RIG_PROMPT_MS;
    fake_resolver_tell(lock_rig_at());
    a = lock_single_open("fenced");
    assert_ok(lock_single_take(&a, 0));
    fake_resolver_hang(true);
    assert_int_equal(
        lock_rig_take(lock_rig_session(a.client), "k", 4000, 0, &grant),
        DLOCK_TIMEOUT);
    assert_int_equal(step_log_ended(&rig.log, "subscribe"), 1);
    step_log_await(&rig.log, "eval-renew", 2);
    assert_true(lock_rig_is_held());
    lock_single_close(&a);
    fake_resolver_let_go("threads.test", "6379");
}

/* Threads that hang are counted, and so is what is remembered. */
TEST(test_names_are_bounded)
{
    struct dlock_places places;

    fake_resolver_hang(true);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(
            dlock_lookup(text_of("many-%d.test", i), "6379", 0, &places),
            DLOCK_UNREACHABLE);
        assert_true((strstr(dlock_error_text(), "too many at once") == NULL) ==
                    (i < 32));
    }
    for (int i = 0; i < 32; i++)
        fake_resolver_let_go(text_of("many-%d.test", i), "6379");
    fake_resolver_let_go("more.test", "6379");
}

/* Redlock gives up waiting for one that is slow to connect to, each time. */
TEST(test_one_thread_for_a_connection)
{
    struct dlock_wire_config config = config_for("127.0.0.1");
    struct dlock_wire *wire = dlock_wire_open(&config, "me");
    struct deaf_server deaf = deaf_server_open();
    uint64_t until_ms = lock_rig_now_ms() + LOCK_RIG_PROMPT_MS;

    (void)snprintf(config.address.port, sizeof(config.address.port), "%d",
                   ntohs(deaf.at.sin_port));
    for (int i = 0; i < 5; i++)
        assert_int_equal(dlock_wire_begin(wire, until_ms), DLOCK_BUSY);
    assert_int_equal(lock_rig_threads("dlock-dial"), 1);
    dlock_wire_close(wire);
    deaf_server_close(&deaf);
}

/* The system's own resolver. A bare Debian knows no localhost. */
TEST(test_localhost)
{
    struct dlock_wire_config config = config_for("localhost");
    struct addrinfo *list;

    if (getaddrinfo("localhost", NULL, NULL, &list) != 0)
        skip();
    freeaddrinfo(list);
    dlock_lookup_by(NULL);
    (void)snprintf(config.address.port, sizeof(config.address.port), "%d",
                   ntohs(lock_rig_at().sin_port));
    connects(&config);
    assert_int_equal(fake_resolver_asked_n(), 0);
}

LOCK_RIG_MAIN

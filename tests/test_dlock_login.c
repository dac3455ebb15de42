/*
 * Urls with logins: every connection logs in before it does anything, and no text
 * has a password in it. What urls mean is in test_dlock_url.c.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/redis/wire.h"
#include "server/base/values.h"

#include "tests/support/lock_rig.h"

/* User shop's password is "p@:/,%&?", which has to be written with care. */
#define PASSWORD     "p@:/,%&?s3cret"
#define PASSWORD_URL "p@:/%2C%25%26?s3cret"
#define NO_SCRIPTS   "-@scripting -@pubsub -@string"

static void add_user(const struct redis_server *server)
{
    redis_server_tell(server, "ACL SETUSER shop reset on >%s ~* &* +@all",
                      PASSWORD);
    /* Sessions without a login get nowhere. */
    redis_server_tell(server, "ACL SETUSER default " NO_SCRIPTS);
}

static int fresh(void **state)
{
    lock_rig_tell("ACL SETUSER default on nopass ~* &* +@all");
    (void)lock_rig_fresh(state);
    add_user(rig.server);
    return 0;
}

static const char *with_login(const struct redis_server *server,
                              const char *query)
{
    return text_of("%s?%s", redis_server_url(server), query);
}

/* A client's whole life; what the acquire said. */
static enum dlock_status take_by(const char *strategy, const char *url,
                                 struct dlock_error *error)
{
    return lock_rig_try(
        &(struct dlock_options){.strategy = strategy,
                                .url = url,
                                .connect_timeout_ms = LOCK_RIG_TIMEOUT_MS},
        error);
}

/* Logging in ---------------------------------------------------------------- */

/* The first bytes of a connection; then it says what LOGIN is to hear. */
struct impostor {
    int fd;
    const char *says;
    unsigned flood_ms; /* so long it goes on without the end of a line ... */
    bool was_left;     /* ... unless it is left before */
    void (*then)(struct dlock_wire *wire); /* when the login is over */
    char heard[1024];
};

static void flood(struct impostor *impostor, int fd)
{
    static const char bytes[65536] = "-ERR";
    uint64_t until_ms = lock_rig_now_ms() + impostor->flood_ms;

    while (!impostor->was_left && lock_rig_now_ms() < until_ms)
        impostor->was_left = send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) < 0;
}

static void *pretend(void *arg)
{
    struct impostor *impostor = arg;
    int fd = accept(impostor->fd, NULL, NULL);
    ssize_t got;

    if (fd < 0)
        return NULL;
    got = read(fd, impostor->heard, sizeof(impostor->heard) - 1);
    impostor->heard[got > 0 ? got : 0] = '\0';
    for (const char *byte = impostor->says; *byte != '\0'; byte++)
        (void)send(fd, byte, 1, MSG_NOSIGNAL); /* each on its own */
    flood(impostor, fd);
    (void)!read(fd, impostor->heard + strlen(impostor->heard), 1);
    (void)close(fd);
    return NULL;
}

/* What a wire makes of a server that SAYS that. */
static enum dlock_status meet(const char *query, struct impostor *impostor)
{
    struct dlock_wire_config config = {.clock = dlock_clock_default()};
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct dlock_wire *wire = dlock_wire_open(&config, "me");
    enum dlock_status status;
    pthread_t thread;

    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%.80s/impostor",
                   rig.dir.path);
    (void)unlink(to.sun_path);
    impostor->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(impostor->fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(listen(impostor->fd, 1), 0);
    assert_ok(dlock_address_parse(text_of("unix:%s?%s", to.sun_path, query),
                                  &config.address));
    assert_int_equal(pthread_create(&thread, NULL, pretend, impostor), 0);
    status = dlock_wire_ready(wire, lock_rig_now_ms() + 1000);
    if (impostor->then != NULL)
        impostor->then(wire);
    dlock_wire_close(wire);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(impostor->fd);
    return status;
}

#define TEST(test) UNIT_TEST_WITH(NO_FIXTURE, test, fresh, NULL, NULL)

TEST(test_one_write_before_anything)
{
    struct impostor impostor = {.says = "+OK\r\n+OK\r\n"};

    assert_ok(meet("user=shop&password=s3%20cret&db=12", &impostor));
    assert_string_equal(impostor.heard,
                        "*3\r\n$4\r\nAUTH\r\n$4\r\nshop\r\n$7\r\ns3 cret\r\n"
                        "*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n");
    assert_ok(meet("password=old", &impostor));
    assert_string_equal(impostor.heard, "*2\r\n$4\r\nAUTH\r\n$3\r\nold\r\n");
}

/* Whatever a server says to a login. */
TEST(test_refusals_do_not_tell)
{
    static const struct {
        const char *says;
        const char *text;
    } rows[] = {
        {"-WRONGPASS no\r\n", "redis refused the login: WRONGPASS no"},
        {"-ERR unknown command 'AUTH', with args beginning with: 'u' 's3cr",
         "redis: log in: "},
        {"-ERR unknown command 'AUTH', with args beginning with: 'u' 's3cr\r\n",
         "redis refused the login: ERR unknown command 'AUTH'"},
        {"-ERR not s3cret!\r\n", "redis refused the login: ERR"},
        {"-s3cret\r\n", "redis refused the login: "},
        {"s3cret\r\n", "redis: log in: no sense in its reply"},
        {"$6\r\ns3cret\r\n", "redis refused the login: no sense in its reply"},
        {"+OK\r\n-ERR DB index\r\n", "redis refused database 1: ERR DB index"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct impostor impostor = {.says = rows[i].says};

        assert_int_equal(meet("user=u&password=s3cret&db=1", &impostor),
                         DLOCK_UNREACHABLE);
        assert_memory_equal(dlock_error_text(), rows[i].text,
                            strlen(rows[i].text));
        assert_null(strstr(dlock_error_text(), "s3cr"));
    }
}

/* There is always more to read, and never a reply. */
TEST(test_flood_is_no_reply)
{
    struct impostor impostor = {.says = "", .flood_ms = LOCK_RIG_PROMPT_MS};

    assert_int_equal(meet("password=s3cret", &impostor), DLOCK_UNREACHABLE);
    assert_true(impostor.was_left);
    assert_string_equal(dlock_error_text(),
                        "redis: log in: the reply is too long");
}

static void read_reply(struct dlock_wire *wire)
{
    struct dlock_reply reply;

    assert_int_equal(
        dlock_wire_read(wire, lock_rig_now_ms() + LOCK_RIG_PROMPT_MS, &reply),
        DLOCK_UNKNOWN);
}

static void hear_events(struct dlock_wire *wire)
{
    uint64_t until_ms = lock_rig_now_ms() + LOCK_RIG_PROMPT_MS;
    struct dlock_event event;

    while (dlock_wire_event(wire, &event) == DLOCK_OK &&
           lock_rig_now_ms() < until_ms)
        continue;
}

/* Nor does it fill the memory, whoever listens. */
TEST(test_flood_is_no_answer)
{
    void (*const listeners[])(struct dlock_wire *) = {read_reply, hear_events};

    for (size_t i = 0; i < COUNT_OF(listeners); i++) {
        struct impostor impostor = {.says = "+OK\r\n$2000000000\r\n",
                                    .flood_ms = LOCK_RIG_PROMPT_MS,
                                    .then = listeners[i]};

        assert_ok(meet("password=s3cret", &impostor));
        assert_true(impostor.was_left);
    }
}

/* A server that is stopped takes connections: the login has a bound. */
TEST(test_login_has_a_bound)
{
    const char *url = with_login(rig.server, "user=shop&password=s3cret");
    struct dlock_error error = {""};
    uint64_t start_ms;

    redis_server_pause(rig.server);
    start_ms = lock_rig_now_ms();
    assert_int_equal(take_by("set-nx-px", url, &error), DLOCK_UNREACHABLE);
    assert_in_range(lock_rig_now_ms() - start_ms, LOCK_RIG_TIMEOUT_MS - 1,
                    LOCK_RIG_PROMPT_MS / 2);
    redis_server_resume(rig.server);
    assert_string_equal(error.text,
                        "acquire: redis: log in: Connection timed out");
}

/* Locks --------------------------------------------------------------------- */

/* The session's connection, the watchdog's and the subscriber's. */
TEST(test_every_connection_logs_in)
{
    char reply[4096];
    struct lock_pair pair;

    rig.url =
        with_login(rig.server, "user=shop&password=" PASSWORD_URL "&db=3");
    rig.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    pair = lock_pair_held("fenced", 0);
    assert_int_equal(lock_pair_take(&pair, 1, 400, 0), DLOCK_TIMEOUT);
    assert_int_equal(step_log_ended(&rig.log, "subscribe"), 1);
    step_log_await(&rig.log, "eval-renew", 3);
    redis_server_ask(rig.server, "INFO keyspace", reply, sizeof(reply));
    assert_non_null(strstr(reply, "db3:keys="));
    assert_null(strstr(reply, "db0:"));
    redis_server_ask(rig.server, "CLIENT LIST", reply, sizeof(reply));
    for (char *at = reply; (at = strstr(at, "\nid=")) != NULL; at++)
        assert_true(strstr(at, "user=shop") != NULL ||
                    strstr(at, "cmd=client|list") != NULL);
}

TEST(test_wrong_logins)
{
    static const char *const strategies[] = {
        "setnx", "fenced", "redisson", "fair", "multi", "redlock", "set-nx-px"};
    static const struct {
        const char *query;
        const char *text;
    } rows[] = {
        {"user=shop&password=s3cret", "redis refused the login: WRONGPASS "},
        {"user=s3cret&password=s3cret", "redis refused the login: WRONGPASS "},
        {"db=99", "redis refused database 99: ERR "},
        {"db=1", "redis refused: NOPERM "},
    };

    for (size_t k = 0; k < COUNT_OF(strategies); k++)
        for (size_t i = 0; i < COUNT_OF(rows); i++) {
            const char *url = with_login(rig.server, rows[i].query);
            struct dlock_error error = {""};

            assert_int_equal(take_by(strategies[k], url, &error),
                             DLOCK_UNREACHABLE);
            assert_null(strstr(error.text, "s3cret"));
            if (strstr(error.text, rows[i].text) == NULL)
                fail_msg("%s, %s: %s", strategies[k], rows[i].query,
                         error.text);
        }
    lock_rig_tell("ACL SETUSER default +@all");
    assert_int_equal(lock_rig_ask("DBSIZE"), 0);
}

/* As with requirepass, which is the password of the user "default". */
TEST(test_password_of_default)
{
    static const char *const strategies[] = {"fenced", "multi", "setnx"};
    struct dlock_error errors[3];
    enum dlock_status with[3], without[3];
    const char *url = with_login(rig.server, "password=only");

    lock_rig_tell("ACL SETUSER default +@all");
    lock_rig_tell("CONFIG SET requirepass only");
    for (int i = 0; i < 3; i++) {
        with[i] = take_by(strategies[i], url, NULL);
        without[i] =
            take_by(strategies[i], redis_server_url(rig.server), &errors[i]);
    }
    lock_rig_tell("AUTH only\r\nACL SETUSER default nopass");
    for (int i = 0; i < 3; i++) {
        assert_ok(with[i]);
        assert_int_equal(without[i], DLOCK_UNREACHABLE);
        if (strstr(errors[i].text, "redis refused: NOAUTH ") == NULL)
            fail_msg("%s: %s", strategies[i], errors[i].text);
    }
}

/* Each server has its own login, in any order of them. */
TEST(test_each_its_own_login)
{
    struct redis_server *other = redis_server_start();
    struct dlock_error error = {""};
    const char *right = text_of(
        "%s?user=shop&password=%s,%s?user=else&password=other&db=2",
        redis_server_url(rig.server), PASSWORD_URL, redis_server_url(other));
    const char *wrong = text_of(
        "%s?user=else&password=other&db=2,%s?user=shop&password=%s",
        redis_server_url(rig.server), redis_server_url(other), PASSWORD_URL);

    redis_server_tell(other, "ACL SETUSER else on >other ~* &* +@all");
    redis_server_tell(other, "ACL SETUSER default " NO_SCRIPTS);
    if (take_by("multi", right, &error) != DLOCK_OK)
        fail_msg("%s", error.text);
    assert_int_equal(take_by("multi", wrong, &error), DLOCK_UNREACHABLE);
    assert_non_null(strstr(error.text, "redis refused the login: WRONGPASS "));
    redis_server_stop(other);
}

TEST(test_ipv6)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6,
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct dlock_error error = {""};

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0) {
        print_message("# no IPv6 loopback on this machine\n");
        skip();
    }
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    (void)close(fd);
    lock_rig_tell("CONFIG SET bind ::1");
    lock_rig_tell("CONFIG SET port %d", ntohs(at.sin6_port));
    if (take_by("fenced",
                text_of("redis://shop:%s@[::1]:%d/1", PASSWORD_URL,
                        ntohs(at.sin6_port)),
                &error) != DLOCK_OK)
        fail_msg("%s", error.text);
}

/* The service's other connection: its hints go where the locks are. */
TEST(test_values_log_in)
{
    struct value value = {.key = "stock:{1:0}", .text = "7"};
    /* The first of several. */
    const char *url = with_login(rig.server, "user=shop&password=" PASSWORD_URL
                                             "&db=4,unix:/another");
    struct values *values;
    char reply[200];

    assert_ok(values_open(url, 1000, &values, NULL));
    assert_ok(values_set(values, &value, 1, NULL));
    value.text[0] = '\0';
    assert_ok(values_get(values, &value, 1, NULL));
    assert_string_equal(value.text, "7");
    values_close(values);
    redis_server_ask(rig.server, "INFO keyspace", reply, sizeof(reply));
    assert_non_null(strstr(reply, "db4:keys=1"));
    assert_ok(
        values_open(with_login(rig.server, "db=99"), 1000, &values, NULL));
    assert_int_not_equal(values_get(values, &value, 1, NULL), DLOCK_OK);
    values_close(values);
}

LOCK_RIG_MAIN

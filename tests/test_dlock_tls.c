/*
 * TLS to a real redis-server, with certificates made for the occasion: locks,
 * wake-ups, renewals and values work; and who cannot be trusted is not talked to.
 */
#include "lock/backends.h" /* made by the Makefile */
#include "server/base/values.h"
#include "tests/support/fake_resolver.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"
#include "tests/support/server_proc.h"

struct tls {
    struct temp_dir dir; /* ca.pem, server.pem with its key, other.pem */
    int port;
};

static struct tls tls;

/* Certificates --------------------------------------------------------------- */

static void shell(const char *command)
{
    char text[2000];
    char *argv[] = {"sh", "-ec", text, NULL};

    (void)snprintf(text, sizeof(text), "cd %s; %s", tls.dir.path, command);
    server_proc_run("openssl", argv);
}

static void make_certificates(void)
{
    shell(
        "for ca in ca other; do openssl req -x509 -newkey rsa:2048 -nodes "
        "-subj /CN=$ca -days 2 -keyout $ca.key -out $ca.pem; done;"
        "openssl req -newkey rsa:2048 -nodes -subj /CN=shop -keyout server.key "
        "-out server.csr;"
        "echo subjectAltName=IP:127.0.0.1,DNS:redis.test >ext;"
        "openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key "
        "-CAcreateserial -days 2 -extfile ext -out server.crt;"
        "cat server.crt server.key >server.pem");
}

/* SERVER gets a port for TLS, or has this PORT; which. CLIENTS: yes, no. */
static int serve_tls(const struct redis_server *server, int port,
                     const char *clients)
{
    const char *dir = tls.dir.path;
    char reply[64] = "";

    redis_server_tell(
        server,
        "CONFIG SET tls-cert-file %s/server.pem tls-key-file %s/server.pem "
        "tls-ca-cert-file %s/ca.pem tls-auth-clients %s",
        dir, dir, dir, clients);
    while (strcmp(reply, "+OK\r\n") != 0) {
        if (port == 0 || reply[0] != '\0') /* that one is taken */
            port = (int)server_proc_free_port("test_dlock_tls");
        redis_server_ask(server, text_of("CONFIG SET tls-port %d", port), reply,
                         sizeof(reply));
    }
    return port;
}

static int teardown(void **state)
{
    temp_dir_remove(&tls.dir);
    return lock_rig_teardown(state);
}

static int fresh(void **state)
{
    (void)lock_rig_fresh(state);
    tls.port = serve_tls(rig.server, tls.port, "no");
    return 0;
}

/* Urls ------------------------------------------------------------------------- */

/* "rediss://HOST:PORT?ca=DIR/CA" and MORE. */
static const char *url_of(const char *host, const char *ca, const char *more)
{
    return text_of("rediss://%s:%d?ca=%s/%s%s", host, tls.port, tls.dir.path,
                   ca, more);
}

static void fresh_story(const char *lock)
{
    tls.port = serve_tls(rig.server, tls.port, "no");
    rig.url = url_of("127.0.0.1", "ca.pem", "");
}

static int setup(void **state)
{
    static const struct lock_story_host host = {.fresh = fresh_story};

    if (lock_rig_setup(state) != 0)
        return -1;
    lock_story_host = &host;
    temp_dir_make(&tls.dir);
    make_certificates();
    return 0;
}

static struct dlock *open_client(const char *strategy, const char *url)
{
    return lock_rig_open(
        &(struct dlock_options){.url = url,
                                .strategy = strategy,
                                .watchdog_lease_ms = LOCK_RIG_LEASE_MS});
}

static enum dlock_status try_by(const char *url, struct dlock_error *error)
{
    return lock_rig_try(&(struct dlock_options){.url = url}, error);
}

static void works_by(const char *url)
{
    lock_rig_works(&(struct dlock_options){.url = url});
}

static void fails_by(const char *url, const char *text)
{
    (void)lock_rig_fails(&(struct dlock_options){.url = url}, text);
}

/* Tests ------------------------------------------------------------------------ */

#define TEST(test) UNIT_TEST_WITH(NO_FIXTURE, test, fresh, NULL, NULL)

/* What the server sends behind the handshake is none of the commands' replies: the
 * connection is not taken for a broken one. */
TEST(test_one_connection)
{
    struct dlock *client =
        open_client("fenced", url_of("127.0.0.1", "ca.pem", ""));
    struct dlock_session *session = lock_rig_session(client);
    struct dlock_grant grant;

    for (int i = 0; i < 10; i++) {
        assert_ok(lock_rig_take(session, "k", 0, 60000, &grant));
        assert_ok(dlock_release(session, &grant, NULL));
    }
    lock_rig_tell("CONFIG RESETSTAT");
    for (int i = 0; i < 10; i++) {
        assert_ok(lock_rig_take(session, "k", 0, 60000, &grant));
        assert_ok(dlock_release(session, &grant, NULL));
    }
    /* The one that asks. */
    assert_int_equal(
        redis_server_info(rig.server, "stats", "total_connections_received:"),
        1);
    dlock_close(client);
}

static const struct lock_story stories[] = {
    {"locks work", "redisson fair fenced token-lua multi",
     "a takes 60000; held; b takes -> busy; a gives; free; a takes 60000; "
     "held; b takes -> busy; a gives; free; b takes 60000; b gives"},
    /* By a subscriber, and by the watchdog, for longer than a lease. */
    {"wake-ups and renewals work", "redisson",
     "watchdog lease; a takes; b begins wait=long; sleep lease+500; b waits; "
     "a has left=1..; clock; a gives; b ends; took 0..prompt"},
};
LOCK_STORIES_TEST

/* Longer than a record, and more than a few of them. */
TEST(test_values)
{
    enum { N = 500 };
    static struct value list[N];
    static char keys[N][100];
    struct values *values;

    for (int i = 0; i < N; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "%090d", i);
        list[i].key = keys[i];
        (void)snprintf(list[i].text, sizeof(list[i].text), "%050d", i);
    }
    assert_ok(
        values_open(url_of("127.0.0.1", "ca.pem", ""), 1000, &values, NULL));
    assert_ok(values_set(values, list, N, NULL));
    for (int i = 0; i < N; i++)
        list[i].text[0] = '\0';
    assert_ok(values_get(values, list, N, NULL));
    for (int i = 0; i < N; i++)
        assert_int_equal(atoi(list[i].text), i);
    values_close(values);
}

TEST(test_who_is_not_trusted)
{
    int port = (int)server_proc_free_port("test_dlock_tls");
    struct dlock_error error = {""};

    fails_by(url_of("127.0.0.1", "other.pem", ""), "certificate: ");
    /* The same server by an address that its certificate does not have. */
    lock_rig_tell("CONFIG SET bind \"127.0.0.1 127.0.0.2\"");
    fails_by(url_of("127.0.0.2", "ca.pem", ""),
             "certificate: IP address mismatch");
    fails_by(url_of("127.0.0.1", "none.pem", ""), "none.pem: ");
    /* The system does not know it. */
    fails_by(text_of("rediss://127.0.0.1:%d", tls.port), "certificate: ");
    lock_rig_tell("CONFIG SET port %d", port);
    /* It waits for the rest of a line, and we for the time of a connection. */
    (void)lock_rig_fails(
        &(struct dlock_options){.url = text_of("rediss://127.0.0.1:%d", port),
                                .connect_timeout_ms = LOCK_RIG_TIMEOUT_MS},
        "TLS: ");
    /* Nothing was carried out, and the text says so. */
    assert_int_equal(try_by(text_of("redis://127.0.0.1:%d", tls.port), &error),
                     DLOCK_UNREACHABLE);
    assert_non_null(strstr(error.text, "wants TLS"));
    fails_by(text_of("redis://me:secret@127.0.0.1:%d", tls.port), "wants TLS");
    lock_rig_tell("CONFIG SET port 0");
}

/* A name is told to the server, which may have others, with other certificates; and the
 * certificate must have it. The server here would show other.pem for any other name, and
 * knows nothing of Redis. */
TEST(test_names)
{
    int port = (int)server_proc_free_port("test_dlock_tls");
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons((in_port_t)tls.port)};
    struct server_proc proc = {.what = "openssl"};
    char command[1000];
    char *argv[] = {"sh", "-c", command, NULL};

    fake_resolver_begin();
    fake_resolver_tell(at);
    fails_by(url_of("another.test", "ca.pem", ""),
             "certificate: hostname mismatch");
    works_by(url_of("redis.test", "ca.pem", ""));
    at.sin_port = htons((in_port_t)port);
    fake_resolver_forget();
    fake_resolver_tell(at);
    (void)snprintf(command, sizeof(command),
                   "cd %s; exec openssl s_server -accept %d -rev "
                   "-cert other.pem -key other.key -servername redis.test "
                   "-cert2 server.pem -key2 server.pem",
                   tls.dir.path, port);
    assert_true(server_proc_start(&proc, argv, "ACCEPT", NULL));
    fails_by(text_of("rediss://redis.test:%d?ca=%s/ca.pem", port, tls.dir.path),
             "TLS: the server hung up");
    server_proc_kill(&proc);
}

TEST(test_client_certificates)
{
    const char *dir = tls.dir.path, *at = "127.0.0.1";
    struct dlock_error error = {""};

    tls.port = serve_tls(rig.server, tls.port, "yes");
    /* It hangs up behind the handshake, and has carried out nothing. */
    assert_int_equal(try_by(url_of(at, "ca.pem", ""), &error),
                     DLOCK_UNREACHABLE);
    assert_non_null(strstr(error.text, "certificate: cert=FILE"));
    works_by(url_of(at, "ca.pem", text_of("&cert=%s/server.pem", dir)));
    works_by(
        url_of(at, "ca.pem",
               text_of("&cert=%s/server.crt&key=%s/server.key", dir, dir)));
    fails_by(url_of(at, "ca.pem",
                    text_of("&cert=%s/server.crt&key=%s/ca.key", dir, dir)),
             "ca.key: ");
}

/* It ends and comes back while a connection stands: no SIGPIPE. Its silence during
 * the handshake has a bound. */
TEST(test_outage)
{
    const char *url = url_of("127.0.0.1", "ca.pem", "");
    struct dlock *client = open_client("fenced", url);
    struct dlock_session *session = lock_rig_session(client);
    struct dlock_error error = {""};
    struct dlock_grant grant;
    uint64_t began_ms;

    assert_ok(lock_rig_take(session, "k", 0, 60000, &grant));
    redis_server_kill(rig.server);
    assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_UNREACHABLE);
    redis_server_restart(rig.server);
    tls.port = serve_tls(rig.server, tls.port, "no");
    assert_ok(lock_rig_take(session, "k", 5000, 60000, &grant));
    dlock_close(client);
    redis_server_pause(rig.server);
    began_ms = lock_rig_now_ms();
    assert_int_equal(
        lock_rig_try(
            &(struct dlock_options){.url = url, .connect_timeout_ms = 500},
            &error),
        DLOCK_UNREACHABLE);
    assert_non_null(strstr(error.text, "TLS: "));
    assert_in_range(lock_rig_now_ms(), began_ms + 400,
                    began_ms + LOCK_RIG_PROMPT_MS);
    redis_server_resume(rig.server);
}

/* A sentinel, and what it watches, all by TLS; it wants a certificate. */
TEST(test_sentinel)
{
    const char *dir = tls.dir.path;
    int port = (int)server_proc_free_port("test_dlock_tls");
    struct redis_server *sentinel;

    sentinel = redis_server_start_sentinel(
        text_of("tls-port %d\ntls-replication yes\n"
                "tls-auth-clients yes\ntls-ca-cert-file %s/ca.pem\n"
                "tls-cert-file %s/server.pem\ntls-key-file %s/server.pem\n"
                "sentinel monitor main 127.0.0.1 %d 1\n",
                port, dir, dir, dir, tls.port));
    /* Two handshakes, one behind the other. */
    works_by(text_of("sentinels://127.0.0.1:%d/main?ca=%s/ca.pem"
                     "&cert=%s/server.crt&key=%s/server.key",
                     port, dir, dir, dir));
    fails_by(
        text_of("sentinels://127.0.0.1:%d/main?ca=%s/other.pem", port, dir),
        "certificate: ");
    redis_server_stop(sentinel);
}

/* A node that does not know its address has the one by which it was asked. */
TEST(test_cluster)
{
    struct redis_server *node = redis_server_start_node(600000);
    int port = serve_tls(node, 0, "no");

    redis_server_tell(
        node, "CONFIG SET tls-cluster yes cluster-announce-tls-port %d", port);
    redis_server_tell(node, "CLUSTER ADDSLOTSRANGE 0 16383");
    redis_server_await(node, "CLUSTER INFO", "cluster_state:ok");
    works_by(
        text_of("clusters://127.0.0.1:%d?ca=%s/ca.pem", port, tls.dir.path));
    fails_by(
        text_of("clusters://127.0.0.1:%d?ca=%s/other.pem", port, tls.dir.path),
        "certificate: ");
    redis_server_stop(node);
}

int main(void)
{
    if (!DLOCK_WITH_TLS) {
        printf("1..0 # SKIP built without TLS\n");
        return 0;
    }
    return unit_test_run(setup, teardown);
}

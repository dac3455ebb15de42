/*
 * The rights that dlock(3) asks for besides those of a lock: for other calls, and on
 * other ways to a server. With all of its row a call works, and the server has refused
 * nothing; with one less its text names what is lacking.
 */
#include "lock/dlock_deadlock.h"
#include "lock/dlock_inspect.h"
#include "lock/dlock_values.h"
#include "tests/support/lock_rig.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/rights_rig.h"

enum { WAIT_MS = 60000 };

/* Other calls ---------------------------------------------------------------- */

/* A call by SESSION of the user, while another client holds "k", and waits. */
struct row {
    const char *head;     /* in dlock(3) */
    const char *strategy; /* whose lock it is */
    bool besides;         /* those of the lock are needed, too */
    enum dlock_status (*call)(struct dlock_session *session, const char *url,
                              struct dlock_error *error);
};

static enum dlock_status inspect(struct dlock_session *session, const char *url,
                                 struct dlock_error *error)
{
    struct dlock_holder holder;

    (void)url;
    return dlock_inspect(session, "k", &holder, error);
}

static enum dlock_status count(struct dlock_session *session, const char *url,
                               struct dlock_error *error)
{
    size_t n;

    (void)url;
    return dlock_inspect_waiters(session, "k", NULL, 0, &n, error);
}

static enum dlock_status force(struct dlock_session *session, const char *url,
                               struct dlock_error *error)
{
    (void)url;
    return dlock_force_release(session, "k", error);
}

/* Those that wait are looked for by who waits, and by who asks. */
static enum dlock_status look(struct dlock_session *session, const char *url,
                              struct dlock_error *error)
{
    struct dlock_terms terms = {.wait_ms = 300, .deadlock_ms = 1};
    struct dlock_grant grant;
    char text[DLOCK_WAITS_BYTES_MAX];
    enum dlock_status status =
        dlock_acquire(session, "k", &terms, &grant, error);

    (void)url;
    if (status != DLOCK_TIMEOUT)
        return status;
    return dlock_waits_for(session, "k", text, error);
}

static enum dlock_status keep_values(struct dlock_session *session,
                                     const char *url, struct dlock_error *error)
{
    struct dlock_value value = {.key = "k", .text = "7"};
    struct dlock_values *values;
    enum dlock_status status;

    (void)session;
    assert_ok(dlock_values_open(url, WAIT_MS, &values, NULL));
    status = dlock_values_set(values, &value, 1, error);
    if (status == DLOCK_OK)
        status = dlock_values_get(values, &value, 1, error);
    dlock_values_close(values);
    return status;
}

static enum dlock_status tell_about(struct dlock_session *session,
                                    const char *url, struct dlock_error *error)
{
    struct dlock_values *values;
    struct dlock_about about;
    enum dlock_status status;

    (void)session;
    assert_ok(dlock_values_open(url, WAIT_MS, &values, NULL));
    status = dlock_values_about(values, &about, error);
    dlock_values_close(values);
    return status;
}

static const struct row rows[] = {
    {"dlock_inspect()", "fenced", false, inspect},
    {"dlock_inspect() of a string", "token", false, inspect},
    {"dlock_inspect_waiters() of redisson", "redisson", false, count},
    {"dlock_force_release()", "redisson", true, force},
    {"dlock_force_release()", "fenced", true, force},
    {"dlock_force_release()", "fair", true, force},
    {"deadlock_ms", "fenced", true, look},
    {"deadlock_ms", "fair", true, look},
    {"dlock_values_get()", "redisson", false, keep_values},
    {"dlock_values_about()", "redisson", false, tell_about},
};

/* The call, by a user with all RULES but number LESS. */
static struct outcome call(const struct row *row, const struct rights *rights,
                           size_t less)
{
    struct outcome outcome = {.error = {""}};
    struct dlock *client;
    struct lock_pair pair;
    char url[300];

    rights_give(rig.server, rights, less);
    pair = lock_pair_held(row->strategy, WAIT_MS);
    client = lock_rig_open(&(struct dlock_options){
        .strategy = row->strategy, .url = rights_url(rig.server, url)});
    outcome.status = row->call(lock_rig_session(client), url, &outcome.error);
    dlock_close(client);
    lock_pair_close(&pair);
    return outcome;
}

LOCK_TEST(test_other_calls)
{
    dlock_deadlock_register();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rights rights = {.n = 0};
        struct outcome outcome;
        size_t own_n;

        print_message("# %s, %s\n", rows[i].head, rows[i].strategy);
        rights_add_row(&rights, rows[i].head);
        own_n = rights.n;
        if (rows[i].besides)
            rights_add_row(&rights, rows[i].strategy);
        outcome = call(&rows[i], &rights, RIGHTS_ALL);
        if (outcome.status != DLOCK_OK)
            fail_msg("%s: %s", rows[i].head, outcome.error.text);
        rights_assert_enough(rig.server, rows[i].head);
        for (size_t less = 0; less < own_n; less++) {
            outcome = call(&rows[i], &rights, less);
            rights_assert_named(rows[i].head, rights.list[less], &outcome);
            assert_true(lock_rig_is_held());
        }
    }
}

/* Ways to a server ----------------------------------------------------------- */

static struct outcome try_by(const char *strategy, const char *url)
{
    struct outcome outcome = {.error = {""}};

    outcome.status =
        lock_rig_try(&(struct dlock_options){.strategy = strategy, .url = url},
                     &outcome.error);
    return outcome;
}

LOCK_TEST(test_a_database)
{
    struct rights rights = {.n = 0};
    struct outcome outcome;
    char url[300];

    rights_add_row(&rights, "a database but 0");
    rights_add_row(&rights, "setnx");
    rights_give(rig.server, &rights, RIGHTS_ALL);
    (void)snprintf(url + strlen(rights_url(rig.server, url)), 8, "&db=3");
    assert_ok(try_by("setnx", url).status);
    rights_give(rig.server, &rights, 0);
    outcome = try_by("setnx", url);
    rights_assert_named("a database", rights.list[0], &outcome);
}

LOCK_TEST(test_sentinel)
{
    struct redis_server *primary = redis_server_start_tcp(NULL);
    struct redis_server *sentinel = redis_server_start_tcp(primary);
    struct rights at_server = {.n = 0}, at_sentinel = {.n = 0};
    struct outcome outcome;
    char url[100], command[100];

    (void)snprintf(url, sizeof(url), "sentinel://shop:x@127.0.0.1:%d/main",
                   redis_server_port(sentinel));
    rights_add_row(&at_server, "sentinel:");
    rights_add_row(&at_server, "redisson");
    rights_add_row(&at_sentinel, "sentinel: at the sentinels");
    rights_give(primary, &at_server, RIGHTS_ALL);
    (void)snprintf(command, sizeof(command), "ACL SETUSER shop on nopass %s",
                   at_sentinel.list[0]);
    redis_server_ask(sentinel, command, NULL, 0);
    outcome = try_by("redisson", url);
    if (outcome.status != DLOCK_OK)
        fail_msg("%s", outcome.error.text);
    rights_assert_enough(primary, "sentinel:");
    rights_give(primary, &at_server, 0);
    outcome = try_by("redisson", url);
    rights_assert_named("sentinel:", at_server.list[0], &outcome);
    rights_give(primary, &at_server, RIGHTS_ALL);
    redis_server_ask(sentinel, "ACL SETUSER shop reset on nopass", NULL, 0);
    outcome = try_by("redisson", url);
    rights_assert_named("sentinel", at_sentinel.list[0], &outcome);
    redis_server_stop(sentinel);
    redis_server_stop(primary);
}

/* "k" is taken, and its slot begins to move with it: who looks at it is sent on. */
static struct outcome inspect_in_a_move(const struct redis_cluster *cluster,
                                        const struct rights *rights,
                                        size_t less)
{
    unsigned from = redis_cluster_owner(cluster, "k");
    unsigned to = redis_cluster_next(cluster, from);
    struct outcome outcome = {.error = {""}};
    struct dlock_terms terms = {.lease_ms = WAIT_MS};
    struct dlock_session *session;
    struct dlock_grant grant;
    struct dlock *client;
    char url[250];

    for (unsigned i = 0; i < cluster->nodes_n; i++)
        rights_give(cluster->nodes[i], rights, less);
    (void)snprintf(url, sizeof(url), "cluster://shop:x@%s",
                   cluster->url + strlen("cluster://"));
    client = lock_rig_open(&(struct dlock_options){.url = url});
    session = lock_rig_session(client);
    outcome.status = dlock_try(session, "k", &terms, &grant, &outcome.error);
    if (outcome.status == DLOCK_OK) {
        redis_cluster_move_begin(cluster, "k", from, to);
        redis_cluster_move_key(cluster, "k", from, to);
        outcome.status = inspect(session, url, &outcome.error);
        redis_cluster_move_key(cluster, "{k}:dlock-fence", from, to);
        redis_cluster_move_end(cluster, "k", from, to);
        redis_cluster_move(cluster, "k", to, from);
    }
    dlock_close(client);
    return outcome;
}

LOCK_TEST(test_cluster)
{
    struct redis_cluster *cluster = redis_cluster_start(3, false, 600000);
    struct rights rights = {.n = 0};
    struct outcome outcome;
    size_t own_n;

    rights_add_row(&rights, "cluster:");
    own_n = rights.n;
    rights_add_row(&rights, "fenced");
    rights_add_row(&rights, "dlock_inspect()");
    outcome = inspect_in_a_move(cluster, &rights, RIGHTS_ALL);
    if (outcome.status != DLOCK_OK)
        fail_msg("cluster: %s", outcome.error.text);
    for (unsigned i = 0; i < cluster->nodes_n; i++)
        rights_assert_enough(cluster->nodes[i], "cluster:");
    for (size_t less = 0; less < own_n; less++) {
        outcome = inspect_in_a_move(cluster, &rights, less);
        rights_assert_named("cluster:", rights.list[less], &outcome);
    }
    redis_cluster_stop(cluster);
}

LOCK_RIG_MAIN

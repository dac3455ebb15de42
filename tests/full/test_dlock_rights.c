/*
 * The rights that dlock(3) and stockade.conf(5) ask for: with all of its row a lock lives
 * its whole life, and a call works, and the server has refused nothing; with one less it
 * fails, with a text that names what is lacking. A lock is never told to be lost, and stays
 * behind nowhere.
 */
#include "lock/dlock_more.h"
#include "server/base/values.h"
#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"
#include "tests/support/redis_cluster.h"

enum {
    RIGHTS_MAX = 60,
    RIGHT_BYTES_MAX = 32,
    RIGHTS_ALL = RIGHTS_MAX, /* as the number of the one that is left out */
    LEASE_MS_MAX = 20000,
    OWN_LEASE_MS = 2000,
    SHORT_MS = 200, /* a release that is refused comes again for two of them */
    WAIT_MS = 60000,
    ELSEWHERE = DLOCK_CAP_RECORD | DLOCK_CAP_ZK | DLOCK_CAP_SQL,
};
#define PATIENT .connect_timeout_ms = 5000, .command_timeout_ms = 5000

/* As ACL SETUSER takes them, about the lock "k". */
struct rights {
    size_t n;
    char list[RIGHTS_MAX][RIGHT_BYTES_MAX];
};

/* The end of a call, or of the first of several that was not DLOCK_OK. */
struct outcome {
    enum dlock_status status;
    struct dlock_error error;
};

/* The table ------------------------------------------------------------------ */

/* "~{NAME}:dlock\-*" as a right about the lock "k". */
static void add(struct rights *rights, const char *word)
{
    char *to = rights->list[rights->n];
    const char *end = to + RIGHT_BYTES_MAX - 1;

    assert_true(rights->n++ < RIGHTS_MAX);
    while (*word != '\0' && *word != ';' && *word != ',' && to < end) {
        bool is_name = strncmp(word, "NAME", 4) == 0;

        if (*word != '\\')
            *to++ = *(is_name ? "k" : word);
        word += is_name ? 4 : 1;
    }
    *to = '\0';
}

/* Whether HEAD is one of those for which LINE tells the rights; *REST is the line behind
 * them. A line without any goes on with the row before it. */
static bool is_head(char *line, const char *head, char **rest)
{
    char *to = line, *end;

    for (const char *at = line; *at != '\0'; at++)
        if (*at != '\\')
            *to++ = *at;
    *to = '\0';
    end = strstr(line, ": +");
    if (end == NULL)
        end = line + strcspn(line, "\n") - (strstr(line, ":\n") != NULL);
    *rest = *end == ':' ? end + 1 : end;
    *end = '\0';
    for (char *one = strtok(line, ","); one != NULL; one = strtok(NULL, ","))
        if (strcmp(one + (*one == ' '), head) == 0)
            return true;
    return false;
}

/* Adds the rights of the row HEAD of a manual page. */
static void add_row(struct rights *rights, const char *head)
{
    FILE *pages = popen("cat lock/dlock.3 server/stockade.conf.5", "r");
    bool in_section = false, in_row = false;
    size_t before = rights->n;
    char line[400];

    assert_non_null(pages);
    while (fgets(line, sizeof(line), pages) != NULL) {
        char *rest = line;

        if (strncmp(line, ".SH ", 4) == 0)
            in_section = strcmp(line, ".SH RIGHTS\n") == 0;
        if (line[0] != ' ')
            in_row = in_section && is_head(line, head, &rest);
        if (in_row)
            for (char *word = strtok(rest, " \n"); word != NULL;
                 word = strtok(NULL, " \n"))
                if (strchr("+~&", word[0]) != NULL)
                    add(rights, word);
    }
    assert_int_equal(pclose(pages), 0);
    if (rights->n == before)
        fail_msg("no rights of %s in the manual pages", head);
}

/* The user ------------------------------------------------------------------- */

static void give_rights(const struct redis_server *server,
                        const struct rights *rights, size_t less)
{
    char command[2000] = "ACL SETUSER shop reset on nopass";
    char reply[200];

    for (size_t i = 0; i < rights->n; i++)
        if (i != less)
            (void)snprintf(command + strlen(command),
                           sizeof(command) - strlen(command), " %s",
                           rights->list[i]);
    redis_server_ask(server, command, reply, sizeof(reply));
    assert_string_equal(reply, "+OK\r\n");
    redis_server_tell(server, "SCRIPT FLUSH");
    redis_server_tell(server, "FLUSHALL");
    redis_server_tell(server, "ACL LOG RESET");
}

/* The url by which that user comes to the rig's server. */
static const char *user_url(void)
{
    return text_of("%s?user=shop&password=x", redis_server_url(rig.server));
}

/* With all of its row it went well, and the server has refused nothing. */
static void expect_enough(const struct redis_server *server, const char *what,
                          const struct outcome *outcome)
{
    char reply[400];

    if (outcome->status != DLOCK_OK)
        fail_msg("%s: %s", what, outcome->error.text);
    redis_server_ask(server, "ACL LOG 1", reply, sizeof(reply));
    if (strcmp(reply, "*0\r\n") != 0)
        fail_msg("%s: refused by its own row: %s", what, reply);
}

/* OUTCOME of WHAT without RIGHT is no success, no loss, and a text that names it:
 * "+pubsub|numsub" is told as "pubsub"; a key, as one of the keys. */
static void expect_named(const char *what, const char *right,
                         const struct outcome *outcome)
{
    const char *text = outcome->error.text;
    char name[RIGHT_BYTES_MAX];

    (void)snprintf(name, sizeof(name), "%s",
                   right[0] == '~'   ? "key"
                   : right[0] == '&' ? "publish {k}:dlock-"
                                     : right + 1);
    name[strcspn(name, "|")] = '\0';
    if (outcome->status == DLOCK_OK || outcome->status == DLOCK_LOST ||
        outcome->status == DLOCK_TIMEOUT)
        fail_msg("%s without %s: %s, %s", what, right,
                 dlock_status_text(outcome->status), text);
    if (strcasestr(text, name) == NULL)
        fail_msg("%s without %s: '%s' does not name it", what, right, text);
}

/* Locks ---------------------------------------------------------------------- */

static unsigned lease_ms = 300; /* of the watchdog */

struct life {
    struct lock_pair pair;
    unsigned can;
    struct outcome outcome;
};

static bool went(struct life *life, enum dlock_status status)
{
    life->outcome.status = status;
    return status == DLOCK_OK;
}

static struct life open_life(const char *strategy, unsigned timeout_ms)
{
    rig.url = user_url();
    rig.watchdog_lease_ms = lease_ms;
    rig.longest_lease_ms = OWN_LEASE_MS;
    rig.command_timeout_ms = timeout_ms;
    step_log_reset(&rig.log);
    return (struct life){.pair = lock_pair_open(strategy),
                         .can = dlock_strategy_find(strategy)->capabilities};
}

/* A waiter that is woken by the release, if the lock wakes. */
static bool hand_over(struct life *life, struct dlock_grant *grant)
{
    struct dlock_error *error = &life->outcome.error;
    struct note note = {.n = 0};

    if ((life->can & DLOCK_CAP_WAKE) == 0)
        return went(life, dlock_release(life->pair.session[0], grant, error));
    assert_ok(note_begin(life->pair.session[1], "k", WAIT_MS, &note));
    step_log_await(&rig.log, "subscribe", 1);
    if (!went(life, dlock_release(life->pair.session[0], grant, error)))
        return false;
    (void)note_await(&note);
    (void)snprintf(error->text, sizeof(error->text), "%s", note.text);
    return went(life, note.status) &&
           went(life, dlock_release(life->pair.session[1], &note.grant, error));
}

/* Takes "k", twice if that can be; extends it; has it renewed; gives it on. */
static void live(struct life *life)
{
    bool renews = (life->can & DLOCK_CAP_RENEW) != 0;
    struct dlock_terms terms = {.lease_ms = renews ? 0 : OWN_LEASE_MS,
                                .fenced = (life->can & DLOCK_CAP_TOKENS) != 0};
    struct dlock_error *error = &life->outcome.error;
    struct dlock_session *session = life->pair.session[0];
    struct dlock_grant grant, inner;

    if (!went(life, dlock_try(session, "k", &terms, &grant, error)))
        return;
    if ((life->can & DLOCK_CAP_REENTRANT) != 0 &&
        (!went(life, dlock_try(session, "k", &terms, &inner, error)) ||
         !went(life, dlock_release(session, &inner, error))))
        return;
    if (renews)
        step_log_await(&rig.log, "eval-renew", 1);
    if ((life->can & DLOCK_CAP_LEASE) != 0 &&
        !went(life, dlock_extend(session, &grant, OWN_LEASE_MS, error)))
        return;
    (void)hand_over(life, &grant);
}

/* A busy machine may renew too late: then once more, with longer leases from there on. */
static struct outcome whole_life(const char *strategy, unsigned timeout_ms)
{
    struct life life;

    for (;; lease_ms *= 2) {
        life = open_life(strategy, timeout_ms);
        live(&life);
        lock_pair_close(&life.pair);
        if (life.outcome.status != DLOCK_LOST || lease_ms > LEASE_MS_MAX)
            return life.outcome;
        /* A lease that the call has left behind ends. */
        lock_rig_sleep_ms(OWN_LEASE_MS + lease_ms);
    }
}

/* Whether a lock of STRATEGY may stay behind: for ever, as its lesson is, if it has no
 * lease; for its lease, if nothing is asked before. */
static bool may_stay(const char *strategy)
{
    unsigned can = dlock_strategy_find(strategy)->capabilities;

    if ((can & DLOCK_CAP_WAKE) != 0)
        return false;
    return (can & DLOCK_CAP_LEASE) == 0 ||
           strcmp(strategy, "setnx-expire") == 0 ||
           lock_rig_ask("PTTL k") != -1; /* by now it may have ended */
}

static void check_lock(const char *strategy)
{
    struct rights rights = {.n = 0};
    struct outcome outcome;

    add_row(&rights, strategy);
    give_rights(rig.server, &rights, RIGHTS_ALL);
    /* On a busy machine a connection may break between its server's age and its vote. */
    do
        outcome = whole_life(strategy, 0);
    while (strstr(outcome.error.text, "not known to have been up") != NULL);
    expect_enough(rig.server, strategy, &outcome);
    for (size_t less = 0; less < rights.n; less++) {
        if (strcmp(strategy, "guard-thread") == 0 &&
            strcmp(rights.list[less], "+pttl") == 0)
            continue; /* it says nothing of anything */
        /* On a busy machine the short timeout may be over first. */
        do {
            give_rights(rig.server, &rights, less);
            outcome = whole_life(strategy, SHORT_MS);
        } while (strstr(outcome.error.text, "timed out") != NULL ||
                 strstr(outcome.error.text, "the reply was lost") != NULL);
        expect_named(strategy, rights.list[less], &outcome);
        if (lock_rig_is_held() && !may_stay(strategy))
            fail_msg("%s without %s: the lock is left behind", strategy,
                     rights.list[less]);
    }
}

LOCK_TEST(test_each_strategy)
{
    const struct dlock_strategy_info *info;
    unsigned n = 0;

    /* The age of a server decides on its vote. */
    redis_server_await(rig.server, "INFO server", "uptime_in_seconds:4");
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        if ((info->capabilities & DLOCK_CAP_REMOTE) == 0 ||
            (info->capabilities & ELSEWHERE) != 0 ||
            strcmp(info->name, "reentrant-broken") == 0)
            continue;
        check_lock(info->name);
        n++;
    }
    assert_int_equal(n, 19);
}

/* A holder of "k" loses RIGHT: what its release then says is so; or its extend, to a
 * lease that is shorter. */
static void check_holder(const char *strategy, const char *right, bool extends)
{
    struct dlock_terms terms = {
        .wait_ms = WAIT_MS, .lease_ms = WAIT_MS, .fenced = true};
    struct life life = open_life(strategy, SHORT_MS);
    struct dlock_session *session = life.pair.session[0];
    struct dlock_error *error = &life.outcome.error;
    struct dlock_grant grant;
    enum dlock_status status;
    bool is_done;

    assert_ok(dlock_acquire(session, "k", &terms, &grant, error));
    lock_rig_tell("ACL SETUSER shop %s%s",
                  right[0] == '+'   ? "-"
                  : right[0] == '&' ? "resetchannels"
                                    : "resetkeys",
                  right[0] == '+' ? right + 1 : "");
    status = extends ? dlock_extend(session, &grant, WAIT_MS / 2, error)
                     : dlock_release(session, &grant, error);
    is_done =
        extends ? lock_rig_ask("PTTL k") <= WAIT_MS / 2 : !lock_rig_is_held();
    if (status == DLOCK_LOST || (status == DLOCK_OK && !is_done) ||
        (status == DLOCK_UNREACHABLE && is_done) ||
        (status != DLOCK_OK && error->text[0] == '\0'))
        fail_msg("%s, %s taken away: %s: %s, %s, and it is %s", strategy, right,
                 extends ? "extend" : "release", dlock_status_text(status),
                 error->text, is_done ? "done" : "not done");
    /* Waiters would hear nothing without it. */
    if (right[0] == '&' || strcmp(right, "+publish") == 0)
        assert_false(is_done);
    lock_pair_close(&life.pair);
}

LOCK_TEST(test_a_right_taken_from_a_holder)
{
    static const char *const strategies[] = {"redisson", "fair", "fenced",
                                             "multi"};

    for (size_t i = 0; i < COUNT_OF(strategies); i++) {
        struct rights rights = {.n = 0};

        add_row(&rights, strategies[i]);
        for (size_t at = 0; at < 2 * rights.n; at++) {
            give_rights(rig.server, &rights, RIGHTS_ALL);
            check_holder(strategies[i], rights.list[at / 2], at % 2 == 1);
        }
    }
}

/* Other calls ---------------------------------------------------------------- */

/* A call by SESSION of the user, while another client holds "k", and waits. */
struct row {
    const char *head;     /* in dlock(3) */
    const char *strategy; /* whose lock it is */
    bool besides;         /* those of the lock are needed, too */
    enum dlock_status (*call)(struct dlock_session *session,
                              struct dlock_error *error);
};

static enum dlock_status inspect(struct dlock_session *session,
                                 struct dlock_error *error)
{
    struct dlock_holder holder;

    return dlock_inspect(session, "k", &holder, error);
}

static enum dlock_status count(struct dlock_session *session,
                               struct dlock_error *error)
{
    size_t n;

    return dlock_inspect_waiters(session, "k", NULL, 0, &n, error);
}

static enum dlock_status force(struct dlock_session *session,
                               struct dlock_error *error)
{
    return dlock_force_release(session, "k", error);
}

/* Those that wait are looked for by who waits, and by who asks. */
static enum dlock_status look(struct dlock_session *session,
                              struct dlock_error *error)
{
    struct dlock_terms terms = {.wait_ms = 300, .deadlock_ms = 1};
    struct dlock_grant grant;
    char text[DLOCK_WAITS_BYTES_MAX];
    enum dlock_status status =
        dlock_acquire(session, "k", &terms, &grant, error);

    return status == DLOCK_TIMEOUT ? dlock_waits_for(session, "k", text, error)
                                   : status;
}

static enum dlock_status keep_values(struct dlock_session *session,
                                     struct dlock_error *error)
{
    struct value value = {.key = "stock:{7:0}", .text = "7"};
    struct values *values;
    enum dlock_status status;

    assert_ok(values_open(user_url(), WAIT_MS, &values, NULL));
    status = values_set(values, &value, 1, error);
    if (status == DLOCK_OK)
        status = values_get(values, &value, 1, error);
    values_close(values);
    return status;
}

static enum dlock_status tell_about(struct dlock_session *session,
                                    struct dlock_error *error)
{
    struct values *values;
    struct values_about about;
    enum dlock_status status;

    assert_ok(values_open(user_url(), WAIT_MS, &values, NULL));
    status = values_about(values, &about, error);
    values_close(values);
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
    {"stock hints", "redisson", false, keep_values},
    {"the server's account of itself", "redisson", false, tell_about},
};

/* The call, by a user with all RULES but number LESS. */
static struct outcome call(const struct row *row, const struct rights *rights,
                           size_t less)
{
    struct outcome outcome = {.error = {""}};
    struct dlock *client;
    struct lock_pair pair;

    give_rights(rig.server, rights, less);
    pair = lock_pair_held(row->strategy, WAIT_MS);
    client = lock_rig_open(&(struct dlock_options){
        .strategy = row->strategy, .url = user_url(), PATIENT});
    outcome.status = row->call(lock_rig_session(client), &outcome.error);
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

        add_row(&rights, rows[i].head);
        own_n = rights.n;
        if (rows[i].besides)
            add_row(&rights, rows[i].strategy);
        outcome = call(&rows[i], &rights, RIGHTS_ALL);
        expect_enough(rig.server, rows[i].head, &outcome);
        for (size_t less = 0; less < own_n; less++) {
            outcome = call(&rows[i], &rights, less);
            expect_named(rows[i].head, rights.list[less], &outcome);
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
    const char *url = text_of("%s&db=3", user_url());
    struct outcome outcome;

    add_row(&rights, "a database but 0");
    add_row(&rights, "setnx");
    give_rights(rig.server, &rights, RIGHTS_ALL);
    assert_ok(try_by("setnx", url).status);
    give_rights(rig.server, &rights, 0);
    outcome = try_by("setnx", url);
    expect_named("a database", rights.list[0], &outcome);
}

LOCK_TEST(test_sentinel)
{
    struct redis_server *primary = redis_server_start_tcp(NULL);
    struct redis_server *sentinel = redis_server_start_tcp(primary);
    struct rights at_server = {.n = 0}, at_sentinel = {.n = 0};
    const char *url = text_of("sentinel://shop:x@127.0.0.1:%d/main",
                              redis_server_port(sentinel));
    struct outcome outcome;

    add_row(&at_server, "sentinel: at the servers");
    add_row(&at_server, "redisson");
    add_row(&at_sentinel, "sentinel: at the sentinels");
    give_rights(primary, &at_server, RIGHTS_ALL);
    redis_server_tell(sentinel, "ACL SETUSER shop on nopass %s",
                      at_sentinel.list[0]);
    outcome = try_by("redisson", url);
    expect_enough(primary, "sentinel:", &outcome);
    give_rights(primary, &at_server, 0);
    outcome = try_by("redisson", url);
    expect_named("sentinel:", at_server.list[0], &outcome);
    give_rights(primary, &at_server, RIGHTS_ALL);
    redis_server_tell(sentinel, "ACL SETUSER shop reset on nopass");
    outcome = try_by("redisson", url);
    expect_named("sentinel", at_sentinel.list[0], &outcome);
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

    for (unsigned i = 0; i < cluster->nodes_n; i++)
        give_rights(cluster->nodes[i], rights, less);
    client = lock_rig_open(&(struct dlock_options){
        .url =
            text_of("cluster://shop:x@%s", cluster->url + strlen("cluster://")),
        PATIENT});
    session = lock_rig_session(client);
    outcome.status = dlock_try(session, "k", &terms, &grant, &outcome.error);
    if (outcome.status == DLOCK_OK) {
        redis_cluster_move_begin(cluster, "k", from, to);
        redis_cluster_move_key(cluster, "k", from, to);
        outcome.status = inspect(session, &outcome.error);
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

    add_row(&rights, "cluster");
    own_n = rights.n;
    add_row(&rights, "fenced");
    add_row(&rights, "dlock_inspect()");
    outcome = inspect_in_a_move(cluster, &rights, RIGHTS_ALL);
    for (unsigned i = 0; i < cluster->nodes_n; i++)
        expect_enough(cluster->nodes[i], "cluster:", &outcome);
    for (size_t less = 0; less < own_n; less++) {
        outcome = inspect_in_a_move(cluster, &rights, less);
        expect_named("cluster:", rights.list[less], &outcome);
    }
    redis_cluster_stop(cluster);
}

LOCK_RIG_MAIN

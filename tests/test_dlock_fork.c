/*
 * A child of fork(2): what its parent has opened is not the child's, and what the parent
 * was in the middle of keeps the child from nothing.
 */
#include <signal.h>
#include <sys/wait.h>

#include "lock/core/forks.h"
#include "lock/dial/lookup.h"
#include "server/base/values.h"
#include "tests/support/async_note.h"
#include "tests/support/fake_resolver.h"
#include "tests/support/lock_rig.h"

/* The thread sanitizer ends a child of threads that starts one of its own. */
#ifdef __SANITIZE_THREAD__
#define CHILD_STARTS_A_THREAD() skip()
#else
#define CHILD_STARTS_A_THREAD()
#endif

/* GCC 12's address sanitizer does not take its allocator's mutexes for a fork. A parent's
 * thread that held one leaves it locked: the child's threads then stand still before
 * their first line, in ThreadStart, GetFromAllocator, Mutex::Lock. */
#ifdef __SANITIZE_ADDRESS__
#define CHILD_OF_BUSY_THREADS() skip()
#else
#define CHILD_OF_BUSY_THREADS()
#endif

/* In the child, where cmocka must not be used: not 0, and a line on stderr. */
#define EXPECT(condition)                                                      \
    do {                                                                       \
        if (!(condition)) {                                                    \
            (void)fprintf(stderr, "child: not so: %s\n", #condition);          \
            return -1;                                                         \
        }                                                                      \
    } while (0)

/* 0 if the child has ended, and has found nothing wrong. */
static int await_child(pid_t pid)
{
    uint64_t until_ms = lock_rig_now_ms() + LOCK_RIG_LONG_MS;
    int status = 0;
    pid_t ended = 0;

    while (ended == 0 && lock_rig_now_ms() < until_ms) {
        ended = waitpid(pid, &status, WNOHANG);
        lock_rig_sleep_ms(1);
    }
    if (ended == pid)
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    return -1;
}

/* Looks in a child, which has to find nothing wrong. */
static void in_child(int (*look)(void *arg), void *arg)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(look(arg) == 0 ? 0 : 1);
    assert_int_equal(await_child(pid), 0);
}

/* What a client has ------------------------------------------------------------ */

static int use_parents(struct dlock *client, struct dlock_session *session,
                       struct dlock_grant *grant)
{
    struct dlock_session *late = NULL;
    struct dlock_error error = {""};
    struct dlock_holder holder;
    struct dlock_grant other;

    EXPECT(dlock_release(session, grant, &error) == DLOCK_MISUSE);
    EXPECT(strcmp(error.text, "release: the session is the parent's") == 0);
    EXPECT(dlock_extend(session, grant, 5000, NULL) == DLOCK_MISUSE);
    EXPECT(dlock_try(session, "o", NULL, &other, NULL) == DLOCK_MISUSE);
    EXPECT(dlock_inspect(session, "k", &holder, NULL) == DLOCK_MISUSE);
    EXPECT(dlock_force_release(session, "k", NULL) == DLOCK_MISUSE);
    EXPECT(dlock_session_open(client, &late, NULL) == DLOCK_MISUSE);
    EXPECT(dlock_remaining_ms(session, grant) == 0);
    dlock_cancel(session);
    dlock_end_waits(client);
    return 0;
}

struct parent {
    const char *strategy;
    struct lock_pair *pair;
};

/* A client of the child's own finds the lock taken, and is no parent's. */
static int be_child(void *arg)
{
    const struct parent *parent = arg;
    struct lock_pair *pair = parent->pair;
    int wrong = use_parents(pair->client[0], pair->session[0], &pair->grant[0]);

    EXPECT(wrong == 0);
    dlock_session_close(pair->session[0]);
    dlock_close(pair->client[0]);
    dlock_close(pair->client[1]);
    EXPECT(lock_rig_probe(parent->strategy, "k") == DLOCK_BUSY);
    EXPECT(lock_rig_probe(parent->strategy, "free") == DLOCK_OK);
    return 0;
}

/* The parent holds it, renews it, and is not disturbed. */
LOCK_TEST(test_holder_is_not_disturbed)
{
    static const char *const all[] = {"setnx", "token-lua", "fenced", "multi"};

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct lock_pair pair = lock_pair_open(all[i]);
        struct parent parent = {all[i], &pair};

        assert_ok(lock_pair_take(&pair, 0, 0, 0));
        in_child(be_child, &parent);
        assert_ok(lock_pair_give(&pair, 0));
        assert_ok(lock_pair_take(&pair, 1, 0, 0));
        assert_ok(lock_pair_give(&pair, 1));
        lock_pair_close(&pair);
    }
}

/* What is the process' own ---------------------------------------------------- */

static int find_all_free(void *unused)
{
    struct dlock_places places;

    (void)dlock_lookup("hangs.test", "6379", 0, &places);
    EXPECT(lock_rig_probe("process", "held") == DLOCK_OK);
    EXPECT(lock_rig_probe("process", "k") == DLOCK_OK);
    return 0;
}

struct hold {
    const struct dlock_shared *shared;
    atomic_bool held;
};

static void *hold_for_a_moment(void *arg)
{
    struct hold *hold = arg;

    (void)pthread_mutex_lock(hold->shared->mutex);
    atomic_store(&hold->held, true);
    lock_rig_sleep_ms(100);
    (void)pthread_mutex_unlock(hold->shared->mutex);
    return NULL;
}

/* A thread that has one of the mutexes is not in the child, to unlock it there. */
LOCK_TEST(test_no_mutex_stays_locked)
{
    static const struct dlock_shared *const all[] = {
        &dlock_sessions_shared, &dlock_lookup_shared, &dlock_process_shared};
    struct dlock_session *session;
    struct dlock_grant grant;

    CHILD_STARTS_A_THREAD();
    /* From here on forks are seen. */
    session = lock_rig_session(lock_rig_client("process"));
    assert_ok(lock_rig_take(session, "held", 0, 0, &grant));
    fake_resolver_begin();
    fake_resolver_hang(true);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct hold hold = {.shared = all[i]};
        pthread_t thread;

        assert_int_equal(
            pthread_create(&thread, NULL, hold_for_a_moment, &hold), 0);
        while (!atomic_load(&hold.held))
            lock_rig_sleep_ms(1);
        in_child(find_all_free, NULL);
        (void)pthread_join(thread, NULL);
    }
    assert_int_equal(lock_rig_probe("process", "held"), DLOCK_BUSY);
    assert_ok(dlock_release(session, &grant, NULL));
}

static int reach_by_name(void *unused)
{
    const struct dlock_options options = {.url = "redis://asked.test:6379",
                                          .connect_timeout_ms =
                                              LOCK_RIG_LONG_MS};
    struct dlock_error error = {""};

    fake_resolver_hang(false);
    EXPECT(lock_rig_try(&options, &error) == DLOCK_OK);
    return 0;
}

/* The thread that would have answered is the parent's. */
LOCK_TEST(test_name_that_is_looked_up)
{
    struct dlock_places places;

    CHILD_STARTS_A_THREAD();
    fake_resolver_begin();
    fake_resolver_tell(lock_rig_at());
    fake_resolver_hang(true);
    (void)dlock_lookup("asked.test", "6379", 0, &places);
    while (fake_resolver_asked_n() == 0)
        lock_rig_sleep_ms(1);
    in_child(reach_by_name, NULL);
    fake_resolver_let_go("asked.test", "6379");
}

/* Asynchronous calls ---------------------------------------------------------- */

static int call_asynchronously(void *arg)
{
    const struct parent *parent = arg;
    const struct dlock_options options = {.url = lock_rig_url("fenced")};
    struct dlock *theirs = parent->pair->client[0];
    struct dlock *client = lock_rig_open(&options);
    struct dlock_session *session = lock_rig_session(client);
    struct note note = {.n = 0};

    EXPECT(note_begin(parent->pair->session[0], "k", 0, &note) == DLOCK_MISUSE);
    EXPECT(dlock_fd(theirs) == -1 && dlock_dispatch(theirs) == 0);
    dlock_close(theirs);
    EXPECT(note_begin(session, "free", 0, &note) == DLOCK_OK);
    EXPECT(note_await(&note) == DLOCK_OK);
    EXPECT(lock_rig_probe("process", "held") == DLOCK_OK);
    dlock_close(client);
    return 0;
}

/* One is on its way to the server, one is parked, of each kind of lock. */
static void fork_among_calls(void)
{
    struct lock_pair pair = lock_pair_held("fenced", 0);
    struct dlock *client = lock_rig_client("process");
    struct dlock_session *holder = lock_rig_session(client);
    struct dlock_session *waiter = lock_rig_session(client);
    struct parent parent = {"fenced", &pair};
    struct note on_its_way = {.n = 0}, parked = {.n = 0};
    struct dlock_grant grant;

    assert_ok(lock_rig_take(holder, "held", 0, 0, &grant));
    assert_ok(note_begin(waiter, "held", LOCK_RIG_LONG_MS, &parked));
    step_log_shut(&rig.log, "eval-acquire", DLOCK_BEFORE);
    assert_ok(note_begin(pair.session[1], "k", 0, &on_its_way));
    step_log_await_gate(&rig.log, 1);
    in_child(call_asynchronously, &parent);
    step_log_open(&rig.log);
    assert_int_equal(note_await(&on_its_way), DLOCK_BUSY);
    assert_ok(dlock_release(holder, &grant, NULL));
    assert_ok(note_await(&parked));
    assert_ok(lock_pair_give(&pair, 0));
}

/* A skip comes first, because it would leak what is open. */
LOCK_TEST(test_asynchronous_calls)
{
    CHILD_STARTS_A_THREAD();
    CHILD_OF_BUSY_THREADS();
    fork_among_calls();
}

/* A session whose close waits for its callback. */
struct closed {
    struct dlock *client;
    struct dlock_session *session;
    atomic_bool closing;
    atomic_bool go;
};

ASYNC_CALLBACK(wait_for_close)
{
    struct closed *closed = ctx;
    struct dlock_grant other;

    /* Until it is being closed: then it waits for nothing. */
    (void)lock_rig_take(session, "closed", LOCK_RIG_LONG_MS, 0, &other);
    atomic_store(&closed->closing, true);
    while (!atomic_load(&closed->go))
        lock_rig_sleep_ms(1);
}

static void *close_session(void *arg)
{
    const struct closed *closed = arg;

    dlock_session_close(closed->session);
    return NULL;
}

static int close_both(void *arg)
{
    const struct closed *closed = arg;

    dlock_session_close(closed->session);
    dlock_close(closed->client);
    return 0;
}

LOCK_TEST(test_session_that_is_being_closed)
{
    struct dlock *client = lock_rig_client("process");
    struct dlock_session *holder = lock_rig_session(client);
    struct closed closed = {.client = client,
                            .session = lock_rig_session(client)};
    struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_grant grant;
    pthread_t thread;

    assert_ok(lock_rig_take(holder, "closed", 0, 0, &grant));
    assert_ok(dlock_acquire_async(closed.session, "closed", &terms,
                                  wait_for_close, &closed, NULL));
    assert_int_equal(pthread_create(&thread, NULL, close_session, &closed), 0);
    while (!atomic_load(&closed.closing))
        lock_rig_sleep_ms(1);
    in_child(close_both, &closed);
    atomic_store(&closed.go, true);
    (void)pthread_join(thread, NULL);
    assert_ok(dlock_release(holder, &grant, NULL));
}

/* Values ------------------------------------------------------------------------ */

static int use_values(void *values)
{
    struct value value = {.key = "v"};
    struct values_about about;

    EXPECT(values_get(values, &value, 1, NULL) == DLOCK_MISUSE);
    EXPECT(values_set(values, &value, 1, NULL) == DLOCK_MISUSE);
    EXPECT(values_about(values, &about, NULL) == DLOCK_MISUSE);
    values_close(values);
    return 0;
}

LOCK_TEST(test_values)
{
    struct value value = {.key = "v", .text = "1"};
    struct values *values;

    assert_ok(values_open(lock_rig_url("fenced"), 5000, &values, NULL));
    assert_ok(values_set(values, &value, 1, NULL));
    in_child(use_values, values);
    value.text[0] = '\0';
    assert_ok(values_get(values, &value, 1, NULL));
    assert_string_equal(value.text, "1");
    values_close(values);
}

LOCK_RIG_MAIN

/*
 * Asynchronous calls, dlock_try() and dlock_cancel(): a callback comes exactly
 * once, a session does one thing at a time, and whoever was cancelled holds
 * nothing and renews nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/support/lock_rig.h"

/* What a callback was told. */
struct note {
    pthread_t thread;
    struct dlock_grant grant;
    atomic_uint n;
    enum dlock_status status;
    bool granted;
    bool close; /* the callback closes the session */
    char text[200];
};

static void note_done(void *ctx, struct dlock_session *session,
                      enum dlock_status status, const struct dlock_grant *grant,
                      const struct dlock_error *error)
{
    struct note *note = ctx;

    note->status = status;
    note->granted = grant != NULL;
    if (grant != NULL)
        note->grant = *grant;
    memcpy(note->text, error->text, sizeof(note->text));
    note->thread = pthread_self();
    if (note->close)
        dlock_session_close(session);
    (void)atomic_fetch_add(&note->n, 1);
}

static enum dlock_status await(struct note *note)
{
    uint64_t until = lock_rig_now_ms() + 20000;

    while (atomic_load(&note->n) == 0 && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(1);
    assert_int_equal(atomic_load(&note->n), 1);
    return note->status;
}

static enum dlock_status begin(struct dlock_session *session, const char *name,
                               unsigned wait_ms, struct note *note)
{
    struct dlock_terms terms = {.wait_ms = wait_ms};

    return dlock_acquire_async(session, name, &terms, note_done, note, NULL);
}

/* Asynchronous -------------------------------------------------------------- */

static void test_callback_comes_once_on_another_thread(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct note taken = {0};
    struct note given = {0};

    assert_int_equal(begin(pair.session[0], "k", 0, &taken), DLOCK_OK);
    assert_int_equal(await(&taken), DLOCK_OK);
    assert_true(taken.granted);
    assert_string_equal(taken.grant.name, "k");
    assert_string_equal(taken.text, "");
    assert_false(pthread_equal(taken.thread, pthread_self()));
    assert_int_equal(lock_rig_probe(*state, "redisson", "k"), DLOCK_BUSY);
    assert_int_equal(dlock_release_async(pair.session[0], &taken.grant,
                                         note_done, &given, NULL),
                     DLOCK_OK);
    assert_int_equal(await(&given), DLOCK_OK);
    assert_false(given.granted);
    assert_int_equal(lock_rig_probe(*state, "redisson", "k"), DLOCK_OK);
    lock_rig_sleep_ms(20);
    assert_int_equal(atomic_load(&taken.n), 1);
    assert_int_equal(atomic_load(&given.n), 1);
    lock_pair_close(&pair);
}

static void test_busy_and_refused(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_terms terms = {.wait_ms = 0};
    struct dlock_grant grant;
    struct note note = {0};

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(begin(pair.session[0], "k", 0, &note), DLOCK_OK);
    assert_int_equal(await(&note), DLOCK_BUSY);
    assert_false(note.granted);
    assert_string_equal(note.text, "acquire: somebody else holds the lock");
    /* Refused at once: there is no callback to wait for. */
    atomic_store(&note.n, 0);
    assert_int_equal(begin(pair.session[0], "", 0, &note), DLOCK_MISUSE);
    assert_int_equal(
        dlock_acquire_async(pair.session[0], "k", &terms, NULL, NULL, NULL),
        DLOCK_MISUSE);
    assert_int_equal(
        dlock_release_async(pair.session[0], NULL, note_done, &note, NULL),
        DLOCK_MISUSE);
    assert_int_equal(
        dlock_acquire_async(NULL, "k", &terms, note_done, &note, NULL),
        DLOCK_MISUSE);
    /* And a refused session is idle again. */
    assert_int_equal(begin(pair.session[0], "free", 0, &note), DLOCK_OK);
    assert_int_equal(await(&note), DLOCK_OK);
    lock_pair_close(&pair);
}

static void test_a_session_does_one_thing_at_a_time(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_session *busy = pair.session[0];
    struct dlock_error error = {""};
    struct dlock_grant held, grant;
    struct dlock_holder holder;
    struct note first = {0};
    struct note second = {0};

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &held), 0);
    assert_int_equal(begin(busy, "k", 10000, &first), DLOCK_OK);
    assert_int_equal(begin(busy, "other", 0, &second), DLOCK_MISUSE);
    assert_int_equal(dlock_try(busy, "other", NULL, &grant, &error),
                     DLOCK_MISUSE);
    assert_string_equal(error.text, "acquire: the session is in another call");
    assert_int_equal(dlock_release(busy, &held, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_extend(busy, &held, 100, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_inspect(busy, "k", &holder, NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_force_release(busy, "k", NULL), DLOCK_MISUSE);
    assert_int_equal(dlock_release(pair.session[1], &held, NULL), DLOCK_OK);
    assert_int_equal(await(&first), DLOCK_OK);
    assert_int_equal(dlock_release(busy, &first.grant, NULL), DLOCK_OK);
    assert_int_equal(atomic_load(&second.n), 0);
    lock_pair_close(&pair);
}

/* A chain of calls, each begun in the callback of the one before. */
struct chain {
    unsigned left;
    struct note last;
};

static void next_link(void *ctx, struct dlock_session *session,
                      enum dlock_status status, const struct dlock_grant *grant,
                      const struct dlock_error *error)
{
    struct chain *chain = ctx;

    if (grant != NULL &&
        dlock_release_async(session, grant, next_link, chain, NULL) == DLOCK_OK)
        return;
    if (status == DLOCK_OK && --chain->left > 0 &&
        dlock_acquire_async(session, "k", &(struct dlock_terms){.wait_ms = 0},
                            next_link, chain, NULL) == DLOCK_OK)
        return;
    note_done(&chain->last, session, status, grant, error);
}

static void test_callbacks_may_call(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_terms terms = {.wait_ms = 0};
    struct chain chain = {.left = 50};

    assert_int_equal(dlock_acquire_async(pair.session[0], "k", &terms,
                                         next_link, &chain, NULL),
                     DLOCK_OK);
    assert_int_equal(await(&chain.last), DLOCK_OK);
    assert_int_equal(chain.left, 0);
    assert_int_equal(lock_rig_probe(*state, "redisson", "k"), DLOCK_OK);
    lock_pair_close(&pair);
}

static void test_callback_may_close_the_session(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct note note = {.close = true};

    assert_int_equal(begin(pair.session[0], "k", 0, &note), DLOCK_OK);
    assert_int_equal(await(&note), DLOCK_OK);
    pair.session[0] = NULL;
    lock_pair_close(&pair);
}

/* Threads of this process by name. */
static unsigned threads_called(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    unsigned n = 0;

    assert_non_null(tasks);
    while ((task = readdir(tasks)) != NULL) {
        char path[300];
        char comm[32] = "";
        FILE *file;

        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
                       task->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(comm, sizeof(comm), file) != NULL)
            comm[strcspn(comm, "\n")] = '\0';
        n += strcmp(comm, name) == 0;
        (void)fclose(file);
    }
    (void)closedir(tasks);
    return n;
}

enum { CROWD_N = 1000, CROWD_THREADS_MAX = 4 };

/* A thousand acquires that wait, each in a session of its own. */
struct crowd {
    struct dlock *client;
    struct dlock_session *session[CROWD_N];
    struct note note[CROWD_N];
};

static struct crowd *crowd_open(struct lock_rig *rig, const char *strategy,
                                unsigned names_n)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    char name[24];

    assert_non_null(crowd);
    crowd->client = lock_rig_client(rig, strategy);
    for (unsigned i = 0; i < CROWD_N; i++) {
        crowd->session[i] = lock_rig_session(crowd->client);
        (void)snprintf(name, sizeof(name), "k%u", i % names_n);
        assert_int_equal(begin(crowd->session[i], name, 60000, &crowd->note[i]),
                         DLOCK_OK);
    }
    return crowd;
}

static void crowd_close(struct crowd *crowd)
{
    for (unsigned i = 0; i < CROWD_N; i++)
        dlock_session_close(crowd->session[i]);
    for (unsigned i = 0; i < CROWD_N; i++)
        assert_int_equal(atomic_load(&crowd->note[i].n), 1);
    dlock_close(crowd->client);
    free(crowd);
}

/* Needs a descriptor for each of its sessions. */
static void lift_limit(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void test_a_thousand_wait_on_a_few_threads(void **state)
{
    struct lock_rig *rig = *state;
    struct dlock *client = lock_rig_client(rig, "fenced");
    struct dlock_session *holder = lock_rig_session(client);
    struct crowd *crowd;
    struct dlock_grant grant;
    uint64_t start_ms;

    lift_limit();
    assert_int_equal(lock_rig_take(holder, "k0", 0, 0, &grant), 0);
    step_log_reset(&rig->log);
    crowd = crowd_open(rig, "fenced", 1);
    /* All have tried, and been told no. */
    step_log_await(&rig->log, "eval-acquire", CROWD_N);
    assert_in_range(threads_called("dlock-async"), 1, CROWD_THREADS_MAX);
    /* And each release reaches one of them at once. */
    start_ms = lock_rig_now_ms();
    assert_int_equal(dlock_release(holder, &grant, NULL), DLOCK_OK);
    for (unsigned won = 0; won == 0;) {
        for (unsigned i = 0; i < CROWD_N; i++)
            won += atomic_load(&crowd->note[i].n) > 0;
        assert_true(lock_rig_now_ms() - start_ms < 20000);
        lock_rig_sleep_ms(1);
    }
    /* A thousand cancels do not wake a thousand each. */
    step_log_reset(&rig->log);
    crowd_close(crowd);
    assert_in_range(step_log_count(&rig->log, "eval-acquire"), 0, 20 * CROWD_N);
    dlock_session_close(holder);
    dlock_close(client);
}

/* Locks that are polled: the pause is a timer. */
static void test_a_thousand_poll_on_a_few_threads(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "spin");
    struct crowd *crowd;

    lift_limit();
    assert_int_equal(
        lock_rig_take(pair.session[0], "k0", 0, 60000, &pair.grant[0]), 0);
    crowd = crowd_open(rig, "spin", 1);
    lock_rig_sleep_ms(200);
    assert_in_range(threads_called("dlock-async"), 1, CROWD_THREADS_MAX);
    assert_int_equal(dlock_release(pair.session[0], &pair.grant[0], NULL), 0);
    crowd_close(crowd);
    lock_pair_close(&pair);
}

/* Callbacks that block, all of them, until the last call has its callback. */
struct jam {
    pthread_barrier_t all;
    atomic_uint n;
};

static void block(void *ctx, struct dlock_session *session,
                  enum dlock_status status, const struct dlock_grant *grant,
                  const struct dlock_error *error)
{
    struct jam *jam = ctx;

    (void)session;
    (void)grant;
    (void)error;
    assert_int_equal(status, DLOCK_OK);
    (void)pthread_barrier_wait(&jam->all);
    (void)atomic_fetch_add(&jam->n, 1);
}

static void test_blocked_callbacks_hold_nobody_up(void **state)
{
    enum { N = 20 };
    struct dlock *client = lock_rig_client(*state, "redisson");
    struct dlock_session *session[N];
    struct jam jam = {.n = 0};
    struct dlock_terms terms = {.wait_ms = 0};
    uint64_t until = lock_rig_now_ms() + 20000;
    char name[24];

    assert_int_equal(pthread_barrier_init(&jam.all, NULL, N), 0);
    for (int i = 0; i < N; i++) {
        session[i] = lock_rig_session(client);
        (void)snprintf(name, sizeof(name), "k%d", i);
        assert_int_equal(
            dlock_acquire_async(session[i], name, &terms, block, &jam, NULL),
            DLOCK_OK);
    }
    while (atomic_load(&jam.n) < N && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(1);
    assert_int_equal(atomic_load(&jam.n), N);
    for (int i = 0; i < N; i++)
        dlock_session_close(session[i]);
    dlock_close(client);
    assert_int_equal(pthread_barrier_destroy(&jam.all), 0);
}

static void test_close_cancels_and_waits(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_grant grant;
    struct note note = {0};
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    start_ms = lock_rig_now_ms();
    dlock_session_close(pair.session[0]);
    assert_int_equal(atomic_load(&note.n), 1);
    assert_int_equal(note.status, DLOCK_TIMEOUT);
    assert_true(lock_rig_now_ms() - start_ms < 5000);
    pair.session[0] = NULL;
    lock_pair_close(&pair);
}

/* Each callback begins the next call, until one is refused. */
struct endless {
    atomic_uint links_n;
    enum dlock_status refusal;
    char text[200];
};

static void endless_link(void *ctx, struct dlock_session *session,
                         enum dlock_status status,
                         const struct dlock_grant *grant,
                         const struct dlock_error *told)
{
    struct endless *chain = ctx;
    struct dlock_terms terms = {.wait_ms = 2};
    struct dlock_error error = {""};

    (void)status;
    (void)grant;
    (void)told;
    (void)atomic_fetch_add(&chain->links_n, 1);
    chain->refusal =
        dlock_acquire_async(session, "k", &terms, endless_link, chain, &error);
    memcpy(chain->text, error.text, sizeof(chain->text));
}

/* Without an end to the chain, this test is ended by its time limit. */
static void test_close_ends_a_chain(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct endless chain = {.refusal = DLOCK_OK};
    struct dlock_terms terms = {.wait_ms = 2};
    struct dlock_grant grant;
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(dlock_acquire_async(pair.session[0], "k", &terms,
                                         endless_link, &chain, NULL),
                     DLOCK_OK);
    while (atomic_load(&chain.links_n) < 5)
        lock_rig_sleep_ms(1);
    start_ms = lock_rig_now_ms();
    dlock_session_close(pair.session[0]);
    assert_true(lock_rig_now_ms() - start_ms < 5000);
    assert_int_equal(chain.refusal, DLOCK_MISUSE);
    assert_string_equal(chain.text, "acquire: the session is being closed");
    pair.session[0] = NULL;
    lock_pair_close(&pair);
}

/* A callback that waits for a lock by itself does not keep a close waiting. */
static void wait_inside(void *ctx, struct dlock_session *session,
                        enum dlock_status status,
                        const struct dlock_grant *grant,
                        const struct dlock_error *error)
{
    struct note *note = ctx;
    struct dlock_grant other;

    (void)status;
    (void)grant;
    (void)error;
    (void)atomic_fetch_add(&note->n, 1);
    note->status = lock_rig_take(session, "k", 20000, 0, &other);
}

static void test_close_ends_a_wait_inside_a_callback(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_terms terms = {.wait_ms = 0};
    struct note note = {.n = 0};
    struct dlock_grant grant;
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(dlock_acquire_async(pair.session[0], "k", &terms,
                                         wait_inside, &note, NULL),
                     DLOCK_OK);
    while (atomic_load(&note.n) == 0)
        lock_rig_sleep_ms(1);
    start_ms = lock_rig_now_ms();
    dlock_session_close(pair.session[0]);
    assert_true(lock_rig_now_ms() - start_ms < 5000);
    assert_int_equal(note.status, DLOCK_TIMEOUT);
    pair.session[0] = NULL;
    lock_pair_close(&pair);
}

/* In a loop of the caller's ---------------------------------------------------- */

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    return poll(&poller, 1, timeout_ms) == 1 && poller.revents == POLLIN;
}

static void test_dispatch_calls_back_here(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock *client = pair.client[0];
    int fd = dlock_fd(client);
    struct dlock_grant other;
    struct note note = {.n = 0};

    assert_true(fd >= 0);
    assert_int_equal(dlock_fd(client), fd);
    assert_int_equal(dlock_dispatch(client), 0);
    assert_int_equal(begin(pair.session[0], "k", 0, &note), DLOCK_OK);
    assert_true(is_readable(fd, 20000));
    assert_int_equal(atomic_load(&note.n), 0);
    /* The session is the library's until its callback, ... */
    assert_int_equal(lock_rig_take(pair.session[0], "x", 0, 0, &other),
                     DLOCK_MISUSE);
    /* ... and the call has its answer, which a cancel does not change. */
    dlock_cancel(pair.session[0]);
    assert_int_equal(dlock_dispatch(client), 1);
    assert_int_equal(atomic_load(&note.n), 1);
    assert_int_equal(note.status, DLOCK_OK);
    assert_true(pthread_equal(note.thread, pthread_self()));
    assert_false(is_readable(fd, 0));
    assert_int_equal(dlock_dispatch(client), 0);
    assert_int_equal(dlock_release_async(pair.session[0], &note.grant,
                                         note_done, &note, NULL),
                     DLOCK_OK);
    assert_true(is_readable(fd, 20000));
    assert_int_equal(dlock_dispatch(client), 1);
    assert_int_equal(lock_rig_probe(*state, "redisson", "k"), DLOCK_OK);
    lock_pair_close(&pair);
}

/* One step of a chain for each dispatch: the loop has its turn in between. */
static void test_dispatch_does_not_follow_a_chain(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct chain chain = {.left = 5};
    struct dlock_terms terms = {.wait_ms = 0};
    int fd = dlock_fd(pair.client[0]);
    unsigned rounds = 0;

    assert_int_equal(dlock_acquire_async(pair.session[0], "k", &terms,
                                         next_link, &chain, NULL),
                     DLOCK_OK);
    for (; atomic_load(&chain.last.n) == 0; rounds++) {
        assert_true(is_readable(fd, 20000));
        assert_int_equal(dlock_dispatch(pair.client[0]), 1);
    }
    assert_int_equal(rounds, 10);
    assert_int_equal(chain.left, 0);
    lock_pair_close(&pair);
}

/* Nobody dispatches any more: what is due is called by the close. */
static void test_close_calls_what_is_due(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_session *waiter = lock_rig_session(pair.client[0]);
    struct dlock_session *last = lock_rig_session(pair.client[0]);
    int fd = dlock_fd(pair.client[0]);
    struct note note[3] = {{.n = 0}};
    struct dlock_grant grant;

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(begin(pair.session[0], "free", 0, &note[0]), DLOCK_OK);
    assert_true(is_readable(fd, 20000));
    assert_int_equal(begin(waiter, "k", 20000, &note[1]), DLOCK_OK);
    assert_int_equal(begin(last, "k", 20000, &note[2]), DLOCK_OK);
    note[1].close = true; /* while it is being closed */
    dlock_session_close(waiter);
    assert_int_equal(atomic_load(&note[1].n), 1);
    assert_int_equal(note[1].status, DLOCK_TIMEOUT);
    assert_true(pthread_equal(note[1].thread, pthread_self()));
    assert_int_equal(atomic_load(&note[0].n), 0);
    dlock_session_close(pair.session[0]);
    assert_int_equal(atomic_load(&note[0].n), 1);
    assert_int_equal(note[0].status, DLOCK_OK);
    dlock_close(pair.client[0]);
    assert_int_equal(atomic_load(&note[2].n), 1);
    assert_int_equal(dlock_fd(NULL), -1);
    assert_int_equal(dlock_dispatch(NULL), 0);
    pair.session[0] = NULL;
    pair.client[0] = NULL;
    lock_pair_close(&pair);
}

/* A chain whose callbacks run in dispatch ends as well. */
static void test_close_ends_a_dispatched_chain(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct endless chain = {.refusal = DLOCK_OK};
    struct dlock_terms terms = {.wait_ms = 2};
    int fd = dlock_fd(pair.client[0]);

    assert_int_equal(dlock_acquire_async(pair.session[0], "k", &terms,
                                         endless_link, &chain, NULL),
                     DLOCK_OK);
    for (int i = 0; i < 3; i++) {
        assert_true(is_readable(fd, 20000));
        assert_int_equal(dlock_dispatch(pair.client[0]), 1);
    }
    dlock_session_close(pair.session[0]);
    assert_int_equal(atomic_load(&chain.links_n), 4);
    assert_int_equal(chain.refusal, DLOCK_MISUSE);
    pair.session[0] = NULL;
    lock_pair_close(&pair);
}

/* Every kind of lock that wakes its waiters wakes those that have no thread. */
static void hand_over(struct lock_rig *rig, const char *strategy)
{
    struct lock_pair pair = lock_pair_open(rig, strategy);
    struct dlock_grant grant;
    struct note note = {.n = 0};
    int fd = dlock_fd(pair.client[0]);
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[1], "h", 0, 0, &grant), 0);
    assert_int_equal(begin(pair.session[0], "h", 20000, &note), DLOCK_OK);
    assert_false(is_readable(fd, 30));
    start_ms = lock_rig_now_ms();
    assert_int_equal(dlock_release(pair.session[1], &grant, NULL), DLOCK_OK);
    assert_true(is_readable(fd, 20000));
    assert_int_equal(dlock_dispatch(pair.client[0]), 1);
    assert_int_equal(note.status, DLOCK_OK);
    assert_true(lock_rig_now_ms() - start_ms < 5000);
    assert_int_equal(dlock_release(pair.session[0], &note.grant, NULL), 0);
    lock_pair_close(&pair);
}

static void test_parked_waiters_are_woken(void **state)
{
    hand_over(*state, "process");
    hand_over(*state, "redisson");
    hand_over(*state, "fair");
    hand_over(*state, "fenced");
    hand_over(*state, "token-lua");
}

/* Many that take and give back in turns, all with callbacks. */
struct fair_ground {
    atomic_int inside;
    atomic_uint clashes;
    atomic_uint failures;
    atomic_uint riders;
};

struct rider {
    struct fair_ground *ground;
    unsigned left;
};

static void ride(void *ctx, struct dlock_session *session,
                 enum dlock_status status, const struct dlock_grant *grant,
                 const struct dlock_error *error);

static void get_off(void *ctx, struct dlock_session *session,
                    enum dlock_status status, const struct dlock_grant *grant,
                    const struct dlock_error *error)
{
    struct rider *rider = ctx;
    struct dlock_terms terms = {.wait_ms = 60000};

    (void)grant;
    (void)error;
    if (status != DLOCK_OK)
        (void)atomic_fetch_add(&rider->ground->failures, 1);
    if (--rider->left > 0 && dlock_acquire_async(session, "ride", &terms, ride,
                                                 rider, NULL) == DLOCK_OK)
        return;
    (void)atomic_fetch_sub(&rider->ground->riders, 1);
}

static void ride(void *ctx, struct dlock_session *session,
                 enum dlock_status status, const struct dlock_grant *grant,
                 const struct dlock_error *error)
{
    struct rider *rider = ctx;

    (void)error;
    if (status != DLOCK_OK) {
        get_off(ctx, session, status, NULL, error);
        return;
    }
    if (atomic_fetch_add(&rider->ground->inside, 1) != 0)
        (void)atomic_fetch_add(&rider->ground->clashes, 1);
    (void)atomic_fetch_sub(&rider->ground->inside, 1);
    if (dlock_release_async(session, grant, get_off, rider, NULL) != DLOCK_OK)
        get_off(ctx, session, DLOCK_UNKNOWN, NULL, NULL);
}

static void ride_all(struct lock_rig *rig, const char *strategy)
{
    enum { RIDERS_N = 24, RIDES = 8 };
    struct dlock *client = lock_rig_client(rig, strategy);
    struct dlock_session *session[RIDERS_N];
    struct rider rider[RIDERS_N];
    struct fair_ground ground = {.riders = RIDERS_N};
    uint64_t until = lock_rig_now_ms() + 60000;

    for (unsigned i = 0; i < RIDERS_N; i++) {
        struct dlock_terms terms = {.wait_ms = 60000};

        rider[i] = (struct rider){.ground = &ground, .left = RIDES};
        session[i] = lock_rig_session(client);
        assert_int_equal(dlock_acquire_async(session[i], "ride", &terms, ride,
                                             &rider[i], NULL),
                         DLOCK_OK);
    }
    while (atomic_load(&ground.riders) > 0 && lock_rig_now_ms() < until)
        lock_rig_sleep_ms(1);
    assert_int_equal(atomic_load(&ground.riders), 0);
    assert_int_equal(atomic_load(&ground.failures), 0);
    assert_int_equal(atomic_load(&ground.clashes), 0);
    for (unsigned i = 0; i < RIDERS_N; i++)
        dlock_session_close(session[i]);
    dlock_close(client);
}

static void test_all_get_their_turn(void **state)
{
    ride_all(*state, "process");
    ride_all(*state, "redisson");
    ride_all(*state, "fair");
    ride_all(*state, "fenced");
    ride_all(*state, "token-lua");
}

/* And those that nobody wakes end in time. */
static void test_parked_waiters_time_out(void **state)
{
    static const char *const strategies[] = {"process", "redisson", "spin"};

    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        struct lock_pair pair = lock_pair_open(*state, strategies[i]);
        struct note note = {.n = 0};
        struct dlock_grant grant;
        uint64_t start_ms = lock_rig_now_ms();

        assert_int_equal(lock_rig_take(pair.session[1], "t", 0, 60000, &grant),
                         0);
        assert_int_equal(begin(pair.session[0], "t", 80, &note), DLOCK_OK);
        assert_int_equal(await(&note), DLOCK_TIMEOUT);
        assert_in_range(lock_rig_now_ms() - start_ms, 79, 5000);
        assert_int_equal(dlock_release(pair.session[1], &grant, NULL), 0);
        lock_pair_close(&pair);
    }
}

/* Cancelled ----------------------------------------------------------------- */

static void cancel_a_waiter(struct lock_rig *rig, const char *strategy)
{
    struct lock_pair pair = lock_pair_open(rig, strategy);
    struct dlock_grant grant;
    struct note note = {0};
    uint64_t start_ms;

    assert_int_equal(lock_rig_take(pair.session[1], "c", 0, 0, &grant), 0);
    assert_int_equal(begin(pair.session[0], "c", 20000, &note), DLOCK_OK);
    lock_rig_sleep_ms(30);
    start_ms = lock_rig_now_ms();
    dlock_cancel(pair.session[0]);
    assert_int_equal(await(&note), DLOCK_TIMEOUT);
    assert_true(lock_rig_now_ms() - start_ms < 2000);
    assert_string_equal(note.text, "acquire: cancelled");
    /* It left no trace: not in the session, not in the queue. */
    assert_int_equal(dlock_release(pair.session[1], &grant, NULL), DLOCK_OK);
    assert_int_equal(lock_rig_take(pair.session[0], "c", 0, 0, &grant), 0);
    assert_int_equal(grant.holds, 1);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), DLOCK_OK);
    lock_pair_close(&pair);
}

static void test_cancelled_waiter_leaves_no_trace(void **state)
{
    cancel_a_waiter(*state, "process");   /* sleeps on a condition */
    cancel_a_waiter(*state, "spin");      /* polls less and less often */
    cancel_a_waiter(*state, "fair");      /* stands in a queue */
    cancel_a_waiter(*state, "token-lua"); /* polls */
    cancel_a_waiter(*state, "redisson");  /* sleeps on a subscription */
}

/* The lock was granted, and the cancel came before the caller was told. */
static void test_cancel_after_the_grant_gives_it_back(void **state)
{
    struct lock_rig *rig = *state;
    struct note note = {0};
    struct lock_pair pair;

    rig->watchdog_lease_ms = 60;
    pair = lock_pair_open(rig, "redisson");
    step_log_shut(&rig->log, "eval-acquire", DLOCK_AFTER);
    assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    step_log_await_gate(&rig->log, 1);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 1);
    dlock_cancel(pair.session[0]);
    step_log_open(&rig->log);
    assert_int_equal(await(&note), DLOCK_TIMEOUT);
    assert_false(note.granted);
    assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
    lock_rig_sleep_ms(60);
    assert_int_equal(step_log_count(&rig->log, "eval-renew"), 0);
    lock_pair_close(&pair);
}

/* The same as a second hold: the first one stays. */
static void test_cancelled_reentry_keeps_the_outer_hold(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_grant outer;
    struct note note = {0};

    assert_int_equal(lock_rig_take(pair.session[0], "k", 0, 0, &outer), 0);
    step_log_shut(&rig->log, "eval-acquire", DLOCK_AFTER);
    assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    step_log_await_gate(&rig->log, 1);
    dlock_cancel(pair.session[0]);
    step_log_open(&rig->log);
    assert_int_equal(await(&note), DLOCK_TIMEOUT);
    assert_int_equal(lock_rig_probe(rig, "redisson", "k"), DLOCK_BUSY);
    assert_int_equal(dlock_release(pair.session[0], &outer, NULL), DLOCK_OK);
    assert_int_equal(lock_rig_probe(rig, "redisson", "k"), DLOCK_OK);
    lock_pair_close(&pair);
}

/* Giving it back fails: then it is a don't know, which ends with its lease. */
static void test_cancel_that_cannot_give_back(void **state)
{
    struct lock_rig *rig = *state;
    struct note note = {0};
    struct dlock_grant grant;
    struct lock_pair pair;

    rig->watchdog_lease_ms = 90;
    rig->command_timeout_ms = 100;
    pair = lock_pair_open(rig, "redisson");
    step_log_shut(&rig->log, "eval-acquire", DLOCK_AFTER);
    step_log_fail(&rig->log, "eval-release", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    step_log_await_gate(&rig->log, 1);
    dlock_cancel(pair.session[0]);
    step_log_open(&rig->log);
    assert_int_equal(await(&note), DLOCK_UNKNOWN);
    assert_int_equal(lock_rig_take(pair.session[1], "k", 5000, 0, &grant),
                     DLOCK_OK);
    assert_int_equal(step_log_count(&rig->log, "eval-renew"), 0);
    lock_pair_close(&pair);
}

/* At any moment of an acquire that succeeds: granted, or gone; never both. */
static void test_cancel_at_any_moment(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    unsigned cancelled = 0;

    for (unsigned i = 0; i < 200; i++) {
        struct note note = {.n = 0};

        assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
        for (volatile unsigned spin = 0; spin < i * 200; spin++)
            ;
        dlock_cancel(pair.session[0]);
        if (await(&note) == DLOCK_TIMEOUT) {
            cancelled++;
            assert_int_equal(redis_server_number(rig->server, "EXISTS k"), 0);
            continue;
        }
        assert_int_equal(note.status, DLOCK_OK);
        assert_int_equal(note.grant.holds, 1);
        assert_int_equal(dlock_release(pair.session[0], &note.grant, NULL),
                         DLOCK_OK);
    }
    assert_int_not_equal(cancelled, 0);
    lock_pair_close(&pair);
}

/* A client that ends all waits ends those of its threads as well. */
static void test_ended_waits_call_back(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_grant grant;
    struct note note = {.n = 0};

    assert_int_equal(lock_rig_take(pair.session[1], "k", 0, 0, &grant), 0);
    assert_int_equal(begin(pair.session[0], "k", 20000, &note), DLOCK_OK);
    lock_rig_sleep_ms(20);
    dlock_end_waits(pair.client[0]);
    assert_int_equal(await(&note), DLOCK_TIMEOUT);
    lock_pair_close(&pair);
}

static void *cancel_soon(void *arg)
{
    lock_rig_sleep_ms(30);
    dlock_cancel(arg);
    return NULL;
}

/* A cancel concerns the call under way, synchronous ones too, and no other. */
static void test_cancel_of_the_call_under_way_only(void **state)
{
    struct lock_pair pair = lock_pair_open(*state, "redisson");
    struct dlock_grant grant, other;
    pthread_t thread;

    dlock_cancel(NULL);
    dlock_cancel(pair.session[0]);
    assert_int_equal(lock_rig_take(pair.session[0], "k", 10, 0, &grant), 0);
    assert_int_equal(
        pthread_create(&thread, NULL, cancel_soon, pair.session[1]), 0);
    assert_int_equal(lock_rig_take(pair.session[1], "k", 20000, 0, &other),
                     DLOCK_TIMEOUT);
    assert_int_equal(pthread_join(thread, NULL), 0);
    lock_pair_close(&pair);
}

/* Waiters of the same client are woken by somebody's cancel, and sleep on. */
static void test_cancel_leaves_the_others_waiting(void **state)
{
    struct dlock *client = lock_rig_client(*state, "redisson");
    struct dlock_session *session[3];
    struct dlock_grant grant;
    struct note note[3] = {{0}};

    for (int i = 0; i < 3; i++)
        session[i] = lock_rig_session(client);
    assert_int_equal(lock_rig_take(session[0], "k", 0, 0, &grant), DLOCK_OK);
    assert_int_equal(begin(session[1], "k", 20000, &note[1]), DLOCK_OK);
    assert_int_equal(begin(session[2], "k", 20000, &note[2]), DLOCK_OK);
    lock_rig_sleep_ms(30);
    dlock_cancel(session[1]);
    assert_int_equal(await(&note[1]), DLOCK_TIMEOUT);
    lock_rig_sleep_ms(30);
    assert_int_equal(atomic_load(&note[2].n), 0);
    assert_int_equal(dlock_release(session[0], &grant, NULL), DLOCK_OK);
    assert_int_equal(await(&note[2]), DLOCK_OK);
    for (int i = 0; i < 3; i++)
        dlock_session_close(session[i]);
    dlock_close(client);
}

/* Trying ---------------------------------------------------------------------- */

static void test_try_does_not_wait(void **state)
{
    struct lock_rig *rig = *state;
    struct lock_pair pair = lock_pair_open(rig, "redisson");
    struct dlock_terms terms = {.wait_ms = 20000, .lease_ms = 5000};
    struct dlock_grant grant, other;

    assert_int_equal(dlock_try(pair.session[0], "k", &terms, &grant, NULL),
                     DLOCK_OK);
    assert_in_range(dlock_remaining_ms(pair.session[0], &grant), 1, 5000);
    step_log_reset(&rig->log);
    assert_int_equal(dlock_try(pair.session[1], "k", &terms, &other, NULL),
                     DLOCK_BUSY);
    assert_int_equal(step_log_count(&rig->log, "eval-acquire"), 1);
    assert_int_equal(step_log_count(&rig->log, "subscribe"), 0);
    assert_int_equal(dlock_release(pair.session[0], &grant, NULL), DLOCK_OK);
    assert_int_equal(dlock_try(pair.session[1], "k", NULL, &other, NULL),
                     DLOCK_OK);
    assert_int_equal(dlock_try(pair.session[1], "k", NULL, NULL, NULL),
                     DLOCK_MISUSE);
    lock_pair_close(&pair);
}

#define TEST(name) cmocka_unit_test_setup(name, lock_rig_fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_callback_comes_once_on_another_thread),
        TEST(test_busy_and_refused),
        TEST(test_a_session_does_one_thing_at_a_time),
        TEST(test_callbacks_may_call),
        TEST(test_callback_may_close_the_session),
        TEST(test_a_thousand_wait_on_a_few_threads),
        TEST(test_a_thousand_poll_on_a_few_threads),
        TEST(test_blocked_callbacks_hold_nobody_up),
        TEST(test_close_cancels_and_waits),
        TEST(test_close_ends_a_chain),
        TEST(test_close_ends_a_wait_inside_a_callback),
        TEST(test_dispatch_calls_back_here),
        TEST(test_dispatch_does_not_follow_a_chain),
        TEST(test_close_calls_what_is_due),
        TEST(test_close_ends_a_dispatched_chain),
        TEST(test_parked_waiters_are_woken),
        TEST(test_all_get_their_turn),
        TEST(test_parked_waiters_time_out),
        TEST(test_cancelled_waiter_leaves_no_trace),
        TEST(test_cancel_after_the_grant_gives_it_back),
        TEST(test_cancelled_reentry_keeps_the_outer_hold),
        TEST(test_cancel_that_cannot_give_back),
        TEST(test_cancel_at_any_moment),
        TEST(test_ended_waits_call_back),
        TEST(test_cancel_of_the_call_under_way_only),
        TEST(test_cancel_leaves_the_others_waiting),
        TEST(test_try_does_not_wait),
    };

    return cmocka_run_group_tests(tests, lock_rig_setup, lock_rig_teardown);
}

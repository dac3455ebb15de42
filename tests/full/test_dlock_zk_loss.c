/*
 * zk and zk-fair when things get lost: a delete that did not come through while
 * the session lives on, and the session itself under its holder.
 */
#include <pthread.h>

#include "tests/support/lock_process.h"
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"
#include "tests/support/zookeeper_server.h"

enum {
    SESSION_MS = 1500,
    /* A server that is on its way up may leave a connection without a word, and
     * the library waits for two thirds of a session; then comes another. But this
     * is not the session's end. */
    SOON_MS = 56000,
};

static int set_up(NO_STATE)
{
    return zookeeper_server_set_up(SESSION_MS, 3000);
}

static bool becomes_true(atomic_bool *flag)
{
    for (int i = 0; i < 1200 && !atomic_load(flag); i++)
        lock_rig_sleep_ms(50);
    return atomic_load(flag);
}

/* A hook that stands still until it is let go, and knows what it was told first. */
struct teller {
    atomic_bool told, let_go;
    atomic_uint told_n;
    char first[8];
};

static void stand_still(void *ctx, const char *name, const char *owner,
                        enum dlock_loss reason)
{
    struct teller *teller = ctx;

    if (atomic_fetch_add(&teller->told_n, 1) == 0)
        (void)snprintf(teller->first, sizeof(teller->first), "%s", name);
    atomic_store(&teller->told, true);
    while (!atomic_load(&teller->let_go))
        lock_rig_sleep_ms(1);
}

/* The teller of a session's end may be slow, and come to its list of nodes
 * when the next session has some on it. Those are not lost. */
static void test_next_session_is_not_lost(void **state)
{
    struct teller teller = {.first = ""};
    struct dlock_session *session;
    struct dlock_grant old, next;
    struct dlock *client;

    rig.on_lost = stand_still;
    rig.hooks_ctx = &teller;
    client = lock_rig_client(*state);
    session = lock_rig_session(client);
    assert_ok(lock_rig_take(session, "old", SOON_MS, 0, &old));
    server_proc_pause(&the_zookeeper->proc);
    assert_true(becomes_true(&teller.told));
    server_proc_resume(&the_zookeeper->proc);
    assert_int_equal(dlock_release(session, &old, NULL), DLOCK_LOST);
    assert_ok(lock_rig_take(session, "next", SOON_MS, 0, &next));
    atomic_store(&teller.let_go, true);
    /* It goes on, and would tell at once; then this says that it held. */
    lock_rig_sleep_ms(100);
    assert_true(dlock_remaining_ms(session, &next) == UINT64_MAX);
    assert_ok(dlock_release(session, &next, NULL));
    assert_int_equal(teller.told_n, 1);
    assert_string_equal(teller.first, "old");
    lock_rig_close(client);
}

/* A program that guards what it knows of its locks by a mutex of its own. */
struct program {
    pthread_mutex_t mutex;
    struct dlock_session *session;
    atomic_bool told;
    atomic_bool closed;
};

static void want_mutex(void *ctx, const char *name, const char *owner,
                       enum dlock_loss reason)
{
    struct program *program = ctx;

    atomic_store(&program->told, true);
    (void)pthread_mutex_lock(&program->mutex);
    (void)pthread_mutex_unlock(&program->mutex);
}

static void *close_session(void *arg)
{
    struct program *program = arg;

    dlock_session_close(program->session);
    atomic_store(&program->closed, true);
    return NULL;
}

/* The hook wants a mutex under which the session that it tells of is closed. */
static void test_hook_wants_a_mutex(void **state)
{
    struct program program = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct dlock_grant grant;
    struct dlock *client;
    pthread_t thread;
    bool closed;

    rig.on_lost = want_mutex;
    rig.hooks_ctx = &program;
    client = lock_rig_client(*state);
    program.session = lock_rig_session(client);
    assert_ok(lock_rig_take(program.session, "k", SOON_MS, 0, &grant));
    (void)pthread_mutex_lock(&program.mutex);
    server_proc_pause(&the_zookeeper->proc);
    assert_true(becomes_true(&program.told));
    assert_int_equal(pthread_create(&thread, NULL, close_session, &program), 0);
    closed = becomes_true(&program.closed);
    (void)pthread_mutex_unlock(&program.mutex);
    (void)pthread_join(thread, NULL);
    lock_rig_close(client);
    server_proc_resume(&the_zookeeper->proc);
    assert_true(closed);
}

/* It has been stopped until its session was over, and hears nothing of that. */
static void test_who_was_stopped_has_nothing_left(void **state)
{
    struct lock_process holder;
    struct lock_single next;
    uint64_t left_ms;

    lock_process_start(&holder, *state);
    assert_ok(lock_process_take(&holder, "k", SOON_MS));
    assert_true(lock_process_left(&holder) == UINT64_MAX);
    server_proc_pause(&holder.proc);
    next = lock_single_open(*state);
    assert_ok(lock_single_take(&next, SOON_MS));
    server_proc_pause(&the_zookeeper->proc);
    server_proc_resume(&holder.proc);
    left_ms = lock_process_left(&holder);
    server_proc_resume(&the_zookeeper->proc);
    lock_process_kill(&holder);
    assert_int_equal(left_ms, 0);
}

#define BOTH "zk zk-fair"

static const struct lock_story stories[] = {
    /* The session lives on, as it holds something else; and its owner is silent. Called
     * again, it is done; and it is nobody else's that goes. */
    {"a delete comes through", BOTH,
     "watchdog 60000; a takes kept name=kept; a takes; fail delete before 2; "
     "a gives -> unreachable; b takes wait=56000; a gives; a takes -> busy; "
     "b gives; a takes; fail delete after 1; also sync before 1; "
     "a gives -> unknown; b takes wait=56000; a gives; a takes -> busy; "
     "b gives; b takes name=kept -> busy; lost 0"},
    {"the place in the queue of one who has left it is cleared", "zk-fair",
     "watchdog 60000; a takes name=kept; b takes; forget; "
     "fail delete before 2; a takes wait=50 -> timeout; "
     "until steps delete 2..; b gives; c takes wait=56000"},
    /* The server has made the node, and goes away before it can be asked for it. Nothing
     * else is held; but the session outlives the server, and so does the node: to leave
     * the session alone would be to leave the node there. (The first one makes the
     * directory as well.) */
    {"the server goes after a create", BOTH,
     "watchdog 60000; b takes; b gives; fail create after 1; shut sync before; "
     "& a takes -> unknown|unreachable; gate; server kill; open; join; "
     "server restart; told b takes name=up; b takes wait=56000"},
    {"the server dies before a create, and comes back: it is known not to be",
     BOTH,
     "watchdog 60000; commands 50000; a takes; a gives; forget; server pause; "
     "shut sync before; & a takes -> unreachable; until steps create 1; "
     "sleep 100; server kill; gate; server restart; open; join; "
     "a takes wait=56000; a gives"},
    /* A late delete of an old node must not hit the same session's new one, which for zk
     * has the same path. So while the old one is about, there is no new one. */
    {"a late delete hits no other node", BOTH,
     "watchdog 60000; commands 300; a takes wait=56000 name=kept; "
     "a takes wait=56000; fail delete before 2; a gives -> unreachable; "
     "shut delete before; gate; a takes -> unreachable; a gives -> unknown; "
     "open; a takes wait=56000; a takes other name=other; "
     "b takes wait=300 -> timeout"},
    /* Though the holder never says a word. */
    {"what is over for its holder does not come to life again", BOTH,
     "watchdog 3000; a takes; server kill; lost 1; server restart; "
     "told b takes name=up; b takes wait=56000; a gives -> lost"},
    {"while the server is heard of it is held for ever, then less, then no "
     "more",
     BOTH,
     "a takes; a has left=-1; server pause; lost 1; a has left=0; "
     "server resume; a gives -> lost; a has left=0; a takes wait=56000; "
     "a has left=-1; a gives; a has left=0"},
    {"of a server that is gone it is told how long it is safe to go on",
     "zk-fair",
     "watchdog 6000; a takes; server kill; until a has left=1..6000; "
     "a has left=1..2000; lost 1; a has left=0; server restart"},
    {"a session that ends before its node is held holds nothing", "zk",
     "a takes wait=56000; shut create after; & a takes other name=n -> "
     "unreachable; gate; "
     "server pause; lost 1; open; join; server resume; a gives -> lost"},
    {"a loss is told once, however many sessions end", BOTH,
     "a takes wait=56000; server pause; lost 1; server resume; "
     "a takes other name=n wait=56000; a has other left=-1; server pause; "
     "until a has other left=0; server resume; b takes wait=56000; "
     "a gives -> lost; a gives other -> lost; lost 1"},
};
LOCK_STORIES_TEST

static const struct CMUnitTest tests[] = {
    LOCK_STORY_TEST(test_who_was_stopped_has_nothing_left, "zk"),
    LOCK_STORY_TEST(test_who_was_stopped_has_nothing_left, "zk-fair"),
    LOCK_STORY_TEST(test_next_session_is_not_lost, "zk"),
    LOCK_STORY_TEST(test_next_session_is_not_lost, "zk-fair"),
    LOCK_STORY_TEST(test_hook_wants_a_mutex, "zk"),
    LOCK_STORY_TEST(test_hook_wants_a_mutex, "zk-fair"),
};
UNIT_TESTS_ADD(tests)

UNIT_TESTS_WITHIN(set_up, zookeeper_server_tear_down)

/*
 * The ladder's last rung but one, `guard-thread`: a thread that renews whatever
 * is locked, and the watchdog, which looks whose lock it is. See
 * test_dlock_ladder.c.
 */
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

/*
 * Many take and give back at once: stopping and starting do not deadlock. That
 * a lease ends in between is no surprise: renewal hardly ever runs.
 */
static void *take_and_give(void *arg)
{
    struct dlock_session *session = arg;

    for (int i = 0; i < 200; i++) {
        const char *name = dlock_session_owner(session);
        struct dlock_grant grant;
        enum dlock_status status;

        if (lock_rig_take(session, name, 0, 0, &grant) != DLOCK_OK)
            return NULL;
        status = dlock_release(session, &grant, NULL);
        if (status != DLOCK_OK && status != DLOCK_LOST)
            return NULL;
    }
    return session;
}

LOCK_TEST(test_15_guard_under_load)
{
    struct dlock *client;
    pthread_t threads[4];
    struct dlock_session *sessions[4];

    rig.watchdog_lease_ms = LOCK_RIG_LEASE_MS;
    client = lock_rig_client("guard-thread");
    for (int i = 0; i < 4; i++) {
        sessions[i] = lock_rig_session(client);
        assert_int_equal(
            pthread_create(&threads[i], NULL, take_and_give, sessions[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *done;

        assert_int_equal(pthread_join(threads[i], &done), 0);
        assert_ptr_equal(done, sessions[i]);
    }
}

static const struct lock_story stories[] = {
    /* 14: the worker dies, its process lives; only the end of that is an end. A guard
     * that has renewed a lease four times has outlived it. */
    {"the eternal lock", "guard-thread",
     "watchdog lease; a takes max=1; a dies; more guard-expire 4; "
     "b takes 5000 -> busy; a closes; b closes; lock watchdog; "
     "b takes wait=long; b dies; a takes 5000 wait=long"},
    {"who holds too long is not renewed: the watchdog's other answer",
     "watchdog", "watchdog lease; a takes max=1; b takes 5000 wait=long"},
    /* B wants it for one lease, and dies. A can at least not delete it: that much
     * token-lua was worth. */
    {"it does not ask whose lock it renews", "guard-thread",
     "watchdog lease; a takes; more guard-expire 1; DEL k -> 1; b takes lease; "
     "b dies; more guard-expire 4; b takes 5000 -> busy; a gives -> lost; "
     "b takes 5000 wait=long"},
    {"an explicit lease is nobody's to renew", "guard-thread",
     "a takes timeout; b takes 5000 wait=long; steps guard-ttl 0"},
    /* 15: one stop flag for all. */
    {"it is set again by the next one who takes a lock, and by nobody else",
     "guard-thread",
     "watchdog lease; a takes; more guard-expire 4; a gives; a takes; "
     "more guard-expire 4; a gives; a takes; more guard-expire 4; a gives; "
     "forget; sleep lease; steps all 0"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN

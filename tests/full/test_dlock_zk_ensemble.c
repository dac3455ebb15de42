/*
 * zk and zk-fair on an ensemble of three servers, of which one is lost, the one
 * that leads or one that follows: while a lock is held, and while it is waited
 * for. The sessions go on, and so do the locks.
 */
#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"
#include "tests/support/zookeeper_server.h"

static struct zookeeper_ensemble *ensemble;

static void fresh(const char *lock)
{
    (void)lock;
    rig.url = ensemble->url;
    rig.watchdog_lease_ms = 60000; /* nothing here waits for its end */
    rig.command_timeout_ms = 5000;
}

/* ROLE is that of the one to kill; the same one comes back. */
static void serve(const char *how, const char *role)
{
    static struct zookeeper_server *victim;

    if (strcmp(how, "kill") == 0)
        victim = zookeeper_ensemble_in(ensemble, role[0]);
    zookeeper_server_do(victim, how);
    if (strcmp(how, "restart") == 0)
        zookeeper_ensemble_await(ensemble);
}

static int setup(void **state)
{
    static const struct lock_story_host host = {fresh, serve};

    lock_story_host = &host;
    ensemble = zookeeper_ensemble_start();
    return lock_rig_setup(state);
}

static int teardown(void **state)
{
    (void)lock_rig_teardown(state);
    zookeeper_ensemble_stop(ensemble);
    return 0;
}

/* A client that comes while they elect is not answered, and is told when it asks again.
 * Nobody gets in, as long as it is not given back; and one that comes back changes
 * nothing. */
#define LOSE(role, token)                                                      \
    "told a takes; c begins wait=long; sleep 200; server kill " role "; "      \
    "told b takes -> busy; lost 0; told a gives; c ends token=" token "; "     \
    "told b takes -> busy; server restart; told b takes -> busy; "             \
    "told c gives; told b takes wait=long; told b gives; lost 0"

static const struct lock_story stories[] = {
    {"the leader is lost", "zk-fair", LOSE("l", "rises")},
    {"a follower is lost", "zk-fair", LOSE("f", "rises")},
    {"the leader is lost", "zk", LOSE("l", "0")},
    {"a follower is lost", "zk", LOSE("f", "0")},
};
LOCK_STORIES_TEST

UNIT_TESTS_WITHIN(setup, teardown)

/*
 * The lease of a hold, where the holder sets it anew: what the holder believes
 * never ends after what the server keeps.
 */
#include <stdatomic.h>

#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

/* Replies to the watchdog wait. */
static struct slow_replies {
    atomic_bool held_up;
    atomic_bool arrived;   /* at the wait */
    atomic_uint extends_n; /* answered */
} slow;

static enum dlock_verdict answer_slowly(void *ctx,
                                        const struct dlock_step *step)
{
    if (strcmp(step->name, "eval-renew") != 0 || step->phase != DLOCK_AFTER)
        return DLOCK_GO;
    if (strcmp(step->owner, "watchdog") != 0) {
        (void)atomic_fetch_add(&slow.extends_n, 1);
        return DLOCK_GO;
    }
    while (atomic_load(&slow.held_up)) {
        atomic_store(&slow.arrived, true);
        lock_rig_sleep_ms(1);
    }
    return DLOCK_GO;
}

static void *extend_to_2000(void *arg)
{
    struct lock_single *single = arg;

    assert_ok(dlock_extend(single->session, &single->grant, 2000, NULL));
    return NULL;
}

/* The server took the extension after the renewal, and ends the lease by it. */
LOCK_TEST(test_a_renewal_under_way_lengthens_no_extended_lease)
{
    struct lock_single single;
    pthread_t thread;

    slow = (struct slow_replies){.held_up = true};
    rig.watchdog_lease_ms = 3000;
    rig.on_step = answer_slowly;
    single = lock_single_open("fenced");
    assert_ok(lock_single_take(&single, 0));
    while (!atomic_load(&slow.arrived))
        lock_rig_sleep_ms(1);
    assert_int_equal(pthread_create(&thread, NULL, extend_to_2000, &single), 0);
    while (atomic_load(&slow.extends_n) == 0)
        lock_rig_sleep_ms(1);
    lock_rig_sleep_ms(20);
    atomic_store(&slow.held_up, false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    lock_rig_sleep_ms(20);
    assert_in_range(dlock_remaining_ms(single.session, &single.grant), 1, 2000);
}

static const struct lock_story stories[] = {
    /* Each lock with a lease tells whose it is, and lets nobody else set its end. */
    {"a hold is seen and extended", LOCKS_OWNED " multi",
     "b sees held=0; a takes 5000; b sees held=1 owner=a left=4000..5000; "
     "a extends 60000; PTTL k -> 50000..60000; a has left=50000..60000; "
     "a extends 2000; PTTL k -> 1..2000; b poses as=a; b extends 9000 -> lost; "
     "DEL k -> 1; a extends 60000 -> lost; a gives -> lost"},
    /* All holds have one key; with one hold it is the holder's to say. */
    {"what one hold gives up, another may still need", "fenced reentrant fair",
     "a takes outer; a takes inner 5000; a extends inner 3000; a has "
     "inner left=0..3000; a has outer left=5001..; PTTL k -> 3001..10000; "
     "a gives inner; a extends outer 3000; PTTL k -> 1..3000; a gives outer"},
    /* As of an acquire. */
    {"an extension that is over when its answer comes is none", "fenced",
     "a takes 9000; shut eval-renew after; & a extends 40 -> lost; gate; "
     "sleep 60; open; join; a has left=0; a gives -> ok|lost"},
    {"and the holder of a lock that is renewed is told", "fenced",
     "a takes; shut eval-renew after; & a extends 40 -> lost; gate; sleep 60; "
     "open; join; a has left=0; lost 1 expired; a has left=0; "
     "a gives -> ok|lost"},
    {"nor is it renewed, though the server has it still", "fenced",
     "a takes; shut eval-renew after; & a extends 40 -> lost; gate; "
     "PEXPIRE k 60000; sleep 60; open; join; lost 1 expired; a has left=0"},
    {"a lease that was made shorter is renewed sooner", "fenced",
     "a takes; a extends 3000; until PTTL k -> 3001..; "
     "until a has left=3001..; lost 0; b sees owner=a holds=1; a gives"},
    /* Whether the server has the new end or the old one: the earlier one counts. */
    {"an unknown extension may have shortened", "fenced",
     "commands timeout; a takes; fail eval-renew after always; a extends "
     "60000 -> unknown; a has left=5000..10000; a extends 3000 -> unknown; "
     "fail eval-renew after 0; a has left=0..3000; a gives; a takes 9000; "
     "fail eval-renew after always; a extends 60000 -> unknown; "
     "a has left=5000..10000; a extends 3000 -> unknown; "
     "fail eval-renew after 0; a has left=0..3000; a gives"},
    {"of a lease that the server says is lost nothing remains", "redisson",
     "a takes; b forces; a extends 20000 -> lost; a has left=0; "
     "c takes 20000; b forces; c extends 20000 -> lost; c has left=0"},
    {"and its holder is told that the server had lost it", "redisson reentrant",
     "a takes; DEL k; a extends 20000 -> lost; a has left=0; lost 1 gone; "
     "a has left=0; a gives -> lost"},
    {"nor of one that was found lost, though the server has it still", "fenced",
     "watchdog lease; a takes; PEXPIRE k 60000 -> 1; "
     "fail eval-renew before always; lost 1 unreachable; "
     "fail eval-renew before 0; a extends 60000 -> lost; a has left=0; a "
     "gives"},
    {"nor of one that was given back", LOCKS_OWNED " process",
     "a takes 60000; a gives; a has left=0"},
    {"what has no lease says so, and knows no holder", "none",
     "a takes; a extends 1000 -> misuse '..has no leases'; a sees -> misuse; "
     "a has left=-1; a gives"},
    {"or knows one", "process",
     "a takes; a extends 1000 -> misuse '..has no leases'; a sees held=1; "
     "a has left=-1; a gives"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN

/* See lock_waiter.h. */
#include "tests/support/lock_waiter.h"

enum { QUEUED_MS = 120000, PATIENCE_MS = 60000 };

static void *take(void *arg)
{
    struct lock_waiter *waiter = arg;
    struct dlock_terms terms = {.wait_ms = waiter->wait_ms,
                                .lease_ms = waiter->lease_ms};

    waiter->status = dlock_acquire(waiter->session, "k", &terms, &waiter->grant,
                                   &waiter->error);
    waiter->done_at_ms = lock_rig_now_ms();
    waiter->turn = atomic_fetch_add(&rig.turns_n, 1);
    if (waiter->status == DLOCK_OK)
        (void)dlock_release(waiter->session, &waiter->grant, NULL);
    return NULL;
}

void lock_waiter_start(struct lock_waiter *waiter)
{
    assert_int_equal(pthread_create(&waiter->thread, NULL, take, waiter), 0);
}

void lock_waiter_join(struct lock_waiter *waiter)
{
    assert_int_equal(pthread_join(waiter->thread, NULL), 0);
}

long long lock_queue_length(void)
{
    return lock_rig_ask("ZCARD {k}:dlock-queue");
}

void lock_queue_await(long long n)
{
    uint64_t until_ms = lock_rig_now_ms() + PATIENCE_MS;

    while (lock_queue_length() != n) {
        assert_true(lock_rig_now_ms() < until_ms);
        lock_rig_sleep_ms(1);
    }
}

void lock_waiter_queue_up(struct lock_waiter *waiter, long long n)
{
    waiter->client = lock_rig_client("fair");
    waiter->session = lock_rig_session(waiter->client);
    waiter->lease_ms = QUEUED_MS;
    if (waiter->wait_ms == 0)
        waiter->wait_ms = QUEUED_MS;
    lock_waiter_start(waiter);
    lock_queue_await(n);
}

void lock_waiter_close(struct lock_waiter *waiter)
{
    lock_waiter_join(waiter);
    lock_rig_close(waiter->client);
}

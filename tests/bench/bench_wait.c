/*
 * Waiting: how long after a release the next one is in, and how unfair it can
 * be when many wait.
 */
#include "tests/bench/bench.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "server/base/clock.h"

enum {
    HELD_MS = 20, /* hand-over: a waiter has settled down by then */
    WAIT_MS = 60000,
    CROWD_N = 64,
    TURNS = 5, /* of each in the crowd */
    INSIDE_US = 300,
};

static void pause_us(unsigned us)
{
    const struct timespec pause = {.tv_sec = us / 1000000,
                                   .tv_nsec = (long)(us % 1000000) * 1000};

    (void)nanosleep(&pause, NULL);
}

static struct dlock_grant take(struct dlock_session *session, const char *name)
{
    const struct dlock_terms terms = {.wait_ms = WAIT_MS, .lease_ms = WAIT_MS};
    struct dlock_error error = {""};
    struct dlock_grant grant;

    if (dlock_acquire(session, name, &terms, &grant, &error) != DLOCK_OK) {
        fprintf(stderr, "bench: %s\n", error.text);
        abort();
    }
    return grant;
}

/* Hand-over ---------------------------------------------------------------- */

/* Two clients, as of two processes, who take turns. */
struct partner {
    struct dlock_session *session;
    sem_t *mine, *other; /* posted when it is one's turn to wait for the lock */
    atomic_uint_fast64_t *released_us;
    unsigned times_n;
    struct bench_series times;
};

static void *pass_on(void *arg)
{
    struct partner *partner = arg;

    for (unsigned i = 0; i < partner->times_n; i++) {
        struct dlock_grant grant;

        (void)sem_wait(partner->mine); /* the other one holds it now */
        grant = take(partner->session, "bench:handover");
        if (atomic_load(partner->released_us) != 0)
            bench_add(&partner->times,
                      (double)(clock_us() - atomic_load(partner->released_us)));
        (void)sem_post(partner->other);
        pause_us(1000 * HELD_MS);
        atomic_store(partner->released_us, clock_us());
        (void)dlock_release(partner->session, &grant, NULL);
    }
    return NULL;
}

void bench_handover(const struct redis_server *server, const char *strategy,
                    unsigned times_n, struct bench_series *us)
{
    atomic_uint_fast64_t released_us = 0;
    struct partner partners[2];
    struct dlock *clients[2];
    pthread_t threads[2];
    sem_t turns[2];

    (void)sem_init(&turns[0], 0, 1);
    (void)sem_init(&turns[1], 0, 0);
    for (int i = 0; i < 2; i++) {
        clients[i] = bench_client(server, strategy);
        partners[i] = (struct partner){.session = bench_session(clients[i]),
                                       .mine = &turns[i],
                                       .other = &turns[1 - i],
                                       .released_us = &released_us,
                                       .times_n = times_n / 2};
    }
    for (int i = 0; i < 2; i++)
        (void)pthread_create(&threads[i], NULL, pass_on, &partners[i]);
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        for (size_t j = 0; j < partners[i].times.n; j++)
            bench_add(us, partners[i].times.at[j]);
        bench_release(&partners[i].times);
        dlock_session_close(partners[i].session);
        dlock_close(clients[i]);
        (void)sem_destroy(&turns[i]);
    }
}

/* The crowd ---------------------------------------------------------------- */

struct crowd {
    atomic_uint came;                  /* tickets, drawn before asking */
    atomic_uint served;                /* places in the order of the grants */
    unsigned tickets[CROWD_N * TURNS]; /* by that order */
    uint64_t waited_us[CROWD_N * TURNS];
};

struct waiter {
    struct crowd *crowd;
    struct dlock_session *session;
};

static void *queue_up(void *arg)
{
    const struct waiter *waiter = arg;
    struct crowd *crowd = waiter->crowd;

    for (int i = 0; i < TURNS; i++) {
        uint64_t began = clock_us();
        unsigned ticket = atomic_fetch_add(&crowd->came, 1);
        struct dlock_grant grant = take(waiter->session, "bench:crowd");
        unsigned place = atomic_fetch_add(&crowd->served, 1);

        crowd->tickets[place] = ticket;
        crowd->waited_us[place] = clock_us() - began;
        pause_us(INSIDE_US);
        (void)dlock_release(waiter->session, &grant, NULL);
    }
    return NULL;
}

static struct bench_crowd judge(const struct crowd *crowd)
{
    struct bench_crowd found = {.longest_ms = 0};
    double all = 0;

    for (unsigned i = 0; i < CROWD_N * TURNS; i++) {
        unsigned overtaken = 0;

        for (unsigned j = 0; j < i; j++)
            overtaken += crowd->tickets[j] > crowd->tickets[i];
        all += overtaken;
        if (overtaken > found.worst)
            found.worst = overtaken;
        if ((double)crowd->waited_us[i] / 1000 > found.longest_ms)
            found.longest_ms = (double)crowd->waited_us[i] / 1000;
    }
    found.overtakes = all / (CROWD_N * TURNS);
    return found;
}

struct bench_crowd bench_crowd(const struct redis_server *server,
                               const char *strategy)
{
    struct dlock *client = bench_client(server, strategy);
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    struct waiter waiters[CROWD_N];
    pthread_t threads[CROWD_N];
    struct bench_crowd found;

    if (crowd == NULL)
        abort();
    for (int i = 0; i < CROWD_N; i++) {
        waiters[i] = (struct waiter){crowd, bench_session(client)};
        (void)pthread_create(&threads[i], NULL, queue_up, &waiters[i]);
    }
    for (int i = 0; i < CROWD_N; i++) {
        (void)pthread_join(threads[i], NULL);
        dlock_session_close(waiters[i].session);
    }
    found = judge(crowd);
    free(crowd);
    dlock_close(client);
    return found;
}

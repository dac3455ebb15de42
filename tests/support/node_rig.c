#include "tests/support/node_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int node_rig_setup(void **state)
{
    struct node_rig *rig = calloc(1, sizeof(*rig));

    if (rig == NULL)
        return -1;
    (void)pthread_mutex_init(&rig->mutex, NULL);
    for (unsigned i = 0; i < NODE_RIG_MAX; i++) {
        rig->servers[i] = redis_server_start();
        rig->started_at_ms[i] = lock_rig_now_ms();
    }
    *state = rig;
    return 0;
}

static void close_users(struct node_rig *rig)
{
    node_user_close(&rig->a);
    node_user_close(&rig->b);
}

int node_rig_teardown(void **state)
{
    struct node_rig *rig = *state;

    close_users(rig);
    for (unsigned i = 0; i < NODE_RIG_MAX; i++)
        redis_server_stop(rig->servers[i]);
    (void)pthread_mutex_destroy(&rig->mutex);
    free(rig);
    return 0;
}

void node_rig_kill(struct node_rig *rig, unsigned node)
{
    redis_server_kill(rig->servers[node]);
    rig->down[node] = true;
}

void node_rig_restart(struct node_rig *rig, unsigned node)
{
    node_rig_kill(rig, node);
    redis_server_restart(rig->servers[node]);
    rig->started_at_ms[node] = lock_rig_now_ms();
    rig->down[node] = false;
}

void node_rig_pause(struct node_rig *rig, unsigned node)
{
    redis_server_pause(rig->servers[node]);
    rig->down[node] = true;
}

void node_rig_resume(struct node_rig *rig, unsigned node)
{
    redis_server_resume(rig->servers[node]);
    rig->down[node] = false;
}

/* A test that failed may have left some of them stopped or dead. */
void node_rig_fresh(struct node_rig *rig, unsigned n)
{
    size_t len = 0;

    close_users(rig);
    rig->n = n;
    for (unsigned i = 0; i < NODE_RIG_MAX; i++) {
        if (rig->down[i])
            node_rig_restart(rig, i);
        redis_server_ask(rig->servers[i], "FLUSHALL", NULL, 0);
        if (i < n)
            len += (size_t)snprintf(rig->url + len, sizeof(rig->url) - len,
                                    "%s%s", i > 0 ? "," : "",
                                    redis_server_url(rig->servers[i]));
    }
    step_log_init(&rig->log);
    memset(rig->faults, 0, sizeof(rig->faults));
    rig->watchdog_lease_ms = 0;
    rig->longest_lease_ms = 0;
    rig->command_timeout_ms = 0;
    rig->clock = NULL;
    atomic_store(&rig->lost_n, 0);
}

struct node_rig *node_rig_redlock(void **state, unsigned n, unsigned lease_ms)
{
    struct node_rig *rig = *state;

    node_rig_fresh(rig, n);
    rig->longest_lease_ms = NODE_RIG_LONGEST_MS;
    rig->watchdog_lease_ms = lease_ms;
    node_rig_age(rig, NODE_RIG_OF_AGE_MS);
    node_rig_open(rig, "redlock");
    return rig;
}

void node_rig_age(const struct node_rig *rig, unsigned ms)
{
    uint64_t youngest = 0;
    uint64_t now = lock_rig_now_ms();

    for (unsigned i = 0; i < rig->n; i++)
        if (!rig->down[i] && rig->started_at_ms[i] > youngest)
            youngest = rig->started_at_ms[i];
    if (youngest + ms > now)
        lock_rig_sleep_ms((unsigned)(youngest + ms - now));
}

void node_rig_ask(const struct node_rig *rig, unsigned node,
                  const char *command)
{
    redis_server_ask(rig->servers[node], command, NULL, 0);
}

static void add_fault(struct node_rig *rig, struct node_fault fault)
{
    unsigned i = 0;

    (void)pthread_mutex_lock(&rig->mutex);
    while (rig->faults[i].n > 0)
        i++;
    rig->faults[i] = fault;
    (void)pthread_mutex_unlock(&rig->mutex);
}

void node_rig_fail(struct node_rig *rig, unsigned node, const char *step,
                   enum dlock_phase phase, unsigned n)
{
    add_fault(rig, (struct node_fault){
                       .step = step, .phase = phase, .node = node, .n = n});
}

void node_rig_mend(struct node_rig *rig)
{
    (void)pthread_mutex_lock(&rig->mutex);
    memset(rig->faults, 0, sizeof(rig->faults));
    (void)pthread_mutex_unlock(&rig->mutex);
}

void node_rig_call(struct node_rig *rig, unsigned node, const char *step,
                   enum dlock_phase phase, void (*instead)(void *ctx),
                   void *ctx)
{
    add_fault(rig, (struct node_fault){.step = step,
                                       .phase = phase,
                                       .node = node,
                                       .n = 1,
                                       .instead = instead,
                                       .ctx = ctx});
}

/* The fault that this step meets with, or one with n = 0. */
static struct node_fault take_fault(struct node_rig *rig,
                                    const struct dlock_step *step)
{
    struct node_fault found = {.n = 0};

    (void)pthread_mutex_lock(&rig->mutex);
    for (size_t i = 0; i < sizeof(rig->faults) / sizeof(rig->faults[0]); i++) {
        struct node_fault *each = &rig->faults[i];

        if (found.n > 0 || each->n == 0 || each->phase != step->phase ||
            each->node != step->node || strcmp(each->step, step->name) != 0)
            continue;
        found = *each;
        each->n--;
    }
    (void)pthread_mutex_unlock(&rig->mutex);
    return found;
}

static enum dlock_verdict hook(void *ctx, const struct dlock_step *step)
{
    struct node_rig *rig = ctx;
    struct node_fault fault = take_fault(rig, step);

    (void)step_log_hook(&rig->log, step);
    if (fault.n == 0)
        return DLOCK_GO;
    if (fault.instead == NULL)
        return DLOCK_FAIL;
    fault.instead(fault.ctx);
    return DLOCK_GO;
}

static void note_loss(void *ctx, const char *name, const char *owner,
                      enum dlock_loss reason)
{
    struct node_rig *rig = ctx;

    (void)name;
    (void)owner;
    atomic_store(&rig->loss, (int)reason);
    atomic_fetch_add(&rig->lost_n, 1);
}

struct node_user node_rig_user(struct node_rig *rig, const char *strategy)
{
    struct dlock_options options = {
        .strategy = strategy,
        .url = rig->url,
        .watchdog_lease_ms = rig->watchdog_lease_ms,
        .longest_lease_ms = rig->longest_lease_ms,
        .command_timeout_ms = rig->command_timeout_ms,
        .clock = rig->clock,
        .on_step = hook,
        .on_step_ctx = rig,
        .on_lost = note_loss,
        .on_lost_ctx = rig,
    };
    struct node_user user = {.client = NULL};
    struct dlock_error error;

    if (dlock_open(&options, &user.client, &error) != DLOCK_OK) {
        fprintf(stderr, "node_rig: %s\n", error.text);
        abort();
    }
    user.session = lock_rig_session(user.client);
    return user;
}

void node_user_close(struct node_user *user)
{
    dlock_session_close(user->session);
    dlock_close(user->client);
    *user = (struct node_user){.client = NULL};
}

void node_rig_open(struct node_rig *rig, const char *strategy)
{
    close_users(rig);
    rig->a = node_rig_user(rig, strategy);
    rig->b = node_rig_user(rig, strategy);
}

enum dlock_status node_take(struct node_user *user, unsigned wait_ms,
                            unsigned lease_ms)
{
    return lock_rig_take(user->session, "k", wait_ms, lease_ms, &user->grant);
}

enum dlock_status node_give(struct node_user *user)
{
    return dlock_release(user->session, &user->grant, NULL);
}

uint64_t node_left_ms(const struct node_user *user)
{
    return dlock_remaining_ms(user->session, &user->grant);
}

static void *give_soon(void *user)
{
    lock_rig_sleep_ms(300);
    (void)node_give(user);
    return NULL;
}

uint64_t node_rig_wait_ms(struct node_rig *rig)
{
    pthread_t thread;
    uint64_t began_ms;

    assert_int_equal(node_take(&rig->a, 5000, 0), DLOCK_OK);
    assert_int_equal(pthread_create(&thread, NULL, give_soon, &rig->a), 0);
    step_log_reset(&rig->log);
    began_ms = lock_rig_now_ms();
    assert_int_equal(node_take(&rig->b, LOCK_RIG_LONG_MS, 0), DLOCK_OK);
    began_ms = lock_rig_now_ms() - began_ms;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(node_give(&rig->b), DLOCK_OK);
    return began_ms;
}

void node_rig_await_lost(struct node_rig *rig, unsigned n)
{
    uint64_t until_ms = lock_rig_now_ms() + LOCK_RIG_LONG_MS;

    while (atomic_load(&rig->lost_n) < n && lock_rig_now_ms() < until_ms)
        lock_rig_sleep_ms(1);
    assert_int_equal(atomic_load(&rig->lost_n), n);
}

unsigned node_rig_held(const struct node_rig *rig)
{
    unsigned held = 0;

    for (unsigned i = 0; i < rig->n; i++)
        if (!rig->down[i])
            held += redis_server_number(rig->servers[i], "EXISTS k") == 1;
    return held;
}

bool node_is_uncertain(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE;
}

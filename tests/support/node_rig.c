#include "tests/support/node_rig.h"

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

int node_rig_teardown(void **state)
{
    struct node_rig *rig = *state;

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
    rig->on_lost = NULL;
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

struct dlock *node_rig_client(struct node_rig *rig, const char *strategy)
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
        .on_lost = rig->on_lost,
        .on_lost_ctx = rig->on_lost_ctx,
    };
    struct dlock *client = NULL;
    struct dlock_error error;

    if (dlock_open(&options, &client, &error) != DLOCK_OK) {
        fprintf(stderr, "node_rig: %s\n", error.text);
        abort();
    }
    return client;
}

struct node_user node_rig_user(struct node_rig *rig, const char *strategy)
{
    struct node_user user = {.client = node_rig_client(rig, strategy)};

    user.session = lock_rig_session(user.client);
    return user;
}

void node_user_close(struct node_user *user)
{
    dlock_session_close(user->session);
    dlock_close(user->client);
}

unsigned node_rig_held(const struct node_rig *rig)
{
    unsigned held = 0;

    for (unsigned i = 0; i < rig->n; i++)
        if (!rig->down[i])
            held += redis_server_number(rig->servers[i], "EXISTS k") == 1;
    return held;
}

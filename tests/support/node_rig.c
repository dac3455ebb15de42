#include "tests/support/node_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node_rig nodes = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static uint64_t ahead(void *ctx)
{
    return lock_rig_now_ms() + atomic_load(&nodes.ahead_ms);
}

static void throw_sevens(void *ctx, void *bytes, size_t len)
{
    memset(bytes, 7, len);
}

const struct dlock_clock node_rig_ahead = {.now_ms = ahead,
                                           .random = throw_sevens};

static int by_address(const void *one, const void *other)
{
    return strcmp(redis_server_url(*(struct redis_server *const *)one),
                  redis_server_url(*(struct redis_server *const *)other));
}

int node_rig_setup(void **state)
{
    (void)lock_rig_setup(state);
    for (unsigned i = 0; i < NODE_RIG_MAX; i++)
        nodes.servers[i] = redis_server_start();
    qsort(nodes.servers, NODE_RIG_MAX, sizeof(nodes.servers) / NODE_RIG_MAX,
          by_address);
    for (unsigned i = 0; i < NODE_RIG_MAX; i++)
        nodes.started_at_ms[i] = lock_rig_now_ms();
    return 0;
}

int node_rig_teardown(void **state)
{
    (void)lock_rig_teardown(state);
    for (unsigned i = 0; i < NODE_RIG_MAX; i++)
        redis_server_stop(nodes.servers[i]);
    return 0;
}

void node_rig_do(unsigned node, const char *how)
{
    bool restarts = strcmp(how, "restart") == 0;

    if (restarts)
        redis_server_kill(nodes.servers[node]);
    redis_server_do(nodes.servers[node], how);
    if (restarts)
        nodes.started_at_ms[node] = lock_rig_now_ms();
    nodes.down[node] = !restarts && strcmp(how, "resume") != 0;
}

void node_rig_mend(void)
{
    (void)pthread_mutex_lock(&nodes.mutex);
    memset(nodes.faults, 0, sizeof(nodes.faults));
    (void)pthread_mutex_unlock(&nodes.mutex);
}

/* The fault that this step meets with, or one with n = 0. */
static struct node_fault take_fault(const struct dlock_step *step)
{
    struct node_fault found = {.n = 0};

    (void)pthread_mutex_lock(&nodes.mutex);
    for (size_t i = 0; i < sizeof(nodes.faults) / sizeof(nodes.faults[0]);
         i++) {
        struct node_fault *each = &nodes.faults[i];

        if (found.n > 0 || each->n == 0 || each->phase != step->phase ||
            each->node != step->node || strcmp(each->step, step->name) != 0)
            continue;
        found = *each;
        each->n--;
    }
    (void)pthread_mutex_unlock(&nodes.mutex);
    return found;
}

static enum dlock_verdict hook(void *ctx, const struct dlock_step *step)
{
    struct node_fault fault = take_fault(step);
    enum dlock_verdict verdict = step_log_hook(&rig.log, step);

    if (fault.n == 0)
        return verdict;
    if (fault.instead == NULL)
        return DLOCK_FAIL;
    fault.instead(fault.ctx);
    return DLOCK_GO;
}

/* A test that failed may have left some of them stopped or dead. */
void node_rig_fresh(unsigned n)
{
    size_t len = 0;

    (void)lock_rig_fresh(NULL);
    nodes.a = nodes.b = (struct lock_single){.client = NULL};
    nodes.n = n;
    for (unsigned i = 0; i < NODE_RIG_MAX; i++) {
        if (nodes.down[i])
            node_rig_do(i, "restart");
        redis_server_tell(nodes.servers[i], "FLUSHALL");
        if (i < n)
            len += (size_t)snprintf(nodes.url + len, sizeof(nodes.url) - len,
                                    "%s%s", i > 0 ? "," : "",
                                    redis_server_url(nodes.servers[i]));
    }
    node_rig_mend();
    atomic_store(&nodes.ahead_ms, 0);
    rig.url = nodes.url;
    rig.on_step = hook;
    rig.command_timeout_ms = 0;
}

void node_rig_redlock(unsigned n, unsigned lease_ms)
{
    node_rig_fresh(n);
    rig.longest_lease_ms = NODE_RIG_LONGEST_MS;
    rig.watchdog_lease_ms = lease_ms;
    node_rig_age(NODE_RIG_OF_AGE_MS);
    node_rig_open("redlock");
}

void node_rig_age(unsigned ms)
{
    uint64_t youngest = 0;
    uint64_t now = lock_rig_now_ms();

    for (unsigned i = 0; i < nodes.n; i++)
        if (!nodes.down[i] && nodes.started_at_ms[i] > youngest)
            youngest = nodes.started_at_ms[i];
    if (youngest + ms > now)
        lock_rig_sleep_ms((unsigned)(youngest + ms - now));
}

void node_rig_ask(unsigned node, const char *command)
{
    redis_server_tell(nodes.servers[node], "%s", command);
}

static void add_fault(const char *step, struct node_fault fault)
{
    unsigned i = 0;

    (void)snprintf(fault.step, sizeof(fault.step), "%s", step);
    (void)pthread_mutex_lock(&nodes.mutex);
    while (nodes.faults[i].n > 0)
        i++;
    nodes.faults[i] = fault;
    (void)pthread_mutex_unlock(&nodes.mutex);
}

void node_rig_fail(unsigned node, const char *step, enum dlock_phase phase,
                   unsigned n)
{
    add_fault(step, (struct node_fault){.phase = phase, .node = node, .n = n});
}

void node_rig_call(unsigned node, const char *step, enum dlock_phase phase,
                   void (*instead)(void *ctx), void *ctx)
{
    add_fault(step, (struct node_fault){.phase = phase,
                                        .node = node,
                                        .n = 1,
                                        .instead = instead,
                                        .ctx = ctx});
}

static void nap(void *ms)
{
    lock_rig_sleep_ms(*(unsigned *)ms);
}

void node_rig_nap(unsigned node, const char *step, enum dlock_phase phase,
                  unsigned ms)
{
    static unsigned nap_ms; /* of the last one */

    nap_ms = ms;
    node_rig_call(node, step, phase, nap, &nap_ms);
}

void node_rig_open(const char *strategy)
{
    lock_single_close(&nodes.a);
    lock_single_close(&nodes.b);
    nodes.a = lock_single_open(strategy);
    nodes.b = lock_single_open(strategy);
}

enum dlock_status node_take(struct lock_single *user, unsigned wait_ms,
                            unsigned lease_ms)
{
    return lock_rig_take(user->session, "k", wait_ms, lease_ms, &user->grant);
}

unsigned node_rig_held(void)
{
    unsigned held = 0;

    for (unsigned i = 0; i < nodes.n; i++)
        if (!nodes.down[i])
            held += redis_server_number(nodes.servers[i], "EXISTS k") == 1;
    return held;
}

bool node_is_uncertain(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE;
}

/* The steps that a test of the order path sees, and stops. See order_rig.h. */
#include "tests/support/order_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_S = 60, RULES_MAX = 4, STEP_BYTES = 24 };

/* A step of a product, and how often it came by, by phase. */
struct row {
    int64_t product_id;
    char step[STEP_BYTES];
    unsigned n[2], last[2];
};

/* At this step, of this product, a thread stops, or the step fails once. */
struct rule {
    char step[STEP_BYTES];
    int64_t product_id;
    enum store_phase phase;
    bool fails;
};

struct order_watch {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned steps_n;
    struct row *rows;
    size_t rows_n, rows_room;
    struct rule rules[RULES_MAX];
    size_t rules_n;
    unsigned round; /* of holds: rises when all are let go */
    unsigned held;  /* threads that were stopped in this round */
};

struct order_watch *order_watch_new(void)
{
    struct order_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        server_proc_die("order_watch", "no memory");
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_cond_init(&watch->changed, NULL);
    return watch;
}

void order_watch_free(struct order_watch *watch)
{
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->mutex);
    free(watch->rows);
    free(watch);
}

/* ---- at a step, with the mutex --------------------------------------------- */

static void count(struct order_watch *watch, const char *step,
                  int64_t product_id, enum store_phase phase)
{
    struct row *row = watch->rows;
    struct row *end = row + watch->rows_n;

    while (row < end &&
           (row->product_id != product_id || strcmp(row->step, step) != 0))
        row++;
    if (row == end) {
        if (watch->rows_n == watch->rows_room) {
            watch->rows_room = watch->rows_room * 2 + 64;
            watch->rows =
                realloc(watch->rows, watch->rows_room * sizeof(*watch->rows));
            if (!watch->rows)
                server_proc_die("order_watch", "no memory");
        }
        row = &watch->rows[watch->rows_n++];
        *row = (struct row){.product_id = product_id};
        snprintf(row->step, sizeof(row->step), "%s", step);
    }
    row->n[phase]++;
    row->last[phase] = ++watch->steps_n;
}

static struct rule *find_rule(struct order_watch *watch, const char *step,
                              int64_t product_id, enum store_phase phase,
                              bool fails)
{
    for (size_t i = 0; i < watch->rules_n; i++) {
        struct rule *rule = &watch->rules[i];

        if (rule->fails == fails && rule->phase == phase &&
            (rule->product_id == 0 || rule->product_id == product_id) &&
            strcmp(rule->step, step) == 0)
            return rule;
    }
    return NULL;
}

enum store_verdict order_watch_store(void *ctx, const struct store_step *step)
{
    struct order_watch *watch = ctx;
    struct rule *fault;
    unsigned round;

    pthread_mutex_lock(&watch->mutex);
    count(watch, step->name, step->product_id, step->phase);
    round = watch->round;
    if (find_rule(watch, step->name, step->product_id, step->phase, false)) {
        watch->held++;
        pthread_cond_broadcast(&watch->changed);
        while (watch->round == round)
            pthread_cond_wait(&watch->changed, &watch->mutex);
    }
    fault = find_rule(watch, step->name, step->product_id, step->phase, true);
    if (fault)
        *fault = watch->rules[--watch->rules_n];
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    return fault ? STORE_FAIL : STORE_GO;
}

enum dlock_verdict order_watch_lock(void *watch, const struct dlock_step *step)
{
    enum store_phase phase =
        step->phase == DLOCK_BEFORE ? STORE_BEFORE : STORE_AFTER;
    long long product_id = 0;

    if (!step->key || sscanf(step->key, "lock:{%lld:", &product_id) != 1)
        product_id = 0;
    (void)order_watch_store(
        watch, &(struct store_step){"command", product_id, phase, NULL});
    return order_watch_store(watch, &(struct store_step){step->name, product_id,
                                                         phase, NULL}) ==
                   STORE_FAIL
               ? DLOCK_FAIL
               : DLOCK_GO;
}

/* ---- for tests ------------------------------------------------------------- */

static void add_rule(struct order_rig *rig, const char *step,
                     int64_t product_id, enum store_phase phase, bool fails)
{
    struct order_watch *watch = order_rig_watch(rig);
    struct rule rule = {
        .product_id = product_id, .phase = phase, .fails = fails};

    snprintf(rule.step, sizeof(rule.step), "%s", step);
    pthread_mutex_lock(&watch->mutex);
    if (watch->rules_n == RULES_MAX)
        server_proc_die("order_watch", "too many rules");
    watch->rules[watch->rules_n++] = rule;
    pthread_mutex_unlock(&watch->mutex);
}

void order_watch_hold(struct order_rig *rig, const char *step,
                      int64_t product_id)
{
    add_rule(rig, step, product_id, STORE_BEFORE, false);
}

void order_watch_fail(struct order_rig *rig, const char *step,
                      enum store_phase phase)
{
    add_rule(rig, step, 0, phase, true);
}

void order_watch_let_go(struct order_rig *rig)
{
    struct order_watch *watch = order_rig_watch(rig);
    size_t faults_n = 0;

    pthread_mutex_lock(&watch->mutex);
    watch->round++;
    watch->held = 0;
    for (size_t i = 0; i < watch->rules_n; i++)
        if (watch->rules[i].fails)
            watch->rules[faults_n++] = watch->rules[i];
    watch->rules_n = faults_n;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
}

/* With the mutex. */
static unsigned sum(const struct order_watch *watch, const char *step,
                    int64_t product_id, enum store_phase phase)
{
    unsigned n = 0;

    for (size_t i = 0; i < watch->rows_n; i++) {
        const struct row *row = &watch->rows[i];

        if ((product_id == 0 || row->product_id == product_id) &&
            strcmp(row->step, step) == 0)
            n += row->n[phase];
    }
    return n;
}

unsigned order_watch_count(struct order_rig *rig, const char *step,
                           int64_t product_id, enum store_phase phase)
{
    struct order_watch *watch = order_rig_watch(rig);
    unsigned n;

    pthread_mutex_lock(&watch->mutex);
    n = sum(watch, step, product_id, phase);
    pthread_mutex_unlock(&watch->mutex);
    return n;
}

unsigned order_watch_last(struct order_rig *rig, const char *step,
                          enum store_phase phase)
{
    struct order_watch *watch = order_rig_watch(rig);
    unsigned last = 0;

    pthread_mutex_lock(&watch->mutex);
    for (size_t i = 0; i < watch->rows_n; i++) {
        const struct row *row = &watch->rows[i];

        if (strcmp(row->step, step) == 0 && row->last[phase] > last)
            last = row->last[phase];
    }
    pthread_mutex_unlock(&watch->mutex);
    return last;
}

struct timespec order_watch_patience(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    return until;
}

void order_watch_wait(pthread_cond_t *changed, pthread_mutex_t *mutex,
                      const struct timespec *until, const char *what)
{
    if (pthread_cond_timedwait(changed, mutex, until) != 0)
        server_proc_die("waited in vain for", what);
}

void order_watch_await_held(struct order_rig *rig)
{
    struct order_watch *watch = order_rig_watch(rig);
    const struct timespec until = order_watch_patience();

    pthread_mutex_lock(&watch->mutex);
    while (watch->held == 0)
        order_watch_wait(&watch->changed, &watch->mutex, &until,
                         "a thread to be held");
    pthread_mutex_unlock(&watch->mutex);
}

void order_watch_await_begun(struct order_rig *rig, const char *step,
                             int64_t product_id)
{
    struct order_watch *watch = order_rig_watch(rig);
    const struct timespec until = order_watch_patience();

    pthread_mutex_lock(&watch->mutex);
    while (sum(watch, step, product_id, STORE_BEFORE) == 0)
        order_watch_wait(&watch->changed, &watch->mutex, &until, step);
    pthread_mutex_unlock(&watch->mutex);
}

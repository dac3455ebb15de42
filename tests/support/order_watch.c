#include "tests/support/order_watch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_S = 60, RULES_MAX = 4, STEP_BYTES = 24 };

enum { BEFORE, AFTER };

/* A step of a product, and how often it came by, by phase. */
struct row {
    int64_t product_id;
    bool is_command; /* to the lock server */
    char step[STEP_BYTES];
    unsigned n[2];
};

struct rule {
    char step[STEP_BYTES];
    int64_t product_id;
    int phase;
    unsigned left; /* times that it still acts */
};

struct order_watch {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct row *rows;
    size_t rows_n, rows_room;
    struct rule holds[RULES_MAX];
    size_t holds_n;
    unsigned round; /* of holds: rises when all are let go */
    unsigned held;  /* threads that were stopped in this round */
    struct rule faults[RULES_MAX];
    size_t faults_n;
};

static void die(const char *what)
{
    fprintf(stderr, "order_watch: %s\n", what);
    abort();
}

struct order_watch *order_watch_new(void)
{
    struct order_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        die("no memory");
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

static void count(struct order_watch *watch, bool is_command, const char *step,
                  int64_t product_id, int phase)
{
    struct row *row = watch->rows;
    struct row *end = row + watch->rows_n;

    while (row < end &&
           (row->product_id != product_id || row->is_command != is_command ||
            strcmp(row->step, step) != 0))
        row++;
    if (row == end) {
        if (watch->rows_n == watch->rows_room) {
            watch->rows_room = watch->rows_room * 2 + 64;
            watch->rows =
                realloc(watch->rows, watch->rows_room * sizeof(*watch->rows));
            if (!watch->rows)
                die("no memory");
        }
        row = &watch->rows[watch->rows_n++];
        *row = (struct row){.product_id = product_id, .is_command = is_command};
        snprintf(row->step, sizeof(row->step), "%s", step);
    }
    row->n[phase]++;
}

static bool fits(const struct rule *rule, const char *step, int64_t product_id,
                 int phase)
{
    return rule->left > 0 && rule->phase == phase &&
           (rule->product_id == 0 || rule->product_id == product_id) &&
           strcmp(rule->step, step) == 0;
}

static void stop_here(struct order_watch *watch, const char *step,
                      int64_t product_id, int phase)
{
    unsigned round = watch->round;

    for (size_t i = 0; i < watch->holds_n; i++) {
        if (!fits(&watch->holds[i], step, product_id, phase))
            continue;
        watch->held++;
        pthread_cond_broadcast(&watch->changed);
        while (watch->round == round)
            pthread_cond_wait(&watch->changed, &watch->mutex);
        return;
    }
}

static bool has_fault(struct order_watch *watch, const char *step,
                      int64_t product_id, int phase)
{
    for (size_t i = 0; i < watch->faults_n; i++) {
        if (fits(&watch->faults[i], step, product_id, phase)) {
            watch->faults[i].left--;
            return true;
        }
    }
    return false;
}

/* True: the step fails. */
static bool come_by(struct order_watch *watch, bool is_command,
                    const char *step, int64_t product_id, int phase)
{
    bool fails;

    pthread_mutex_lock(&watch->mutex);
    count(watch, is_command, step, product_id, phase);
    pthread_cond_broadcast(&watch->changed);
    stop_here(watch, step, product_id, phase);
    fails = has_fault(watch, step, product_id, phase);
    pthread_mutex_unlock(&watch->mutex);
    return fails;
}

enum store_verdict order_watch_store(void *watch, const char *step,
                                     int64_t product_id, enum store_phase phase)
{
    bool fails = come_by(watch, false, step, product_id,
                         phase == STORE_BEFORE ? BEFORE : AFTER);

    return fails ? STORE_FAIL : STORE_GO;
}

enum dlock_verdict order_watch_lock(void *watch, const struct dlock_step *step)
{
    long long product_id = 0;
    bool fails;

    if (!step->key || sscanf(step->key, "lock:{%lld:", &product_id) != 1)
        product_id = 0;
    fails = come_by(watch, true, step->name, product_id,
                    step->phase == DLOCK_BEFORE ? BEFORE : AFTER);
    return fails ? DLOCK_FAIL : DLOCK_GO;
}

/* ---- for tests ------------------------------------------------------------- */

static void add_rule(struct order_watch *watch, struct rule *rules, size_t *n,
                     const struct rule *rule)
{
    pthread_mutex_lock(&watch->mutex);
    if (*n == RULES_MAX)
        die("too many rules");
    rules[(*n)++] = *rule;
    pthread_mutex_unlock(&watch->mutex);
}

static struct rule rule_of(const char *step, int64_t product_id, int phase,
                           unsigned n)
{
    struct rule rule = {.product_id = product_id, .phase = phase, .left = n};

    snprintf(rule.step, sizeof(rule.step), "%s", step);
    return rule;
}

void order_watch_hold(struct order_watch *watch, const char *step,
                      int64_t product_id)
{
    const struct rule rule = rule_of(step, product_id, BEFORE, 1);

    add_rule(watch, watch->holds, &watch->holds_n, &rule);
}

void order_watch_let_go(struct order_watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    watch->round++;
    watch->held = 0;
    watch->holds_n = 0;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
}

void order_watch_fail(struct order_watch *watch, const char *step,
                      int64_t product_id, unsigned n)
{
    const struct rule rule = rule_of(step, product_id, BEFORE, n);

    add_rule(watch, watch->faults, &watch->faults_n, &rule);
}

void order_watch_fail_after(struct order_watch *watch, const char *step,
                            int64_t product_id, unsigned n)
{
    const struct rule rule = rule_of(step, product_id, AFTER, n);

    add_rule(watch, watch->faults, &watch->faults_n, &rule);
}

void order_watch_mend(struct order_watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    watch->faults_n = 0;
    pthread_mutex_unlock(&watch->mutex);
}

/* With the mutex. */
static unsigned sum(const struct order_watch *watch, const char *step,
                    int64_t product_id, int phase)
{
    unsigned n = 0;

    for (size_t i = 0; i < watch->rows_n; i++) {
        const struct row *row = &watch->rows[i];

        if ((product_id == 0 || row->product_id == product_id) &&
            (!step || strcmp(row->step, step) == 0))
            n += row->n[phase];
    }
    return n;
}

static unsigned sum_now(struct order_watch *watch, const char *step,
                        int64_t product_id, int phase)
{
    unsigned n;

    pthread_mutex_lock(&watch->mutex);
    n = sum(watch, step, product_id, phase);
    pthread_mutex_unlock(&watch->mutex);
    return n;
}

unsigned order_watch_begun(struct order_watch *watch, const char *step,
                           int64_t product_id)
{
    return sum_now(watch, step, product_id, BEFORE);
}

unsigned order_watch_ended(struct order_watch *watch, const char *step,
                           int64_t product_id)
{
    return sum_now(watch, step, product_id, AFTER);
}

unsigned order_watch_commands(struct order_watch *watch, int64_t product_id)
{
    unsigned n = 0;

    pthread_mutex_lock(&watch->mutex);
    for (size_t i = 0; i < watch->rows_n; i++)
        if (watch->rows[i].is_command &&
            watch->rows[i].product_id == product_id)
            n += watch->rows[i].n[BEFORE];
    pthread_mutex_unlock(&watch->mutex);
    return n;
}

static struct timespec out_of_patience(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    return until;
}

static void wait_change(struct order_watch *watch, const char *what,
                        const struct timespec *until)
{
    if (pthread_cond_timedwait(&watch->changed, &watch->mutex, until) == 0)
        return;
    fprintf(stderr, "order_watch: waited in vain for %s\n", what);
    abort();
}

void order_watch_await_held(struct order_watch *watch, unsigned n)
{
    struct timespec until = out_of_patience();

    pthread_mutex_lock(&watch->mutex);
    while (watch->held < n)
        wait_change(watch, "a thread to be held", &until);
    pthread_mutex_unlock(&watch->mutex);
}

void order_watch_await_begun(struct order_watch *watch, const char *step,
                             int64_t product_id, unsigned n)
{
    struct timespec until = out_of_patience();

    pthread_mutex_lock(&watch->mutex);
    while (sum(watch, step, product_id, BEFORE) < n)
        wait_change(watch, step, &until);
    pthread_mutex_unlock(&watch->mutex);
}

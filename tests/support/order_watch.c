/* The steps that a test of the order path sees, and stops. See order_rig.h. */
#include "tests/support/order_rig.h"
#include "tests/support/step_log.h"

/* A dozen steps of each of a thousand products have room. */
enum { ROWS_MAX = 1 << 15 };

static enum dlock_phase as_of_lock(enum store_phase phase)
{
    return phase == STORE_BEFORE ? DLOCK_BEFORE : DLOCK_AFTER;
}

struct step_log *order_watch_new(void)
{
    struct step_log *log = malloc(sizeof(*log));

    if (!log)
        server_proc_die("order_watch", "no memory");
    step_log_init(log);
    log->rows_max = ROWS_MAX;
    log->rows = calloc(ROWS_MAX, sizeof(*log->rows));
    if (!log->rows)
        server_proc_die("order_watch", "no memory");
    return log;
}

void order_watch_free(struct step_log *log)
{
    pthread_cond_destroy(&log->changed);
    pthread_mutex_destroy(&log->mutex);
    free(log->rows);
    free(log);
}

enum store_verdict order_watch_store(void *log, const struct store_step *step)
{
    return step_log_note(log, step->name, step->product_id,
                         as_of_lock(step->phase)) == DLOCK_FAIL
               ? STORE_FAIL
               : STORE_GO;
}

enum dlock_verdict order_watch_lock(void *log, const struct dlock_step *step)
{
    long long product_id = 0;

    if (!step->key || sscanf(step->key, "lock:{%lld:", &product_id) != 1)
        product_id = 0;
    (void)step_log_note(log, "command", product_id, step->phase);
    return step_log_note(log, step->name, product_id, step->phase);
}

void order_watch_hold(struct order_rig *rig, const char *step,
                      int64_t product_id)
{
    step_log_shut_at(order_rig_watch(rig), step, product_id, DLOCK_BEFORE);
}

void order_watch_let_go(struct order_rig *rig)
{
    step_log_open(order_rig_watch(rig));
}

void order_watch_let_pass(struct order_rig *rig)
{
    step_log_pass(order_rig_watch(rig));
}

void order_watch_await_held(struct order_rig *rig)
{
    step_log_await_gate(order_rig_watch(rig), 1);
}

void order_watch_fail(struct order_rig *rig, const char *step,
                      enum store_phase phase)
{
    step_log_fail(order_rig_watch(rig), step, as_of_lock(phase), 1);
}

unsigned order_watch_count(struct order_rig *rig, const char *step,
                           int64_t product_id, enum store_phase phase)
{
    return step_log_count_at(order_rig_watch(rig), step, product_id,
                             as_of_lock(phase));
}

void order_watch_await_begun(struct order_rig *rig, const char *step,
                             int64_t product_id)
{
    step_log_await_at(order_rig_watch(rig), step, product_id, DLOCK_BEFORE, 1);
}

unsigned order_watch_last(struct order_rig *rig, const char *step,
                          enum store_phase phase)
{
    return step_log_last(order_rig_watch(rig), step, as_of_lock(phase));
}

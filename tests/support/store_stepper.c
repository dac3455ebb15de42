/* See store_stepper.h. */
#include "db/committer.h"
#include "tests/support/store_stepper.h"

static struct {
    pthread_mutex_t mutex; /* guards what follows, and what is told */
    pthread_cond_t changed;
    const struct sql *db;
    const struct sql_engine *real;
    int at; /* counted down to 0; STORE_STEPPER_COMMIT */
    bool stopped;
} stepper = {.mutex = PTHREAD_MUTEX_INITIALIZER,
             .changed = PTHREAD_COND_INITIALIZER};

static void step(const struct sql *db, bool commits)
{
    pthread_mutex_lock(&stepper.mutex);
    if (db == stepper.db && ((stepper.at > 0 && --stepper.at == 0) ||
                             (stepper.at == STORE_STEPPER_COMMIT && commits))) {
        stepper.at = 0;
        stepper.stopped = true;
        pthread_cond_broadcast(&stepper.changed);
        while (stepper.stopped)
            pthread_cond_wait(&stepper.changed, &stepper.mutex);
    }
    pthread_mutex_unlock(&stepper.mutex);
}

static void prepare(struct sql_query *query)
{
    step(query->db, false);
    stepper.real->prepare(query);
}

static enum store_status commit(struct sql *db)
{
    step(db, true);
    return stepper.real->commit(db);
}

/* On the committer's thread, whose connection may be another one by now. */
static enum store_status arm(struct store *store, struct store_write *write)
{
    static struct sql_engine table;

    (void)write;
    if (store->db->engine != &table)
        stepper.real = store->db->engine;
    table = *stepper.real;
    table.prepare = prepare;
    table.commit = commit;
    store->db->engine = &table;
    stepper.db = store->db;
    return STORE_NO_ORDER;
}

void store_stepper_set(struct store *store, int at)
{
    struct store_write write = {0};

    (void)write_step(store, &write, arm, "arm", 0, NULL);
    pthread_mutex_lock(&stepper.mutex);
    stepper.at = at;
    pthread_mutex_unlock(&stepper.mutex);
}

bool store_stepper_wait(const bool *done)
{
    bool stopped;

    pthread_mutex_lock(&stepper.mutex);
    while (!stepper.stopped && !*done)
        pthread_cond_wait(&stepper.changed, &stepper.mutex);
    stopped = stepper.stopped;
    stepper.at = 0;
    pthread_mutex_unlock(&stepper.mutex);
    return stopped;
}

void store_stepper_go_on(void)
{
    pthread_mutex_lock(&stepper.mutex);
    stepper.stopped = false;
    pthread_cond_broadcast(&stepper.changed);
    pthread_mutex_unlock(&stepper.mutex);
}

void store_stepper_tell(bool *done)
{
    pthread_mutex_lock(&stepper.mutex);
    *done = true;
    pthread_cond_broadcast(&stepper.changed);
    pthread_mutex_unlock(&stepper.mutex);
}

bool store_stepper_is_told(const bool *done)
{
    bool told;

    pthread_mutex_lock(&stepper.mutex);
    told = *done;
    pthread_mutex_unlock(&stepper.mutex);
    return told;
}

/* See store_nodes.h. */
#include "db/store/committer.h"
#include "tests/support/store_nodes.h"

#include <time.h>

#define GLANCE_MS 10

void store_nodes_url(const struct store_rig *rig, char *url, size_t size)
{
    const char *second = getenv("STORE_RIG_MYSQL_2");

    (void)snprintf(url, size, "%s%s", second ? second : "",
                   second ? strchr(rig->dir.url, '?') : rig->dir.url);
}

static struct sql *connect_to(const char *url)
{
    struct sql_options options = {
        .where = url, .writes = true, .busy_ms = STORE_NODES_BUSY_MS};
    struct store_error error;
    struct sql *db = NULL;

    options.engine = sql_engine_of(url, &error);
    if (sql_open(&options, &db, &error) != STORE_OK)
        fail_msg("%s", error.text);
    return db;
}

struct sql *store_nodes_connect(const struct store_rig *rig)
{
    char url[sizeof(rig->dir.url)];

    store_nodes_url(rig, url, sizeof(url));
    return connect_to(url);
}

void store_nodes_open(struct store_nodes *nodes, const struct store_rig *rig)
{
    *nodes = (struct store_nodes){NULL};
    if (!store_rig_on_mysql(rig))
        return;
    nodes->second = store_nodes_connect(rig);
    if (!nodes->second->cluster)
        return;
    nodes->first = connect_to(rig->dir.url);
    assert_ok(nodes->first->engine->script(
        nodes->first, "SET SESSION wsrep_sync_wait = 0;\n"
                      "CREATE TABLE held (n INT PRIMARY KEY "
                      "AUTO_INCREMENT);\n"));
}

void store_nodes_close(struct store_nodes *nodes)
{
    sql_close(nodes->first);
    sql_close(nodes->second);
}

int64_t store_nodes_first_number(struct sql_query *query)
{
    int64_t number = 0;

    assert_ok(sql_first(query, &number));
    return number;
}

void store_nodes_glance(void)
{
    struct timespec pause = {.tv_nsec = GLANCE_MS * 1000000L};

    nanosleep(&pause, NULL);
}

bool store_nodes_is_blocked(const struct store_nodes *nodes)
{
    return !nodes->second ||
           store_nodes_number(nodes->second,
                              "SELECT VARIABLE_VALUE + 0 FROM "
                              "information_schema.GLOBAL_STATUS WHERE "
                              "VARIABLE_NAME = "
                              "'INNODB_ROW_LOCK_CURRENT_WAITS'") > 0;
}

void store_nodes_hold_back(const struct store_nodes *nodes)
{
    assert_ok(
        nodes->first->engine->script(nodes->first, "LOCK TABLES held READ;\n"));
    assert_ok(sql_begin(nodes->second));
    assert_ok(nodes->second->engine->script(nodes->second,
                                            "INSERT INTO held VALUES ();\n"));
    assert_ok(nodes->second->engine->commit(nodes->second));
}

void store_nodes_let_in(const struct store_nodes *nodes)
{
    while (store_nodes_number(nodes->first, "SELECT COUNT(*) FROM "
                                            "information_schema.processlist "
                                            "WHERE info = 'COMMIT'") == 0)
        store_nodes_glance();
    assert_ok(nodes->first->engine->script(nodes->first, "UNLOCK TABLES;\n"));
}

/* ---- a store that is stopped --------------------------------------------------- */

static struct {
    pthread_mutex_t mutex; /* guards what follows, and what is told */
    pthread_cond_t changed;
    const struct sql *db;
    const struct sql_engine *real;
    int at; /* counted down to 0; STORE_NODES_COMMIT */
    bool stopped;
} stepper = {.mutex = PTHREAD_MUTEX_INITIALIZER,
             .changed = PTHREAD_COND_INITIALIZER};

static void step(const struct sql *db, bool commits)
{
    pthread_mutex_lock(&stepper.mutex);
    if (db == stepper.db && ((stepper.at > 0 && --stepper.at == 0) ||
                             (stepper.at == STORE_NODES_COMMIT && commits))) {
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

    if (store->db->engine != &table)
        stepper.real = store->db->engine;
    table = *stepper.real;
    table.prepare = prepare;
    table.commit = commit;
    store->db->engine = &table;
    stepper.db = store->db;
    return STORE_NO_ORDER;
}

void store_nodes_stop_at(struct store *store, int at)
{
    (void)write_step(store, arm, NULL, "arm", 0, NULL);
    pthread_mutex_lock(&stepper.mutex);
    stepper.at = at;
    pthread_mutex_unlock(&stepper.mutex);
}

bool store_nodes_await_stop(const bool *done)
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

void store_nodes_go_on(void)
{
    pthread_mutex_lock(&stepper.mutex);
    stepper.stopped = false;
    pthread_cond_broadcast(&stepper.changed);
    pthread_mutex_unlock(&stepper.mutex);
}

void store_nodes_tell(bool *done)
{
    pthread_mutex_lock(&stepper.mutex);
    *done = true;
    pthread_cond_broadcast(&stepper.changed);
    pthread_mutex_unlock(&stepper.mutex);
}

bool store_nodes_is_told(const bool *done)
{
    bool told;

    pthread_mutex_lock(&stepper.mutex);
    told = *done;
    pthread_mutex_unlock(&stepper.mutex);
    return told;
}

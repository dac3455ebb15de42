/* See store_nodes.h. */
#include "tests/support/store_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
        .where = url, .role = SQL_ROLE_WRITER, .busy_ms = STORE_NODES_BUSY_MS};
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

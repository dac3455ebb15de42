#include "tests/support/zookeeper_ensemble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/conform/zk_ensemble.h"
#include "tests/support/lock_rig.h"
#include "tests/support/server_proc.h"

enum {
    LOOK_MS = 50, /* nobody tells that an election is over */
    LOOKS_MAX = 1200,
};

static void write_config(struct zookeeper_ensemble *ensemble)
{
    size_t size = sizeof(ensemble->config);
    size_t len = (size_t)snprintf(ensemble->config, size,
                                  "initLimit=100\nsyncLimit=50\n");

    for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++)
        len += (size_t)snprintf(ensemble->config + len, size - len,
                                "server.%u=127.0.0.1:%u:%u\n", i + 1,
                                server_proc_free_port("zookeeper_server"),
                                server_proc_free_port("zookeeper_server"));
}

struct zookeeper_ensemble *zookeeper_ensemble_start(void)
{
    struct zookeeper_ensemble *ensemble = calloc(1, sizeof(*ensemble));
    size_t len = 0;

    if (ensemble == NULL)
        abort();
    write_config(ensemble);
    for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++) {
        const char *url;

        ensemble->members[i] =
            zookeeper_server_start_member(i + 1, ensemble->config);
        url = ensemble->members[i]->url;
        len +=
            (size_t)snprintf(ensemble->url + len, sizeof(ensemble->url) - len,
                             "%s%s", i > 0 ? "," : "", i > 0 ? url + 3 : url);
    }
    zookeeper_ensemble_await(ensemble);
    return ensemble;
}

void zookeeper_ensemble_stop(struct zookeeper_ensemble *ensemble)
{
    if (ensemble == NULL)
        return;
    for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++)
        zookeeper_server_stop(ensemble->members[i]);
    free(ensemble);
}

/* "HOST:PORT" */
static const char *place_of(const struct zookeeper_ensemble *ensemble,
                            unsigned member)
{
    return ensemble->members[member]->url + strlen("zk:");
}

struct zookeeper_server *
zookeeper_ensemble_at(const struct zookeeper_ensemble *ensemble, const char *at)
{
    for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++)
        if (strcmp(place_of(ensemble, i), at) == 0)
            return ensemble->members[i];
    return NULL;
}

struct zookeeper_server *
zookeeper_ensemble_in(const struct zookeeper_ensemble *ensemble, char role)
{
    for (unsigned look = 0; look < LOOKS_MAX; look++) {
        for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++)
            if (zk_node_role(place_of(ensemble, i)) == role)
                return ensemble->members[i];
        lock_rig_sleep_ms(LOOK_MS);
    }
    server_proc_die("zookeeper_ensemble", "they elect nobody");
}

void zookeeper_ensemble_await(const struct zookeeper_ensemble *ensemble)
{
    for (unsigned look = 0; look < LOOKS_MAX; look++) {
        unsigned n = 0;

        for (unsigned i = 0; i < ZOOKEEPER_MEMBERS_N; i++)
            n += zk_node_role(place_of(ensemble, i)) != '\0';
        if (n == ZOOKEEPER_MEMBERS_N)
            return;
        lock_rig_sleep_ms(LOOK_MS);
    }
    server_proc_die("zookeeper_ensemble", "they do not come together");
}

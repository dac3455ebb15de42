/* See config_table.h. What config.h has of the table as a whole is here, too. */
#include "server/config_table.h"

#include <stdio.h>
#include <string.h>

#include "lock/dlock.h"
#include "server/config.h"
#include "server/nearest.h"

#define NAME_BYTES_MAX 40 /* of a row */

/* A row for each kind of setting; ranges spell themselves in the help. */
#define ROW(kind_, field, name_, ...)                                          \
    {                                                                          \
        .kind = (kind_), .name = (name_),                                      \
        .offset = offsetof(struct config, field),                              \
        .size = sizeof(((struct config *)0)->field), __VA_ARGS__               \
    }
#define TEXT_ROW(field, name_, value_, preset_, ...)                           \
    ROW(TEXT, field, name_, .value = (value_), .preset = (preset_),            \
        .help = __VA_ARGS__)
#define NUMBER_ROW(field, name_, min_, max_, preset_, help_)                   \
    ROW(NUMBER, field, name_, .value = #min_ ".." #max_, .preset = (preset_),  \
        .min = (min_), .max = (max_), .help = (help_))
#define CHOICE_ROW(field, name_, value_, preset_, help_)                       \
    ROW(CHOICE, field, name_, .value = (value_), .preset = (preset_),          \
        .help = (help_))
#define FLAG_ROW(field, name_, help_)                                          \
    ROW(FLAG, field, name_, .preset = "no", .help = (help_))

const struct setting config_table[] = {
    TEXT_ROW(listen, "listen", "HOST:PORT", "127.0.0.1:8080",
             "address to serve on; port 0 takes any free one"),
    TEXT_ROW(inventory, "inventory", "http://HOST:PORT,...", "",
             "an order service: these deduct, on one database"),
    NUMBER_ROW(inventory_timeout_ms, "inventory-timeout-ms", 100, 60000, "2000",
               "longest wait for one of them; for all, twice that"),
    TEXT_ROW(db, "db", "sqlite:PATH|mysql:...", "sqlite:stockade.db",
             "the database; made if it is not there"),
    TEXT_ROW(redis, "redis",
             "spawn|unix:PATH|redis://HOST:PORT|sentinel://...|cluster://...",
             "spawn",
             "where locks live, commas between; spawn: a private server",
             .secret = SECRET_IN_URL),
    ROW(LOCK, lock, "lock", .value = "the name of a lock", .preset = "fenced",
        .help = "the kind of lock; serve --help lists them"),
    TEXT_ROW(lock_url, "lock-url", "mysql:...|zk:HOST:PORT", "",
             "where locks live, if not in --redis", .secret = SECRET_IN_URL),
    NUMBER_ROW(lock_wait_ms, "lock-wait-ms", 0, 60000, "1000",
               "longest wait for a lock, then 503 lock-timeout"),
    NUMBER_ROW(lock_lease_ms, "lock-lease-ms", 0, 3600000, "0",
               "lease of a lock, if it has one; 0 = renewed if it can be"),
    NUMBER_ROW(lock_max_hold_ms, "lock-max-hold-ms", 0, 3600000, "60000",
               "renewal ends then; 0 = never"),
    CHOICE_ROW(deduct, "deduct", "guarded|naive", "guarded",
               "one conditional transaction, or as in textbooks"),
    CHOICE_ROW(orders, "orders", "batched|one-by-one", "batched",
               "many orders in one transaction, or each on its own"),
    NUMBER_ROW(workers, "workers", 1, 256, "8",
               "threads that take locks; with one-by-one, orders at a time"),
    NUMBER_ROW(think_ms, "think-ms", 0, 60000, "0",
               "business time under the lock, per order or batch"),
    FLAG_ROW(shared, "shared", "other instances sell from the same database"),
    FLAG_ROW(no_seed, "no-seed",
             "leave an empty database empty: no example products"),
    NUMBER_ROW(queue_max, "queue-max", 1, 1000000, "8192",
               "orders taken in and not answered, then 503 overloaded"),
    NUMBER_ROW(client_inflight_max, "client-inflight-max", 1, 1000000, "4096",
               "orders in flight for one address, then 429"),
    NUMBER_ROW(connections_max, "connections-max", 8, 100000, "4096",
               "open connections; further ones take the place of idle ones"),
    NUMBER_ROW(client_connections_max, "client-connections-max", 0, 100000, "0",
               "open connections of one address; 0 = half of all"),
    NUMBER_ROW(http_threads, "http-threads", 0, 64, "0",
               "threads that read requests and write replies; 0 = one for two "
               "cores"),
    NUMBER_ROW(request_deadline_ms, "request-deadline-ms", 100, 600000, "10000",
               "from a request's first line to its end; idle as long before"),
    ROW(TEXT, admin_token, "admin-token", .value = "a text of 1 to 127 bytes",
        .preset = "", .min = 1, .secret = SECRET_WHOLE,
        .help = "bearer token for admin calls; without it loopback may"),
    TEXT_ROW(admin_token_file, "admin-token-file", "FILE", "",
             "where the token stands instead; read again at SIGHUP"),
    TEXT_ROW(trusted_proxy, "trusted-proxy", "ADDRESS[/PREFIX],...", "",
             "proxies whose X-Forwarded-For is believed"),
    FLAG_ROW(lab, "lab", "for lessons only: allows the settings lab-..."),
    TEXT_ROW(lab_timeline, "lab-timeline", "FILE", "",
             "what lock server and database are asked, as JSON Lines"),
    TEXT_ROW(lab_failpoint, "lab-failpoint", "STEP:PHASE=ACTION[*N],...", "",
             "faults on purpose at named steps; see stockade.conf(5)"),
    FLAG_ROW(lab_leaky, "lab-leaky",
             "one-by-one: an order that fails does not give its lock back"),
    NUMBER_ROW(lab_lease_ms, "lab-lease-ms", 0, 60000, "0",
               "lease of a lock that is renewed; 0 = ours"),
    CHOICE_ROW(log_level, "log-level", "error|warn|info", "info",
               "how much to log"),
    FLAG_ROW(check_config, "check-config",
             "say whether the settings are right, then exit"),
    FLAG_ROW(example_config, "example-config",
             "show a file for --config, with all settings, then exit"),
    FLAG_ROW(help, "help", "show this"),
    TEXT_ROW(config_file, "config", "FILE", "",
             "lines of \"setting = value\"; a flag without value takes yes"),
};

const size_t config_table_n = sizeof(config_table) / sizeof(config_table[0]);

_Static_assert(sizeof(config_table) / sizeof(config_table[0]) <=
                   CONFIG_TABLE_MAX,
               "CONFIG_TABLE_MAX is too small");

size_t config_find(const char *name)
{
    size_t i = 0;

    while (i < config_table_n && strcmp(config_table[i].name, name) != 0)
        i++;
    return i;
}

const char *config_nearest(const char *name)
{
    const char *nearest = NULL;
    size_t least = 0;

    for (size_t i = 0; i < config_table_n; i++)
        if (nearest_is(name, config_table[i].name, &least))
            nearest = config_table[i].name;
    return nearest;
}

void config_help(void)
{
    char left[80];

    printf("usage: stockade serve [--SETTING VALUE] ...\n\n"
           "Sells: POST /api/orders, and a page at /. Settings [default]:\n\n");
    for (const struct setting *s = config_table;
         s < config_table + config_table_n; s++) {
        snprintf(left, sizeof(left), "--%s %s", s->name,
                 s->value ? s->value : "");
        printf("  %-30s %s", left, s->help);
        if (s->kind != FLAG && *s->preset)
            printf(" [%s]", s->preset);
        printf("\n");
    }
    printf("\nEach setting is read from its flag, else from the environment\n"
           "(STOCKADE_LOCK_WAIT_MS=500), else from the file.\n\nLocks:\n");
    for (size_t i = 0; dlock_strategy_info(i); i++)
        printf("  %-16s %s\n", dlock_strategy_info(i)->name,
               dlock_strategy_info(i)->claim);
}

/* Those that are asked for, not set, are not for a file. */
void config_example(void)
{
    printf("# Settings of `stockade serve`, as they are by default: see\n"
           "# stockade.conf(5). To change one, take its # away.\n");
    for (const struct setting *s = config_table;
         s->offset != offsetof(struct config, check_config); s++)
        printf("\n# %s: %s\n#%s = %s\n", s->value ? s->value : "yes|no",
               s->help, s->name, s->preset);
}

const char *config_differences(const struct config *a, const struct config *b,
                               char *names, unsigned size)
{
    size_t len = 0;

    *names = '\0';
    for (const struct setting *s = config_table;
         s < config_table + config_table_n; s++)
        if (memcmp((const char *)a + s->offset, (const char *)b + s->offset,
                   s->size) != 0 &&
            len + strlen(s->name) + 2 <= size)
            len += (size_t)snprintf(names + len, size - len, "%s%s",
                                    len ? " " : "", s->name);
    return names;
}

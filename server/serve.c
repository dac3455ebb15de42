/*
 * Builds the service from its parts, lets it run, takes it apart in reverse. The
 * order matters: what is used is opened before its user and closed after it.
 *
 *     http, and then: store <- redis <- locks <- tasks <- hints <- dispatcher
 *
 * HTTP is first, and says "not now" as long as the database is not there: the opener
 * opens the rest. An order service has only: inventory <- http.
 */
#include "server/commands.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "db/store.h"
#include "lock/dlock.h"
#include "server/base/health.h"
#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/redis_proc.h"
#include "server/base/tasks.h"
#include "server/http/http.h"
#include "server/inventory/inventory.h"
#include "server/order/dispatcher.h"
#include "server/order/hints.h"
#include "server/service.h"

#define SERVE_DRAIN_MS_MAX 2000
#define SERVE_AGAIN_MS     1000 /* from one try to open to the next */
#define SERVE_SEED_UNITS   1000
#define SERVE_READERS      2
#define SERVE_WORKERS      3 /* in batches: see tasks.h */

/* Orders that nobody has paid, of an instance that has died, are given back by another
 * one within this. */
#define SERVE_LOOK_MS 1000

/* A lock that its holder renews, of an instance that has died, keeps others out
 * for so long. Fencing makes it harmless that a lease this short ends while its
 * holder is only slow. */
#define SERVE_FENCED_LEASE_MS 2500

enum { EXIT_ENDED = 0, EXIT_TRY_AGAIN = 1, EXIT_FOR_A_PERSON = 2 };

/* ---- parts ---------------------------------------------------------------- */

/* Two products to try things with, if there are none. */
static enum store_status seed(struct store *store, enum log_level level,
                              struct store_error *error)
{
    struct store_product products[] = {
        {.id = 1,
         .name = "Phone, launch edition",
         .price_cents = 49900,
         .initial = SERVE_SEED_UNITS},
        {.id = 2,
         .name = "Concert ticket",
         .price_cents = 8900,
         .limit_per_user = 2,
         .initial = SERVE_SEED_UNITS / 10},
    };
    struct store_reader *reader;
    struct store_product any;
    enum store_status status;
    size_t found = 0;

    status = store_reader_open(store, &reader, error);
    if (status != STORE_OK)
        return status;
    status = store_product_list(reader, 0, 1, &any, &found, error);
    store_reader_close(reader);
    for (size_t i = 0; i < 2 && found == 0 && status == STORE_OK; i++)
        status = store_product_put(store, &products[i], NULL, error);
    if (found == 0 && status == STORE_OK)
        log_line(level, "seed",
                 "products=2 reason=\"there were none: see --no-seed\"");
    return status;
}

/* In what is no proper URL there may be a password. */
static void log_store(const struct service *s, enum store_status status,
                      const struct store_error *error)
{
    if (status == STORE_MISUSE)
        log_error("store", "error=\"%s\"", error->text);
    else
        log_error("store", "db=%s error=\"%s\"", s->config.db, error->text);
}

static void log_note(const char *text)
{
    log_info("store", "note=\"%s\"", text);
}

/* As far as the store is concerned: the parts above it are not open yet. A lock file
 * without its database is left of one that was moved, or lost. */
static enum opener_answer open_store(struct service *s)
{
    struct store_options options = {.url = s->config.db,
                                    .shared = s->config.shared,
                                    .look_ms = SERVE_LOOK_MS,
                                    .on_failure = health_heard_store,
                                    .on_failure_ctx = s->app.health,
                                    .on_note = log_note};
    struct store_error error = {""};
    /* The check comes before the opening, which would make a new database where
     * the journal of a lost one still lies. */
    enum store_status status = store_check(s->config.db, &error);
    bool is_new =
        s->db_path && access(s->db_path, F_OK) != 0 && errno == ENOENT;
    char lock_file[PATH_MAX + sizeof(".lock")];
    enum log_level level;

    snprintf(lock_file, sizeof(lock_file), "%s.lock",
             s->db_path ? s->db_path : "");
    level = is_new && access(lock_file, F_OK) != 0 ? LOG_INFO : LOG_WARN;
    lab_hooks_of_store(&s->hooks, &options);
    if (status == STORE_OK)
        status = store_open(&options, &s->app.store, &error);
    if (is_new && access(s->db_path, F_OK) == 0)
        log_line(level, "store", "db=%s state=created", s->config.db);
    if (status == STORE_OK && !s->config.no_seed)
        status = seed(s->app.store, level, &error);
    if (status == STORE_OK)
        return OPENER_OPEN;
    /* To try again would not help: a person has to change something, and a
     * service manager must not restart us for ever. */
    if (status == STORE_UNFIT || status == STORE_MISUSE) {
        log_store(s, status, &error);
        s->exit_code = EXIT_FOR_A_PERSON;
        return OPENER_NEVER;
    }
    health_heard_store(s->app.health, status, &error);
    return OPENER_NOT_NOW;
}

static bool spawns_redis(const struct service *s)
{
    return strcmp(s->config.redis, "spawn") == 0 &&
           config_rules_uses_redis(s->lock);
}

/* On the watchdog's thread. The worker finds out when it releases, and counts
 * it then. */
static void lock_lost(void *ctx, const char *name, const char *owner,
                      enum dlock_loss reason)
{
    (void)ctx;
    log_warn("lock-lost", "lock=%s owner=%s reason=\"%s\"", name, owner,
             dlock_loss_text(reason));
}

/* While settings are checked, the private server has no address yet. */
static const char *redis_url(const struct service *s)
{
    if (!s->redis && strcmp(s->config.redis, "spawn") == 0)
        return "unix:spawn";
    return s->redis ? redis_proc_url(s->redis) : s->config.redis;
}

/* The Redis; what --lock-url says, or both; or for a lock that needs none, a
 * place beside the database. */
static const char *lock_url(const struct service *s, char *text, size_t size)
{
    const struct dlock_strategy_info *lock = s->lock;

    if (lock->capabilities & DLOCK_CAP_RECORD)
        snprintf(text, size, "%s,%s", redis_url(s), s->config.lock_url);
    else if (config_rules_uses_redis(lock))
        return redis_url(s);
    else if (lock->capabilities & DLOCK_CAP_REMOTE)
        return s->config.lock_url;
    else
        snprintf(text, size, "dir:%s.locks",
                 s->db_path ? s->db_path : "/tmp/stockade");
    return text;
}

static bool open_locks(struct service *s)
{
    char url[sizeof(s->config.redis) + sizeof(s->config.lock_url)];
    struct dlock_options options = {
        .strategy = s->config.lock,
        .url = lock_url(s, url, sizeof(url)),
        .connect_timeout_ms = config_rules_command_timeout_ms(&s->config),
        .command_timeout_ms = config_rules_command_timeout_ms(&s->config),
        .on_lost = lock_lost,
    };
    struct dlock_error error = {""};

    if (s->lock->capabilities & DLOCK_CAP_FENCED)
        options.watchdog_lease_ms = SERVE_FENCED_LEASE_MS;
    lab_hooks_of_locks(&s->hooks, &s->config, &options);
    if (dlock_open(&options, &s->app.locks, &error) == DLOCK_OK)
        return true;
    log_error("lock", "error=\"%s\"", error.text);
    return false;
}

/* Where a lock needs no Redis, nothing does. */
static bool open_parts(struct service *s)
{
    char error[512] = "no memory";
    const char *hints_url;
    struct app *app = &s->app;

    if (spawns_redis(s)) {
        /* The server itself is started by the main thread, in service_opened():
         * it dies with the thread that started it. */
        s->redis = redis_proc_new(s->db_path, s->signals, error, sizeof(error));
        if (!s->redis) {
            log_error("redis", "error=\"%s\"", error);
            return false;
        }
    }
    if (!open_locks(s))
        return false;
    hints_url = config_rules_uses_redis(s->lock) ? redis_url(s) : NULL;
    app->workers = tasks_open(app, "worker",
                              s->config.orders == ORDERS_BATCHED
                                  ? SERVE_WORKERS
                                  : (size_t)s->config.workers);
    app->readers =
        app->workers ? tasks_open(app, "reader", SERVE_READERS) : NULL;
    app->hints = app->readers ? hints_open(app, hints_url) : NULL;
    app->dispatcher = app->hints ? dispatcher_open(app) : NULL;
    return app->dispatcher;
}

static void close_parts(struct service *s)
{
    struct app *app = &s->app;

    /* Each part closes before what it uses: the lock client before the Redis of
     * its locks, the store last. */
    dispatcher_close(app->dispatcher);
    hints_close(app->hints);
    tasks_close(app->readers);
    tasks_close(app->workers);
    dlock_close(app->locks);
    redis_proc_stop(s->redis);
    store_close(app->store);
    app->dispatcher = NULL;
    app->hints = NULL;
    app->readers = app->workers = NULL;
    app->locks = NULL;
    app->store = NULL;
    s->redis = NULL;
}

/* A thread of its own, because a try may hang in a look-up or in a disk. A store that
 * was opened is closed again if one of the parts above it could not be. */
static void *opener_main(void *arg)
{
    struct service *s = arg;

    do {
        s->answer = open_store(s);
        if (s->answer == OPENER_OPEN && !open_parts(s)) {
            health_heard(s->app.health, HEALTH_STORE,
                         "not all connections could be opened: see the log");
            s->answer = OPENER_NOT_NOW;
        }
        /* A try that failed half way leaves nothing: the next one begins from
         * the start. */
        if (s->answer != OPENER_OPEN)
            close_parts(s);
    } while (s->answer == OPENER_NOT_NOW &&
             !poll(&(struct pollfd){s->stop_fd, POLLIN, 0}, 1, SERVE_AGAIN_MS));
    (void)eventfd_write(s->opened_fd, 1);
    return NULL;
}

/* Waits for the try under way. False: it hangs, and may still touch S, so that the
 * process has to end. */
static bool end_opener(struct service *s)
{
    (void)eventfd_write(s->stop_fd, 1);
    s->opens = poll(&(struct pollfd){s->opened_fd, POLLIN, 0}, 1,
                    SERVE_DRAIN_MS_MAX) <= 0 ||
               pthread_join(s->opener, NULL) != 0;
    return !s->opens;
}

/* After service_check(). */
static bool service_open(struct service *s)
{
    struct app *app = &s->app;

    app->config = &s->config;
    app->metrics = metrics_new();
    s->signals = main_loop_signals();
    s->stop_fd = eventfd(0, EFD_CLOEXEC);
    s->opened_fd = eventfd(0, EFD_CLOEXEC);
    if (!app->metrics || s->signals < 0 || s->stop_fd < 0 || s->opened_fd < 0)
        return false;
    app->health = health_new(app->metrics, *s->config.inventory != '\0');
    if (!app->health)
        return false;
    if (*s->config.inventory) {
        app->inventory = inventory_open(app);
        atomic_store(&app->is_open, true);
    }
    if (*s->config.inventory ? app->inventory != NULL
                             : lab_hooks_begin(&s->hooks, &s->config))
        s->http = http_open(app);
    return s->http;
}

/* Answers everybody, then takes the parts away: stopped, each is still asked
 * by HTTP until that is closed, and says no. */
static bool service_close(struct service *s)
{
    const int fds[] = {s->signals, s->stop_fd, s->opened_fd};
    bool drained = true;

    if (s->http)
        http_quiesce(s->http);
    health_stop(s->app.health);
    /* The waits for other processes end now: orders that are under way must be
     * answered before the service manager's patience is over. */
    if (s->app.store)
        store_end_waits(s->app.store);
    if (s->app.dispatcher)
        dispatcher_stop(s->app.dispatcher);
    if (s->app.inventory)
        inventory_stop(s->app.inventory);
    tasks_stop(s->app.readers);
    if (s->http)
        /* All requests have their answers by now; these still have to leave. */
        drained = http_drain(s->http, SERVE_DRAIN_MS_MAX);
    /* From here on no thread of HTTP asks a part any more: only now they may be
     * freed. */
    http_close(s->http);
    inventory_close(s->app.inventory);
    close_parts(s);
    lab_hooks_close(&s->hooks);
    health_free(s->app.health);
    metrics_free(s->app.metrics);
    for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return drained;
}

/* The parts check their settings before one is opened; a lock client is
 * opened without asking its server. The database is asked by a person only: a service
 * opens it, and waits for it. */
static bool service_check(struct service *s)
{
    struct store_error store_error = {""};
    enum store_status status;
    bool good;

    if (!http_check(&s->config))
        return false;
    if (*s->config.inventory)
        return inventory_check(&s->config);
    s->lock = dlock_strategy_find(s->config.lock);
    /* A database that is a file has a path: beside it stand the lock file and
     * the private Redis's socket. */
    if (strncmp(s->config.db, "sqlite:", 7) == 0)
        s->db_path = s->config.db + 7;
    if (s->config.check_config) {
        status = store_check(s->config.db, &store_error);
        if (status != STORE_OK) {
            log_store(s, status, &store_error);
            return false;
        }
    }
    if (spawns_redis(s) && !redis_proc_is_installed()) {
        log_error("redis", "error=\"there is no redis-server: apt-get install "
                           "redis-server, or name another by --redis\"");
        return false;
    }
    good = open_locks(s);
    dlock_close(s->app.locks);
    s->app.locks = NULL;
    return good;
}

/* ---- running -------------------------------------------------------------- */

/* From here on HTTP hands orders in; the first ones may be sooner than the lock
 * server. */
bool service_opened(struct service *s)
{
    char error[512];

    if (!end_opener(s) || s->answer != OPENER_OPEN)
        return false;
    if (s->redis && !redis_proc_tend(s->redis, error, sizeof(error)))
        health_heard(s->app.health, HEALTH_LOCK, error);
    /* The flag comes last of what HTTP reads: a thread that sees it sees all
     * the parts. */
    atomic_store(&s->app.is_open, true);
    /* The parts go to the health last, because its thread tries them at once. */
    health_watch(s->app.health, s->app.store, s->app.locks);
    return true;
}

/* While the opener hangs the process must end as it is, because a part may be opened at
 * any moment. */
static void run(struct service *s)
{
    s->exit_code = EXIT_ENDED;
    s->opens = !s->app.inventory &&
               pthread_create(&s->opener, NULL, opener_main, s) == 0;
    if (s->opens) {
        (void)pthread_setname_np(s->opener, "opener");
    } else if (!s->app.inventory) {
        log_error("tasks", "error=\"cannot start the opener's thread\"");
        s->exit_code = EXIT_TRY_AGAIN;
        return;
    }
    main_loop_run(s);
    if (s->opens && !end_opener(s)) {
        http_quiesce(s->http);
        (void)http_drain(s->http, SERVE_DRAIN_MS_MAX);
        log_warn("stopped", "error=\"the database has not answered\"");
        /* exit() would run what the libraries have registered, while the opener
         * still uses them. */
        _exit(EXIT_ENDED);
    }
}

int serve_main(int argc, char *argv[])
{
    static struct service service = {.exit_code = EXIT_TRY_AGAIN};
    struct service *s = &service;
    char error[512];

    s->argc = argc;
    s->argv = argv;
    /* The log comes first: even a mistake in the settings may have to be told
     * in it. */
    log_open(LOG_INFO);
    if (config_load(argc, argv, &s->config, error, sizeof(error)) < 0) {
        fprintf(stderr, "stockade: %s\n", error);
        return EXIT_FOR_A_PERSON;
    }
    if (s->config.help) {
        config_help();
        return 0;
    }
    log_level_set(s->config.log_level);
    if (!lab_hooks_open(&s->hooks, &s->config) || !service_check(s))
        return EXIT_FOR_A_PERSON;
    if (s->config.check_config) {
        printf("configuration OK\n");
        return 0;
    }
    if (service_open(s))
        run(s);
    if (!service_close(s))
        log_warn("stopped", "error=\"some replies were not delivered\"");
    else if (s->exit_code == EXIT_ENDED)
        log_info("stopped", "clean=yes");
    return s->exit_code;
}

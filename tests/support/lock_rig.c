#include "tests/support/lock_rig.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/deaf_server.h"

enum { CLIENTS_MAX = 64 };

struct lock_rig rig;

/* Those that are open; threads of a test open some as well. */
static struct dlock *clients[CLIENTS_MAX];
static pthread_mutex_t clients_mutex = PTHREAD_MUTEX_INITIALIZER;

/* The new one in place of the old one: NULL is a free place. */
static bool put_client(const struct dlock *old, struct dlock *client)
{
    bool found = false;

    (void)pthread_mutex_lock(&clients_mutex);
    for (size_t i = 0; i < CLIENTS_MAX && !found; i++) {
        found = clients[i] == old;
        if (found)
            clients[i] = client;
    }
    (void)pthread_mutex_unlock(&clients_mutex);
    return found;
}

void lock_rig_close(struct dlock *client)
{
    if (client != NULL && put_client(client, NULL))
        dlock_close(client);
}

static void make_dir(void)
{
    temp_dir_make(&rig.dir);
    (void)snprintf(rig.dir_url, sizeof(rig.dir_url), "dir:%s", rig.dir.path);
}

int lock_rig_setup(NO_STATE)
{
    rig.server = redis_server_start();
    make_dir();
    return 0;
}

/* A test that failed may have left a gate shut. */
static void close_all(void)
{
    step_log_open(&rig.log);
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        lock_rig_close(clients[i]);
}

int lock_rig_teardown(NO_STATE)
{
    close_all();
    redis_server_stop(rig.server);
    temp_dir_remove(&rig.dir);
    return 0;
}

int lock_rig_fresh(NO_STATE)
{
    struct redis_server *server = rig.server;

    close_all();
    redis_server_tell(server, "FLUSHALL");
    temp_dir_remove(&rig.dir);
    rig = (struct lock_rig){.server = server, .command_timeout_ms = 5000};
    make_dir();
    step_log_init(&rig.log);
    return 0;
}

const char *lock_rig_url(const char *strategy)
{
    return strcmp(strategy, "mkdir") == 0 ? rig.dir_url
                                          : redis_server_url(rig.server);
}

struct dlock *lock_rig_open(const struct dlock_options *options)
{
    struct dlock *client = NULL;
    struct dlock_error error;

    if (dlock_open(options, &client, &error) != DLOCK_OK) {
        fprintf(stderr, "lock_rig: %s\n", error.text);
        abort();
    }
    return client;
}

enum dlock_status lock_rig_try(const struct dlock_options *options,
                               struct dlock_error *error)
{
    struct dlock_terms terms = {.lease_ms = LOCK_RIG_LONG_MS};
    struct dlock_options patient = *options;
    struct dlock *client;
    struct dlock_session *session;
    struct dlock_grant grant;
    enum dlock_status status;

    /* A call that connects first ends after the command's time, too. */
    if (patient.connect_timeout_ms == 0)
        patient.connect_timeout_ms = LOCK_RIG_PROMPT_MS;
    if (patient.command_timeout_ms == 0)
        patient.command_timeout_ms = LOCK_RIG_PROMPT_MS;
    client = lock_rig_open(&patient);
    session = lock_rig_session(client);
    status = dlock_acquire(session, "k", &terms, &grant, error);
    if (status == DLOCK_OK)
        assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_OK);
    dlock_session_close(session);
    dlock_close(client);
    return status;
}

void lock_rig_works(const struct dlock_options *options)
{
    struct dlock_error error = {""};

    if (lock_rig_try(options, &error) != DLOCK_OK)
        fail_msg("%s", error.text);
}

enum dlock_status lock_rig_fails(const struct dlock_options *options,
                                 const char *text)
{
    struct dlock_error error = {""};
    enum dlock_status status = lock_rig_try(options, &error);

    assert_int_not_equal(status, DLOCK_OK);
    if (strstr(error.text, text) == NULL)
        fail_msg("'%s' is not in '%s'", text, error.text);
    return status;
}

struct sockaddr_in lock_rig_at(void)
{
    static struct sockaddr_in at;
    char command[64], reply[64] = "";

    while (strncmp(reply, "+OK", 3) != 0 && at.sin_port == 0) {
        (void)close(deaf_server_bind(&at, -1));
        (void)snprintf(command, sizeof(command), "CONFIG SET port %d",
                       ntohs(at.sin_port));
        redis_server_ask(rig.server, command, reply, sizeof(reply));
        if (strncmp(reply, "+OK", 3) != 0)
            at.sin_port = 0;
    }
    return at;
}

static void note_loss(void *ctx, const char *name, const char *owner,
                      enum dlock_loss reason)
{
    if (strcmp(name, "k") == 0) {
        atomic_store(&rig.loss, (int)reason);
        (void)atomic_fetch_add(&rig.lost_n, 1);
    }
    if (rig.on_lost != NULL)
        rig.on_lost(rig.hooks_ctx, name, owner, reason);
}

enum dlock_loss lock_rig_await_lost(unsigned n)
{
    uint64_t until_ms = lock_rig_now_ms() + LOCK_RIG_LONG_MS;

    while (atomic_load(&rig.lost_n) < n && lock_rig_now_ms() < until_ms)
        lock_rig_sleep_ms(1);
    assert_int_equal(atomic_load(&rig.lost_n), n);
    return (enum dlock_loss)atomic_load(&rig.loss);
}

static struct dlock *open_by_rig(const char *strategy)
{
    return lock_rig_open(&(struct dlock_options){
        .strategy = strategy,
        .url = rig.url != NULL ? rig.url : lock_rig_url(strategy),
        .watchdog_lease_ms = rig.watchdog_lease_ms,
        .longest_lease_ms = rig.longest_lease_ms,
        .connect_timeout_ms = rig.command_timeout_ms,
        .command_timeout_ms = rig.command_timeout_ms,
        .clock = rig.clock,
        .label = rig.label,
        .on_step = rig.on_step != NULL ? rig.on_step : step_log_hook,
        .on_step_ctx = rig.on_step != NULL ? rig.hooks_ctx : &rig.log,
        .on_lost = note_loss,
    });
}

struct dlock *lock_rig_client(const char *strategy)
{
    struct dlock *client = open_by_rig(strategy);

    if (!put_client(NULL, client))
        abort();
    return client;
}

struct dlock_session *lock_rig_session(struct dlock *client)
{
    struct dlock_session *session = NULL;

    if (dlock_session_open(client, &session, NULL) != DLOCK_OK)
        abort();
    return session;
}

struct lock_single lock_single_open(const char *strategy)
{
    struct lock_single single = {.client = lock_rig_client(strategy)};

    single.session = lock_rig_session(single.client);
    return single;
}

struct lock_single lock_single_open_by(const char *strategy, unsigned lease_ms,
                                       unsigned timeout_ms)
{
    rig.watchdog_lease_ms = lease_ms;
    rig.command_timeout_ms = timeout_ms;
    return lock_single_open(strategy);
}

void lock_single_close(struct lock_single *single)
{
    lock_rig_close(single->client);
}

enum dlock_status lock_single_take(struct lock_single *single, unsigned wait_ms)
{
    return lock_single_take_name(single, "k", wait_ms);
}

enum dlock_status lock_single_take_name(struct lock_single *single,
                                        const char *name, unsigned wait_ms)
{
    struct dlock_terms terms = {.wait_ms = wait_ms,
                                .deadlock_ms = rig.deadlock_ms};

    single->error.text[0] = '\0';
    return dlock_acquire(single->session, name, &terms, &single->grant,
                         &single->error);
}

enum dlock_status lock_single_give(struct lock_single *single)
{
    single->error.text[0] = '\0';
    return dlock_release(single->session, &single->grant, &single->error);
}

struct lock_pair lock_pair_open(const char *strategy)
{
    struct lock_pair pair = {.grant = {{.name = ""}}};

    for (int i = 0; i < 2; i++) {
        pair.client[i] = lock_rig_client(strategy);
        pair.session[i] = lock_rig_session(pair.client[i]);
    }
    return pair;
}

struct lock_pair lock_pair_held(const char *strategy, unsigned lease_ms)
{
    struct lock_pair pair = lock_pair_open(strategy);

    assert_int_equal(lock_pair_take(&pair, 0, 0, lease_ms), DLOCK_OK);
    return pair;
}

void lock_pair_close(struct lock_pair *pair)
{
    for (int i = 0; i < 2; i++)
        lock_rig_close(pair->client[i]);
}

enum dlock_status lock_rig_take(struct dlock_session *session, const char *name,
                                unsigned wait_ms, unsigned lease_ms,
                                struct dlock_grant *grant)
{
    struct dlock_terms terms = {.wait_ms = wait_ms, .lease_ms = lease_ms};

    return dlock_acquire(session, name, &terms, grant, NULL);
}

enum dlock_status lock_pair_take(struct lock_pair *pair, int who,
                                 unsigned wait_ms, unsigned lease_ms)
{
    return lock_rig_take(pair->session[who], "k", wait_ms, lease_ms,
                         &pair->grant[who]);
}

enum dlock_status lock_pair_give(struct lock_pair *pair, int who)
{
    return dlock_release(pair->session[who], &pair->grant[who], NULL);
}

void lock_rig_end_lease(void)
{
    assert_int_equal(lock_rig_ask("DEL k"), 1);
}

bool lock_rig_is_held(void)
{
    return lock_rig_ask("EXISTS k") == 1;
}

void lock_rig_pass_off(const struct dlock_session *session,
                       struct dlock_grant *grant)
{
    (void)snprintf(grant->owner, sizeof(grant->owner), "%s",
                   dlock_session_owner(session));
}

/* Also in a child of fork(), where a mutex may be locked for ever. */
enum dlock_status lock_rig_probe(const char *strategy, const char *name)
{
    struct dlock *client = open_by_rig(strategy);
    struct dlock_session *session = lock_rig_session(client);
    struct dlock_grant grant;
    enum dlock_status status = lock_rig_take(session, name, 0, 5000, &grant);

    if (status == DLOCK_OK)
        (void)dlock_release(session, &grant, NULL);
    dlock_close(client);
    return status;
}

uint64_t lock_rig_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void lock_rig_sleep_ms(unsigned ms)
{
    struct timespec nap = {.tv_sec = ms / 1000,
                           .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)nanosleep(&nap, NULL);
}

static uint64_t real_now(void *ctx)
{
    return lock_rig_now_ms();
}

static void throw_dice(void *ctx, void *bytes, size_t len)
{
    if (len > sizeof(uint16_t))
        memset(bytes, ++*(unsigned char *)ctx, len);
    else
        memset(bytes, 0xff, len);
}

const struct dlock_clock lock_rig_long_pauses = {real_now, throw_dice,
                                                 &(unsigned char){0}};

unsigned lock_rig_threads(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    unsigned n = 0;

    assert_non_null(tasks);
    while ((task = readdir(tasks)) != NULL) {
        char path[300];
        char comm[32] = "";
        FILE *file;

        (void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
                       task->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(comm, sizeof(comm), file) != NULL)
            comm[strcspn(comm, "\n")] = '\0';
        n += strcmp(comm, name) == 0;
        (void)fclose(file);
    }
    (void)closedir(tasks);
    return n;
}

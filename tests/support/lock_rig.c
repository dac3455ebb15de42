#include "tests/support/lock_rig.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/deaf_server.h"
#include "tests/support/unit_test.h"

static void make_dir(struct lock_rig *rig)
{
    temp_dir_make(&rig->dir);
    (void)snprintf(rig->dir_url, sizeof(rig->dir_url), "dir:%s", rig->dir.path);
}

int lock_rig_setup(void **state)
{
    struct lock_rig *rig = calloc(1, sizeof(*rig));

    if (rig == NULL)
        return -1;
    rig->server = redis_server_start();
    make_dir(rig);
    step_log_init(&rig->log);
    *state = rig;
    return 0;
}

int lock_rig_teardown(void **state)
{
    struct lock_rig *rig = *state;

    redis_server_stop(rig->server);
    temp_dir_remove(&rig->dir);
    free(rig);
    return 0;
}

int lock_rig_fresh(void **state)
{
    struct lock_rig *rig = *state;
    struct redis_server *server = rig->server;

    redis_server_ask(server, "FLUSHALL", NULL, 0);
    temp_dir_remove(&rig->dir);
    *rig = (struct lock_rig){.server = server, .command_timeout_ms = 5000};
    make_dir(rig);
    step_log_init(&rig->log);
    return 0;
}

const char *lock_rig_url(const struct lock_rig *rig, const char *strategy)
{
    return strcmp(strategy, "mkdir") == 0 ? rig->dir_url
                                          : redis_server_url(rig->server);
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
    struct dlock_terms terms = {.lease_ms = 10000};
    struct dlock *client = lock_rig_open(options);
    struct dlock_session *session = lock_rig_session(client);
    struct dlock_grant grant;
    enum dlock_status status =
        dlock_acquire(session, "k", &terms, &grant, error);

    if (status == DLOCK_OK)
        assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_OK);
    dlock_session_close(session);
    dlock_close(client);
    return status;
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

struct sockaddr_in lock_rig_at(const struct lock_rig *rig)
{
    static struct sockaddr_in at;
    char command[64], reply[64] = "";

    while (strncmp(reply, "+OK", 3) != 0 && at.sin_port == 0) {
        (void)close(deaf_server_bind(&at, -1));
        (void)snprintf(command, sizeof(command), "CONFIG SET port %d",
                       ntohs(at.sin_port));
        redis_server_ask(rig->server, command, reply, sizeof(reply));
        if (strncmp(reply, "+OK", 3) != 0)
            at.sin_port = 0;
    }
    return at;
}

struct dlock *lock_rig_client(struct lock_rig *rig, const char *strategy)
{
    struct dlock_options options = {
        .strategy = strategy,
        .url = lock_rig_url(rig, strategy),
        .watchdog_lease_ms = rig->watchdog_lease_ms,
        .connect_timeout_ms = rig->command_timeout_ms,
        .command_timeout_ms = rig->command_timeout_ms,
        .clock = rig->clock,
        .on_step = step_log_hook,
        .on_step_ctx = &rig->log,
        .on_lost = rig->on_lost,
        .on_lost_ctx = rig->on_lost_ctx,
    };

    return lock_rig_open(&options);
}

struct dlock_session *lock_rig_session(struct dlock *client)
{
    struct dlock_session *session = NULL;

    if (dlock_session_open(client, &session, NULL) != DLOCK_OK)
        abort();
    return session;
}

struct lock_single lock_single_open(struct lock_rig *rig, const char *strategy)
{
    struct lock_single single = {.client = lock_rig_client(rig, strategy)};

    single.session = lock_rig_session(single.client);
    return single;
}

void lock_single_close(struct lock_single *single)
{
    dlock_session_close(single->session);
    dlock_close(single->client);
}

enum dlock_status lock_single_take(struct lock_single *single, unsigned wait_ms)
{
    return lock_rig_take(single->session, "k", wait_ms, 0, &single->grant);
}

struct lock_pair lock_pair_open(struct lock_rig *rig, const char *strategy)
{
    struct lock_pair pair = {.grant = {{.name = ""}}};

    for (int i = 0; i < 2; i++) {
        pair.client[i] = lock_rig_client(rig, strategy);
        pair.session[i] = lock_rig_session(pair.client[i]);
    }
    return pair;
}

struct lock_pair lock_pair_held(struct lock_rig *rig, const char *strategy,
                                unsigned lease_ms)
{
    struct lock_pair pair = lock_pair_open(rig, strategy);

    assert_int_equal(lock_pair_take(&pair, 0, 0, lease_ms), DLOCK_OK);
    return pair;
}

void lock_pair_close(struct lock_pair *pair)
{
    for (int i = 0; i < 2; i++) {
        dlock_session_close(pair->session[i]);
        dlock_close(pair->client[i]);
    }
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

uint64_t lock_pair_left_ms(const struct lock_pair *pair, int who)
{
    return dlock_remaining_ms(pair->session[who], &pair->grant[who]);
}

void lock_pair_die(struct lock_pair *pair, int who)
{
    dlock_session_close(pair->session[who]);
    pair->session[who] = lock_rig_session(pair->client[who]);
}

enum dlock_status lock_hold_take(const struct lock_pair *pair, const char *name,
                                 unsigned lease_ms, struct dlock_grant *grant)
{
    return lock_rig_take(pair->session[0], name, 0, lease_ms, grant);
}

enum dlock_status lock_hold_give(const struct lock_pair *pair,
                                 const struct dlock_grant *grant)
{
    return dlock_release(pair->session[0], grant, NULL);
}

uint64_t lock_hold_left_ms(const struct lock_pair *pair,
                           const struct dlock_grant *grant)
{
    return dlock_remaining_ms(pair->session[0], grant);
}

long long lock_rig_ask(void **state, const char *command)
{
    const struct lock_rig *rig = *state;

    return redis_server_number(rig->server, command);
}

void lock_rig_end_lease(void **state)
{
    if (lock_rig_ask(state, "DEL k") != 1) {
        fprintf(stderr, "lock_rig: nobody holds the lock\n");
        abort();
    }
}

bool lock_rig_is_held(void **state)
{
    return lock_rig_ask(state, "EXISTS k") == 1;
}

void lock_rig_pass_off(const struct dlock_session *session,
                       struct dlock_grant *grant)
{
    (void)snprintf(grant->owner, sizeof(grant->owner), "%s",
                   dlock_session_owner(session));
}

enum dlock_status lock_rig_probe(struct lock_rig *rig, const char *strategy,
                                 const char *name)
{
    struct dlock *client = lock_rig_client(rig, strategy);
    struct dlock_session *session = lock_rig_session(client);
    struct dlock_grant grant;
    enum dlock_status status = lock_rig_take(session, name, 0, 5000, &grant);

    if (status == DLOCK_OK)
        (void)dlock_release(session, &grant, NULL);
    dlock_session_close(session);
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
    (void)ctx;
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

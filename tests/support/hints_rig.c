/* Stock hints and what is around them. See hints_rig.h. */
#include "tests/support/hints_rig.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/base/metrics.h"

static void attend(void *ctx)
{
    struct hints_rig *rig = ctx;
    void (*call)(struct hints_rig *) = atomic_exchange(&rig->call, NULL);

    if (call) {
        call(rig);
        sem_post(&rig->called);
    }
    sem_post(&rig->woken);
}

static enum store_verdict on_step(void *ctx, const struct store_step *step)
{
    struct hints_rig *rig = ctx;

    if (strcmp(step->name, "even-out") != 0 || step->phase != STORE_BEFORE)
        return STORE_GO;
    atomic_fetch_add(&rig->evened_out, 1);
    for (int i = 0; i < 3 && atomic_load(&rig->note_in_even); i++)
        hints_rig_note(rig, i, 10);
    return STORE_GO;
}

static void open_parts(struct hints_rig *rig)
{
    const struct dlock_options locks = {.strategy = "none"};

    store_rig_begin(&rig->store);
    store_rig_open(&rig->store, (struct store_options){.on_step = on_step,
                                                       .on_step_ctx = rig});
    rig->app.config = &rig->config;
    rig->app.metrics = metrics_new();
    rig->app.store = rig->store.store;
    assert_int_equal(dlock_open(&locks, &rig->app.locks, NULL), DLOCK_OK);
    rig->app.workers = tasks_open(&rig->app, "worker", 2);
    rig->hints = hints_open(&rig->app, redis_server_url(rig->redis));
    assert_non_null(rig->app.workers);
    assert_non_null(rig->hints);
    rig->store.feed.on_attend = attend;
    rig->store.feed.ctx = rig;
    store_rig_feed(&rig->store);
}

int hints_rig_set_up(void **state)
{
    struct hints_rig *rig = *state = calloc(1, sizeof(*rig));

    (void)signal(SIGPIPE, SIG_IGN);
    sem_init(&rig->woken, 0, 0);
    sem_init(&rig->called, 0, 0);
    rig->now_us = 1000000000;
    rig->redis = redis_server_start();
    open_parts(rig);
    rig->log = tmpfile();
    rig->error = dup(STDERR_FILENO);
    return dup2(fileno(rig->log), STDERR_FILENO) < 0;
}

/* When the workers have ended no task is under way. */
int hints_rig_tear_down(void **state)
{
    struct hints_rig *rig = *state;

    dup2(rig->error, STDERR_FILENO);
    close(rig->error);
    fclose(rig->log);
    redis_server_stop(rig->redis);
    tasks_close(rig->app.workers);
    store_source_detach(rig->app.store);
    hints_close(rig->hints);
    dlock_close(rig->app.locks);
    store_rig_end(&rig->store);
    metrics_free(rig->app.metrics);
    free(rig);
    return 0;
}

unsigned hints_rig_logged(struct hints_rig *rig, const char *what)
{
    char line[1100];
    unsigned n = 0;

    rewind(rig->log);
    while (fgets(line, sizeof(line), rig->log))
        n += strstr(line, what) != NULL;
    (void)fseek(rig->log, 0, SEEK_END);
    return n;
}

void hints_rig_note(struct hints_rig *rig, int64_t segment, int64_t left)
{
    hints_note(rig->hints, 1, 3, segment, left);
}

void hints_rig_settle(struct hints_rig *rig)
{
    for (;;) {
        hints_attend(rig->hints, rig->now_us);
        if (hints_are_idle(rig->hints))
            return;
        sem_wait(&rig->woken);
    }
}

void hints_rig_expect_choice(struct hints_rig *rig, int64_t quantity,
                             int64_t segment)
{
    for (int i = 0; i < 30; i++)
        assert_int_equal(hints_choose(rig->hints, 1, quantity), segment);
}

void hints_rig_call(struct hints_rig *rig, void (*call)(struct hints_rig *))
{
    atomic_store(&rig->call, call);
    store_source_wake(rig->app.store);
    sem_wait(&rig->called);
}

int64_t hints_rig_key(struct hints_rig *rig, int64_t product_id,
                      int64_t segment)
{
    char command[80], reply[200] = "";
    int64_t units;

    (void)snprintf(command, sizeof(command),
                   "GET stock:{%" PRId64 ":%" PRId64 "}", product_id, segment);
    redis_server_ask(rig->redis, command, reply, sizeof(reply));
    if (strcmp(reply, "$-1\r\n") == 0)
        return HINTS_RIG_NO_KEY;
    return sscanf(reply, "$%*d %" SCNd64, &units) == 1 && units >= 0
               ? units
               : HINTS_RIG_NO_NUMBER;
}

void hints_rig_set_key(struct hints_rig *rig, int64_t segment,
                       const char *value)
{
    char command[100];

    (void)snprintf(command, sizeof(command), "SET stock:{1:%" PRId64 "} %s",
                   segment, value);
    redis_server_ask(rig->redis, command, NULL, 0);
}

int hints_rig_asked(struct hints_rig *rig, const char *command)
{
    char text[4096], name[40];
    const char *at;

    (void)snprintf(name, sizeof(name), "cmdstat_%s:calls=", command);
    redis_server_ask(rig->redis, "INFO commandstats", text, sizeof(text));
    at = strstr(text, name);
    return at ? atoi(at + strlen(name)) : 0;
}

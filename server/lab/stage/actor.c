/* See stage_private.h. The parts of a process, which its actors share; and the loop of
 * each actor: wait for a beginning, run the program, wait for the end. */
#include "server/lab/stage/stage_private.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "server/base/log.h"
#include "server/base/metrics.h"
#include "server/base/redis_proc.h"
#include "server/lab/programs/program.h"
#include "server/lab/turns/turns.h"
#include "server/lab/turns/watch.h"
#include "server/order/hints.h"

enum { LOOK_MS = 1000 }; /* at least so often an instance looks for holds */

struct process {
    const struct world *world;
    struct config config;
    struct app app;
    struct intake intake;
    int stop_fd;
    struct program_actor actors[STAGE_ACTORS_MAX];
    unsigned actors_n;
};

static struct process process;

/* The client is the process's: whoever begins first opens it. */
static bool open_lock(struct program_actor *actor, struct dlock_error *error)
{
    unsigned timeout_ms = config_rules_command_timeout_ms(&process.config);
    struct dlock_options options = {.strategy = process.config.lock,
                                    .url = process.world->lock_url,
                                    .connect_timeout_ms = timeout_ms,
                                    .command_timeout_ms = timeout_ms,
                                    .on_step = watch_lock,
                                    .on_lost = watch_lost};
    struct page_lane *lane = turns_own_lane();
    const char *owner;

    if (!process.app.locks &&
        dlock_open(&options, &process.app.locks, error) != DLOCK_OK)
        return false;
    if (dlock_session_open(process.app.locks, &actor->worker.session, error) !=
        DLOCK_OK)
        return false;
    owner = dlock_session_owner(actor->worker.session);
    (void)snprintf(lane->owner, sizeof(lane->owner), "%s", owner);
    /* The owner of each session is an instance's id and a number behind a dash; a lock
     * of an instance is known by the id alone. */
    if (watch_batched) /* the sessions of an instance differ in what follows */
        lane->owner[strcspn(lane->owner, "-")] = '\0';
    /* The instance says in the database that it lives, or others take its locks over. */
    return store_announce(process.app.store, lock_instance_id(owner));
}

/* Where time passes until something must be paid the committer remembers when, by the
 * clock of a schedule: its store is of that schedule, and is opened before anybody moves,
 * because an open transaction would keep it out. Else it is the process's. */
static bool is_store_short_lived(void)
{
    return process.actors[0].scene->pay_within_s > 0;
}

/* False: a line says why. */
static bool open_store(void)
{
    struct store_error error = {""};
    struct store_options options = {.url = process.world->db_url,
                                    .shared = true,
                                    .look_ms =
                                        is_store_short_lived() ? LOOK_MS : 0,
                                    .on_step = watch_store};
    bool good;

    watch_batched = false; /* it is opened without steps */
    /* A look for holds is a wait that ends by time: the committer has it only where
     * time is played. */
    good = store_open(&options, &process.app.store, &error) == STORE_OK;
    for (unsigned i = 0; i < process.actors_n && good; i++)
        good = store_reader_open(process.app.store,
                                 &process.actors[i].worker.reader,
                                 &error) == STORE_OK;
    watch_batched = process.actors[0].scene->batched;
    if (!good)
        turns_note("the store cannot be opened: %s", error.text);
    return good;
}

/* At the end of a schedule. */
static void close_parts(void)
{
    struct app *app = &process.app;

    for (unsigned i = 0; i < process.actors_n; i++) {
        struct worker *worker = &process.actors[i].worker;

        dlock_session_close(worker->session);
        worker->session = NULL;
        if (!is_store_short_lived())
            continue;
        store_reader_close(worker->reader);
        worker->reader = NULL;
    }
    dlock_close(app->locks);
    app->locks = NULL;
    if (!is_store_short_lived())
        return;
    store_close(app->store);
    app->store = NULL;
}

/* From its beginning to its end. */
static void run(struct program_actor *actor)
{
    struct dlock_error error = {""};
    eventfd_t stops;

    /* The first actor that begins in a process sets back what its actors share. The
     * flag of the last end must be read away, or all waits of this schedule would end
     * at once. */
    turns_own_lane()->phase = PAGE_RUNS;
    if (!process.app.locks) {
        (void)eventfd_read(process.stop_fd, &stops);
        atomic_store(&process.intake.depth, 0);
        /* A sale in another schedule is no hint for this one. */
        hints_close(process.app.hints);
        process.app.hints = hints_open(&process.app, NULL);
    }
    if (!process.app.hints || !open_lock(actor, &error)) {
        turns_note("the lock cannot be opened: %s", error.text);
        turns_park(PAGE_TROUBLE);
    }
    /* The program may return at any step once turns_ending(); it has freed its own. */
    program_find(actor->role.program)->run(actor);
    program_steps_end();
}

/* Ends with the process. */
_Noreturn static void *run_lane(void *arg)
{
    struct program_actor *actor = arg;

    turns_lane(actor->index);
    turns_park(PAGE_CLOSED);
    for (;;) {
        run(actor);
        turns_park(PAGE_DONE);
    }
}

/* They live as long as the process. False: a text is in the page. */
static bool open_parts(const struct stage_scene *scene, unsigned first)
{
    struct app *app = &process.app;
    struct config *config = &process.config;

    (void)snprintf(config->lock, sizeof(config->lock), "%s", scene->lock);
    config->lock_wait_ms = scene->wait_ms;
    config->lock_lease_ms = scene->lease_ms;
    config->lock_max_hold_ms = scene->max_hold_ms;
    config->lock_per = scene->lock_per;
    config->deduct = scene->deduct;
    config->orders = scene->batched ? ORDERS_BATCHED : ORDERS_ONE_BY_ONE;
    /* One worker, because each thread of a process needs a place in its page. */
    config->workers = 1;
    config->queue_max = 16;
    config->shared = true;
    config->request_deadline_ms = 120000;
    app->config = config;
    app->metrics = metrics_new();
    process.intake.app = app;
    process.actors_n = scene->one_process ? scene->buyers : 1;
    for (unsigned i = 0; i < process.actors_n; i++)
        process.actors[i] = (struct program_actor){
            .index = first + i,
            .scene = scene,
            .role = stage_role(scene, first + i),
            .worker = {.app = app, .stop_fd = process.stop_fd},
            .intake = &process.intake,
            .app = app,
            .redis_url = redis_proc_url(process.world->nodes[0].redis),
            .db_path = process.world->db_path};
    /* The layer of disk.c must be registered before the store opens the database. */
    return app->metrics &&
           (!process.world->has_disk || disk_watch(process.world->db_path)) &&
           (is_store_short_lived() || open_store());
}

_Noreturn void actor_main(const struct world *world, unsigned first,
                          const struct stage_scene *scene)
{
    struct board *board = world->board;
    pthread_t thread;

    log_open(LOG_ERROR);
    process.world = world;
    process.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* The watch's settings are read by hooks, which run from the first step on. */
    watch_no_lock = strcmp(scene->lock, "none") == 0;
    watch_floor =
        dlock_strategy_find(scene->lock)->capabilities & DLOCK_CAP_FENCED;
    turns_nodes_n = world->nodes_n;
    /* From turns_begin() on all calls that block are the stage's: what opens below is
     * played in a turn, which the stage waits for in spawn(). */
    turns_begin(board, &board->pages[first], process.stop_fd);
    if (!open_parts(scene, first)) {
        turns_note("its parts cannot be opened");
        turns_park(PAGE_TROUBLE);
    }
    for (unsigned i = 1; i < process.actors_n; i++)
        (void)pthread_create(&thread, NULL, run_lane, &process.actors[i]);
    /* The loop of the first actor ends a schedule for all of its process, after
     * PAGE_END, because only one thread may close what all use. */
    for (;;) {
        turns_park(PAGE_CLOSED);
        /* A store of one schedule is opened in a turn before the first move. A process
         * whose last schedule ended before it was opened has none to open yet. */
        if (!turns_ending() && !process.app.store) {
            turns_park(open_store() ? PAGE_CLOSED : PAGE_TROUBLE);
        }
        if (!turns_ending())
            run(&process.actors[0]);
        if (!turns_ending())
            turns_park(PAGE_DONE);
        /* Others of this process must be out of the store and the locks before these
         * are closed. */
        turns_await_lanes();
        close_parts();
    }
}

/* See stage.h. The actors' processes, and handing them the turn; opening, closing, and back
 * to the start. */
#include "server/lab/stage/stage_private.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "server/base/child.h"
#include "server/base/log.h"
#include "server/lab/programs/program.h"

enum { TURN_S_MAX = 60 }; /* of real time: longer is a bug of the stage's */

uint64_t stage_hash_text(uint64_t hash, const char *text)
{
    return page_hash(hash, text, strlen(text) + 1);
}

/* With one process, its page is that of the first actor. */
unsigned stage_process(const struct stage *stage, unsigned actor)
{
    return stage->scene.one_process ? 0 : actor;
}

bool stage_shares_process(const struct stage *stage, int mover, unsigned actor)
{
    return mover >= 0 &&
           stage_process(stage, (unsigned)mover) == stage_process(stage, actor);
}

struct page *stage_page(const struct stage *stage, unsigned actor)
{
    return &stage->board->pages[stage_process(stage, actor)];
}

struct page_lane *stage_lane(const struct stage *stage, unsigned actor)
{
    return &stage_page(stage, actor)
                ->lanes[actor - stage_process(stage, actor)];
}

const struct page_thread *stage_main_thread(const struct stage *stage,
                                            unsigned actor)
{
    return &stage_page(stage, actor)->threads[stage_lane(stage, actor)->thread];
}

bool stage_has_begun(const struct stage *stage, unsigned actor)
{
    return stage_lane(stage, actor)->phase != PAGE_CLOSED;
}

bool stage_is_playing(const struct stage *stage, unsigned actor)
{
    return !stage->parts[actor].is_dead &&
           stage_lane(stage, actor)->phase == PAGE_RUNS;
}

struct stage_role stage_role(const struct stage_scene *scene, unsigned actor)
{
    struct stage_role role = scene->roles[actor];

    if (!role.program)
        role.program = scene->batched ? "instance" : "order";
    role.product = role.product ? role.product : 1;
    role.user = role.user ? role.user : 1 + (int64_t)actor;
    role.other = role.other ? role.other : role.product + 1;
    role.quantity = role.quantity ? role.quantity : scene->quantity;
    role.segments = role.segments ? role.segments : 1;
    return role;
}

/* ---- turns -------------------------------------------------------------- */

/* Waits MS for the end of an actor's process. */
static bool has_ended(const struct stage_part *part, int ms)
{
    struct pollfd poller = {.fd = part->pidfd, .events = POLLIN};

    return poll(&poller, 1, ms) > 0;
}

/* Waits until an actor's process gives the turn back. Looks each second whether it
 * can still do so. */
static bool await(struct stage *stage, unsigned actor)
{
    unsigned process = stage_process(stage, actor);
    struct page *page = &stage->board->pages[process];
    struct timespec until;
    bool ended = false;
    int status;

    for (int seconds = 0; seconds < TURN_S_MAX && !ended; seconds++) {
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        do
            status = sem_timedwait(&page->stopped, &until);
        while (status != 0 && errno == EINTR);
        if (status == 0)
            return true;
        ended = has_ended(&stage->parts[process], 0);
    }
    return fail_with(&stage->error, "actor %c %s: a bug of the stage's",
                     'a' + (int)actor,
                     ended ? "has ended by itself" : "does not stop");
}

static struct stage_step *add_step(struct stage *stage,
                                   const struct stage_step *what)
{
    struct stage_step *step = &stage->steps[stage->steps_n];

    if (stage->steps_n < STAGE_STEPS_MAX - 1)
        stage->steps_n++;
    *step = *what;
    step->move = stage->moves_n;
    step->at_us = atomic_load(&stage->board->now_us) - WORLD_BEGINS_US;
    return step;
}

void stage_tell(struct stage *stage, int actor, const char *name,
                const char *reply)
{
    struct stage_step step = {.actor = (signed char)actor};

    (void)snprintf(step.name, sizeof(step.name), "%s", name);
    (void)snprintf(step.reply, sizeof(step.reply), "%s", reply);
    (void)add_step(stage, &step);
}

/* A store's step: whether it may have changed the database. */
static void note_written(struct stage *stage, const struct stage_step *step)
{
    struct stage_part *part = &stage->parts[step->actor];
    unsigned order = stage_lane(stage, (unsigned)step->actor)->orders_n;

    if (!step->is_sql || strcmp(step->name, "naive-select") == 0 ||
        strcmp(step->name, "SELECT") == 0 || strcmp(step->name, "BEGIN") == 0)
        return;
    stage->written = stage_hash_text(stage->written, step->sent);
    stage->written = stage_hash_text(stage->written, step->reply);
    if (stage->scene.pay_within_s > 0) /* what is written has the time in it */
        stage->written =
            page_hash(stage->written, &step->at_us, sizeof(step->at_us));
    stage->unread = true;
    stage->orders += strcmp(step->name, "naive-insert") == 0 ||
                     strcmp(step->name, "place") == 0 ||
                     strcmp(step->name, "INSERT") == 0;
    /* An order whose INSERT is refused has taken its units before, and loses them; it must
     * not take others. */
    if (strcmp(step->name, "naive-insert") == 0 &&
        strcmp(step->reply, store_status_text(STORE_STALE_FENCE)) == 0) {
        stage->cut_short = true;
        part->order_cut_short = order;
    } else if (strcmp(step->name, "naive-update") == 0 &&
               part->order_cut_short == order && order != 0) {
        stage_broke(stage, STAGE_LEDGER);
    }
    /* A lot of an instance has two orders at most. */
    stage->orders +=
        stage->scene.batched && strcmp(step->name, "place") == 0 ? 1 : 0;
}

/* A command has reached server NODE before those that are held up, which it makes void if
 * they come now. A look changes nothing. A renewal makes no acquire void, because both make
 * the lease a full one; nor does a watchdog, that has not heard of it, a release. */
static void note_newer(struct stage *stage, const struct stage_step *step,
                       unsigned node)
{
    bool renews = strcmp(step->name, "eval-renew") == 0;
    bool is_watchdog = strcmp(step->who, "watchdog") == 0;

    if (strcmp(step->name, "eval-inspect") == 0)
        return;
    for (unsigned i = 0; i < stage->late_n; i++) {
        struct stage_late *late = &stage->late[i];
        const char *name = late->step.step;

        if ((int)late->actor == step->actor && late->step.node == node &&
            strcmp(late->step.key, step->key) == 0 &&
            !(renews && strcmp(name, "eval-acquire") == 0) &&
            !(renews && is_watchdog && strcmp(name, "eval-release") == 0))
            late->newer++;
    }
}

static void take_records(struct stage *stage, unsigned first)
{
    const struct page *page = stage_page(stage, first);

    first = stage_process(stage, first);
    for (unsigned i = 0; i < page->records_n; i++) {
        const struct page_record *record = &page->records[i];
        struct stage_step *step = add_step(stage, &record->step);

        step->actor = (signed char)(first + (unsigned)record->step.actor);
        if (strcmp(step->reply, "(not awaited)") == 0 ||
            strcmp(step->reply, "(sent)") == 0)
            stage->posted = true;
        stage_name_owners(stage, step->sent);
        stage_name_owners(stage, step->reply);
        note_written(stage, step);
        stage->touched = stage->touched || (!step->is_sql && step->name[0]);
        if (!step->is_sql && !record->is_local && step->sent[0] &&
            strcmp(step->reply, "(held up)") != 0 &&
            strcmp(step->reply, "(sent)") != 0)
            note_newer(stage, step, record->node);
        stage_mark_step(stage, step);
    }
}

/* It could not begin: stage->error has its reason. */
static bool is_in_trouble(struct stage *stage, unsigned actor)
{
    const struct page *page = stage_page(stage, actor);

    for (unsigned i = 0; i < STAGE_ACTORS_MAX; i++)
        if (page->lanes[i].phase == PAGE_TROUBLE) {
            (void)fail_with(&stage->error, "actor %c: %s", 'a' + (int)actor,
                            page->records[0].step.reply);
            return true;
        }
    return false;
}

bool stage_hand(struct stage *stage, unsigned actor, enum page_order order,
                unsigned thread, enum page_verdict verdict)
{
    struct page *page = stage_page(stage, actor);

    page->order = order;
    page->thread = thread;
    page->lane = actor - stage_process(stage, actor);
    page->verdict = verdict;
    page->records_n = 0;
    (void)sem_post(&page->go);
    if (!await(stage, actor) || is_in_trouble(stage, actor))
        return false;
    if (order != PAGE_LOOK && order != PAGE_END)
        take_records(stage, actor);
    return true;
}

/* ---- processes ---------------------------------------------------------- */

/* Starts it. False: stage->error. */
static bool spawn(struct stage *stage, unsigned actor)
{
    struct page *page = &stage->board->pages[actor];
    pid_t pid;

    memset(page, 0, sizeof(*page));
    (void)sem_init(&page->go, 1, 0);
    (void)sem_init(&page->stopped, 1, 0);
    page->seed = 1000 * (actor + UINT64_C(1));
    pid = child_fork(SIGKILL);
    if (pid == 0) {
        /* Ctrl-C is for the stage, which ends its actors. */
        (void)signal(SIGINT, SIG_IGN);
        (void)signal(SIGTERM, SIG_IGN);
        actor_main(&stage->world, actor, &stage->scene);
    }
    if (pid < 0)
        return fail_with(&stage->error, "no process for actor %c: %s",
                         'a' + (int)actor, strerror(errno));
    stage->parts[actor] =
        (struct stage_part){.pid = pid, .pidfd = pidfd_open(pid, 0)};
    return await(stage, actor) && !is_in_trouble(stage, actor);
}

/* The kernel closes its connections; the server has heard of it, and of what was
 * in them, once it has answered us twice. */
void stage_kill(struct stage *stage, unsigned actor)
{
    unsigned process = stage_process(stage, actor);
    struct stage_part *part = &stage->parts[process];

    if (part->pid > 0) {
        (void)kill(part->pid, SIGKILL);
        (void)has_ended(part, -1);
        (void)close(part->pidfd);
    }
    part->pid = 0;
    for (unsigned i = 0; i < stage->scene.buyers; i++)
        if (stage_process(stage, i) == process) {
            stage->parts[i].is_dead = true;
            stage->parts[i].died_at = stage->moves_n;
        }
    world_wait_for_servers(&stage->world);
}

/* ---- opening, closing, beginning ---------------------------------------- */

static bool has_lock(const struct stage_scene *scene, struct fail *error)
{
    const struct dlock_strategy_info *info = dlock_strategy_find(scene->lock);
    const unsigned elsewhere = DLOCK_CAP_SQL | DLOCK_CAP_RECORD | DLOCK_CAP_ZK;

    if (!info)
        return fail_with(error, "there is no lock '%s'", scene->lock);
    if (info->capabilities & elsewhere)
        return fail_with(error,
                         "%s needs SQL or ZooKeeper, and the stage plays only "
                         "locks in Redis; stockade lab locks measures it",
                         scene->lock);
    if (scene->replica && world_nodes_for(scene->lock) > 1)
        return fail_with(error,
                         "%s is on several servers, and they have "
                         "no replicas here",
                         scene->lock);
    if (scene->batched && (scene->one_process || scene->deduct == DEDUCT_NAIVE))
        return fail_with(error, "an instance that sells in batches is a "
                                "process, and deducts guarded");
    if (scene->lock_per == LOCK_PER_USER &&
        (scene->batched || info->capabilities & DLOCK_CAP_FENCED))
        return fail_with(
            error, "a lock per user has no tokens, and is of orders one by "
                   "one");
    return (scene->buyers >= 1 && scene->buyers <= STAGE_ACTORS_MAX) ||
           fail_with(error, "1 to %d buyers", STAGE_ACTORS_MAX);
}

static bool has_programs(const struct stage_scene *scene, struct fail *error)
{
    for (unsigned i = 0; i < scene->buyers; i++) {
        const char *name = stage_role(scene, i).program;
        const struct program *each = program_find(name);

        if (each && scene->batched != (each->arrivals[0] != '\0'))
            return fail_with(
                error, "batched, all actors are instances, and else none");
        if (each)
            continue;
        (void)fail_with(error, "no program '%s'; there are:", name);
        for (size_t j = 0; (each = program_at(j)) != NULL; j++)
            if (scene->batched == (each->arrivals[0] != '\0'))
                (void)fail_more(error, " %s", each->name);
        return false;
    }
    return true;
}

bool stage_can_play(const struct stage_scene *scene, struct fail *error)
{
    return has_lock(scene, error) && has_programs(scene, error);
}

struct stage *stage_open(const struct stage_scene *scene, struct fail *error)
{
    struct stage *stage;
    bool good = false;

    if (!stage_can_play(scene, error))
        return NULL;
    stage = calloc(1, sizeof(*stage));
    if (!stage)
        return NULL;
    stage->scene = *scene;
    stage->expected = expected_of(scene->lock);
    log_open(LOG_ERROR); /* that a server was restarted is our doing */
    /* The dead are buried by themselves: that may take the kernel longer than
     * all the rest of a schedule. */
    (void)signal(SIGCHLD, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN); /* a server that dies; its actors, too */
    if (world_open(&stage->world, scene, error) &&
        peek_compiles(stage->world.nodes[0].peek, scene->lock, error)) {
        stage->board = stage->world.board;
        for (unsigned i = 0; i < scene->buyers; i++)
            stage->parts[i].is_dead = true;
        good = stage_begin(stage, error);
    }
    /* The first turn of each actor, when it is alone. */
    for (unsigned i = 0; good && i < scene->buyers; i++) {
        good = stage_hand(stage, i, PAGE_BEGIN, 0, PAGE_OK);
        if (!good)
            *error = stage->error;
        else
            stage->first[i] = *stage_main_thread(stage, i);
        good = good && stage_begin(stage, error);
    }
    if (good)
        return stage;
    stage_close(stage);
    return NULL;
}

void stage_close(struct stage *stage)
{
    if (!stage)
        return;
    for (unsigned i = 0; stage->board && i < stage->scene.buyers; i++)
        stage_kill(stage, i);
    world_close(&stage->world);
    free(stage);
}

static bool is_closed(const struct stage *stage, unsigned process)
{
    for (unsigned i = 0; i < STAGE_ACTORS_MAX; i++)
        if (stage->board->pages[process].lanes[i].phase != PAGE_CLOSED)
            return false;
    return true;
}

/* Each process is there, and between two schedules. Those that live let go first:
 * one that begins opens the database, and would wait for a transaction of theirs. One
 * that cannot let go, because of a bug in what it plays, begins anew. */
static bool begin_processes(struct stage *stage)
{
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        if (stage_process(stage, i) != i || stage->parts[i].is_dead ||
            is_closed(stage, i))
            continue;
        if (!stage_hand(stage, i, PAGE_END, 0, PAGE_OK))
            return false;
        if (!is_closed(stage, i))
            stage_kill(stage, i);
    }
    for (unsigned i = 0; i < stage->scene.buyers; i++)
        if (stage_process(stage, i) == i && stage->parts[i].is_dead &&
            !spawn(stage, i))
            return false;
    return true;
}

static bool begin(struct stage *stage)
{
    if (!begin_processes(stage) || !world_reset(&stage->world, &stage->error))
        return false;
    memset((char *)stage + offsetof(struct stage, steps_n), 0,
           sizeof(*stage) - offsetof(struct stage, steps_n));
    stage->repeats = stage->past_n > 0;
    stage->past_n += stage->past_n == 0;
    stage->look.keys[0] = '\0';
    stage->locks[0] = (struct stage_lock){.name = "lock:{1:0}", .setter = -1};
    stage->locks_n = 1;
    stage->touched = stage->unread = true;
    stage->written = PAGE_HASH_SEED;
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        struct stage_part *part = &stage->parts[i];
        struct page_lane *lane = stage_lane(stage, i);

        *part = (struct stage_part){.pid = part->pid, .pidfd = part->pidfd};
        *lane = (struct page_lane){.thread = lane->thread};
    }
    return stage_settle(stage, -1);
}

bool stage_begin(struct stage *stage, struct fail *error)
{
    return begin(stage) || fail_with(error, "%s", stage->error.text);
}

const struct stage_step *stage_steps(const struct stage *stage, size_t *n)
{
    *n = stage->steps_n;
    return stage->steps;
}

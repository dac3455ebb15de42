/* See stage.h. The actors as processes, and what follows each of their turns. */
#include "server/lab/stage/stage_private.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "server/lab/stage/actor.h"
#include "server/redis_proc.h"

enum { TURN_S_MAX = 60 }; /* of real time: longer is a bug of the stage's */

uint64_t stage_hash_bytes(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *each = bytes;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ each[i]) * UINT64_C(1099511628211);
    return hash;
}

uint64_t stage_hash_text(uint64_t hash, const char *text)
{
    return stage_hash_bytes(hash, text, strlen(text) + 1);
}

bool stage_is_playing(const struct stage *stage, unsigned actor)
{
    return !stage->parts[actor].is_dead &&
           stage->board->pages[actor].phase == PAGE_ORDERS;
}

/* ---- turns -------------------------------------------------------------- */

/* Waits MS for the end of an actor's process. */
static bool has_ended(const struct stage_part *part, int ms)
{
    struct pollfd poller = {.fd = part->pidfd, .events = POLLIN};

    return poll(&poller, 1, ms) > 0;
}

static bool await(struct stage *stage, unsigned actor)
{
    struct page *page = &stage->board->pages[actor];
    struct timespec until;

    for (int seconds = 0; seconds < TURN_S_MAX; seconds++) {
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        while (sem_timedwait(&page->stopped, &until) != 0)
            if (errno == ETIMEDOUT)
                break;
            else
                continue;
        if (errno != ETIMEDOUT)
            return true;
        errno = 0;
        if (has_ended(&stage->parts[actor], 0))
            break;
    }
    (void)snprintf(stage->error, sizeof(stage->error),
                   "actor %c %s: a bug of the stage's", 'a' + (int)actor,
                   has_ended(&stage->parts[actor], 0) ? "has ended by itself"
                                                      : "does not stop");
    return false;
}

static struct stage_step *new_step(struct stage *stage)
{
    struct stage_step *step = &stage->steps[stage->steps_n];

    if (stage->steps_n < STAGE_STEPS_MAX - 1)
        stage->steps_n++;
    *step = (struct stage_step){.move = stage->moves_n, .actor = -1};
    step->at_us = atomic_load(&stage->board->now_us) - WORLD_BEGINS_US;
    return step;
}

void stage_tell(struct stage *stage, const char *name, const char *sent,
                const char *reply)
{
    struct stage_step *step = new_step(stage);

    (void)snprintf(step->name, sizeof(step->name), "%s", name);
    (void)snprintf(step->sent, sizeof(step->sent), "%s", sent);
    (void)snprintf(step->reply, sizeof(step->reply), "%s", reply);
}

/* What it has heard decides what it does next. */
static void take_records(struct stage *stage, unsigned actor)
{
    const struct page *page = &stage->board->pages[actor];
    struct stage_part *part = &stage->parts[actor];

    for (unsigned i = 0; i < page->records_n; i++) {
        const struct page_record *record = &page->records[i];
        struct stage_step *step = new_step(stage);

        step->actor = (signed char)actor;
        step->is_sql = record->is_sql;
        memcpy(step->who, record->who, sizeof(step->who));
        memcpy(step->name, record->step, sizeof(step->name));
        memcpy(step->key, record->key, sizeof(step->key));
        memcpy(step->sent, record->sent, sizeof(step->sent));
        memcpy(step->reply, record->reply, sizeof(step->reply));
        if (strcmp(step->reply, "(not awaited)") == 0)
            stage->posted = true;
        stage_name_owners(stage, step->sent);
        stage_name_owners(stage, step->reply);
        part->history = stage_hash_text(part->history, step->name);
        part->history = stage_hash_text(part->history, step->reply);
        if (!record->is_sql || strcmp(step->name, "naive-select") == 0)
            continue;
        stage->written = stage_hash_text(stage->written, step->sent);
        stage->written = stage_hash_text(stage->written, step->reply);
        stage->unread = true;
        stage->orders += strcmp(step->name, "naive-insert") == 0 ||
                         strcmp(step->name, "place") == 0;
    }
}

bool stage_hand(struct stage *stage, unsigned actor, enum page_order order,
                unsigned thread, enum page_verdict verdict)
{
    struct page *page = &stage->board->pages[actor];

    page->order = order;
    page->thread = thread;
    page->verdict = verdict;
    page->records_n = 0;
    (void)sem_post(&page->go);
    errno = 0;
    if (!await(stage, actor))
        return false;
    if (page->phase == PAGE_TROUBLE) {
        (void)snprintf(stage->error, sizeof(stage->error), "actor %c: %s",
                       'a' + (int)actor, page->records[0].reply);
        return false;
    }
    if (order != PAGE_LOOK && order != PAGE_END)
        take_records(stage, actor);
    return true;
}

void stage_pass(struct stage *stage, uint64_t until_us)
{
    if (until_us > atomic_load(&stage->board->now_us))
        atomic_store(&stage->board->now_us, until_us);
}

/* ---- processes ---------------------------------------------------------- */

static bool spawn(struct stage *stage, unsigned actor)
{
    struct page *page = &stage->board->pages[actor];
    pid_t parent = getpid();
    pid_t pid;

    memset(page, 0, sizeof(*page));
    (void)sem_init(&page->go, 1, 0);
    (void)sem_init(&page->stopped, 1, 0);
    page->seed = 1000 * (actor + UINT64_C(1));
    pid = fork();
    if (pid == 0) {
        /* Ctrl-C is for the stage, which ends its actors. */
        (void)signal(SIGINT, SIG_IGN);
        (void)signal(SIGTERM, SIG_IGN);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            actor_main(stage->board, actor, &stage->scene, stage->world.db_url,
                       redis_proc_url(stage->world.redis));
        _exit(70);
    }
    stage->parts[actor] =
        (struct stage_part){.pid = pid, .pidfd = pidfd_open(pid, 0)};
    errno = 0;
    if (pid > 0 && await(stage, actor) && page->phase == PAGE_CLOSED)
        return true;
    if (stage->error[0] == '\0')
        (void)snprintf(stage->error, sizeof(stage->error), "actor %c: %s",
                       'a' + (int)actor,
                       pid > 0 ? page->records[0].reply : strerror(errno));
    return false;
}

/* The kernel closes its connections; the server has heard of it, and of what was
 * in them, once it has answered us twice. */
void stage_kill(struct stage *stage, unsigned actor)
{
    struct stage_part *part = &stage->parts[actor];

    if (part->pid > 0) {
        (void)kill(part->pid, SIGKILL);
        (void)has_ended(part, -1);
        (void)close(part->pidfd);
    }
    part->pid = 0;
    part->is_dead = true;
    if (stage->world.peek)
        stage_wait_for_server(stage);
}

/* ---- opening, closing, beginning ---------------------------------------- */

static bool can_play(const struct stage_scene *scene, char *error, size_t size)
{
    const struct dlock_strategy_info *info = dlock_strategy_find(scene->lock);
    const unsigned elsewhere = DLOCK_CAP_SQL | DLOCK_CAP_RECORD | DLOCK_CAP_ZK;

    if (!info)
        (void)snprintf(error, size, "there is no lock '%s'", scene->lock);
    else if (info->capabilities & elsewhere)
        (void)snprintf(error, size,
                       "%s lives in a server that the stage has "
                       "not: it plays the locks of one Redis",
                       scene->lock);
    else if (strcmp(scene->lock, "mkdir") == 0 ||
             strcmp(scene->lock, "multi") == 0 ||
             strcmp(scene->lock, "redlock") == 0)
        (void)snprintf(error, size,
                       "%s is not in one Redis, and the stage "
                       "plays the locks that are",
                       scene->lock);
    else if (scene->buyers < 1 || scene->buyers > STAGE_ACTORS_MAX)
        (void)snprintf(error, size, "1 to %d buyers", STAGE_ACTORS_MAX);
    else
        return true;
    return false;
}

/* All actors begin alike. */
static bool learn_first(struct stage *stage, char *error, size_t error_size)
{
    if (stage_hand(stage, 0, PAGE_BEGIN, 0, PAGE_OK)) {
        stage->first = stage->board->pages[0].threads[0];
        return stage_begin(stage, error, error_size);
    }
    (void)snprintf(error, error_size, "%s", stage->error);
    return false;
}

struct stage *stage_open(const struct stage_scene *scene, char *error,
                         size_t error_size)
{
    struct stage *stage;

    if (!can_play(scene, error, error_size))
        return NULL;
    stage = calloc(1, sizeof(*stage));
    if (!stage)
        return NULL;
    stage->scene = *scene;
    /* The dead are buried by themselves: that may take the kernel longer than
     * all the rest of a schedule. */
    (void)signal(SIGCHLD, SIG_IGN);
    if (world_open(&stage->world, scene, error, error_size)) {
        stage->board = stage->world.board;
        for (unsigned i = 0; i < scene->buyers; i++)
            stage->parts[i].is_dead = true;
        if (stage_begin(stage, error, error_size) &&
            learn_first(stage, error, error_size))
            return stage;
    }
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

static bool begin(struct stage *stage)
{
    for (unsigned i = 0; i < stage->scene.buyers; i++)
        if (stage->parts[i].is_dead) {
            if (!spawn(stage, i))
                return false;
        } else if (stage->board->pages[i].phase != PAGE_CLOSED &&
                   !stage_hand(stage, i, PAGE_END, 0, PAGE_OK)) {
            return false;
        }
    if (!world_reset(&stage->world, stage->error, sizeof(stage->error)))
        return false;
    stage->steps_n = stage->moves_n = stage->late_n = 0;
    stage->keys[0] = '\0';
    stage->has_key = stage->unfaithful = false;
    stage->setter = -1;
    stage->lapses = stage->faults = 0;
    stage->written = STAGE_HASH_SEED;
    stage->orders = 0;
    stage->unread = true;
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        struct stage_part *part = &stage->parts[i];

        *part = (struct stage_part){
            .pid = part->pid, .pidfd = part->pidfd, .history = STAGE_HASH_SEED};
    }
    return stage_settle(stage, -1);
}

bool stage_begin(struct stage *stage, char *error, size_t error_size)
{
    if (begin(stage))
        return true;
    (void)snprintf(error, error_size, "%s", stage->error);
    return false;
}

const struct stage_step *stage_steps(const struct stage *stage, size_t *n)
{
    *n = stage->steps_n;
    return stage->steps;
}

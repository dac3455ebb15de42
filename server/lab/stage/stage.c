/* See stage.h. Opening, closing, and back to the start. */
#include "server/lab/stage/stage_private.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dlock_textbook.h"
#include "server/base/log.h"
#include "server/lab/programs/program.h"

uint64_t stage_hash_text(uint64_t hash, const char *text)
{
    return page_hash(hash, text, strlen(text) + 1);
}

/* With one process, its page is that of the first actor. */
unsigned stage_process(const struct stage *stage, unsigned actor)
{
    return stage->scene.one_process ? 0 : actor;
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

void stage_pass(struct stage *stage, uint64_t until_us)
{
    if (until_us > atomic_load(&stage->board->now_us))
        atomic_store(&stage->board->now_us, until_us);
}

/* ---- opening, closing, beginning ---------------------------------------- */

static bool has_lock(const struct stage_scene *scene, char *error, size_t size)
{
    const struct dlock_strategy_info *info = dlock_strategy_find(scene->lock);
    const unsigned elsewhere = DLOCK_CAP_SQL | DLOCK_CAP_RECORD | DLOCK_CAP_ZK;

    if (!info)
        (void)snprintf(error, size, "there is no lock '%s'", scene->lock);
    else if (info->capabilities & elsewhere)
        (void)snprintf(error, size,
                       "%s needs SQL or ZooKeeper, and the stage plays only "
                       "locks in Redis; stockade lab locks measures it",
                       scene->lock);
    else if (scene->replica && world_nodes_for(scene->lock) > 1)
        (void)snprintf(error, size,
                       "%s is on several servers, and they have "
                       "no replicas here",
                       scene->lock);
    else if (scene->batched &&
             (scene->one_process || scene->deduct == DEDUCT_NAIVE))
        (void)snprintf(error, size,
                       "an instance that sells in batches is a "
                       "process, and deducts guarded");
    else if (scene->lock_per == LOCK_PER_USER &&
             (scene->batched || info->capabilities & DLOCK_CAP_FENCED))
        (void)snprintf(error, size,
                       "a lock per user has no tokens, and is of orders one by "
                       "one");
    else if (scene->buyers < 1 || scene->buyers > STAGE_ACTORS_MAX)
        (void)snprintf(error, size, "1 to %d buyers", STAGE_ACTORS_MAX);
    else
        return true;
    return false;
}

static bool has_programs(const struct stage_scene *scene, char *error,
                         size_t size)
{
    for (unsigned i = 0; i < scene->buyers; i++) {
        const char *name = stage_role(scene, i).program;
        const struct program *each;
        size_t used;

        each = program_find(name);
        if (each && scene->batched != program_is_instance(each)) {
            (void)snprintf(error, size,
                           "batched, all actors are instances, and else none");
            return false;
        }
        if (each)
            continue;
        used =
            (size_t)snprintf(error, size, "no program '%s'; there are:", name);
        for (size_t j = 0; (each = program_at(j)) != NULL && used < size; j++)
            if (scene->batched == program_is_instance(each))
                used += (size_t)snprintf(error + used, size - used, " %s",
                                         each->name);
        return false;
    }
    return true;
}

bool stage_can_play(const struct stage_scene *scene, char *error,
                    size_t error_size)
{
    return has_lock(scene, error, error_size) &&
           has_programs(scene, error, error_size);
}

/* The first turn of each actor, when it is alone. */
static bool learn_first(struct stage *stage, char *error, size_t error_size)
{
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        if (!stage_hand(stage, i, PAGE_BEGIN, 0, PAGE_OK)) {
            (void)snprintf(error, error_size, "%s", stage->error);
            return false;
        }
        stage->first[i] = *stage_main_thread(stage, i);
        if (!stage_begin(stage, error, error_size))
            return false;
    }
    return true;
}

struct stage *stage_open(const struct stage_scene *scene, char *error,
                         size_t error_size)
{
    struct stage *stage;

    if (!stage_can_play(scene, error, error_size))
        return NULL;
    stage = calloc(1, sizeof(*stage));
    if (!stage)
        return NULL;
    stage->scene = *scene;
    log_open(LOG_ERROR); /* that a server was restarted is our doing */
    /* The dead are buried by themselves: that may take the kernel longer than
     * all the rest of a schedule. */
    (void)signal(SIGCHLD, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN); /* a server that dies; its actors, too */
    if (world_open(&stage->world, scene, error, error_size) &&
        peek_compiles(stage->world.nodes[0].peek, scene->lock, error,
                      error_size)) {
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
            !stage_spawn(stage, i))
            return false;
    return true;
}

static bool begin(struct stage *stage)
{
    if (!begin_processes(stage) ||
        !world_reset(&stage->world, stage->error, sizeof(stage->error)))
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

        *part = (struct stage_part){.pid = part->pid, .pidfd = part->pidfd};
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

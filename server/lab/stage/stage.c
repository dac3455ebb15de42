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

/* ---- turns -------------------------------------------------------------- */

/* Waits MS for the end of a process. */
static bool has_ended(const struct page *page, int ms)
{
    struct pollfd poller = {.fd = page->pidfd, .events = POLLIN};
    int n;

    do
        n = poll(&poller, 1, ms);
    while (n < 0 && errno == EINTR);
    return n > 0;
}

/* Waits until a process gives the turn back, whose ACTOR could not begin if it says so.
 * Looks each second whether it can still do so. */
static bool await(struct actor *actor)
{
    struct page *page = actor->page;
    struct stage *stage = actor->stage;
    struct timespec until;
    bool ended = false;
    int status = -1;

    for (int seconds = 0; status != 0 && !ended && seconds < TURN_S_MAX;
         seconds++) {
        /* A semaphore cannot be polled together with the pidfd: so each second asks for
         * both. An actor that died by itself would else be waited for until TURN_S_MAX
         * is over. */
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        do
            status = sem_clockwait(&page->stopped, CLOCK_MONOTONIC, &until);
        while (status != 0 && errno == EINTR);
        ended = status != 0 && has_ended(page, 0);
    }
    if (status != 0)
        return fail_with(&stage->error, "actor %c %s: a bug of the stage's",
                         'a' + actor->index,
                         ended ? "has ended by itself" : "does not stop");
    /* Threads of one process share the turn: any of its lanes may be the one that
     * failed. */
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        if (each->page == page && each->lane->phase == PAGE_TROUBLE)
            return fail_with(&stage->error, "actor %c: %s", 'a' + actor->index,
                             page->records[0].reply);
    return true;
}

static struct stage_step *add_step(struct stage *stage,
                                   const struct stage_step *what)
{
    struct stage_step *step = &stage->steps[stage->steps_n];

    /* The rules look for steps by their place: one that was written over would be one
     * that did not happen. */
    if (stage->steps_n < STAGE_STEPS_MAX - 1)
        stage->steps_n++;
    else
        (void)fail_with(&stage->error, "a schedule of more than %d lines",
                        STAGE_STEPS_MAX - 1);
    *step = *what;
    step->move = stage->moves_n;
    step->at_us = stage_now_us(stage) - WORLD_BEGINS_US;
    return step;
}

void stage_tell(struct stage *stage, const struct actor *actor,
                const char *name, const char *reply)
{
    struct stage_step step = {.actor = (signed char)stage_index(actor)};

    (void)snprintf(step.name, sizeof(step.name), "%s", name);
    (void)snprintf(step.reply, sizeof(step.reply), "%s", reply);
    (void)add_step(stage, &step);
}

/* A store's step: whether it may have changed the database. */
static void note_written(struct stage *stage, const struct stage_step *step)
{
    struct actor *actor = &stage->actors[step->actor];
    unsigned order = actor->lane->orders_n;

    if (!step->is_sql || strcmp(step->name, "naive-select") == 0 ||
        strcmp(step->name, "SELECT") == 0 || strcmp(step->name, "BEGIN") == 0)
        return;
    /* Reads change nothing. A hash of the statements and their replies stands for the
     * rows: two orders of writes that lead to the same rows count as two states, which
     * costs a search time, and hides nothing. */
    stage->written = page_hash_text(stage->written, step->sent);
    stage->written = page_hash_text(stage->written, step->reply);
    if (stage->scene.pay_within_s > 0) /* what is written has the time in it */
        stage->written =
            page_hash(stage->written, &step->at_us, sizeof(step->at_us));
    stage->is_audited = false;
    /* An order whose INSERT is refused has taken its units before, and loses them; it must
     * not take others. */
    if (strcmp(step->name, "naive-insert") == 0 &&
        strcmp(step->reply, store_status_text(STORE_STALE_FENCE)) == 0) {
        stage->cut_short = true;
        actor->order_cut_short = order;
    } else if (strcmp(step->name, "naive-update") == 0 &&
               actor->order_cut_short == order && order != 0) {
        stage_broke(stage, STAGE_LEDGER);
    }
}

/* A command has reached server NODE before those that are held up, which it makes void if
 * they come now. A look changes nothing. A renewal makes no acquire void, because both make
 * the lease a full one; nor does a watchdog, that has not heard of it, a release. */
static void note_newer(struct stage *stage, const struct stage_step *step)
{
    bool renews = strcmp(step->name, "eval-renew") == 0;
    bool is_watchdog = strcmp(step->who, "watchdog") == 0;

    if (strcmp(step->name, "eval-inspect") == 0)
        return;
    for (unsigned i = 0; i < stage->late_n; i++) {
        struct stage_late *late = &stage->late[i];
        const char *name = late->shown.step.name;

        if (late->actor->index == step->actor &&
            late->shown.step.node == step->node &&
            strcmp(late->shown.step.key, step->key) == 0 &&
            !(renews && strcmp(name, "eval-acquire") == 0) &&
            !(renews && is_watchdog && strcmp(name, "eval-release") == 0))
            late->newer++;
    }
}

static void take_records(struct stage *stage, const struct page *page)
{
    for (unsigned i = 0; i < page->records_n; i++) {
        struct stage_step *step = add_step(stage, &page->records[i]);

        /* The reply was not read: the server may be at it still, and a look must wait
         * for it. */
        if (strcmp(step->reply, "(not awaited)") == 0 ||
            strcmp(step->reply, "(sent)") == 0)
            stage->posted = true;
        /* Owners become letters first: what is hashed as written must not have what was
         * drawn. */
        stage_name_owners(stage, step->sent);
        stage_name_owners(stage, step->reply);
        note_written(stage, step);
        stage->touched = stage->touched || (!step->is_sql && step->name[0]);
        /* A command that was held up changes nothing now. One that was only sent counts
         * once, with its reply. */
        if (!step->is_sql && !step->is_local && step->sent[0] &&
            strcmp(step->reply, "(held up)") != 0 &&
            strcmp(step->reply, "(sent)") != 0)
            note_newer(stage, step);
        stage_mark_step(stage, step);
    }
}

/*
 * Several servers are asked without waiting for what each says; so one that does not
 * know a script would do nothing before it is asked again. It is told before, and
 * what was sent is done when the move is over.
 */
static void know_script(struct stage *stage, const struct page_thread *shown)
{
    const char *words[] = {"SCRIPT", "LOAD", shown->words + sizeof("EVAL")};
    char reply[64];

    if (stage->world.nodes_n > 1 && strcmp(shown->words, "EVAL") == 0)
        (void)peek_send(stage->world.nodes[shown->step.node].peek, 3, words,
                        reply, sizeof(reply));
}

bool stage_hand(struct actor *actor, enum page_order order,
                const struct page_thread *thread, enum page_verdict verdict)
{
    struct page *page = actor->page;

    /* The order must be whole before GO is posted: from then on the page is the
     * actor's. */
    page->order = order;
    page->thread = thread ? (unsigned)(thread - page->threads) : 0;
    page->lane = (unsigned)actor->index;
    page->verdict = verdict;
    page->records_n = 0;
    /* A command that is held up has its script in it: deliver() sends all of its
     * words. */
    if (thread && order == PAGE_GO && thread->wait == PAGE_STEP &&
        verdict != PAGE_HOLD)
        know_script(actor->stage, thread);
    (void)sem_post(&page->go);
    if (!await(actor))
        return false;
    /* A look and an end are no moves: what they note is not told. */
    if (order != PAGE_LOOK && order != PAGE_END)
        take_records(actor->stage, page);
    return true;
}

/* ---- processes ---------------------------------------------------------- */

/* Starts that of ACTOR, which is the first in it. False: stage->error. */
static bool spawn(struct actor *actor)
{
    struct stage *stage = actor->stage;
    struct page *page = actor->page;
    pid_t pid;
    int why;

    /* The process before may have been killed in the middle of a turn: nothing of it
     * may be left, its semaphores least. */
    memset(page, 0, sizeof(*page));
    for (struct actor *each = actor; each < stage->end; each++)
        if (each->page == page)
            *each->lane = (struct page_lane){.phase = PAGE_CLOSED};
    (void)sem_init(&page->go, 1, 0);
    (void)sem_init(&page->stopped, 1, 0);
    page->lane = (unsigned)actor->index;
    /* The seed goes by the actor: another process in its place draws the same numbers. */
    page->seed = 1000 * (page->lane + UINT64_C(1));
    pid = child_fork(SIGKILL);
    if (pid == 0) {
        /* Ctrl-C is for the stage, which ends its actors. */
        (void)signal(SIGINT, SIG_IGN);
        (void)signal(SIGTERM, SIG_IGN);
        actor_main(&stage->world, page->lane, &stage->scene);
    }
    /* The pidfd says when it ends, and waitpid() cannot: the kernel buries children
     * here (stage_open()). */
    page->pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
    if (page->pidfd < 0) {
        why = errno;
        /* ESRCH: the process is gone, and its pid may be another's. */
        if (pid > 0 && why != ESRCH)
            (void)kill(pid, SIGKILL);
        return fail_with(&stage->error, "no process for actor %c: %s",
                         'a' + actor->index, strerror(why));
    }
    page->pid = pid;
    return await(actor);
}

/* The kernel closes its connections; the server has heard of it, and of what was
 * in them, once it has answered us twice. */
void stage_kill(struct stage *stage, struct page *page)
{
    if (page->pid > 0) {
        /* An actor may have ended by itself, and its pid be another's: kill() would end
         * that one. */
        (void)pidfd_send_signal(page->pidfd, SIGKILL, NULL, 0);
        (void)has_ended(page, -1);
        (void)close(page->pidfd);
    }
    page->pid = 0;
    for (struct actor *each = stage->actors; each < stage->end; each++)
        if (each->page == page) {
            each->is_dead = true;
            each->died_at = stage->moves_n;
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
    /* A program of nobody must not seem to have been played. */
    for (unsigned i = scene->buyers; i < STAGE_ACTORS_MAX; i++)
        if (scene->roles[i].program)
            return fail_with(error, "there are more programs than %u buyer%s",
                             scene->buyers, scene->buyers == 1 ? "" : "s");
    for (unsigned i = 0; i < scene->buyers; i++) {
        const char *name = stage_role(scene, i).program;
        const struct program *each = program_find(name);

        if (each && scene->batched != program_is_instance(each))
            return fail_with(
                error, "batched, all actors are instances, and else none");
        if (each)
            continue;
        (void)fail_with(error, "no program '%s'; there are:", name);
        for (size_t j = 0; (each = program_at(j)) != NULL; j++)
            if (scene->batched == program_is_instance(each))
                (void)fail_more(error, " %s", each->name);
        return false;
    }
    return true;
}

bool stage_can_play(const struct stage_scene *scene, struct fail *error)
{
    return has_lock(scene, error) && has_programs(scene, error);
}

/* Each actor has its place, and shows in its first turn, alone, what it begins with. */
static bool open_actors(struct stage *stage, struct fail *error)
{
    struct board *board = stage->world.board;
    bool good;

    stage->end = stage->actors + stage->scene.buyers;
    for (struct actor *each = stage->actors; each < stage->end; each++) {
        each->stage = stage;
        each->index = (int)(each - stage->actors);
        each->role = stage_role(&stage->scene, (unsigned)each->index);
        each->program = program_find(each->role.program);
        each->page = &board->pages[stage->scene.one_process ? 0 : each->index];
        each->lane = &board->lanes[each->index];
    }
    good = stage_begin(stage, error);
    /* FIRST says what an actor's first move would be before it has begun. So each of
     * them begins once, in a schedule of its own. */
    for (struct actor *each = stage->actors; good && each < stage->end;
         each++) {
        good = stage_hand(each, PAGE_BEGIN, NULL, PAGE_OK) ||
               fail_with(error, "%s", stage->error.text);
        each->first = *stage_main_thread(each);
        good = good && stage_begin(stage, error);
    }
    return good;
}

struct stage *stage_open(const struct stage_scene *scene, struct fail *error)
{
    struct stage *stage;

    if (!stage_can_play(scene, error))
        return NULL;
    stage = calloc(1, sizeof(*stage));
    if (!stage) {
        (void)fail_with(error, "no memory for the stage");
        return NULL;
    }
    stage->scene = *scene;
    if (scene->max_hold_ms == 0)
        stage->scene.max_hold_ms = 60000;
    stage->end = stage->actors; /* none is there yet */
    stage->expected = expected_of(scene->lock);
    log_open(LOG_ERROR); /* that a server was restarted is our doing */
    /* The dead are buried by themselves: that may take the kernel longer than
     * all the rest of a schedule. */
    (void)signal(SIGCHLD, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN); /* a server that dies; its actors, too */
    if (world_open(&stage->world, scene, error) &&
        peek_compiles(stage->world.nodes[0].peek, scene->lock, error) &&
        open_actors(stage, error))
        return stage;
    stage_close(stage);
    return NULL;
}

void stage_close(struct stage *stage)
{
    if (!stage)
        return;
    /* The actors must be gone before the servers and the folder that they use. */
    for (struct actor *each = stage->actors; each < stage->end; each++)
        stage_kill(stage, each->page);
    world_close(&stage->world);
    free(stage);
}

/* Its process has a store of each schedule, which it opens in a turn of its own. */
static bool opens_store(const struct actor *actor)
{
    const struct stage *stage = actor->stage;

    return stage->scene.pay_within_s > 0 &&
           (actor == stage->actors || !stage->scene.one_process);
}

/* A lock that lives in its process is held there for ever if its program has left it. */
static bool leaves_a_lock(const struct actor *actor)
{
    const struct expected *expected = actor->stage->expected;

    return expected && expected->kept == KEPT_LOCALLY &&
           page_holds(actor->lane) > 0;
}

/* Each process is there, and between two schedules. Those that live let go first:
 * one that begins opens the database, and would wait for a transaction of theirs. One
 * that cannot let go, because of a bug in what it plays, begins anew. */
static bool begin_processes(struct stage *stage)
{
    for (struct actor *each = stage->actors; each < stage->end; each++) {
        if (each->page->pid == 0)
            continue;
        if ((stage_has_begun(each) || opens_store(each)) &&
            !stage_hand(each, PAGE_END, NULL, PAGE_OK))
            return false;
        if (stage_has_begun(each) || leaves_a_lock(each))
            stage_kill(stage, each->page);
    }
    /* The first actor of a process spawns it for all that share it. */
    for (struct actor *each = stage->actors; each < stage->end; each++)
        if (each->page->pid == 0 && !spawn(each))
            return false;
    return true;
}

static bool begin(struct stage *stage)
{
    if (!begin_processes(stage) || !world_reset(&stage->world, &stage->error))
        return false;
    /* All members from steps_n on are of one schedule: their place in the struct says
     * so. */
    memset((char *)stage + offsetof(struct stage, steps_n), 0,
           sizeof(*stage) - offsetof(struct stage, steps_n));
    /* Place 0 of the past is the look before any move: with the second schedule it is
     * known. */
    stage->repeats = stage->past_n > 0;
    stage->past_n += stage->past_n == 0;
    stage->locks[0] = (struct stage_lock){.name = "lock:{1:0}"};
    stage->locks_n = 1;
    stage->touched = true;
    stage->written = PAGE_HASH_SEED;
    for (struct actor *each = stage->actors; each < stage->end; each++) {
        memset((char *)each + offsetof(struct actor, is_dead), 0,
               sizeof(*each) - offsetof(struct actor, is_dead));
        /* The thread of a lane outlives a schedule, because the process does. */
        *each->lane = (struct page_lane){.thread = each->lane->thread};
    }
    /* A store must be opened when the database is back at its start, and before any
     * move. */
    for (struct actor *each = stage->actors; each < stage->end; each++)
        if (opens_store(each) && !stage_hand(each, PAGE_BEGIN, NULL, PAGE_OK))
            return false;
    return stage_settle(stage);
}

bool stage_begin(struct stage *stage, struct fail *error)
{
    return begin(stage) ? !stage_is_broken(stage, error)
                        : fail_with(error, "%s", stage->error.text);
}

const struct stage_step *stage_steps(const struct stage *stage, size_t *n)
{
    *n = stage->steps_n;
    return stage->steps;
}

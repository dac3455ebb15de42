/* See stage_private.h: the actors' processes, and handing them the turn. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "server/lab/stage/stage_private.h"

enum { TURN_S_MAX = 60 }; /* of real time: longer is a bug of the stage's */

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
    (void)snprintf(stage->error, sizeof(stage->error),
                   "actor %c %s: a bug of the stage's", 'a' + (int)actor,
                   ended ? "has ended by itself" : "does not stop");
    return false;
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

/* An order whose INSERT is refused has taken its units before, and loses them; it must
 * not take others. */
static void note_taken(struct stage *stage, const struct stage_step *step)
{
    struct stage_part *part = &stage->parts[step->actor];
    unsigned order = stage_lane(stage, (unsigned)step->actor)->orders_n;

    if (strcmp(step->name, "naive-insert") == 0 &&
        strcmp(step->reply, store_status_text(STORE_STALE_FENCE)) == 0) {
        stage->cut_short = true;
        part->order_cut_short = order;
    } else if (strcmp(step->name, "naive-update") == 0 &&
               part->order_cut_short == order && order != 0) {
        stage_broke(stage, STAGE_LEDGER);
    }
}

/* A store's step: whether it may have changed the database. */
static void note_written(struct stage *stage, const struct stage_step *step)
{
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
    note_taken(stage, step);
    /* A lot of an instance has two orders at most. */
    stage->orders +=
        stage->scene.batched && strcmp(step->name, "place") == 0 ? 1 : 0;
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
            strcmp(step->reply, "(held up)") != 0) {
            stage->parts[step->actor].commands_n++;
            stage->parts[step->actor].renewals_n +=
                strcmp(step->name, "eval-renew") == 0;
        }
        stage_note_token(stage, step);
        stage_name_tokens(stage, step->sent);
        stage_name_tokens(stage, step->reply);
        stage_mark_write(stage, (unsigned)step->actor, step);
        stage_say_loss(stage, step);
    }
}

/* It could not begin: stage->error has its reason. */
static bool is_in_trouble(struct stage *stage, unsigned actor)
{
    const struct page *page = stage_page(stage, actor);

    for (unsigned i = 0; i < STAGE_ACTORS_MAX; i++)
        if (page->lanes[i].phase == PAGE_TROUBLE) {
            (void)snprintf(stage->error, sizeof(stage->error), "actor %c: %s",
                           'a' + (int)actor, page->records[0].step.reply);
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

bool stage_spawn(struct stage *stage, unsigned actor)
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
            actor_main(&stage->world, actor, &stage->scene);
        _exit(70);
    }
    if (pid < 0) {
        (void)snprintf(stage->error, sizeof(stage->error),
                       "no process for actor %c: %s", 'a' + (int)actor,
                       strerror(errno));
        return false;
    }
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

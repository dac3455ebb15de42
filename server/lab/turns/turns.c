/* See turns.h. */
#include "server/lab/turns/turns_private.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/lab/timeline/timeline.h"

bool turns_on;
unsigned turns_nodes_n = 1;

static struct board *board;
static struct page *page;
static int stop_fd;
struct thread turns_threads[PAGE_THREADS_MAX];
struct thread *const turns_end = turns_threads + PAGE_THREADS_MAX;
_Thread_local struct thread *turns_self;
static struct thread *napper;
static bool ending;
static bool is_fresh = true; /* since PAGE_END, no program has begun */
static uint64_t heard_us;    /* the clock, as it was read last */

/* A helper thread works for the actor whose move it is. */
static unsigned own_lane_n(void)
{
    return turns_self->shown->is_main ? turns_self->lane : page->lane;
}

struct page_lane *turns_own_lane(void)
{
    return &board->lanes[own_lane_n()];
}

struct page_lane *turns_lane_of(const char *owner)
{
    for (struct page_lane *each = board->lanes;
         each < board->lanes + STAGE_ACTORS_MAX; each++) {
        size_t len = strlen(each->owner);

        /* The owner of an instance is cut to what its sessions share, before a dash. */
        if (len > 0 && strncmp(owner, each->owner, len) == 0 &&
            strchr("-", owner[len]))
            return each;
    }
    return NULL;
}

unsigned turns_own_thread_n(void)
{
    return (unsigned)(turns_self - turns_threads);
}

bool turns_is_main(void)
{
    return turns_self->shown->is_main;
}

void turns_transaction(bool is_open)
{
    page->in_transaction = is_open;
}

void turns_hear(const void *bytes, size_t len)
{
    page->heard = page_hash(page->heard, bytes, len);
}

uint64_t turns_now_us(void)
{
    uint64_t us = atomic_load(&board->now_us);

    /* A time that was read before is no news: the same time twice must not make
     * another state. */
    if (us != heard_us)
        turns_hear(&us, sizeof(us));
    heard_us = us;
    return us;
}

bool turns_ending(void)
{
    return ending;
}

void turns_now_at_least(uint64_t us)
{
    if (us != PAGE_NEVER && us > atomic_load(&board->now_us))
        atomic_store(&board->now_us, us);
}

static void wait_real(sem_t *semaphore)
{
    /* A signal may end the wait early; the turn has not come then. */
    while (__real_sem_wait(semaphore) != 0)
        continue;
}

_Noreturn void turns_die(const char *what)
{
    fprintf(stderr, "stage: actor: %s\n", what);
    _exit(70);
}

/* ---- what is shown ------------------------------------------------------ */

static enum page_wait wait_of(const struct thread *thread)
{
    switch (thread->state) {
    case FREE:
    case OVER:
        return PAGE_NOTHING;
    case STEP:
        return PAGE_STEP;
    case SLEEP:
        return PAGE_SLEEP;
    case COND:
        /* A wait without an end is a wait for another thread; one with an end is a
         * move (a+). */
        return thread->shown->until_us == PAGE_NEVER ? PAGE_OTHERS : PAGE_TIMED;
    case POLL:
        /* Only at PAGE_LOOK all that was sent has come. */
        if (turns_has_socket(thread))
            return page->order == PAGE_LOOK &&
                           turns_ready_fds(thread->fds, thread->fds_n, true) > 0
                       ? PAGE_MESSAGE
                       : PAGE_SOCKET;
        /* Without a socket the thread polls a flag of its own process: by time it
         * looks again. */
        return thread->shown->until_us == PAGE_NEVER ? PAGE_OTHERS : PAGE_SLEEP;
    default:
        return PAGE_OTHERS;
    }
}

static void show(void)
{
    /* The places between threads that have ended are shown as nothing: a thread keeps
     * its place, by which the stage names it. */
    page->threads_n = 0;
    for (const struct thread *each = turns_threads; each < turns_end; each++) {
        struct page_thread *shown = each->shown;

        shown->wait = wait_of(each);
        shown->pending = shown->wait == PAGE_MESSAGE ? turns_pending(each) : 0;
        if (shown->wait != PAGE_NOTHING)
            page->threads_n = (unsigned)(each - turns_threads) + 1;
    }
}

/* ---- taking turns ------------------------------------------------------- */

/* Whether it can go on without the stage. */
static bool can_go_on(struct thread *thread)
{
    const struct thread *each = turns_threads;
    pthread_mutex_t *mutex;
    int value;

    if (thread->state == MUTEX) {
        /* Nobody else runs: what is free now is free when it gets its turn. */
        mutex = thread->what;
        /* A mutex is tried and left again: the thread itself takes it when it has
         * the turn. */
        if (pthread_mutex_trylock(mutex) != 0)
            return false;
        (void)pthread_mutex_unlock(mutex);
        return true;
    }
    if (thread->state == SEMAPHORE)
        return sem_getvalue(thread->what, &value) == 0 && value > 0;
    if (thread->state == POLL)
        /* Sockets are left out: bytes of other processes may come at any time, and only
         * the stage says when they have. */
        return turns_ready_fds(thread->fds, thread->fds_n, false) > 0;
    /* Nobody but this thread runs a program. */
    if (thread->state == LANES) {
        while (each < turns_end && (each == thread || !each->shown->is_main ||
                                    each->state == PARKED))
            each++;
        return each == turns_end;
    }
    if (thread->state == JOIN)
        return ((const struct thread *)thread->what)->state == OVER;
    /* At the end a step is let go at once, and is not done: turns_step() answers that
     * it is held up. */
    return thread->state == READY || (thread->state == STEP && ending);
}

/* At the end of a schedule no move makes time pass: the thread whose time comes first
 * has waited for it. One that waits again and again must not keep the others waiting. */
static struct thread *end_a_wait(void)
{
    struct thread *first = NULL;

    for (struct thread *each = turns_threads; each < turns_end; each++)
        if ((each->state == COND || each->state == SLEEP ||
             each->state == POLL) &&
            each->shown->until_us != PAGE_NEVER &&
            (!first || each->shown->until_us < first->shown->until_us))
            first = each;
    if (first) {
        turns_now_at_least(first->shown->until_us);
        first->timed_out = true;
    }
    return first;
}

static struct thread *next_thread(void)
{
    /* The thread with the lowest place goes on first: any order would do that is the
     * same each time. */
    for (struct thread *each = turns_threads; each < turns_end; each++)
        if (each->state != FREE && can_go_on(each))
            return each;
    /* Parked, it has let go of everything. */
    return ending && turns_threads[0].state != PARKED ? end_a_wait() : NULL;
}

/* The committer draws marks, which must never come back: its store goes by them from
 * one schedule to the next. Nothing that is seen depends on them. */
void turns_seed(struct thread *thread)
{
    /* The stream goes by the process and the thread's place. A 1 as its lowest bit keeps
     * it from 0, from which xorshift never moves. */
    thread->random =
        (page->seed + (uint64_t)(thread - turns_threads)) * 0x9E3779B97F4A7C15 |
        1;
    if (strcmp(thread->shown->name, "committer") == 0)
        thread->random ^= board->resets << 16;
}

static void obey(void)
{
    struct thread *thread = &turns_threads[page->thread];
    struct thread *parked = &turns_threads[0];

    const unsigned order[] = {page->order, page->thread, page->lane,
                              page->verdict};

    /* Naps cost no time within one move only. */
    napper = NULL;
    /* HEARD and the clock begin anew with the first actor of a schedule, and not
     * with each. */
    if (page->order == PAGE_BEGIN && is_fresh) {
        page->heard = PAGE_HASH_SEED;
        heard_us = 0;
    }
    if (page->order != PAGE_LOOK)
        turns_hear(order, sizeof(order));
    switch (page->order) {
    case PAGE_LOOK:
        return;
    case PAGE_GO:
    case PAGE_TIME:
        /* The naps of this thread are what the move ends: it is the napper until the
         * next move. */
        if (thread->state == SLEEP || thread->state == POLL)
            napper = thread;
        thread->naps = 0;
        /* A poll of no socket is a nap: when it ends, its time is up. */
        thread->timed_out =
            page->order == PAGE_TIME ||
            (thread->state == POLL && !turns_has_socket(thread));
        /* The stage lets a thread read; else bytes that came early would be read
         * by chance. */
        thread->may_read = thread->state == POLL;
        thread->verdict = page->verdict;
        thread->state = READY;
        return;
    case PAGE_END:
        /* The flag wakes waits in poll() of lock/ and db/; the steps and waits end
         * by ENDING. */
        ending = is_fresh = true;
        (void)eventfd_write(stop_fd, 1);
        break;
    case PAGE_BEGIN:
        ending = false;
        /* All threads draw anew from the start: what a schedule draws must not depend
         * on the schedules before. */
        for (unsigned i = 0; i < PAGE_THREADS_MAX && is_fresh; i++)
            turns_seed(&turns_threads[i]);
        is_fresh = false;
        parked = &turns_threads[board->lanes[page->lane].thread];
        break;
    }
    if (parked->state == PARKED)
        parked->state = READY;
}

/* The thread that goes on, when the calling one cannot, or is over. */
static struct thread *choose(void)
{
    struct thread *next;

    /* The thread that has nobody to hand the turn to waits for the stage here,
     * whichever it is; the others sleep on their own semaphores. */
    while ((next = next_thread()) == NULL) {
        show();
        (void)sem_post(&page->stopped);
        wait_real(&page->go);
        obey();
    }
    next->state = READY;
    return next;
}

void turns_block(enum state state, void *what, uint64_t until_us)
{
    struct thread *next;

    turns_self->state = state;
    turns_self->what = what;
    turns_self->shown->until_us = until_us;
    turns_self->timed_out = false;
    next = choose();
    /* The turn has come back to the thread that gave it away: its own semaphore was
     * not posted. */
    if (next == turns_self)
        return;
    (void)sem_post(&next->turn);
    wait_real(&turns_self->turn);
}

void turns_leave(void)
{
    /* Nothing of this thread may be touched behind the hand-over: who joins it frees
     * its place. */
    turns_self->state = OVER;
    (void)sem_post(&choose()->turn);
}

const struct thread *turns_napper(void)
{
    return napper;
}

void turns_begin(struct board *shared, struct page *own, int fd)
{
    board = shared;
    page = own;
    stop_fd = fd;
    for (unsigned i = 0; i < PAGE_THREADS_MAX; i++)
        turns_threads[i].shown = &page->threads[i];
    turns_self = &turns_threads[0];
    turns_self->state = READY;
    (void)sem_init(&turns_self->turn, 0, 0);
    turns_self->id = pthread_self();
    turns_on = true;
    /* The first thread exists before any other: its lane is the process's first actor. */
    turns_lane((unsigned)(own - board->pages));
}

void turns_lane(unsigned lane)
{
    turns_self->lane = lane;
    turns_self->shown->is_main = true;
    board->lanes[lane].thread = (unsigned)(turns_self - turns_threads);
}

void turns_park(enum page_phase phase)
{
    turns_own_lane()->phase = phase;
    turns_block(PARKED, NULL, PAGE_NEVER);
}

void turns_await_lanes(void)
{
    turns_block(LANES, NULL, PAGE_NEVER);
    /* PAGE_CLOSED comes for all lanes together: an actor that begins anew must not find
     * another that still ends. */
    for (const struct thread *each = turns_threads; each < turns_end; each++)
        if (each->shown->is_main)
            board->lanes[each->lane].phase = PAGE_CLOSED;
}

/* ---- records ------------------------------------------------------------ */

static struct stage_step *add_record(const struct stage_step *what)
{
    struct stage_step *step;

    /* A record that was dropped would be a step that nobody judges: so it is an end in
     * place of a loss. */
    if (page->records_n == PAGE_RECORDS_MAX)
        turns_die("too much happens in one move");
    step = &page->records[page->records_n++];
    *step = *what;
    step->actor = (signed char)own_lane_n();
    /* Asynchronous calls are the program's own. */
    if (strncmp(turns_self->shown->name, "dlock-", 6) == 0 &&
        strcmp(turns_self->shown->name, "dlock-async") != 0)
        (void)snprintf(step->who, sizeof(step->who), "%s",
                       turns_self->shown->name + 6);
    return step;
}

void turns_note(const char *format, ...)
{
    struct stage_step note = {.name = ""};
    va_list args;

    if (turns_ending())
        return;
    va_start(args, format);
    (void)vsnprintf(note.reply, sizeof(note.reply), format, args);
    va_end(args);
    (void)add_record(&note);
}

void turns_amend(const char *format, ...)
{
    struct stage_step *last =
        page->records_n > 0 ? &page->records[page->records_n - 1] : NULL;
    va_list args;

    /* A result belongs to the SQL step just told: anything else between would be
     * amended in its place. */
    if (turns_ending() || !last || !last->is_sql)
        return;
    va_start(args, format);
    (void)vsnprintf(last->reply, sizeof(last->reply), format, args);
    va_end(args);
    turns_hear(last->reply, strlen(last->reply) + 1);
}

/* ---- steps -------------------------------------------------------------- */

void turns_put_words(struct page_thread *step, const char *const words[],
                     size_t n, size_t parts_n)
{
    size_t used = 0;

    timeline_tell_words(words, n, parts_n, step->step.sent,
                        sizeof(step->step.sent));
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(words[i]) + 1;

        assert(used + len <= sizeof(step->words));
        memcpy(step->words + used, words[i], len);
        used += len;
        step->words_n++;
        /* Parts of one word are written over each other's end: they become one. */
        if (i > 0 && i < parts_n) { /* the next one goes on with it */
            used--;
            step->words_n--;
        }
    }
}

static void tell(const struct stage_step *open, const char *reply)
{
    struct stage_step *step = add_record(open);

    /* Among several servers a line says which one, in place of who asked. */
    if (turns_nodes_n > 1 && !step->is_sql)
        (void)snprintf(step->who, sizeof(step->who), "server %u",
                       step->node + 1);
    (void)snprintf(step->reply, sizeof(step->reply), "%s", reply);
}

/* Several servers are asked at once: the next before the last has answered. */
enum page_verdict turns_step(const struct page_thread *shown)
{
    struct page_thread *own = turns_self->shown;
    unsigned node = shown->step.node;

    if (turns_ending()) { /* who tries again at once would do so for ever */
        turns_now_at_least(turns_now_us() + 1000);
        return PAGE_HOLD;
    }
    /* An earlier command's reply was not awaited: its line says so now, and its reply
     * has a line of its own. */
    if (turns_self->open_n > 0)
        tell(&turns_self->open[own->step.node], "(sent)");
    /* Only the members of a step are copied: the others say how the thread waits. */
    memcpy(&own->step, &shown->step,
           sizeof(*own) - offsetof(struct page_thread, step));
    turns_block(STEP, NULL, PAGE_NEVER);
    /* The wait may have ended with the schedule in place of a move. */
    if (turns_ending())
        return PAGE_HOLD;
    turns_self->open_n++;
    turns_self->open[node] = own->step;
    turns_self->verdicts[node] = turns_self->verdict;
    return turns_self->verdict;
}

void turns_came_along(const struct stage_step *step, const char *reply)
{
    if (turns_ending())
        return;
    turns_hear(reply, strlen(reply) + 1);
    tell(step, reply);
}

void turns_step_aside(bool begins)
{
    turns_self->open_n += begins ? 1u : -1u;
}

enum page_verdict turns_stepped(unsigned node, const char *reply)
{
    /* An open step may have been forgotten by a sleep in poll() (wraps.c). */
    if (turns_self->open_n > 0)
        turns_self->open_n--;
    if (turns_ending())
        return PAGE_OK;
    turns_hear(reply, strlen(reply) + 1);
    tell(&turns_self->open[node], reply);
    return turns_self->verdicts[node];
}

/* See turns.h. */
#include "server/lab/stage/turns.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/lab/stage/real.h"

enum { THREADS_MAX = PAGE_THREADS_MAX, NEVER_MS = 3600000 };

enum state {
    FREE,   /* nobody has this place */
    READY,  /* it runs, or can */
    PARKED, /* between two orders */
    STEP,
    MUTEX,
    COND,
    SEMAPHORE,
    JOIN,
    SLEEP,
    POLL,
    OVER, /* it has returned, and was not joined */
};

struct thread {
    enum state state;
    sem_t turn;
    pthread_t id;
    void *(*run)(void *);
    void *arg;
    const void *what; /* that it waits for */
    uint64_t until_us;
    uint64_t ticket; /* of COND: who came first is woken first */
    struct pollfd *fds;
    nfds_t fds_n;
    bool timed_out, in_step, may_read;
    enum page_verdict verdict;
    struct page_thread shown; /* of STEP */
    uint64_t random;
    char name[16];
};

bool turns_on;

static struct board *board;
static struct page *page;
static int stop_fd;
static struct thread threads[THREADS_MAX];
static _Thread_local struct thread *self;
static struct thread *napper; /* whose naps pass within this move */
static uint64_t tickets;
static bool ending;

struct page *turns_page(void)
{
    return page;
}

uint64_t turns_now_us(void)
{
    return atomic_load(&board->now_us);
}

bool turns_ending(void)
{
    return ending;
}

static void now_at_least(uint64_t us)
{
    if (us != PAGE_NEVER && us > turns_now_us())
        atomic_store(&board->now_us, us);
}

static void wait_real(sem_t *semaphore)
{
    while (__real_sem_wait(semaphore) != 0)
        continue;
}

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "stage: actor: %s\n", what);
    _exit(70);
}

/* ---- what is shown ------------------------------------------------------ */

static bool is_socket(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* Of FDS, those that are sockets, or those that are not: how many are ready. */
static int ready_fds(struct pollfd fds[], nfds_t n, bool sockets)
{
    int ready = 0;

    for (nfds_t i = 0; i < n; i++) {
        fds[i].revents = 0;
        if (fds[i].fd >= 0 && is_socket(fds[i].fd) == sockets)
            ready += __real_poll(&fds[i], 1, 0) > 0;
    }
    return ready;
}

static bool has_socket(const struct thread *thread)
{
    for (nfds_t i = 0; i < thread->fds_n; i++)
        if (is_socket(thread->fds[i].fd))
            return true;
    return false;
}

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
        return thread->until_us == PAGE_NEVER ? PAGE_OTHERS : PAGE_TIMED;
    case POLL:
        /* Before the stage says so, what is to come may still be on its way. */
        if (has_socket(thread))
            return page->order == PAGE_LOOK &&
                           ready_fds(thread->fds, thread->fds_n, true) > 0
                       ? PAGE_MESSAGE
                       : PAGE_SOCKET;
        return thread->until_us == PAGE_NEVER ? PAGE_OTHERS : PAGE_SLEEP;
    default:
        return PAGE_OTHERS;
    }
}

static void show(void)
{
    page->threads_n = 0;
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        struct page_thread *shown = &page->threads[i];

        if (threads[i].state == STEP)
            *shown = threads[i].shown;
        shown->wait = wait_of(&threads[i]);
        shown->until_us = threads[i].until_us;
        memcpy(shown->name, threads[i].name, sizeof(shown->name));
        if (shown->wait != PAGE_NOTHING)
            page->threads_n = i + 1;
    }
}

static struct page_record *new_record(void)
{
    struct page_record *record = &page->records[page->records_n];

    if (page->records_n == PAGE_RECORDS_MAX)
        die("too much happens in one move");
    page->records_n++;
    *record = (struct page_record){.step = ""};
    if (strncmp(self->name, "dlock-", 6) == 0)
        (void)snprintf(record->who, sizeof(record->who), "%s", self->name + 6);
    return record;
}

void turns_note(const char *format, ...)
{
    va_list args;

    if (ending)
        return;
    va_start(args, format);
    (void)vsnprintf(new_record()->reply, sizeof(page->records[0].reply), format,
                    args);
    va_end(args);
}

void turns_amend(const char *format, ...)
{
    struct page_record *last =
        page->records_n > 0 ? &page->records[page->records_n - 1] : NULL;
    va_list args;

    if (ending || !last || !last->is_sql)
        return;
    va_start(args, format);
    (void)vsnprintf(last->reply, sizeof(last->reply), format, args);
    va_end(args);
}

/* ---- taking turns ------------------------------------------------------- */

/* Whether it can go on without the stage. */
static bool can_go_on(struct thread *thread)
{
    pthread_mutex_t *mutex;

    if (thread->state == MUTEX) {
        /* Nobody else runs: what is free now is free when it gets its turn. */
        mutex = (pthread_mutex_t *)(uintptr_t)thread->what;
        if (pthread_mutex_trylock(mutex) != 0)
            return false;
        (void)pthread_mutex_unlock(mutex);
        return true;
    }
    if (thread->state == POLL)
        return ready_fds(thread->fds, thread->fds_n, false) > 0;
    if (thread->state == JOIN)
        return ((const struct thread *)thread->what)->state == OVER;
    return thread->state == READY || (thread->state == STEP && ending);
}

/* While the order is let go of, time passes as it likes: the first in line, since
 * that is the one which has the order. */
static struct thread *end_a_wait(void)
{
    for (struct thread *each = threads; each < threads + THREADS_MAX; each++)
        if ((each->state == COND || each->state == SLEEP ||
             each->state == POLL) &&
            each->until_us != PAGE_NEVER) {
            now_at_least(each->until_us);
            each->timed_out = true;
            return each;
        }
    return NULL;
}

static struct thread *next_thread(void)
{
    for (struct thread *each = threads; each < threads + THREADS_MAX; each++)
        if (each->state != FREE && can_go_on(each))
            return each;
    /* Parked, it has let go of everything. */
    return ending && threads[0].state != PARKED ? end_a_wait() : NULL;
}

/* Never 0, and another one for each thread of each actor. */
static void seed_thread(struct thread *thread)
{
    thread->random =
        (page->seed + (uint64_t)(thread - threads)) * 0x9E3779B97F4A7C15 | 1;
}

static void obey(void)
{
    struct thread *thread = &threads[page->thread];

    napper = NULL;
    switch (page->order) {
    case PAGE_LOOK:
        return;
    case PAGE_GO:
    case PAGE_TIME:
        if (thread->state == SLEEP || thread->state == POLL)
            napper = thread;
        thread->timed_out = page->order == PAGE_TIME ||
                            (thread->state == POLL && !has_socket(thread));
        thread->may_read = thread->state == POLL;
        thread->verdict = page->verdict;
        thread->state = READY;
        return;
    case PAGE_END:
        ending = true;
        (void)eventfd_write(stop_fd, 1);
        break;
    case PAGE_BEGIN:
        ending = false;
        for (unsigned i = 0; i < THREADS_MAX; i++)
            seed_thread(&threads[i]);
        break;
    }
    if (threads[0].state == PARKED)
        threads[0].state = READY;
}

/* Who goes on, when the calling thread cannot, or is over. */
static struct thread *choose(void)
{
    struct thread *next;

    while ((next = next_thread()) == NULL) {
        show();
        (void)__real_sem_post(&page->stopped);
        wait_real(&page->go);
        obey();
    }
    next->state = READY;
    return next;
}

static void block(enum state state, const void *what, uint64_t until_us)
{
    struct thread *next;

    self->state = state;
    self->what = what;
    self->until_us = until_us;
    self->timed_out = false;
    next = choose();
    if (next == self)
        return;
    (void)__real_sem_post(&next->turn);
    wait_real(&self->turn);
}

void turns_begin(struct board *shared, struct page *own, int fd)
{
    board = shared;
    page = own;
    stop_fd = fd;
    self = &threads[0];
    self->state = READY;
    (void)sem_init(&self->turn, 0, 0);
    self->id = pthread_self();
    turns_on = true;
}

void turns_park(enum page_phase phase)
{
    page->phase = phase;
    block(PARKED, NULL, PAGE_NEVER);
}

/* ---- steps -------------------------------------------------------------- */

enum page_verdict turns_step(const struct page_thread *step)
{
    if (ending)
        return PAGE_HOLD;
    self->shown = *step;
    block(STEP, NULL, PAGE_NEVER);
    if (ending)
        return PAGE_HOLD;
    self->in_step = true;
    return self->verdict;
}

/* A command as people write it: without the text of a script. */
static void tell_sent(const struct page_thread *step, char text[], size_t size)
{
    const char *word = step->words;
    size_t used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < step->words_n; i++) {
        if (i == 0 && strcmp(word, "EVAL") == 0)
            (void)snprintf(text, size, "script");
        else if (i != 1 || strncmp(text, "script", 6) != 0)
            (void)snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "",
                           word);
        used = strlen(text);
        word += strlen(word) + 1;
    }
}

enum page_verdict turns_stepped(const char *reply)
{
    struct page_record *record;

    self->in_step = false;
    if (ending)
        return PAGE_OK;
    record = new_record();
    memcpy(record->step, self->shown.step, sizeof(record->step));
    record->is_sql = self->shown.is_sql;
    tell_sent(&self->shown, record->sent, sizeof(record->sent));
    (void)snprintf(record->reply, sizeof(record->reply), "%s", reply);
    return self->verdict;
}

bool turns_in_step(void)
{
    return self->in_step;
}

bool turns_may_read(void)
{
    return self->may_read;
}

/* ---- threads ------------------------------------------------------------ */

static void *run_thread(void *arg)
{
    struct thread *next;
    void *result;

    self = arg;
    wait_real(&self->turn);
    result = self->run(self->arg);
    self->state = OVER;
    next = choose();
    (void)__real_sem_post(&next->turn);
    return result;
}

int turns_thread_create(pthread_t *id, const pthread_attr_t *attr,
                        void *(*run)(void *), void *arg)
{
    struct thread *thread = threads;
    int status;

    while (thread < threads + THREADS_MAX && thread->state != FREE)
        thread++;
    if (thread == threads + THREADS_MAX)
        die("too many threads");
    *thread = (struct thread){.state = READY, .run = run, .arg = arg};
    seed_thread(thread);
    (void)sem_init(&thread->turn, 0, 0);
    status = __real_pthread_create(&thread->id, attr, run_thread, thread);
    if (status != 0)
        thread->state = FREE;
    else
        *id = thread->id;
    return status;
}

static struct thread *find_thread(pthread_t id)
{
    for (struct thread *each = threads; each < threads + THREADS_MAX; each++)
        if (each->state != FREE && pthread_equal(each->id, id))
            return each;
    die("a thread that nobody knows");
}

void turns_thread_name(pthread_t id, const char *name)
{
    struct thread *thread = find_thread(id);

    (void)snprintf(thread->name, sizeof(thread->name), "%s", name);
}

void turns_thread_join(pthread_t id)
{
    struct thread *thread = find_thread(id);

    while (thread->state != OVER)
        block(JOIN, thread, PAGE_NEVER);
    (void)__real_pthread_join(id, NULL);
    (void)sem_destroy(&thread->turn);
    *thread = (struct thread){.state = FREE};
}

/* ---- waiting for each other --------------------------------------------- */

void turns_mutex_lock(pthread_mutex_t *mutex)
{
    while (pthread_mutex_trylock(mutex) != 0)
        block(MUTEX, mutex, PAGE_NEVER);
}

bool turns_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                     uint64_t until_us)
{
    bool timed_out;

    if (until_us != PAGE_NEVER &&
        until_us >= turns_now_us() + NEVER_MS * UINT64_C(1000))
        until_us = PAGE_NEVER;
    self->ticket = ++tickets;
    (void)pthread_mutex_unlock(mutex);
    block(COND, cond, until_us);
    timed_out = self->timed_out;
    turns_mutex_lock(mutex);
    return !timed_out;
}

void turns_cond_wake(pthread_cond_t *cond, bool all)
{
    struct thread *first = NULL;

    for (struct thread *each = threads; each < threads + THREADS_MAX; each++) {
        if (each->state != COND || each->what != cond)
            continue;
        if (all)
            each->state = READY;
        else if (!first || each->ticket < first->ticket)
            first = each;
    }
    if (first)
        first->state = READY;
}

void turns_sem_wait(sem_t *semaphore)
{
    while (sem_trywait(semaphore) != 0)
        block(SEMAPHORE, semaphore, PAGE_NEVER);
}

void turns_sem_posted(sem_t *semaphore)
{
    for (struct thread *each = threads; each < threads + THREADS_MAX; each++)
        if (each->state == SEMAPHORE && each->what == semaphore)
            each->state = READY;
}

/* ---- waiting for time, and for others ----------------------------------- */

/* A nap that a move has ended is over for good: what is left of it passes. Naps
 * are short, and take no time; or how often somebody has looked would make a
 * difference to what the clock says when others do something. */
void turns_sleep(uint64_t us)
{
    if (ending)
        now_at_least(turns_now_us() + us);
    else if (self != napper)
        block(SLEEP, NULL, turns_now_us() + us);
}

/* xorshift64 */
void turns_random(void *bytes, size_t size)
{
    unsigned char *next = bytes;

    for (size_t i = 0; i < size; i++) {
        self->random ^= self->random << 13;
        self->random ^= self->random >> 7;
        self->random ^= self->random << 17;
        next[i] = (unsigned char)(self->random >> 24);
    }
}

int turns_poll(struct pollfd fds[], nfds_t n, int timeout_ms)
{
    int ready = ready_fds(fds, n, false);

    self->in_step = self->may_read = false;
    if (ready > 0 || timeout_ms == 0)
        return ready;
    self->fds = fds;
    self->fds_n = n;
    block(POLL, NULL,
          timeout_ms < 0 ? PAGE_NEVER
                         : turns_now_us() + (uint64_t)timeout_ms * 1000);
    if (self->may_read && has_socket(self))
        return __real_poll(fds, n, 0);
    return self->timed_out ? 0 : ready_fds(fds, n, false);
}

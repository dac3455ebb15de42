/* See turns.h: the threads of an actor, and what each may wait for. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "server/lab/stage/real.h"
#include "server/lab/stage/turns_private.h"

enum {
    NEVER_MS = 3600000, /* a wait of that length has no end */
    NAPS_MAX = 100,     /* that take no time, in one move */
};

/* ---- threads ------------------------------------------------------------ */

static void *run_thread(void *arg)
{
    void *result;

    turns_self = arg;
    while (__real_sem_wait(&turns_self->turn) != 0)
        continue;
    result = turns_self->run(turns_self->arg);
    turns_leave();
    return result;
}

int turns_thread_create(pthread_t *id, const pthread_attr_t *attr,
                        void *(*run)(void *), void *arg)
{
    struct thread *thread = turns_threads;
    int status;

    while (thread < turns_threads + THREADS_MAX && thread->state != FREE)
        thread++;
    if (thread == turns_threads + THREADS_MAX)
        turns_die("too many threads");
    *thread = (struct thread){
        .state = READY, .lane = turns_self->lane, .run = run, .arg = arg};
    turns_seed(thread);
    (void)sem_init(&thread->turn, 0, 0);
    status = __real_pthread_create(&thread->id, attr, run_thread, thread);
    if (status != 0)
        thread->state = FREE;
    else
        *id = thread->id;
    return status;
}

static uint64_t tickets; /* of those that wait for a condition */

static struct thread *find_thread(pthread_t id)
{
    for (struct thread *each = turns_threads;
         each < turns_threads + THREADS_MAX; each++)
        if (each->state != FREE && pthread_equal(each->id, id))
            return each;
    turns_die("a thread that nobody knows");
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
        turns_block(JOIN, thread, PAGE_NEVER);
    (void)__real_pthread_join(id, NULL);
    (void)sem_destroy(&thread->turn);
    *thread = (struct thread){.state = FREE};
}

/* ---- waiting for each other --------------------------------------------- */

void turns_mutex_lock(pthread_mutex_t *mutex)
{
    while (pthread_mutex_trylock(mutex) != 0)
        turns_block(MUTEX, mutex, PAGE_NEVER);
}

int turns_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                    uint64_t until_us)
{
    bool timed_out;

    if (until_us != PAGE_NEVER &&
        until_us >= turns_now_us() + NEVER_MS * UINT64_C(1000))
        until_us = PAGE_NEVER;
    turns_self->ticket = ++tickets;
    (void)pthread_mutex_unlock(mutex);
    turns_block(COND, cond, until_us);
    timed_out = turns_self->timed_out;
    turns_mutex_lock(mutex);
    return timed_out ? ETIMEDOUT : 0;
}

void turns_cond_wake(pthread_cond_t *cond, bool all)
{
    struct thread *first = NULL;

    for (struct thread *each = turns_threads;
         each < turns_threads + THREADS_MAX; each++) {
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
        turns_block(SEMAPHORE, semaphore, PAGE_NEVER);
}

void turns_sem_posted(sem_t *semaphore)
{
    for (struct thread *each = turns_threads;
         each < turns_threads + THREADS_MAX; each++)
        if (each->state == SEMAPHORE && each->what == semaphore)
            each->state = READY;
}

/* ---- waiting for time, and for others ----------------------------------- */

/* A thread whose nap a move has ended naps no more in this move, and its naps take
 * no time: else the clock would depend on how often it has looked. But one that naps
 * again and again waits for another actor, as SQLite does for a transaction: for
 * that one time passes, so that it gives up. */
void turns_sleep(uint64_t us)
{
    if (turns_ending() ||
        (turns_self == turns_napper() && ++turns_self->naps > NAPS_MAX))
        turns_now_at_least(turns_now_us() + us);
    else if (turns_self != turns_napper())
        turns_block(SLEEP, NULL, turns_now_us() + us);
}

/* xorshift64 */
void turns_random(void *bytes, size_t size)
{
    unsigned char *next = bytes;

    for (size_t i = 0; i < size; i++) {
        turns_self->random ^= turns_self->random << 13;
        turns_self->random ^= turns_self->random >> 7;
        turns_self->random ^= turns_self->random << 17;
        next[i] = (unsigned char)(turns_self->random >> 24);
    }
}

static bool is_socket(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int turns_ready_fds(struct pollfd fds[], nfds_t n, bool sockets)
{
    int ready = 0;

    for (nfds_t i = 0; i < n; i++) {
        fds[i].revents = 0;
        if (fds[i].fd >= 0 && is_socket(fds[i].fd) == sockets)
            ready += __real_poll(&fds[i], 1, 0) > 0;
    }
    return ready;
}

bool turns_has_socket(const struct thread *thread)
{
    for (nfds_t i = 0; i < thread->fds_n; i++)
        if (is_socket(thread->fds[i].fd))
            return true;
    return false;
}

uint64_t turns_pending(const struct thread *thread)
{
    uint64_t hash = PAGE_HASH_SEED;
    char bytes[4096];

    for (nfds_t i = 0; i < thread->fds_n; i++) {
        ssize_t n = is_socket(thread->fds[i].fd)
                        ? __real_recv(thread->fds[i].fd, bytes, sizeof(bytes),
                                      MSG_PEEK | MSG_DONTWAIT)
                        : 0;

        if (n > 0)
            hash = page_hash(hash, bytes, (size_t)n);
    }
    return hash;
}

int turns_poll(struct pollfd fds[], nfds_t n, int timeout_ms)
{
    int ready = turns_ready_fds(fds, n, false);

    turns_self->may_read = false;
    turns_self->open_n = 0;
    if (ready > 0 || timeout_ms == 0)
        return ready;
    turns_self->fds = fds;
    turns_self->fds_n = n;
    turns_block(POLL, NULL,
                timeout_ms < 0 ? PAGE_NEVER
                               : turns_now_us() + (uint64_t)timeout_ms * 1000);
    if (turns_self->may_read && turns_has_socket(turns_self))
        return __real_poll(fds, n, 0);
    return turns_self->timed_out ? 0 : turns_ready_fds(fds, n, false);
}

/*
 * The calls that block a thread, tell the time or give random bytes, as the linker
 * hands them to us (--wrap, see the Makefile): an actor's wait here for their turn, all
 * others go to the C library. Nothing of lock/, db/ or server/ knows. See turns.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "server/lab/turns/turns_private.h"

enum {
    REPLY_MS_MAX = 30000, /* a redis-server that takes longer is broken */
    NEVER_MS = 3600000,   /* a wait of that length has no end */
    NAPS_MAX = 100,       /* that take no time, in one move */
};

static uint64_t us_of(const struct timespec *at)
{
    return (uint64_t)at->tv_sec * 1000000 + (uint64_t)at->tv_nsec / 1000;
}

/* ---- threads ------------------------------------------------------------ */

static void *run_thread(void *arg)
{
    void *result;

    turns_self = arg;
    /* A thread begins in its creator's move, but runs only when it has the turn. */
    while (__real_sem_wait(&turns_self->turn) != 0)
        continue;
    result = turns_self->run(turns_self->arg);
    turns_leave();
    return result;
}

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg)
{
    struct thread *thread = turns_threads;
    int status;

    if (!turns_on)
        return __real_pthread_create(id, attr, run, arg);
    /* The lowest free place: a schedule gives each thread the same one. */
    while (thread < turns_end && thread->state != FREE)
        thread++;
    if (thread == turns_end)
        turns_die("too many threads");
    /* The place in the page outlives its threads; a helper belongs to the actor that
     * began it. */
    *thread = (struct thread){.state = READY,
                              .shown = thread->shown,
                              .lane = turns_self->lane,
                              .run = run,
                              .arg = arg};
    turns_seed(thread);
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
    for (struct thread *each = turns_threads; each < turns_end; each++)
        if (each->state != FREE && pthread_equal(each->id, id))
            return each;
    turns_die("a thread that nobody knows");
}

int __wrap_pthread_setname_np(pthread_t id, const char *name)
{
    struct thread *thread = turns_on ? find_thread(id) : NULL;

    if (thread)
        (void)snprintf(thread->shown->name, sizeof(thread->shown->name), "%s",
                       name);
    return __real_pthread_setname_np(id, name);
}

int __wrap_pthread_join(pthread_t id, void **result)
{
    struct thread *thread = turns_on ? find_thread(id) : NULL;
    int status;

    /* A thread that nobody joins keeps its place, OVER: only a join frees it. */
    while (thread && thread->state != OVER)
        turns_block(JOIN, thread, PAGE_NEVER);
    /* The thread has left its turn: this returns when the kernel has ended it, and
     * waits for nobody's turn. */
    status = __real_pthread_join(id, result);
    if (thread) {
        (void)sem_destroy(&thread->turn);
        thread->state = FREE;
        *thread->shown = (struct page_thread){.wait = PAGE_NOTHING};
    }
    return status;
}

/* ---- waiting for each other --------------------------------------------- */

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!turns_on)
        return __real_pthread_mutex_lock(mutex);
    /* The first trylock that fails gives the turn away; another thread may have the
     * mutex again by the time it comes back, so it tries until it has it. */
    while (pthread_mutex_trylock(mutex) != 0)
        turns_block(MUTEX, mutex, PAGE_NEVER);
    return 0;
}

static int wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex,
                    uint64_t until_us)
{
    static uint64_t tickets;
    bool timed_out;

    /* A wait of hours stands for one without an end: as a move it would carry the clock
     * beyond all leases. */
    if (until_us != PAGE_NEVER &&
        until_us >= turns_now_us() + NEVER_MS * UINT64_C(1000))
        until_us = PAGE_NEVER;
    /* The ticket is the place in the queue: the C library promises none, and the same
     * schedule needs one. */
    turns_self->ticket = ++tickets;
    /* Nobody else runs between the unlock and the block: no signal can be missed. */
    (void)pthread_mutex_unlock(mutex);
    turns_block(COND, cond, until_us);
    timed_out = turns_self->timed_out;
    (void)__wrap_pthread_mutex_lock(mutex);
    return timed_out ? ETIMEDOUT : 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    return turns_on ? wait_for(cond, mutex, PAGE_NEVER)
                    : __real_pthread_cond_wait(cond, mutex);
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  clockid_t id, const struct timespec *until)
{
    return turns_on ? wait_for(cond, mutex, us_of(until))
                    : __real_pthread_cond_clockwait(cond, mutex, id, until);
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    struct thread *first = NULL;

    if (!turns_on)
        return __real_pthread_cond_signal(cond);
    for (struct thread *each = turns_threads; each < turns_end; each++)
        if (each->state == COND && each->what == cond &&
            (!first || each->ticket < first->ticket))
            first = each;
    /* A signal to nobody is lost, as it is by POSIX. */
    if (first)
        first->state = READY;
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    if (!turns_on)
        return __real_pthread_cond_broadcast(cond);
    for (struct thread *each = turns_threads; each < turns_end; each++)
        if (each->state == COND && each->what == cond)
            each->state = READY;
    return 0;
}

int __wrap_sem_wait(sem_t *semaphore)
{
    if (!turns_on)
        return __real_sem_wait(semaphore);
    while (sem_trywait(semaphore) != 0)
        turns_block(SEMAPHORE, semaphore, PAGE_NEVER);
    return 0;
}

/* ---- time and chance ---------------------------------------------------- */

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    uint64_t us;

    if (!turns_on)
        return __real_clock_gettime(id, now);
    us = turns_now_us();
    now->tv_sec = (time_t)(us / 1000000);
    now->tv_nsec = (long)(us % 1000000) * 1000;
    return 0;
}

/* A thread whose nap a move has ended naps no more in this move, and its naps take
 * no time: else the clock would depend on how often it has looked. But one that naps
 * again and again waits for another actor, as SQLite does for a transaction: for
 * that one time passes, so that it gives up. */
int __wrap_nanosleep(const struct timespec *nap, struct timespec *left)
{
    if (!turns_on)
        return __real_nanosleep(nap, left);
    if (turns_ending() ||
        (turns_self == turns_napper() && ++turns_self->naps > NAPS_MAX))
        /* The schedule ends, or somebody naps without an end: the clock moves in place
         * of the thread. */
        turns_now_at_least(turns_now_us() + us_of(nap));
    else if (turns_self != turns_napper())
        turns_block(SLEEP, NULL, turns_now_us() + us_of(nap));
    return 0;
}

int __wrap_clock_nanosleep(clockid_t id, int flags, const struct timespec *nap,
                           struct timespec *left)
{
    /* An absolute sleep would block the turn in real time: nothing that is linked in
     * has one. */
    return turns_on && flags == 0
               ? __wrap_nanosleep(nap, left)
               : __real_clock_nanosleep(id, flags, nap, left);
}

/* xorshift64, from a stream of the thread's own, the same with every PAGE_BEGIN. */
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    unsigned char *next = bytes;

    if (!turns_on)
        return __real_getrandom(bytes, size, flags);
    for (size_t i = 0; i < size; i++) {
        turns_self->random ^= turns_self->random << 13;
        turns_self->random ^= turns_self->random >> 7;
        turns_self->random ^= turns_self->random << 17;
        next[i] = (unsigned char)(turns_self->random >> 24);
    }
    return (ssize_t)size;
}

/* ---- sockets ------------------------------------------------------------ */

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
        /* Flags are this process's own, and exact at any time; sockets are not: so they
         * are asked apart. */
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
        /* Bytes are looked at and left: a hash of them tells two messages apart that
         * wait to be read. */
        ssize_t n = is_socket(thread->fds[i].fd)
                        ? __real_recv(thread->fds[i].fd, bytes, sizeof(bytes),
                                      MSG_PEEK | MSG_DONTWAIT)
                        : 0;

        if (n > 0)
            hash = page_hash(hash, bytes, (size_t)n);
    }
    return hash;
}

static int wait_for_fds(struct pollfd fds[], nfds_t n, int timeout_ms)
{
    int ready = turns_ready_fds(fds, n, false);

    /* A sleep in poll() means that no reply is waited for any more. */
    turns_self->may_read = false;
    turns_self->open_n = 0;
    if (ready > 0 || timeout_ms == 0)
        return ready;
    turns_self->fds = fds;
    turns_self->fds_n = n;
    turns_block(POLL, NULL,
                timeout_ms < 0 ? PAGE_NEVER
                               : turns_now_us() + (uint64_t)timeout_ms * 1000);
    /* The stage has said that something came: the real call fills in the events. */
    if (turns_self->may_read && turns_has_socket(turns_self))
        return __real_poll(fds, n, 0);
    return turns_self->timed_out ? 0 : turns_ready_fds(fds, n, false);
}

/* A thread in the middle of a step waits for what is sure to come: its server's reply, or
 * those of several servers. But a subscriber does not wait for answers: it sleeps until
 * something comes. */
int __wrap_poll(struct pollfd fds[], nfds_t n, int timeout_ms)
{
    if (!turns_on)
        return __real_poll(fds, n, timeout_ms);
    /* The reply is sure to come, by real time: to give the turn away here would make a
     * state of a moment in which the server is at work. */
    if (turns_self->open_n > 0 && n == 1)
        return __real_poll(fds, n, timeout_ms == 0 ? 0 : REPLY_MS_MAX);
    if (turns_self->open_n > 0 &&
        strcmp(turns_self->shown->name, "dlock-wakeup") != 0) {
        /* Each of the servers answers for itself: all replies must be in before any is
         * read, or their order would be chance. */
        for (nfds_t i = 0; i < n; i++)
            if (fds[i].fd >= 0)
                (void)__real_poll(&fds[i], 1, REPLY_MS_MAX);
        return __real_poll(fds, n, 0);
    }
    /* A look whether something is there must not see bytes that the stage has not
     * let in. */
    if (n == 1 && timeout_ms == 0)
        return turns_self->may_read ? __real_poll(fds, n, 0) : 0;
    return wait_for_fds(fds, n, timeout_ms);
}

/* In the middle of a step a thread reads its reply; else the stage must have said that it
 * may read. */
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
    ssize_t got;

    /* A peek reads nothing: it is for hashes and for a look whether a connection
     * still stands. */
    if (!turns_on || (flags & MSG_PEEK))
        return __real_recv(fd, bytes, size, flags);
    if (turns_self->open_n > 0) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};

        (void)__real_poll(&poller, 1, REPLY_MS_MAX);
    } else if (!turns_self->may_read) {
        /* An empty socket says so as well: bytes that came early stay where they are. */
        errno = EAGAIN;
        return -1;
    }
    /* The bytes are there or never will be: no read may block the turn. */
    got = __real_recv(fd, bytes, size, flags | MSG_DONTWAIT);
    /* The reply of a step is heard as its text: a server that does not know a script
     * yet answers twice. */
    if (got > 0 && turns_self->open_n == 0)
        turns_hear(bytes, (size_t)got);
    return got;
}

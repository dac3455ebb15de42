/* The files of the turns share this: turns.c says which thread goes on, and has its
 * steps; wraps.c has what a thread may wait for. */
#ifndef STAGE_TURNS_PRIVATE_H
#define STAGE_TURNS_PRIVATE_H

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

#include "server/lab/turns/turns.h"

/* The C library's, all in wraps.c. */
WRAPPED(pthread_create);
WRAPPED(pthread_setname_np);
WRAPPED(pthread_join);
WRAPPED(pthread_mutex_lock);
WRAPPED(pthread_cond_wait);
WRAPPED(pthread_cond_clockwait);
WRAPPED(pthread_cond_signal);
WRAPPED(pthread_cond_broadcast);
WRAPPED(sem_wait);
WRAPPED(clock_gettime);
WRAPPED(nanosleep);
WRAPPED(clock_nanosleep);
WRAPPED(getrandom);
WRAPPED(poll);
WRAPPED(recv);

enum state {
    FREE,   /* nobody has this place */
    READY,  /* it runs, or can */
    PARKED, /* between two programs */
    LANES,  /* until all others that run programs are parked */
    STEP,   /* until the stage lets its step go */
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
    unsigned lane;
    struct page_thread *shown; /* its place in the page */
    sem_t turn;
    pthread_t id;
    void *(*run)(void *);
    void *arg;
    void *what;      /* that it waits for */
    uint64_t ticket; /* of COND: who came first is woken first */
    uint64_t random;
    struct pollfd *fds;
    nfds_t fds_n;
    bool timed_out, may_read;
    unsigned naps;   /* in this move */
    unsigned open_n; /* steps that were let go, and not answered yet */
    enum page_verdict verdict; /* of the step that was let go last */
    struct stage_step open[STAGE_NODES_MAX];     /* those steps, by servers */
    enum page_verdict verdicts[STAGE_NODES_MAX]; /* of OPEN */
};

extern struct thread turns_threads[PAGE_THREADS_MAX], *const turns_end;
extern _Thread_local struct thread *turns_self;

/* The actor cannot go on: a bug of the stage's. */
_Noreturn void turns_die(const char *what);

/* Lets others go on until what the calling thread waits for has come: WHAT, of this
 * kind, or the time UNTIL_US, by the virtual clock. */
void turns_block(enum state state, void *what, uint64_t until_us);

/* The calling thread is about to end: another one goes on. */
void turns_leave(void);

/* Never 0, and another one for each thread of each actor. */
void turns_seed(struct thread *thread);

/* Sets the virtual clock to US, if it is not there yet. */
void turns_now_at_least(uint64_t us);

/* The thread whose naps take no time in this move; NULL: none. */
const struct thread *turns_napper(void);

/* How many of FDS are ready, of those that are sockets or of those that are not.
 * Sets their revents. */
int turns_ready_fds(struct pollfd fds[], nfds_t n, bool sockets);
bool turns_has_socket(const struct thread *thread);

/* A hash of all that has come on its sockets, and was not read. */
uint64_t turns_pending(const struct thread *thread);

#endif

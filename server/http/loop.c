/*
 * Waiting is not left to libmicrohttpd: its own threads want connections to be
 * suspended and resumed, one system call or two each time, which is more than
 * all else that it does for an order. In a loop of ours a connection that waits
 * just stays among those that are ready; the handler says in each pass that it
 * has nothing yet. That is some ten nanoseconds, but it makes libmicrohttpd
 * believe that there is always something to do: when it may sleep, the loop
 * has to know by itself. Hence the counting of what has begun.
 *
 * What is not counted, because libmicrohttpd tells nobody, are heads that come
 * in many pieces and its own refusals. While others wait, a look every now and
 * then helps these on.
 */
#include "server/http/loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/http/mhd.h"
#include "server/http/park.h"
#include "server/order/order.h"

#define LOOP_LOOK_MS 5

struct loop {
    struct http *http;
    struct mhd *mhd;
    pthread_t thread;
    int wait_fd;                         /* an epoll of mhd_fd() and the bell */
    int bell_fd;                         /* an eventfd */
    struct ticket *orders, **orders_end; /* in this pass */
    uint64_t pass;                       /* from 1 */
    unsigned begun;                      /* in this pass, and not done */
    unsigned expected;                   /* letters */

    /* Others write these: they get a cache line of their own. */
    _Alignas(64) _Atomic(struct loop_letter *) box; /* the last one first */
    atomic_bool asleep;
    atomic_bool stopping;
};

struct http *loop_http(const struct loop *loop)
{
    return loop->http;
}

struct mhd *loop_mhd(const struct loop *loop)
{
    return loop->mhd;
}

/* ---- letters -------------------------------------------------------------- */

/* Nobody reads the bell: each stroke is an event, since it is edge-triggered. */
void loop_ring(struct loop *loop)
{
    eventfd_write(loop->bell_fd, 1);
}

/*
 * First the letter, then a look whether anybody sleeps; the loop does it the
 * other way round, so one of the two sees the other. Once the letter is in the
 * box it may be gone, and what it is part of, too.
 */
void loop_send(struct loop *loop, struct loop_letter *letter)
{
    letter->next = atomic_load_explicit(&loop->box, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&loop->box, &letter->next, letter))
        ;
    if (atomic_load(&loop->asleep) && atomic_exchange(&loop->asleep, false))
        loop_ring(loop);
}

void loop_expect(struct loop *loop)
{
    loop->expected++;
}

void loop_order(struct loop *loop, struct ticket *ticket)
{
    ticket->next = NULL;
    *loop->orders_end = ticket;
    loop->orders_end = &ticket->next;
}

/* First come, first served. */
static struct loop_letter *reversed(struct loop_letter *list)
{
    struct loop_letter *turned = NULL, *next;

    for (; list; list = next) {
        next = list->next;
        list->next = turned;
        turned = list;
    }
    return turned;
}

static void empty_box(struct loop *loop)
{
    struct loop_letter *letter, *next;

    if (!atomic_load_explicit(&loop->box, memory_order_relaxed))
        return;
    letter = reversed(atomic_exchange(&loop->box, NULL));
    for (; letter; letter = next) {
        next = letter->next;
        loop->expected--;
        mhd_deliver(letter);
    }
}

/* ---- passes --------------------------------------------------------------- */

void loop_begun(struct loop *loop, struct loop_mark *mark)
{
    if (mark->pass == loop->pass)
        return;
    mark->pass = loop->pass;
    loop->begun++;
}

/* Counts only within a pass: in the next it has either gone on, or now waits
 * for the kernel. */
void loop_done(struct loop *loop, struct loop_mark *mark)
{
    if (mark->pass != loop->pass)
        return;
    mark->pass = 0;
    loop->begun--;
}

void loop_again(struct loop *loop)
{
    loop->begun++;
}

/* For how long, in milliseconds; -1 is for ever. */
static int may_sleep(const struct loop *loop)
{
    if (loop->begun)
        return 0;
    if (loop->expected)
        return LOOP_LOOK_MS;
    return mhd_has_more(loop->mhd) ? 0 : -1;
}

static void wait_for_something(struct loop *loop)
{
    struct epoll_event events[2];
    int ms = may_sleep(loop);

    if (ms == 0)
        return;
    atomic_store(&loop->asleep, true);
    if (!atomic_load(&loop->box) && !atomic_load(&loop->stopping))
        epoll_wait(loop->wait_fd, events, 2, ms);
    atomic_store(&loop->asleep, false);
}

static void pass(struct loop *loop)
{
    loop->pass++;
    loop->begun = 0;
    loop->orders = NULL;
    loop->orders_end = &loop->orders;
    mhd_pass(loop->http, loop->mhd);
    if (loop->orders)
        park_orders(loop->http, loop->orders);
}

static void *loop_main(void *arg)
{
    struct loop *loop = arg;

    while (!atomic_load(&loop->stopping)) {
        wait_for_something(loop);
        empty_box(loop);
        pass(loop);
    }
    empty_box(loop);
    return NULL;
}

/* ---- opening and closing -------------------------------------------------- */

static bool watch(const struct loop *loop, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events};

    return epoll_ctl(loop->wait_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Also takes what loop_open() has only half made, without a thread. */
static void release(struct loop *loop)
{
    if (loop->mhd)
        mhd_stop(loop->mhd);
    if (loop->bell_fd >= 0)
        close(loop->bell_fd);
    if (loop->wait_fd >= 0)
        close(loop->wait_fd);
    free(loop);
}

static bool prepare(struct loop *loop, size_t connections_max)
{
    loop->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wait_fd < 0 || loop->bell_fd < 0)
        return false;
    loop->mhd = mhd_start(loop, connections_max);
    return loop->mhd && watch(loop, mhd_fd(loop->mhd), EPOLLIN) &&
           watch(loop, loop->bell_fd, EPOLLIN | EPOLLET);
}

struct loop *loop_open(struct http *http, size_t connections_max,
                       const char *name)
{
    struct loop *loop = aligned_alloc(_Alignof(struct loop), sizeof(*loop));

    if (!loop)
        return NULL;
    *loop =
        (struct loop){.http = http, .wait_fd = -1, .bell_fd = -1, .pass = 1};
    if (prepare(loop, connections_max) &&
        pthread_create(&loop->thread, NULL, loop_main, loop) == 0) {
        pthread_setname_np(loop->thread, name);
        return loop;
    }
    release(loop);
    return NULL;
}

void loop_close(struct loop *loop)
{
    if (!loop)
        return;
    atomic_store(&loop->stopping, true);
    loop_ring(loop);
    pthread_join(loop->thread, NULL);
    release(loop);
}

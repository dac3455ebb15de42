/*
 * libmicrohttpd's own threads want connections that wait to be suspended and
 * resumed, with one or two system calls each time, which is more than all else
 * that it does for an order. In this loop a connection that waits stays among
 * those that are ready, and the handler says in each pass that it has nothing
 * yet. That takes some ten nanoseconds, but libmicrohttpd then believes that
 * there is always something to do. So the loop has to know by itself when it may
 * sleep, and counts what has begun.
 *
 * It cannot count heads that come in many pieces, nor refusals by libmicrohttpd
 * itself, of which it does not tell us. While other requests wait, a pass every
 * few milliseconds serves these.
 */
#include "server/http/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/order/dispatcher.h"

#define LOOP_LOOK_US 5000

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- from any thread ------------------------------------------------------ */

void loop_wake(struct loop *loop)
{
    eventfd_write(loop->bell_fd, 1);
}

/*
 * First the completion is posted, then `asleep` is read; the loop does it the
 * other way round, so one of the two sees what the other did. Once posted, the
 * completion may be gone.
 */
void loop_post(struct loop *loop, struct completion *completion)
{
    completion->next = atomic_load_explicit(&loop->inbox, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&loop->inbox, &completion->next,
                                         completion))
        ;
    if (atomic_load(&loop->asleep) && atomic_exchange(&loop->asleep, false))
        loop_wake(loop);
}

void loop_drain(struct loop *loop)
{
    atomic_store(&loop->drain, true);
    loop_wake(loop);
    while (sem_wait(&loop->drained) && errno == EINTR)
        ;
}

/* ---- gathering ------------------------------------------------------------ */

/* Customers who are silent now do not count in the next round. */
static void hand_over(struct loop *loop)
{
    struct order *list = loop->orders;

    loop->orders = NULL;
    loop->orders_end = &loop->orders;
    loop->round++;
    loop->answered = 0;
    loop->gathered = 0;
    if (list)
        dispatcher_submit(loop->app->dispatcher, list);
}

/* The halves are handed over in the middle of a pass: the store places the one while
 * the loop reads the other. */
void loop_order(struct loop *loop, struct order *order)
{
    if (!loop->orders)
        loop->first_order_us = loop->now_us;
    loop->has_new_order = true;
    loop->awaited++;
    loop->gathered++;
    order->next = NULL;
    *loop->orders_end = order;
    loop->orders_end = &order->next;
    if ((order->record.key[0] != '\0' || loop->gathered >= LOOP_HALF) &&
        2 * loop->gathered >= loop->awaited + loop->answered)
        hand_over(loop);
}

void loop_answered(struct loop *loop, struct loop_mark *mark)
{
    mark->round = loop->round;
    loop->answered++;
}

void loop_heard(struct loop *loop, struct loop_mark *mark)
{
    if (mark->round == loop->round)
        loop->answered--;
    mark->round = 0;
}

/* ---- passes --------------------------------------------------------------- */

bool loop_begin_pass(struct loop *loop)
{
    loop->now_us = clock_us();
    loop->pass++;
    loop->begun = 0;
    if (atomic_load(&loop->drain) && !loop->draining) {
        hand_over(loop);
        loop->draining = true;
        sem_post(&loop->drained);
    }
    return !atomic_load(&loop->stop) || loop->expected > 0 ||
           loop->suspended > 0;
}

struct completion *loop_take(struct loop *loop)
{
    struct completion *list = NULL, *turned = NULL, *next;

    if (atomic_load_explicit(&loop->inbox, memory_order_relaxed))
        list = atomic_exchange(&loop->inbox, NULL);
    for (; list; list = next) {
        next = list->next;
        list->next = turned;
        turned = list;
        loop->expected--;
    }
    return turned;
}

static void sleep_until(struct loop *loop, uint64_t due_us)
{
    struct timespec time = {0}, *timeout = NULL;
    struct epoll_event events[2];
    uint64_t now_us;

    if (due_us != UINT64_MAX) {
        now_us = clock_us();
        if (now_us >= due_us)
            return;
        time.tv_sec = (time_t)((due_us - now_us) / 1000000);
        time.tv_nsec = (long)((due_us - now_us) % 1000000 * 1000);
        timeout = &time;
    }
    atomic_store(&loop->asleep, true);
    if (!atomic_load(&loop->inbox) &&
        (loop->expected || loop->suspended || !atomic_load(&loop->stop)) &&
        epoll_pwait2(loop->wait_fd, events, 2, timeout, NULL) < 0 &&
        errno == ENOSYS)
        epoll_wait(loop->wait_fd, events, 2, 1); /* Linux before 5.11 */
    atomic_store(&loop->asleep, false);
}

/* Hands over, or returns when to do so. */
static uint64_t tend_orders(struct loop *loop)
{
    uint64_t now_us, due_us;

    if (!loop->orders)
        return UINT64_MAX;
    if (loop->orders->record.key[0] == '\0' &&
        (loop->answered || loop->awaited > loop->gathered)) {
        now_us = clock_us();
        if (loop->has_new_order)
            loop->last_order_us = now_us;
        loop->has_new_order = false;
        due_us = earlier(loop->last_order_us + LOOP_QUIET_US,
                         loop->first_order_us + LOOP_GATHER_US);
        if (now_us < due_us)
            return due_us;
    }
    hand_over(loop);
    return UINT64_MAX;
}

void loop_end_pass(struct loop *loop, bool has_more)
{
    uint64_t due_us = earlier(timers_next_us(&loop->timers), tend_orders(loop));

    if (has_more)
        return;
    if (loop->expected)
        due_us = earlier(due_us, loop->now_us + LOOP_LOOK_US);
    sleep_until(loop, due_us);
}

void loop_begun(struct loop *loop, struct loop_mark *mark)
{
    if (mark->pass == loop->pass)
        return;
    mark->pass = loop->pass;
    loop->begun++;
}

/* Counts only within a pass: in the next it has either continued, or waits for
 * the kernel. */
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

/* ---- opening and closing -------------------------------------------------- */

bool loop_watch(struct loop *loop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    /* Nobody reads the bell: each write to it is to be an event. */
    if (fd == loop->bell_fd)
        event.events |= EPOLLET;
    return epoll_ctl(loop->wait_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

struct loop *loop_new(const struct app *app, struct loop_group *group)
{
    struct loop *loop = aligned_alloc(_Alignof(struct loop), sizeof(*loop));

    if (!loop)
        return NULL;
    *loop = (struct loop){app, group, .pass = 1, .round = 1};
    loop->orders_end = &loop->orders;
    sem_init(&loop->drained, 0, 0);
    loop->wait_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wait_fd >= 0 && loop->bell_fd >= 0 &&
        loop_watch(loop, loop->bell_fd))
        return loop;
    loop_free(loop);
    return NULL;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    while (atomic_load(&loop->writes))
        usleep(100);
    if (loop->bell_fd >= 0)
        close(loop->bell_fd);
    if (loop->wait_fd >= 0)
        close(loop->wait_fd);
    sem_destroy(&loop->drained);
    free(loop);
}

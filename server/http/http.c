/*
 * The HTTP threads: their sleep and the orders that they gather, the socket on which
 * they listen, their opening and closing.
 *
 * A request that waits is not suspended (see mhd.c), so that libmicrohttpd believes
 * that there is always something to do. So the loop has to know by itself when it
 * may sleep, and counts what has begun.
 *
 * It cannot count heads that come in many pieces, nor refusals by libmicrohttpd
 * itself, of which it does not tell us. While other requests wait, a pass every
 * few milliseconds serves these.
 *
 * libmicrohttpd never closes the socket as long as it is quiesced before it is
 * stopped; so it is closed here, where it was opened.
 */
#include "server/http/http.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/http/feed.h"
#include "server/http/parse.h"
#include "server/http/request.h"
#include "server/order/dispatcher.h"

#define LOOP_LOOK_US 5000

#define BACKLOG 1024
/* One connection of so many may be a viewer's, who has it for good: the others must be
 * there for those who order. No setting, because --connections-max is. */
#define VIEWERS_SHARE 4

struct http {
    const struct app *app;
    struct loop_group group;
    int listener;
    size_t loops_n; /* whose threads run */
    struct loop *loops[];
};

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- from any thread ------------------------------------------------------ */

static void wake(struct loop *loop)
{
    eventfd_write(loop->bell_fd, 1);
}

/* First the request is posted, then `asleep` is read; the loop does it the other way
 * round, so one of the two sees what the other did. Once posted, the request may be
 * gone. */
void loop_post(struct request *request)
{
    struct loop *loop = request->loop;

    request->next = atomic_load_explicit(&loop->inbox, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&loop->inbox, &request->next, request))
        ;
    if (atomic_load(&loop->asleep) && atomic_exchange(&loop->asleep, false))
        wake(loop);
}

/* ---- gathering ------------------------------------------------------------ */

/* Customers who are silent now do not count in the next round. */
static void hand_over(struct loop *loop)
{
    struct order *list = loop->orders;

    /* The list is cleared first: from dispatcher_submit() on the orders are
     * others', and may be gone. */
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
    /* `answered` begins anew with each round: a mark of an earlier one is not
     * in it. */
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
    /* The gathered orders go out before `draining` is set, and the post comes
     * last: http_quiesce() promises that nothing is handed over after it. */
    if (atomic_load(&loop->drain) && !loop->draining) {
        hand_over(loop);
        loop->draining = true;
        sem_post(&loop->drained);
    }
    return !atomic_load(&loop->stop) || loop->expected > 0 ||
           loop->suspended > 0;
}

struct request *loop_take(struct loop *loop)
{
    struct request *list = NULL, *turned = NULL, *next;

    /* A look costs less than an exchange, which takes the cache line from the
     * threads that post. */
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
    /* `asleep` is set before the inbox is read, and loop_post() does it the
     * other way round: a request that comes now either is seen here or rings
     * the bell. */
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
    /* An order with a key is not held back: the store writes its key besides,
     * and is busy with it for longer. */
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

/* ---- a loop, from its beginning to its end ----------------------------------- */

bool loop_watch(struct loop *loop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    /* Nobody reads the bell: each write to it is to be an event. */
    if (fd == loop->bell_fd)
        event.events |= EPOLLET;
    return epoll_ctl(loop->wait_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* The store may be in loop_post() although the request has been seen. */
static void loop_free(struct loop *loop)
{
    while (atomic_load(&loop->writes))
        usleep(100);
    if (loop->bell_fd >= 0)
        close(loop->bell_fd);
    if (loop->wait_fd >= 0)
        close(loop->wait_fd);
    sem_destroy(&loop->drained);
    free(loop);
}

/* NULL if there is no memory or descriptor. */
static struct loop *loop_new(const struct app *app, struct loop_group *group)
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

/* ---- the listening socket ------------------------------------------------- */

/* Looks up the address of --listen. NULL, and the log says why. */
static struct addrinfo *look_up(const char *where)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list;
    char host[128], port[6];
    int rc;

    if (!config_rules_listen(where, host, port))
        return NULL; /* config_load() has refused it */
    rc = getaddrinfo(host, port, &hints, &list);
    if (!rc)
        return list;
    log_error("http", "error=\"--listen %s: %s\"", where, gai_strerror(rc));
    return NULL;
}

/* Binds WHERE, "HOST:PORT" or "[HOST]:PORT", port 0 = any, and listens; -1, and the log
 * says why, which libmicrohttpd could not. A name may stand for several addresses, say
 * 127.0.0.1 and ::1 for localhost: the first that works is taken. SO_REUSEADDR is for
 * the restart right after a stop, when old connections still linger. */
static int listen_on(const char *where, bool any_port)
{
    struct addrinfo *list = look_up(where), *info;
    int fd = -1, one = 1, why = 0;

    for (info = list; info; info = info->ai_next) {
        if (any_port) /* in the same place with IPv6 */
            ((struct sockaddr_in *)(void *)info->ai_addr)->sin_port = 0;
        fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                    0);
        if (fd >= 0 &&
            !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) &&
            !bind(fd, info->ai_addr, info->ai_addrlen) && !listen(fd, BACKLOG))
            break;
        why = errno;
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    if (list && fd < 0)
        log_error("http", "error=\"--listen %s: %s\"", where, strerror(why));
    if (list)
        freeaddrinfo(list);
    return fd;
}

/* --check-config binds the address, because a person asks. A service may come before its
 * address does: it is started again. */
bool http_check(const struct config *config)
{
    struct addrinfo *list;
    int fd;

    if (config->check_config) {
        fd = listen_on(config->listen, true);
        if (fd >= 0)
            close(fd);
        return fd >= 0;
    }
    list = look_up(config->listen);
    if (list)
        freeaddrinfo(list);
    return list;
}

/* ---- all of them -------------------------------------------------------------- */

const char *http_address(const struct http *http)
{
    return http->group.address;
}

/* The share of thread I of N; at least one, because 0 is "no limit". */
static unsigned share(int64_t all, size_t i, size_t n)
{
    /* The shares of all threads add up to the whole, also where it cannot be
     * divided. */
    size_t part = (size_t)all * (i + 1) / n - (size_t)all * i / n;

    return part ? (unsigned)part : 1;
}

/* Each thread accepts its share; when all have theirs, the rest waits in the kernel. The
 * limit for each address is none behind a trusted proxy, because the library knows no
 * exceptions and all connections are the proxy's. */
static bool start(struct http *http, size_t i)
{
    const struct config *config = http->app->config;
    size_t n = (size_t)config->http_threads;
    struct loop *loop = loop_new(http->app, &http->group);
    int64_t all = config->client_connections_max;
    unsigned of_address = share(all ? all : config->connections_max / 2, i, n);
    char name[16];

    if (!loop)
        return false;
    if (mhd_start(loop, http->listener, share(config->connections_max, i, n),
                  *config->trusted_proxy ? 0 : of_address) &&
        !pthread_create(&loop->thread, NULL, mhd_serve, loop)) {
        snprintf(name, sizeof(name), "http-%d", (int)i);
        pthread_setname_np(loop->thread, name);
        http->loops[i] = loop;
        return true;
    }
    mhd_stop(loop);
    loop_free(loop);
    return false;
}

static void release(struct http *http)
{
    for (size_t i = 0; i < http->loops_n; i++) {
        struct loop *loop = http->loops[i];

        /* The loop goes on until all that it expects has come back: only then
         * may its connections be ended. */
        atomic_store(&loop->stop, true);
        wake(loop);
        pthread_join(loop->thread, NULL);
        mhd_stop(loop);
        loop_free(loop);
    }
    feed_close(http->group.feed);
    free(http);
}

struct http *http_open(const struct app *app)
{
    const struct config *config = app->config;
    size_t n = (size_t)config->http_threads;
    struct http *http = calloc(1, sizeof(*http) + n * sizeof(struct loop *));
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    char host[48] = "?", port[8] = "?";

    if (http)
        http->group.feed =
            feed_open(app, share(config->connections_max, 0, VIEWERS_SHARE));
    if (!http || !http->group.feed) {
        log_error("http", "error=\"no memory\"");
        free(http);
        return NULL;
    }
    /* All that the threads use stands before the first of them is started. */
    parse_init();
    access_set_token(config->admin_token);
    http->app = app;
    http->group.limit.inflight_max = (unsigned)config->client_inflight_max;
    (void)getrandom(&http->group.limit.seed, sizeof(uint64_t), 0);
    http->listener = listen_on(config->listen, false);
    if (http->listener < 0)
        goto err_after_feed;
    /* As numbers: with port 0 only the kernel knows the port. */
    if (!getsockname(http->listener, (struct sockaddr *)&bound, &size))
        getnameinfo((struct sockaddr *)&bound, size, host, sizeof(host), port,
                    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(http->group.address, sizeof(http->group.address),
             strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    while (http->loops_n < n && start(http, http->loops_n))
        http->loops_n++;
    if (http->loops_n == n)
        return http;
    log_error("http",
              "error=\"--listen %s: libmicrohttpd did not start; are there "
              "enough file descriptors for --connections-max?\"",
              config->listen);
    /* It has closed the listener on some of its ways out: leave it. */
err_after_feed:
    release(http);
    return NULL;
}

/* The socket stays ours until the threads are gone, which may still be polling
 * it; but it accepts no more. */
void http_quiesce(struct http *http)
{
    for (size_t i = 0; i < http->loops_n; i++) {
        struct loop *loop = http->loops[i];

        atomic_store(&loop->drain, true);
        wake(loop);
        while (sem_wait(&loop->drained) && errno == EINTR)
            ;
    }
    /* Newcomers are refused from here on, rather than left in a backlog that
     * nobody serves. */
    shutdown(http->listener, SHUT_RDWR);
}

/* Requests that come meanwhile wait for no other thread. */
bool http_drain(struct http *http, unsigned wait_ms)
{
    uint64_t due_ms = clock_ms() + wait_ms;

    for (size_t i = 0; i < http->loops_n; i++)
        while (atomic_load(&http->loops[i]->requests)) {
            if (clock_ms() >= due_ms)
                return false;
            usleep(1000);
        }
    return true;
}

void http_close(struct http *http)
{
    int listener;

    if (!http)
        return;
    listener = http->listener;
    release(http);
    close(listener);
}

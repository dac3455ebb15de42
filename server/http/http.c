/*
 * The HTTP threads, the socket on which they listen, their opening and closing.
 *
 * libmicrohttpd never closes the socket as long as it is quiesced before it is
 * stopped; so it is closed here, where it was opened.
 */
#include "server/http/http.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/http/feed.h"
#include "server/http/mhd.h"
#include "server/http/parse.h"
#include "server/http/request.h"

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

const char *http_address(const struct http *http)
{
    return http->group.address;
}

static void *serve(void *loop)
{
    /* Else the kernel adds 50 us to the short sleeps of gathering. */
    prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    mhd_serve(loop);
    return NULL;
}

/* ---- the listening socket ------------------------------------------------- */

/* What the kernel made of it, as numbers: with port 0, this is the news. */
static void describe(int fd, struct loop_group *group)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    char host[48] = "?", port[8] = "?";

    if (!getsockname(fd, (struct sockaddr *)&bound, &size))
        getnameinfo((struct sockaddr *)&bound, size, host, sizeof(host), port,
                    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(group->address, sizeof(group->address),
             strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

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

/*
 * Binds WHERE, "HOST:PORT" or "[HOST]:PORT", port 0 = any, and listens; -1, and
 * the log says why, which libmicrohttpd could not. A name may stand for several
 * addresses, say 127.0.0.1 and ::1 for localhost: the first that works is taken.
 * SO_REUSEADDR is for the restart right after a stop, when old connections still
 * linger.
 */
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

/* A start without the address may be too early, and is tried again by who started
 * us; a person who asks is told. */
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

/* ---- opening and closing -------------------------------------------------- */

/* The share of thread I of N; at least one, because 0 is "no limit". */
static unsigned share(int64_t all, size_t i, size_t n)
{
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
        !pthread_create(&loop->thread, NULL, serve, loop)) {
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

        atomic_store(&loop->stop, true);
        loop_wake(loop);
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

    if (!http) {
        log_error("http", "error=\"no memory\"");
        return NULL;
    }
    parse_init();
    access_set_token(config->admin_token);
    http->app = app;
    http->group.limit = (struct client_limit){
        PTHREAD_MUTEX_INITIALIZER, (size_t)config->client_inflight_max, NULL};
    http->group.feed =
        feed_open(app, share(config->connections_max, 0, VIEWERS_SHARE));
    if (!http->group.feed) {
        log_error("http", "error=\"no memory\"");
        goto err_after_calloc;
    }
    http->listener = listen_on(config->listen, false);
    if (http->listener < 0)
        goto err_after_calloc;
    describe(http->listener, &http->group);
    while (http->loops_n < n && start(http, http->loops_n))
        http->loops_n++;
    if (http->loops_n == n)
        return http;
    log_error("http",
              "error=\"--listen %s: libmicrohttpd did not start; are there "
              "enough file descriptors for --connections-max?\"",
              config->listen);
    /* It has closed the listener on some of its ways out: leave it. */
err_after_calloc:
    release(http);
    return NULL;
}

/* The socket stays ours until the threads are gone, which may still be polling
 * it; but it accepts no more. */
void http_quiesce(struct http *http)
{
    for (size_t i = 0; i < http->loops_n; i++)
        loop_drain(http->loops[i]);
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

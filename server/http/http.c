/*
 * Opening and closing of the HTTP face, in the right order: what a connection
 * needs is there before the first can come, and goes after the last has gone.
 */
#include "server/http/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/app.h"
#include "server/config.h"
#include "server/http/mhd.h"
#include "server/http/parse.h"

const char *http_address(const struct http *http)
{
    return http->address;
}

bool http_is_open(struct http *http)
{
    return door_is_open(&http->door);
}

static void release(struct http *http)
{
    for (size_t i = 0; i < http->loops_n; i++)
        loop_close(http->loops[i]);
    deadline_close(http->deadline);
    admit_close(http->admit);
    door_release(&http->door);
    free(http);
}

static struct http *prepare(const struct app *app)
{
    const struct config *config = app->config;
    size_t threads = (size_t)config->http_threads;
    struct http *http =
        calloc(1, sizeof(*http) + threads * sizeof(struct loop *));

    if (!http)
        return NULL;
    http->app = app;
    door_init(&http->door);
    /* Who left while his order waits is still a client. */
    http->admit =
        admit_open((size_t)config->connections_max + (size_t)config->queue_max,
                   (size_t)config->client_inflight_max);
    http->deadline = deadline_open((unsigned)config->request_deadline_ms);
    if (http->admit && http->deadline)
        return http;
    release(http);
    return NULL;
}

/* Each thread has its share of the connections, so that the sum is right. */
static bool start(struct http *http)
{
    const struct config *config = http->app->config;
    size_t left = (size_t)config->connections_max, share;
    int threads = (int)config->http_threads;
    char name[16];

    for (int i = 0; i < threads; i++) {
        share = left / (size_t)(threads - i);
        snprintf(name, sizeof(name), "http-%d", i);
        http->loops[i] = loop_open(http, share, name);
        if (!http->loops[i])
            return false;
        http->loops_n++;
        left -= share;
    }
    return true;
}

struct http *http_open(const struct app *app, char *error, size_t error_size)
{
    struct http *http;

    parse_init();
    http = prepare(app);
    if (!http) {
        snprintf(error, error_size, "http: no memory or no thread");
        return NULL;
    }
    http->listener =
        listen_open(app->config->listen, http->address, error, error_size);
    if (http->listener < 0)
        goto err_after_prepare;
    if (start(http))
        return http;
    snprintf(error, error_size,
             "--listen %s: libmicrohttpd did not start; are there enough file "
             "descriptors for --connections-max?",
             app->config->listen);
    /* It has closed the listener on some of its ways out: leave it. */
err_after_prepare:
    release(http);
    return NULL;
}

void http_quiesce(struct http *http)
{
    if (!door_shut(&http->door))
        return;
    for (size_t i = 0; i < http->loops_n; i++)
        loop_ring(http->loops[i]);
    /* Ends the listening at once; the number stays ours until the loops are
       gone, which may still be polling it. */
    shutdown(http->listener, SHUT_RDWR);
}

bool http_drain(struct http *http, unsigned wait_ms)
{
    return door_wait(&http->door, wait_ms);
}

void http_close(struct http *http)
{
    int listener;

    if (!http)
        return;
    http_quiesce(http);
    listener = http->listener;
    release(http);
    close(listener);
}

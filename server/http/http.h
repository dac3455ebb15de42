/*
 * The HTTP side of the service: accepts connections, checks requests, calls
 * their handlers, sends the replies.
 *
 * Threads: few, each with many connections, and none of them ever waits for a
 * database, a lock or a client. A request that has to wait is suspended, and
 * comes back to its thread: see loop.h.
 *
 * To stop without cutting anybody off:
 *     http_quiesce(http);        no new connections, no new orders and tasks
 *     dispatcher_stop(...), tasks_stop(...);    what is under way is answered
 *     http_drain(http, 2000);    until the answers are sent
 *     http_close(http);
 * Files, /livez, /metrics and orders that are refused from memory are answered
 * until http_close(). For these the dispatcher and the readers are still called:
 * they may be stopped before, but freed only after.
 */
#ifndef HTTP_H
#define HTTP_H

#include <stdbool.h>

struct app;
struct config;
struct http;

/* Whether config->listen names an address. If not, the log says why. */
bool http_check(const struct config *config);

/* Binds config->listen and serves. NULL, and the log says why. APP, and all that it
 * points to, is borrowed until http_close(). */
struct http *http_open(const struct app *app);

/* Where it really listens, "127.0.0.1:43210". Lives as long as HTTP. */
const char *http_address(const struct http *http);

/* When it returns no request is handed to the dispatcher, the readers or the
 * store any more. Once. */
void http_quiesce(struct http *http);

/* Waits until no request is under way, at most WAIT_MS. False if some are. */
bool http_drain(struct http *http, unsigned wait_ms);

/* Ends all connections and frees, after http_quiesce(). Waits for the store if it has not
 * answered all yet. NULL is fine. */
void http_close(struct http *http);

#endif

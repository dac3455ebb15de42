/*
 * The HTTP face of the service: accepts connections, lets requests through the
 * gate, calls their handlers, sends the replies.
 *
 * The way of a request
 * --------------------
 *     connection   deadline.c  starts its time
 *     head         gate.c      may it come in at all?
 *     body         request.c   is collected, up to a bound
 *     target       target.c    path and query, decoded
 *     row          route.c     whose is it, and may they?
 *     handler      res_*.c     parse.c, admit.c, then
 *       order      order/desk  the connection waits, the desk answers
 *       errand     pool        the connection waits, a thread answers
 *     reply        reply.c     problem.c, render.c
 *     end          mhd.c       everything of the request is freed
 *
 * Threads: few that do HTTP, each with many connections, none of which ever
 * waits for a database, a lock or a client. What has to wait is put aside, and
 * told to its connection's thread when it is done: see loop.c.
 *
 * To stop it without cutting anybody off:
 *     http_quiesce(http);        no new connections, new requests get 503
 *     desk_stop(...), pool_stop(...);    every request under way is answered
 *     http_drain(http, 2000);    until the answers are sent
 *     http_close(http);
 * After http_quiesce() has returned no request is handed to desk or pool any
 * more. What needs no hand-over is answered until http_close(): files, /livez,
 * /metrics, orders of what is known to be sold out. For that desk, selfcheck and
 * through them the pool are still called; so they may be stopped but not freed.
 */
#ifndef HTTP_H
#define HTTP_H

#include <stdbool.h>
#include <stddef.h>

struct app;
struct http;
struct request;

/*
 * Binds config->listen and serves. NULL, and ERROR says why. APP, and all
 * that it points to, is borrowed until http_close().
 */
struct http *http_open(const struct app *app, char *error, size_t error_size);

/* Where it really listens, "127.0.0.1:43210". Lives as long as HTTP. */
const char *http_address(const struct http *http);

void http_quiesce(struct http *http);

/* Waits until no request is under way, at most WAIT_MS. false if some are. */
bool http_drain(struct http *http, unsigned wait_ms);

/* Ends all connections and frees. Quiesces if that was not done. NULL is ok. */
void http_close(struct http *http);

/* false once it was told to stop. From any thread. */
bool http_is_open(struct http *http);

/* ---- for request.c and the handlers ------------------------------------- */

/* Counts the request as an order of its client. false: it has too many. */
bool http_admit(struct request *request);

/*
 * Puts the request aside whose handler is running; its connection waits for
 * http_wake().
 *
 * http_park() hands it over at once. false if HAND_OVER was false, or not
 * called because of the end: in that case there is a reply, or the caller makes
 * one.
 *
 * http_order() hands its ticket to the desk, together with others. If it does
 * not get there its outcome is what it was.
 */
bool http_park(struct request *request, bool (*hand_over)(struct request *));
void http_order(struct request *request);

/* Lets a parked request go on. Once, from any thread, as the last thing. */
void http_wake(struct request *request);

#endif

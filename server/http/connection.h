/*
 * A connection: its place on its loop, its time limit, and its one request,
 * whose memory is used again and again. It belongs to its loop's thread.
 *
 * It lives from its accept to its close, and longer if it breaks while its
 * request waits for another thread: until that request comes back.
 *
 * The time limit
 * --------------
 * A client that sends one byte a second is never inactive, nor is one that reads
 * one. So there is a limit for the whole request: it begins with the connection,
 * again with each request line and again with each reply that is queued or sent.
 * A connection that is over its limit is cut. While its request waits for us,
 * the limit is the one of the task that it waits for, or there is none.
 *
 * To begin anew is to store a number: the timer is set when there is none, and
 * looks at the number when it fires.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "server/http/loop.h"
#include "server/http/reply/response.h"
#include "server/http/request/request.h"
#include "server/timers.h"

struct MHD_Connection;
struct client_limit;
struct mhd;
struct sockaddr;

struct connection {
    struct mhd *mhd;
    struct MHD_Connection *handle; /* NULL: it is closed */
    int fd;
    struct loop_mark mark;
    struct timer timer;
    uint64_t due_us;      /* UINT64_MAX = no limit now */
    struct response kept; /* its last reply */
    struct request request;
};

/* PEER may be NULL. NULL if there is no memory. */
struct connection *connection_begin(const struct app *app, struct loop *loop,
                                    struct client_limit *limit, int fd,
                                    const struct sockaddr *peer);

/* The limit of its client begins anew. */
void connection_restart(struct connection *connection);

/* Its request waits: the client's limit ends. */
void connection_wait(struct connection *connection);

/* Its timer has fired. False: it has time left, or no limit. */
bool connection_is_due(struct connection *connection);

/* Its request ends; the next may begin. */
void connection_finish(struct connection *connection);

/* Its socket is about to be closed. Frees it, unless its request waits; then
 * connection_free() is called when that came back. NULL is fine. */
void connection_end(struct connection *connection);
void connection_free(struct connection *connection);

#endif

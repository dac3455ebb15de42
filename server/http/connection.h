/*
 * A connection: its place on its loop, its time limit, and its one request,
 * whose memory is used again and again. It belongs to its loop's thread.
 *
 * The number of connections is limited by the library: in all, beyond which
 * newcomers wait in the kernel, and for each address, beyond which they are closed
 * at once. An idle connection makes room by its time limit.
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

#include "server/base/timers.h"
#include "server/http/loop.h"
#include "server/http/request.h"

struct MHD_Connection;
struct mhd;
struct sockaddr;

struct connection {
    struct MHD_Connection *handle; /* NULL: it is closed */
    int fd;
    struct loop_mark mark;
    struct timer timer;
    uint64_t due_us; /* UINT64_MAX = no limit now */
    struct request request;
};

/* PEER may be NULL. NULL if there is no memory. */
struct connection *connection_begin(struct loop *loop, int fd,
                                    const struct sockaddr *peer);

/* The limit of its client begins anew. */
void connection_restart(struct connection *connection);

/* Its request waits: the client's limit ends. */
void connection_wait(struct connection *connection);

/* A timer of a connection has fired. */
void connection_due(struct timer *timer);

/* A request that waited continues. */
void connection_resume(struct completion *completion);

/* Sends the reply of its request. False: it has to be cut. */
bool connection_reply(struct connection *connection);

/* Its request ends; the next may begin. */
void connection_finish(struct connection *connection);

/* Its socket is about to be closed. Frees it, or if its request waits, when
 * that came back. NULL is fine. */
void connection_end(struct connection *connection);

/* Accepts no more than CONNECTIONS_MAX at a time, and of one address no more than
 * ADDRESS_MAX, 0 = any number. NULL if it does not start. */
struct mhd *mhd_start(struct loop *loop, int listener, unsigned connections_max,
                      unsigned address_max);

/* Ends all connections. Nothing may wait for another thread any more. NULL is
 * fine. */
void mhd_stop(struct mhd *mhd);

/* Does what there is to do, without waiting. */
void mhd_pass(struct mhd *mhd);

/* There has to be another pass at once. */
bool mhd_has_more(struct mhd *mhd);

#endif

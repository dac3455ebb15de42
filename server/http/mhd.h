/*
 * The connections of an HTTP thread, each with its time limit and its one request; and
 * libmicrohttpd, which reads the requests and writes the replies. All of it belongs to
 * the thread of its loop.
 *
 * The number of connections is limited by the library: in all, beyond which
 * newcomers wait in the kernel, and for each address, beyond which they are closed
 * at once. An idle connection makes room by its time limit.
 *
 * A connection lives from its accept to its close, and longer if it breaks while its
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
#ifndef MHD_H
#define MHD_H

#include "server/http/loop.h"

/* Accepts no more than CONNECTIONS_MAX at a time, and of one address no more than
 * ADDRESS_MAX, 0 = any number. False if it does not start. */
bool mhd_start(struct loop *loop, int listener, unsigned connections_max,
               unsigned address_max);

/* Serves until the loop is told to stop. */
void mhd_serve(struct loop *loop);

/* Ends all connections. Nothing may wait for another thread any more. Fine if it did
 * not start. */
void mhd_stop(struct loop *loop);

#endif

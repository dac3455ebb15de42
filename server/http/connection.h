/*
 * What a connection has, from its accept to its close, and a little longer if
 * it broke while its request waited: until whoever has the request gives it
 * back. It has one request at a time, whose place is made once and used again
 * and again. All of it belongs to its loop's thread; mhd.c's.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "server/http/deadline.h"
#include "server/http/loop.h"
#include "server/http/request.h"
#include "server/http/response.h"

struct MHD_Connection;
struct admit_client;
struct sockaddr;

struct connection {
    struct MHD_Connection *mhd; /* NULL: it is closed */
    struct loop *loop;
    struct loop_letter letter; /* its request comes back */
    struct loop_mark mark;
    struct deadline_watch watch;
    struct admit_client *client;
    struct response kept; /* its last reply */
    struct request request;
};

/* PEER may be NULL. NULL if there is no memory. */
struct connection *connection_begin(struct loop *loop,
                                    struct MHD_Connection *mhd, int fd,
                                    const struct sockaddr *peer);

/* Its request ends; the next may begin. */
void connection_finish(struct connection *connection);

/* Its socket is about to be closed. NULL is fine. */
void connection_end(struct connection *connection);

/* A letter has come: its request is back. NULL: too late, and it is gone. */
struct connection *connection_back(struct loop_letter *letter);

#endif

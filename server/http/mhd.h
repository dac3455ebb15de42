/*
 * What http.c and loop.c, which open, close and run it, and mhd.c, which
 * serves, have in common; nobody else includes this.
 */
#ifndef MHD_H
#define MHD_H

#include <stdbool.h>
#include <stddef.h>

#include "server/http/admit.h"
#include "server/http/deadline.h"
#include "server/http/door.h"
#include "server/http/listen.h"
#include "server/http/loop.h"

struct mhd;
struct app;

struct http {
    const struct app *app;
    struct deadline *deadline;
    struct admit *admit;
    struct door door;
    int listener;
    char address[LISTEN_ADDRESS_BYTES];
    size_t loops_n;
    struct loop *loops[]; /* one for each HTTP thread */
};

/* libmicrohttpd on LOOP's listener, run by LOOP's thread. NULL if that fails. */
struct mhd *mhd_start(struct loop *loop, size_t connections_max);
/* Ends all connections. No letter may be under way any more. */
void mhd_stop(struct mhd *mhd);

/* Can be read from when there is something to do. */
int mhd_fd(struct mhd *mhd);
/* Does what there is to do, without waiting. */
void mhd_pass(struct http *http, struct mhd *mhd);
/* It wants another pass, for itself or for a request that waits. */
bool mhd_has_more(struct mhd *mhd);

/* A request that waited goes on. */
void mhd_deliver(struct loop_letter *letter);

#endif

/*
 * What http.c, which opens and closes, and mhd.c, which serves, have in common;
 * nobody else includes this.
 */
#ifndef MHD_H
#define MHD_H

#include "server/http/admit.h"
#include "server/http/deadline.h"
#include "server/http/door.h"
#include "server/http/listen.h"

struct MHD_Daemon;
struct app;

struct http {
    const struct app *app;
    struct MHD_Daemon *daemon;
    struct deadline *deadline;
    struct admit *admit;
    struct door door;
    int listener;
    char address[LISTEN_ADDRESS_BYTES];
};

/* Starts the HTTP threads on http->listener. NULL if that fails. */
struct MHD_Daemon *mhd_start(struct http *http);
/* No new connections. */
void mhd_quiesce(struct http *http);
/* Ends all connections. Nothing may be parked any more. */
void mhd_stop(struct http *http);

#endif

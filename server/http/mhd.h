/*
 * libmicrohttpd on a loop: connections and the requests on them.
 */
#ifndef MHD_H
#define MHD_H

#include <stdbool.h>
#include <stddef.h>

struct app;
struct client_limit;
struct completion;
struct loop;
struct mhd;
struct timer;

struct mhd_settings {
    const struct app *app;
    struct client_limit *limit;
    const char *address; /* what LISTENER is bound to */
    int listener;
    size_t connections_max;
};

/* NULL if it does not start. */
struct mhd *mhd_start(struct loop *loop, const struct mhd_settings *settings);

/* Ends all connections. Nothing may wait for another thread any more. NULL is
 * fine. */
void mhd_stop(struct mhd *mhd);

/* Does what there is to do, without waiting. */
void mhd_pass(struct mhd *mhd);

/* There has to be another pass at once. */
bool mhd_has_more(struct mhd *mhd);

/* A request that waited continues. */
void mhd_resume(struct completion *completion);

/* A connection's timer has fired. */
void mhd_due(struct timer *timer);

#endif

/*
 * One HTTP thread: it waits until there is something to do, lets libmicrohttpd
 * do it, and sends the replies of the requests that had to wait.
 *
 * Whoever has such a reply leaves it in the loop's letter box, from any thread,
 * and rings only if the loop sleeps: of all the orders of a batch the first
 * rings, and while there is much to do nobody.
 *
 * All the rest is for the loop's own thread, mhd.c's callbacks among it. A
 * connection with all that belongs to it lives and dies there, so it needs no
 * lock.
 */
#ifndef LOOP_H
#define LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http;
struct loop;
struct mhd;
struct ticket;

/* A place in the letter box; embedded in whatever waits. */
struct loop_letter {
    struct loop_letter *next;
};

/*
 * Starts a thread that serves up to CONNECTIONS_MAX connections of
 * http->listener. NAME is the thread's, of at most 15 bytes. NULL if there is
 * no memory, descriptor or thread.
 */
struct loop *loop_open(struct http *http, size_t connections_max,
                       const char *name);
/* Have it look at the door, which was shut. From any thread. */
void loop_ring(struct loop *loop);
/* Ends its connections. All that waited has got its letter. NULL is fine. */
void loop_close(struct loop *loop);

struct http *loop_http(const struct loop *loop);
/* mhd.c's, once it runs. */
struct mhd *loop_mhd(const struct loop *loop);

/* From any thread; the letter is the loop's from here on. */
void loop_send(struct loop *loop, struct loop_letter *letter);

/* ---- for the loop's thread ------------------------------------------------ */

/* A letter will come; mhd_deliver() gets it. */
void loop_expect(struct loop *loop);

/* When the pass is over the ticket goes to the desk, with the others. */
void loop_order(struct loop *loop, struct ticket *ticket);

/* One thing that libmicrohttpd does; begins as {0}. */
struct loop_mark {
    uint64_t pass;
};

/*
 * libmicrohttpd has begun something that it may only go on with in its next
 * pass, without a word from the kernel; and it has got through with it.
 */
void loop_begun(struct loop *loop, struct loop_mark *mark);
void loop_done(struct loop *loop, struct loop_mark *mark);
/* There has to be another pass. */
void loop_again(struct loop *loop);

#endif

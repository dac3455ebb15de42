/*
 * The whole-request deadline. libmicrohttpd's timeout is about inactivity: a
 * client that sends one byte a second is active for ever, and so is one that
 * reads one. Here every connection has to get somewhere in a fixed time, or is
 * shut down: finish a request, or get a reply out.
 *
 * Every deadline is the same time ahead, so whoever is restarted goes to the
 * end of the queue, the queue stays sorted, and everything is O(1).
 *
 * The time starts with the connection and again with each request line, with
 * each reply begun and with each reply sent. So a client has the whole limit
 * for its request, and again for reading the reply; in between, while an order
 * waits at the desk, the time stands still. A connection on which nothing
 * happens is closed after the same limit.
 */
#ifndef DEADLINE_H
#define DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

struct deadline;

/* One connection's place in the queue; embedded in whatever is watched. */
struct deadline_watch {
    struct deadline_watch *prev, *next;
    uint64_t due_ms;
    int fd;
    bool queued;
};

/* Starts the thread that cuts. NULL if that fails. */
struct deadline *deadline_open(unsigned limit_ms);

/* A watch may be NULL in all of these: then there is no deadline. */

/* Begins to watch FD, and starts its time. */
void deadline_watch(struct deadline *deadline, struct deadline_watch *watch,
                    int fd);
/* Starts the time anew; also after a pause. Not after it was cut. */
void deadline_restart(struct deadline *deadline, struct deadline_watch *watch);
/* Stops the time: now it is us who are slow. */
void deadline_pause(struct deadline *deadline, struct deadline_watch *watch);
/* Ends it. Before the fd is closed, since its number may come back. */
void deadline_forget(struct deadline *deadline, struct deadline_watch *watch);

/* Nothing may be watched any more. NULL is fine. */
void deadline_close(struct deadline *deadline);

#endif

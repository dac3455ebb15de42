/*
 * The whole-request deadline. libmicrohttpd's timeout is about inactivity: a
 * client that sends one byte a second is active for ever, and so is one that
 * reads one. Here every connection has to get somewhere in a fixed time, or is
 * shut down: finish a request, or get a reply out.
 *
 * Every request starts its connection's time several times, so that is only
 * the storing of a number. The thread that cuts has its own queue, by when it
 * will look at each connection next; it looks once or twice a limit.
 *
 * The time starts with the connection and again with each request line and
 * with each reply sent: a client has the whole limit for its request and for
 * reading the reply. While a request waits, at the desk or for the pool, the
 * time stands still, and starts again with its reply. A connection on which
 * nothing happens is closed after the same limit.
 */
#ifndef DEADLINE_H
#define DEADLINE_H

#include <stdatomic.h>
#include <stdint.h>

struct deadline;

/* One connection's place in the queue; embedded in whatever is watched. */
struct deadline_watch {
    atomic_uint_fast64_t due_ms;
    struct deadline_watch *prev, *next;
    uint64_t look_ms; /* never after due_ms */
    int fd;           /* -1: it was cut */
};

/* Starts the thread that cuts. NULL if that fails. */
struct deadline *deadline_open(unsigned limit_ms);

/* Begins to watch FD, and starts its time. */
void deadline_watch(struct deadline *deadline, struct deadline_watch *watch,
                    int fd);
/*
 * Starts the time anew; also after a pause. Not after it was cut. This and the
 * pause are called by one thread at a time, and wait for nobody.
 */
void deadline_restart(struct deadline *deadline, struct deadline_watch *watch);
/* Stops the time: now it is us who are slow. */
void deadline_pause(struct deadline *deadline, struct deadline_watch *watch);
/* Ends it. Before the fd is closed, since its number may come back. */
void deadline_forget(struct deadline *deadline, struct deadline_watch *watch);

/* Nothing may be watched any more. NULL is fine. */
void deadline_close(struct deadline *deadline);

#endif

/*
 * The feed of GET /api/events: viewers of the shop hear each change of a product, as
 * Server-Sent Events.
 *
 * While somebody watches, a reader's task compares the list of products with what
 * was told last, at most every FEED_LOOK_MS; what has changed becomes an event in a
 * ring. So an order costs nothing here, and the committer never waits for the ring's
 * mutex: the loops of the viewers and that task alone take it. With many viewers the
 * looks are rarer, because each look may mean a write to each viewer.
 *
 *   event     data
 *   products  the first page of GET /api/products: comes at first, and after "lost"
 *   product   one that is new or has changed, as in that page
 *   lost      {}: the viewer has missed events, because the ring has dropped the
 *             oldest or this process does not know the viewer's Last-Event-ID
 *   beat      the time of day, every FEED_BEAT_MS, as long as the looks succeed:
 *             without it what was told may be old
 *
 * The first two have an id, "RUN-NUMBER": RUN is this process's.
 */
#ifndef FEED_H
#define FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FEED_LOOK_MS     100
#define FEED_LOOK_MS_MAX 1000 /* with many viewers */
#define FEED_BEAT_MS     2000
#define FEED_EVENTS      256 /* in the ring */

struct app;
struct feed;

/* One who watches: part of a request, on its loop's thread. All zero = nobody. */
struct viewer {
    struct feed *feed;
    uint64_t next;     /* event; 0 = the whole list */
    uint64_t since_ms; /* what was looked up before is too old */
    uint64_t beat_ms;  /* the look that the last beat told of */
    bool has_lost;     /* what it asked to go on from */
    bool is_asleep;    /* its connection is suspended */
    char *text;        /* that is being sent; NULL = none */
    size_t size, at;
};

/* APP is borrowed. Its readers are used once somebody watches, and have to be
 * stopped before the feed is closed. NULL if there is no memory. */
struct feed *feed_open(const struct app *app, size_t viewers_max);
void feed_close(struct feed *feed);

/* From any thread. */
size_t feed_viewers(const struct feed *feed);

/* How long a viewer may wait until it looks again. */
uint64_t feed_pause_us(const struct feed *feed);

/* Begins where LAST_ID ends; NULL = anew. False: too many watch, or no memory. */
bool feed_enter(struct feed *feed, struct viewer *viewer, const char *last_id);
/* One that has entered. */
void feed_leave(struct viewer *viewer);

/* Has the products looked at if it is time. Is there something to be told? */
bool feed_look(const struct viewer *viewer);

/* The next bytes for this viewer; 0 = none yet. */
size_t feed_read(struct viewer *viewer, char *bytes, size_t size);

#endif

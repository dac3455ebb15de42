/*
 * HTTP requests to other services, by libcurl: many at a time on one thread, over
 * connections that are kept open.
 */
#ifndef FETCH_H
#define FETCH_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define FETCH_FDS_MAX   8
#define FETCH_WHY_BYTES 256

/* Those under way, and the connections; begins as {0}. */
struct fetches {
    void *multi;
    LIST_HEAD(fetch_list, fetch) list;
};

/* The request; all of it is copied. */
struct fetch_request {
    const char *url; /* http://HOST:PORT */
    const char *target;
    const char *method;
    const char *key;  /* for Idempotency-Key; NULL = none */
    const char *body; /* JSON; NULL = none */
    size_t body_size;
    uint64_t limit_ms; /* within which it ends */
};

/* Begins as {0}. */
struct fetch_reply {
    unsigned status;
    char *text; /* from malloc(); NULL = none */
    size_t size;
    char type[40], location[64], retry_after[12]; /* headers; "" = none */
    bool replayed;
};

enum fetch_end { FETCH_ANSWERED, FETCH_NOT_SENT, FETCH_LOST };

struct fetch {
    void *owner, *peer; /* the caller's: for whom, and whom it asks */
    size_t number;      /* the same, as it likes */
    uint64_t begun_us;
    /* How it ended. The text is for the caller to take. */
    enum fetch_end end;
    char why[FETCH_WHY_BYTES]; /* for a person, unless it was answered */
    struct fetch_reply reply;
    /* fetch.c's */
    void *easy, *fields;
    bool is_sent; /* or is being sent */
    LIST_ENTRY(fetch) place;
};

/* Whether URL is http://HOST[:PORT], with or without a slash behind it, and no more. */
bool fetch_is_url(const char *url);

/* False: no memory. */
bool fetch_open(struct fetches *fetches, size_t connections_max);
/* Ends those under way. Fine if it was not opened. */
void fetch_close(struct fetches *fetches);

/* NULL: no memory. */
struct fetch *fetch_begin(struct fetches *fetches,
                          const struct fetch_request *what);

/* One that has ended, to be freed; NULL: none. */
struct fetch *fetch_next(struct fetches *fetches);
void fetch_free(struct fetch *fetch);

/* Waits for something to do, or until one of N FDS can be read from, and does it; and
 * ends that wait, from any thread. */
void fetch_wait(struct fetches *fetches, const struct pollfd fds[], size_t n,
                uint64_t ms);
void fetch_wake(struct fetches *fetches);

#endif

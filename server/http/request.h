/*
 * A request as its handler sees it, and all that is made while serving it.
 *
 * A handler runs on an HTTP thread and must not block. It either replies at
 * once (request_reply, or what reply.h builds on it), or hands the request on:
 *   request_errand()  to the pool, for whatever reads or writes the store;
 *                     RUN replies there
 *   request_order()   to the desk, with request->ticket filled; ANSWER is
 *                     called on an HTTP thread and replies from the ticket
 * While it waits the connection is put aside and costs no thread. If the pool
 * refuses, the refusal is the reply, and RUN is not called; if the desk does,
 * the ticket says so.
 *
 * Whose turn it is
 * ----------------
 * A request belongs to one thread at a time and needs no lock. It begins with
 * the HTTP thread of its connection; request_errand() and request_order() give
 * it away, and the handler must not touch it after them; http_wake() gives it
 * back, and RUN must not touch it after that. The loop's letter box and the
 * queues of pool and desk make what one thread wrote visible to the next.
 *
 * METHOD and the fields are in libmicrohttpd's memory, which goes with the
 * connection: at any time, also while the request waits. They are for the HTTP
 * thread, before it hands the request on; what others need is copied.
 *
 * Ownership: what request_alloc() and request_take() got lives until the
 * reply was sent, and is freed in one place, request_end(). Small pieces come
 * from the arena, which is why an order costs no malloc() here.
 */
#ifndef REQUEST_H
#define REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "db/store.h"
#include "server/http/gate.h"
#include "server/http/route.h"
#include "server/http/target.h"
#include "server/order/order.h"
#include "server/pool.h"

#define REQUEST_REPLY_HEADERS_MAX 8
/* Holds all that placing an order needs: target, body, reply. */
#define REQUEST_ARENA_BYTES 1536

struct app;
struct http;
struct request;

typedef void request_run(struct request *request, struct store_reader *reader);
typedef void request_answer(struct request *request);

enum request_stage {
    REQUEST_NEW,     /* the request line is here */
    REQUEST_READING, /* the head passed the gate or will be refused */
    REQUEST_WAITING, /* handed to the pool or the desk */
    REQUEST_REPLIED, /* the reply is with libmicrohttpd */
    REQUEST_FAILED,  /* which did not take it: no memory */
};

struct request_header {
    const char *name;
    const char *value;
};

/*
 * The first part is the connection's, and the same for all its requests; the
 * middle is cleared for each; the last, which is large, is left as it is.
 */
struct request {
    const struct app *app;
    struct http *http;
    void *connection; /* mhd.c's */
    bool loopback;    /* the peer is this machine */

    /* for handlers, to read; the fields are below */
    const char *method; /* libmicrohttpd's; the first that is cleared */
    bool is_read;       /* GET or HEAD */
    const char *path;   /* decoded */
    const char *query;  /* raw; see request_query() */
    struct route_match match;
    size_t fields_n;
    char *body; /* NUL-terminated; "" if there is none */
    size_t body_size;

    /* for handlers, to fill */
    struct ticket ticket;
    void *scratch; /* what RUN wants to know from the handler */

    /* mhd.c's and request.c's */
    enum request_stage stage;
    bool waited;   /* was handed over, and came back */
    bool counted;  /* as in flight */
    bool admitted; /* as an order of its client */
    struct gate_verdict verdict;
    const char *target_at; /* libmicrohttpd's */
    char *target;          /* our copy */
    size_t target_size;
    size_t body_room;
    uint64_t body_seen;
    struct errand errand;
    request_run *run;
    request_answer *answer;
    struct request_owned *owned;

    unsigned status; /* of the reply; 0 = none yet */
    bool common;     /* many get the same, headers and all */
    const char *reply_body;
    size_t reply_size;
    struct request_header headers[REQUEST_REPLY_HEADERS_MAX];
    size_t headers_n;
    size_t arena_used;

    /* libmicrohttpd's, fields_n of them */
    struct gate_field fields[GATE_FIELDS_MAX + 1];
    _Alignas(max_align_t) char arena[REQUEST_ARENA_BYTES];
};

/* Once for a connection: nothing of the connection's part is known. */
void request_init(struct request *request);

/* A request begins, ends, and the next may begin. false: no memory. */
bool request_begin(struct request *request, const char *target);
void request_end(struct request *request);

/* Memory that lives as long as the request; NULL if there is none. */
void *request_alloc(struct request *request, size_t size);
/* Hands over memory from malloc(). NULL is fine, and is what comes back. */
void *request_take(struct request *request, void *memory);

/* Takes a part of the body in. false: the connection has to be cut. */
bool request_read(struct request *request, const char *data, size_t size);
/* All of it is here: replies, or hands the request on. */
void request_dispatch(struct request *request);

/* The value of a header field, or NULL. *N (may be NULL): how many. */
const char *request_field(const struct request *request, const char *name,
                          size_t *n);
/* Its Idempotency-Key into KEY, of STORE_KEY_BYTES_MAX + 1 bytes; left alone if
 * there is none. false, and a reply, if it is malformed or there are several. */
bool request_key(struct request *request, char *key);
enum target_found request_query(const struct request *request, const char *name,
                                char *value, size_t value_size);

/* Adds a reply header. Both are borrowed until the reply was sent. */
void request_header(struct request *request, const char *name,
                    const char *value);
/* The reply, once a request. BODY is borrowed until it was sent. */
void request_reply(struct request *request, unsigned status, const char *body,
                   size_t body_size);

void request_errand(struct request *request, request_run *run);
void request_order(struct request *request, request_answer *answer);

#endif

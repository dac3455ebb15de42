/*
 * A request as its handler sees it, and all memory that is made while serving it.
 *
 * A handler runs on an HTTP thread and must not block. It either replies at
 * once (request_reply, or what reply.h builds on it), or suspends the request, as
 * the last thing that it does with it. Then another thread serves the request,
 * and its own meanwhile serves others; it comes back by loop_post().
 *
 * Which thread has it
 * -------------------
 * A request belongs to one thread at a time and needs no lock: to its loop's
 * thread, and while it is suspended to the thread that serves it. The queues in
 * between make what one thread wrote visible to the next.
 *
 * The fields are in libmicrohttpd's memory, which is freed with the connection,
 * also while the request waits. So a request has none any more once it was
 * suspended; what is needed afterwards is copied. Its method is the route's.
 *
 * Ownership: what request_alloc() and request_take() return lives until the
 * reply was sent, and is freed in one place, request_end().
 */
#ifndef REQUEST_H
#define REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "db/store_async.h"
#include "server/base/address.h"
#include "server/base/tasks.h"
#include "server/http/loop.h"
#include "server/http/check.h"
#include "server/http/feed.h"
#include "server/inventory/inventory.h"
#include "server/order/order.h"

#define REQUEST_REPLY_HEADERS_MAX 8
#define REQUEST_OWNED_MAX         8

#define REQUEST_PARAM_BYTES_MAX 64

/* Replies, or says with a text why the store could not tell. */
typedef enum store_status request_run(struct request *request,
                                      struct worker *worker,
                                      struct store_error *error);
typedef void request_answer(struct request *request);

enum request_stage {
    REQUEST_NEW,     /* at most the request line is here */
    REQUEST_READING, /* the head was checked; the body comes */
    REQUEST_WAITING, /* suspended */
    REQUEST_REPLIED, /* the reply is with libmicrohttpd */
    REQUEST_FAILED,  /* which did not take it: no memory */
};

/* The kind of its wait, or of its last one. */
enum request_wait {
    REQUEST_FOR_NOTHING,
    REQUEST_FOR_TASK,
    REQUEST_FOR_ORDER,
    REQUEST_FOR_WRITE,
    REQUEST_FOR_INVENTORY,
};

/* Where the path was found in the table of route.c. */
struct request_match {
    char param[REQUEST_PARAM_BYTES_MAX + 1]; /* what stood for "{id}" */
    int64_t product_id;                      /* the same, of a product */
    char allow[64]; /* methods of this path: "GET, HEAD" */
};

struct request_header {
    const char *name;
    const char *value;
};

/* The first part is the connection's, and the same for all its requests; the middle is
 * cleared for each; the last, which is large, is left as it is. */
struct request {
    const struct app *app;
    struct loop *loop;
    struct in6_addr peer;

    /* for handlers, to read; the head is below */
    const char *method; /* of its route; the first that is cleared */
    const char *path;   /* decoded */
    const char *query;  /* raw; see target_query() */
    char *body;         /* NUL-terminated; "" if there is none */
    size_t body_size;
    struct request_match match;
    bool is_head, is_read; /* a HEAD; a HEAD or a GET */

    /* for mhd.c */
    atomic_uint *limited; /* its order is counted there; NULL = it is not */
    enum request_stage stage;
    enum request_wait waits_for;
    unsigned status; /* of the reply; 0 = none yet */

    /* for handlers, to fill: what is asked, then with its answer */
    union {
        struct order order;
        struct store_cancel cancel;
        struct store_pay pay;
        struct store_change change;
        struct store_restock restock;
        struct {
            int64_t after, limit;
        } page; /* of a list */
    };

    struct viewer viewer; /* entered: its reply goes on and on */

    /* for mhd.c and request.c */
    struct check_verdict verdict;
    uint64_t body_seen;
    struct request *next; /* of those that come back */
    struct task task;
    struct inventory_call call;
    request_run *run;
    request_answer *answer;
    void *owned[REQUEST_OWNED_MAX];
    size_t owned_n;

    const char *reply_body;
    size_t reply_size;
    struct request_header headers[REQUEST_REPLY_HEADERS_MAX];
    size_t headers_n;

    /* libmicrohttpd's, but for the target, which is a copy; without fields once it was
     * suspended. They are the part that is left. */
    struct check_head head;
};

/* A request begins, ends, and the next may begin. false: no memory. */
bool request_begin(struct request *request, const char *target);
void request_end(struct request *request);

/* Memory that lives as long as the request; NULL if there is none. */
void *request_alloc(struct request *request, size_t size);
/* Hands over memory from malloc(). NULL is fine, and is what comes back. */
void *request_take(struct request *request, void *memory);

/* Takes a part of the body in. false: the connection has to be cut. */
bool request_read(struct request *request, const char *data, size_t size);

/* The value of a header field, or NULL. *N (may be NULL): how many. */
const char *request_field(const struct request *request, const char *name,
                          size_t *n);

/* Adds a reply header. Both are borrowed until the reply was sent. */
void request_header(struct request *request, const char *name,
                    const char *value);
/* The reply, once a request. BODY is borrowed until it was sent. */
void request_reply(struct request *request, unsigned status, const char *body,
                   size_t body_size);

/* While the service drains, the four below hand nothing over: the reply is 503
 * shutting-down. */

/* RUN is called on a thread of app->readers. If it does not begin in time, mhd.c calls
 * suspend_withdraw(). */
void suspend_for_task(struct request *request, request_run *run);

/* Hands request->order to the dispatcher, together with others. ANSWER is called
 * on the loop's thread, and replies from the order. */
void suspend_for_order(struct request *request, request_answer *answer);

/* Begins WRITE, the verb's, of which what is asked is filled in. ANSWER is called on the
 * loop's thread, and replies. */
void suspend_for_write(struct request *request, enum store_verb verb,
                       struct store_write *write, request_answer *answer);

/* Hands request->call, of which what is asked is filled in, to the inventory. ANSWER
 * is called on the loop's thread, and replies from the call. Replies 503 if there
 * is no room. */
void suspend_for_inventory(struct request *request, request_answer *answer);

/* For the loop's thread: takes a request back whose task has not begun. True: it
 * does not wait any more, and has a reply. */
bool suspend_withdraw(struct request *request);

/* The client's address: the peer's, or the one that trusted proxies name. */
struct in6_addr access_client(const struct request *request);

/* Counts an order of this client, of IPv6 of its network; from any thread and without
 * waiting. The count is to be taken down when the order is answered. NULL: the client
 * has too many in flight. */
atomic_uint *access_enter(struct access_limit *limit,
                          const struct in6_addr *client);

/* The Host is none of ours, and that matters. For a target that was split. */
bool access_is_misdirected(const struct request *request);

bool access_is_admin(const struct request *request);

/* The admin token from now on; "" = none. From any thread. */
void access_set_token(const char *token);
bool access_has_token(void);

/* Whether HOST, whatever its port, is localhost, a loopback address, the name of this
 * machine, the host that --listen names (LISTEN), or the one that is bound (ADDRESS,
 * "HOST:PORT"). A tunnel has another port, and a page of another site another name. */
bool access_is_our_host(const char *host, const char *listen,
                        const char *address);

#endif

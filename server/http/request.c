/*
 * What a request owns, what it is asked, what it is answered. Nothing here
 * knows libmicrohttpd; where a connection has to wait, mhd.c is asked to.
 */
#include "server/http/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/app.h"
#include "server/http/http.h"
#include "server/http/parse.h"
#include "server/http/reply.h"
#include "server/order/desk.h"

/* A list of what is to be freed; its order does not matter. */
struct request_owned {
    struct request_owned *next;
    void *memory;
};

void request_init(struct request *request)
{
    memset(request, 0, offsetof(struct request, fields));
}

/*
 * The target is copied because libmicrohttpd cuts up its own: it turns "?", "&"
 * and "=" into NULs. Path and body begin as the empty string, never as NULL.
 */
bool request_begin(struct request *request, const char *target)
{
    const size_t from = offsetof(struct request, method);
    size_t size = strlen(target) + 1;
    char *text;

    memset((char *)request + from, 0, offsetof(struct request, fields) - from);
    /* The target, and room for its path decoded. */
    text = request_alloc(request, 2 * size);
    if (!text)
        return false;
    request->target = memcpy(text, target, size);
    request->target_size = size - 1;
    request->path = text + size;
    text[size] = '\0';
    request->query = "";
    request->body = text + size; /* "" until there is more */
    return true;
}

/* Once for each request: see connection_finish(). */
void request_end(struct request *request)
{
    struct request_owned *owned, *next;

    for (owned = request->owned; owned; owned = next) {
        next = owned->next;
        free(owned->memory);
        free(owned);
    }
    request->owned = NULL;
}

/*
 * If there is no memory to remember it by, it is freed at once and the caller
 * hears NULL: either way there is nothing left for it to do.
 */
void *request_take(struct request *request, void *memory)
{
    struct request_owned *owned;

    if (!memory)
        return NULL;
    owned = malloc(sizeof(*owned));
    if (!owned) {
        free(memory);
        return NULL;
    }
    *owned = (struct request_owned){request->owned, memory};
    request->owned = owned;
    return memory;
}

/* What does not fit into the arena any more has its own malloc(). */
void *request_alloc(struct request *request, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    char *piece = request->arena + request->arena_used;

    if (size > sizeof(request->arena) - request->arena_used)
        return request_take(request, malloc(size));
    /* The arena's size is a multiple too, so that this stays within it. */
    request->arena_used += (size + align - 1) / align * align;
    return piece;
}

/* Most bodies are short and come in one part: the second part is the room. */
static bool body_add(struct request *request, const char *data, size_t size)
{
    size_t room = request->body_size + size + 1;
    char *body;

    assert(request->body_size + size <= GATE_BODY_BYTES_MAX);
    if (room > request->body_room) {
        if (request->body_room)
            room = GATE_BODY_BYTES_MAX + 1;
        body = request_alloc(request, room);
        if (!body)
            return false;
        memcpy(body, request->body, request->body_size);
        request->body = body;
        request->body_room = room;
    }
    memcpy(request->body + request->body_size, data, size);
    request->body_size += size;
    request->body[request->body_size] = '\0';
    return true;
}

/*
 * A part of the body. One that is too long is read on and thrown away, so that
 * the client is there to read the 413; to a bound.
 */
bool request_read(struct request *request, const char *data, size_t size)
{
    struct gate_verdict *verdict = &request->verdict;

    request->body_seen += size;
    if (request->body_seen > GATE_SWALLOW_BYTES_MAX)
        return false;
    if (verdict->problem == PROBLEM_NONE &&
        request->body_seen > GATE_BODY_BYTES_MAX) {
        verdict->problem = PROBLEM_BODY_SIZE;
        verdict->detail = "the body may have 16384 bytes";
    }
    if (verdict->problem != PROBLEM_NONE)
        return true;
    return body_add(request, data, size);
}

/* Of several, the first; whoever cares asks for N. */
const char *request_field(const struct request *request, const char *name,
                          size_t *n)
{
    const struct gate_field *field;

    field = gate_find(request->fields, request->fields_n, name, n);
    return field ? field->value : NULL;
}

bool request_key(struct request *request, char *key)
{
    size_t n;
    const char *given = request_field(request, "Idempotency-Key", &n);

    if (n == 0 || (n == 1 && parse_key(given, key)))
        return true;
    reply_problem(request, PROBLEM_BAD_KEY,
                  "send one Idempotency-Key of 1 to 128 visible ASCII "
                  "characters, bare or in double quotes");
    return false;
}

enum target_found request_query(const struct request *request, const char *name,
                                char *value, size_t value_size)
{
    return target_query(request->query, name, value, value_size);
}

/* The array is as long as the most talkative reply: res_static.c's. */
void request_header(struct request *request, const char *name,
                    const char *value)
{
    assert(request->headers_n < REQUEST_REPLY_HEADERS_MAX);
    request->headers[request->headers_n++] =
        (struct request_header){name, value};
}

/*
 * Only notes the reply down. It is given to libmicrohttpd by the HTTP thread,
 * when the handler returns or the connection goes on: never from another
 * thread.
 */
void request_reply(struct request *request, unsigned status, const char *body,
                   size_t body_size)
{
    assert(!request->status && status);
    request->status = status;
    request->reply_body = body;
    request->reply_size = body_size;
}

/* The request is complete: refuse it, or let its handler answer it. */
void request_dispatch(struct request *request)
{
    const char *wrong;

    if (request->verdict.problem != PROBLEM_NONE) {
        reply_problem(request, request->verdict.problem, "%s",
                      request->verdict.detail);
        return;
    }
    wrong = target_split(request->target, request->target_size,
                         (char *)request->path, &request->query);
    if (wrong)
        reply_problem(request, PROBLEM_BAD_TARGET, "%s", wrong);
    else
        route_dispatch(request);
}

/* On a thread of the pool: the last line gives the request away. */
static void errand_run(struct errand *errand, struct store_reader *reader)
{
    struct request *request = errand->owner;

    request->run(request, reader);
    assert(request->status);
    http_wake(request);
}

/* Anywhere: its turn did not come. */
static void errand_refuse(struct errand *errand)
{
    struct request *request = errand->owner;

    if (http_is_open(request->http))
        reply_problem(request, PROBLEM_OVERLOADED,
                      "the database did not get to this request in time");
    else
        reply_problem(request, PROBLEM_SHUTTING_DOWN, "try another instance");
    http_wake(request);
}

static bool hand_to_pool(struct request *request)
{
    return pool_submit(request->app->pool, &request->errand);
}

/*
 * If the pool does not take it, it is because it is full or because we are
 * closing. To the client that makes a difference: 1 second or another server.
 */
void request_errand(struct request *request, request_run *run)
{
    request->run = run;
    request->errand.run = errand_run;
    request->errand.refuse = errand_refuse;
    request->errand.owner = request;
    if (http_park(request, hand_to_pool))
        return;
    if (http_is_open(request->http))
        reply_problem(request, PROBLEM_OVERLOADED,
                      "too many requests are waiting for the database");
    else
        reply_problem(request, PROBLEM_SHUTTING_DOWN, "try another instance");
}

/* On any thread that order.h names, an HTTP thread that hands in orders among
 * them: the same. */
static void ticket_done(struct ticket *ticket)
{
    http_wake(ticket->owner);
}

/*
 * The outcome is set before anybody sees the ticket: if the door is already
 * shut, the desk is not asked, and that outcome is the answer. If the desk
 * refuses it says why in the same place.
 */
void request_order(struct request *request, request_answer *answer)
{
    if (desk_foresees(request->app->desk, &request->ticket)) {
        answer(request);
        return;
    }
    request->answer = answer;
    request->ticket.done = ticket_done;
    request->ticket.owner = request;
    request->ticket.outcome = ORDER_SHUTTING_DOWN; /* if it gets no further */
    http_order(request);
}

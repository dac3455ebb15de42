/*
 * A request: the memory that it owns, its body and its reply; and the four ways to
 * wait. Each of these ends with loop_post(), on any thread, after which that
 * thread must not touch the request.
 */
#include "server/http/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/app.h"
#include "server/base/metrics.h"
#include "server/http/reply.h"
#include "server/order/dispatcher.h"

/* The target is copied because libmicrohttpd cuts up its own: it turns "?", "&" and "="
 * into NULs. Path and body begin as the empty string, never as NULL. */
bool request_begin(struct request *request, const char *target)
{
    /* The members before are the connection's and stay; the fields are large,
     * and count only up to fields_n. */
    const size_t from = offsetof(struct request, method);
    size_t size = strlen(target) + 1;
    char *text;

    memset((char *)request + from, 0,
           offsetof(struct request, head.fields) - from);
    /* The target, and room for its path decoded. */
    text = request_alloc(request, 2 * size);
    if (!text)
        return false;
    request->head.target = memcpy(text, target, size);
    request->head.target_size = size - 1;
    request->head.target_at = target;
    request->path = text + size;
    text[size] = '\0';
    request->query = "";
    request->body = text + size; /* "" until there is more */
    return true;
}

void request_end(struct request *request)
{
    while (request->owned_n > 0)
        free(request->owned[--request->owned_n]);
}

/* The array is as long as the longest list: a target, a body, and what the longest reply
 * is made of. */
void *request_take(struct request *request, void *memory)
{
    assert(request->owned_n < REQUEST_OWNED_MAX);
    if (memory)
        request->owned[request->owned_n++] = memory;
    return memory;
}

void *request_alloc(struct request *request, size_t size)
{
    return request_take(request, malloc(size));
}

/* A body that is too long is read on and thrown away, so that the client is there to
 * read the 413; to a bound. How long one in chunks will be nobody knows. */
bool request_read(struct request *request, const char *data, size_t size)
{
    struct check_verdict *verdict = &request->verdict;
    size_t room =
        verdict->body_size ? verdict->body_size : CHECK_BODY_BYTES_MAX;

    /* The bound is on all that came, also what was thrown away: a client must
     * not keep a connection with a body that never ends. */
    request->body_seen += size;
    if (request->body_seen > CHECK_SWALLOW_BYTES_MAX)
        return false;
    if (verdict->problem == PROBLEM_NONE &&
        request->body_seen > CHECK_BODY_BYTES_MAX) {
        verdict->problem = PROBLEM_BODY_SIZE;
        verdict->detail = "the body may have 16384 bytes";
    }
    if (verdict->problem != PROBLEM_NONE)
        return true;
    if (request->body_size == 0)
        request->body = request_alloc(request, room + 1);
    /* The library's count must not be trusted with memory: its parser is lenient. */
    if (!request->body || size > room - request->body_size)
        return false;
    memcpy(request->body + request->body_size, data, size);
    request->body_size += size;
    request->body[request->body_size] = '\0';
    return true;
}

const char *request_field(const struct request *request, const char *name,
                          size_t *n)
{
    const struct check_field *field = check_find(&request->head, name, n);

    return field ? field->value : NULL;
}

/* The array is as long as the longest list of headers, that of handle_files.c. */
void request_header(struct request *request, const char *name,
                    const char *value)
{
    assert(request->headers_n < REQUEST_REPLY_HEADERS_MAX);
    request->headers[request->headers_n++] =
        (struct request_header){name, value};
}

/* Only notes it down, on any thread; the loop's thread gives it to
 * libmicrohttpd. */
void request_reply(struct request *request, unsigned status, const char *body,
                   size_t body_size)
{
    assert(!request->status && status);
    request->status = status;
    request->reply_body = body;
    request->reply_size = body_size;
}

/* ---- waiting -------------------------------------------------------------- */

/* The request will come back. Only the loop's thread reads what is written here, so
 * that it does not matter whether it has come back already. */
static void wait_for(struct request *request, enum request_wait what)
{
    request->stage = REQUEST_WAITING;
    request->waits_for = what;
    request->loop->expected++;
}

/* The fields end before another thread has the request, because its client may
 * leave then, and libmicrohttpd's memory goes with it. False: there is a reply. */
static bool prepare_wait(struct request *request)
{
    request->head.fields_n = 0;
    if (request->loop->draining)
        reply_problem(request, PROBLEM_SHUTTING_DOWN, "try another instance");
    return !request->loop->draining;
}

static void task_run(struct task *task, struct worker *worker)
{
    struct request *request = task->owner;
    struct store_error error = {0};
    enum store_status status;

    if (!worker)
        reply_problem(request, PROBLEM_SHUTTING_DOWN, "try another instance");
    else if ((status = request->run(request, worker, &error)) != STORE_OK)
        reply_status(request, status, &error);
    /* A task that replied to nothing would leave its client waiting for ever. */
    assert(request->status);
    loop_post(request);
}

void suspend_for_task(struct request *request, request_run *run)
{
    if (!prepare_wait(request))
        return;
    request->run = run;
    request->task = (struct task){.run = task_run, .owner = request};
    wait_for(request, REQUEST_FOR_TASK);
    tasks_submit(request->app->readers, &request->task);
}

bool suspend_withdraw(struct request *request)
{
    if (request->waits_for != REQUEST_FOR_TASK ||
        !tasks_withdraw(request->app->readers, &request->task))
        return false;
    /* The request waits no more, though it has no loop_post(): what that would
     * count is taken back here. */
    request->stage = REQUEST_READING;
    request->loop->expected--;
    reply_problem(request, PROBLEM_OVERLOADED,
                  "the database did not get to this request in time");
    return true;
}

static void order_done(struct order *order)
{
    loop_post(order->owner);
}

void suspend_for_order(struct request *request, request_answer *answer)
{
    struct order *order = &request->order;

    /* An order that is sure to be refused is answered here: after a sale most
     * orders are, and none of them waits for a thread. */
    if (dispatcher_refuse_known(request->app->dispatcher, order)) {
        answer(request);
        return;
    }
    if (!prepare_wait(request)) {
        /* The dispatcher never hears of this order, and so does not count it. */
        metrics_order(request->app->metrics, ORDER_SHUTTING_DOWN);
        return;
    }
    order->done = order_done;
    order->owner = request;
    request->answer = answer;
    wait_for(request, REQUEST_FOR_ORDER);
    loop_order(request->loop, order);
}

/* Dispatcher and readers are stopped before the loops are freed; the store is
 * not. So loop_free() waits for this count. */
static void write_done(struct store_write *write)
{
    struct request *request = write->owner;
    struct loop *loop = request->loop;

    if (reply_of_status(write->status) == PROBLEM_STORE_UNAVAILABLE)
        metrics_count(request->app->metrics, METRICS_CHANGES_FAILED, 1);
    loop_post(request);
    /* The count falls after the post, and by `loop`, because the request may be
     * gone: until it is 0 loop_free() must wait. */
    atomic_fetch_sub(&loop->writes, 1);
}

void suspend_for_write(struct request *request, enum store_verb verb,
                       struct store_write *write, request_answer *answer)
{
    if (!prepare_wait(request))
        return;
    write->done = write_done;
    write->owner = request;
    request->answer = answer;
    atomic_fetch_add(&request->loop->writes, 1);
    wait_for(request, REQUEST_FOR_WRITE);
    store_begin(request->app->store, verb, write);
}

/* The text is the request's before it goes back: its client may have left. */
static void call_done(struct inventory_call *call)
{
    struct request *request = call->owner;

    call->reply.text = request_take(request, call->reply.text);
    loop_post(request);
}

void suspend_for_inventory(struct request *request, request_answer *answer)
{
    if (!prepare_wait(request)) {
        if (request->call.request.key)
            metrics_order(request->app->metrics, ORDER_SHUTTING_DOWN);
        return;
    }
    request->call.done = call_done;
    request->call.owner = request;
    request->answer = answer;
    /* The call may have come back before this returns; it lies in the inbox
     * until this thread looks, so that the wait may be noted late. */
    if (inventory_submit(request->app->inventory, &request->call))
        wait_for(request, REQUEST_FOR_INVENTORY);
    else
        reply_problem(request, PROBLEM_OVERLOADED,
                      "too many requests are waiting; nothing was done");
}

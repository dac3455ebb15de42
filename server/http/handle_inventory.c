/*
 * What an order service does not know itself: it has an inventory service answer, and
 * passes that reply on as it is. A request that is malformed it refuses itself.
 *
 * An order without an Idempotency-Key gets one here, so that it can be asked for
 * again; if its outcome is not known, the customer is told that key.
 */
#include "server/http/route.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "server/http/reply.h"

static void pass_on(struct request *request)
{
    const struct fetch_reply *reply = &request->call.reply;

    if (*reply->location)
        request_header(request, "Location", reply->location);
    if (*reply->retry_after)
        request_header(request, "Retry-After", reply->retry_after);
    if (reply->replayed)
        request_header(request, "Idempotent-Replayed", "true");
    reply_document(request, reply->status, reply->type, reply->text,
                   reply->size);
}

static void order_answer(struct request *request)
{
    struct order *order = &request->order;
    bool answered = request->call.end == FETCH_ANSWERED;

    /* A customer who sent no key needs ours now: only by it can the order be
     * found, or sent again without being sold twice. */
    if (order->is_fallback && (!answered || request->call.reply.status == 503))
        request_header(request, "Idempotency-Key", order->record.key);
    if (answered) {
        pass_on(request);
        return;
    }
    if (request->call.end != FETCH_LOST) {
        order_not_now(order, request->call.refusal, request->call.why);
    } else {
        /* The status makes reply_outcome() say that it is open: a program must
         * not take the 503 for "nothing was ordered". */
        order->record.status = STORE_UNKNOWN;
        order_set_outcome(order, ORDER_STORE_UNAVAILABLE,
                          "no inventory service has answered; it may have been "
                          "ordered: look for it by its key");
    }
    reply_outcome(request);
}

/* "http://host/path" is the same as "/path". */
static const char *target_of(const struct request *request)
{
    const char *target = request->head.target;

    return *target == '/' ? target : strchr(strstr(target, "://") + 3, '/');
}

/* A key of ours, which no earlier try had, nobody can guess, since it finds the order. So
 * few random bytes always come at once, and all. */
void handle_inventory_order(struct request *request)
{
    struct order *order = &request->order;
    uint64_t random[2];

    /* The flag says that the key is ours. No earlier try can have had it, so
     * that order_not_now() may say that nothing was ordered. */
    order->is_fallback = !*order->record.key;
    if (order->is_fallback) {
        (void)getrandom(random, sizeof(random), 0);
        snprintf(order->record.key, sizeof(order->record.key),
                 "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    }
    request->call.request =
        (struct fetch_request){.method = "POST",
                               .target = target_of(request),
                               .key = order->record.key,
                               .body = request->body,
                               .body_size = request->body_size};
    suspend_for_inventory(request, order_answer);
}

static void other_answer(struct request *request)
{
    if (request->call.end == FETCH_ANSWERED)
        pass_on(request);
    else
        reply_problem(request, (enum problem)request->call.refusal, "%s%s",
                      request->call.why,
                      request->call.end == FETCH_NOT_SENT ? "; nothing was done"
                                                          : ": ask again");
}

/* A cancel and a payment as well: repeated, they do nothing more. */
void handle_inventory_other(struct request *request)
{
    bool has_body = !strcmp(request->method, "POST");

    request->call.request =
        (struct fetch_request){.method = request->method,
                               .target = target_of(request),
                               .body = has_body ? request->body : NULL,
                               .body_size = request->body_size};
    suspend_for_inventory(request, other_answer);
}

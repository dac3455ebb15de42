/*
 * For operators: is the service alive, is it ready, how is it doing, does the
 * ledger add up.
 *
 * Alive means that this process answers, and that a restart would not help: so
 * nobody restarts it because Redis is away. Ready means that an order would
 * succeed: see health.h.
 */
#include "db/store_async.h"
#include "server/http/route.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "server/base/app.h"
#include "server/base/config.h"
#include "server/base/health.h"
#include "server/base/metrics.h"
#include "server/http/reply.h"
#include "server/order/dispatcher.h"

/* An audit of more segments than this tells the sums, but not all lines. */
#define AUDIT_LINES_MAX 10000

/* Not alive is what only a restart mends; see "STORE_GONE". The process itself
 * goes on: what was sold is in a file that may have no other name any more. */
void handle_operations_livez(struct request *request)
{
    static const char alive[] = "{\"status\":\"ok\"}\n";

    if (health_needs_restart(request->app->health))
        reply_problem(request, PROBLEM_NOT_READY,
                      "%s: see FILES in stockade(1) before a restart",
                      store_status_text(STORE_GONE));
    else
        reply_document(request, 200, "application/json", alive,
                       sizeof(alive) - 1);
}

/* The health thread's last answer, because a look of its own would take a reader from
 * somebody. */
void handle_operations_readyz(struct request *request)
{
    static const char ready[] =
        "{\"status\":\"ok\",\"store\":\"ok\",\"lock\":\"ok\"}\n";
    char why[HEALTH_TEXT_BYTES];

    if (health_look(request->app->health, why) == HEALTH_READY)
        reply_document(request, 200, "application/json", ready,
                       sizeof(ready) - 1);
    else
        reply_problem(request, PROBLEM_NOT_READY, "%s", why);
    /* The question is noted after the reply: who asks now is told what is
     * known, and the next one what the try finds. */
    health_try(request->app->health);
}

/* On the HTTP thread: it reads some atomics and formats a few KiB, and has to
 * work when the readers are what is stuck. */
void handle_operations_metrics(struct request *request)
{
    const struct loop_group *group = request->loop->group;
    const struct app *app = request->app;
    struct metrics *metrics = app->metrics;
    bool is_open = atomic_load(&app->is_open);
    char why[HEALTH_TEXT_BYTES];
    enum health_answer answer = health_look(app->health, why);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    metrics_set(metrics, METRICS_CONNECTIONS,
                atomic_load(&group->connections_n));
    metrics_set(metrics, METRICS_CONNECTIONS_LIMIT,
                (uint64_t)app->config->connections_max);
    metrics_set(metrics, METRICS_VIEWERS, feed_viewers(group->feed));
    metrics_set(metrics, METRICS_READY,
                answer == HEALTH_UNKNOWN ? METRICS_UNKNOWN
                                         : answer == HEALTH_READY);
    metrics_set(metrics, METRICS_WAITING_LIMIT,
                (uint64_t)app->config->queue_max);
    /* The depth is one of the parts, which may be looked at only once they are
     * open. */
    if (is_open)
        metrics_set(metrics, METRICS_WAITING,
                    app->inventory ? inventory_depth(app->inventory)
                                   : dispatcher_depth(app->dispatcher));
    if (is_open && !app->inventory) {
        metrics_set(metrics, METRICS_RETRIES, store_retries(app->store));
        metrics_set(metrics, METRICS_EXPIRED, store_expired(app->store));
        health_try(app->health); /* the next scrape shows what it finds */
    }
    if (out) {
        metrics_write(metrics, out);
        if (app->inventory)
            inventory_metrics(app->inventory, out);
        if (fclose(out)) {
            free(text);
            text = NULL;
        }
    }
    reply_document(request, 200, "text/plain; version=0.0.4",
                   request_take(request, text), size);
}

/* The segments, as they come; freed by the handler. */
struct lines {
    struct store_audit_line *at;
    size_t n;
};

/* Without memory the sums are still right, and there are no lines. */
static void keep_line(void *ctx, const struct store_audit_line *line)
{
    struct lines *lines = ctx;

    if (lines->at && lines->n < AUDIT_LINES_MAX)
        lines->at[lines->n++] = *line;
}

/* One at a time: it reads the whole ledger, and several would leave no reader
 * for other requests. 200 also when it is not balanced: the question was
 * answered. */
enum store_status handle_operations_audit(struct request *request,
                                          struct worker *worker,
                                          struct store_error *error)
{
    static pthread_mutex_t auditing = PTHREAD_MUTEX_INITIALIZER;
    struct metrics *metrics = worker->app->metrics;
    struct store_audit audit = {0};
    struct lines lines = {0};
    enum store_status status;

    if (pthread_mutex_trylock(&auditing) != 0) {
        reply_problem(request, PROBLEM_OVERLOADED, "an audit is running");
        return STORE_OK;
    }
    /* Pages that are not written to cost nothing. */
    lines.at = malloc(AUDIT_LINES_MAX * sizeof(*lines.at));
    status =
        store_audit(worker->reader, keep_line, &lines, NULL, 0, &audit, error);
    if (status == STORE_OK) {
        metrics_set(metrics, METRICS_OVERSOLD, (uint64_t)audit.oversold);
        metrics_set(metrics, METRICS_BALANCED, audit.balanced);
        metrics_set(metrics, METRICS_AUDITED, (uint64_t)time(NULL));
        reply_json_take(request, 200, render_audit(&audit, lines.at, lines.n));
    }
    free(lines.at);
    pthread_mutex_unlock(&auditing);
    return status;
}

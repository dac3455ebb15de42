/*
 * For operators: is the service alive, is it ready, how is it doing, does the
 * ledger add up.
 *
 * Alive means that this process answers. It depends on nothing else, so that
 * nobody restarts it because Redis is away. Ready means that an order would
 * have a chance: the store can be read and the lock server answers.
 */
#include "server/http/resources/route.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lock/dlock.h"
#include "server/app.h"
#include "server/clock.h"
#include "server/http/reply/reply.h"
#include "server/metrics.h"
#include "server/order/dispatcher.h"

/* Of more segments than this the audit only tells the sums. */
#define AUDIT_LINES_MAX 10000

#define STRANDED_EVERY_MS 1000

void handle_operations_livez(struct request *request)
{
    static const char alive[] = "{\"status\":\"ok\"}\n";

    reply_document(request, 200, "application/json", alive, sizeof(alive) - 1);
}

/*
 * One look at a time; other requests meanwhile get what the last one found.
 * Otherwise, while the lock server hangs, a few probes a second would keep all
 * readers waiting for it. A look is bounded by libdlock's timeouts.
 */
static enum dlock_status ask_lock_server(struct dlock_session *session)
{
    static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
    static atomic_int last = DLOCK_UNREACHABLE;
    struct dlock_holder holder;
    enum dlock_status status;

    if (pthread_mutex_trylock(&asking) == 0) {
        status = dlock_inspect(session, "readyz", &holder, NULL);
        /* A strategy that cannot tell has no server to ask. */
        atomic_store(&last, (int)(status == DLOCK_MISUSE ? DLOCK_OK : status));
        pthread_mutex_unlock(&asking);
    }
    return (enum dlock_status)atomic_load(&last);
}

/* 503 when shutting down, as of each task. */
void handle_operations_readyz(struct request *request, struct worker *worker)
{
    static const char ready[] =
        "{\"status\":\"ok\",\"store\":\"ok\",\"lock\":\"ok\"}\n";
    struct store_error error = {0};
    struct store_product product;
    enum dlock_status lock;
    size_t n;

    if (store_product_list(worker->reader, 0, 1, &product, &n, &error) !=
        STORE_OK) {
        reply_problem(request, PROBLEM_NOT_READY, "store: %s", error.text);
        return;
    }
    lock = ask_lock_server(worker->session);
    if (lock != DLOCK_OK)
        reply_problem(request, PROBLEM_NOT_READY, "lock server: %s",
                      dlock_status_text(lock));
    else
        reply_document(request, 200, "application/json", ready,
                       sizeof(ready) - 1);
}

static atomic_bool stranded_under_way;

static void stranded_run(struct task *task, struct worker *worker)
{
    int64_t units;

    (void)task;
    if (store_stranded(worker->reader, &units, NULL) == STORE_OK)
        metrics_set(worker->app->metrics, METRICS_STRANDED, (uint64_t)units);
    atomic_store(&stranded_under_way, false);
}

static void stranded_refuse(struct task *task)
{
    (void)task;
    atomic_store(&stranded_under_way, false);
}

/* Counts units in retired segments, at most once a second: it reads all
 * segments. The next scrape shows what was found. */
static void count_stranded(struct tasks *readers)
{
    static struct task task = {.run = stranded_run, .refuse = stranded_refuse};
    static atomic_uint_fast64_t due_ms;
    uint64_t now_ms = clock_ms();

    if (now_ms < atomic_load(&due_ms) ||
        atomic_exchange(&stranded_under_way, true))
        return;
    atomic_store(&due_ms, now_ms + STRANDED_EVERY_MS);
    if (!tasks_submit(readers, &task))
        stranded_refuse(&task);
}

/* On the HTTP thread: it reads some atomics and formats a few KiB, and has to
 * work when the readers are what is stuck. */
void handle_operations_metrics(struct request *request)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out) {
        metrics_write(request->app->metrics,
                      dispatcher_depth(request->app->dispatcher), out);
        if (fclose(out)) {
            free(text);
            text = NULL;
        }
        count_stranded(request->app->readers);
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
void handle_operations_audit(struct request *request, struct worker *worker)
{
    static pthread_mutex_t auditing = PTHREAD_MUTEX_INITIALIZER;
    struct store_error error = {0};
    struct store_audit audit = {0};
    struct lines lines = {0};
    enum store_status status;

    if (pthread_mutex_trylock(&auditing) != 0) {
        reply_problem(request, PROBLEM_OVERLOADED, "an audit is running");
        return;
    }
    /* Pages that are not written to cost nothing. */
    lines.at = malloc(AUDIT_LINES_MAX * sizeof(*lines.at));
    status =
        store_audit(worker->reader, keep_line, &lines, NULL, 0, &audit, &error);
    if (status == STORE_OK)
        reply_json_take(request, 200, render_audit(&audit, lines.at, lines.n));
    else
        reply_status(request, status, &error);
    free(lines.at);
    pthread_mutex_unlock(&auditing);
}

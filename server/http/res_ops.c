/*
 * For those who run the service: is it alive, is it ready, how is it doing,
 * does the ledger add up.
 *
 * Alive means that this process answers: it depends on nothing else, so that
 * nobody restarts it because Redis is away. Ready means that an order would
 * have a chance: the store can be read and the lock server answers.
 */
#include "server/http/res.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lock/dlock.h"
#include "server/app.h"
#include "server/http/http.h"
#include "server/http/render.h"
#include "server/http/reply.h"
#include "server/http/request.h"
#include "server/metrics.h"
#include "server/order/desk.h"
#include "server/selfcheck.h"

/* Of more stock cells than this the audit only tells the sums. */
#define AUDIT_LINES_MAX 10000

void res_ops_livez(struct request *request)
{
    static const char alive[] = "{\"status\":\"ok\"}";

    request_header(request, "Content-Type", "application/json");
    request_header(request, "Cache-Control", "no-store");
    request_reply(request, 200, alive, sizeof(alive) - 1);
}

/* ---- /readyz ------------------------------------------------------------ */

/* Bounded by libdlock's connect and command timeouts. */
static enum dlock_status inspect(struct dlock *locks)
{
    struct dlock_session *session;
    struct dlock_holder holder;
    enum dlock_status status;

    status = dlock_session_open(locks, &session, NULL);
    if (status != DLOCK_OK)
        return status;
    status = dlock_inspect(session, "readyz", &holder, NULL);
    dlock_session_close(session);
    /* A strategy that cannot tell needs nobody to ask either. */
    return status == DLOCK_MISUSE ? DLOCK_OK : status;
}

/*
 * One look at a time; whoever comes meanwhile hears what the last one found.
 * Otherwise, while the lock server hangs, a few probes a second would keep all
 * threads of the pool waiting for it, and nobody could look at a product.
 */
static enum dlock_status ask_lock_server(struct dlock *locks)
{
    static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
    static atomic_int last = DLOCK_UNREACHABLE;

    if (pthread_mutex_trylock(&asking) == 0) {
        atomic_store(&last, (int)inspect(locks));
        pthread_mutex_unlock(&asking);
    }
    return (enum dlock_status)atomic_load(&last);
}

static void ready_run(struct request *request, struct store_reader *reader)
{
    struct store_error store_error = {0};
    struct store_product product;
    enum dlock_status lock;
    enum store_status store;
    size_t n;

    store = store_product_list(reader, 0, 1, &product, &n, &store_error);
    if (store != STORE_OK) {
        reply_problem(request, PROBLEM_NOT_READY, "store: %s",
                      store_error.text);
        return;
    }
    lock = ask_lock_server(request->app->locks);
    if (lock != DLOCK_OK)
        reply_problem(request, PROBLEM_NOT_READY, "lock server: %s",
                      dlock_status_text(lock));
    else
        reply_json_take(request, 200, render_ready("ok", "ok"));
}

void res_ops_readyz(struct request *request)
{
    request_errand(request, ready_run); /* 503 when shutting down */
}

/* ---- /metrics ----------------------------------------------------------- */

/*
 * On the HTTP thread: it reads some atomics and formats a few KiB, and has to
 * work when the pool is what is stuck. What takes a look at the database is
 * asked for now and shown the next time.
 */
void res_ops_metrics(struct request *request)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out) {
        metrics_write(request->app->metrics, desk_depth(request->app->desk),
                      out);
        if (fclose(out)) {
            free(text);
            text = NULL;
        }
    }
    text = request_take(request, text);
    if (!text) {
        reply_problem(request, PROBLEM_OVERLOADED, "out of memory");
        return;
    }
    selfcheck_stranded(request->app->selfcheck);
    request_header(request, "Content-Type", "text/plain; version=0.0.4");
    request_header(request, "Cache-Control", "no-store");
    request_reply(request, 200, text, size);
}

/* ---- GET /api/audit ----------------------------------------------------- */

/* The stock cells, as they come in; freed by audit_run(). */
struct lines {
    struct store_audit_line *at;
    size_t n, room;
};

/* Without memory for more the sums are still right, and the lines fewer. */
static void keep_line(void *ctx, const struct store_audit_line *line)
{
    struct store_audit_line *bigger;
    struct lines *lines = ctx;

    if (lines->n == lines->room) {
        if (lines->room >= AUDIT_LINES_MAX)
            return;
        lines->room = lines->room ? lines->room * 2 : 64;
        bigger = realloc(lines->at, lines->room * sizeof(*lines->at));
        if (!bigger) {
            lines->room = lines->n;
            return;
        }
        lines->at = bigger;
    }
    lines->at[lines->n++] = *line;
}

/*
 * 200 also when it is not balanced: the question was answered. The exit code is
 * the command line's business.
 */
static void audit_reply(struct request *request, struct store_reader *reader)
{
    struct store_error error = {0};
    struct store_audit audit = {0};
    struct lines lines = {0};
    enum store_status status;

    status = store_audit(reader, keep_line, &lines, NULL, 0, &audit, &error);
    if (status == STORE_OK)
        reply_json_take(request, 200, render_audit(&audit, lines.at, lines.n));
    else
        reply_status(request, status, &error);
    free(lines.at);
}

/* One at a time: it reads the whole ledger, and two of them would leave no
 * thread of the pool for anybody else. */
static void audit_run(struct request *request, struct store_reader *reader)
{
    static pthread_mutex_t auditing = PTHREAD_MUTEX_INITIALIZER;

    if (pthread_mutex_trylock(&auditing) != 0) {
        reply_problem(request, PROBLEM_OVERLOADED, "an audit is running");
        return;
    }
    audit_reply(request, reader);
    pthread_mutex_unlock(&auditing);
}

void res_ops_audit(struct request *request)
{
    request_errand(request, audit_run);
}

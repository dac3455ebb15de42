/*
 * A stream is one job that the committer gets again and again. It is in the
 * committer's hands or in nobody's, which one atomic flag tells: the first to
 * wake the stream hands the job in, all others find that it is on its way.
 *
 * The flag falls before done() is called, and done() looks for more orders
 * after that; so an order that came too late to be taken either finds the flag
 * down and wakes the stream itself, or is found by done().
 */
#include "db/committer.h"
#include "db/failure.h"
#include "db/fence.h"
#include "db/place.h"
#include "db/recall.h"
#include "db/store_private.h"

#include <stdlib.h>

struct store_stream {
    struct committer_job job; /* first: done() gets it and finds the rest */
    struct store *store;
    struct step step; /* step.h says why a copy */
    struct store_source source;
    atomic_bool handed_in;
    struct recall *recall;
    uint64_t generation; /* when the lots were taken */
    size_t lots_n;
    struct store_lot lots[STORE_LOTS_MAX];
};

/* ---- on the committer's thread ------------------------------------------ */

/*
 * Nothing is sold of a lot before its fences were looked at, so one that is
 * stale needs no undoing.
 */
static enum store_status place_lot(struct store_stream *stream,
                                   struct placing *placing,
                                   struct store_lot *lot,
                                   struct store_error *error)
{
    int64_t product_id = lot->orders[0]->product_id;
    bool valid;

    if (step_before(&stream->step, "place", product_id) == STORE_FAIL)
        return failure_set(error, STORE_IO, "place failed on purpose");
    valid = fence_valid(lot->fence, error);
    lot->status =
        valid ? placing_lot(placing, lot->orders, lot->n, lot->fence, error)
              : STORE_MISUSE;
    if (lot->status != STORE_OK)
        place_fail(lot->orders, lot->n, lot->status);
    (void)step_after(&stream->step, "place", product_id);
    return lot->status == STORE_STALE_FENCE || !valid ? STORE_OK : lot->status;
}

static enum store_status place_lots(struct store_stream *stream,
                                    struct sqlite *db,
                                    struct store_error *error)
{
    struct placing placing;
    enum store_status status = STORE_OK;

    placing_begin(&placing, db, stream->recall);
    for (size_t i = 0; i < stream->lots_n && status == STORE_OK; i++)
        status = place_lot(stream, &placing, &stream->lots[i], error);
    return status == STORE_OK ? placing_end(&placing, error) : status;
}

static enum store_status run(struct sqlite *db, void *ctx,
                             struct store_error *error)
{
    struct store_stream *stream = ctx;
    enum store_status status;

    stream->generation = soldout_generation(&stream->store->soldout);
    stream->lots_n =
        stream->source.take(stream->source.ctx, stream->lots, STORE_LOTS_MAX);
    status = recall_begin(stream->recall, db, error);
    if (status == STORE_OK)
        status = place_lots(stream, db, error);
    if (status == STORE_OK)
        recall_end(stream->recall, db);
    return status;
}

/* The transaction failed: whatever the lots were told before is void. */
static void fail_all(struct store_stream *stream, enum store_status status)
{
    struct store_lot *lot;

    recall_forget(stream->recall);
    for (size_t i = 0; i < stream->lots_n; i++) {
        lot = &stream->lots[i];
        lot->status = status;
        place_fail(lot->orders, lot->n, status);
    }
}

/* It is committed. */
static void note_sold_out(struct store_stream *stream)
{
    const struct store_order *order;

    for (size_t i = 0; i < stream->lots_n; i++) {
        for (size_t j = 0; j < stream->lots[i].n; j++) {
            order = stream->lots[i].orders[j];
            if (order->status == STORE_SOLD_OUT)
                soldout_note(&stream->store->soldout, order->product_id,
                             order->quantity, stream->generation);
        }
    }
}

static void done(struct committer_job *job)
{
    struct store_stream *stream = (struct store_stream *)job;
    struct store_error error;
    size_t n;

    /* BEGIN failed and nobody was asked: they get to hear of it as well. */
    if (job->status != STORE_OK && stream->lots_n == 0)
        stream->lots_n = stream->source.take(stream->source.ctx, stream->lots,
                                             STORE_LOTS_MAX);
    if (job->status != STORE_OK)
        fail_all(stream, job->status);
    else
        note_sold_out(stream);
    n = stream->lots_n;
    stream->lots_n = 0;
    /* From then on the job is whose who hands it in next, text and all. */
    error = job->error;
    atomic_store(&stream->handed_in, false);
    stream->source.done(stream->source.ctx, stream->lots, n, &error);
}

/* ---- from outside ------------------------------------------------------- */

enum store_status store_stream_open(struct store *store,
                                    const struct store_source *source,
                                    struct store_stream **stream,
                                    struct store_error *error)
{
    struct store_stream *opened = calloc(1, sizeof(*opened));

    if (opened)
        opened->recall = recall_new();
    if (!opened || !opened->recall) {
        free(opened);
        return failure_set(error, STORE_IO, "out of memory");
    }
    opened->job =
        (struct committer_job){.run = run, .done = done, .ctx = opened};
    opened->store = store;
    opened->step = store->step;
    opened->source = *source;
    *stream = opened;
    return STORE_OK;
}

bool store_stream_wake(struct store_stream *stream)
{
    if (atomic_exchange(&stream->handed_in, true))
        return true;
    return committer_submit(stream->store->committer, &stream->job);
}

bool store_knows_sold_out(const struct store *store, int64_t product_id,
                          int64_t quantity)
{
    return soldout_knows(&store->soldout, product_id, quantity) != 0;
}

static enum store_status do_nothing(struct sqlite *db, void *ctx,
                                    struct store_error *error)
{
    (void)db, (void)ctx, (void)error;
    return STORE_OK;
}

/*
 * Jobs are answered in the order in which they were handed in: when one of ours
 * is, the stream's last has been. Unless that was handed in meanwhile, by a
 * done() that was under way: it comes before the second one.
 */
void store_stream_settle(struct store_stream *stream)
{
    for (int i = 0; i < 2; i++)
        committer_do(stream->store->committer, do_nothing, NULL, NULL);
}

void store_stream_close(struct store_stream *stream)
{
    if (!stream)
        return;
    store_stream_settle(stream);
    recall_free(stream->recall);
    free(stream);
}

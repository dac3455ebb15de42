/* A hash table of queues, and lists in which they stand by turns, so that none
 * is forgotten. See queue.h. */
#include "server/order/queue.h"

#include <assert.h>
#include <stdlib.h>

/* Gaps between orders are averaged with this weight of the past. */
#define GAP_WEIGHT_PAST 7
#define GAP_WEIGHT_ALL  8

#define KEEP_GAPS   8
#define KEEP_US_MIN 5000
#define KEEP_MANY   64 /* queues, and more */

/* Few queues: a lock that is kept in vain keeps others out, so it goes back
 * soon. Many: each one's orders come seldom, and short terms would have every
 * lock taken anew for each order. */
static const struct terms {
    uint64_t idle_us_max; /* without an order */
    uint64_t held_us_max; /* in one go, since orders may be placed */
} FEW = {100000, 1000000}, EACH_OF_MANY = {1000000, 3000000};

void queues_init(struct queues *queues)
{
    queues->table = NULL;
    TAILQ_INIT(&queues->ready);
}

void queues_release(struct queues *queues)
{
    struct queue *queue, *next;

    HASH_ITER(hh, queues->table, queue, next)
    {
        queue_free(queues, queue);
    }
}

struct queue *queue_find(struct queues *queues, int64_t product_id,
                         int64_t segment)
{
    /* The key is hashed and compared as bytes: struct queue_id must have no
     * padding. */
    const struct queue_id id = {product_id, segment};
    struct queue *queue;

    /* The analyser loses the bytes of ID. NOLINTNEXTLINE(*Undefined*) */
    HASH_FIND(hh, queues->table, &id, sizeof(id), queue);
    return queue;
}

struct queue *queue_need(struct queues *queues, int64_t product_id,
                         int64_t segment)
{
    struct queue *queue = queue_find(queues, product_id, segment);

    if (queue)
        return queue;
    queue = calloc(1, sizeof(*queue));
    if (!queue)
        return NULL;
    queue->id = (struct queue_id){product_id, segment};
    queue->gap_us = UINT64_MAX;
    queue->lock.product_id = product_id;
    lock_name(product_id, segment, queue->lock.name);
    TAILQ_INIT(&queue->orders);
    HASH_ADD(hh, queues->table, id, sizeof(queue->id), queue);
    if (queue->hh.tbl)
        return queue;
    free(queue); /* the table has no memory */
    return NULL;
}

void queue_free(struct queues *queues, struct queue *queue)
{
    assert(queue->state == QUEUE_FREE && !queue->waiting && !queue->batch);
    /* The timer is not cancelled: the queue is freed when that has fired, or at
     * the end, when nobody asks the timers any more. */
    queue_list_put(queue, NULL);
    HASH_DEL(queues->table, queue); /* NOLINT(*unix.Malloc): out before free */
    free(queue);
}

/* A pause says nothing about how busy the times between are. The order that came first
 * need not be the first to get here. */
void queue_push(struct queue *queue, struct order *order, bool again)
{
    uint64_t now_us = order->submitted_us;
    uint64_t gap = now_us > queue->pushed_us ? now_us - queue->pushed_us : 0;

    order->queue = queue;
    queue->waiting++;
    /* An order that has waited before is older than all that wait, and says
     * nothing of how often customers come: the gap stays as it is. */
    if (again) {
        TAILQ_INSERT_HEAD(&queue->orders, order, place);
        return;
    }
    TAILQ_INSERT_TAIL(&queue->orders, order, place);
    /* The first gap after a pause is the whole estimate, and those that follow
     * correct it slowly: one customer who hesitates must not end the hold. */
    if (queue->pushed_us == 0 || gap > QUEUE_GAP_MAX_US)
        queue->gap_us = UINT64_MAX;
    else if (queue->gap_us == UINT64_MAX)
        queue->gap_us = gap;
    else
        queue->gap_us =
            (queue->gap_us * GAP_WEIGHT_PAST + gap) / GAP_WEIGHT_ALL;
    /* The time must not go back, or the next gap would be measured from an
     * order that was older. */
    if (queue->pushed_us < now_us)
        queue->pushed_us = now_us;
}

void queue_remove(struct order *order)
{
    struct queue *queue = order->queue;

    assert(queue);
    TAILQ_REMOVE(&queue->orders, order, place);
    queue->waiting--;
    order->queue = NULL;
}

struct order *queue_pop(struct queue *queue, size_t n)
{
    struct order *list = NULL, **last = &list, *order;

    while (n-- > 0 && (order = TAILQ_FIRST(&queue->orders))) {
        queue_remove(order);
        *last = order;
        last = &order->next;
    }
    *last = NULL;
    return list;
}

void queue_list_put(struct queue *queue, struct queue_list *list)
{
    if (queue->list == list)
        return;
    /* The list must be left first, because `place` links into one at a time. */
    if (queue->list)
        TAILQ_REMOVE(queue->list, queue, place);
    if (list)
        TAILQ_INSERT_TAIL(list, queue, place);
    queue->list = list;
}

void queue_update(struct queues *queues, struct queue *queue)
{
    /* A queue with a batch is not ready: `batch` is one list, and take() would
     * find the same queue again in the same transaction. One that leaves gets
     * no more orders, or its lock would never be given back. */
    bool is_ready = queue->state == QUEUE_HELD && queue->waiting > 0 &&
                    queue->quota > 0 && !queue->is_thinking && !queue->batch &&
                    !queue->leaves;

    if (is_ready)
        queue_list_put(queue, &queues->ready);
    /* Any other list is one of locks.c, in which the queue waits for its task. */
    else if (queue->list == &queues->ready)
        queue_list_put(queue, NULL);
}

uint64_t queue_keep_until_us(const struct queue *queue, size_t queues_n)
{
    const struct terms *terms = queues_n < KEEP_MANY ? &FEW : &EACH_OF_MANY;
    uint64_t held_until = queue->held_us + terms->held_us_max;
    /* A gap that is not known makes this wrap; then it is not used. */
    uint64_t idle_us = queue->gap_us * KEEP_GAPS;

    if (queue->waiting > 0)
        return held_until;
    if (queue->gap_us > terms->idle_us_max)
        return 0;
    /* Below a few milliseconds the pauses of threads and networks are longer
     * than the gaps. */
    if (idle_us < KEEP_US_MIN)
        idle_us = KEEP_US_MIN;
    if (idle_us > terms->idle_us_max)
        idle_us = terms->idle_us_max;
    idle_us += queue->pushed_us;
    return idle_us < held_until ? idle_us : held_until;
}

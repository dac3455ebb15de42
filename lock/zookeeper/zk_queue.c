/*
 * The order of a queue. The server lists a directory in no order; the order is in the
 * numbers that it has put behind the names.
 */
#include "lock/zookeeper/zk_queue.h"

#include <stdlib.h>
#include <string.h>

/* After the last colon; the counter of tokens has none, see zk_fence.c. */
uint64_t dlock_zk_queue_number(const char *child)
{
    const char *colon = strrchr(child, ':');

    return colon == NULL ? UINT64_MAX : strtoull(colon + 1, NULL, 10);
}

struct dlock_zk_place dlock_zk_queue_before(const struct dlock_zk_reply *queue,
                                            uint64_t below)
{
    struct dlock_zk_place last = {.number = UINT64_MAX};

    for (size_t i = 0; i < queue->children_n; i++) {
        uint64_t number = dlock_zk_queue_number(queue->children[i]);

        if (number < below && number != UINT64_MAX &&
            (last.child == NULL || number > last.number))
            last = (struct dlock_zk_place){number, queue->children[i]};
    }
    return last;
}

struct dlock_zk_place dlock_zk_queue_after(const struct dlock_zk_reply *queue,
                                           const struct dlock_zk_place *after)
{
    struct dlock_zk_place first = {.number = UINT64_MAX};

    for (size_t i = 0; i < queue->children_n; i++) {
        uint64_t number = dlock_zk_queue_number(queue->children[i]);

        if ((after == NULL || number > after->number) && number < first.number)
            first = (struct dlock_zk_place){number, queue->children[i]};
    }
    return first;
}

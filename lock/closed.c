/*
 * A queue: first closed, first used anew.
 */
#include "lock/closed.h"

#include <stdlib.h>
#include <string.h>

/* NULL if all that there are have to be kept. */
static struct dlock_closed *take_oldest(struct dlock_closed_list *list)
{
    struct dlock_closed *oldest = NULL;

    (void)pthread_mutex_lock(&list->mutex);
    if (list->n > DLOCK_CLOSED_KEPT) {
        oldest = list->first;
        list->first = oldest->next;
        list->n--;
    }
    (void)pthread_mutex_unlock(&list->mutex);
    return oldest;
}

void *dlock_closed_reuse(struct dlock_closed_list *list, size_t size)
{
    struct dlock_closed *oldest = take_oldest(list);

    if (oldest == NULL)
        return calloc(1, size);
    memset(oldest, 0, size);
    return oldest;
}

void dlock_closed_keep(struct dlock_closed_list *list,
                       struct dlock_closed *closed)
{
    closed->next = NULL;
    (void)pthread_mutex_lock(&list->mutex);
    if (list->n++ == 0)
        list->first = closed;
    else
        list->last->next = closed;
    list->last = closed;
    (void)pthread_mutex_unlock(&list->mutex);
}

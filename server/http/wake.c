/*
 * A stack without a lock. All are taken at once, so nothing is ever compared
 * that has been away and has come back.
 *
 * As long as the box is not empty its oldest letter is a bell that has not
 * been answered yet: so nobody is left lying.
 */
#include "server/http/wake.h"

#include <stddef.h>

bool wake_leave(struct wake_box *box, struct wake_letter *first,
                struct wake_letter *last)
{
    struct wake_letter *newest;
    bool bell;

    for (struct wake_letter *letter = first; letter != last;
         letter = letter->next)
        letter->next->bell = false;
    newest = atomic_load_explicit(&box->newest, memory_order_relaxed);
    do {
        /* Once they are in the box they are not ours: remember it. */
        bell = !newest;
        first->bell = bell;
        last->next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&box->newest, &newest,
                                                    first, memory_order_release,
                                                    memory_order_relaxed));
    return bell;
}

struct wake_letter *wake_take(struct wake_box *box)
{
    struct wake_letter *letter, *list = NULL, **last = &list;

    letter = atomic_exchange_explicit(&box->newest, NULL, memory_order_acquire);
    for (; letter; letter = letter->next) {
        if (letter->bell)
            continue;
        *last = letter;
        last = &letter->next;
    }
    *last = NULL;
    return list;
}

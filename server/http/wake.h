/*
 * Waking an HTTP thread once for many answers. A commit answers a whole batch
 * of orders within microseconds; to resume each connection from there would
 * cost a system call each and fight with the HTTP thread for its mutex.
 *
 * And the HTTP thread, woken by the first, would go once through all its
 * connections for each of them.
 *
 * So each HTTP thread has a mailbox. Whoever has answers leaves them there all
 * at once, and only who finds it empty resumes a connection, the first, which
 * wakes the thread. That connection is the bell: its handler takes the letters
 * out and lets the others go on.
 *
 *     any thread       if (wake_leave(box, first, last)) resume the first
 *     the HTTP thread  for each letter of wake_take(box): resume its connection
 */
#ifndef WAKE_H
#define WAKE_H

#include <stdatomic.h>
#include <stdbool.h>

/* Part of what is to go on. */
struct wake_letter {
    struct wake_letter *next;
    bool bell; /* whoever left it resumes it */
};

struct wake_box {
    _Atomic(struct wake_letter *) newest;
};

/*
 * Leaves letters that are linked from FIRST to LAST. true: the first is the
 * bell, and the caller resumes it. false: they may be on their way already, and
 * must not be touched any more; nor may the others if it is true. Any thread.
 */
bool wake_leave(struct wake_box *box, struct wake_letter *first,
                struct wake_letter *last);

/*
 * The box's thread, in the name of each bell. All that are to be resumed now,
 * linked, without the bells; NULL if there are none.
 */
struct wake_letter *wake_take(struct wake_box *box);

#endif

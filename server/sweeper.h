/*
 * A sweeper: a thread that looks at a queue now and then, so that nobody waits
 * in it for longer than he would have patience, whatever the threads that
 * should serve it are waiting for.
 *
 * It needs no waking: what comes into the queue after a look is not due before
 * PATIENCE_MS from then, so the next look is at the latest then.
 */
#ifndef SWEEPER_H
#define SWEEPER_H

#include <stdint.h>

struct sweeper;

/*
 * Refuses what is due at NOW_MS; returns when the oldest that stays is due, or
 * UINT64_MAX if nothing stays. On the sweeper's thread.
 */
typedef uint64_t sweeper_look(void *ctx, uint64_t now_ms);

/* NULL if there is no memory or no thread, which is called NAME. */
struct sweeper *sweeper_open(const char *name, sweeper_look *look, void *ctx,
                             uint64_t patience_ms);

/* Ends the thread; no look is under way any more. NULL is fine. */
void sweeper_close(struct sweeper *sweeper);

#endif

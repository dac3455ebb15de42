/*
 * A warning for the operator about a Redis that is not ours, once, at the start.
 */
#ifndef REDIS_CHECK_H
#define REDIS_CHECK_H

/* Asks each server of URL, which may have several, and logs what can cost locks.
 * Waits for each at most two seconds. */
void redis_check(const char *url);

#endif

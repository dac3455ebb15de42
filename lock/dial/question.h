/*
 * Private to lock/: a few commands on a new connection, before it is anybody's: the
 * login, the place of the primary, the nodes of the slots. hiredis reads the
 * replies, lists in lists as well.
 */
#ifndef DLOCK_QUESTION_H
#define DLOCK_QUESTION_H

#include <hiredis/hiredis.h>

#include "lock/core/net.h"

enum { DLOCK_QUESTION_WORDS_MAX = 3 };

/* Words of one command; NULL ends fewer of them. */
struct dlock_words {
    const char *list[DLOCK_QUESTION_WORDS_MAX];
};

/* hiredis' parser; it refuses a list that is longer than any of ours. */
redisReader *dlock_reader_open(void);

/* The next reply, to be freed; or NULL, and errno: 0 = the connection was closed,
 * EMSGSIZE = more than *BYTES_MAX, which counts down, EPROTO and READER->err = what has
 * come makes no sense. At the deadline what is in the socket already is read once, but
 * not for as long as more comes. NAP_MS: see dlock_net_nap(). */
redisReply *dlock_reader_next(redisReader *reader, struct dlock_link link,
                              unsigned nap_ms, size_t *bytes_max,
                              uint64_t until_ms);

/* Sends N commands in one write: a new connection takes so few bytes at once. Fills
 * REPLIES, each to be freed. DLOCK_UNREACHABLE: some have not come by UNTIL_MS, or within
 * BYTES_MAX, and are NULL. */
enum dlock_status dlock_question(struct dlock_link link,
                                 const struct dlock_words commands[], size_t n,
                                 size_t bytes_max, uint64_t until_ms,
                                 redisReply *replies[]);

#endif

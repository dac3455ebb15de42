/*
 * Private to lock/: a few commands on a new connection, before it is anybody's: the
 * login, the place of the primary, the nodes of the slots. hiredis writes them and
 * reads the replies, lists in lists as well; nothing is waited for that the caller
 * does not wait for.
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

/* All zero: there is none. */
struct dlock_question {
    redisReader *reader;
    unsigned left;    /* replies to come */
    size_t bytes_max; /* of all of them; a server that says more is given up */
};

/* hiredis' parser; it refuses a list that is longer than any of ours. NULL: no
 * memory. */
redisReader *dlock_reader_open(void);

/* Sends N commands in one write: a new connection takes so few bytes at once. _end is
 * to be called in any case. */
enum dlock_status dlock_question_begin(struct dlock_question *question,
                                       struct dlock_link link,
                                       const struct dlock_words commands[],
                                       size_t n, size_t bytes_max,
                                       struct dlock_error *error);

/*
 * The next reply: DLOCK_OK, and *REPLY is to be freed; DLOCK_BUSY, it has not come by
 * UNTIL_MS, 0 = yet; DLOCK_UNREACHABLE, it will not come.
 */
enum dlock_status dlock_question_go_on(struct dlock_question *question,
                                       struct dlock_link link,
                                       uint64_t until_ms, redisReply **reply,
                                       struct dlock_error *error);

void dlock_question_end(struct dlock_question *question);

#endif

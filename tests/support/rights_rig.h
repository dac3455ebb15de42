/*
 * A user of a Redis server, with the rights that dlock(3) has in its table, or with
 * one less.
 */
#ifndef RIGHTS_RIG_H
#define RIGHTS_RIG_H

#include "lock/dlock.h"
#include "tests/support/redis_server.h"

enum {
    RIGHTS_MAX = 60,
    RIGHT_BYTES_MAX = 32,
    RIGHTS_ALL = RIGHTS_MAX, /* as the number of the one that is left out */
};

/* As ACL SETUSER takes them, about the lock "k". */
struct rights {
    size_t n;
    char list[RIGHTS_MAX][RIGHT_BYTES_MAX];
};

/* What came of a call, or of the first of several that was not DLOCK_OK. */
struct outcome {
    enum dlock_status status;
    struct dlock_error error;
};

/* Adds all words of the table's row HEAD. */
void rights_add_row(struct rights *rights, const char *head);

/* Makes the user anew, with all RIGHTS but number LESS. The server is empty then,
 * and has forgotten scripts, so that each has to be told. */
void rights_give(const struct redis_server *server, const struct rights *rights,
                 size_t less);

/* The url by which that user comes. */
const char *rights_url(const struct redis_server *server, char url[300]);

/* The server has refused the user nothing since. */
void rights_assert_enough(const struct redis_server *server, const char *what);

/* What came of WHAT without RIGHT: no success, no loss, and a text that names it. */
void rights_assert_named(const char *what, const char *right,
                         const struct outcome *outcome);

#endif

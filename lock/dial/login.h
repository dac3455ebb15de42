/*
 * Logging in to a Redis: AUTH and SELECT in one write on a new connection,
 * before anything else is sent. Why their replies are awaited: a command behind
 * a SELECT that was refused would work on the wrong database.
 *
 * By TLS there is a PING behind them, whatever it is answered: a server that does not
 * take the client's certificate says so behind the handshake only, and what was sent
 * by then would be in doubt.
 *
 * The replies are one line each, so no parser is needed.
 */
#ifndef DLOCK_LOGIN_H
#define DLOCK_LOGIN_H

#include "lock/core/net.h"
#include "lock/dlock.h"
#include "lock/dlock_url.h"

/* How far one login has come; its owner's fields are none of it. */
struct dlock_login {
    unsigned left;   /* replies to come; 0 = it is through */
    bool selecting;  /* the next reply is that to SELECT */
    bool pings;      /* the last one is that to PING */
    char line[1024]; /* of a reply, its beginning */
    size_t used;
};

/* Sends what ADDRESS asks for, if anything, on the new connection LINK. */
enum dlock_status dlock_login_begin(struct dlock_login *login,
                                    const struct dlock_address *address,
                                    struct dlock_link link,
                                    struct dlock_error *error);

/*
 * Takes what has come, without waiting: DLOCK_OK if it is through, DLOCK_BUSY if
 * there is more to come, DLOCK_UNREACHABLE with a text that has no password in
 * it if the server refused or is gone.
 */
enum dlock_status dlock_login_go_on(struct dlock_login *login,
                                    const struct dlock_address *address,
                                    struct dlock_link link,
                                    struct dlock_error *error);

#endif

/*
 * Logging in to a Redis: AUTH and SELECT in one write on a new connection,
 * before anything else is sent. Why their replies are awaited: a command behind
 * a SELECT that was refused would work on the wrong database.
 *
 * By TLS there is a PING behind them, whatever it is answered: a server that does not
 * take the client's certificate says so behind the handshake only, and what was sent
 * by then would be in doubt.
 */
#ifndef DLOCK_LOGIN_H
#define DLOCK_LOGIN_H

#include "lock/dial/question.h"
#include "lock/dlock_url.h"

enum { DLOCK_LOGIN_COMMANDS_MAX = 3 };

/* How far one login has come. All zero: there is none. */
struct dlock_login {
    struct dlock_question question; /* ->left = 0: it is through */
    bool selecting;                 /* the next reply is that to SELECT */
    bool pings;                     /* the last one is that to PING */
    char number[16];                /* of the database */
};

/* AUTH, if ADDRESS has a login: fills *AUTH. */
bool dlock_login_words(const struct dlock_address *address,
                       struct dlock_words *auth);

/* Sends what ADDRESS asks for, if anything, on the new connection LINK. _end is to be
 * called in any case. */
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

void dlock_login_end(struct dlock_login *login);

#endif

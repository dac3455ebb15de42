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

/* AUTH, if ADDRESS has a login: fills *AUTH. */
bool dlock_login_words(const struct dlock_address *address,
                       struct dlock_words *auth);

/*
 * Sends what ADDRESS asks for, if anything, on the new connection LINK, and waits for
 * the replies. DLOCK_UNREACHABLE, with a text that has no password in it: the server
 * refused, is gone, or has said nothing by UNTIL_MS.
 */
enum dlock_status dlock_login(const struct dlock_address *address,
                              struct dlock_link link, uint64_t until_ms,
                              struct dlock_error *error);

#endif

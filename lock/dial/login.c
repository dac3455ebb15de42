/* See login.h. */
#include "lock/dial/login.h"

#include <stdio.h>
#include <string.h>

#include "lock/core/error.h"

enum { REPLIES_BYTES_MAX = 4096 }; /* no server says more to a login */

/* Without a user, AUTH takes one word: so does a server before 6. */
bool dlock_login_words(const struct dlock_address *address,
                       struct dlock_words *auth)
{
    *auth =
        address->user[0] != '\0'
            ? (struct dlock_words){{"AUTH", address->user, address->password}}
            : (struct dlock_words){{"AUTH", address->password}};
    return dlock_url_has_login(address);
}

/* A server that wants a client's certificate hangs up after the handshake. WHY is
 * the kernel's text. */
static enum dlock_status hung_up(struct dlock_link link, const char *why,
                                 struct dlock_error *error)
{
    if (link.tls != NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "TLS: the server hung up, and may want a "
                               "certificate: cert=FILE");
    return dlock_error_set(error, DLOCK_UNREACHABLE, "redis: log in: %s", why);
}

enum dlock_status dlock_login_begin(struct dlock_login *login,
                                    const struct dlock_address *address,
                                    struct dlock_link link,
                                    struct dlock_error *error)
{
    struct dlock_words commands[DLOCK_LOGIN_COMMANDS_MAX];
    struct dlock_error why = {""};
    size_t n = 0;

    *login = (struct dlock_login){.pings = address->tls};
    if (dlock_login_words(address, &commands[0]))
        n++;
    login->selecting = n == 0;
    (void)snprintf(login->number, sizeof(login->number), "%u",
                   address->database);
    if (address->database > 0)
        commands[n++] = (struct dlock_words){{"SELECT", login->number}};
    if (address->tls)
        commands[n++] = (struct dlock_words){{"PING"}};
    if (n == 0 || dlock_question_begin(&login->question, link, commands, n,
                                       REPLIES_BYTES_MAX, &why) == DLOCK_OK)
        return DLOCK_OK;
    return hung_up(link, why.text, error);
}

/*
 * As much of an error as is safe to tell: a server that does not know AUTH says
 * what it was given, and any other might.
 */
static void make_tellable(char *text, const char *password)
{
    char *given = strstr(text, ", with args");
    bool told = password[0] != '\0' && strstr(text, password) != NULL;

    if (given != NULL)
        *given = '\0';
    else if (told)
        text[strcspn(text, " ")] = '\0';
    if (told && strstr(text, password) != NULL)
        text[0] = '\0';
}

static enum dlock_status refused(const struct dlock_login *login,
                                 const struct dlock_address *address,
                                 redisReply *reply, struct dlock_error *error)
{
    char nonsense[] = "no sense in its reply";
    char *text = reply->type == REDIS_REPLY_ERROR ? reply->str : nonsense;

    make_tellable(text, address->password);
    if (login->selecting)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "redis refused database %u: %.120s",
                               address->database, text);
    return dlock_error_set(error, DLOCK_UNREACHABLE,
                           "redis refused the login: %.120s", text);
}

enum dlock_status dlock_login_go_on(struct dlock_login *login,
                                    const struct dlock_address *address,
                                    struct dlock_link link,
                                    struct dlock_error *error)
{
    enum dlock_status status = DLOCK_OK;

    while (login->question.left > 0 && status == DLOCK_OK) {
        struct dlock_error why = {""};
        redisReply *reply = NULL;

        status = dlock_question_go_on(&login->question, link, 0, &reply, &why);
        if (status == DLOCK_UNREACHABLE)
            return hung_up(link, why.text, error);
        if (status != DLOCK_OK)
            return status;
        if (reply->type != REDIS_REPLY_STATUS &&
            !(login->pings && login->question.left == 0))
            status = refused(login, address, reply, error);
        freeReplyObject(reply);
        login->selecting = true;
    }
    return status;
}

void dlock_login_end(struct dlock_login *login)
{
    dlock_question_end(&login->question);
}

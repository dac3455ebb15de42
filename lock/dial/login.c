/* See login.h. */
#include "lock/dial/login.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lock/core/error.h"

enum {
    COMMANDS_MAX = 3,
    REPLIES_BYTES_MAX = 4096, /* no server says more to a login */
};

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

static enum dlock_status refused(const struct dlock_address *address,
                                 bool selecting, redisReply *reply,
                                 struct dlock_error *error)
{
    char nonsense[] = "no sense in its reply";
    char *text = reply->type == REDIS_REPLY_ERROR ? reply->str : nonsense;

    make_tellable(text, address->password);
    if (selecting)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "redis refused database %u: %.120s",
                               address->database, text);
    return dlock_error_set(error, DLOCK_UNREACHABLE,
                           "redis refused the login: %.120s", text);
}

enum dlock_status dlock_login(const struct dlock_address *address,
                              struct dlock_link link, uint64_t until_ms,
                              struct dlock_error *error)
{
    struct dlock_words commands[COMMANDS_MAX];
    struct dlock_question question;
    struct dlock_error why = {""};
    enum dlock_status status;
    bool selecting;
    char number[16];
    size_t n = 0;

    if (dlock_login_words(address, &commands[0]))
        n++;
    selecting = n == 0;
    (void)snprintf(number, sizeof(number), "%u", address->database);
    if (address->database > 0)
        commands[n++] = (struct dlock_words){{"SELECT", number}};
    if (address->tls)
        commands[n++] = (struct dlock_words){{"PING"}};
    if (n == 0)
        return DLOCK_OK;
    status = dlock_question_begin(&question, link, commands, n,
                                  REPLIES_BYTES_MAX, &why);
    if (status != DLOCK_OK)
        (void)hung_up(link, why.text, error);
    while (question.left > 0 && status == DLOCK_OK) {
        redisReply *reply = NULL;

        status = dlock_question_go_on(&question, link, until_ms, &reply, &why);
        if (status == DLOCK_BUSY)
            status = dlock_error_set(error, DLOCK_UNREACHABLE,
                                     "redis: log in: %s", strerror(ETIMEDOUT));
        else if (status != DLOCK_OK)
            status = hung_up(link, why.text, error);
        else if (reply->type != REDIS_REPLY_STATUS &&
                 !(address->tls && question.left == 0))
            status = refused(address, selecting, reply, error);
        freeReplyObject(reply);
        selecting = true;
    }
    dlock_question_end(&question);
    return status;
}

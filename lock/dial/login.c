#include "lock/dial/login.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lock/core/error.h"
#include "lock/core/net.h"

/* Frames of the protocol around a user, a password, and a number of nine. */
enum { FRAMES_BYTES = 128 };

/* One word of a command. WORD has no NUL in it: dlock_url_parse() sees to it. */
static void add_word(char *to, size_t size, const char *word)
{
    size_t used = strlen(to);

    (void)snprintf(to + used, size - used, "$%zu\r\n%s\r\n", strlen(word),
                   word);
}

/* Without a user, AUTH takes one word: so does a server before 6. */
static void add_auth(char *to, size_t size, const struct dlock_address *address)
{
    bool has_user = address->user[0] != '\0';
    size_t used = strlen(to);

    (void)snprintf(to + used, size - used, "*%d\r\n", has_user ? 3 : 2);
    add_word(to, size, "AUTH");
    if (has_user)
        add_word(to, size, address->user);
    add_word(to, size, address->password);
}

static void add_select(char *to, size_t size,
                       const struct dlock_address *address)
{
    char number[16];
    size_t used = strlen(to);

    (void)snprintf(number, sizeof(number), "%u", address->database);
    (void)snprintf(to + used, size - used, "*2\r\n");
    add_word(to, size, "SELECT");
    add_word(to, size, number);
}

/* A server that wants a client's certificate hangs up after the handshake. WHY: what
 * the kernel said. */
static enum dlock_status hung_up(struct dlock_link link, const char *why,
                                 struct dlock_error *error)
{
    if (link.tls != NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "TLS: the server hung up, and may want a "
                               "certificate: cert=FILE");
    return dlock_error_set(error, DLOCK_UNREACHABLE, "redis: log in: %s", why);
}

/* A new connection takes so few bytes at once. */
enum dlock_status dlock_login_begin(struct dlock_login *login,
                                    const struct dlock_address *address,
                                    struct dlock_link link,
                                    struct dlock_error *error)
{
    char bytes[DLOCK_USER_BYTES_MAX + DLOCK_PASSWORD_BYTES_MAX + FRAMES_BYTES] =
        "";

    *login = (struct dlock_login){.left = 0};
    if (dlock_url_has_login(address)) {
        add_auth(bytes, sizeof(bytes), address);
        login->left++;
    }
    login->selecting = login->left == 0;
    if (address->database > 0) {
        add_select(bytes, sizeof(bytes), address);
        login->left++;
    }
    if (address->tls) {
        (void)snprintf(bytes + strlen(bytes), sizeof(bytes) - strlen(bytes),
                       "*1\r\n");
        add_word(bytes, sizeof(bytes), "PING");
        login->pings = true;
        login->left++;
    }
    if (dlock_net_send(link, bytes, strlen(bytes), 0) == 0)
        return DLOCK_OK;
    return hung_up(link, strerror(errno), error);
}

/* A line that fills the buffer; no server's reply to a login does. */
static bool is_cut(const struct dlock_login *login)
{
    return login->used + 1 == sizeof(login->line);
}

/*
 * As much of an error as is safe to tell: a server that does not know AUTH says
 * what it was given, and any other might.
 */
static void make_tellable(struct dlock_login *login, const char *password)
{
    char *given = strstr(login->line, ", with args");
    bool told = password[0] != '\0' && strstr(login->line, password) != NULL;

    if (given != NULL)
        *given = '\0';
    else if (is_cut(login) || told)
        login->line[strcspn(login->line, " ")] = '\0';
    if (told && strstr(login->line, password) != NULL)
        login->line[0] = '\0';
}

static enum dlock_status refused(struct dlock_login *login,
                                 const struct dlock_address *address,
                                 struct dlock_error *error)
{
    const char *text = login->line + 1;

    make_tellable(login, address->password);
    if (login->line[0] != '-')
        text = login->line;
    if (login->selecting)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "redis refused database %u: %.120s",
                               address->database, text);
    return dlock_error_set(error, DLOCK_UNREACHABLE,
                           "redis refused the login: %.120s", text);
}

/* Byte for byte, up to the end of a line, because what is behind it is not ours; or
 * up to where it is cut, because more may come without end. */
static enum dlock_status take_line(struct dlock_login *login,
                                   struct dlock_link link,
                                   struct dlock_error *error)
{
    char byte = '\0';

    while (byte != '\n' && !is_cut(login)) {
        ssize_t got = dlock_net_receive(link, 0, &byte, 1, 0);

        if (got < 0 && errno == ETIMEDOUT)
            return DLOCK_BUSY;
        if (got <= 0)
            return hung_up(
                link, got == 0 ? "connection closed" : strerror(errno), error);
        if (byte != '\n')
            login->line[login->used++] = byte;
    }
    if (login->used > 0 && login->line[login->used - 1] == '\r')
        login->used--;
    login->line[login->used] = '\0';
    return DLOCK_OK;
}

enum dlock_status dlock_login_go_on(struct dlock_login *login,
                                    const struct dlock_address *address,
                                    struct dlock_link link,
                                    struct dlock_error *error)
{
    while (login->left > 0) {
        enum dlock_status status = take_line(login, link, error);

        if (status != DLOCK_OK)
            return status;
        if (is_cut(login) ||
            (login->line[0] != '+' && !(login->pings && login->left == 1)))
            return refused(login, address, error);
        login->left--;
        login->used = 0;
        login->selecting = true;
    }
    return DLOCK_OK;
}

/*
 * A dial is a straight way, with one end of its time: the name, the places that it
 * stands for one after the other, TLS, the login.
 */
#include "lock/dial/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/dial/lookup.h"
#include "lock/dial/question.h"

enum {
    COMMANDS_MAX = 3,         /* of a login */
    REPLIES_BYTES_MAX = 4096, /* no server says more to it */
};

/* The places of an address ------------------------------------------------- */

/* NODELAY sends small packets at once. The kernel asks a silent peer after 15 s, and gives
 * it up 15 s later: a subscriber has no other sign of a host that has vanished. */
static void tune_tcp(int fd)
{
    static const struct {
        int level, option, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 15}, {IPPROTO_TCP, TCP_KEEPINTVL, 5},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)setsockopt(fd, options[i].level, options[i].option,
                         &options[i].value, sizeof(options[i].value));
}

/* 0, or why it could not be connected to by UNTIL_MS. A full backlog of a Unix socket
 * fails at once (EAGAIN): the caller's next try is a new one. */
static int connect_place(const struct dlock_place *place, uint64_t until_ms,
                         struct dlock_link *link)
{
    socklen_t size = sizeof(int);
    int failure = 0;
    int ready;

    dlock_net_close(link);
    link->fd = socket(place->at.ss_family,
                      SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->fd < 0)
        return errno;
    if (connect(link->fd, (const struct sockaddr *)&place->at, place->len) == 0)
        return 0;
    /* An interrupted connect() goes on by itself, and must not be called again. */
    if (errno != EINPROGRESS && errno != EINTR)
        return errno;
    /* The socket becomes writable also if connecting has failed: SO_ERROR says which. */
    ready = dlock_net_await(link->fd, POLLOUT, until_ms);
    if (ready <= 0)
        return ready == 0 ? ETIMEDOUT : errno;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        return errno;
    return failure;
}

/* A Unix socket is one place. Each place is waited for in its share of the time, because
 * the last one must have its turn. */
static enum dlock_status connect_to(const struct dlock_address *address,
                                    uint64_t until_ms, struct dlock_link *link)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct dlock_places places = {.n = 1};
    int failure = EADDRNOTAVAIL;

    if (address->local) {
        memcpy(to.sun_path, address->host, strlen(address->host) + 1);
        memcpy(&places.list[0].at, &to, sizeof(to));
        /* The whole structure is the length: its zeros end the path. */
        places.list[0].len = sizeof(to);
    } else if (dlock_lookup(address->host, address->port, until_ms, &places) !=
               DLOCK_OK) {
        return DLOCK_UNREACHABLE;
    }
    for (size_t i = 0; i < places.n && failure != 0; i++)
        failure =
            connect_place(&places.list[i],
                          dlock_clock_real_part(until_ms, places.n - i), link);
    if (failure == 0 && !address->local)
        tune_tcp(link->fd);
    if (failure == 0)
        return DLOCK_OK;
    if (address->local)
        return dlock_error_set(DLOCK_UNREACHABLE, "connect to %s: %s",
                               address->host, strerror(failure));
    return dlock_error_set(DLOCK_UNREACHABLE, "connect to %.100s:%s: %s",
                           address->host, address->port, strerror(failure));
}

/* A server that wants TLS -------------------------------------------------- */

enum { SNIFF_MS = 250, ALERT = 0x15, HANDSHAKE = 0x16 };

/* A ClientHello (RFC 5246): TLS 1.2, 32 bytes that need not be random, no session, one
 * cipher, no compression. */
static const char hello[] = "\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03"
                            "01234567890123456789012345678901"
                            "\x00\x00\x02\x00\x2f\x01\x00";

/* On a new connection the server is sent the beginning of a handshake. A server that knows
 * TLS says something of TLS to that, if only an alert; one without takes it for half a
 * command. */
bool dlock_dial_wants_tls(const struct dlock_address *address,
                          uint64_t until_ms)
{
    struct dlock_address plain = *address;
    struct dlock_error kept;
    struct dlock_link link;
    char first = 0;

    if (plain.tls || plain.local || plain.primary[0] != '\0')
        return false;
    until_ms = dlock_clock_real_until(SNIFF_MS, until_ms);
    /* The login is left out, because a server that wants TLS would hang up at it, before it
     * sees the hello. Without a login log_in() sends nothing, and does not come back
     * here. */
    plain.user[0] = plain.password[0] = '\0';
    plain.database = 0;
    kept = dlock_error_take();
    /* A connection that was not made leaves a link that may be closed all the same. */
    if (dlock_dial(&plain, until_ms, &link) == DLOCK_OK &&
        dlock_net_send(link, hello, sizeof(hello) - 1, until_ms) == 0)
        (void)dlock_net_receive(link, 0, &first, 1, until_ms);
    dlock_error_put(&kept);
    dlock_net_close(&link);
    return first == ALERT || first == HANDSHAKE;
}

/* The login ------------------------------------------------------------------ */

/* Without a user, AUTH takes one word: so does a server before 6. */
bool dlock_dial_login(const struct dlock_address *address,
                      struct dlock_words *auth)
{
    *auth =
        address->user[0] != '\0'
            ? (struct dlock_words){{"AUTH", address->user, address->password}}
            : (struct dlock_words){{"AUTH", address->password}};
    return dlock_url_has_login(address);
}

/* As much of an error as is safe to tell: a server that does not know AUTH says what it
 * was given, and any other might. */
static void make_tellable(char *text, const char *password)
{
    char *given = strstr(text, ", with args");
    bool told = password[0] != '\0' && strstr(text, password) != NULL;

    if (given != NULL)
        *given = '\0';
    else if (told)
        /* The first word is the code of the error, which does not come from us. */
        text[strcspn(text, " ")] = '\0';
    /* A password that is part of the code itself is not told either. */
    if (told && strstr(text, password) != NULL)
        text[0] = '\0';
}

static enum dlock_status refused(const struct dlock_address *address,
                                 bool selecting, redisReply *reply)
{
    char nonsense[] = "no sense in its reply";
    char *text = reply->type == REDIS_REPLY_ERROR ? reply->str : nonsense;

    make_tellable(text, address->password);
    if (selecting)
        return dlock_error_set(DLOCK_UNREACHABLE,
                               "redis refused database %u: %.120s",
                               address->database, text);
    return dlock_error_set(DLOCK_UNREACHABLE, "redis refused the login: %.120s",
                           text);
}

/* AUTH and SELECT go in one write. Their replies are awaited, because a command behind a
 * SELECT that was refused would work on the wrong database. By TLS there is a PING behind
 * them, whatever it is answered: a server that does not take the client's certificate says
 * so behind the handshake only, and what was sent by then would be in doubt. */
static enum dlock_status log_in(const struct dlock_address *address,
                                struct dlock_link link, uint64_t until_ms)
{
    struct dlock_words commands[COMMANDS_MAX];
    redisReply *replies[COMMANDS_MAX];
    enum dlock_status status;
    bool hung_up;
    char number[16];
    size_t n = 0;

    if (dlock_dial_login(address, &commands[0]))
        n++;
    (void)snprintf(number, sizeof(number), "%u", address->database);
    if (address->database > 0)
        commands[n++] = (struct dlock_words){{"SELECT", number}};
    if (address->tls)
        commands[n++] = (struct dlock_words){{"PING"}};
    if (n == 0)
        return DLOCK_OK;
    status =
        dlock_question(link, commands, n, REPLIES_BYTES_MAX, until_ms, replies);
    /* The text is the kernel's. */
    hung_up = status != DLOCK_OK &&
              strcmp(dlock_error_text(), strerror(ETIMEDOUT)) != 0;
    /* A server that wants a client's certificate hangs up after the handshake. */
    if (hung_up && link.tls != NULL)
        dlock_error_say("TLS: the server hung up, and may want a certificate: "
                        "cert=FILE");
    else if (hung_up && replies[0] == NULL &&
             dlock_dial_wants_tls(address, until_ms))
        dlock_error_say("redis: the server wants TLS: rediss://");
    else if (status != DLOCK_OK)
        dlock_error_say("redis: log in: %s", dlock_error_text());
    /* The first refusal is the reason of all that follows, hanging up as well. */
    for (size_t i = n; i-- > 0;) {
        /* The PING is refused without a login, and that is no failure: it shall only make
         * the server speak. */
        bool is_ping = address->tls && i == n - 1;

        if (replies[i] != NULL && replies[i]->type != REDIS_REPLY_STATUS &&
            !is_ping)
            status =
                refused(address, strcmp(commands[i].list[0], "SELECT") == 0,
                        replies[i]);
        freeReplyObject(replies[i]);
    }
    return status;
}

/* All of it ---------------------------------------------------------------- */

static enum dlock_status shake(const struct dlock_address *address,
                               uint64_t until_ms, struct dlock_link *link)
{
    enum dlock_status status;

    /* dlock_address_lacks() was asked before: the part for TLS is there. */
    link->tls = dlock_tls_made->begin(address, link->fd);
    if (link->tls == NULL)
        return DLOCK_UNREACHABLE;
    /* The handshake only ever waits to read: what it sends fits into a new socket's
     * buffer. */
    while ((status = dlock_tls_made->shake(link->tls)) == DLOCK_BUSY)
        if (dlock_net_await(link->fd, POLLIN, until_ms) <= 0)
            return dlock_error_set(DLOCK_UNREACHABLE, "redis: TLS: %s",
                                   strerror(ETIMEDOUT));
    return status;
}

enum dlock_status dlock_dial(const struct dlock_address *address,
                             uint64_t until_ms, struct dlock_link *link)
{
    enum dlock_status status;

    *link = dlock_link_plain(-1);
    if (dlock_address_lacks(address) != NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "%s",
                               dlock_address_lacks(address));
    /* A sentinel's answer becomes a dial of its own, to an address without ->primary: so
     * this does not come round again. */
    if (address->primary[0] != '\0')
        return dlock_sentinel_find(address, until_ms, link);
    status = connect_to(address, until_ms, link);
    if (status == DLOCK_OK && address->tls)
        status = shake(address, until_ms, link);
    if (status == DLOCK_OK)
        status = log_in(address, *link, until_ms);
    if (status != DLOCK_OK)
        dlock_net_close(link);
    return status;
}

/* On a thread of its own ----------------------------------------------------- */

void dlock_dial_end(struct dlock_dial *dial)
{
    /* The last one frees it: the caller may give up first, or the thread be ready first. */
    if (dial == NULL || atomic_fetch_sub(&dial->users_n, 1) > 1)
        return;
    dlock_net_close(&dial->link);
    if (dial->fd >= 0)
        (void)close(dial->fd);
    free(dial);
}

static void carry_out(struct dlock_dial *dial)
{
    /* An instant dial runs on the caller's thread, whose text must stay. */
    struct dlock_error kept = dlock_error_take();

    dial->status = dial->ask != NULL ? dial->ask(dial)
                                     : dlock_dial(&dial->address,
                                                  dial->until_ms, &dial->link);
    dial->error = dlock_error_take();
    dlock_error_put(&kept);
    /* The store publishes all that was written before it; the bell comes after, so that who
     * hears it finds an outcome. */
    atomic_store(&dial->done, true);
    (void)!eventfd_write(dial->fd, 1);
}

static void *run(void *arg)
{
    carry_out(arg);
    dlock_dial_end(arg);
    return NULL;
}

/* A Unix socket without a login is connected to at once, and needs no thread. */
static bool is_instant(const struct dlock_address *address)
{
    return address->local && !dlock_url_has_login(address) &&
           address->database == 0;
}

struct dlock_dial *dlock_dial_begin(const struct dlock_address *address,
                                    dlock_dial_ask *ask, uint64_t until_ms)
{
    struct dlock_dial *dial = calloc(1, sizeof(*dial));
    pthread_t thread;

    if (dial == NULL) {
        dlock_error_say("out of memory");
        return NULL;
    }
    dial->link = dlock_link_plain(-1);
    dial->address = *address;
    dial->ask = ask;
    dial->until_ms = until_ms;
    dial->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&dial->users_n, 1);
    if (dial->fd >= 0 && ask == NULL && is_instant(address)) {
        carry_out(dial);
        return dial;
    }
    /* The thread may be through before this function returns: so both are counted before it
     * starts. */
    atomic_store(&dial->users_n, 2);
    if (dial->fd >= 0 &&
        dlock_clock_thread(&thread, "dlock-dial", run, dial) == 0) {
        /* The thread is not joined, because it may hang in a resolver for longer than the
         * client lives. */
        (void)pthread_detach(thread);
        return dial;
    }
    dlock_error_say("connect: no descriptor or thread");
    atomic_store(&dial->users_n, 1);
    dlock_dial_end(dial);
    return NULL;
}

enum dlock_status dlock_dial_go_on(struct dlock_dial *dial,
                                   struct dlock_link *link)
{
    *link = dlock_link_plain(-1);
    if (!atomic_load(&dial->done))
        return DLOCK_BUSY;
    if (dial->status != DLOCK_OK)
        return dlock_error_set(dial->status, "%s", dial->error.text);
    *link = dial->link;
    /* The link is the caller's now, and dlock_dial_end() must not close it. */
    dial->link = dlock_link_plain(-1);
    return DLOCK_OK;
}

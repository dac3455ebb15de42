/*
 * We bind ourselves instead of letting libmicrohttpd do it, because it cannot
 * say why it failed, and "address already in use" is the error that everybody
 * meets first.
 */
#include "server/http/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTEN_BACKLOG 1024

/* "[::1]:80" -> "::1", "80"; cuts COPY into pieces. */
static bool split(char *copy, const char **host, const char **port)
{
    char *colon = strrchr(copy, ':');

    if (!colon || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return false;
    *colon = '\0';
    *port = colon + 1;
    *host = copy;
    /*
     * The brackets say that the colons inside are not the one before the port.
     */
    if (*copy == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        *host = copy + 1;
    } else if (strchr(copy, ':')) {
        return false; /* an IPv6 address needs its brackets */
    }
    return **host != '\0';
}

/*
 * A socket that listens on one of the host's addresses; -1 and errno.
 * SO_REUSEADDR is for the restart right after a stop, when old connections
 * still linger.
 */
static int bind_one(const struct addrinfo *info)
{
    int one = 1, fd, saved;

    fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (!bind(fd, info->ai_addr, info->ai_addrlen) &&
        !listen(fd, LISTEN_BACKLOG))
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* What the kernel made of it, as numbers: with port 0, this is the news. */
static void describe(int fd, char address[LISTEN_ADDRESS_BYTES])
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    char host[48] = "?", port[8] = "?";

    if (!getsockname(fd, (struct sockaddr *)&bound, &size))
        getnameinfo((struct sockaddr *)&bound, size, host, sizeof(host), port,
                    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(address, LISTEN_ADDRESS_BYTES,
             strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

/*
 * A name may stand for several addresses, say 127.0.0.1 and ::1 for localhost:
 * the first that works is taken. Who wants all of them binds 0.0.0.0 or [::].
 */
int listen_open(const char *where, char address[LISTEN_ADDRESS_BYTES],
                char *error, size_t error_size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list, *info;
    const char *host, *port;
    char copy[160];
    int fd = -1, rc;

    if (snprintf(copy, sizeof(copy), "%s", where) >= (int)sizeof(copy) ||
        !split(copy, &host, &port)) {
        snprintf(error, error_size,
                 "--listen %s: wanted HOST:PORT, such as 127.0.0.1:8080",
                 where);
        return -1;
    }
    rc = getaddrinfo(host, port, &hints, &list);
    if (rc) {
        snprintf(error, error_size, "--listen %s: %s", where, gai_strerror(rc));
        return -1;
    }
    for (info = list; info && fd < 0; info = info->ai_next)
        fd = bind_one(info);
    freeaddrinfo(list);
    if (fd < 0)
        snprintf(error, error_size, "--listen %s: %s", where, strerror(errno));
    else
        describe(fd, address);
    return fd;
}

/* See port.h. */
#include "server/lab/servers/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/lab/servers/peek.h"

enum { TRIES = 5 }; /* somebody else may be faster with a free port */

static unsigned find_free(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned port = 0;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 &&
        getsockname(fd, (struct sockaddr *)&at, &len) == 0)
        port = ntohs(at.sin_port);
    if (fd >= 0)
        (void)close(fd);
    return port;
}

bool port_listen(struct peek *peek, char port[], size_t size)
{
    if (!PEEK_ASK(peek, "OK", "CONFIG", "SET", "bind", "127.0.0.1") ||
        !PEEK_ASK(peek, "OK", "CONFIG", "SET", "repl-diskless-sync-delay", "0"))
        return false;
    for (int i = 0; i < TRIES; i++) {
        (void)snprintf(port, size, "%u", find_free());
        if (PEEK_ASK(peek, "OK", "CONFIG", "SET", "port", port))
            return true;
    }
    return false;
}

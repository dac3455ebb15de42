/*
 * Sockets with deadlines. hiredis does not connect, send or receive, because its 0.14
 *
 *   - writes with write(), so that a server which closes kills the host program with
 *     SIGPIPE; send() with MSG_NOSIGNAL does not;
 *   - has a timeout for each read(), which a server that trickles bytes stretches without
 *     end; here a whole reply has one deadline;
 *   - does not say whether a failed command left this host: the difference between "not
 *     held" and "may be held";
 *   - lets child processes inherit its sockets, which keeps a dead client's connections;
 *   - looks names up for as long as that takes, and gives all the time to the first
 *     address of a name (dial/).
 */
#include "lock/core/net.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lock/core/clock.h"

enum {
    NAPS_PER_TIMEOUT = 4,
    NAP_MS_MIN = 25, /* a few ticks */
};

int dlock_net_await(int fd, short events, uint64_t until_ms)
{
    uint64_t left;

    /* The time counts also for what is ready, because TLS may have half a record there, or
     * room for a command that it cannot make yet, and get on with neither. */
    while ((left = dlock_clock_real_left(until_ms)) > 0) {
        struct pollfd poller = {.fd = fd, .events = events};
        /* The argument is an int: a long wait is cut, and the loop asks again. */
        int ready = poll(&poller, 1, left > 60000 ? 60000 : (int)left);

        if (ready > 0)
            return 1;
        if (ready < 0 && errno != EINTR)
            return -1;
    }
    errno = ETIMEDOUT;
    return 0;
}

/* Sleeping in recv() takes one system call, poll() and recv() take two. And the reader of a
 * Unix socket is woken once more, when the server takes the command: on an idle machine the
 * processor is up by the time the reply comes, which is most of the gain.
 *
 * How long recv() may sleep is set on the socket. To set it for each command would be a
 * second system call again: so it is set once, to a part of a command's time, and recv()
 * sleeps only while there is twice as much left, because the kernel counts these sleeps in
 * ticks, and may round them up by a quarter. */
unsigned dlock_net_nap(struct dlock_link link, unsigned timeout_ms)
{
    unsigned nap_ms = timeout_ms / NAPS_PER_TIMEOUT;
    struct timeval nap = {.tv_sec = nap_ms / 1000,
                          .tv_usec = (suseconds_t)(nap_ms % 1000) * 1000};
    int flags = fcntl(link.fd, F_GETFL);

    /* A TLS record may take several reads, each of which would sleep its own nap: such a
     * link is polled. */
    if (nap_ms < NAP_MS_MIN || flags < 0 || link.tls != NULL ||
        setsockopt(link.fd, SOL_SOCKET, SO_RCVTIMEO, &nap, sizeof(nap)) != 0 ||
        fcntl(link.fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
        return 0;
    return nap_ms;
}

/* MSG_NOSIGNAL instead of blocking SIGPIPE around the call: that would take two more
 * system calls, and leave a pending signal to be fetched. */
int dlock_net_send(struct dlock_link link, const char *bytes, size_t len,
                   uint64_t until_ms)
{
    while (len > 0) {
        ssize_t sent =
            link.tls != NULL
                ? dlock_tls_made->send(link.tls, bytes, len)
                : send(link.fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent >= 0) {
            bytes += sent;
            len -= (size_t)sent;
            continue;
        }
        if (errno == EINTR)
            continue;
        /* The buffer of the socket is full: the server does not read, or reads slowly. */
        if (errno != EAGAIN || dlock_net_await(link.fd, POLLOUT, until_ms) <= 0)
            return -1;
    }
    return 0;
}

static ssize_t receive_some(struct dlock_link link, char *bytes, size_t size,
                            int flags)
{
    if (link.tls != NULL)
        return dlock_tls_made->receive(link.tls, bytes, size,
                                       (flags & MSG_PEEK) != 0);
    return recv(link.fd, bytes, size, flags);
}

ssize_t dlock_net_receive(struct dlock_link link, unsigned nap_ms, char *bytes,
                          size_t size, uint64_t until_ms)
{
    for (;;) {
        /* A nap must be over in time, however the kernel rounds it up. */
        bool naps = nap_ms > 0 &&
                    dlock_clock_real_now() + 2 * (uint64_t)nap_ms <= until_ms;
        ssize_t got = receive_some(link, bytes, size, naps ? 0 : MSG_DONTWAIT);

        /* EAGAIN also ends a nap; the deadline is then looked at again. */
        if (got >= 0 || (errno != EINTR && errno != EAGAIN))
            return got;
        if (!naps && dlock_net_await(link.fd, POLLIN, until_ms) <= 0)
            return -1;
    }
}

/* A byte out of turn is as bad as a closed connection, because it would be taken
 * for a reply. */
bool dlock_net_stale(struct dlock_link link)
{
    char byte;
    ssize_t got = receive_some(link, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    /* EAGAIN is the only sign of a connection that is open and quiet; 0 bytes are its
     * end. */
    return got >= 0 || (errno != EAGAIN && errno != EINTR);
}

void dlock_net_close(struct dlock_link *link)
{
    if (link->tls != NULL)
        /* TLS ends first, because its BIO knows the socket by its number, which is another
         * one's as soon as it is closed. */
        dlock_tls_made->end(link->tls);
    if (link->fd >= 0)
        (void)close(link->fd);
    *link = dlock_link_plain(-1);
}

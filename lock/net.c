/*
 * Sockets with deadlines.
 *
 * Why not let hiredis connect, read and write? Because of four things that its
 * 0.14 cannot do, and that a lock needs:
 *
 *   - It writes with write(), so a server that closes the connection kills the
 *     host program with SIGPIPE. A library may neither do that nor change the
 *     host's signal handling; send() with MSG_NOSIGNAL does neither.
 *   - Its timeout is per read(). A server that trickles bytes stretches it
 *     without end; here a whole reply has one deadline.
 *   - It does not say whether a failed command left this host. For a lock that
 *     is the difference between "not held" and "may be held".
 *   - Its sockets are inherited by child processes, which would keep the
 *     connections of a dead client open.
 *
 * One thing has no deadline here either: getaddrinfo(), which cannot be given
 * one. Who needs the timeouts to hold gives the server's address in numbers.
 */
#include "lock/net.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "lock/clock.h"
#include "lock/error.h"

enum {
    NAPS_PER_TIMEOUT = 4,
    NAP_MS_MIN = 25, /* a few ticks */
};

/* What a url may look like, for the error text. */
static const char url_forms[] = "use unix:PATH or redis://HOST:PORT";

/* Of a url, for the error text: there is no password after the last @. */
static const char *tellable(const char *url)
{
    const char *at = strrchr(url, '@');

    return at == NULL ? url : at + 1;
}

/* Digits only: strtol() would take blanks and signs as well. */
static bool is_port(const char *text)
{
    char *end;
    long port;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    port = strtol(text, &end, 10);
    return errno == 0 && *end == '\0' && port >= 1 && port <= 65535 &&
           strlen(text) < sizeof(((struct dlock_address *)NULL)->port);
}

/* "HOST:PORT" or "[V6]:PORT". */
static bool parse_tcp(const char *text, struct dlock_address *address)
{
    const char *colon = strrchr(text, ':');
    size_t len;

    if (colon == NULL || !is_port(colon + 1))
        return false;
    len = (size_t)(colon - text);
    if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    } else if (strcspn(text, ":[]@") < len) {
        return false;
    }
    if (len == 0 || len >= sizeof(address->host))
        return false;
    memcpy(address->host, text, len);
    memcpy(address->port, colon + 1, strlen(colon + 1));
    return true;
}

/* Any path that fits into a socket address. */
static bool parse_unix(const char *path, struct dlock_address *address)
{
    size_t len = strlen(path);

    /* sun_path is the narrower of the two. */
    if (len == 0 || len >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return false;
    address->local = true;
    memcpy(address->host, path, len + 1);
    return true;
}

enum dlock_status dlock_address_parse(const char *url,
                                      struct dlock_address *address,
                                      struct dlock_error *error)
{
    bool good = false;

    memset(address, 0, sizeof(*address));
    if (url == NULL)
        return dlock_error_set(error, DLOCK_MISUSE, "no url: %s", url_forms);
    if (strchr(url, ',') != NULL)
        return dlock_error_set(error, DLOCK_MISUSE,
                               "url '%.80s': this lock takes one server",
                               tellable(url));
    if (strncmp(url, "unix:", 5) == 0)
        good = parse_unix(url + 5, address);
    else if (strncmp(url, "redis://", 8) == 0)
        good = parse_tcp(url + 8, address);
    if (!good)
        return dlock_error_set(error, DLOCK_MISUSE, "url '%.80s': %s",
                               tellable(url), url_forms);
    return DLOCK_OK;
}

/* 1 = ready, 0 = the deadline has passed, -1 = errno. */
static int await(int fd, short events, uint64_t until_ms)
{
    for (;;) {
        struct pollfd poller = {.fd = fd, .events = events};
        uint64_t now = dlock_clock_real_now();
        uint64_t left = until_ms > now ? until_ms - now : 0;
        int ready = poll(&poller, 1, left > 60000 ? 60000 : (int)left);

        if (ready > 0)
            return 1;
        if (ready < 0 && errno != EINTR)
            return -1;
        if (left == 0)
            return 0;
    }
}

/* Small packets at once; a peer that is silently gone is found out. */
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

/* Waits for a connection under way. 0, or the errno of its failure. */
static int await_connected(int fd, uint64_t until_ms)
{
    socklen_t size = sizeof(int);
    int failure = 0;
    int ready = await(fd, POLLOUT, until_ms);

    if (ready <= 0)
        return ready == 0 ? ETIMEDOUT : errno;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        return errno;
    return failure;
}

/*
 * One address, one attempt. The socket, or -1 with errno. With PENDING it does
 * not wait, and says there whether there is something to wait for.
 */
static int connect_to(const struct sockaddr *to, socklen_t len,
                      uint64_t until_ms, bool *pending)
{
    int fd =
        socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int failure;

    if (fd < 0)
        return -1;
    if (connect(fd, to, len) == 0)
        return fd;
    failure = errno;
    if (failure == EINPROGRESS || failure == EINTR) {
        failure = pending != NULL ? 0 : await_connected(fd, until_ms);
        if (pending != NULL)
            *pending = true;
    }
    if (failure == 0)
        return fd;
    (void)close(fd);
    errno = failure;
    return -1;
}

/* A full backlog fails at once (EAGAIN): the caller's next try is a new one. */
static int connect_unix(const struct dlock_address *address, uint64_t until_ms,
                        bool *pending, struct dlock_error *error)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd;

    memcpy(to.sun_path, address->host, strlen(address->host) + 1);
    fd = connect_to((struct sockaddr *)&to, sizeof(to), until_ms, pending);
    if (fd < 0)
        (void)dlock_error_set(error, DLOCK_UNREACHABLE, "connect to %s: %s",
                              address->host, strerror(errno));
    return fd;
}

static int connect_any(const struct dlock_address *address, uint64_t until_ms,
                       bool *pending, struct dlock_error *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int fd = -1;
    int failure;

    if (address->local)
        return connect_unix(address, until_ms, pending, error);
    failure = getaddrinfo(address->host, address->port, &hints, &list);
    if (failure != 0) {
        (void)dlock_error_set(error, DLOCK_UNREACHABLE, "look up %.100s: %s",
                              address->host, gai_strerror(failure));
        return -1;
    }
    for (struct addrinfo *to = list; to != NULL && fd < 0; to = to->ai_next)
        fd = connect_to(to->ai_addr, to->ai_addrlen, until_ms, pending);
    if (fd < 0)
        (void)dlock_error_set(error, DLOCK_UNREACHABLE,
                              "connect to %.100s:%s: %s", address->host,
                              address->port, strerror(errno));
    else
        tune_tcp(fd);
    freeaddrinfo(list);
    return fd;
}

int dlock_net_connect(const struct dlock_address *address, uint64_t until_ms,
                      struct dlock_error *error)
{
    return connect_any(address, until_ms, NULL, error);
}

/* Of a host's addresses only one is tried: the first that does not refuse. */
int dlock_net_connect_begin(const struct dlock_address *address, bool *pending,
                            struct dlock_error *error)
{
    *pending = false;
    return connect_any(address, 0, pending, error);
}

/*
 * Sleeping in recv() takes one system call, poll() and recv() take two. And the
 * reader of a Unix socket is woken once more, when the server takes the command
 * (poll() does not tell of that): on an idle machine the processor is up by the
 * time the reply comes, which is most of the gain; on a busy one it is a
 * switch too many, as it is for whoever reads without poll().
 *
 * How long recv() may sleep is set on the socket, not given to the call, and to
 * set it for each command would be a second system call again. So it is set
 * once, to a part of a command's time, and recv() sleeps only while there is
 * twice as much left: the kernel counts these sleeps in ticks, and may round
 * them up by a quarter.
 */
unsigned dlock_net_nap(int fd, unsigned timeout_ms)
{
    unsigned nap_ms = timeout_ms / NAPS_PER_TIMEOUT;
    struct timeval nap = {.tv_sec = nap_ms / 1000,
                          .tv_usec = (suseconds_t)(nap_ms % 1000) * 1000};
    int flags = fcntl(fd, F_GETFL);

    if (nap_ms < NAP_MS_MIN || flags < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &nap, sizeof(nap)) != 0 ||
        fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
        return 0;
    return nap_ms;
}

/*
 * MSG_NOSIGNAL instead of blocking SIGPIPE around the call: that would take two
 * more system calls, and leave a pending signal to be fetched.
 */
int dlock_net_send(int fd, const char *bytes, size_t len, uint64_t until_ms)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        int ready;

        if (sent >= 0) {
            bytes += sent;
            len -= (size_t)sent;
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return -1;
        ready = await(fd, POLLOUT, until_ms);
        if (ready == 0)
            errno = ETIMEDOUT;
        if (ready <= 0)
            return -1;
    }
    return 0;
}

/* Whether a nap will be over in time, rounded up as it may be. */
static bool may_nap(unsigned nap_ms, uint64_t until_ms)
{
    uint64_t now = dlock_clock_real_now();

    return nap_ms > 0 && now + 2 * (uint64_t)nap_ms <= until_ms;
}

ssize_t dlock_net_receive(int fd, unsigned nap_ms, char *bytes, size_t size,
                          uint64_t until_ms)
{
    for (;;) {
        bool naps = may_nap(nap_ms, until_ms);
        ssize_t got = recv(fd, bytes, size, naps ? 0 : MSG_DONTWAIT);
        int ready;

        if (got >= 0 || (errno != EINTR && errno != EAGAIN))
            return got;
        if (naps)
            continue;
        ready = await(fd, POLLIN, until_ms);
        if (ready == 0)
            errno = ETIMEDOUT;
        if (ready <= 0)
            return -1;
    }
}

/* A byte out of turn is as bad as none: it would be taken for a reply. */
bool dlock_net_stale(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return got >= 0 || (errno != EAGAIN && errno != EINTR);
}

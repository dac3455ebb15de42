/*
 * The stages of a dial; an address may need one or all. A timerfd among the descriptors
 * limits two waits: for the answer to a name when an older one is known, and for one
 * place when others are left.
 */
#include "lock/dial/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/dial/address.h"
#include "lock/dial/login.h"
#include "lock/dial/lookup.h"
#include "lock/dial/sentinel.h"

/* So long, and no longer than this part of the time, for a newer answer. */
enum { LOOKUP_MS_MAX = 250, LOOKUP_SHARE = 4 };

struct dlock_dial {
    const struct dlock_address *address;
    uint64_t until_ms;
    enum { LOOKS_UP, CONNECTS, SHAKES, LOGS_IN } stage;
    int poll_fd; /* an epoll: the timer, and what the stage waits for */
    int timer_fd;
    struct dlock_search *search; /* instead of all that follows */
    struct dlock_lookup *lookup;
    struct dlock_places places;
    size_t begun_n; /* of the places */
    struct dlock_login login;
    struct dlock_link link; /* the connection, or what may become one */
};

/* Waiting ----------------------------------------------------------------- */

static enum dlock_status watch(const struct dlock_dial *dial, int fd,
                               uint32_t events, struct dlock_error *error)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    /* A socket that was not connected yet is there already, to be written to. */
    if (epoll_ctl(dial->poll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ||
        (errno == EEXIST &&
         epoll_ctl(dial->poll_fd, EPOLL_CTL_MOD, fd, &event) == 0))
        return DLOCK_OK;
    return dlock_error_set(error, DLOCK_UNREACHABLE, "epoll: %s",
                           strerror(errno));
}

/* Wakes the caller's poll in MS; 0 = at once, UINT64_MAX = never. */
static void set_timer(const struct dlock_dial *dial, uint64_t ms)
{
    struct itimerspec in = {
        .it_value = {.tv_sec = (time_t)(ms / 1000),
                     .tv_nsec = ms == 0 ? 1 : (long)(ms % 1000) * 1000000}};

    if (ms == UINT64_MAX)
        memset(&in, 0, sizeof(in));
    (void)timerfd_settime(dial->timer_fd, 0, &in, NULL);
}

/* Whether the timer is over; it is stopped then. */
static bool timer_rang(const struct dlock_dial *dial)
{
    uint64_t times;

    return read(dial->timer_fd, &times, sizeof(times)) == sizeof(times);
}

static uint64_t left_ms(const struct dlock_dial *dial)
{
    uint64_t now = dlock_clock_real_now();

    return dial->until_ms > now ? dial->until_ms - now : 0;
}

/* The connection, and the login on it ------------------------------------- */

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

static enum dlock_status begin_login(struct dlock_dial *dial,
                                     struct dlock_error *error)
{
    enum dlock_status status =
        dlock_login_begin(&dial->login, dial->address, dial->link, error);

    if (status != DLOCK_OK || dial->login.question.left == 0)
        return status;
    dial->stage = LOGS_IN;
    return dlock_login_go_on(&dial->login, dial->address, dial->link, error);
}

static enum dlock_status shake(struct dlock_dial *dial,
                               struct dlock_error *error)
{
    enum dlock_status status = dlock_tls_made->shake(dial->link.tls, error);

    return status == DLOCK_OK ? begin_login(dial, error) : status;
}

/* The socket under way is connected. */
static enum dlock_status connected(struct dlock_dial *dial,
                                   struct dlock_error *error)
{
    enum dlock_status status;

    set_timer(dial, UINT64_MAX);
    if (!dial->address->local)
        tune_tcp(dial->link.fd);
    status = watch(dial, dial->link.fd, EPOLLIN, error);
    if (status != DLOCK_OK)
        return status;
    if (!dial->address->tls)
        return begin_login(dial, error);
    dial->link.tls = dlock_tls_made->begin(dial->address, dial->link.fd, error);
    if (dial->link.tls == NULL)
        return DLOCK_UNREACHABLE;
    dial->stage = SHAKES;
    return shake(dial, error);
}

/* The places, one after the other ------------------------------------------ */

static enum dlock_status lost(const struct dlock_dial *dial, int failure,
                              struct dlock_error *error)
{
    if (dial->address->local)
        return dlock_error_set(error, DLOCK_UNREACHABLE, "connect to %s: %s",
                               dial->address->host, strerror(failure));
    return dlock_error_set(error, DLOCK_UNREACHABLE, "connect to %.100s:%s: %s",
                           dial->address->host, dial->address->port,
                           strerror(failure));
}

static bool has_next(const struct dlock_dial *dial)
{
    return dial->begun_n < dial->places.n;
}

/* 0 = connected, EINPROGRESS = under way, else why not. A full backlog of a Unix
 * socket fails at once (EAGAIN): the caller's next try is a new one. */
static int begin_connect(struct dlock_dial *dial)
{
    const struct dlock_place *place = &dial->places.list[dial->begun_n++];

    dlock_net_close(&dial->link);
    dial->link.fd = socket(place->at.ss_family,
                           SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (dial->link.fd < 0)
        return errno;
    if (connect(dial->link.fd, (const struct sockaddr *)&place->at,
                place->len) == 0)
        return 0;
    return errno == EINTR ? EINPROGRESS : errno;
}

/* Each place is waited for in its share of the time, because the last one must have
 * its turn. */
static enum dlock_status try_next(struct dlock_dial *dial, int failure,
                                  struct dlock_error *error)
{
    while (has_next(dial)) {
        failure = begin_connect(dial);
        if (failure == 0)
            return connected(dial, error);
        if (failure != EINPROGRESS)
            continue;
        if (watch(dial, dial->link.fd, EPOLLOUT, error) != DLOCK_OK)
            return DLOCK_UNREACHABLE;
        if (has_next(dial))
            set_timer(dial,
                      left_ms(dial) / (dial->places.n - dial->begun_n + 1));
        return DLOCK_BUSY;
    }
    return lost(dial, failure, error);
}

/* 0 = connected, EINPROGRESS = still under way, else why not. */
static int outcome(int fd)
{
    struct pollfd poller = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof(int);
    int failure = 0;

    if (poll(&poller, 1, 0) <= 0)
        return EINPROGRESS;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        return errno;
    return failure;
}

static enum dlock_status connects(struct dlock_dial *dial,
                                  struct dlock_error *error)
{
    int failure = dial->begun_n == 0 ? EADDRNOTAVAIL : outcome(dial->link.fd);
    bool waited = timer_rang(dial) && has_next(dial);

    if (failure == 0)
        return connected(dial, error);
    if (failure == EINPROGRESS && !waited)
        return DLOCK_BUSY;
    return try_next(dial, failure, error);
}

/* Names ------------------------------------------------------------------- */

/* A name's old answer is good enough if there is no new one; "there is no such
 * name" is one. */
static enum dlock_status look_up(struct dlock_dial *dial,
                                 struct dlock_error *error)
{
    struct dlock_places *places = &dial->places;
    bool waited = timer_rang(dial);
    int failure = 0;

    if (!dlock_lookup_answer(dial->lookup, &failure, places)) {
        if (!waited || !dlock_lookup_remembered(dial->lookup, places))
            return DLOCK_BUSY;
    } else if (failure != 0 && (failure == EAI_NONAME ||
                                !dlock_lookup_remembered(dial->lookup, places)))
        return dlock_error_set(error, DLOCK_UNREACHABLE, "look up %.100s: %s",
                               dial->address->host, gai_strerror(failure));
    dlock_lookup_end(dial->lookup);
    dial->lookup = NULL;
    dial->stage = CONNECTS;
    return try_next(dial, EADDRNOTAVAIL, error);
}

static enum dlock_status begin_lookup(struct dlock_dial *dial,
                                      struct dlock_error *error)
{
    uint64_t share_ms = left_ms(dial) / LOOKUP_SHARE;

    dial->lookup = dlock_lookup_begin(dial->address->host, dial->address->port);
    if (dial->lookup == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "look up %.100s: no memory, or too many at once",
                               dial->address->host);
    dial->stage = LOOKS_UP;
    set_timer(dial, share_ms < LOOKUP_MS_MAX ? share_ms : LOOKUP_MS_MAX);
    return watch(dial, dlock_lookup_fd(dial->lookup), EPOLLIN, error);
}

/* All of it --------------------------------------------------------------- */

/* A Unix socket is one place; so is an address in numbers. */
static bool is_at_hand(struct dlock_dial *dial)
{
    struct dlock_places *places = &dial->places;
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    if (!dial->address->local)
        return dlock_lookup_numbers(dial->address->host, dial->address->port,
                                    places);
    memcpy(to.sun_path, dial->address->host, strlen(dial->address->host) + 1);
    memcpy(&places->list[0].at, &to, sizeof(to));
    places->list[0].len = sizeof(to);
    places->n = 1;
    return true;
}

struct dlock_dial *dlock_dial_begin(const struct dlock_address *address,
                                    uint64_t until_ms,
                                    struct dlock_error *error)
{
    struct dlock_dial *dial = calloc(1, sizeof(*dial));

    if (dial == NULL) {
        (void)dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
        return NULL;
    }
    dial->link = dlock_link_plain(-1);
    dial->poll_fd = dial->timer_fd = -1;
    if (dlock_address_lacks(address) != NULL) {
        (void)dlock_error_set(error, DLOCK_UNREACHABLE, "%s",
                              dlock_address_lacks(address));
        goto err_after_alloc;
    }
    dial->address = address;
    dial->until_ms = until_ms;
    dial->stage = CONNECTS;
    dial->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    dial->timer_fd =
        timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (dial->poll_fd < 0 || dial->timer_fd < 0) {
        (void)dlock_error_set(error, DLOCK_UNREACHABLE, "connect: %s",
                              strerror(errno));
        goto err_after_alloc;
    }
    if (watch(dial, dial->timer_fd, EPOLLIN, error) != DLOCK_OK)
        goto err_after_alloc;
    if (address->primary[0] != '\0')
        dial->search = dlock_search_begin(address, dial->poll_fd,
                                          dial->timer_fd, until_ms, error);
    else if (is_at_hand(dial) || begin_lookup(dial, error) == DLOCK_OK)
        return dial;
    if (dial->search == NULL)
        goto err_after_alloc;
    return dial;

err_after_alloc:
    dlock_dial_end(dial);
    return NULL;
}

int dlock_dial_fd(const struct dlock_dial *dial)
{
    return dial->poll_fd;
}

enum dlock_status dlock_dial_go_on(struct dlock_dial *dial,
                                   struct dlock_link *link,
                                   struct dlock_error *error)
{
    enum dlock_status status;

    if (dial->search != NULL)
        return dlock_search_go_on(dial->search, link, error);
    if (dial->stage == LOOKS_UP)
        status = look_up(dial, error);
    else if (dial->stage == CONNECTS)
        status = connects(dial, error);
    else if (dial->stage == SHAKES)
        status = shake(dial, error);
    else
        status =
            dlock_login_go_on(&dial->login, dial->address, dial->link, error);
    *link = dlock_link_plain(-1);
    if (status == DLOCK_OK) {
        *link = dial->link;
        dial->link = dlock_link_plain(-1);
    }
    return status;
}

void dlock_dial_end(struct dlock_dial *dial)
{
    if (dial == NULL)
        return;
    dlock_search_end(dial->search);
    dlock_login_end(&dial->login);
    dlock_lookup_end(dial->lookup);
    dlock_net_close(&dial->link);
    if (dial->timer_fd >= 0)
        (void)close(dial->timer_fd);
    if (dial->poll_fd >= 0)
        (void)close(dial->poll_fd);
    free(dial);
}

/* The stage that it was at when time was up. */
static void late(const struct dlock_dial *dial, struct dlock_error *error)
{
    if (dial->search != NULL)
        dlock_search_late(dial->search, error);
    else if (dial->stage == LOOKS_UP)
        (void)dlock_error_set(error, DLOCK_UNREACHABLE, "look up %.100s: %s",
                              dial->address->host, strerror(ETIMEDOUT));
    else if (dial->stage == LOGS_IN || dial->stage == SHAKES)
        (void)dlock_error_set(error, DLOCK_UNREACHABLE, "redis: %s: %s",
                              dial->stage == SHAKES ? "TLS" : "log in",
                              strerror(ETIMEDOUT));
    else
        (void)lost(dial, ETIMEDOUT, error);
}

enum dlock_status dlock_dial(const struct dlock_address *address,
                             uint64_t until_ms, struct dlock_link *link,
                             struct dlock_error *error)
{
    struct dlock_dial *dial = dlock_dial_begin(address, until_ms, error);
    enum dlock_status status = DLOCK_UNREACHABLE;

    if (dial == NULL)
        return DLOCK_UNREACHABLE;
    for (;;) {
        struct pollfd poller = {.events = POLLIN};
        uint64_t left;

        status = dlock_dial_go_on(dial, link, error);
        left = left_ms(dial);
        if (status != DLOCK_BUSY || left == 0)
            break;
        poller.fd = dial->poll_fd;
        (void)poll(&poller, 1, left > 60000 ? 60000 : (int)left);
    }
    if (status == DLOCK_BUSY)
        late(dial, error);
    dlock_dial_end(dial);
    return status == DLOCK_BUSY ? DLOCK_UNREACHABLE : status;
}

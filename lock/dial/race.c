#include "lock/dial/race.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { STEP_MS_MAX = 250 }; /* RFC 8305, section 8 */

/* Where time is short, it is shared: the last place has to have its turn. */
uint64_t dlock_race_step_ms(const struct dlock_race *race, uint64_t left_ms)
{
    size_t rest = race->places.n - race->begun_n + 1;
    uint64_t share_ms = left_ms / rest;

    return share_ms < STEP_MS_MAX ? share_ms : STEP_MS_MAX;
}

/* 0 = connected, EINPROGRESS = under way, else why not. *FD is closed then. */
static int begin(const struct dlock_place *place, int *fd)
{
    int failure;

    *fd = socket(place->at.ss_family,
                 SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return errno;
    if (connect(*fd, (const struct sockaddr *)&place->at, place->len) == 0)
        return 0;
    failure = errno;
    if (failure == EINPROGRESS || failure == EINTR)
        return EINPROGRESS;
    (void)close(*fd);
    *fd = -1;
    return failure;
}

/* FD, once it is connected or has failed, wakes who polls the race. 0, or an errno. */
static int watch(const struct dlock_race *race, int fd)
{
    struct epoll_event event = {.events = EPOLLOUT, .data.fd = fd};

    return epoll_ctl(race->poll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

int dlock_race_next(struct dlock_race *race)
{
    while (dlock_race_has_next(race)) {
        int *fd = &race->fds[race->begun_n];
        int failure = begin(&race->places.list[race->begun_n], fd);

        race->begun_n++;
        if (failure == 0)
            return *fd;
        if (failure == EINPROGRESS)
            failure = watch(race, *fd);
        if (failure == 0)
            return -1;
        race->failure = failure;
        if (*fd >= 0)
            (void)close(*fd);
        *fd = -1;
    }
    return -1;
}

bool dlock_race_has_next(const struct dlock_race *race)
{
    return race->begun_n < race->places.n;
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

int dlock_race_look(struct dlock_race *race, bool *lost)
{
    *lost = false;
    for (size_t i = 0; i < race->begun_n; i++) {
        int failure = race->fds[i] < 0 ? EINPROGRESS : outcome(race->fds[i]);

        if (failure == 0)
            return race->fds[i];
        if (failure == EINPROGRESS)
            continue;
        race->failure = failure;
        (void)close(race->fds[i]);
        race->fds[i] = -1;
        *lost = true;
    }
    return -1;
}

bool dlock_race_is_over(const struct dlock_race *race)
{
    for (size_t i = 0; i < race->begun_n; i++)
        if (race->fds[i] >= 0)
            return false;
    return !dlock_race_has_next(race);
}

void dlock_race_end(struct dlock_race *race, int keep)
{
    for (size_t i = 0; i < race->begun_n; i++)
        if (race->fds[i] >= 0 && race->fds[i] != keep)
            (void)close(race->fds[i]);
    race->begun_n = 0;
}

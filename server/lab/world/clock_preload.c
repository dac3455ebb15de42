/*
 * Virtual time for the stage's redis-server: a library of its own, preloaded into
 * it. The wall clock, by which keys expire and scripts ask for TIME, is the number
 * at the head of the stage's memory; the monotonic clock, by which the server
 * tends its sockets, stays the machine's.
 *
 * Why not libfaketime? It reads its time from a file with every call, and would
 * have to be installed; this is a load from memory.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile uint64_t *clocks; /* now; and behind it, how much each
                                          server's clock is ahead */
static const volatile uint64_t *ahead_us;
static int (*real_clock_gettime)(clockid_t id, struct timespec *now);

/* A server without it would end leases by the machine's clock: it must not run. */
__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("STOCKADE_STAGE_CLOCK");
    const char *node = getenv("STOCKADE_STAGE_NODE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    /* One page is enough: the clocks stand at the head of the board. */
    void *page =
        fd >= 0 ? mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (page == MAP_FAILED)
        _exit(71);
    /* The mapping stays without its descriptor. */
    (void)close(fd);
    clocks = page;
    /* Each server has its own lead; now is the same for all. */
    ahead_us = clocks + 1 + strtoul(node ? node : "0", NULL, 10);
    /* The C library's own takes no system call. */
    *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
}

static uint64_t now_us(void)
{
    return *clocks + *ahead_us;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    /* A constructor of another library may ask for the time before this one has run:
     * then the kernel is asked. */
    if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)
        return real_clock_gettime ? real_clock_gettime(id, now)
                                  : (int)syscall(SYS_clock_gettime, id, now);
    now->tv_sec = (time_t)(now_us() / 1000000);
    now->tv_nsec = (long)(now_us() % 1000000) * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    now->tv_sec = (time_t)(now_us() / 1000000);
    now->tv_usec = (suseconds_t)(now_us() % 1000000);
    return 0;
}

time_t time(time_t *seconds)
{
    time_t now = (time_t)(now_us() / 1000000);

    if (seconds)
        *seconds = now;
    return now;
}

/*
 * The sockets under the wire: every send and every receive has a deadline, and
 * nothing ends the host program.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "lock/core/clock.h"
#include "lock/core/net.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

/* SIGPIPE would end this program. */
UNIT_TEST(test_no_sigpipe)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    (void)close(pair[1]);
    assert_int_equal(dlock_net_send(dlock_link_plain(pair[0]), "x", 1,
                                    dlock_clock_real_now() + 100),
                     -1);
    assert_int_equal(errno, EPIPE);
    assert_true(dlock_net_stale(dlock_link_plain(pair[0])));
    (void)close(pair[0]);
}

/* Nobody reads at the other end: sending has a deadline as well, also of a socket that
 * sleeps in recv(). */
UNIT_TEST(test_send_has_a_deadline)
{
    size_t size = 8 << 20;
    char *bytes = calloc(1, size);

    assert_non_null(bytes);
    for (int naps = 0; naps < 2; naps++) {
        uint64_t start_ms = lock_rig_now_ms();
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX,
                                    SOCK_STREAM | (naps ? 0 : SOCK_NONBLOCK), 0,
                                    pair),
                         0);
        if (naps)
            assert_int_equal(dlock_net_nap(dlock_link_plain(pair[0]), 1000),
                             250);
        assert_int_equal(dlock_net_send(dlock_link_plain(pair[0]), bytes, size,
                                        dlock_clock_real_now() + 50),
                         -1);
        assert_int_equal(errno, ETIMEDOUT);
        assert_in_range(lock_rig_now_ms() - start_ms, 49, 5000);
        (void)close(pair[0]);
        (void)close(pair[1]);
    }
    free(bytes);
}

UNIT_TEST(test_receive_and_stale)
{
    char bytes[8];
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair),
                     0);
    assert_false(dlock_net_stale(dlock_link_plain(pair[0])));
    assert_int_equal(dlock_net_receive(dlock_link_plain(pair[0]), 0, bytes,
                                       sizeof(bytes),
                                       dlock_clock_real_now() + 20),
                     -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_int_equal(write(pair[1], "late", 4), 4);
    errno = EAGAIN; /* of an earlier call */
    assert_true(dlock_net_stale(dlock_link_plain(pair[0])));
    assert_int_equal(dlock_net_receive(dlock_link_plain(pair[0]), 0, bytes,
                                       sizeof(bytes), 0),
                     4);
    (void)close(pair[1]);
    assert_int_equal(dlock_net_receive(dlock_link_plain(pair[0]), 0, bytes,
                                       sizeof(bytes), 0),
                     0);
    (void)close(pair[0]);
}

/* TLS with half a message of the server's: nothing gets on, though the socket is ready. */
static ssize_t send_nothing(struct dlock_tls *tls, const char *bytes, size_t n)
{
    errno = EAGAIN;
    return -1;
}

static ssize_t get_nothing(struct dlock_tls *tls, char *bytes, size_t size,
                           bool peek)
{
    errno = EAGAIN;
    return -1;
}

UNIT_TEST(test_ready_for_ever_has_a_deadline)
{
    static const struct dlock_tls_kind kind = {.send = send_nothing,
                                               .receive = get_nothing};
    const struct dlock_tls_kind *kept = dlock_tls_made;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(write(pair[1], "half", 4), 4);
    dlock_tls_made = &kind;
    for (int sends = 0; sends < 2; sends++) {
        struct dlock_link link = {pair[0], (struct dlock_tls *)pair};
        uint64_t until_ms = dlock_clock_real_now() + 20;
        char byte = 'x';

        assert_int_equal(sends ? dlock_net_send(link, &byte, 1, until_ms)
                               : dlock_net_receive(link, 0, &byte, 1, until_ms),
                         -1);
        assert_int_equal(errno, ETIMEDOUT);
    }
    dlock_tls_made = kept;
    (void)close(pair[0]);
    (void)close(pair[1]);
}

/* Nothing comes: until UNTIL_MS, and no longer; how long that was. */
static uint64_t receive_nothing(int fd, unsigned nap_ms, unsigned wait_ms)
{
    uint64_t start_ms = lock_rig_now_ms();
    char byte;

    assert_int_equal(dlock_net_receive(dlock_link_plain(fd), nap_ms, &byte, 1,
                                       dlock_clock_real_now() + wait_ms),
                     -1);
    assert_int_equal(errno, ETIMEDOUT);
    return lock_rig_now_ms() - start_ms;
}

static void ignore(int number)
{
}

/* A command with little time left must not sleep as one that has all. */
UNIT_TEST(test_nap_moves_no_deadline)
{
    struct sigaction action = {.sa_handler = ignore, .sa_flags = SA_RESTART};
    struct itimerval ticks = {.it_interval = {.tv_usec = 15000},
                              .it_value = {.tv_usec = 15000}};
    uint64_t start_ms;
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair),
                     0);
    assert_int_equal(dlock_net_nap(dlock_link_plain(pair[0]), 20), 0);
    assert_int_equal(dlock_net_nap(dlock_link_plain(pair[0]), 80000), 20000);
    assert_int_equal(fcntl(pair[0], F_GETFL) & O_NONBLOCK, 0);
    assert_in_range(receive_nothing(pair[0], 20000, 20), 19, 15000);
    assert_in_range(receive_nothing(pair[0], 20000, 0), 0, 15000);
    /* Several naps and a rest; and signals, which cut them short. */
    assert_int_equal(dlock_net_nap(dlock_link_plain(pair[0]), 100), 25);
    assert_in_range(receive_nothing(pair[0], 25, 130), 129, 15000);
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &ticks, NULL), 0);
    assert_in_range(receive_nothing(pair[0], 25, 130), 129, 15000);
    start_ms = lock_rig_now_ms();
    dlock_clock_sleep_us(130000);
    assert_in_range(lock_rig_now_ms() - start_ms, 129, 15000);
    ticks = (struct itimerval){.it_interval = {.tv_sec = 0}};
    assert_int_equal(setitimer(ITIMER_REAL, &ticks, NULL), 0);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

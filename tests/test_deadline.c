/*
 * The deadline's thread, the table of clients and the door, on socket pairs
 * and threads of our own. Waits are bounded by poll(), not by sleeping.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/http/admit.h"
#include "server/http/deadline.h"
#include "server/http/door.h"
#include "server/http/peer.h"

#define LIMIT_MS 100
#define LONG_MS  10000 /* never reached unless something is broken */

/* Milliseconds until FD is at its end; WAIT_MS if it is not by then. */
static uint64_t ends_after(int fd, int wait_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    uint64_t start = clock_ms();

    return poll(&poll_fd, 1, wait_ms) ? clock_ms() - start : (uint64_t)wait_ms;
}

static void cuts_whoever_is_late(void **state)
{
    struct deadline *deadline = deadline_open(LIMIT_MS);
    struct deadline_watch watch;
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    deadline_watch(deadline, &watch, ends[0]);
    assert_in_range(ends_after(ends[1], LONG_MS), LIMIT_MS - 2, LONG_MS - 1);
    deadline_restart(deadline, &watch); /* what is cut stays cut */
    deadline_forget(deadline, &watch);
    deadline_close(deadline);
    close(ends[0]);
    close(ends[1]);
}

static void time_stops_in_a_pause(void **state)
{
    struct deadline *deadline = deadline_open(LIMIT_MS);
    struct deadline_watch watch, other;
    int ends[2], others[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
    deadline_watch(deadline, &watch, ends[0]);
    deadline_watch(deadline, &other, others[0]);
    deadline_pause(deadline, &watch);
    deadline_pause(deadline, &watch); /* twice is once */
    /* The other one's cut tells that the first one's time has been. */
    assert_true(ends_after(others[1], LONG_MS) < LONG_MS);
    assert_int_equal(ends_after(ends[1], LIMIT_MS), LIMIT_MS);
    deadline_restart(deadline, &watch);
    assert_true(ends_after(ends[1], LONG_MS) < LONG_MS);
    deadline_forget(deadline, &watch);
    deadline_forget(deadline, &other);
    deadline_close(deadline);
    for (int i = 0; i < 2; i++) {
        close(ends[i]);
        close(others[i]);
    }
}

static void restarting_gives_the_full_time(void **state)
{
    struct deadline *deadline = deadline_open(LIMIT_MS);
    struct deadline_watch watches[3];
    int ends[3][2];
    uint64_t start = clock_ms();

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
        deadline_watch(deadline, &watches[i], ends[i][0]);
    }
    /* The middle one goes on while its neighbours are cut. */
    while (clock_ms() - start < (uint64_t)2 * LIMIT_MS) {
        deadline_restart(deadline, &watches[1]);
        assert_int_equal(ends_after(ends[1][1], LIMIT_MS / 10), LIMIT_MS / 10);
    }
    assert_true(ends_after(ends[0][1], LONG_MS) < LONG_MS);
    assert_true(ends_after(ends[2][1], LONG_MS) < LONG_MS);
    for (int i = 0; i < 3; i++) {
        deadline_forget(deadline, &watches[i]);
        close(ends[i][0]);
        close(ends[i][1]);
    }
    deadline_close(deadline);
}

static void forgotten_is_not_cut(void **state)
{
    struct deadline *deadline = deadline_open(LIMIT_MS);
    struct deadline_watch watch;
    int ends[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    deadline_watch(deadline, &watch, ends[0]);
    deadline_forget(deadline, &watch);
    assert_int_equal(ends_after(ends[1], 2 * LIMIT_MS), 2 * LIMIT_MS);
    deadline_watch(deadline, NULL, ends[0]);
    deadline_forget(deadline, NULL);
    deadline_close(deadline);
    deadline_close(NULL);
    close(ends[0]);
    close(ends[1]);
}

static void clients_have_a_limit_each(void **state)
{
    struct admit *admit = admit_open(2, 3);
    unsigned char a[ADMIT_CLIENT_BYTES] = {1}, b[ADMIT_CLIENT_BYTES] = {2},
                  c[ADMIT_CLIENT_BYTES] = {3};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(admit_enter(admit, a));
    assert_false(admit_enter(admit, a));
    assert_true(admit_enter(admit, b));
    assert_false(admit_enter(admit, c)); /* no room for a third */
    admit_leave(admit, b);
    assert_true(admit_enter(admit, c));
    admit_leave(admit, a);
    assert_true(admit_enter(admit, a));
    assert_false(admit_enter(admit, a));
    admit_close(admit);
    admit_close(NULL);
}

static void many_clients_come_and_go(void **state)
{
    struct admit *admit = admit_open(100, 1);
    unsigned char client[ADMIT_CLIENT_BYTES] = {0};

    (void)state;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 100; i++) {
            memcpy(client, &(int){round * 7 + i}, sizeof(int));
            assert_true(admit_enter(admit, client));
        }
        for (int i = 99; i >= 0; i--) {
            memcpy(client, &(int){round * 7 + i}, sizeof(int));
            admit_leave(admit, client);
        }
    }
    admit_close(admit);
}

static void *leave_later(void *arg)
{
    poll(NULL, 0, 20);
    door_leave(arg);
    return NULL;
}

static void the_door_waits_for_the_last(void **state)
{
    struct door door;
    pthread_t thread;

    (void)state;
    door_init(&door);
    door_enter(&door);
    assert_true(door_hand(&door));
    door_handed(&door);
    assert_true(door_shut(&door));
    assert_false(door_shut(&door));
    assert_false(door_is_open(&door));
    assert_false(door_hand(&door));
    door_handed(&door);
    assert_false(door_wait(&door, 10));
    assert_int_equal(pthread_create(&thread, NULL, leave_later, &door), 0);
    assert_true(door_wait(&door, LONG_MS));
    pthread_join(thread, NULL);
    assert_true(door_wait(&door, 0));
    door_release(&door);
}

static void key_of(int family, const char *text, unsigned char *key,
                   bool *local)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    const struct sockaddr *address = (const void *)&v6;

    if (family == AF_INET) {
        inet_pton(family, text, &v4.sin_addr);
        address = (const void *)&v4;
    } else {
        inet_pton(family, text, &v6.sin6_addr);
    }
    peer_key(address, key);
    *local = peer_is_local(address);
}

static void peers_are_told_apart(void **state)
{
    unsigned char a[PEER_BYTES], b[PEER_BYTES];
    bool local;

    (void)state;
    key_of(AF_INET, "10.1.2.3", a, &local);
    assert_false(local);
    key_of(AF_INET6, "::ffff:10.1.2.3", b, &local);
    assert_false(local);
    assert_memory_equal(a, b, PEER_BYTES);
    key_of(AF_INET, "10.1.2.4", b, &local);
    assert_memory_not_equal(a, b, PEER_BYTES);
    key_of(AF_INET6, "2001:db8::1", a, &local);
    key_of(AF_INET6, "2001:db8::2", b, &local);
    assert_memory_equal(a, b, PEER_BYTES);
    key_of(AF_INET6, "2001:db8:0:1::1", b, &local);
    assert_memory_not_equal(a, b, PEER_BYTES);
    assert_false(local);
    key_of(AF_INET, "127.0.0.2", a, &local);
    assert_true(local);
    key_of(AF_INET6, "::1", a, &local);
    assert_true(local);
    key_of(AF_INET6, "::ffff:127.0.0.1", a, &local);
    assert_true(local);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_whoever_is_late),
        cmocka_unit_test(time_stops_in_a_pause),
        cmocka_unit_test(restarting_gives_the_full_time),
        cmocka_unit_test(forgotten_is_not_cut),
        cmocka_unit_test(clients_have_a_limit_each),
        cmocka_unit_test(many_clients_come_and_go),
        cmocka_unit_test(the_door_waits_for_the_last),
        cmocka_unit_test(peers_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

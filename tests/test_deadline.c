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
#include <stdatomic.h>
#include <stdbool.h>
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

/*
 * Who was restarted in between is put back before who came later, and the time
 * that it was given is the full limit and no more.
 */
static void everybody_is_cut_in_turn(void **state)
{
    struct deadline *deadline = deadline_open(4 * LIMIT_MS);
    struct deadline_watch early, late;
    int earlies[2], lates[2];
    uint64_t start;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, earlies), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, lates), 0);
    deadline_watch(deadline, &early, earlies[0]);
    assert_int_equal(ends_after(earlies[1], LIMIT_MS), LIMIT_MS);
    start = clock_ms();
    deadline_restart(deadline, &early);
    assert_int_equal(ends_after(earlies[1], 2 * LIMIT_MS), 2 * LIMIT_MS);
    deadline_watch(deadline, &late, lates[0]);
    assert_true(ends_after(earlies[1], LONG_MS) < LONG_MS);
    assert_in_range(clock_ms() - start, 4 * LIMIT_MS - 2, LONG_MS);
    assert_int_equal(
        poll(&(struct pollfd){.fd = lates[1], .events = POLLIN}, 1, 0), 0);
    assert_true(ends_after(lates[1], LONG_MS) < LONG_MS);
    deadline_forget(deadline, &early);
    deadline_forget(deadline, &late);
    deadline_close(deadline);
    for (int i = 0; i < 2; i++) {
        close(earlies[i]);
        close(lates[i]);
    }
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
    deadline_close(deadline);
    deadline_close(NULL);
    close(ends[0]);
    close(ends[1]);
}

static void clients_have_a_limit_each(void **state)
{
    struct admit *admit = admit_open(2, 3);
    const unsigned char address_a[ADMIT_CLIENT_BYTES] = {1},
                        address_b[ADMIT_CLIENT_BYTES] = {2},
                        address_c[ADMIT_CLIENT_BYTES] = {3};
    struct admit_client *a, *b, *c;

    (void)state;
    a = admit_meet(admit, address_a);
    assert_ptr_equal(admit_meet(admit, address_a), a); /* a second connection */
    b = admit_meet(admit, address_b);
    assert_ptr_not_equal(a, b);
    for (int i = 0; i < 3; i++)
        assert_true(admit_enter(admit, a));
    assert_false(admit_enter(admit, a));
    assert_true(admit_enter(admit, b));
    /* No room for a third. */
    assert_null(admit_meet(admit, address_c));
    assert_false(admit_enter(admit, NULL));
    admit_part(admit, NULL);
    admit_leave(b);
    admit_part(admit, b);
    c = admit_meet(admit, address_c);
    assert_true(admit_enter(admit, c));
    admit_leave(c);
    admit_leave(a);
    assert_true(admit_enter(admit, a));
    assert_false(admit_enter(admit, a));
    /* Its other connection is still there. */
    admit_part(admit, a);
    assert_ptr_equal(admit_meet(admit, address_a), a);
    assert_false(admit_enter(admit, a));
    admit_close(admit);
    admit_close(NULL);
}

static void many_clients_come_and_go(void **state)
{
    struct admit *admit = admit_open(100, 1);
    struct admit_client *clients[100];
    unsigned char address[ADMIT_CLIENT_BYTES] = {0};

    (void)state;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 100; i++) {
            memcpy(address, &(int){round * 7 + i}, sizeof(int));
            clients[i] = admit_meet(admit, address);
            assert_true(admit_enter(admit, clients[i]));
        }
        for (int i = 99; i >= 0; i--) {
            admit_leave(clients[i]);
            admit_part(admit, clients[i]);
        }
    }
    admit_close(admit);
}

struct crowd {
    struct admit *admit;
    struct admit_client *client;
    atomic_int inside;
    bool never_too_many;
};

static void *come_and_go(void *arg)
{
    struct crowd *crowd = arg;

    for (int i = 0; i < 20000; i++) {
        if (!admit_enter(crowd->admit, crowd->client))
            continue;
        if (atomic_fetch_add(&crowd->inside, 1) >= 2)
            crowd->never_too_many = false;
        atomic_fetch_sub(&crowd->inside, 1);
        admit_leave(crowd->client);
    }
    return NULL;
}

static void a_limit_holds_for_threads(void **state)
{
    const unsigned char address[ADMIT_CLIENT_BYTES] = {1};
    struct crowd crowd = {.admit = admit_open(1, 2), .never_too_many = true};
    pthread_t threads[4];

    (void)state;
    crowd.client = admit_meet(crowd.admit, address);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &crowd),
                         0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_true(crowd.never_too_many);
    /* Nobody was counted who has not left. */
    assert_true(admit_enter(crowd.admit, crowd.client));
    assert_true(admit_enter(crowd.admit, crowd.client));
    assert_false(admit_enter(crowd.admit, crowd.client));
    admit_close(crowd.admit);
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
        cmocka_unit_test(everybody_is_cut_in_turn),
        cmocka_unit_test(forgotten_is_not_cut),
        cmocka_unit_test(clients_have_a_limit_each),
        cmocka_unit_test(many_clients_come_and_go),
        cmocka_unit_test(a_limit_holds_for_threads),
        cmocka_unit_test(the_door_waits_for_the_last),
        cmocka_unit_test(peers_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Sentinels that disagree: the newest configuration counts, whoever is asked first. Real
 * ones, which agree again too soon to be caught at it, are in full/test_dlock_sentinel.c.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <unistd.h>

#include "lock/core/clock.h"
#include "lock/dial/dial.h"
#include "tests/support/deaf_server.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

enum { TRIES = 15 };

/* One that says the same to everybody. */
struct sentinel {
    int fd;
    unsigned port;
    char says[200];
    pthread_t thread;
};

static void *run(void *arg)
{
    struct sentinel *sentinel = arg;
    char heard[1000];
    int fd;

    while ((fd = accept(sentinel->fd, NULL, NULL)) >= 0) {
        if (recv(fd, heard, sizeof(heard), 0) > 0)
            (void)send(fd, sentinel->says, strlen(sentinel->says),
                       MSG_NOSIGNAL);
        (void)close(fd);
    }
    return NULL;
}

static void begin(struct sentinel *sentinel, const struct redis_server *names,
                  unsigned epoch)
{
    const char *port = text_of("%d", redis_server_port(names));
    struct sockaddr_in at;

    sentinel->fd = deaf_server_bind(&at, TRIES);
    sentinel->port = ntohs(at.sin_port);
    (void)snprintf(sentinel->says, sizeof(sentinel->says),
                   "*6\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n"
                   "$%zu\r\n%s\r\n$12\r\nconfig-epoch\r\n$1\r\n%u\r\n",
                   strlen(port), port, epoch);
    assert_int_equal(pthread_create(&sentinel->thread, NULL, run, sentinel), 0);
}

static void end(struct sentinel *sentinel)
{
    (void)shutdown(sentinel->fd, SHUT_RDWR);
    (void)pthread_join(sentinel->thread, NULL);
    (void)close(sentinel->fd);
}

static int find_port(const struct dlock_address *address)
{
    struct sockaddr_in peer;
    socklen_t size = sizeof(peer);
    struct dlock_link link;

    assert_int_equal(
        dlock_sentinel_find(address,
                            dlock_clock_real_now() + LOCK_RIG_PROMPT_MS, &link),
        DLOCK_OK);
    assert_int_equal(getpeername(link.fd, (struct sockaddr *)&peer, &size), 0);
    dlock_net_close(&link);
    return ntohs(peer.sin_port);
}

/* An answer that comes late, on a busy machine, is not waited for: so most tries count. */
UNIT_TEST(the_newest_configuration_counts)
{
    struct redis_server *old = redis_server_start_tcp(NULL);
    struct redis_server *new = redis_server_start_tcp(NULL);
    struct sentinel sentinels[2];
    struct dlock_address address;
    int news_n = 0;

    begin(&sentinels[0], old, 6);
    begin(&sentinels[1], new, 7);
    assert_non_null(
        dlock_url_parse(text_of("sentinel://127.0.0.1:%u,127.0.0.1:%u/main",
                                sentinels[0].port, sentinels[1].port),
                        &address));
    for (int i = 0; i < TRIES; i++)
        news_n += find_port(&address) == redis_server_port(new);
    assert_in_range(news_n, TRIES / 2 + 1, TRIES);
    for (size_t i = 0; i < COUNT_OF(sentinels); i++)
        end(&sentinels[i]);
    redis_server_stop(old);
    redis_server_stop(new);
}

LOCK_RIG_MAIN

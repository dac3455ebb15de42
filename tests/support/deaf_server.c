/* See deaf_server.h. */
#include "tests/support/deaf_server.h"

#include <sys/socket.h>

#include "tests/support/unit_test.h"

int deaf_server_bind(struct sockaddr_in *at, int backlog)
{
    socklen_t size = sizeof(*at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *at = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &size), 0);
    if (backlog >= 0)
        assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

struct deaf_server deaf_server_open(void)
{
    struct deaf_server deaf;

    deaf.fd = deaf_server_bind(&deaf.at, 0);
    for (int i = 0; i < 4; i++) {
        deaf.clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(deaf.clients[i], (struct sockaddr *)&deaf.at,
                      sizeof(deaf.at));
    }
    return deaf;
}

void deaf_server_close(const struct deaf_server *deaf)
{
    for (int i = 0; i < 4; i++)
        (void)close(deaf->clients[i]);
    (void)close(deaf->fd);
}

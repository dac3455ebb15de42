#include "server/lab/conform/zk_ensemble.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PATIENCE_S = 2 };

bool zk_nodes_parse(const char *url, struct zk_nodes *nodes)
{
    nodes->n = 0;
    url += strncmp(url, "zk:", 3) == 0 ? 3 : 0;
    for (;;) {
        size_t len = strcspn(url, ",/");

        if (nodes->n == ZK_NODES_MAX || len >= ZK_NODE_BYTES_MAX)
            return false;
        (void)snprintf(nodes->at[nodes->n++], ZK_NODE_BYTES_MAX, "%.*s",
                       (int)len, url);
        if (url[len] != ',')
            return true;
        url += len + 1;
    }
}

/* A connection to HOST:PORT, or -1. */
static int reach(const char *at)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    const char *colon = strrchr(at, ':');
    char host[ZK_NODE_BYTES_MAX];
    struct addrinfo *found;
    int fd;

    if (!colon)
        return -1;
    (void)snprintf(host, sizeof(host), "%.*s", (int)(colon - at), at);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -1;
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        (void)close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

/* The answer to the four letters "srvr" ends with the connection. */
char zk_node_role(const char *at)
{
    int fd = reach(at);
    char answer[2048];
    const char *role;
    size_t len = 0;
    ssize_t got;

    if (fd < 0)
        return '\0';
    got = send(fd, "srvr", 4, MSG_NOSIGNAL);
    while (got > 0 && len + 1 < sizeof(answer)) {
        got = recv(fd, answer + len, sizeof(answer) - len - 1, 0);
        len += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    answer[len] = '\0';
    role = strstr(answer, "Mode: ");
    if (!role)
        return '\0';
    return role[strlen("Mode: ")];
}

bool zk_node_do(const char *command, const char *action, const char *at)
{
    char line[1024];
    int len = snprintf(line, sizeof(line), "%s %s %s", command, action, at);

    return len > 0 && (size_t)len < sizeof(line) && system(line) == 0;
}

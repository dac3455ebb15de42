/*
 * A place on this host that listens and accepts nobody: its queue is full, so
 * connecting to it hangs.
 */
#ifndef DEAF_SERVER_H
#define DEAF_SERVER_H

#include <netinet/in.h>

struct deaf_server {
    int fd;
    struct sockaddr_in at;
    int clients[4]; /* they fill the queue */
};

/* A socket with a port of 127.0.0.1; it listens, unless BACKLOG is -1. */
int deaf_server_bind(struct sockaddr_in *at, int backlog);

struct deaf_server deaf_server_open(void);
void deaf_server_close(const struct deaf_server *deaf);

#endif

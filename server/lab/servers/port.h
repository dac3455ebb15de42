/* A port for a redis-server that needs one: a replica follows by TCP alone. */
#ifndef PORT_H
#define PORT_H

#include <stdbool.h>
#include <stddef.h>

struct peek;

/* The server behind PEEK listens on a free port of the loopback, which PORT names, and
 * sends what it has to a replica at once. False: it does not. */
bool port_listen(struct peek *peek, char port[], size_t size);

#endif

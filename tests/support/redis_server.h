/*
 * A private redis-server for a test: on a Unix socket in a directory of its
 * own, without persistence. It dies with the test, however that ends.
 *
 * Anything that goes wrong here aborts the test program with a message: without
 * a server there is nothing to test.
 */
#ifndef REDIS_SERVER_H
#define REDIS_SERVER_H

#include <stdbool.h>
#include <stddef.h>

struct redis_server;

/* Starts one and returns when it accepts connections. */
struct redis_server *redis_server_start(void);

/*
 * The same on a port of 127.0.0.1 as well. With WATCHED, a sentinel, which calls
 * that one "main" and decides alone.
 */
struct redis_server *redis_server_start_tcp(const struct redis_server *watched);
/* A sentinel by these LINES of its configuration. */
struct redis_server *redis_server_start_sentinel(const char *lines);
/* A node of a cluster (redis_cluster.h), without slots. */
struct redis_server *redis_server_start_node(unsigned timeout_ms);
int redis_server_bus_port(const struct redis_server *server);
int redis_server_port(const struct redis_server *server);

/* Kills it and removes its directory. NULL is fine. */
void redis_server_stop(struct redis_server *server);

/* "unix:PATH", also while the server is down. */
const char *redis_server_url(const struct redis_server *server);

/* SIGKILL, and the same server again, without its data. */
void redis_server_kill(struct redis_server *server);
void redis_server_restart(struct redis_server *server);

/* SIGSTOP and SIGCONT: connections stay open, nothing is answered. */
void redis_server_pause(struct redis_server *server);
void redis_server_resume(struct redis_server *server);

/* One of the four by its word: "kill", "restart", "pause", "resume". */
void redis_server_do(struct redis_server *server, const char *how);

/*
 * Sends one command, its words separated by blanks, on a connection of its own
 * and puts the first 4 KB of the raw reply into REPLY (which may be NULL).
 */
void redis_server_ask(const struct redis_server *server, const char *command,
                      char *reply, size_t size);

/* The same, of a command as by printf(): for a reply that is an integer, and for one that
 * is no error. */
long long redis_server_number(const struct redis_server *server,
                              const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void redis_server_tell(const struct redis_server *server, const char *format,
                       ...) __attribute__((format(printf, 2, 3)));

/* The number behind TEXT in what INFO says of SECTION; 0 without TEXT in it. */
long long redis_server_info(const struct redis_server *server,
                            const char *section, const char *text);

/* Waits until SERVER answers COMMAND with TEXT in it. */
void redis_server_await(const struct redis_server *server, const char *command,
                        const char *text);

/*
 * Listens to CHANNEL on a connection of its own, which is the caller's to close:
 * what is published from now on is heard. And whether something is, within MS.
 */
int redis_server_listen(const struct redis_server *server, const char *channel);
bool redis_server_heard(int listener, unsigned ms);

#endif

/*
 * A private ZooKeeper for a test: one server on a free port of this machine,
 * its data in a directory of its own. Its clock ticks every 100 ms, so sessions
 * can be as short as 200 ms. It dies with the test; see server_proc.h.
 */
#ifndef ZOOKEEPER_SERVER_H
#define ZOOKEEPER_SERVER_H

struct zookeeper_server;

/* Starts one and returns when it listens. */
struct zookeeper_server *zookeeper_server_start(void);

/*
 * The same as member NUMBER, from 1, of an ensemble: MEMBERS are its lines of
 * the configuration. Does not wait for the others: see zookeeper_ensemble.h.
 */
struct zookeeper_server *zookeeper_server_start_member(unsigned number,
                                                       const char *members);

/* Kills it and removes its directory. NULL is fine. */
void zookeeper_server_stop(struct zookeeper_server *server);

/* "zk:127.0.0.1:PORT", also while the server is down. */
const char *zookeeper_server_url(const struct zookeeper_server *server);

/* A port that was free a moment ago. */
unsigned zookeeper_server_free_port(void);

/* SIGKILL, and the same server again: with its data, or without any. */
void zookeeper_server_kill(struct zookeeper_server *server);
void zookeeper_server_restart(struct zookeeper_server *server);
void zookeeper_server_restart_empty(struct zookeeper_server *server);

/* SIGSTOP and SIGCONT. */
void zookeeper_server_pause(struct zookeeper_server *server);
void zookeeper_server_resume(struct zookeeper_server *server);

#endif

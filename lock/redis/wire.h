/*
 * The wire: a connection to the lock server that speaks its protocol. Strategies
 * do not use it directly; they go through call.h, where the step hook sits.
 *
 * A wire belongs to one thread at a time. UNTIL_MS is real time (clock.h).
 */
#ifndef DLOCK_WIRE_H
#define DLOCK_WIRE_H

#include "lock/core/client.h"
#include "lock/dial/dial.h"
#include "lock/redis/command.h"

/* Others only read, but for the cluster, which is cluster.c's. */
struct dlock_wire {
    const struct dlock_wire_config *config;
    const char *owner;
    struct dlock_link link;  /* without a socket while there is no connection */
    struct dlock_dial *dial; /* of _begin, under way to one; or NULL */
    unsigned nap_ms;         /* see dlock_net_nap() */
    uint64_t connections_n;  /* that it has made, the present one counted */
    bool heard;     /* the server has said something on this connection */
    bool wants_tls; /* it has ended the last one before that, for this reason */
    uint64_t primary;             /* of the config, when this one was made */
    struct redisReader *reader;   /* hiredis' */
    struct dlock_encoded encoded; /* what was sent last */
    struct dlock_cluster *cluster;
};

/* Something a subscribed connection was told. */
struct dlock_event {
    enum dlock_event_kind {
        DLOCK_EVENT_NONE, /* nothing more for now */
        DLOCK_EVENT_SUBSCRIBED,
        DLOCK_EVENT_MESSAGE,
        DLOCK_EVENT_OTHER,
    } kind;
    bool all; /* of a message: it is for all that wait, see wake_all.lua */
    char channel[DLOCK_KEY_BYTES_MAX + 1];
};

/* For strategies on one Redis. */
extern const struct dlock_wire_kind dlock_wires;

/* Does not connect. CONFIG and OWNER are borrowed. NULL if out of memory. */
struct dlock_wire *dlock_wire_open(const struct dlock_wire_config *config,
                                   const char *owner);
void dlock_wire_close(struct dlock_wire *wire);

/* Drops the connection; _ready makes a new one. */
void dlock_wire_drop(struct dlock_wire *wire);

/* Connects, unless there is a connection that looks alive. */
enum dlock_status dlock_wire_ready(struct dlock_wire *wire, uint64_t until_ms);

/* The same without waiting. DLOCK_BUSY: ->dial is under way, and to be polled; _go_on takes
 * its outcome. It may stay under way after its caller has given up, because a server that
 * is slow to connect to would else never be reached. */
enum dlock_status dlock_wire_begin(struct dlock_wire *wire, uint64_t until_ms);
enum dlock_status dlock_wire_go_on(struct dlock_wire *wire);

/* Whether there is a connection that looks alive; and whether another one has found that the
 * primary is elsewhere now. */
bool dlock_wire_alive(const struct dlock_wire *wire);
bool dlock_wire_outdated(const struct dlock_wire *wire);

/* Sends one command on a _ready wire. DLOCK_UNREACHABLE whenever it fails, because a server
 * does not act on a part of a command. */
enum dlock_status dlock_wire_send(struct dlock_wire *wire,
                                  const struct dlock_command *command,
                                  enum dlock_script_by by, uint64_t until_ms);

/* Reads one reply. If it fails, DLOCK_UNKNOWN, the connection is dropped;
 * DLOCK_UNREACHABLE: the server wants TLS. */
enum dlock_status dlock_wire_read(struct dlock_wire *wire, uint64_t until_ms,
                                  struct dlock_reply *reply);

/* The next thing a subscriber was told; never blocks. */
enum dlock_status dlock_wire_event(struct dlock_wire *wire,
                                   struct dlock_event *event);

#endif

/*
 * libdlock: where a Redis is, taken apart; a part of dlock.h, which includes
 * this. Also for a host program that talks to the same servers by itself.
 *
 *     redis://[USER:PASSWORD@]HOST[:PORT][/DB]    HOST is a name, 10.0.0.7, [V6]
 *     unix:PATH[?user=USER&password=PASSWORD&db=DB]
 *     sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/NAME[/DB]
 *     cluster://[USER:PASSWORD@]HOST:PORT,HOST:PORT
 *     rediss:, sentinels: or clusters: [...][?ca=FILE&cert=FILE&key=FILE]
 *
 * Without a :PORT it is 6379, of a sentinel 26379.
 *
 * The hosts of sentinel:, up to 8, are asked for the primary that they call NAME each
 * time a connection is made. A sentinel that wants a login gets that of the primary.
 * A server that refuses the login, or the database, is DLOCK_UNREACHABLE.
 *
 * The hosts of cluster: are nodes of a Redis Cluster, up to 8, of which one is
 * enough to find the others. It is the last url of a list. While the slot of a lock
 * moves to another node, the lock is renewed, but neither taken nor given back: calls
 * wait, within their time; redis-cli --cluster fix ends a move that was broken off. A
 * name with a '}' in it needs a {tag}, or it is refused: CROSSSLOT. A release may wake
 * nobody, if a node dies with it, or has left the cluster: so waiters look by themselves
 * within a second. Until the cluster has a new primary, calls are DLOCK_UNREACHABLE.
 *
 * USER may be empty: the server's user "default". In USER and PASSWORD, %XX
 * stands for a byte; ',', '%', and what ends them, have to be written so: %2C.
 * A PATH has no '?' and no ','. Several urls have commas between.
 *
 * Looking HOST up, connecting and logging in take one connect timeout together; several
 * addresses of a name share it. A name is looked up for each new connection; if the
 * resolver gives no answer, the last good one is used. Threads that look up, or connect
 * to one of several servers, may outlive the client until their time is over. So the
 * library stays loaded after dlclose(3); a plug-in that has the archive in it has to be
 * linked like that: -z nodelete.
 *
 * rediss:, sentinels: and clusters: are TLS (dlock_more.h), to all of those servers; a
 * cluster needs tls-cluster yes. CA signs the certificates of servers; CERT and KEY, if
 * it is not in the same file, are for a server that wants one of its clients.
 */
#ifndef DLOCK_URL_H
#define DLOCK_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "lock/dlock_step.h"

DLOCK_BEGIN

#define DLOCK_USER_BYTES_MAX     127 /* without the NUL, %XX decoded */
#define DLOCK_PASSWORD_BYTES_MAX 511
#define DLOCK_HOSTS_MAX          8

/* One server, the primary of several, or a cluster. "" is what is not in the url. */
struct dlock_address {
    bool local;     /* a Unix socket */
    char host[256]; /* without the brackets; or the socket's path */
    char port[8];   /* in digits, 1 to 65535 */
    char user[DLOCK_USER_BYTES_MAX + 1];
    char password[DLOCK_PASSWORD_BYTES_MAX + 1];
    unsigned database;
    char primary[64]; /* what sentinels call it; "" = there are none */
    bool cluster;
    char hosts[512]; /* of sentinels, of a cluster; host and port are "" then */
    bool tls;
    char ca[256], cert[256], key[256]; /* files */
};

/* Takes the first url of a list apart. Returns what follows within URL: "", or the comma
 * and the next url; NULL if the url makes no sense, or is NULL. From any thread. */
const char *dlock_url_parse(const char *url, struct dlock_address *address);

/* Whether there is a login to be sent before anything else. */
bool dlock_url_has_login(const struct dlock_address *address);

/* One or more of these urls without their passwords, for logs: "redis://shop:***@host:6379";
 * where one makes no sense, "redis:***". Cuts what does not fit into SIZE bytes, the NUL
 * included. From any thread. */
void dlock_url_hide(const char *url, char *text, size_t size);

DLOCK_END

#endif

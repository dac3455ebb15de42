/*
 * The wire: hiredis' parser on sockets of our own (net.c and command.c say why). A connection
 * that had any trouble is dropped, not repaired: a late reply to an old command, read as the
 * reply to a new one, would turn a "no" into a "yes".
 */
#include "lock/redis/wire.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lock/dial/question.h"
#include "lock/redis/cluster.h"

struct dlock_wire *dlock_wire_open(const struct dlock_wire_config *config,
                                   const char *owner)
{
    struct dlock_wire *wire = calloc(1, sizeof(*wire));

    if (wire == NULL)
        return NULL;
    wire->config = config;
    wire->owner = owner;
    wire->link = dlock_link_plain(-1);
    return wire;
}

void dlock_wire_drop(struct dlock_wire *wire)
{
    dlock_dial_end(wire->dial);
    wire->dial = NULL;
    dlock_net_close(&wire->link);
    /* The nap was set on the socket that has gone. */
    wire->nap_ms = 0;
    /* The reader goes with the connection: it may hold half of an old reply. */
    if (wire->reader != NULL)
        redisReaderFree(wire->reader);
    wire->reader = NULL;
}

void dlock_wire_close(struct dlock_wire *wire)
{
    if (wire == NULL)
        return;
    dlock_wire_drop(wire);
    dlock_cluster_close(wire->cluster);
    free(wire->encoded.bytes);
    free(wire);
}

const struct dlock_wire_kind dlock_wires = {
    .parse = dlock_address_parse,
    .open = dlock_wire_open,
    .close = dlock_wire_close,
};

/* Connecting, sending, reading ----------------------------------------- */

/* Asking whether the connection is stale costs a system call per command. It buys the
 * difference between "reconnect" and "don't know" after a restart. */
bool dlock_wire_alive(const struct dlock_wire *wire)
{
    return wire->link.fd >= 0 && !dlock_wire_outdated(wire) &&
           !dlock_net_stale(wire->link);
}

bool dlock_wire_outdated(const struct dlock_wire *wire)
{
    return wire->link.fd >= 0 && wire->config->primary != NULL &&
           atomic_load(wire->config->primary) != wire->primary;
}

/* Makes room for a new connection. */
static enum dlock_status renew_reader(struct dlock_wire *wire)
{
    dlock_wire_drop(wire);
    wire->reader = dlock_reader_open();
    if (wire->reader == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    return DLOCK_OK;
}

/* The primary is known by a number, not 0: the hash of its address. */
static void take(struct dlock_wire *wire, struct dlock_link link)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof(at);

    /* The wire owns the socket from here on, and dlock_wire_drop() closes it. */
    wire->link = link;
    wire->heard = wire->wants_tls = false;
    wire->connections_n++;
    if (wire->config->primary == NULL)
        return;
    memset(&at, 0, sizeof(at));
    /* The peer's address and not the url's name is what tells a primary from the next: a
     * name stays the same after a failover. */
    if (getpeername(link.fd, (struct sockaddr *)&at, &size) != 0)
        size = 0;
    wire->primary = dlock_hash(DLOCK_HASH_BEGIN, &at,
                               size < sizeof(at) ? size : sizeof(at));
    /* The last connection made is the newest word on where the primary is: wires of other
     * sessions see a number that is not theirs, and connect anew. */
    atomic_store(wire->config->primary, wire->primary);
}

enum dlock_status dlock_wire_ready(struct dlock_wire *wire, uint64_t until_ms)
{
    struct dlock_link link;
    enum dlock_status status;

    if (dlock_wire_alive(wire))
        return DLOCK_OK;
    /* The reader must be there before the socket: a link without one could be sent on, and
     * never read. */
    if (renew_reader(wire) != DLOCK_OK)
        return DLOCK_UNREACHABLE;
    status = wire->config->address.cluster
                 ? dlock_cluster_ask(dlock_cluster_of(wire), until_ms, &link)
                 : dlock_dial(&wire->config->address, until_ms, &link);
    if (status != DLOCK_OK)
        return status;
    take(wire, link);
    /* recv() may sleep on this path only: a wire of dlock_wire_begin() is polled together
     * with others. */
    wire->nap_ms = dlock_net_nap(wire->link, wire->config->command_timeout_ms);
    return DLOCK_OK;
}

enum dlock_status dlock_wire_begin(struct dlock_wire *wire, uint64_t until_ms)
{
    /* An earlier one may have come to its end meanwhile, and the server have gone. */
    if (wire->dial != NULL)
        (void)dlock_wire_go_on(wire);
    if (dlock_wire_alive(wire))
        return DLOCK_OK;
    if (wire->dial != NULL)
        return DLOCK_BUSY;
    if (renew_reader(wire) != DLOCK_OK)
        return DLOCK_UNREACHABLE;
    /* The dial has a thread of its own, since names, TLS and logins would hold up the other
     * servers of a quorum. */
    wire->dial = dlock_dial_begin(&wire->config->address, NULL, until_ms);
    return wire->dial == NULL ? DLOCK_UNREACHABLE : dlock_wire_go_on(wire);
}

enum dlock_status dlock_wire_go_on(struct dlock_wire *wire)
{
    struct dlock_link link;
    enum dlock_status status = dlock_dial_go_on(wire->dial, &link);

    /* A dial under way stays: the next command finds it here. */
    if (status == DLOCK_BUSY)
        return status;
    dlock_dial_end(wire->dial);
    wire->dial = NULL;
    if (status == DLOCK_OK)
        take(wire, link);
    return status;
}

enum dlock_status dlock_wire_send(struct dlock_wire *wire,
                                  const struct dlock_command *command,
                                  enum dlock_script_by by, uint64_t until_ms)
{
    if (wire->link.fd < 0)
        return DLOCK_UNREACHABLE; /* the text says why */
    if (!dlock_encode(command, by, &wire->encoded))
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    if (dlock_net_send(wire->link, wire->encoded.bytes, wire->encoded.len,
                       until_ms) == 0)
        return DLOCK_OK;
    /* A part of the command may have gone out: the connection is of no use for a next
     * one. */
    dlock_error_say("redis: send: %s", strerror(errno));
    dlock_wire_drop(wire);
    return DLOCK_UNREACHABLE;
}

/* Replies as plain structs ------------------------------------------------- */

/* As much of TEXT as fits behind what is there, in a field of zeros. */
static void append(char *field, size_t size, const char *text)
{
    size_t used = strlen(field);

    memcpy(field + used, text, strnlen(text, size - 1 - used));
}

static void append_text(struct dlock_reply *to, const char *text)
{
    if (to->text[0] != '\0')
        append(to->text, sizeof(to->text), " ");
    append(to->text, sizeof(to->text), text);
}

/* Puts one value without parts into the plain struct and its text. */
static enum dlock_reply_kind take_value(const redisReply *from,
                                        struct dlock_reply *to)
{
    char digits[1 + DLOCK_DIGITS_MAX + 1] = "-";
    uint64_t size;

    switch (from->type) {
    case REDIS_REPLY_INTEGER:
        /* Integers beyond those that any script answers with are a stranger's, and are
         * cut. */
        if (to->integers_n < DLOCK_INTEGERS_MAX)
            to->integers[to->integers_n++] = from->integer;
        /* The subtraction is unsigned, because the lowest integer has no positive one. */
        size = from->integer < 0 ? 0 - (uint64_t)from->integer
                                 : (uint64_t)from->integer;
        (void)dlock_digits(digits + 1, size);
        append_text(to, from->integer < 0 ? digits : digits + 1);
        return DLOCK_REPLY_INTEGER;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
        /* The first string is the one that scripts answer with; of an error it is the
         * text. */
        if (to->string[0] == '\0')
            append(to->string, sizeof(to->string), from->str);
        append_text(to, from->str);
        return from->type == REDIS_REPLY_ERROR ? DLOCK_REPLY_ERROR
                                               : DLOCK_REPLY_STRING;
    default:
        append_text(to, "(nil)");
        return DLOCK_REPLY_NIL;
    }
}

/* Fills all of TO; what does not fit is cut. */
static void decode(const redisReply *from, struct dlock_reply *to)
{
    memset(to, 0, sizeof(*to));
    to->kind = DLOCK_REPLY_LIST;
    if (from->type != REDIS_REPLY_ARRAY)
        to->kind = take_value(from, to);
    else
        for (size_t i = 0; i < from->elements; i++)
            /* A list in a list counts as nil: cluster.c and sentinel.c read those by
             * themselves. */
            (void)take_value(from->element[i], to);
}

/* An event of a subscriber: ["message", channel, text] and the like. A message
 * without a text that we know says all by its coming. */
static void decode_event(const redisReply *raw, struct dlock_event *event)
{
    const char *verb;

    event->kind = DLOCK_EVENT_OTHER;
    if (raw->type != REDIS_REPLY_ARRAY || raw->elements < 2 ||
        raw->element[0]->type != REDIS_REPLY_STRING ||
        raw->element[1]->type != REDIS_REPLY_STRING)
        return;
    verb = raw->element[0]->str;
    if (strcmp(verb, "message") == 0)
        event->kind = DLOCK_EVENT_MESSAGE;
    else if (strcmp(verb, "subscribe") == 0)
        event->kind = DLOCK_EVENT_SUBSCRIBED;
    /* The texts "one" and "1" wake one waiter, and so does one that this version does not
     * know: the others look by their own pauses. */
    event->all = raw->elements > 2 &&
                 raw->element[2]->type == REDIS_REPLY_STRING &&
                 strcmp(raw->element[2]->str, "all") == 0;
    (void)snprintf(event->channel, sizeof(event->channel), "%s",
                   raw->element[1]->str);
}

/* Replies, and what a subscriber is told ----------------------------------- */

/* None of ours is near it: a server must not make this process grow without end. */
enum { REPLY_BYTES_MAX = 1 << 20 };

/* A server that hears us and is not heard would carry out what comes by the client's
 * other connections: none is used until one has been made anew. */
enum dlock_status dlock_wire_read(struct dlock_wire *wire, uint64_t until_ms,
                                  struct dlock_reply *reply)
{
    uint_fast64_t doubted = wire->primary;
    size_t room = REPLY_BYTES_MAX;
    redisReply *raw;
    bool hung_up;

    /* An earlier read of this batch has dropped the connection: what was sent on it stays
     * in doubt. */
    if (wire->link.fd < 0) /* the text says why */
        return wire->wants_tls ? DLOCK_UNREACHABLE : DLOCK_UNKNOWN;
    raw = dlock_reader_next(wire->reader, wire->link, wire->nap_ms, &room,
                            until_ms);
    /* ROOM counts down by each byte that came, also of half a reply. */
    wire->heard |= room < REPLY_BYTES_MAX;
    if (raw != NULL) {
        decode(raw, reply);
        freeReplyObject(raw);
        return DLOCK_OK;
    }
    /* A server that wants TLS closes at the first bytes; one that has talked before closes
     * for another reason. */
    hung_up = !wire->heard && (errno == 0 || errno == ECONNRESET);
    /* Complete silence alone raises the doubt; and the exchange leaves a newer primary
     * alone, which another session may have found meanwhile. */
    if (errno == ETIMEDOUT && room == REPLY_BYTES_MAX &&
        wire->config->primary != NULL)
        (void)atomic_compare_exchange_strong(wire->config->primary, &doubted,
                                             0);
    dlock_error_say("redis: %.100s", wire->reader->err != 0
                                         ? wire->reader->errstr
                                     : errno == 0 ? "connection closed"
                                                  : strerror(errno));
    /* The drop comes after errno and the reader's text were used, which it destroys. */
    dlock_wire_drop(wire);
    wire->wants_tls =
        hung_up && dlock_dial_wants_tls(&wire->config->address, until_ms);
    if (wire->wants_tls)
        return dlock_error_set(DLOCK_UNREACHABLE,
                               "redis: the server wants TLS: rediss://");
    return DLOCK_UNKNOWN;
}

enum dlock_status dlock_wire_event(struct dlock_wire *wire,
                                   struct dlock_event *event)
{
    bool stands = wire->link.fd >= 0;
    redisReply *reply = NULL;
    size_t room = SIZE_MAX;

    event->kind = DLOCK_EVENT_NONE;
    if (stands)
        reply = dlock_reader_next(wire->reader, wire->link, 0, &room, 0);
    if (reply != NULL) {
        decode_event(reply, event);
        freeReplyObject(reply);
    } else if (!stands || errno != ETIMEDOUT ||
               wire->reader->len > REPLY_BYTES_MAX) {
        dlock_wire_drop(wire);
        return dlock_error_set(DLOCK_UNREACHABLE, "redis: connection lost");
    }
    return DLOCK_OK;
}

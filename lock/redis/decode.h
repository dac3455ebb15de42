/*
 * Private to the wire: hiredis' replies as plain structs.
 */
#ifndef DLOCK_DECODE_H
#define DLOCK_DECODE_H

#include "lock/redis/wire.h"

struct redisReply;

/* Fills all of TO; what does not fit is cut. */
void dlock_decode(const struct redisReply *from, struct dlock_reply *to);

/* An event of a subscriber: ["message", channel, text] and the like. A message
 * without a text that we know says all by its coming. */
void dlock_decode_event(const struct redisReply *raw,
                        struct dlock_event *event);

#endif

/* See decode.h. */
#include "lock/redis/decode.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "lock/redis/encode.h"

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

static void take_integer(int64_t integer, struct dlock_reply *to)
{
    char text[1 + DLOCK_DIGITS_MAX + 1] = "-";
    bool negative = integer < 0;
    uint64_t size = negative ? 0 - (uint64_t)integer : (uint64_t)integer;

    if (to->integers_n < DLOCK_INTEGERS_MAX)
        to->integers[to->integers_n++] = integer;
    (void)dlock_digits(text + 1, size);
    append_text(to, negative ? text : text + 1);
}

/* Puts one value without parts into the plain struct and its text. */
static void take_value(const redisReply *from, struct dlock_reply *to)
{
    switch (from->type) {
    case REDIS_REPLY_INTEGER:
        take_integer(from->integer, to);
        break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
        if (to->string[0] == '\0')
            append(to->string, sizeof(to->string), from->str);
        append_text(to, from->str);
        break;
    default:
        append_text(to, "(nil)");
        break;
    }
}

/* hiredis' types, without the two that we make no difference between. */
static enum dlock_reply_kind kind_of(const redisReply *from)
{
    switch (from->type) {
    case REDIS_REPLY_INTEGER:
        return DLOCK_REPLY_INTEGER;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        return DLOCK_REPLY_STRING;
    case REDIS_REPLY_ARRAY:
        return DLOCK_REPLY_LIST;
    case REDIS_REPLY_ERROR:
        return DLOCK_REPLY_ERROR;
    default:
        return DLOCK_REPLY_NIL;
    }
}

void dlock_decode(const struct redisReply *from, struct dlock_reply *to)
{
    memset(to, 0, sizeof(*to));
    to->kind = kind_of(from);
    if (to->kind != DLOCK_REPLY_LIST) {
        take_value(from, to);
        return;
    }
    for (size_t i = 0; i < from->elements; i++)
        take_value(from->element[i], to);
}

void dlock_decode_event(const struct redisReply *raw, struct dlock_event *event)
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
    event->all = raw->elements > 2 &&
                 raw->element[2]->type == REDIS_REPLY_STRING &&
                 strcmp(raw->element[2]->str, "all") == 0;
    (void)snprintf(event->channel, sizeof(event->channel), "%s",
                   raw->element[1]->str);
}

/*
 * The protocol of replies, as much as these questions need: a line; a text with
 * its length before it; a list of such texts.
 */
#include "lock/dial/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/error.h"
#include "lock/core/net.h"

/* A reply, or a part of one: from its first byte, which tells its kind, to where
 * it may end. */
struct part {
    const char *at;
    const char *end;
};

/* Behind the line that begins at PART; NULL: its end has not come. */
static const char *after_line(struct part part)
{
    const char *end = memmem(part.at, (size_t)(part.end - part.at), "\r\n", 2);

    return end == NULL ? NULL : end + 2;
}

/* "$5\r\nhello\r\n": the text, and what is behind all of it; or NULL. */
static const char *after_text(struct part part, struct part *text)
{
    const char *line_end = after_line(part);
    long length;

    if (line_end == NULL)
        return NULL;
    length = *part.at == '$' ? strtol(part.at + 1, NULL, 10) : -1;
    *text = (struct part){line_end, line_end};
    if (length < 0)
        return line_end; /* there is none */
    if (length > part.end - line_end - 2)
        return NULL;
    text->end = line_end + length;
    return text->end + 2;
}

/* Whether all of it has come. */
static bool is_whole(struct part part)
{
    const char *next = after_line(part);
    struct part text;

    if (next == NULL || *part.at != '*')
        return next != NULL && after_text(part, &text) != NULL;
    for (long n = strtol(part.at + 1, NULL, 10); n > 0; n--) {
        next = after_text((struct part){next, part.end}, &text);
        if (next == NULL)
            return false;
    }
    return true;
}

static struct part reply_of(const struct dlock_query *query)
{
    return (struct part){query->reply, query->reply + query->used};
}

enum dlock_status dlock_query_begin(struct dlock_query *query,
                                    struct dlock_link link, const char *line,
                                    unsigned skipped, struct dlock_error *error)
{
    char bytes[256];
    int wrote = snprintf(bytes, sizeof(bytes), "%s\r\n", line);

    query->skipped = skipped;
    query->used = 0;
    if (wrote > 0 && (size_t)wrote < sizeof(bytes) &&
        dlock_net_send(link, bytes, (size_t)wrote, 0) == 0)
        return DLOCK_OK;
    return dlock_error_set(error, DLOCK_UNREACHABLE, "send: %s",
                           strerror(errno));
}

/* Bytes before the reply are skipped. */
static void skip(struct dlock_query *query)
{
    const char *next;

    while (query->skipped > 0 && (next = after_line(reply_of(query))) != NULL) {
        query->used -= (size_t)(next - query->reply);
        memmove(query->reply, next, query->used + 1);
        query->skipped--;
    }
}

enum dlock_status dlock_query_go_on(struct dlock_query *query,
                                    struct dlock_link link,
                                    struct dlock_error *error)
{
    for (;;) {
        size_t room = DLOCK_QUERY_BYTES_MAX - query->used;
        ssize_t got =
            room == 0 ? 0
                      : dlock_net_receive(link, 0, query->reply + query->used,
                                          room, 0);

        if (got < 0 && errno == ETIMEDOUT)
            return DLOCK_BUSY;
        if (got <= 0)
            return dlock_error_set(error, DLOCK_UNREACHABLE, "%s",
                                   room == 0  ? "the reply is too long"
                                   : got == 0 ? "connection closed"
                                              : strerror(errno));
        query->used += (size_t)got;
        query->reply[query->used] = '\0';
        skip(query);
        if (query->skipped == 0 && is_whole(reply_of(query)))
            break;
    }
    if (query->reply[0] != '-')
        return DLOCK_OK;
    return dlock_error_set(error, DLOCK_UNREACHABLE, "refused: %.*s",
                           (int)strcspn(query->reply + 1, "\r"),
                           query->reply + 1);
}

bool dlock_query_value(const struct dlock_query *query, const char *name,
                       char *value, size_t size)
{
    struct part rest = reply_of(query);
    struct part text = rest;
    bool is_value = false; /* and the one before it was NAME */

    if (*rest.at != '*')
        return false;
    rest.at = after_line(rest);
    for (size_t i = 0; rest.at != NULL && rest.at < rest.end; i++) {
        size_t length;

        rest.at = after_text(rest, &text);
        if (rest.at == NULL)
            return false;
        length = (size_t)(text.end - text.at);
        if (is_value && length < size) {
            memcpy(value, text.at, length);
            value[length] = '\0';
            return true;
        }
        is_value = i % 2 == 0 && length == strlen(name) &&
                   memcmp(text.at, name, length) == 0;
    }
    return false;
}

bool dlock_query_has_line(const struct dlock_query *query, const char *line)
{
    size_t length = strlen(line);

    for (const char *at = query->reply; at != NULL;
         at = after_line((struct part){at, query->reply + query->used}))
        if (strncmp(at, line, length) == 0 && at[length] == '\r')
            return true;
    return false;
}

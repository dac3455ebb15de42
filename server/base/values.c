/*
 * Values go by a session that takes no lock. This file, the only one of server/, includes
 * what is private to lock/, because a value must find the same server in the same way as
 * the locks: logins, TLS, sentinels, clusters, a primary that moves, a child of fork(2).
 */
#include "server/base/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/session.h"
#include "lock/redis/call.h"

enum { ROUND_N = 64 };

/* One text of both. */
static const struct dlock_script about_script = {.parts = {
#include "lock/redis/ask.lua.inc"
#include "server/base/about.lua.inc"
                                                 }};

struct values {
    struct dlock *client;
    struct dlock_session *session;
    struct dlock_command commands[ROUND_N];
    struct dlock_exchange round[ROUND_N];
};

enum dlock_status values_open(const char *url, unsigned timeout_ms,
                              struct values **values, struct dlock_error *error)
{
    struct dlock_options options = {.strategy = "redisson",
                                    .connect_timeout_ms = timeout_ms,
                                    .command_timeout_ms = timeout_ms};
    struct values *made;
    struct dlock_address address;
    enum dlock_status status;
    const char *rest = url;
    char *first;

    status = dlock_address_first(url, &address, &rest);
    if (status != DLOCK_OK)
        return dlock_error_report(error, status, "values");
    options.url = first = strndup(url, (size_t)(rest - url));
    made = calloc(1, sizeof(*made));
    if (made == NULL || first == NULL) {
        status = dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
        (void)dlock_error_report(error, status, "values");
    } else {
        status = dlock_open(&options, &made->client, error);
    }
    if (status == DLOCK_OK)
        status = dlock_session_open(made->client, &made->session, error);
    free(first);
    if (status == DLOCK_OK)
        *values = made;
    else
        values_close(made);
    return status;
}

void values_close(struct values *values)
{
    if (values == NULL)
        return;
    dlock_close(values->client);
    free(values);
}

/* ROUND_N of them in a round trip. Those that are not reached any more were not
 * refused. */
static enum dlock_status call(struct values *values, struct value list[],
                              size_t n, bool is_write,
                              struct dlock_error *error)
{
    enum dlock_status status = dlock_session_enter(values->session);
    size_t round_n;

    if (status != DLOCK_OK)
        return dlock_error_report(error, status, NULL);
    for (size_t i = 0; i < n; i++)
        list[i].refused = false;
    for (; n > 0 && status == DLOCK_OK; list += round_n, n -= round_n) {
        round_n = n < ROUND_N ? n : ROUND_N;
        for (size_t i = 0; i < round_n; i++) {
            struct dlock_command *command = &values->commands[i];

            dlock_command_init(command, is_write ? "set-value" : "get-value",
                               list[i].key, NULL);
            dlock_command_arg(command, is_write ? "SET" : "GET");
            dlock_command_arg(command, list[i].key);
            if (is_write)
                dlock_command_arg(command, list[i].text);
            values->round[i] = (struct dlock_exchange){.command = command};
        }
        dlock_call_batch(values->session->wire, values->round, round_n,
                         dlock_session_limit(values->session, 2, 0));
        for (size_t i = 0; i < round_n; i++) {
            const struct dlock_exchange *each = &values->round[i];
            const char *text = each->reply.kind == DLOCK_REPLY_STRING
                                   ? each->reply.string
                                   : "";

            list[i].refused = each->reply.kind == DLOCK_REPLY_ERROR;
            if (each->status != DLOCK_OK)
                status = each->status;
            else if (!is_write)
                (void)snprintf(list[i].text, sizeof(list[i].text), "%s",
                               strlen(text) < sizeof(list[i].text) ? text : "");
        }
    }
    dlock_session_leave(values->session);
    return dlock_error_report(error, status, NULL);
}

enum dlock_status values_get(struct values *values, struct value list[],
                             size_t n, struct dlock_error *error)
{
    return call(values, list, n, false, error);
}

enum dlock_status values_set(struct values *values, struct value list[],
                             size_t n, struct dlock_error *error)
{
    return call(values, list, n, true, error);
}

enum dlock_status values_about(struct values *values,
                               struct values_about *about,
                               struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    status = dlock_session_enter(values->session);
    dlock_command_init(&command, "eval-about", "", &about_script);
    command.repeatable = true;
    if (status == DLOCK_OK) {
        status = dlock_call(values->session->wire, &command,
                            dlock_session_limit(values->session, 2, 0), &reply);
        dlock_session_leave(values->session);
    }
    if (status == DLOCK_OK && reply.integers_n < 2)
        status = dlock_error_set(DLOCK_UNREACHABLE,
                                 "the server says nothing of itself");
    if (status == DLOCK_OK)
        *about = (struct values_about){(unsigned)reply.integers[0],
                                       reply.integers[1] == 1};
    return dlock_error_report(error, status, NULL);
}

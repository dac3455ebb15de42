/* See dlock_values.h. The calls are those of the locks, so it follows a primary and
 * reconnects as they do. */
#include "lock/dlock_values.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"
#include "lock/core/forks.h"
#include "lock/core/session.h"
#include "lock/dial/dial.h"
#include "lock/redis/call.h"
#include "lock/redis/scripts.h"

enum { ROUND_N = 64 };

struct dlock_values {
    unsigned forks;   /* of dlock_forks(), at its open */
    int cancel_state; /* outside of the call under way */
    struct dlock_wire_config config;
    struct dlock_wire *wire;
    struct dlock_exchange round[ROUND_N];
};

enum dlock_status dlock_values_open(const char *url, unsigned timeout_ms,
                                    struct dlock_values **values,
                                    struct dlock_error *error)
{
    struct dlock_values *made;
    enum dlock_status status = DLOCK_OK;
    const char *rest;

    if (values == NULL)
        return dlock_error_report(error, dlock_check_null(), "values");
    made = calloc(1, sizeof(*made));
    if (made == NULL || !dlock_forks_watch()) {
        status = dlock_error_set(DLOCK_UNREACHABLE, "no memory");
        goto err_after_alloc;
    }
    made->forks = dlock_forks();
    made->config = (struct dlock_wire_config){
        .connect_timeout_ms = timeout_ms,
        .command_timeout_ms = timeout_ms,
        .clock = dlock_clock_default(),
    };
    if (timeout_ms == 0)
        status = dlock_error_set(DLOCK_MISUSE, "timeout_ms is 0");
    else
        status = dlock_address_first(url, &made->config.address, &rest);
    if (status == DLOCK_OK &&
        (made->wire = dlock_wire_open(&made->config, "values")) == NULL)
        status = dlock_error_set(DLOCK_UNREACHABLE, "no memory");
    if (status == DLOCK_OK) {
        *values = made;
        return status;
    }
err_after_alloc:
    free(made);
    return dlock_error_report(error, status, "values");
}

void dlock_values_close(struct dlock_values *values)
{
    int before = PTHREAD_CANCEL_ENABLE;

    if (values == NULL)
        return;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    if (values->forks == dlock_forks())
        dlock_wire_close(values->wire);
    free(values);
    (void)pthread_setcancelstate(before, NULL);
}

/* A child of fork(2) would talk in its parent's connection; and after a thread that was
 * cancelled in the middle of a call, the next would get the replies to that one. */
static enum dlock_status enter(struct dlock_values *values)
{
    if (values == NULL)
        return dlock_check_null();
    if (values->forks != dlock_forks())
        return dlock_error_set(DLOCK_MISUSE,
                               "values: the connection is the parent's");
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &values->cancel_state);
    return DLOCK_OK;
}

static void leave(const struct dlock_values *values)
{
    (void)pthread_setcancelstate(values->cancel_state, NULL);
}

static uint64_t limit_of(const struct dlock_values *values)
{
    return dlock_clock_now(values->config.clock) +
           values->config.connect_timeout_ms +
           values->config.command_timeout_ms;
}

/* ROUND_N of them in a round trip. */
static enum dlock_status run(struct dlock_values *values,
                             struct dlock_value list[], size_t n, bool is_write)
{
    enum dlock_status all = DLOCK_OK;
    size_t round_n;

    /* Those that are not reached any more were not refused. */
    for (size_t i = 0; i < n; i++)
        list[i].refused = false;
    for (; n > 0 && all == DLOCK_OK; list += round_n, n -= round_n) {
        round_n = n < ROUND_N ? n : ROUND_N;
        for (size_t i = 0; i < round_n; i++) {
            struct dlock_command *command = &values->round[i].command;

            dlock_command_init(command, is_write ? "set-value" : "get-value",
                               list[i].key, NULL);
            dlock_command_arg(command, is_write ? "SET" : "GET");
            dlock_command_arg(command, list[i].key);
            if (is_write)
                dlock_command_arg(command, list[i].text);
            values->round[i].reply.kind = DLOCK_REPLY_NIL;
        }
        dlock_call_batch(values->wire, values->round, round_n,
                         limit_of(values));
        for (size_t i = 0; i < round_n; i++) {
            const struct dlock_exchange *each = &values->round[i];
            const char *text = each->reply.kind == DLOCK_REPLY_STRING
                                   ? each->reply.string
                                   : "";

            list[i].refused = each->reply.kind == DLOCK_REPLY_ERROR;
            if (each->status != DLOCK_OK)
                all = each->status;
            else if (!is_write)
                (void)snprintf(list[i].text, sizeof(list[i].text), "%s",
                               strlen(text) < sizeof(list[i].text) ? text : "");
        }
    }
    return all;
}

/* The text of a value may not even end. */
static enum dlock_status check_list(const struct dlock_value list[], size_t n,
                                    bool is_write)
{
    if (list == NULL && n > 0)
        return dlock_check_null();
    for (size_t i = 0; i < n; i++) {
        if (list[i].key == NULL)
            return dlock_check_null();
        if (is_write && memchr(list[i].text, 0, sizeof(list[i].text)) == NULL)
            return dlock_error_set(DLOCK_MISUSE, "value %zu is too long", i);
    }
    return DLOCK_OK;
}

static enum dlock_status call(struct dlock_values *values,
                              struct dlock_value list[], size_t n,
                              bool is_write, struct dlock_error *error)
{
    enum dlock_status status = check_list(list, n, is_write);

    if (status == DLOCK_OK)
        status = enter(values);
    if (status == DLOCK_OK) {
        status = run(values, list, n, is_write);
        leave(values);
    }
    return dlock_error_report(error, status, NULL);
}

enum dlock_status dlock_values_get(struct dlock_values *values,
                                   struct dlock_value list[], size_t n,
                                   struct dlock_error *error)
{
    return call(values, list, n, false, error);
}

enum dlock_status dlock_values_set(struct dlock_values *values,
                                   struct dlock_value list[], size_t n,
                                   struct dlock_error *error)
{
    return call(values, list, n, true, error);
}

enum dlock_status dlock_values_about(struct dlock_values *values,
                                     struct dlock_about *about,
                                     struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    if (about == NULL)
        return dlock_error_report(error, dlock_check_null(), NULL);
    status = enter(values);
    dlock_command_init(&command, "eval-about", "", &dlock_script_about);
    command.repeatable = true;
    if (status == DLOCK_OK) {
        status = dlock_call(values->wire, &command, limit_of(values), &reply);
        leave(values);
    }
    if (status == DLOCK_OK && reply.integers_n < 3)
        status = dlock_error_set(DLOCK_UNREACHABLE,
                                 "the server says nothing of itself");
    if (status == DLOCK_OK)
        *about = (struct dlock_about){(unsigned)reply.integers[0],
                                      (unsigned)reply.integers[1],
                                      reply.integers[2] == 1};
    return dlock_error_report(error, status, NULL);
}

/* With a pause between two attempts to connect. */
#include "server/order/hint_redis.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "db/store.h"
#include "lock/dlock_values.h"
#include "server/base/clock.h"
#include "server/base/log.h"

#define PAUSE_MS    500 /* after a failure nothing is tried for so long */
#define ROUND_HINTS 64

struct hint_redis {
    struct dlock_values *values;
    bool is_away; /* and that was logged */
    bool refuses; /* to write, and that was logged */
    uint64_t again_ms;
};

struct hint_redis *hint_redis_open(const char *url, unsigned timeout_ms)
{
    struct hint_redis *redis = calloc(1, sizeof(*redis));

    if (redis &&
        dlock_values_open(url, timeout_ms, &redis->values, NULL) == DLOCK_OK)
        return redis;
    free(redis);
    return NULL;
}

void hint_redis_close(struct hint_redis *redis)
{
    if (!redis)
        return;
    dlock_values_close(redis->values);
    free(redis);
}

/* What is no number of units is no hint. */
static int64_t units_of(const char *text)
{
    char *end;
    long long units = strtoll(text, &end, 10);

    return end > text && *end == '\0' && units >= 0 && units <= STORE_NUMBER_MAX
               ? units
               : HINT_UNKNOWN;
}

/* Each change has a line in the log. That a server is full, only a write can tell:
 * it goes on answering reads. */
static void note(struct hint_redis *redis, bool is_away, bool is_write,
                 bool is_refused, const char *why)
{
    if (is_away && !redis->is_away)
        log_warn("hints", "redis=away error=\"%s\"", why);
    else if (!is_away && redis->is_away)
        log_info("hints", "redis=back");
    redis->is_away = is_away;
    if (is_away)
        redis->again_ms = clock_ms() + PAUSE_MS;
    if (is_away || !is_write || is_refused == redis->refuses)
        return;
    redis->refuses = is_refused;
    if (is_refused)
        log_warn("hints", "redis=refuses error=\"%s\"", why);
    else
        log_info("hints", "redis=takes-them-again");
}

static bool run(struct hint_redis *redis, struct hint hints[], size_t n,
                bool is_write)
{
    struct dlock_value list[ROUND_HINTS];
    char keys[ROUND_HINTS][64];
    struct dlock_error error = {""};
    enum dlock_status status;
    bool is_refused = false;

    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof(keys[i]), "stock:{%" PRId64 ":%" PRId64 "}",
                 hints[i].product_id, hints[i].segment);
        list[i] = (struct dlock_value){.key = keys[i]};
        if (is_write)
            snprintf(list[i].text, sizeof(list[i].text), "%" PRId64,
                     hints[i].units);
    }
    status = is_write ? dlock_values_set(redis->values, list, n, &error)
                      : dlock_values_get(redis->values, list, n, &error);
    for (size_t i = 0; i < n; i++) {
        is_refused |= list[i].refused;
        if (!is_write)
            hints[i].units = units_of(list[i].text);
    }
    note(redis, status != DLOCK_OK && !is_refused, is_write, is_refused,
         error.text);
    return status == DLOCK_OK;
}

bool hint_redis_run(struct hint_redis *redis, struct hint hints[], size_t n,
                    bool is_write)
{
    bool all = clock_ms() >= redis->again_ms;

    for (size_t i = 0; i < n && all; i += ROUND_HINTS)
        all = run(redis, hints + i, n - i < ROUND_HINTS ? n - i : ROUND_HINTS,
                  is_write);
    return all;
}

/*
 * A primary that was cut off, or paused, takes writes that nobody will know of: for
 * as long as it does not hear of its successor, unless it needs replicas to write.
 */
#include "server/redis_check.h"

#include <stdbool.h>
#include <string.h>

#include "lock/dlock_values.h"
#include "server/base/log.h"

#define TIMEOUT_MS 1000

static void check(const char *url, const struct dlock_address *at)
{
    bool fails_over = *at->primary != '\0';
    struct dlock_about about = {.replicas = 0};
    struct dlock_values *values = NULL;
    struct dlock_error error = {""};

    if (dlock_values_open(url, TIMEOUT_MS, &values, &error) != DLOCK_OK ||
        dlock_values_about(values, &about, &error) != DLOCK_OK)
        log_info("redis", "check=\"not made\" error=\"%s\"", error.text);
    else if ((about.replicas > 0 || fails_over) && !about.needs_them)
        log_warn("redis",
                 "min_replicas_to_write=0 error=\"a primary that is cut off or "
                 "paused goes on taking locks that are lost at the failover: "
                 "set min-replicas-to-write 1 and min-replicas-max-lag 2 on "
                 "each server\"");
    dlock_values_close(values);
}

void redis_check(const char *url)
{
    struct dlock_address at;

    for (const char *next; (next = dlock_url_parse(url, &at)); url = next + 1) {
        check(url, &at);
        if (*next == '\0')
            break;
    }
}

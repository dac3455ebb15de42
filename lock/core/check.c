/*
 * Checks of arguments. The bounds are wide: they keep arithmetic on leases and
 * deadlines far from overflow, and catch a time in the wrong unit.
 */
#include "lock/core/session.h"

#include <string.h>

/* The highest token that there can be (acquire.lua): each that was granted is a floor. */
#define FENCE_FLOOR_MAX ((UINT64_C(1) << 53) - 1)

/* A renewal comes every third of it: with less than 10 ms for a round trip, a lease would
 * live on luck. */
enum { WATCHDOG_LEASE_MS_MIN = 30 };

enum { LABEL_BYTES_MAX = 40 };

/* Keys beside a lock have a name of the lock's and this in it. */
#define RESERVED ":dlock-"

enum dlock_status dlock_check_null(void)
{
    return dlock_error_set(DLOCK_MISUSE, "an argument is NULL");
}

/* Printable ASCII only: names end up in logs, in keys and in the page of the lab, and a
 * name that looks like another is a lock that does not exclude. */
enum dlock_status dlock_check_name(const char *name)
{
    size_t len;

    if (name == NULL || name[0] == '\0')
        return dlock_error_set(DLOCK_MISUSE, "the name is empty");
    /* The name may come from a grant whose text has no end: not a byte is read beyond what
     * a name may have. */
    len = strnlen(name, DLOCK_NAME_BYTES_MAX + 1);
    if (len > DLOCK_NAME_BYTES_MAX)
        return dlock_error_set(DLOCK_MISUSE, "the name is longer than %d bytes",
                               DLOCK_NAME_BYTES_MAX);
    for (size_t i = 0; i < len; i++)
        /* A byte from 0x80 on is negative where char is signed, and is caught by the first
         * half; elsewhere by the second. */
        if (name[i] < ' ' || name[i] > '~')
            return dlock_error_set(DLOCK_MISUSE,
                                   "byte %zu of the name is not printable "
                                   "ASCII",
                                   i);
    /* A lock of such a name would be another lock's list of waiters or its fence counter,
     * and deleting one would break the other. */
    if (strstr(name, RESERVED) != NULL)
        return dlock_error_set(DLOCK_MISUSE,
                               "'" RESERVED "' is the library's own in a name");
    return DLOCK_OK;
}

/* Attempts are numbered alike in all sessions, so that another session's grant would pass
 * for one of this session's own. The texts of a grant may not even end. */
enum dlock_status dlock_check_grant(const struct dlock_session *session,
                                    const struct dlock_grant *grant)
{
    enum dlock_status status;

    if (session == NULL || grant == NULL)
        return dlock_check_null();
    status = dlock_check_name(grant->name);
    /* An array in a struct is never NULL, whatever the analyser thinks. */
    if (status == DLOCK_OK &&
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
        strncmp(grant->owner, session->owner, sizeof(grant->owner)) != 0)
        return dlock_error_set(DLOCK_MISUSE, "the grant is another session's");
    return status;
}

/* A setting, and the most that it may be. */
struct bound {
    const char *name;
    uint64_t value;
    uint64_t most;
};

static enum dlock_status check_bounds(const struct bound bounds[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bounds[i].value > bounds[i].most)
            return dlock_error_set(DLOCK_MISUSE, "%s is above %llu",
                                   bounds[i].name,
                                   (unsigned long long)bounds[i].most);
    return DLOCK_OK;
}

/* max_hold_ms needs no bound: it only ever ends something. */
static enum dlock_status check_terms(const struct dlock *client,
                                     const struct dlock_terms *terms)
{
    const unsigned tokens = DLOCK_CAP_TOKENS | DLOCK_CAP_FENCED;
    const struct dlock_strategy_info *info = &client->strategy->info;
    const struct bound bounds[] = {
        {"wait_ms", terms->wait_ms, DLOCK_WAIT_MS_MAX},
        {"lease_ms", terms->lease_ms, DLOCK_LEASE_MS_MAX},
        {"fence_floor", terms->fence_floor, FENCE_FLOOR_MAX},
    };
    enum dlock_status status = DLOCK_OK;

    /* A caller that asks for a token relies on it: a grant without one would pass every
     * write. */
    if (terms->fenced && (info->capabilities & tokens) == 0)
        return dlock_error_set(DLOCK_MISUSE, "strategy %s has no tokens",
                               info->name);
    /* The detector is a library of its own: a wait that nobody watches over would be
     * without end. */
    if (terms->deadlock_ms > 0 && dlock_detector_made == NULL)
        return dlock_error_set(DLOCK_MISUSE,
                               "deadlock_ms needs dlock_deadlock_register()");
    if (terms->deadlock_ms > 0)
        status = dlock_detector_made->can(client);
    return status != DLOCK_OK ? status : check_bounds(bounds, 3);
}

enum dlock_status dlock_check_acquire(const struct dlock_session *session,
                                      const char *name,
                                      const struct dlock_terms *terms)
{
    enum dlock_status status;

    if (session == NULL || terms == NULL)
        return dlock_check_null();
    status = dlock_check_name(name);
    return status != DLOCK_OK ? status : check_terms(session->client, terms);
}

enum dlock_status dlock_check_lease(unsigned lease_ms)
{
    if (lease_ms == 0)
        return dlock_error_set(DLOCK_MISUSE, "lease_ms is 0");
    return check_bounds(
        &(struct bound){"lease_ms", lease_ms, DLOCK_LEASE_MS_MAX}, 1);
}

/* Strategy and url are checked where they are looked up and taken apart. A label must have
 * no colon, which divides "HOST:PID:LABEL", and no blank, which ends the owner in
 * inspect.lua's answer. */
static bool is_label(const char *label)
{
    size_t len = strlen(label);

    for (const char *at = label; *at != '\0'; at++)
        if (*at <= ' ' || *at > '~' || *at == '-' || *at == ':')
            return false;
    return len > 0 && len <= LABEL_BYTES_MAX;
}

enum dlock_status dlock_check_options(const struct dlock_options *options)
{
    const struct bound bounds[] = {
        {"connect_timeout_ms", options->connect_timeout_ms, DLOCK_WAIT_MS_MAX},
        {"command_timeout_ms", options->command_timeout_ms, DLOCK_WAIT_MS_MAX},
        {"watchdog_lease_ms", options->watchdog_lease_ms, DLOCK_LEASE_MS_MAX},
        {"longest_lease_ms", options->longest_lease_ms, DLOCK_LEASE_MS_MAX},
    };
    enum dlock_status status;

    if (options->label != NULL && !is_label(options->label))
        return dlock_error_set(DLOCK_MISUSE,
                               "label: 1 to %d printable characters without "
                               "blanks, '-' and ':'",
                               LABEL_BYTES_MAX);
    if (options->clock != NULL &&
        (options->clock->now_ms == NULL || options->clock->random == NULL))
        return dlock_error_set(DLOCK_MISUSE, "half a clock");
    status = check_bounds(bounds, 4);
    if (status == DLOCK_OK && options->watchdog_lease_ms != 0 &&
        options->watchdog_lease_ms < WATCHDOG_LEASE_MS_MIN)
        return dlock_error_set(DLOCK_MISUSE, "watchdog_lease_ms is below %d",
                               WATCHDOG_LEASE_MS_MIN);
    return status;
}

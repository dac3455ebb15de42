/*
 * redisson and fenced: the complete lock on one Redis server.
 *
 * Guarantees: one holder at a time while its lease runs (X); a dead holder is
 * got rid of (C); only the owner releases, renews and extends (P); the lease of
 * a living holder is renewed (L); the same session may come in again (N);
 * waiters are woken (W); a command that is sent twice counts once.
 *
 * fenced adds a token to the grant, which only rises, so that the guarded
 * resource can refuse a holder that is late (S). It is the same code with one
 * more key.
 *
 * Does not guarantee: an order among waiters (F); anything if the one server
 * loses its data (M). redisson without tokens cannot stop a stale holder's
 * write (S): no lock can, and to show that is what it is here for, next to
 * fenced.
 *
 * The lock is a hash, owner -> holds, and every operation a Lua script
 * (acquire.lua, release.lua, renew.lua), because each has to look before it
 * writes. How they tell a repetition from a second time is told there.
 */
#include "lock/strategy.h"

#include <string.h>

#include "lock/error.h"

static const struct dlock_script acquire_script = {
#include "lock/acquire.lua.inc"
};

static const struct dlock_script release_script = {
#include "lock/release.lua.inc"
};

static const struct dlock_script renew_script = {
#include "lock/renew.lua.inc"
};

static const struct dlock_script inspect_script = {
#include "lock/inspect.lua.inc"
};

/* What is kept beside the lock itself. */
static const char done_suffix[] = ":dlock-done:"; /* and the owner */
static const char fence_suffix[] = ":dlock-fence";
static const char channel_suffix[] = ":dlock-freed";

/*
 * The life of a fence counter after its last use. It may end, because the
 * resource's own last token seeds the next one; without an end, one key per
 * name ever locked would stay for ever.
 */
enum { FENCE_LIFE_MS = 86400000 };

struct variant {
    bool fenced;
};

static bool is_fenced(const struct dlock_session *session)
{
    const struct variant *variant = session->client->strategy->variant;

    return variant->fenced;
}

/*
 * How long a release is remembered: longer than a copy of it, or of an older
 * acquire, can be on its way.
 */
static uint64_t done_life_ms(const struct dlock_session *session)
{
    const struct dlock_wire_config *wire = &session->client->wire;

    return 4 * ((uint64_t)wire->connect_timeout_ms + wire->command_timeout_ms);
}

/* One subscriber for all sessions of the client; see wakeup.h. */
static enum dlock_status open_wakeup(struct dlock *client,
                                     struct dlock_error *error)
{
    client->wakeup = dlock_wakeup_open(&client->wire);
    if (client->wakeup == NULL)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "no memory or no descriptor for wake-ups");
    return DLOCK_OK;
}

static void close_wakeup(struct dlock *client)
{
    dlock_wakeup_close(client->wakeup);
}

/* What the script answers stands at the top of acquire.lua. */
/* ATTEMPT->holds is what is to be left. COMMAND borrows CHANNEL, filled here. */
static void fill_release(const struct dlock_session *session, const char *step,
                         const struct dlock_attempt *attempt,
                         char channel[DLOCK_KEY_BYTES_MAX + 1],
                         struct dlock_command *command)
{
    dlock_key_derive(channel, attempt->name, channel_suffix, "");
    dlock_command_init(command, step, attempt->name, &release_script);
    command->repeatable = true;
    dlock_command_key(command, attempt->name);
    dlock_command_derived_key(command, done_suffix, session->owner);
    dlock_command_arg(command, session->owner);
    dlock_command_number(command, attempt->number);
    dlock_command_number(command, attempt->holds);
    dlock_command_number(command, done_life_ms(session));
    dlock_command_arg(command, channel);
}

/*
 * After an acquire without an answer. The server may carry it out yet, say when
 * it wakes up again, and lock for somebody who has given up. So a release goes
 * after it, whose reply nobody waits for; it is of use in either order.
 */
static void withdraw(struct dlock_session *session,
                     const struct dlock_attempt *attempt)
{
    char channel[DLOCK_KEY_BYTES_MAX + 1];
    struct dlock_attempt end = *attempt;
    struct dlock_command command;

    end.number = ++session->attempts_n;
    fill_release(session, "eval-withdraw", &end, channel, &command);
    dlock_call_abandon(session->wire, &command);
}

static void fill_acquire(const struct dlock_session *session,
                         const struct dlock_attempt *attempt,
                         struct dlock_command *command)
{
    dlock_command_init(command, "eval-acquire", attempt->name, &acquire_script);
    command->repeatable = true;
    dlock_command_key(command, attempt->name);
    dlock_command_derived_key(command, done_suffix, session->owner);
    if (is_fenced(session))
        dlock_command_derived_key(command, fence_suffix, "");
    dlock_command_arg(command, session->owner);
    dlock_command_number(command, attempt->lease_ms);
    dlock_command_number(command, attempt->number);
    dlock_command_number(command, attempt->holds);
    dlock_command_number(command, attempt->fence_floor);
    dlock_command_number(command, FENCE_LIFE_MS);
}

static enum dlock_status acquire(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_grant *grant, uint64_t *busy_ms,
                                 struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    fill_acquire(session, attempt, &command);
    status =
        dlock_call(session->wire, &command, attempt->limit_ms, &reply, error);
    if (status == DLOCK_UNKNOWN)
        withdraw(session, attempt);
    if (status != DLOCK_OK)
        return status;
    if (reply.integers[0] == 1) {
        grant->holds = (unsigned)reply.integers[1];
        grant->token = (uint64_t)reply.integers[2];
        return DLOCK_OK;
    }
    if (reply.integers[0] != 0)
        return dlock_error_set(error, DLOCK_UNKNOWN,
                               "the attempt was overtaken by a release");
    if (reply.integers[1] >= 0)
        *busy_ms = (uint64_t)reply.integers[1];
    return DLOCK_BUSY;
}

static enum dlock_status release(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_error *error)
{
    char channel[DLOCK_KEY_BYTES_MAX + 1];
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    fill_release(session, "eval-release", attempt, channel, &command);
    status =
        dlock_call(session->wire, &command, attempt->limit_ms, &reply, error);
    if (status == DLOCK_OK && reply.integers[0] < 0)
        return DLOCK_LOST;
    return status;
}

/* EXACT: the lease ends then, also if it would have lasted longer. */
static void fill_renewal(struct dlock_command *command, const char *owner,
                         unsigned lease_ms, bool exact)
{
    command->repeatable = true;
    dlock_command_key(command, command->name);
    dlock_command_arg(command, owner);
    dlock_command_number(command, lease_ms);
    dlock_command_arg(command, exact ? "1" : "0");
}

/* For the watchdog: several holds share the key, so it only lengthens. */
static void renewal(const char *name, const char *owner, unsigned lease_ms,
                    struct dlock_command *command)
{
    dlock_command_init(command, "eval-renew", name, &renew_script);
    fill_renewal(command, owner, lease_ms, false);
}

/* By the caller's will, so it may shorten as well. */
static enum dlock_status extend(struct dlock_session *session,
                                const struct dlock_attempt *attempt,
                                struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_command_init(&command, "eval-renew", attempt->name, &renew_script);
    fill_renewal(&command, session->owner, attempt->lease_ms, true);
    status =
        dlock_call(session->wire, &command, attempt->limit_ms, &reply, error);
    if (status == DLOCK_OK && reply.integers[0] != 1)
        return DLOCK_LOST;
    return status;
}

static enum dlock_status inspect(struct dlock_session *session,
                                 const struct dlock_attempt *attempt,
                                 struct dlock_holder *holder,
                                 struct dlock_error *error)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_command_init(&command, "eval-inspect", attempt->name,
                       &inspect_script);
    dlock_command_key(&command, attempt->name);
    status =
        dlock_call(session->wire, &command, attempt->limit_ms, &reply, error);
    if (status != DLOCK_OK || reply.integers_n < 3)
        return status;
    holder->held = true;
    memcpy(holder->owner, reply.string, DLOCK_OWNER_BYTES_MAX);
    holder->holds = (unsigned)reply.integers[0];
    holder->token = (uint64_t)reply.integers[1];
    holder->remaining_ms =
        reply.integers[2] < 0 ? UINT64_MAX : (uint64_t)reply.integers[2];
    return DLOCK_OK;
}

static void *watch(struct dlock_session *session, const char *name)
{
    char channel[DLOCK_KEY_BYTES_MAX + 1];

    dlock_key_derive(channel, name, channel_suffix, "");
    return dlock_wakeup_join(session->client->wakeup, name, channel);
}

static void wait_freed(struct dlock_session *session, void *watched,
                       uint64_t until_ms)
{
    dlock_wakeup_wait(session->client->wakeup, watched, until_ms);
}

static void unwatch(struct dlock_session *session, void *watched, bool unused)
{
    dlock_wakeup_leave(session->client->wakeup, watched, unused);
}

static void wake_all(struct dlock *client)
{
    dlock_wakeup_all(client->wakeup);
}

#define REDISSON_CAPABILITIES                                                  \
    (DLOCK_CAP_REMOTE | DLOCK_CAP_LEASE | DLOCK_CAP_OWNER | DLOCK_CAP_RENEW |  \
     DLOCK_CAP_REENTRANT | DLOCK_CAP_WAKE)

#define REDISSON_FUNCTIONS                                                     \
    .open = open_wakeup, .close = close_wakeup, .acquire = acquire,            \
    .extend = extend, .release = release, .inspect = inspect,                  \
    .renewal = renewal, .watch = watch, .wait = wait_freed,                    \
    .unwatch = unwatch, .wake_all = wake_all

const struct dlock_strategy dlock_strategy_redisson = {
    .info = {.name = "redisson",
             .claim = "One holder while its lease runs, renewed while it "
                      "lives; re-entrant; waiters are woken.",
             .capabilities = REDISSON_CAPABILITIES},
    .variant = &(const struct variant){.fenced = false},
    REDISSON_FUNCTIONS,
};

const struct dlock_strategy dlock_strategy_fenced = {
    .info = {.name = "fenced",
             .claim = "As redisson, and every grant has a rising token by "
                      "which the resource can refuse a late holder.",
             .capabilities = REDISSON_CAPABILITIES | DLOCK_CAP_FENCED},
    .variant = &(const struct variant){.fenced = true},
    REDISSON_FUNCTIONS,
};

/*
 * One Redis server's part in a lock: commands and replies of the scripts
 * acquire.lua, release.lua, renew.lua and inspect.lua. How the scripts tell a
 * repetition from a second time, and a late command, is told in numbers.lua.
 */
#include "lock/redis/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/redis/scripts.h"
#include "lock/redis/scripts.inc" /* what the one above declares */

/* Keys beside the lock's own. */
static const char done_suffix[] = ":dlock-done:"; /* and the owner */
static const char fence_suffix[] = ":dlock-fence";

const struct dlock_node_kind dlock_node_plain = {
    .acquire = &dlock_script_acquire,
    .release = &dlock_script_release,
    .force = &dlock_script_force,
    .renew = &dlock_script_renew,
    .channel = ":dlock-freed",
};

/* The memory of a release must outlive the calls of a caller that was told "don't
 * know", and the longest delay of a copy of the command. */
enum { DONE_LIFE_MS_MIN = 60000 };

uint64_t dlock_node_done_life_ms(const struct dlock_session *session)
{
    const struct dlock_wire_config *wire = &session->client->wire;

    return DONE_LIFE_MS_MIN +
           /* A copy can be on its way for as long as its connection is held open: that
            * takes a few timeouts of a client that sends it up to three times. */
           4 * ((uint64_t)wire->connect_timeout_ms + wire->command_timeout_ms);
}

/* The fence counter may end after its life, because acquire.lua begins the next one with
 * the server's time, which is above the old count. */
void dlock_node_add_fence(struct dlock_command *command)
{
    dlock_command_derived_key(command, fence_suffix, "");
}

/* The key "done" of OWNER's commands: see numbers.lua. */
static void add_done(const char *owner, struct dlock_command *command)
{
    dlock_command_derived_key(command, done_suffix, owner);
}

/* The waiters' keys: the scripts take them off the end. */
static void add_waiters(const struct dlock_node_kind *kind,
                        struct dlock_command *command)
{
    for (size_t i = 0; i < 2 && kind->keys[i] != NULL; i++)
        dlock_command_derived_key(command, kind->keys[i], "");
}

void dlock_node_add_keys(const struct dlock_session *session, bool fenced,
                         struct dlock_command *command)
{
    dlock_command_key(command, command->name);
    add_done(session->owner, command);
    if (fenced)
        dlock_node_add_fence(command);
    /* The waiters' keys come last: the parts of the scripts before this one's own take them
     * off the end of KEYS, so that its numbers do not move. */
    add_waiters(dlock_node_kind_of(session), command);
}

void dlock_node_fill_acquire(const struct dlock_attempt *attempt,
                             struct dlock_command *command)
{
    const struct dlock_session *session = attempt->session;
    const struct dlock_node_kind *kind = dlock_node_kind_of(session);

    dlock_command_init(command, "eval-acquire", attempt->name, kind->acquire);
    command->repeatable = true;
    /* A copy of an acquire is not sent for a wait that has ended; a copy of a release is
     * always sent. */
    command->waits = session;
    dlock_node_add_keys(session, attempt->fenced, command);
    dlock_command_arg(command, session->owner);
    dlock_command_number(command, attempt->lease_ms);
    dlock_command_number(command, attempt->number);
    dlock_command_number(command, attempt->holds);
    dlock_command_number(command, attempt->fence_floor);
    dlock_command_number(command, DLOCK_FENCE_LIFE_MS);
    /* Strategies of one server have ->wires; where several count, none may take its own
     * time for a token (acquire.lua). */
    dlock_command_arg(command,
                      session->client->strategy->wires != NULL ? "1" : "0");
    /* The life 0 tells the server that this try does not come again, so that it gets no
     * place among the waiters. */
    if (kind->leave != NULL)
        dlock_command_number(
            command, attempt->waits ? dlock_node_done_life_ms(session) : 0);
    /* The label and the channel come last, because acquire.lua and rights.lua take them off
     * the end: fenced and fair have one more argument before them. */
    dlock_command_arg(command, session->client->label[0] != '\0'
                                   ? session->client->label
                                   : "-");
    dlock_command_derived(command, kind->channel, "");
}

/* CHANNEL: waiters that listen there are woken. */
static void fill_release(const struct dlock_attempt *attempt, const char *step,
                         const char *channel, struct dlock_command *command)
{
    const struct dlock_session *session = attempt->session;
    dlock_command_init(command, step, attempt->name,
                       dlock_node_kind_of(session)->release);
    command->repeatable = true;
    /* A release leaves the fence counter alone: its token must still be below the next
     * one's. */
    dlock_node_add_keys(session, false, command);
    dlock_command_arg(command, session->owner);
    dlock_command_number(command, attempt->number);
    dlock_command_number(command, attempt->holds);
    dlock_command_number(command, dlock_node_done_life_ms(session));
    dlock_command_derived(command, channel, "");
    dlock_command_number(command, attempt->undoes);
    dlock_command_number(command, attempt->repeats);
}

void dlock_node_fill_release(const struct dlock_attempt *attempt,
                             struct dlock_command *command)
{
    fill_release(attempt, "eval-release",
                 dlock_node_kind_of(attempt->session)->channel, command);
}

/* An undo must wake nobody. Two clients that each hold a minority would else wake each
 * other without end, each by taking back what was in the other's way. */
void dlock_node_fill_undo(const struct dlock_attempt *attempt,
                          struct dlock_command *command)
{
    fill_release(attempt, "eval-undo", ":dlock-undone", command);
}

/* WAY: see renew.lua. */
static void fill_renew(const struct dlock_node_kind *kind, const char *name,
                       const char *owner, uint64_t number, unsigned lease_ms,
                       const char *way, struct dlock_command *command)
{
    dlock_command_init(command, "eval-renew", name, kind->renew);
    command->repeatable = true;
    dlock_command_key(command, name);
    add_waiters(kind, command);
    dlock_command_arg(command, owner);
    dlock_command_number(command, lease_ms);
    dlock_command_number(command, number);
    dlock_command_arg(command, way);
    dlock_command_derived(command, kind->channel, "");
}

/* For the watchdog: several holds share the key, so it only lengthens. */
struct dlock_command *dlock_node_renewals(struct dlock_renew renews[], size_t n,
                                          unsigned lease_ms)
{
    struct dlock_command *commands = malloc(n * sizeof(*commands));

    for (size_t i = 0; i < n; i++) {
        renews[i].status = DLOCK_UNREACHABLE;
        if (commands != NULL)
            /* The plain kind will do for all: a renewal never shortens a lease, so it wakes
             * nobody and needs no waiters' keys. */
            fill_renew(&dlock_node_plain, renews[i].name, renews[i].owner,
                       renews[i].number, lease_ms, "renew", &commands[i]);
    }
    return commands;
}

void dlock_node_renew(struct dlock *client, struct dlock_renew renews[],
                      size_t n, unsigned lease_ms, uint64_t limit_ms)
{
    struct dlock_command *commands = dlock_node_renewals(renews, n, lease_ms);
    struct dlock_exchange exchanges[DLOCK_PASS_MAX];

    if (commands == NULL)
        return;
    for (size_t i = 0; i < n; i++)
        exchanges[i].command = &commands[i];
    dlock_call_batch(client->renewal_wire, exchanges, n, limit_ms);
    for (size_t i = 0; i < n; i++) {
        renews[i].status = exchanges[i].status;
        if (renews[i].status == DLOCK_OK)
            /* dlock_call_batch() has seen to it that a reply with DLOCK_OK is a number, see
             * judge() in call.c. */
            renews[i].answer = exchanges[i].reply.integers[0];
    }
    free(commands);
}

/* By the caller's will, so it may shorten as well. A renewal may have overtaken the last
 * try, which has then done nothing. So each try has a number of its own. */
void dlock_node_fill_extend(const struct dlock_attempt *attempt,
                            struct dlock_command *command)
{
    const struct dlock_session *session = attempt->session;
    fill_renew(dlock_node_kind_of(session), attempt->name, session->owner,
               dlock_number(session->client), attempt->lease_ms,
               attempt->holds <= 1 ? "set" : "lengthen", command);
}

void dlock_node_fill_inspect(const struct dlock_attempt *attempt,
                             struct dlock_command *command)
{
    dlock_command_init(command, "eval-inspect", attempt->name,
                       &dlock_script_inspect);
    dlock_command_key(command, attempt->name);
}

/* The script's answers stand at the top of acquire.lua. */
enum dlock_status dlock_node_read_acquire(const struct dlock_reply *reply,
                                          struct dlock_grant *grant,
                                          uint64_t *busy_ms)
{
    if (reply->integers_n > 2 && reply->integers[0] == 1) {
        grant->holds = (unsigned)reply->integers[1];
        grant->token = (uint64_t)reply->integers[2];
        return DLOCK_OK;
    }
    /* {-1}: a newer command of this owner was carried out before this one, so nothing was
     * granted by it, but its first copy may have been. */
    if (reply->integers_n < 2 || reply->integers[0] != 0)
        return dlock_error_set(DLOCK_UNKNOWN, "the attempt was overtaken");
    /* A key without an end (-1) is none of ours: *BUSY_MS stays "not known", and the waiter
     * looks by its own pauses. */
    if (reply->integers[1] >= 0)
        *busy_ms = (uint64_t)reply->integers[1];
    return DLOCK_BUSY;
}

enum dlock_status dlock_node_read_done(const struct dlock_reply *reply)
{
    if (reply->integers[0] >= 0)
        return DLOCK_OK;
    if (reply->integers[0] == DLOCK_OVERTAKEN)
        return dlock_error_set(DLOCK_UNKNOWN, "overtaken by a newer command");
    return DLOCK_LOST;
}

void dlock_node_read_inspect(const struct dlock_reply *reply,
                             struct dlock_holder *holder)
{
    size_t len = strcspn(reply->string, " ");

    /* An empty list is a lock that nobody holds. */
    if (reply->integers_n < 3)
        return;
    holder->held = true;
    (void)snprintf(holder->owner, sizeof(holder->owner), "%.*s", (int)len,
                   reply->string);
    if (reply->string[len] == ' ')
        (void)snprintf(holder->label, sizeof(holder->label), "%.*s",
                       (int)sizeof(holder->label) - 1, reply->string + len + 1);
    holder->holds = (unsigned)reply->integers[0];
    holder->token = (uint64_t)reply->integers[1];
    holder->remaining_ms =
        reply->integers[2] < 0 ? UINT64_MAX : (uint64_t)reply->integers[2];
}

enum dlock_status dlock_node_inspect(const struct dlock_attempt *attempt,
                                     struct dlock_holder *holder)
{
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    dlock_node_fill_inspect(attempt, &command);
    status =
        dlock_call(attempt->session->wire, &command, attempt->limit_ms, &reply);
    if (status == DLOCK_OK)
        dlock_node_read_inspect(&reply, holder);
    return status;
}

/* Force ---------------------------------------------------------------------- */

/* The lock is deleted and a word is left beside it, which names the owners. Nobody tells
 * them: the renewal that finds the lock gone asks why. */
static const char word_suffix[] = ":dlock-forced";

/* Beyond the lease. */
enum { WORD_LIFE_MS = 60000 };

void dlock_node_fill_force(const struct dlock_node_kind *kind,
                           const struct dlock_attempt *attempt,
                           const struct dlock_node_seen *seen,
                           struct dlock_command *command)
{
    /* A force is not repeatable, because a copy of one that worked would be told that
     * nobody holds the lock. */
    dlock_command_init(command, "eval-force", attempt->name, kind->force);
    dlock_command_key(command, attempt->name);
    dlock_command_derived_key(command, word_suffix, "");
    /* The first time SEEN is empty, and this key has no owner in its name: the script only
     * looks then, and writes nothing. */
    add_done(seen->owner, command);
    add_waiters(kind, command);
    dlock_command_number(command, WORD_LIFE_MS);
    dlock_command_arg(command, seen->owner);
    dlock_command_number(command, seen->attempt);
    dlock_command_number(command, dlock_node_done_life_ms(attempt->session));
    dlock_command_derived(command, kind->channel, "");
}

bool dlock_node_read_seen(const struct dlock_reply *reply,
                          struct dlock_node_seen *seen)
{
    const struct dlock_node_seen before = *seen;

    if (reply->integers_n < 2 || reply->integers[0] != -1)
        return false;
    seen->attempt = (uint64_t)reply->integers[1];
    (void)snprintf(seen->owner, sizeof(seen->owner), "%.*s",
                   (int)sizeof(seen->owner) - 1, reply->string);
    return seen->attempt != before.attempt ||
           strcmp(seen->owner, before.owner) != 0;
}

enum dlock_status dlock_node_force_end(const struct dlock_reply *reply)
{
    if (reply->integers[0] == -1)
        return dlock_error_set(DLOCK_UNREACHABLE,
                               "the holder is none of this library's");
    return reply->integers[0] == 1 ? DLOCK_OK : DLOCK_LOST;
}

enum dlock_status dlock_node_force(const struct dlock_attempt *attempt)
{
    const struct dlock_node_kind *kind = dlock_node_kind_of(attempt->session);
    struct dlock_node_seen seen = {.attempt = 0};
    struct dlock_command command;
    struct dlock_reply reply;
    enum dlock_status status;

    /* The first time it only looks. If the holder is another one by the second, or
     * went on, that one it is. */
    do {
        dlock_node_fill_force(kind, attempt, &seen, &command);
        status = dlock_call(attempt->session->wire, &command, attempt->limit_ms,
                            &reply);
    } while (status == DLOCK_OK && dlock_node_read_seen(&reply, &seen));
    return status == DLOCK_OK ? dlock_node_force_end(&reply) : status;
}

void dlock_node_fill_forced(const char *name, const char *owner,
                            struct dlock_command *command)
{
    dlock_command_init(command, "why-lost", name, NULL);
    command->repeatable = true;
    dlock_command_arg(command, "HGET");
    dlock_command_derived(command, word_suffix, "");
    dlock_command_arg(command, owner);
}

uint64_t dlock_node_read_forced(const struct dlock_reply *reply)
{
    if (reply->kind != DLOCK_REPLY_STRING)
        return 0;
    return strtoull(reply->string, NULL, 10);
}

/* The grant is lost either way, only the reason is not known. */
uint64_t dlock_node_forced(struct dlock *client, const char *name,
                           const char *owner, uint64_t limit_ms)
{
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_node_fill_forced(name, owner, &command);
    if (dlock_call(client->renewal_wire, &command, limit_ms, &reply) !=
        DLOCK_OK)
        return 0;
    return dlock_node_read_forced(&reply);
}

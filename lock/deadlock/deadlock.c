/*
 * See dlock_more.h. The scripts do the work, since each sees the server as it is
 * at one moment; here is who sends them, and when.
 *
 * Why it is no false alarm. Let F be the moment of the look that saw the cycle first.
 * Every other waiter in it had told its wait before F, or the cycle would be another
 * one (hash_of), and told the same wait again after it had been answered by a look
 * later than F (`heard`). So at F each was in that very wait, and did nothing else; and
 * at F the server had each for the holder of what the one before waits for. That was a
 * deadlock. A command that the network has held up changes nothing, as it was sent
 * before that answer.
 */
#include "lock/dlock_more.h"

#include <stdio.h>
#include <string.h>

#include "lock/core/wait.h"
#include "lock/deadlock/scripts.h"
#include "lock/deadlock/scripts.inc" /* what the one above declares */
#include "lock/core/session.h"
#include "lock/redis/call.h"

enum {
    LOOK_MS = 500, /* between two looks of a waiter, ... */
    SOON_MS = 50,  /* ... and while there may be a deadlock */
    /* An entry outlives a few looks that get no answer, but not a waiter that has died. */
    LIFE_MS = 4 * LOOK_MS,
    ASKED_MS = 2000, /* SOON_MS apart, until it is sure */
};

enum answer { NO_CYCLE, MAYBE, SURE };

static const char waits_suffix[] = ":dlock-waits"; /* of the owner */
/* The stamp is one for all locks of the server, because a cycle goes through several of
 * them. */
static const char stamp_key[] = "{deadlocks}:dlock-stamp";

DLOCK_STRATEGY_DECLARE(fenced)

/* redisson, fenced and fair have the same slots. */
static enum dlock_status can(const struct dlock *client)
{
    /* The scripts read locks that are hashes with the owner as a field, on one server. */
    if (client->strategy->acquire != dlock_strategy_fenced.acquire)
        return dlock_error_set(DLOCK_MISUSE,
                               "strategy %s cannot look for deadlocks",
                               client->strategy->info.name);
    if (client->wire.address.cluster)
        return dlock_error_set(DLOCK_MISUSE,
                               "a cluster cannot look for deadlocks: no node "
                               "knows the locks of all");
    return DLOCK_OK;
}

/* Sends it, and takes stamp and cycle from the answer. */
static enum dlock_status ask(struct dlock_session *session,
                             const struct dlock_command *command,
                             uint64_t limit_ms, struct dlock_look *look,
                             struct dlock_reply *reply)
{
    enum dlock_status status =
        dlock_call(session->wire, command, limit_ms, reply);
    uint64_t cycle;

    if (status != DLOCK_OK)
        return status;
    if (reply->integers_n < 3)
        return dlock_error_set(DLOCK_UNREACHABLE,
                               "the server says nothing of waits");
    /* HEARD goes back with the next look, and tells the server that this one was
     * answered. */
    look->heard = (uint64_t)reply->integers[1];
    cycle = (uint64_t)reply->integers[2];
    /* A cycle that was gone for one look begins anew: between two looks it may have been
     * another one. */
    if (reply->integers[0] == NO_CYCLE)
        look->first = 0;
    else if (cycle != look->cycle) /* 0 = none was seen */
        look->first = look->heard;
    look->cycle = cycle;
    return DLOCK_OK;
}

/* Whether the user lacks a right to look: to a command, or to a key that the script
 * found on its way. */
static bool is_forbidden(const struct dlock_reply *reply)
{
    return dlock_call_is_error(reply, "NORIGHT") ||
           dlock_call_is_error(reply, "NOPERM") ||
           (reply->kind == DLOCK_REPLY_ERROR &&
            strstr(reply->string, "user executing the script") != NULL);
}

/* Without an answer nothing is known, and it is asked again. */
static enum dlock_status look(const struct dlock_attempt *attempt,
                              struct dlock_look *look)
{
    struct dlock_session *session = attempt->session;
    char own_key[DLOCK_KEY_BYTES_MAX + 1];
    struct dlock_command command;
    struct dlock_reply reply = {.kind = DLOCK_REPLY_NIL};
    bool answered;

    /* The number stays that of the first look, because the attempt's may change within one
     * wait. */
    if (look->number == 0)
        look->number = attempt->number;
    dlock_key_derive(own_key, session->owner, waits_suffix, "");
    dlock_command_init(&command, "eval-look", attempt->name,
                       &dlock_script_look);
    command.repeatable = true;
    /* A look is not repeated for a wait that has ended meanwhile. */
    command.waits = session;
    dlock_command_key(&command, attempt->name);
    dlock_command_key(&command, own_key);
    dlock_command_key(&command, stamp_key);
    dlock_command_arg(&command, session->owner);
    dlock_command_number(&command, look->number);
    dlock_command_number(&command, look->heard);
    dlock_command_number(&command, look->first);
    dlock_command_number(&command, look->cycle);
    dlock_command_number(&command, LIFE_MS);
    answered =
        ask(session, &command, attempt->limit_ms, look, &reply) == DLOCK_OK;
    if (!answered && is_forbidden(&reply))
        return dlock_error_set(DLOCK_MISUSE, "deadlock_ms: %.150s",
                               dlock_error_text());
    if (answered && reply.integers[0] == SURE)
        return dlock_error_set(DLOCK_DEADLOCK, "%s", reply.string);
    /* SOON_MS: while a cycle stands, each waiter in it has to be heard of once more before
     * it is sure. */
    look->at_ms =
        dlock_clock_after(dlock_clock_now(session->client->clock),
                          answered && look->first != 0 ? SOON_MS : LOOK_MS);
    return DLOCK_BUSY;
}

static const struct dlock_detector detector = {.can = can, .look = look};

void dlock_deadlock_register(void)
{
    dlock_detector_made = &detector;
}

/* ---- for anybody who asks ------------------------------------------------------ */

static enum dlock_status follow(struct dlock_session *session, const char *name,
                                char text[DLOCK_WAITS_BYTES_MAX])
{
    const struct dlock_clock *clock = session->client->clock;
    uint64_t until_ms = dlock_clock_now(clock) + ASKED_MS;
    struct dlock_look look = {.at_ms = 0};
    struct dlock_command command;
    struct dlock_reply reply = {.kind = DLOCK_REPLY_NIL};
    enum dlock_status status;

    /* The rounds are counted as well as timed, because a clock that stands still (tests)
     * must not keep this going. */
    for (int i = 0; i == 0 || (i < ASKED_MS / SOON_MS &&
                               dlock_clock_until(clock, until_ms) > 0);
         i++) {
        if (i > 0)
            dlock_clock_sleep_us(UINT64_C(1000) * SOON_MS);
        dlock_command_init(&command, "eval-waits", name, &dlock_script_waits);
        command.repeatable = true;
        dlock_command_key(&command, name);
        dlock_command_key(&command, stamp_key);
        dlock_command_number(&command, look.first);
        dlock_command_number(&command, look.cycle);
        status = ask(session, &command, dlock_session_limit(session, 1, 0),
                     &look, &reply);
        if (status != DLOCK_OK)
            return status;
        if (reply.integers[0] != MAYBE)
            break;
    }
    (void)snprintf(text, DLOCK_WAITS_BYTES_MAX, "%.159s", reply.string);
    /* MAYBE: somebody in it is not heard of, and may have given up. */
    return reply.integers[0] == SURE ? DLOCK_DEADLOCK : DLOCK_OK;
}

enum dlock_status dlock_waits_for(struct dlock_session *session,
                                  const char *name,
                                  char text[DLOCK_WAITS_BYTES_MAX],
                                  struct dlock_error *error)
{
    enum dlock_status status;

    if (session == NULL || text == NULL)
        return dlock_error_report(error, dlock_check_null(), "waits");
    status = can(session->client);
    if (status == DLOCK_OK)
        status = dlock_check_name(name);
    if (status == DLOCK_OK)
        status = dlock_session_enter(session);
    if (status == DLOCK_OK) {
        status = follow(session, name, text);
        dlock_session_leave(session);
    }
    if (status == DLOCK_DEADLOCK)
        dlock_error_say("%s", text);
    return dlock_error_report(error, status, "waits");
}

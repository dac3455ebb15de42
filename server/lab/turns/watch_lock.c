/* See watch.h: what a lock does, and what it answers. */
#include "server/lab/turns/watch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/textbook/textbook.h"
#include "server/lab/turns/turns.h"

bool watch_no_lock;

/* ---- the step hook ------------------------------------------------------ */

static void hear(const char *text)
{
    struct page_lane *lane = turns_own_lane();

    (void)snprintf(lane->heard, sizeof(lane->heard), "%s", text);
}

static enum dlock_verdict end_step(const struct dlock_step *step)
{
    struct page_lane *lane = turns_own_lane();
    bool is_lost = turns_stepped(step->node, step->reply) == PAGE_LOSE;

    /* A reply {0, ms} says not yet, and in how many to come again. The count of these
     * gives a waiter its place (stage_rules.c). */
    if (strcmp(step->name, "eval-acquire") == 0 &&
        strncmp(step->reply, "0 ", 2) == 0)
        lane->asks_n++;
    /* An answer that was lost says nothing: its words must not stay from the command
     * before either. */
    hear(step->is_error && !is_lost ? "Redis answered with an error" : "");
    if (step->is_error)
        lane->faults |= 1u << STAGE_ERROR;
    return is_lost ? DLOCK_FAIL : DLOCK_GO;
}

/* A watchdog's or a subscriber's command is a step as well, of its own thread. */
enum dlock_verdict watch_lock(void *ctx, const struct dlock_step *step)
{
    struct page_thread shown = {.step.node = step->node};

    (void)ctx;
    /* A server's age is asked for to decide whether it may vote, by redlock: it changes
     * nothing that others see. */
    if (strcmp(step->name, "eval-age") == 0) {
        turns_step_aside(step->phase == DLOCK_BEFORE);
        return DLOCK_GO;
    }
    if (step->phase == DLOCK_AFTER)
        return end_step(step);
    /* A name longer than its field is cut alike here and in the rules. */
    (void)snprintf(shown.step.name, sizeof(shown.step.name), "%s", step->name);
    (void)snprintf(shown.step.key, sizeof(shown.step.key), "%s", step->key);
    turns_put_words(&shown, step->words, step->words_n, step->parts_n);
    /* A command that is held up has no reply of its own. The library must not wait for
     * one: it holds back the command, or fails when the schedule is over. */
    if (turns_step(&shown) != PAGE_HOLD)
        return DLOCK_GO;
    if (turns_ending())
        return DLOCK_FAIL;
    (void)turns_stepped(step->node, "(held up)");
    hear("");
    return DLOCK_HOLD_BACK;
}

/* ---- what the lock answers ---------------------------------------------- */

static void put_name(char to[STAGE_NAME_BYTES], const char *name)
{
    (void)snprintf(to, STAGE_NAME_BYTES, "%.*s", STAGE_NAME_BYTES - 1, name);
}

/* The calling actor believes to have one more. */
static void note_hold(const struct dlock_grant *grant)
{
    struct page_hold *place = turns_own_lane()->holds;

    /* The first free place: holds are given back in any order. */
    while (place->name[0])
        place++;
    /* A program of more holds than places would overrun the page. */
    assert(place < turns_own_lane()->holds + PAGE_HOLDS_MAX);
    put_name(place->name, grant->name);
    memcpy(place->owner, grant->owner, sizeof(place->owner));
    place->attempt = grant->attempt;
    place->at_us = turns_now_us();
}

/* A release whose reply was lost is asked for again: its actor has that hold no more. */
static void note_giving(const struct dlock_grant *grant)
{
    struct page_lane *lane = turns_own_lane();

    lane->gives_since_us = 0;
    /* A hold is known by its owner and attempt: two of one name are two grants. */
    for (struct page_hold *each = lane->holds;
         each < lane->holds + PAGE_HOLDS_MAX; each++)
        if (each->attempt == grant->attempt &&
            strcmp(each->owner, grant->owner) == 0) {
            /* The time of the grant must be kept: the rules compare it with the last
             * end of a lease. */
            lane->gives_since_us = each->at_us;
            *each = (struct page_hold){.attempt = 0};
        }
}

static void note_lease(const struct dlock_grant *grant)
{
    struct page_lane *lane = turns_own_lane();

    put_name(lane->granted, grant->name);
    lane->granted_until_us = grant->deadline_ms == UINT64_MAX
                                 ? PAGE_NEVER
                                 : grant->deadline_ms * 1000;
    lane->granted_for_us = 0;
}

/* An acquire begins, for which THREAD waits; or is over, and NAME is "". The last of
 * several counts. */
static void note_wish(const char *name, bool may_wait, unsigned thread)
{
    struct page_lane *lane = turns_own_lane();

    if (name[0]) {
        lane->wishes_n++;
        lane->wished_us = turns_now_us();
    } else if (--lane->wishes_n > 0) {
        /* Another acquire of the actor is under way: its wish stays. */
        return;
    }
    put_name(lane->wants, name);
    lane->wants_thread = thread;
    lane->may_wait = may_wait;
}

static void note_lost(struct page_lane *lane, const char *name,
                      enum dlock_status status)
{
    if (status != DLOCK_LOST)
        return;
    put_name(lane->lost, name);
    lane->lost_unsure = lane->unsure;
}

/* By the server's word, which a watchdog has heard, whoever has moved it: it keeps the locks
 * of all actors of its process. */
void watch_lost(void *ctx, const char *name, const char *owner,
                enum dlock_loss why)
{
    struct page_lane *lane = turns_lane_of(owner);

    (void)ctx;
    /* A lease that ran out is known by the clock, and is no word of the server's. */
    if (lane && (why == DLOCK_LOSS_TAKEN || why == DLOCK_LOSS_FLUSHED))
        note_lost(lane, name, DLOCK_LOST);
}

WRAPPED(dlock_acquire);
WRAPPED(dlock_release);
WRAPPED(dlock_acquire_async);
WRAPPED(dlock_release_async);
WRAPPED(dlock_extend);
WRAPPED(dlock_textbook_unnamed);

/* An error was an answer, and so was a reply that the lock's text does not name: nothing
 * was lost, nor out of reach. */
static const char *status_text(enum dlock_status status)
{
    return turns_own_lane()->heard[0] &&
                   (status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE)
               ? turns_own_lane()->heard
               : dlock_status_text(status);
}

enum dlock_status __wrap_dlock_textbook_unnamed(const char *lock, unsigned line,
                                                const char *reply,
                                                struct dlock_error *error)
{
    char text[sizeof(turns_own_lane()->heard)];

    (void)snprintf(text, sizeof(text),
                   "line %u of the text does not name the reply %.24s", line,
                   reply);
    hear(text);
    turns_own_lane()->faults |= 1u << STAGE_UNNAMED;
    return __real_dlock_textbook_unnamed(lock, line, reply, error);
}

/* An acquire is over; without a GRANT, in vain. */
static void note_acquired(enum dlock_status status,
                          const struct dlock_grant *grant)
{
    struct page_lane *lane = turns_own_lane();

    /* The wish must end before the hold begins: no move may see both. */
    note_wish("", false, 0);
    if (status == DLOCK_OK) {
        note_hold(grant);
        note_lease(grant);
        lane->has_extended = false;
        /* A token of 0 is a lock without tokens. */
        lane->tokens_n += grant->token != 0;
        if (grant->token != 0) {
            lane->token = grant->token;
            memcpy(lane->token_of, lane->granted, sizeof(lane->token_of));
        }
    }
    if (status == DLOCK_UNKNOWN)
        lane->unsure = true;
    /* DLOCK_UNREACHABLE while it waited: the server may still have it in its queue, and
     * wake it in vain. */
    lane->cut_off = status == DLOCK_UNREACHABLE;
    /* A lock that is none lets everybody in: a line would say nothing. */
    if (watch_no_lock)
        return;
    if (status != DLOCK_OK)
        turns_note("not inside: %s", status_text(status));
    else if (grant->token != 0)
        turns_note("inside, with token %" PRIu64, grant->token);
    else
        turns_note("inside");
}

static void note_released(const char *name, enum dlock_status status)
{
    struct page_lane *lane = turns_own_lane();

    note_lost(lane, name, status);
    if (status != DLOCK_OK && status != DLOCK_LOST)
        lane->unsure = true;
    if (status == DLOCK_OK)
        put_name(lane->gave_one, name);
    /* Another hold of the same name may be left: then the lock is not given back yet. */
    if (status == DLOCK_OK && !page_believes(lane, name))
        put_name(lane->gave, name);
    if (!watch_no_lock)
        turns_note(status == DLOCK_OK ? "released it" : "released it: %s",
                   status_text(status));
}

enum dlock_status __wrap_dlock_acquire(struct dlock_session *session,
                                       const char *name,
                                       const struct dlock_terms *terms,
                                       struct dlock_grant *grant,
                                       struct dlock_error *error)
{
    enum dlock_status status;

    /* The wish must be noted before the call: its first step is judged by it. */
    note_wish(name, terms->wait_ms > 0, turns_own_thread_n());
    status = __real_dlock_acquire(session, name, terms, grant, error);
    note_acquired(status, grant);
    return status;
}

enum dlock_status __wrap_dlock_release(struct dlock_session *session,
                                       const struct dlock_grant *grant,
                                       struct dlock_error *error)
{
    enum dlock_status status;

    /* The hold must end before the release is sent: from its first step on the actor
     * believes in it no more. */
    note_giving(grant);
    status = __real_dlock_release(session, grant, error);
    note_released(grant->name, status);
    return status;
}

/* An asynchronous call under way: what it is about, and whose callback is next. */
struct call {
    char name[STAGE_NAME_BYTES];
    bool acquires;
    dlock_done *done;
    void *ctx;
};

static struct call *begin_call(const char *name, bool acquires,
                               dlock_done *done, void *ctx)
{
    struct call *call = calloc(1, sizeof(*call));

    assert(call);
    *call = (struct call){.acquires = acquires, .done = done, .ctx = ctx};
    put_name(call->name, name);
    return call;
}

static enum dlock_status end_call(struct call *call, enum dlock_status status,
                                  const struct dlock_grant *grant)
{
    if (call->acquires)
        note_acquired(status, grant);
    else
        note_released(call->name, status);
    free(call);
    return status;
}

static void ended(void *ctx, struct dlock_session *session,
                  enum dlock_status status, const struct dlock_grant *grant,
                  const struct dlock_error *error)
{
    /* The callback may free the session and begin another call: what is needed of this
     * one is copied before. */
    const struct call call = *(struct call *)ctx;

    (void)end_call(ctx, status, grant);
    call.done(call.ctx, session, status, grant, error);
}

enum dlock_status __wrap_dlock_acquire_async(struct dlock_session *session,
                                             const char *name,
                                             const struct dlock_terms *terms,
                                             dlock_done *done, void *ctx,
                                             struct dlock_error *error)
{
    struct call *call = begin_call(name, true, done, ctx);
    enum dlock_status status;

    note_wish(name, terms->wait_ms > 0, PAGE_ASYNC);
    status =
        __real_dlock_acquire_async(session, name, terms, ended, call, error);
    /* A call that could not begin has no callback: it ends here, and CALL is freed once
     * either way. */
    return status == DLOCK_OK ? status : end_call(call, status, NULL);
}

enum dlock_status __wrap_dlock_release_async(struct dlock_session *session,
                                             const struct dlock_grant *grant,
                                             dlock_done *done, void *ctx,
                                             struct dlock_error *error)
{
    struct call *call = begin_call(grant->name, false, done, ctx);
    enum dlock_status status;

    note_giving(grant);
    status = __real_dlock_release_async(session, grant, ended, call, error);
    return status == DLOCK_OK ? status : end_call(call, status, NULL);
}

enum dlock_status __wrap_dlock_extend(struct dlock_session *session,
                                      struct dlock_grant *grant,
                                      unsigned lease_ms,
                                      struct dlock_error *error)
{
    enum dlock_status status;

    /* HAS_EXTENDED is set before the call: the first step of an extend may make the
     * lease shorter already. */
    turns_own_lane()->has_extended = true;
    status = __real_dlock_extend(session, grant, lease_ms, error);
    note_lost(turns_own_lane(), grant->name, status);
    if (status == DLOCK_OK)
        note_lease(grant);
    /* A length that was asked for bounds the lease even if the reply is lost. */
    turns_own_lane()->granted_for_us = 1000 * (uint64_t)lease_ms;
    if (status == DLOCK_UNKNOWN)
        turns_own_lane()->unsure = true;
    if (!watch_no_lock)
        turns_note(status == DLOCK_OK ? "has it for %u ms"
                                      : "asked for %u ms: %s",
                   lease_ms, status_text(status));
    return status;
}

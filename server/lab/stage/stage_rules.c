/*
 * Rules that a move must not break, by the servers' words before and after it: change
 * another's lease, undo by a late command what is newer, tell its owner that it lost
 * it, tell it a lease that is not so, let somebody overtake, grant a token again, or
 * leave a waiter asleep while the lock is free.
 */
#include <stdlib.h>
#include <string.h>

#include "server/lab/stage/stage_private.h"

enum {
    ROUNDING_US = 2000, /* servers tell milliseconds */
    LOOK_US = 1000000,  /* quorum.c: a waiter looks by itself more often */
    BEAT_US =
        2000000, /* fair_queue.lua: who was not heard of for longer loses its place */
    WATCHDOG_LEASE_US = 10000000, /* dlock.h: what is usual */
};

static bool promises(const struct stage *stage, int property)
{
    return stage->expected && stage->expected->verdicts[property] == '#';
}

static bool is_fair(const struct stage *stage)
{
    return promises(stage, PROPERTY_F);
}

struct stage_lock *stage_lock_of(struct stage *stage, const char *name)
{
    for (unsigned i = 0; i < stage->locks_n; i++)
        if (strcmp(stage->locks[i].name, name) == 0)
            return &stage->locks[i];
    return NULL;
}

/* ---- leases --------------------------------------------------------------- */

/* The owner whose lease on a server changed, while it was there before and after; NULL =
 * nobody. */
static const struct actor *whose_lease(const struct stage *stage,
                                       const struct stage_lock *lock,
                                       const struct stage_lock *before)
{
    for (unsigned i = 0; i < stage->world.nodes_n; i++) {
        uint64_t ends_us = lock->node_ends_us[i];
        uint64_t before_us = before->node_ends_us[i];

        /* Only a key that is there before and after has a lease that was changed: a new
         * one was taken, and one that is gone was given back. */
        if (ends_us != 0 && before_us != 0 && lock->owners[i] &&
            lock->owners[i] == before->owners[i] &&
            llabs((long long)(ends_us - before_us)) > ROUNDING_US)
            return lock->owners[i];
    }
    return NULL;
}

/* The last command of this move that renews; NULL: there is none. A watchdog that has lost
 * its lease asks why so. */
static const struct stage_step *renewal_of(const struct stage *stage,
                                           const char *name)
{
    /* From the last step back: a watchdog's pass may renew the same lock twice. */
    for (size_t i = stage->steps_n; i-- > stage->steps_before;) {
        const struct stage_step *step = &stage->steps[i];

        if ((strcmp(step->name, "eval-renew") == 0 ||
             strcmp(step->who, "watchdog") == 0) &&
            strcmp(step->name, "why-lost") != 0 && strcmp(step->key, name) == 0)
            return step;
    }
    return NULL;
}

/* The server has said yes, however long the lease is by it. */
static bool has_renewed(const struct stage *stage, const char *name)
{
    const struct stage_step *step = renewal_of(stage, name);

    return step &&
           (strcmp(step->reply, "1") == 0 || strcmp(step->reply, "OK") == 0);
}

/* Its release, or its withdraw, may be among them, and frees the lock yet. */
static bool has_more_held_up(const struct actor *actor)
{
    for (unsigned i = 0; i < actor->stage->late_n; i++)
        if (actor->stage->late[i].actor == actor)
            return true;
    return false;
}

static void check_leases(struct stage *stage, const struct stage_lock *lock,
                         const struct stage_lock *before)
{
    const struct actor *mover = stage->mover;
    const struct actor *owner = whose_lease(stage, lock, before);
    /* With its data a server has lost what it knew of newer commands. */
    bool is_late =
        stage->is_delivery && stage->losses == 0 && stage->delivered.newer > 0;

    /* A change that no actor made is the world's, which breaks nothing. */
    if (!mover)
        return;
    if (owner && !stage_moves_in(stage, owner))
        stage_broke(stage, STAGE_LEASE);
    /* Only an extend makes it shorter. */
    if (owner == mover && !stage->is_delivery && !mover->lane->has_extended &&
        before->ends_us != PAGE_NEVER && lock->ends_us < before->ends_us)
        stage_broke(stage, STAGE_TOLD_LEASE);
    /* A renewal of another's lock is one even if it leaves the lease as it was: a full
     * one may be set to a full one. */
    if (before->has_key && before->holder && before->holder == lock->holder &&
        !stage_moves_in(stage, lock->holder) && has_renewed(stage, lock->name))
        stage_broke(stage, STAGE_LEASE);
    /* A lock that was taken late is older than what comes late behind that, because held
     * up commands keep their order. */
    /* NEWER says that a command overtook this one. It must have no effect then: neither
     * on the lease, nor on the hold. */
    if (is_late && !before->taken_late &&
        (owner == mover ||
         (before->has_key && before->holder == mover && !lock->has_key)))
        stage_broke(stage, STAGE_LATE);
    /* Somebody under way may still come in again, or give it back; the dead have their
     * lease; and after a lost reply it may be held, as it was told. */
    if (is_late && !before->has_key && lock->holder == mover &&
        !stage_is_playing(mover) && !mover->is_dead && !mover->lane->unsure &&
        !has_more_held_up(mover))
        stage_broke(stage, STAGE_LATE);
}

bool stage_is_exact(const struct stage *stage)
{
    return promises(stage, PROPERTY_D) && stage->world.nodes_n == 1;
}

/* No lease has ended since it came in, and by the server its own runs, or, of the only
 * lock there is, ended by its own release: it has not lost the lock. And who has lost it
 * must be told so by the last release at the latest, unless a copy of that has freed it
 * before. */
static void check_owner(struct stage *stage, const struct stage_lock *lock,
                        const struct stage_lock *before)
{
    bool is_exact = stage_is_exact(stage);

    for (const struct actor *each = stage->actors; each < stage->end; each++) {
        const struct page_lane *lane = each->lane;
        bool had_it = before->has_key && before->holder == each;
        bool gave = strcmp(lane->gave, lock->name) == 0 &&
                    !page_believes(lane, lock->name);
        bool was_lost = strcmp(lane->gave_one, lock->name) == 0 &&
                        lane->gives_since_us != 0 &&
                        lane->gives_since_us < lock->lapsed_us;

        /* One that has missed a reply counts to the earlier of two ends. */
        /* A reply that is missing leaves two leases possible: its owner goes by
         * the shorter. */
        if (lane->lost_unsure && stage_has_time_passed(stage))
            continue;
        if (strcmp(lane->lost, lock->name) == 0 &&
            each->lapses == stage->lapses &&
            (had_it || (is_exact && stage->locks_n == 1)))
            stage_broke(stage, STAGE_TOLD_LOST);
        /* Also a hold that was lost before its owner came in again. */
        if (is_exact && !stage->unfaithful && ((gave && !had_it) || was_lost))
            stage_broke(stage, STAGE_TOLD_KEPT);
        /* Trouble is an excuse; a lost reply is none for a lock that asks again. */
        /* A hold that was given back for good, and that the server still has in the
         * same name. */
        if (gave && lock->has_key && lock->holder == each &&
            !stage_wants(each, lock->name) && !stage_is_excused(stage))
            stage_broke(stage, STAGE_HELD);
    }
}

/* The lease on the only server may have begun later than its owner knows, but seconds in
 * place of milliseconds last longer than two of them; FOR_US: an extend has set it so, and
 * it may not be longer; 0 = none has. */
static bool is_lease_wrong(struct stage *stage, const char *name,
                           uint64_t told_us, uint64_t for_us)
{
    const struct stage_lock *lock = stage_lock_of(stage, name);
    uint64_t now_us = stage_now_us(stage);
    uint64_t lease_us = stage->scene.lease_ms == 0
                            ? WATCHDOG_LEASE_US
                            : 1000 * (uint64_t)stage->scene.lease_ms;

    /* A grant whose key is not there promises what does not exist. */
    if (!lock || !lock->has_key)
        return true;
    if (told_us == PAGE_NEVER || lock->ends_us == PAGE_NEVER)
        return told_us != lock->ends_us;
    /* An extend may have set a longer lease than the scene's: the bound goes by that. */
    if (told_us > now_us + lease_us)
        lease_us = told_us - now_us;
    return lock->ends_us + ROUNDING_US < told_us ||
           lock->ends_us > now_us + 2 * lease_us ||
           (for_us != 0 && lock->ends_us > now_us + for_us + ROUNDING_US);
}

/* Its watchdog will not look at its lock before that has ended. A lock that was held for too
 * long is not renewed. */
static bool is_slept_over(const struct actor *actor,
                          const struct stage_lock *lock)
{
    const struct stage *stage = actor->stage;
    const struct page_thread *watchdog = stage_threads(actor).keeper;
    uint64_t most_us = 1000 * (uint64_t)stage->scene.max_hold_ms;

    return promises(stage, PROPERTY_L) && stage->scene.lease_ms == 0 &&
           stage_now_us(stage) < WORLD_BEGINS_US + most_us &&
           !actor->lane->has_extended && lock->has_key &&
           lock->holder == actor && page_believes(actor->lane, lock->name) &&
           watchdog && watchdog->wait == PAGE_TIMED &&
           watchdog->until_us >= lock->ends_us;
}

/* Leases on several servers, or elsewhere than in Redis, are not compared. A watchdog whose
 * pass is over believes that its lease began anew. */
static void check_terms(struct stage *stage)
{
    const struct actor *mover = stage->mover;
    const struct page_thread *watchdog =
        stage->kind == 'w' ? stage_threads(mover).keeper : NULL;

    if (stage->world.nodes_n > 1 ||
        (stage->expected && stage->expected->kept != KEPT_IN_REDIS))
        return;
    for (const struct actor *each = stage->actors; each < stage->end; each++) {
        const struct page_lane *lane = each->lane;

        /* A turn of the watchdog before the answer makes an extended lease a full one. */
        /* An extend sets one length for one hold: with two holds the longer one
         * may stand. */
        bool is_exact = page_holds(lane) == 1 && stage->kind != 'w';

        if (lane->granted[0] &&
            is_lease_wrong(stage, lane->granted, lane->granted_until_us,
                           is_exact ? lane->granted_for_us : 0))
            stage_broke(stage, STAGE_TOLD_LEASE);
        for (unsigned i = 0; i < stage->locks_n; i++)
            if (is_slept_over(each, &stage->locks[i]))
                stage_broke(stage, STAGE_TOLD_LEASE);
    }
    /* A pass with a command still to come has not told the watchdog anything yet. */
    for (unsigned i = 0;
         watchdog && watchdog->wait != PAGE_STEP && i < stage->locks_n; i++) {
        const struct stage_lock *lock = &stage->locks[i];

        if (lock->has_key && lock->holder == mover &&
            page_believes(mover->lane, lock->name) &&
            renewal_of(stage, lock->name) &&
            is_lease_wrong(stage, lock->name,
                           stage_now_us(stage) + WATCHDOG_LEASE_US, 0))
            stage_broke(stage, STAGE_TOLD_LEASE);
    }
}

/* ---- order ---------------------------------------------------------------- */

/* FIRST asked before OTHER did, and was heard of lately. */
static bool is_before(const char *name, const struct actor *first,
                      const struct actor *other)
{
    return stage_wants(first, name) && first->place != 0 &&
           (other->place == 0 || first->sure_place < other->place) &&
           /* A waiter that was silent for a heartbeat may have been taken out of the
            * queue: nobody overtakes it. */
           stage_now_us(first->stage) < first->asked_us + BEAT_US;
}

static void check_order(struct stage *stage, const struct stage_lock *lock,
                        const struct stage_lock *before)
{
    /* A queue is lost with the server's data. */
    if (!stage->mover || before->has_key || !lock->has_key ||
        lock->holder != stage->mover || stage->losses > 0)
        /* A grant counts only if the key came with this move: whoever holds it already
         * has its turn. */
        return;
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        if (each != stage->mover && is_before(lock->name, each, stage->mover))
            stage_broke(stage, STAGE_OVERTAKEN);
}

/* The server has it as the holder, although it may not have heard so. */
static bool is_holder(const struct actor *actor)
{
    const struct stage *stage = actor->stage;

    for (unsigned i = 0; i < stage->locks_n; i++)
        if (stage->locks[i].has_key && stage->locks[i].holder == actor)
            return true;
    return false;
}

/* An acquire of ACTOR was held up, and has reached the server with this move. The
 * script answers {-1}, one value, if a newer command has made it void: it then changes
 * nothing, and gives no place in the queue. */
static bool has_asked_late(const struct actor *actor)
{
    const struct stage_step *step =
        actor->stage->is_delivery
            ? stage_line_of(actor->stage, actor, "late eval-acquire")
            : NULL;

    return step && strcmp(step->reply, "(1 values)") != 0;
}

/* It has told the server with this move that it waits no longer. */
static bool has_left(const struct actor *actor)
{
    const struct stage_step *step = stage_line_of(
        actor->stage, actor,
        actor->stage->is_delivery ? "late eval-leave" : "eval-leave");

    return step && strcmp(step->reply, "(held up)") != 0;
}

/* A question that has reached the server gives a waiter its place; a grant, and the
 * end of its acquire, take it away. The server may have given up who was not heard of for
 * a heartbeat, or not, if it heard of nobody. */
static void note_place(struct stage *stage, struct actor *actor)
{
    const struct page_lane *lane = actor->lane;
    bool has_asked = actor->asks_n != lane->asks_n || has_asked_late(actor);
    bool is_in = is_holder(actor);
    uint64_t now_us = stage_now_us(stage);

    /* A place ends with the wish, with the grant, and with leaving; each of them before
     * a new one can begin. */
    if (lane->wants[0] == '\0' || !lane->may_wait || is_in || has_left(actor))
        actor->place = 0;
    if (lane->wants[0] == '\0' || !lane->may_wait || is_in || !has_asked)
        return;
    /* An old place may have been given up by the server: SURE_PLACE is the new one's
     * number, PLACE the first one's, and between the two nobody knows. */
    if (actor->place == 0 || now_us >= actor->asked_us + BEAT_US)
        actor->sure_place = ++stage->places_n;
    if (actor->place == 0)
        actor->place = actor->sure_place;
    if (now_us >= actor->asked_us + BEAT_US / 2)
        actor->steady_us = now_us;
    actor->asked_us = now_us;
}

/* Nobody who may have a place in the queue is before ACTOR: all others have none, or have
 * died, and were not heard of for a heartbeat. A server that heard of nobody at all for
 * half of one spares its waiters once: not while ACTOR was steady. */
static bool is_first(const struct actor *actor)
{
    const struct stage *stage = actor->stage;
    uint64_t now_us = stage_now_us(stage);
    bool is_late = now_us >= actor->asked_us + BEAT_US / 2;
    uint64_t steady_us = is_late ? now_us : actor->steady_us;

    for (const struct actor *each = stage->actors; each < stage->end; each++) {
        uint64_t heard_us =
            each->asked_us > steady_us ? each->asked_us : steady_us;

        /* A reply that is missing may have been a place, or a grant: then nobody is
         * known to be first. */
        if (each->lane->unsure)
            return false;
        if (each != actor && each->place != 0 &&
            (!each->is_dead || now_us < heard_us + BEAT_US))
            return false;
    }
    return true;
}

/* The first in the queue has asked for a free lock, and was told to wait. */
static void check_turn(struct stage *stage, const struct stage_lock *lock,
                       const struct stage_lock *before)
{
    const struct actor *mover = stage->mover;

    /* A late or lost command may stand in the queue in another's name: the first to ask
     * may not be the first in it. */
    if (mover && !before->has_key && !lock->has_key && stage->late_n == 0 &&
        !stage->is_delivery && stage->losses == 0 && !stage->has_ghost &&
        stage_wants(mover, lock->name) && mover->place != 0 &&
        mover->asks_n != mover->lane->asks_n && is_first(mover))
        stage_broke(stage, STAGE_ASLEEP);
}

/* The holder asks for its own lock once more, and is told to wait. */
static void check_reentry(struct stage *stage, const struct stage_lock *lock,
                          const struct stage_lock *before)
{
    const struct actor *mover = stage->mover;

    if (mover && promises(stage, PROPERTY_N) && stage->world.nodes_n == 1 &&
        before->has_key && before->holder == mover && lock->holder == mover &&
        !stage->is_delivery && stage_wants(mover, lock->name) &&
        page_believes(mover->lane, lock->name) &&
        mover->asks_n != mover->lane->asks_n)
        stage_broke(stage, STAGE_ASLEEP);
}

/* ---- tokens --------------------------------------------------------------- */

/* Those of one lock rise. Somebody that comes in again has its own once more. A server
 * that has lost its data begins anew, but above the token that it was told of. */
static void check_token(struct stage *stage, struct stage_lock *lock)
{
    lock->token_is_over = lock->token_is_over || !lock->has_key;
    for (struct actor *each = stage->actors; each < stage->end; each++) {
        const struct page_lane *lane = each->lane;
        bool again = lane->token == lock->token && lock->token_by == each;

        if (each->tokens_n == lane->tokens_n ||
            strcmp(lane->token_of, lock->name) != 0)
            continue;
        /* A grant is looked at once: its number goes by TOKENS_N, because the token of
         * a re-entry is the same. */
        each->tokens_n = lane->tokens_n;
        again = again && !lock->token_is_over;
        /* Tokens of a server that has lost its data rise from the floor only, which the
         * next rule is about. */
        if (stage->losses == 0 && (lane->token < lock->token ||
                                   (lane->token == lock->token && !again)))
            stage_broke(stage, STAGE_TOKEN);
        if (strcmp(lane->floor_of, lock->name) == 0 &&
            lane->token <= lane->floor && !again)
            stage_broke(stage, STAGE_TOKEN);
        lock->token = lane->token;
        lock->token_by = each;
        /* A lock that was free for a moment must have a higher token next, even for the
         * same owner. */
        lock->token_is_over = !lock->has_key;
    }
}

/* ---- sleep ---------------------------------------------------------------- */

bool stage_is_free_for(const struct actor *actor)
{
    struct stage *stage = actor->stage;
    const char *name = actor->lane->wants;
    const struct stage_lock *lock = stage_lock_of(stage, name);
    bool has_key = !stage->expected || stage->expected->kept != KEPT_LOCALLY;

    /* A lock in processes has no key that could be looked at: belief is all that
     * there is. */
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        if (!has_key && each->page == actor->page &&
            page_believes(each->lane, name))
            return false;
    return !lock || !lock->has_key;
}

/* The thread that waits for the lock that the actor wants. One thread of the asynchronous
 * calls at most minds the time. */
static const struct page_thread *waiter(const struct actor *actor)
{
    const struct page *page = actor->page;
    unsigned n = actor->lane->wants_thread;

    if (n != PAGE_ASYNC)
        return &page->threads[n];
    for (unsigned i = 0; i < page->threads_n; i++)
        if (strcmp(page->threads[i].name, "dlock-async") == 0 &&
            page->threads[i].wait == PAGE_TIMED)
            return &page->threads[i];
    return NULL;
}

/* It will not look by itself soon. On several servers it does, because giving back a
 * part of the lock wakes nobody. */
static bool is_asleep(const struct actor *actor)
{
    const struct stage *stage = actor->stage;
    const struct page_thread *thread = waiter(actor);
    uint64_t soon_us = stage->world.nodes_n > 1 ? LOOK_US : ROUNDING_US;

    return actor->lane->wishes_n == 1 && thread && thread->wait == PAGE_TIMED &&
           thread->until_us > stage_now_us(stage) + soon_us;
}

/* An instance whose orders wait while it asks for no lock, and its watchdog is not about
 * to hear that one is lost: only their own time to give up will come. */
static bool has_orders_asleep(const struct actor *actor)
{
    const struct page *page = actor->page;
    const struct page_thread *committer = stage_threads(actor).committer;

    /* A thread at a step is about to do something: the instance is awake. */
    for (unsigned i = 0; i < page->threads_n; i++)
        if (page->threads[i].wait == PAGE_STEP)
            return false;
    return actor->stage->scene.batched && committer &&
           stage_main_thread(actor)->wait == PAGE_OTHERS &&
           actor->lane->wants[0] == '\0' && page_holds(actor->lane) == 0 &&
           committer->until_us > stage_now_us(actor->stage) + LOOK_US;
}

/* A step of its own, or a message, may still come; or it looks again by itself, because
 * it naps or the time of its sleep is over; and it wakes others when it gives the lock
 * back. */
static bool is_at_work(const struct actor *actor)
{
    return stage_threads(actor).step ||
           stage_main_thread(actor)->wait == PAGE_SLEEP ||
           ((actor->lane->wants[0] != '\0' || page_holds(actor->lane) > 0) &&
            !is_asleep(actor));
}

/* A dead waiter that may be the one that was woken: others have to look by themselves
 * then. Nobody listens any more for one that had died before the lock was free; a queue
 * goes by heartbeats, and wakes it all the same. */
bool stage_may_be_woken(const struct actor *actor)
{
    struct stage *stage = actor->stage;
    const char *wants = actor->lane->wants;
    const struct stage_lock *lock = stage_lock_of(stage, wants);

    return actor->is_dead && wants[0] != '\0' &&
           (is_fair(stage) || stage->world.nodes_n > 1 || !lock ||
            actor->died_at >= lock->freed_at);
}

void stage_check_sleepers(struct stage *stage)
{
    const struct actor *late = stage->delivered.actor;
    bool sleeps = false;

    /* Somebody who does not wait any more may stand in the queue, and is woken in vain:
     * one that has overslept, or whose acquire came late. Others have to look by
     * themselves. */
    /* A ghost stays for the rest of a schedule: nothing says when the server
     * forgets it. */
    if (stage->is_delivery && has_asked_late(late) &&
        late->lane->wants[0] == '\0')
        stage->has_ghost = true;
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        stage->has_ghost = stage->has_ghost || each->lane->cut_off;
    if (stage->late_n > 0 || stage->losses > 0 || stage->has_ghost)
        return;
    for (const struct actor *each = stage->actors; each < stage->end; each++) {
        /* One actor that may have been woken, or can still move, may wake the rest:
         * nobody sleeps in vain yet. */
        if (stage_may_be_woken(each))
            return;
        if (!stage_is_playing(each))
            continue;
        if (is_at_work(each))
            return;
        sleeps = sleeps || (is_asleep(each) && stage_is_free_for(each)) ||
                 (has_orders_asleep(each) && !stage_has_key(stage));
    }
    if (sleeps)
        stage_broke(stage, STAGE_ASLEEP);
}

void stage_check_locks(struct stage *stage, const struct stage_lock before[])
{
    for (unsigned i = 0; i < stage->locks_n; i++) {
        struct stage_lock *lock = &stage->locks[i];

        check_leases(stage, lock, &before[i]);
        check_owner(stage, lock, &before[i]);
        check_reentry(stage, lock, &before[i]);
        if (is_fair(stage)) {
            check_order(stage, lock, &before[i]);
            check_turn(stage, lock, &before[i]);
        }
        check_token(stage, lock);
    }
    check_terms(stage);
    for (struct actor *each = stage->actors; each < stage->end; each++) {
        /* Places must be noted behind the rules of order, which go by the queue as it
         * was before this move. */
        if (is_fair(stage))
            note_place(stage, each);
        each->asks_n = each->lane->asks_n;
    }
}

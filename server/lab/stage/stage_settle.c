/*
 * The settling after each turn: who has the lock now, by Redis and by what the actors
 * believe; and what has come for whom.
 */
#include <stdio.h>
#include <string.h>

#include "server/lab/stage/stage_private.h"

/* ---- locks, by the servers ------------------------------------------------ */

bool stage_is_lock(const char *line)
{
    size_t len = strcspn(line, "\t\n");

    /* Seven bytes are "lock:{}": a lock has a name between the braces. */
    return len > 7 && len < STAGE_NAME_BYTES &&
           strncmp(line, "lock:{", 6) == 0 && line[len - 1] == '}';
}

/* The actor whose id is in the value of a line of the keys; NULL = nobody. */
static struct actor *owner_in(struct stage *stage, const char *line)
{
    size_t len = strcspn(line, "\n");

    for (struct actor *each = stage->actors; each < stage->end; each++) {
        const char *owner = each->lane->owner;

        /* An id that is not known yet is "", and would be found in every line. */
        if (owner[0] && memmem(line, len, owner, strlen(owner)))
            return each;
    }
    return NULL;
}

/* A line: "lock:{1:0}\thash\t10000\t..."; of several servers with "1/" before. False:
 * stage->error. */
static bool take_line(struct stage *stage, const char *line, uint64_t now_us)
{
    bool is_one = stage->world.nodes_n == 1;
    unsigned node = is_one ? 0 : (unsigned)(line[0] - '1');
    struct stage_lock *lock, new = {.name = ""};
    long long left_ms;

    line += is_one ? 0 : strlen("1/");
    if (!stage_is_lock(line) ||
        sscanf(line, "%31s %*s %lld", new.name, &left_ms) != 2)
        return true;
    lock = stage_lock_of(stage, new.name);
    /* A lock without a place could not be judged, and a verdict speaks of all. */
    if (!lock && stage->locks_n == STAGE_LOCKS_MAX)
        return fail_with(&stage->error, "more than %d locks", STAGE_LOCKS_MAX);
    if (!lock)
        *(lock = &stage->locks[stage->locks_n++]) = new;
    /* A lease without an end outlasts all others; 0 would be no key at all. */
    lock->node_ends_us[node] =
        left_ms < 0 ? PAGE_NEVER : now_us + (uint64_t)left_ms * 1000;
    lock->owners[node] = is_one ? NULL : owner_in(stage, line);
    /* Among several servers the lock lasts for as long as its last key does. */
    if (!lock->has_key || lock->node_ends_us[node] > lock->ends_us)
        lock->ends_us = lock->node_ends_us[node];
    lock->has_key = true;
    return true;
}

/* The actor that has enough of several servers. */
static struct actor *holder_of_most(const struct stage *stage,
                                    const struct stage_lock *lock)
{
    unsigned n = stage->world.nodes_n;
    /* The lock multi needs all servers; a quorum needs most of them. */
    unsigned needed = strcmp(stage->scene.lock, "multi") == 0 ? n : n / 2 + 1;
    unsigned counts[STAGE_ACTORS_MAX] = {0};

    for (unsigned i = 0; i < n; i++)
        if (lock->node_ends_us[i] != 0 && lock->owners[i] &&
            ++counts[lock->owners[i]->index] >= needed)
            return lock->owners[i];
    return NULL;
}

/* The holder of the lock now, and whether it was taken away from somebody. One server
 * does not tell whose it is: whoever moved when it came has it. */
static void note_holder(struct stage *stage, struct stage_lock *lock,
                        const struct stage_lock *before)
{
    struct actor *was = before->holder, *mover = stage->mover;

    /* The holder keeps the key until it goes: a renewal, a re-entry and a copy of a
     * command do not change hands. A key that comes is the mover's. */
    lock->holder = !lock->has_key             ? NULL
                   : stage->world.nodes_n > 1 ? holder_of_most(stage, lock)
                   : before->has_key          ? was
                                              : mover;
    if (stage->world.nodes_n == 1)
        lock->owners[0] = lock->holder;
    /* A release by its own holder is no loss, and neither is the end of a dead
     * one's lock. */
    if (was && lock->holder != was && mover != was && !was->is_dead) {
        /* The world's moves take locks away as well: they are troubles, and no fault of
         * an actor. */
        if (mover && page_believes(was->lane, lock->name))
            stage_broke(stage, STAGE_FOREIGN);
        if (stage_is_playing(was))
            stage_mark_loss(stage, was, !lock->has_key);
    }
    /* A lock stays taken late until its holder says something newer about it. */
    lock->taken_late =
        lock->has_key &&
        (stage->is_delivery ? !before->has_key || before->taken_late
                            : before->taken_late && mover != lock->holder);
    if (!before->has_key || lock->has_key)
        return;
    lock->freed_at = stage->moves_n;
    /* A failover has lost what the replica had not heard of. */
    if (!mover && stage->world.replica.is_promoted) {
        stage->lapses++;
        stage->losses++;
    }
}

/* A lease that has ended was nobody's before this move. False: stage->error. */
static bool look_at_keys(struct stage *stage, struct stage_lock before[])
{
    uint64_t now_us = stage_now_us(stage);

    for (struct stage_lock *lock = stage->locks;
         lock < stage->locks + stage->locks_n; lock++) {
        /* An end by time is told from a release by the clock: it must be taken off
         * before the keys are read, or the mover would seem to have freed it. */
        if (lock->has_key && lock->ends_us <= now_us) {
            stage->lapses++;
            lock->lapsed_us = now_us;
            stage_note_expiry(lock->holder);
            lock->has_key = false;
            lock->holder = lock->owners[0] = NULL;
        }
        before[lock - stage->locks] = *lock;
        lock->has_key = false;
        /* The keys that are there are all of them: what is in none of the lines
         * is gone. */
        memset(lock->node_ends_us, 0, sizeof(lock->node_ends_us));
    }
    for (const char *line = stage->look->keys; *line;
         line += strcspn(line, "\n"), line += *line == '\n')
        if (!take_line(stage, line, now_us))
            return false;
    for (unsigned i = 0; i < stage->locks_n; i++)
        note_holder(stage, &stage->locks[i], &before[i]);
    return true;
}

/* It goes on when a message has come. */
static bool reads_messages(const struct actor *actor)
{
    const struct page *page = actor->page;

    for (unsigned i = 0; i < page->threads_n && stage_is_playing(actor); i++)
        if (page->threads[i].wait == PAGE_SOCKET ||
            page->threads[i].wait == PAGE_MESSAGE)
            return true;
    return false;
}

/* The looks of the last schedule are true, but for messages, which are there for sure
 * when a server has answered a look. A subscriber that was told something may listen to
 * more, or to less. */
static bool look_at_servers(struct stage *stage)
{
    struct stage_past *past = &stage->past[stage->moves_n];
    bool is_known = past->has_look;

    /* A command that was posted may take the server a round or two: a look before that
     * would see it or not, by chance. */
    if (stage->posted)
        world_wait_for_servers(&stage->world);
    if (!stage->touched && !stage->posted)
        return true;
    /* A message that has come is noted at a look only (PAGE_LOOK): looks cannot be
     * taken from the last schedule while somebody might read. */
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        is_known = is_known && !reads_messages(each);
    past->has_look =
        is_known || world_look(&stage->world, &past->look, &stage->error);
    stage->look = &past->look;
    return past->has_look;
}

/* ---- what actors do and believe ------------------------------------------- */

uint64_t stage_keys_hash(const struct stage *stage)
{
    uint64_t hash = PAGE_HASH_SEED;
    unsigned tabs = 0;

    for (const char *each = stage->look->keys; *each; each++) {
        tabs = *each == '\n' ? 0 : tabs + (*each == '\t');
        /* The third column is the time that is left: it differs at each look, and
         * wakes nobody. */
        if (tabs != 2)
            hash = page_hash(hash, each, 1);
    }
    return hash;
}

/* A lease that has ended since the first of two came in is a reason by which it could
 * know; a lock that the server has lost is one by which no lock could. */
static enum stage_fault kind_of_two(const struct stage *stage)
{
    /* Some of several servers have answered before all of them forget. */
    bool lapsed = false, lost = stage->world.nodes_n > 1 && stage->losses > 0;

    for (const struct actor *each = stage->actors; each < stage->end; each++) {
        lapsed = lapsed || (each->was_inside && each->lapses != stage->lapses);
        lost = lost || (each->was_inside && each->losses != stage->losses);
    }
    return lost ? STAGE_TWO_LOST : lapsed ? STAGE_TWO_LATE : STAGE_TWO_INSIDE;
}

/* A bit is set for each actor that believes to have the same lock as another. */
static void note_insiders(struct stage *stage)
{
    unsigned insiders = 0;

    for (struct actor *each = stage->actors; each < stage->end; each++) {
        bool inside = stage_is_inside(stage, (unsigned)each->index);

        /* Each pair is looked at once, from the later actor's side. */
        for (const struct actor *other = stage->actors; other < each; other++)
            for (unsigned i = 0; i < PAGE_HOLDS_MAX && inside; i++) {
                const char *name = each->lane->holds[i].name;

                if (name[0] && stage_is_playing(other) &&
                    page_believes(other->lane, name))
                    insiders |= 1u << each->index | 1u << other->index;
            }
        /* Both numbers are those at the time when it came in: what ends later is known
         * to no grant. */
        if (inside && !each->was_inside) {
            each->lapses = stage->lapses;
            each->losses = stage->losses;
            each->loss[0] = '\0';
        }
        each->was_inside = inside;
    }
    if (insiders != 0)
        stage_broke(stage, kind_of_two(stage));
    /* The marks must hear of every move, also when two have stopped being inside: the
     * next time is news again. */
    stage_mark_insiders(stage, insiders, kind_of_two(stage));
}

/* Nobody has the lock that ACTOR wants, nor wants it, and may be before it in a queue. */
static bool is_alone(const struct actor *actor)
{
    const struct stage *stage = actor->stage;

    for (const struct actor *each = stage->actors; each < stage->end; each++)
        if (each != actor && stage_wants(each, actor->lane->wants))
            return false;
    return stage_is_free_for(actor);
}

/* A nap ends when the keys have changed since it began; a wish is in vain if its lock was
 * free all the time. */
static void note_waits(struct actor *actor)
{
    bool plays = stage_is_playing(actor);
    bool wishes = plays && actor->lane->wants[0] != '\0';

    /* An actor that is awake has no hash: its next nap begins with the keys of
     * that moment. */
    if (!plays || stage_main_thread(actor)->wait != PAGE_SLEEP)
        actor->asleep_hash = 0;
    else if (actor->asleep_hash == 0)
        actor->asleep_hash = stage_keys_hash(actor->stage);
    if (wishes)
        /* A wish begins as free if it is alone, and never becomes free again after
         * somebody was there. */
        actor->was_free =
            (actor->was_free || !actor->wishes) && is_alone(actor);
    actor->wishes = wishes;
}

/* Whether there ever were too few units for an order that is under way: then it
 * may be refused, whatever comes back later. */
static void note_stock(struct actor *actor)
{
    unsigned orders_n = actor->lane->orders_n;
    bool is_new = orders_n != actor->orders_n;

    /* The actor's last order is looked at once more after its program is over. */
    if (orders_n == 0 || (!stage_is_playing(actor) && !is_new))
        return;
    /* The order before must be judged by what it saw, because the new one begins anew. */
    if (is_new && stage_has_refused_with_stock(actor))
        stage_broke(actor->stage, STAGE_REFUSED);
    actor->orders_n = orders_n;
    actor->saw_short = (actor->saw_short && !is_new) ||
                       stage_units_for(actor) < actor->role.quantity;
}

/* Whether somebody sleeps until a message comes, and nobody has one. */
static bool has_sleepers_only(const struct stage *stage)
{
    bool sleeps = false;

    for (const struct actor *each = stage->actors; each < stage->end; each++) {
        if (!stage_is_playing(each))
            continue;
        sleeps = sleeps || stage_main_thread(each)->wait == PAGE_TIMED;
        for (unsigned i = 0; i < each->page->threads_n; i++)
            if (each->page->threads[i].wait == PAGE_MESSAGE)
                return false;
    }
    return sleeps;
}

bool stage_settle(struct stage *stage)
{
    struct stage_lock before[STAGE_LOCKS_MAX];
    bool had_key = stage->locks[0].has_key;

    memcpy(before, stage->locks, sizeof(before));
    if (!look_at_servers(stage))
        return false;
    if (stage->touched && !look_at_keys(stage, before))
        return false;
    /* The rules compare lanes as this move has left them: they must come before looks,
     * in which actors go on. */
    stage_check_locks(stage, before);
    /* Something to read was shown as such at a look only. */
    for (struct actor *each = stage->actors; each < stage->end; each++)
        if (reads_messages(each) &&
            (stage->touched || stage_moves_in(stage, each)) &&
            !stage_hand(each, PAGE_LOOK, NULL, PAGE_OK))
            return false;
    /* A lock that went with its time or with a server is nobody's to tell of; and in a
     * process that died nobody is left to. */
    if (had_key && !stage->locks[0].has_key && stage->mover &&
        stage->world.nodes_n == 1 && stage->kind != '!' &&
        has_sleepers_only(stage))
        stage_mark_silence(stage);
    stage_note_tokens_in_keys(stage);
    note_insiders(stage);
    /* The ledger is read before waits and stocks are noted: these go by its units. */
    if (!stage_read_ledger(stage))
        return false;
    for (struct actor *each = stage->actors; each < stage->end; each++) {
        note_waits(each);
        note_stock(each);
    }
    stage_check_sleepers(stage);
    return true;
}

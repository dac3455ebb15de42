/*
 * The settling after each turn: who has the lock now, by Redis and by what the actors
 * believe; and what has come for whom.
 */
#include <stdio.h>
#include <string.h>

#include "server/lab/stage/stage_private.h"

bool stage_is_lock(const char *line)
{
    size_t len = strcspn(line, "\t\n");

    return len > 7 && len < STAGE_NAME_BYTES &&
           strncmp(line, "lock:{", 6) == 0 && line[len - 1] == '}';
}

static struct stage_lock *find_lock(struct stage *stage, const char *name)
{
    struct stage_lock *lock = stage->locks;
    size_t len = strcspn(name, "\t");

    while (lock < stage->locks + stage->locks_n &&
           (strlen(lock->name) != len || strncmp(lock->name, name, len) != 0))
        lock++;
    if (lock < stage->locks + stage->locks_n)
        return lock;
    if (stage->locks_n == STAGE_LOCKS_MAX)
        return NULL;
    memcpy(lock->name, name, len);
    stage->locks_n++;
    return lock;
}

/* The actor whose id is in the value of a line of the keys; NULL = nobody. */
static struct actor *owner_in(struct stage *stage, const char *line)
{
    size_t len = strcspn(line, "\n");

    for (struct actor *each = stage->actors; each < stage->end; each++) {
        const char *owner = each->lane->owner;

        if (owner[0] && memmem(line, len, owner, strlen(owner)))
            return each;
    }
    return NULL;
}

/* The actor that has enough of the servers. */
static struct actor *holder_of(const struct stage *stage,
                               const struct stage_lock *lock)
{
    unsigned n = stage->world.nodes_n;
    unsigned needed = strcmp(stage->scene.lock, "multi") == 0 ? n : n / 2 + 1;
    unsigned counts[STAGE_ACTORS_MAX] = {0};

    for (unsigned i = 0; i < n; i++)
        if (lock->node_ends_us[i] != 0 && lock->owners[i] &&
            ++counts[lock->owners[i]->index] >= needed)
            return lock->owners[i];
    return NULL;
}

/* The holder of the lock now, and whether it was taken away from somebody. BEFORE says
 * what was before: that of one server does not tell whose it is. */
static void look_at_lock(struct stage *stage, struct stage_lock *lock,
                         const struct stage_lock *before, struct actor *mover)
{
    struct actor *was = before->holder;

    lock->holder = !lock->has_key             ? NULL
                   : stage->world.nodes_n > 1 ? holder_of(stage, lock)
                   : !before->has_key         ? mover
                                              : was;
    if (was && lock->holder != was && mover != was && !was->is_dead) {
        if (mover && page_believes(was->lane, lock->name))
            stage_broke(stage, STAGE_FOREIGN);
        if (stage_is_playing(was))
            stage_mark_loss(stage, mover, was, !lock->has_key);
    }
    lock->taken_late =
        lock->has_key &&
        (stage->is_delivery ? !before->has_key || before->taken_late
                            : before->taken_late && mover != lock->holder);
}

/* A line: "lock:{1:0}\thash\t10000\t..."; of several servers with "1/" before. */
static void take_line(struct stage *stage, const char *line, uint64_t now_us)
{
    struct stage_lock *lock;
    unsigned node = 0;
    long long left_ms;

    if (stage->world.nodes_n > 1) {
        node = (unsigned)(line[0] - '1');
        line += 2;
    }
    lock = stage_is_lock(line) ? find_lock(stage, line) : NULL;
    if (!lock || sscanf(line, "%*s %*s %lld", &left_ms) != 1)
        return;
    lock->node_ends_us[node] =
        left_ms < 0 ? PAGE_NEVER : now_us + (uint64_t)left_ms * 1000;
    if (stage->world.nodes_n > 1)
        lock->owners[node] = owner_in(stage, line);
    if (!lock->has_key || lock->node_ends_us[node] > lock->ends_us)
        lock->ends_us = lock->node_ends_us[node];
    lock->has_key = true;
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

    if (!stage->touched && !stage->posted)
        return true;
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        is_known = is_known && !reads_messages(each);
    past->has_look = is_known || world_look(&stage->world, &past->look);
    stage->look = &past->look;
    return past->has_look || fail_with(&stage->error, "redis-server has died");
}

static void look_at_keys(struct stage *stage, struct actor *mover)
{
    uint64_t now_us = stage_now_us(stage);
    struct stage_lock before[STAGE_LOCKS_MAX];

    memcpy(before, stage->locks, sizeof(before));
    for (unsigned i = 0; i < STAGE_LOCKS_MAX; i++) {
        struct stage_lock *lock = &stage->locks[i];

        if (lock->has_key && lock->ends_us <= now_us) {
            stage->lapses++;
            lock->lapsed_us = now_us;
            stage_note_expiry(lock->holder);
            before[i].holder = NULL;
            before[i].has_key = false;
        }
        lock->has_key = false;
        memset(lock->node_ends_us, 0, sizeof(lock->node_ends_us));
    }
    for (const char *line = stage->look->keys; *line;
         line += strcspn(line, "\n"), line += *line == '\n')
        take_line(stage, line, now_us);
    for (unsigned i = 0; i < stage->locks_n; i++) {
        if (!mover && stage->world.replica.is_promoted && before[i].has_key &&
            !stage->locks[i].has_key) {
            stage->lapses++;
            stage->losses++;
        }
        look_at_lock(stage, &stage->locks[i], &before[i], mover);
        if (before[i].has_key && !stage->locks[i].has_key)
            stage->locks[i].freed_at = stage->moves_n;
    }
    stage_check_locks(stage, before, mover);
}

uint64_t stage_keys_hash(const struct stage *stage)
{
    uint64_t hash = PAGE_HASH_SEED;
    unsigned tabs = 0;

    for (const char *each = stage->look->keys; *each; each++) {
        tabs = *each == '\n' ? 0 : tabs + (*each == '\t');
        if (tabs != 2)
            hash = page_hash(hash, each, 1);
    }
    return hash;
}

static void note_naps(struct stage *stage)
{
    for (struct actor *each = stage->actors; each < stage->end; each++)
        if (!stage_is_playing(each) ||
            stage_main_thread(each)->wait != PAGE_SLEEP)
            each->asleep_hash = 0;
        else if (each->asleep_hash == 0)
            each->asleep_hash = stage_keys_hash(stage);
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

        for (const struct actor *other = stage->actors; other < each; other++)
            for (unsigned i = 0; i < PAGE_HOLDS_MAX && inside; i++) {
                const char *name = each->lane->holds[i].name;

                if (name[0] && stage_is_playing(other) &&
                    page_believes(other->lane, name))
                    insiders |= 1u << each->index | 1u << other->index;
            }
        if (inside && !each->was_inside) {
            each->lapses = stage->lapses;
            each->losses = stage->losses;
            each->loss[0] = '\0';
        }
        each->was_inside = inside;
    }
    if (insiders != 0)
        stage_broke(stage, kind_of_two(stage));
    stage_mark_insiders(stage, insiders, kind_of_two(stage));
}

/* Nobody has the lock that ACTOR wants, nor wants it, and may be before it in a queue. */
static bool is_alone(const struct actor *actor)
{
    const struct stage *stage = actor->stage;
    const char *wants = actor->lane->wants;

    for (const struct actor *each = stage->actors; each < stage->end; each++)
        if (each != actor && stage_is_playing(each) &&
            strcmp(each->lane->wants, wants) == 0)
            return false;
    return stage_is_free(stage, wants);
}

static void note_wishes(struct stage *stage)
{
    for (struct actor *each = stage->actors; each < stage->end; each++) {
        bool wishes = stage_is_playing(each) && each->lane->wants[0] != '\0';

        if (wishes)
            each->was_free =
                (each->was_free || !each->wishes) && is_alone(each);
        each->wishes = wishes;
    }
}

/* Whether there ever were too few units for an order that is under way: then it
 * may be refused, whatever comes back later. */
static void note_stock(struct stage *stage)
{
    bool may_rise = false; /* orders alone do not give any back */

    for (unsigned i = 0; i < stage->scene.buyers; i++)
        may_rise = may_rise || stage->scene.roles[i].program;
    for (struct actor *each = stage->actors; may_rise && each < stage->end;
         each++) {
        unsigned orders_n = each->lane->orders_n;

        if (orders_n == 0 ||
            (!stage_is_playing(each) && orders_n == each->orders_n))
            continue;
        if (each->orders_n != orders_n)
            each->saw_short = false;
        each->orders_n = orders_n;
        if (*stage->units < each->role.quantity)
            each->saw_short = true;
    }
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

bool stage_settle(struct stage *stage, struct actor *mover)
{
    bool had_key = stage->locks[0].has_key;

    if (stage->posted)
        world_wait_for_servers(&stage->world);
    if (!look_at_servers(stage))
        return false;
    if (stage->touched)
        look_at_keys(stage, mover);
    else
        stage_check_locks(stage, stage->locks, mover);
    /* Something to read was shown as such at a look only. */
    for (struct actor *each = stage->actors; each < stage->end; each++)
        if (reads_messages(each) &&
            (stage->touched || stage_shares_process(mover, each)) &&
            !stage_hand(each, PAGE_LOOK, NULL, PAGE_OK))
            return false;
    if (had_key && !stage->locks[0].has_key && mover &&
        stage->world.nodes_n == 1 && stage->kind != '!' &&
        has_sleepers_only(stage))
        stage_mark_silence(stage, mover);
    stage_note_tokens_in_keys(stage);
    note_naps(stage);
    note_insiders(stage);
    note_wishes(stage);
    if (!stage_read_ledger(stage))
        return false;
    note_stock(stage);
    stage_check_sleepers(stage);
    return true;
}

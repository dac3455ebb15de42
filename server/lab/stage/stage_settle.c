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
    *lock = (struct stage_lock){.setter = -1};
    memcpy(lock->name, name, len);
    stage->locks_n++;
    return lock;
}

struct stage_lock *stage_next_lease(struct stage *stage)
{
    struct stage_lock *next = NULL;

    for (unsigned i = 0; i < stage->locks_n; i++)
        if (stage->locks[i].has_key && stage->locks[i].ends_us != PAGE_NEVER &&
            (!next || stage->locks[i].ends_us < next->ends_us))
            next = &stage->locks[i];
    return next;
}

bool stage_believes(const struct stage *stage, unsigned actor, const char *name)
{
    return page_believes(stage_lane(stage, actor), name);
}

uint64_t stage_node_lease(const struct stage *stage, unsigned node)
{
    uint64_t next_us = PAGE_NEVER;

    for (unsigned i = 0; i < stage->locks_n; i++) {
        uint64_t ends_us = stage->locks[i].node_ends_us[node];

        if (ends_us != 0 && ends_us < next_us)
            next_us = ends_us;
    }
    return next_us == PAGE_NEVER ? 0 : next_us;
}

/* The actor whose id is in the value of a line of the keys; -1 = nobody. */
static int owner_in(const struct stage *stage, const char *line)
{
    size_t len = strcspn(line, "\n");

    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        const char *owner = stage_lane(stage, i)->owner;

        if (owner[0] && memmem(line, len, owner, strlen(owner)))
            return (int)i;
    }
    return -1;
}

/* The actor that has enough of the servers. */
static int holder_of(const struct stage *stage, const struct stage_lock *lock)
{
    unsigned n = stage->world.nodes_n;
    unsigned needed = strcmp(stage->scene.lock, "multi") == 0 ? n : n / 2 + 1;
    unsigned counts[STAGE_ACTORS_MAX] = {0};

    for (unsigned i = 0; i < n; i++)
        if (lock->node_ends_us[i] != 0 && lock->owners[i] >= 0 &&
            ++counts[lock->owners[i]] >= needed)
            return lock->owners[i];
    return -1;
}

/* The holder of the lock now, and whether it was taken away from somebody. BEFORE says
 * what was before: that of one server does not tell whose it is. */
static void look_at_lock(struct stage *stage, struct stage_lock *lock,
                         const struct stage_lock *before, int mover)
{
    int holder = before->setter;

    if (!lock->has_key)
        holder = -1;
    else if (stage->world.nodes_n > 1)
        holder = holder_of(stage, lock);
    else if (!before->has_key)
        holder = mover;
    if (before->setter >= 0 && holder != before->setter &&
        mover != before->setter && !stage->parts[before->setter].is_dead) {
        if (mover >= 0 &&
            stage_believes(stage, (unsigned)before->setter, lock->name))
            stage_broke(stage, STAGE_FOREIGN);
        if (stage_is_playing(stage, (unsigned)before->setter))
            stage_mark_loss(stage, mover, before->setter, !lock->has_key);
    }
    lock->setter = holder;
    lock->taken_late =
        lock->has_key &&
        (stage->is_delivery ? !before->has_key || before->taken_late
                            : before->taken_late && mover != holder);
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

static bool reads_messages(const struct stage *stage, unsigned actor)
{
    const struct page *page = stage_page(stage, actor);

    for (unsigned i = 0; i < page->threads_n; i++)
        if (page->threads[i].wait == PAGE_SOCKET ||
            page->threads[i].wait == PAGE_MESSAGE)
            return true;
    return false;
}

static bool look_at_keys(struct stage *stage, int mover)
{
    uint64_t now_us = atomic_load(&stage->board->now_us);
    struct stage_lock before[STAGE_LOCKS_MAX];

    struct stage_past *past = &stage->past[stage->moves_n];
    bool has_readers = false;

    /* Messages are there for sure when a server has answered a look. */
    for (unsigned i = 0; i < stage->scene.buyers; i++)
        has_readers = has_readers ||
                      (stage_is_playing(stage, i) && reads_messages(stage, i));
    /* A subscriber that was told something may listen to more, or to less. */
    if ((stage->touched || stage->posted) && past->has_look && !has_readers) {
        stage->look = past->look;
    } else if (stage->touched || stage->posted) {
        past->has_look = world_look(&stage->world, &stage->look);
        past->look = stage->look;
        if (!past->has_look)
            return fail_with(&stage->error, "redis-server has died");
    }
    if (!stage->touched) {
        stage_check_locks(stage, stage->locks, mover);
        return true;
    }
    for (unsigned i = 0; i < STAGE_LOCKS_MAX; i++) {
        struct stage_lock *lock = &stage->locks[i];

        before[i] =
            i < stage->locks_n ? *lock : (struct stage_lock){.setter = -1};
        if (before[i].has_key && before[i].ends_us <= now_us) {
            stage->lapses++;
            lock->lapsed_us = now_us;
            stage_note_expiry(stage, before[i].setter);
            before[i].setter = -1;
            before[i].has_key = false;
        }
        lock->has_key = false;
        memset(lock->node_ends_us, 0, sizeof(lock->node_ends_us));
    }
    for (const char *line = stage->look.keys; *line;
         line += strcspn(line, "\n"), line += *line == '\n')
        take_line(stage, line, now_us);
    for (unsigned i = 0; i < stage->locks_n; i++) {
        if (mover < 0 && stage->world.replica.is_promoted &&
            before[i].has_key && !stage->locks[i].has_key) {
            stage->lapses++;
            stage->losses++;
        }
        look_at_lock(stage, &stage->locks[i], &before[i], mover);
        if (before[i].has_key && !stage->locks[i].has_key)
            stage->locks[i].freed_at = stage->moves_n;
    }
    stage_check_locks(stage, before, mover);
    return true;
}

uint64_t stage_keys_hash(const struct stage *stage)
{
    uint64_t hash = PAGE_HASH_SEED;
    unsigned tabs = 0;

    for (const char *each = stage->look.keys; *each; each++) {
        tabs = *each == '\n' ? 0 : tabs + (*each == '\t');
        if (tabs != 2)
            hash = page_hash(hash, each, 1);
    }
    return hash;
}

static void note_naps(struct stage *stage)
{
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        struct stage_part *part = &stage->parts[i];

        if (!stage_is_playing(stage, i) ||
            stage_main_thread(stage, i)->wait != PAGE_SLEEP)
            part->asleep_hash = 0;
        else if (part->asleep_hash == 0)
            part->asleep_hash = stage_keys_hash(stage);
    }
}

/* A lease that has ended since the first of two came in is a reason by which it could
 * know; a lock that the server has lost is one by which no lock could. */
static enum stage_fault kind_of_two(const struct stage *stage)
{
    /* Some of several servers have answered before all of them forget. */
    bool lapsed = false, lost = stage->world.nodes_n > 1 && stage->losses > 0;

    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        const struct stage_part *part = &stage->parts[i];

        lapsed = lapsed || (part->was_inside && part->lapses != stage->lapses);
        lost = lost || (part->was_inside && part->losses != stage->losses);
    }
    return lost ? STAGE_TWO_LOST : lapsed ? STAGE_TWO_LATE : STAGE_TWO_INSIDE;
}

/* A bit is set for each actor that believes to have the same lock as another. */
static void note_insiders(struct stage *stage)
{
    unsigned insiders = 0;

    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        struct stage_part *part = &stage->parts[i];
        bool inside = stage_is_inside(stage, i);

        for (unsigned j = 0; j < i && inside; j++)
            for (unsigned k = 0; k < PAGE_HOLDS_MAX; k++) {
                const struct page_hold *hold = &stage_lane(stage, i)->holds[k];

                if (hold->n > 0 && stage_is_playing(stage, j) &&
                    stage_believes(stage, j, hold->name))
                    insiders |= 1u << i | 1u << j;
            }
        if (inside && !part->was_inside) {
            part->lapses = stage->lapses;
            part->losses = stage->losses;
            part->loss[0] = '\0';
        }
        part->was_inside = inside;
    }
    if (insiders != 0)
        stage_broke(stage, kind_of_two(stage));
    stage_mark_insiders(stage, insiders, kind_of_two(stage));
}

/* Nobody has the lock that ACTOR wants, nor wants it, and may be before it in a queue. */
static bool is_alone(const struct stage *stage, unsigned actor)
{
    const char *wants = stage_lane(stage, actor)->wants;

    for (unsigned i = 0; i < stage->scene.buyers; i++)
        if (i != actor && stage_is_playing(stage, i) &&
            strcmp(stage_lane(stage, i)->wants, wants) == 0)
            return false;
    return stage_is_free(stage, wants);
}

static void note_wishes(struct stage *stage)
{
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        struct stage_part *part = &stage->parts[i];
        const char *wants = stage_lane(stage, i)->wants;
        bool wishes = stage_is_playing(stage, i) && wants[0] != '\0';

        if (wishes)
            part->was_free =
                (part->was_free || !part->wishes) && is_alone(stage, i);
        part->wishes = wishes;
    }
}

/* Whether there ever were too few units for an order that is under way: then it
 * may be refused, whatever comes back later. */
static void note_stock(struct stage *stage)
{
    struct stage_past *past = &stage->past[stage->moves_n];
    bool may_rise = false; /* orders alone do not give any back */

    for (unsigned i = 0; i < stage->scene.buyers; i++)
        may_rise = may_rise || stage->scene.roles[i].program;
    for (unsigned i = 0; i < stage->scene.buyers && may_rise; i++) {
        struct stage_part *part = &stage->parts[i];
        unsigned orders_n = stage_lane(stage, i)->orders_n;

        if (orders_n == 0 ||
            (!stage_is_playing(stage, i) && orders_n == part->orders_n))
            continue;
        if (stage->counted != stage->written) {
            if (!past->has_units)
                past->units = stage_units_left(stage);
            past->has_units = true;
            stage->units = past->units;
            stage->counted = stage->written;
        }
        if (part->orders_n != orders_n)
            part->saw_short = false;
        part->orders_n = orders_n;
        if (stage->units < stage_role(&stage->scene, i).quantity)
            part->saw_short = true;
    }
}

/* Whether somebody sleeps until a message comes, and nobody has one. */
static bool has_sleepers_only(const struct stage *stage)
{
    bool sleeps = false;

    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        const struct page *page = stage_page(stage, i);

        if (!stage_is_playing(stage, i))
            continue;
        sleeps = sleeps || stage_main_thread(stage, i)->wait == PAGE_TIMED;
        for (unsigned j = 0; j < page->threads_n; j++)
            if (page->threads[j].wait == PAGE_MESSAGE)
                return false;
    }
    return sleeps;
}

bool stage_settle(struct stage *stage, int mover)
{
    bool had_key = stage->locks[0].has_key;

    if (stage->posted)
        world_wait_for_servers(&stage->world);
    if (!look_at_keys(stage, mover))
        return false;
    /* Something to read was shown as such at a look only. */
    for (unsigned i = 0; i < stage->scene.buyers; i++)
        if (stage_is_playing(stage, i) && reads_messages(stage, i) &&
            (stage->touched || stage_shares_process(stage, mover, i)) &&
            !stage_hand(stage, i, PAGE_LOOK, 0, PAGE_OK))
            return false;
    if (had_key && !stage->locks[0].has_key && mover >= 0 &&
        stage->world.nodes_n == 1 && stage->kind != '!' &&
        has_sleepers_only(stage))
        stage_mark_silence(stage, mover);
    stage_note_token_in_keys(stage);
    note_naps(stage);
    note_insiders(stage);
    note_wishes(stage);
    note_stock(stage);
    stage_check_sleepers(stage);
    return true;
}

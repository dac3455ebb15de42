/*
 * What follows each turn: who has the lock now, by Redis and by what the actors
 * believe; and what has come for whom.
 */
#include <stdio.h>
#include <string.h>

#include "server/lab/stage/stage_private.h"
#include "server/order/lock_tasks.h"

/* The line of KEYS that is the lock's own; NULL: it is not there. */
static const char *find_key(const char *keys)
{
    char name[LOCK_NAME_BYTES + 1];
    const char *line = keys;
    size_t len;

    lock_name(1, 0, name);
    len = strlen(name);
    name[len++] = '\t';
    while (line && strncmp(line, name, len) != 0) {
        line = strchr(line, '\n');
        if (line)
            line++;
    }
    return line;
}

/* Who has the key now, and whether it was taken away from somebody. */
static bool look_at_keys(struct stage *stage, int mover)
{
    uint64_t now_us = atomic_load(&stage->board->now_us);
    bool had_key = stage->has_key;
    bool has_ended = had_key && stage->ends_us <= now_us;
    const char *line;
    long long left_ms = 0;

    if (!peek_keys(stage->world.peek, stage->keys, sizeof(stage->keys))) {
        (void)snprintf(stage->error, sizeof(stage->error),
                       "redis-server has died");
        return false;
    }
    line = find_key(stage->keys);
    stage->has_key = line != NULL;
    if (has_ended) {
        stage->lapses++;
        stage->setter = -1;
        had_key = false;
    }
    if (line && sscanf(line, "%*s %*s %lld", &left_ms) == 1)
        stage->ends_us =
            left_ms < 0 ? PAGE_NEVER : now_us + (uint64_t)left_ms * 1000;
    if (!had_key && stage->has_key)
        stage->setter = mover;
    if (had_key && !stage->has_key) {
        if (stage->setter >= 0 && mover >= 0 && mover != stage->setter &&
            !stage->parts[stage->setter].is_dead &&
            stage->board->pages[stage->setter].inside)
            stage->faults |= 1u << STAGE_FOREIGN;
        stage->setter = -1;
    }
    return true;
}

uint64_t stage_keys_hash(const struct stage *stage)
{
    uint64_t hash = STAGE_HASH_SEED;
    unsigned tabs = 0;

    for (const char *each = stage->keys; *each; each++) {
        tabs = *each == '\n' ? 0 : tabs + (*each == '\t');
        if (tabs != 2)
            hash = stage_hash_bytes(hash, each, 1);
    }
    return hash;
}

static void note_naps(struct stage *stage)
{
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        struct stage_part *part = &stage->parts[i];
        bool naps = stage_is_playing(stage, i) &&
                    stage->board->pages[i].threads[0].wait == PAGE_SLEEP;

        if (naps && !part->is_asleep)
            part->asleep_hash = stage_keys_hash(stage);
        part->is_asleep = naps;
    }
}

/* Two that believe to be alone, and no lease has ended since the first of them
 * came in, by which it could know. */
static void note_insiders(struct stage *stage)
{
    unsigned n = 0;
    bool lapsed = false;

    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        struct stage_part *part = &stage->parts[i];
        bool inside =
            stage_is_playing(stage, i) && stage->board->pages[i].inside;

        if (inside && !part->was_inside)
            part->lapses = stage->lapses;
        part->was_inside = inside;
        n += inside;
        lapsed = lapsed || (inside && part->lapses != stage->lapses);
    }
    if (n > 1 && !lapsed)
        stage->faults |= 1u << STAGE_TWO_INSIDE;
}

static bool reads_messages(const struct stage *stage, unsigned actor)
{
    const struct page *page = &stage->board->pages[actor];

    for (unsigned i = 0; i < page->threads_n; i++)
        if (page->threads[i].wait == PAGE_SOCKET ||
            page->threads[i].wait == PAGE_MESSAGE)
            return true;
    return false;
}

/*
 * What nobody waits for is done all the same before we go on. The server takes up
 * a new connection in one round of its loop, reads from it in the next, and has
 * written what came of it when it has read from us in the one after that.
 */
void stage_wait_for_server(const struct stage *stage)
{
    char keys[STAGE_REDIS_BYTES_MAX];

    for (int i = 0; i < 2; i++)
        (void)peek_keys(stage->world.peek, keys, sizeof(keys));
}

bool stage_settle(struct stage *stage, int mover)
{
    if (stage->posted)
        stage_wait_for_server(stage);
    if (!look_at_keys(stage, mover))
        return false;
    for (unsigned i = 0; i < stage->scene.buyers; i++)
        if (stage_is_playing(stage, i) && reads_messages(stage, i) &&
            !stage_hand(stage, i, PAGE_LOOK, 0, PAGE_OK))
            return false;
    note_naps(stage);
    note_insiders(stage);
    return true;
}

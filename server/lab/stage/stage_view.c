/* The stage as it can be seen: stage.h. */
#include <stdio.h>
#include <string.h>

#include "server/lab/stage/stage_private.h"

unsigned stage_lapses(const struct stage *stage)
{
    return stage->lapses;
}

unsigned stage_held(const struct stage *stage, unsigned actor)
{
    const struct page_hold *holds = stage_lane(stage, actor)->holds;
    unsigned n = 0;

    for (unsigned i = 0; i < PAGE_HOLDS_MAX; i++)
        n += holds[i].n;
    return n;
}

bool stage_is_inside(const struct stage *stage, unsigned actor)
{
    return stage_is_playing(stage, actor) && stage_held(stage, actor) > 0;
}

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
    return page_hash(hash, &number, sizeof(number));
}

/* Among those that wait, whatever number it was given. */
static unsigned rank_of(const struct stage *stage, unsigned actor)
{
    const struct stage_part *part = &stage->parts[actor];
    unsigned rank = 0;

    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        const struct stage_part *other = &stage->parts[i];

        rank += other->place != 0 && other->place <= part->place;
        rank += other->place != 0 && other->sure_place <= part->place ? 8 : 0;
        rank +=
            part->place != 0 && other->sure_place <= part->sure_place ? 64 : 0;
    }
    return rank;
}

/* An actor that is done or dead does nothing any more: how it ended is left of it.
 * But its process may live on, and renew what it holds, or be another actor's. */
static uint64_t hash_actor(const struct stage *stage, unsigned actor,
                           uint64_t hash)
{
    const struct stage_part *part = &stage->parts[actor];
    const struct page *page = stage_page(stage, actor);
    const struct page_lane *lane = stage_lane(stage, actor);
    int committer = stage_committer_thread(stage, actor);

    hash = hash_number(hash, part->is_dead);
    hash = hash_number(hash, part->has_begun);
    hash = hash_number(hash, part->place ? part->asked_us : 0);
    hash = hash_number(hash, stage_may_be_woken(stage, actor));
    if (part->is_dead || !part->has_begun)
        return hash;
    hash = hash_number(hash, lane->phase);
    hash = hash_number(hash, lane->unsure);
    hash = hash_number(hash, lane->cut_off);
    hash = hash_number(hash, lane->is_wrong);
    hash = hash_number(hash, part->saw_short);
    hash = hash_number(hash, part->was_free);
    hash = hash_number(hash, lane->answered ? 1 + (uint64_t)lane->outcome : 0);
    hash = hash_number(hash, lane->of_key);
    hash = hash_number(hash, lane->placed_n);
    hash = hash_number(hash,
                       committer >= 0 ? page->threads[committer].until_us : 0);
    if (!stage_is_playing(stage, actor) && stage_held(stage, actor) == 0 &&
        !stage->scene.one_process)
        return hash;
    hash = hash_number(hash, page->heard);
    hash = hash_number(hash, part->hears_nothing);
    hash = hash_number(hash, rank_of(stage, actor));
    hash = hash_number(hash, part->place ? part->steady_us : 0);
    hash = hash_number(hash, part->is_asleep ? part->asleep_hash : 0);
    hash = hash_number(hash, part->was_inside && part->lapses != stage->lapses);
    for (unsigned i = 0; i < page->threads_n; i++) {
        hash = hash_number(hash, page->threads[i].wait);
        hash = hash_number(hash, page->threads[i].until_us);
        hash = hash_number(hash, page->threads[i].pending);
    }
    return hash;
}

static uint64_t hash_late(const struct stage_late *late, uint64_t hash)
{
    const char *word = late->step.words;

    hash = hash_number(hash, late->actor);
    hash = hash_number(hash, late->newer > 0);
    hash = hash_number(hash, late->step.node);
    for (unsigned i = 0; i < late->step.words_n; i++) {
        hash = stage_hash_text(hash, word);
        word += strlen(word) + 1;
    }
    return hash;
}

uint64_t stage_hash(struct stage *stage)
{
    const struct world *world = &stage->world;
    uint64_t hash = stage_hash_text(PAGE_HASH_SEED, stage->look.keys);

    hash = stage_hash_text(hash, stage->look.listeners);
    hash = hash_number(hash, atomic_load(&stage->board->now_us));
    hash =
        page_hash(hash, stage->board->ahead_us, sizeof(stage->board->ahead_us));
    hash = page_hash(hash, world->restarted_us, sizeof(world->restarted_us));
    hash = hash_number(hash, world->replica.is_linked);
    hash = hash_number(hash, world->replica.is_promoted);
    hash = hash_number(hash, stage->written);
    hash = hash_number(hash, stage->verdict.faults);
    hash = hash_number(hash, stage->unfaithful);
    hash = hash_number(hash, stage->is_disturbed);
    hash = hash_number(hash, stage->cut_short);
    hash = hash_number(hash, stage->has_ghost);
    hash = hash_number(hash, stage->lapses > 0);
    hash = hash_number(hash, stage->losses > 0);
    hash = hash_number(hash, stage->restarts > 0);
    for (unsigned i = 0; i < stage->locks_n; i++) {
        hash = stage_hash_text(hash, stage->locks[i].name);
        hash = page_hash(hash, &stage->locks[i].setter, sizeof(int));
        hash = hash_number(hash, stage->locks[i].taken_late);
        hash = hash_number(hash, stage->locks[i].token);
        hash = hash_number(hash, (uint64_t)stage->locks[i].token_by);
        hash = hash_number(hash, stage->locks[i].token_is_over);
    }
    for (unsigned i = 0; i < stage->late_n; i++)
        hash = hash_late(&stage->late[i], hash);
    for (unsigned i = 0; i < stage->scene.buyers; i++)
        hash = hash_actor(stage, i, hash);
    return hash;
}

/* ---- what can be seen --------------------------------------------------- */

static void tell_next(const struct stage *stage, unsigned actor,
                      struct stage_actor_view *view)
{
    const struct page_thread *first = stage_main_thread(stage, actor);
    const char *text = "";

    if (view->is_dead)
        text = "dead";
    else if (!stage->parts[actor].has_begun)
        text = "its program begins";
    else if (view->is_done)
        text = "done";
    else if (first->wait == PAGE_STEP && first->is_sql)
        text = first->words;
    else if (first->wait == PAGE_STEP)
        text = first->step;
    else if (first->wait == PAGE_SLEEP)
        text = "naps, then checks again";
    else
        text = "waits";
    (void)snprintf(view->next, sizeof(view->next), "%.199s", text);
    stage_name_tokens(stage, view->next);
}

void stage_name_owners(const struct stage *stage, char text[])
{
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        const char *owner = stage_lane(stage, i)->owner;
        size_t len = strlen(owner);
        char *at = text;

        while (len > 0 && (at = strstr(at, owner)) != NULL) {
            *at = (char)('a' + (int)i);
            memmove(at + 1, at + len, strlen(at + len) + 1);
            at++;
        }
    }
}

static struct stage_lock_view look_at(const struct stage_lock *lock,
                                      uint64_t now_us)
{
    struct stage_lock_view view = {.holder = -1, .ttl_ms = -2};

    memcpy(view.name, lock->name, sizeof(view.name));
    if (!lock->has_key)
        return view;
    view.holder = lock->setter;
    view.ttl_ms = lock->ends_us == PAGE_NEVER
                      ? -1
                      : (int64_t)(lock->ends_us - now_us) / 1000;
    return view;
}

void stage_look(struct stage *stage, struct stage_view *view)
{
    uint64_t now_us = atomic_load(&stage->board->now_us);

    *view = (struct stage_view){.now_us = now_us - WORLD_BEGINS_US,
                                .late_n = stage->late_n,
                                .locks_n = stage->locks_n,
                                .over = stage_is_over(stage)};
    for (unsigned i = 0; i < stage->locks_n; i++)
        view->locks[i] = look_at(&stage->locks[i], now_us);
    memcpy(view->redis, stage->look.keys, sizeof(view->redis));
    stage_name_owners(stage, view->redis);
    stage_name_tokens(stage, view->redis);
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        struct stage_actor_view *actor = &view->actors[i];
        const struct page_lane *lane = stage_lane(stage, i);

        actor->is_dead = stage->parts[i].is_dead;
        actor->is_done = !actor->is_dead && lane->phase == PAGE_DONE;
        actor->is_inside = stage_is_inside(stage, i);
        actor->answered = stage->parts[i].has_begun && lane->answered;
        actor->outcome = lane->outcome;
        tell_next(stage, i, actor);
    }
    if (stage_read_ledger(stage)) {
        view->stock = stage_units_left(stage);
        view->sold = stage->audit.sold;
        view->orders = stage->audit.orders;
    }
}

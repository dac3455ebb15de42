/* Which moves there are: what each actor, the world and its servers could do next.
 * See stage.h. */
#include <string.h>

#include "server/lab/stage/stage_private.h"

static bool is_keeper(const struct page_thread *thread)
{
    return strcmp(thread->name, "dlock-watchdog") == 0 ||
           strcmp(thread->name, "dlock-guard") == 0;
}

/* Looking again is worth it if something is there that was not, or if nobody
 * knows what is. */
static bool may_look(const struct stage *stage, unsigned actor)
{
    const struct stage_part *part = &stage->parts[actor];

    return part->hears_nothing || part->asleep_hash != stage_keys_hash(stage);
}

static bool opens(const struct page_thread *thread)
{
    return thread->wait == PAGE_STEP && thread->is_sql && thread->is_write &&
           (thread->part == PAGE_WHOLE || thread->part == PAGE_OPENS);
}

/* Another actor is in a transaction, and nobody else can begin one. */
static bool is_kept_out(const struct stage *stage, unsigned actor)
{
    for (unsigned i = 0; i < stage->scene.buyers; i++)
        if (!stage->parts[i].is_dead &&
            stage_process(stage, i) != stage_process(stage, actor) &&
            stage_page(stage, i)->in_transaction)
            return true;
    return false;
}

/* From FROM on. Helpers are anybody's who is in their process. */
static int find_step(const struct stage *stage, unsigned actor, unsigned from)
{
    const struct page *page = stage_page(stage, actor);
    unsigned own = stage_lane(stage, actor)->thread;

    for (unsigned i = from; i < page->threads_n; i++) {
        const struct page_thread *thread = &page->threads[i];

        if (is_keeper(thread) || (thread->is_main && i != own) ||
            (stage->scene.batched && i == own) ||
            (opens(thread) && is_kept_out(stage, actor)))
            continue;
        if (thread->wait == PAGE_STEP || thread->wait == PAGE_MESSAGE ||
            (thread->wait == PAGE_SLEEP &&
             (i != own || may_look(stage, actor))))
            return (int)i;
    }
    return -1;
}

int stage_stepping_thread(const struct stage *stage, unsigned actor)
{
    return find_step(stage, actor, 0);
}

int stage_second_thread(const struct stage *stage, unsigned actor)
{
    int first = stage->scene.batched ? find_step(stage, actor, 0) : -1;

    return first < 0 ? -1 : find_step(stage, actor, (unsigned)first + 1);
}

int stage_opening_thread(const struct stage *stage, unsigned actor)
{
    const struct page *page = stage_page(stage, actor);
    unsigned own = stage_lane(stage, actor)->thread;

    for (unsigned i = 0; i < page->threads_n; i++)
        if (opens(&page->threads[i]) && (!page->threads[i].is_main || i == own))
            return (int)i;
    return -1;
}

/* A watchdog is of the process: the first that plays there moves it. */
int stage_keeper_thread(const struct stage *stage, unsigned actor)
{
    const struct page *page = stage_page(stage, actor);

    for (unsigned i = 0; i < actor; i++)
        if (stage_page(stage, i) == page && stage_is_playing(stage, i))
            return -1;
    for (unsigned i = 0; i < page->threads_n; i++)
        if (is_keeper(&page->threads[i]) &&
            (page->threads[i].wait == PAGE_STEP ||
             page->threads[i].wait == PAGE_TIMED))
            return (int)i;
    return -1;
}

/* The actor that began first in a process moves it. */
int stage_committer_thread(const struct stage *stage, unsigned actor)
{
    const struct page *page = stage_page(stage, actor);

    if (stage->parts[actor].is_dead || !stage_has_begun(stage, actor))
        return -1;
    for (unsigned i = 0; i < actor; i++)
        if (stage_page(stage, i) == page && stage_has_begun(stage, i))
            return -1;
    for (unsigned i = 0; i < page->threads_n; i++)
        if (strcmp(page->threads[i].name, "committer") == 0 &&
            page->threads[i].wait == PAGE_TIMED)
            return (int)i;
    return -1;
}

/* A process goes on when its program is over; but an instance that has stopped has
 * nobody to make the steps of its batch. */
static bool may_expire(const struct stage *stage, unsigned actor)
{
    int thread =
        stage->scene.pay_within_s > 0 &&
                (!stage->scene.batched || stage_is_playing(stage, actor))
            ? stage_committer_thread(stage, actor)
            : -1;

    return thread >= 0 && stage_page(stage, actor)->threads[thread].until_us <=
                              atomic_load(&stage->board->now_us);
}

/* A process goes on keeping what its program has not given back. */
static bool may_keep(const struct stage *stage, unsigned actor)
{
    bool is_done = !stage->parts[actor].is_dead &&
                   stage_lane(stage, actor)->phase == PAGE_DONE;

    return (stage_is_playing(stage, actor) ||
            (is_done && stage_held(stage, actor) > 0)) &&
           stage_keeper_thread(stage, actor) >= 0;
}

/* The thread whose wait ends by time; -1: there is none. Of an instance the one
 * whose time comes first. */
int stage_waiting_thread(const struct stage *stage, unsigned actor)
{
    const struct page *page = stage_page(stage, actor);
    unsigned own = stage_lane(stage, actor)->thread;
    int first = -1;

    if (!stage->scene.batched)
        return page->threads[own].wait == PAGE_SLEEP ||
                       page->threads[own].wait == PAGE_TIMED
                   ? (int)own
                   : -1;
    for (unsigned i = 0; i < page->threads_n; i++) {
        const struct page_thread *thread = &page->threads[i];

        if (!is_keeper(thread) && thread->wait == PAGE_TIMED &&
            (first < 0 || thread->until_us < page->threads[first].until_us))
            first = (int)i;
    }
    return first;
}

/* The loop of an instance is at a step of its own. */
bool stage_has_news(const struct stage *stage, unsigned actor)
{
    return stage->scene.batched &&
           stage_main_thread(stage, actor)->wait == PAGE_STEP;
}

/* An instance that opens its store for the schedule would wait for who is in a
 * transaction. */
static bool may_bring_news(const struct stage *stage, unsigned actor)
{
    const struct stage_part *part = &stage->parts[actor];

    if (!stage->scene.batched || part->is_dead)
        return false;
    if (!stage_has_begun(stage, actor))
        return stage->scene.pay_within_s == 0 || !is_kept_out(stage, actor);
    return stage_is_playing(stage, actor) && stage_has_news(stage, actor);
}

/* A command that is held up is the server's to do, and not its connection's: a subscription
 * would be one of nobody. */
static bool may_be_late(const struct stage *stage,
                        const struct page_thread *step)
{
    return !step->is_sql && step->words_n > 0 &&
           strcmp(step->words, "SUBSCRIBE") != 0 &&
           strcmp(step->words, "UNSUBSCRIBE") != 0 &&
           stage->late_n < STAGE_LATE_MAX;
}

/* Its answer can be lost on its way back. */
static bool may_be_lost(const struct page_thread *step)
{
    return (!step->is_sql && !step->is_local) ||
           (step->is_sql && step->is_write &&
            (step->part == PAGE_WHOLE || step->part == PAGE_COMMITS ||
             step->part == PAGE_BY_HAND));
}

static bool may_fail(const struct page_thread *step)
{
    return step->is_sql && step->is_write &&
           (step->part == PAGE_WHOLE || step->part == PAGE_COMMITS);
}

/* MOVES has N of them, and KIND behind these if it IS_THERE. Returns how many there are
 * then. */
static size_t add(struct stage_move moves[STAGE_ENABLED_MAX], size_t n,
                  bool is_there, int actor, char kind)
{
    if (is_there)
        moves[n++] = (struct stage_move){(signed char)actor, kind};
    return n;
}

static size_t add_world(struct stage *stage,
                        struct stage_move moves[STAGE_ENABLED_MAX], size_t n)
{
    const struct world_replica *replica = &stage->world.replica;

    n = add(moves, n, stage->late_n > 0, -1, '^');
    n = add(moves, n, stage_next_lease(stage), -1, 'L');
    n = add(moves, n, stage_next_payment(stage) != 0, -1, 'H');
    n = add(moves, n, stage->look.keys[0] != '\0', -1, 'F');
    n = add(moves, n, replica->is_linked, -1, 'R');
    n = add(moves, n, replica->is_there && !replica->is_promoted, -1, 'P');
    for (int i = 0; i < (int)stage->world.nodes_n && stage->world.nodes_n > 1;
         i++) {
        bool has_lease = stage_node_lease(stage, (unsigned)i) != 0;

        n = add(moves, n, has_lease, -2 - i, 'L');
        n = add(moves, n, has_lease, -2 - i, 'F');
        n = add(moves, n, true, -2 - i, '!');
    }
    return n;
}

size_t stage_enabled(struct stage *stage,
                     struct stage_move moves[STAGE_ENABLED_MAX])
{
    size_t n = 0;

    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        bool plays = stage_is_playing(stage, i);
        /* Its first step, which it has shown once; an instance has none. */
        bool is_new = !stage->parts[i].is_dead && !stage_has_begun(stage, i) &&
                      !stage->scene.batched;
        int thread = plays ? stage_stepping_thread(stage, i) : -1;
        const struct page_thread *step =
            is_new        ? &stage->first[i]
            : thread >= 0 ? &stage_page(stage, i)->threads[thread]
                          : NULL;
        bool steps = step && (is_new || step->wait == PAGE_STEP);
        int a = (int)i;

        n = add(moves, n, may_expire(stage, i), a, 'e');
        n = add(moves, n, may_bring_news(stage, i), a, 'i');
        n = add(moves, n, step, a, 's');
        n = add(moves, n, plays && stage_second_thread(stage, i) >= 0, a, 'l');
        n = add(moves, n, steps && may_be_lost(step), a, '~');
        n = add(moves, n,
                is_new ? opens(step)
                       : plays && stage_opening_thread(stage, i) >= 0,
                a, '-');
        n = add(moves, n, steps && may_fail(step), a, 'x');
        n = add(moves, n, steps && may_be_late(stage, step), a, '^');
        n = add(moves, n, plays && stage_waiting_thread(stage, i) >= 0, a, '+');
        n = add(moves, n, may_keep(stage, i), a, 'w');
        n = add(moves, n, plays, a, '!');
    }
    return add_world(stage, moves, n);
}

/* What can be seen of the stage, and what broke: see stage.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/lab/stage/stage_private.h"

const char *stage_fault_word(enum stage_fault fault)
{
    static const char *const words[] = {
#define STAGE_FAULT_WORD(name, word, text) word,
        STAGE_FAULT_MAP(STAGE_FAULT_WORD)
#undef STAGE_FAULT_WORD
    };

    return words[fault];
}

const char *stage_fault_text(enum stage_fault fault)
{
    static const char *const texts[] = {
#define STAGE_FAULT_TEXT(name, word, text) text,
        STAGE_FAULT_MAP(STAGE_FAULT_TEXT)
#undef STAGE_FAULT_TEXT
    };

    return texts[fault];
}

/* ---- the ledger --------------------------------------------------------- */

static bool read_ledger(struct stage *stage)
{
    struct store_error error;

    if (!stage->unread)
        return true;
    if (store_audit(stage->world.reader, NULL, NULL, NULL, 0, &stage->audit,
                    &error) != STORE_OK) {
        (void)snprintf(stage->error, sizeof(stage->error), "%s", error.text);
        return false;
    }
    stage->unread = false;
    return true;
}

static int64_t units_left(const struct stage *stage)
{
    int64_t units = 0, stranded = 0;

    (void)store_units_left(stage->world.reader, &units, &stranded, NULL);
    return units;
}

/* ---- what broke --------------------------------------------------------- */

static bool is_over(const struct stage *stage)
{
    for (unsigned i = 0; i < stage->scene.buyers; i++)
        if (stage_is_playing(stage, i) ||
            (!stage->parts[i].is_dead && !stage->parts[i].has_begun))
            return false;
    return stage->late_n == 0;
}

static bool is_stuck(struct stage *stage)
{
    struct stage_move moves[STAGE_ENABLED_MAX];
    size_t n = stage_enabled(stage, moves);

    for (size_t i = 0; i < n; i++)
        if (moves[i].kind != '!' && moves[i].kind != 'F')
            return false;
    return !is_over(stage);
}

/* The naive way loses units by itself when it is cut short between two of its
 * steps: that is not the lock's fault. */
static unsigned faults_at_the_end(const struct stage *stage)
{
    const struct store_audit *audit = &stage->audit;
    unsigned faults = 0;

    if (stage->scene.deduct == DEDUCT_GUARDED && !audit->balanced)
        faults |= 1u << STAGE_LEDGER;
    if (stage->has_key && !stage->unfaithful && stage->lapses == 0)
        faults |= 1u << STAGE_HELD;
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        const struct page *page = &stage->board->pages[i];

        if (!stage->parts[i].is_dead && page->phase == PAGE_DONE &&
            page->outcome == ORDER_SOLD_OUT &&
            units_left(stage) >= stage->scene.quantity)
            faults |= 1u << STAGE_REFUSED;
    }
    return faults;
}

/* Reading the ledger is the dearest of all: only if there is anything to find. */
static void note_ledger(struct stage *stage)
{
    if ((stage->orders * stage->scene.quantity <= stage->scene.stock &&
         !is_over(stage)) ||
        !read_ledger(stage))
        return;
    if (stage->audit.oversold > 0)
        stage->faults |= 1u << STAGE_OVERSOLD;
    if (stage->audit.fence_regressions > 0)
        stage->faults |= 1u << STAGE_STALE;
    if (stage->audit.duplicates > 0)
        stage->faults |= 1u << STAGE_LEDGER;
}

bool stage_is_inside(const struct stage *stage, unsigned actor)
{
    return stage_is_playing(stage, actor) && stage->board->pages[actor].inside;
}

unsigned stage_lapses(const struct stage *stage)
{
    return stage->lapses;
}

unsigned stage_faults(struct stage *stage)
{
    note_ledger(stage);
    if (stage->has_key && stage->ends_us == PAGE_NEVER && stage->setter >= 0 &&
        stage->parts[stage->setter].is_dead)
        stage->faults |= 1u << STAGE_FOREVER;
    if (is_over(stage))
        stage->faults |= faults_at_the_end(stage);
    else if (is_stuck(stage))
        stage->faults |= 1u << STAGE_DEADLOCK;
    return stage->faults;
}

uint64_t stage_now_us(const struct stage *stage)
{
    return atomic_load(&stage->board->now_us) - WORLD_BEGINS_US;
}

/* Who is done or dead does nothing any more: of what it has heard, nothing but its
 * answer is left. */
static uint64_t hash_actor(const struct stage *stage, unsigned actor,
                           uint64_t hash)
{
    const struct stage_part *part = &stage->parts[actor];
    const struct page *page = &stage->board->pages[actor];
    int answer = page->answered ? (int)page->outcome : -1;
    bool lapsed = part->lapses != stage->lapses;

    hash = stage_hash_bytes(hash, &part->is_dead, sizeof(bool));
    hash = stage_hash_bytes(hash, &part->has_begun, sizeof(bool));
    if (part->is_dead || !part->has_begun)
        return hash;
    hash = stage_hash_bytes(hash, &page->phase, sizeof(page->phase));
    hash = stage_hash_bytes(hash, &answer, sizeof(answer));
    if (!stage_is_playing(stage, actor))
        return hash;
    hash = stage_hash_bytes(hash, &part->history, sizeof(part->history));
    hash = stage_hash_bytes(hash, &lapsed, sizeof(bool));
    for (unsigned i = 0; i < page->threads_n; i++) {
        hash = stage_hash_bytes(hash, &page->threads[i].wait,
                                sizeof(enum page_wait));
        hash = stage_hash_bytes(hash, &page->threads[i].until_us,
                                sizeof(uint64_t));
    }
    return hash;
}

uint64_t stage_hash(struct stage *stage)
{
    uint64_t now_us = atomic_load(&stage->board->now_us);
    uint64_t hash = stage_hash_text(STAGE_HASH_SEED, stage->keys);

    hash = stage_hash_bytes(hash, &now_us, sizeof(now_us));
    hash = stage_hash_bytes(hash, &stage->written, sizeof(stage->written));
    hash = stage_hash_bytes(hash, &stage->faults, sizeof(stage->faults));
    hash = stage_hash_bytes(hash, &stage->setter, sizeof(stage->setter));
    for (unsigned i = 0; i < stage->late_n; i++) {
        const struct stage_late *late = &stage->late[i];

        hash = stage_hash_bytes(hash, &late->actor, sizeof(late->actor));
        hash = stage_hash_bytes(hash, &late->sent, sizeof(late->sent));
    }
    for (unsigned i = 0; i < stage->scene.buyers; i++)
        hash = hash_actor(stage, i, hash);
    return hash;
}

/* ---- what can be seen --------------------------------------------------- */

static void tell_next(const struct stage *stage, unsigned actor,
                      struct stage_actor_view *view)
{
    const struct page *page = &stage->board->pages[actor];
    const struct page_thread *first = &page->threads[0];
    const char *text = "";

    if (view->is_dead)
        text = "dead";
    else if (!stage->parts[actor].has_begun)
        text = "its order begins";
    else if (view->is_done)
        text = "done";
    else if (first->wait == PAGE_STEP && first->is_sql)
        text = first->words;
    else if (first->wait == PAGE_STEP)
        text = first->step;
    else if (first->wait == PAGE_SLEEP)
        text = "naps, then looks again";
    else
        text = "waits";
    (void)snprintf(view->next, sizeof(view->next), "%s", text);
}

void stage_name_owners(const struct stage *stage, char text[])
{
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        const char *owner = stage->board->pages[i].owner;
        size_t len = strlen(owner);
        char *at = text;

        while (len > 0 && (at = strstr(at, owner)) != NULL) {
            *at = (char)('a' + (int)i);
            memmove(at + 1, at + len, strlen(at + len) + 1);
            at++;
        }
    }
}

void stage_look(struct stage *stage, struct stage_view *view)
{
    uint64_t now_us = atomic_load(&stage->board->now_us);

    *view = (struct stage_view){.now_us = now_us - WORLD_BEGINS_US,
                                .holder = stage->has_key ? stage->setter : -1,
                                .ttl_ms = -2,
                                .late_n = stage->late_n,
                                .over = is_over(stage)};
    if (stage->has_key)
        view->ttl_ms = stage->ends_us == PAGE_NEVER
                           ? -1
                           : (int64_t)(stage->ends_us - now_us) / 1000;
    memcpy(view->redis, stage->keys, sizeof(view->redis));
    stage_name_owners(stage, view->redis);
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        struct stage_actor_view *actor = &view->actors[i];
        const struct page *page = &stage->board->pages[i];

        actor->is_dead = stage->parts[i].is_dead;
        actor->is_done = !actor->is_dead && page->phase == PAGE_DONE;
        actor->is_inside = stage_is_inside(stage, i);
        actor->answered = stage->parts[i].has_begun && page->answered;
        actor->outcome = page->outcome;
        tell_next(stage, i, actor);
    }
    if (read_ledger(stage)) {
        view->stock = units_left(stage);
        view->sold = stage->audit.sold;
        view->orders = stage->audit.orders;
    }
}

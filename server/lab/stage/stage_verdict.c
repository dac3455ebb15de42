/* What broke, by the audit of the store and by what was seen on the way: see
 * stage.h. */
#include <stdio.h>
#include <string.h>

#include "server/lab/programs/program.h"
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

bool stage_read_ledger(struct stage *stage)
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

int64_t stage_units_left(const struct stage *stage)
{
    int64_t units = 0, stranded = 0;

    (void)store_units_left(stage->world.reader, &units, &stranded, NULL);
    return units;
}

/* Those of another product are no reason to have sold one of this. */
static int64_t units_left_of(const struct stage *stage, int64_t product_id)
{
    struct store_product product = {.stock = 0};
    size_t n;

    if (stage->scene.products <= 1)
        return stage_units_left(stage);
    (void)store_product_list(stage->world.reader, product_id - 1, 1, &product,
                             &n, NULL);
    return product.stock;
}

/* ---- what broke --------------------------------------------------------- */

bool stage_is_over(const struct stage *stage)
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
    return !stage_is_over(stage);
}

/* More orders than all that have begun want. */
static bool has_too_many(const struct stage *stage)
{
    int64_t wanted = 0;

    for (unsigned i = 0; i < stage->scene.buyers; i++)
        if (stage->parts[i].has_begun)
            wanted +=
                program_find(stage_role(&stage->scene, i).program)->orders;
    return stage->audit.orders > wanted;
}

/* Fewer orders than actors that were told to have one. */
static bool has_lost_one(const struct stage *stage)
{
    int64_t acknowledged = 0;

    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        const struct page_lane *lane = stage_lane(stage, i);

        acknowledged += stage->parts[i].has_begun && lane->answered &&
                        lane->outcome == ORDER_PLACED;
    }
    return stage->audit.orders + stage->audit.cancelled < acknowledged;
}

static bool has_any_key(const struct stage *stage)
{
    for (unsigned i = 0; i < stage->locks_n; i++)
        if (stage->locks[i].has_key)
            return true;
    return false;
}

/* A lock that counts holds of somebody who is sure to have none: it has heard that
 * all it had were taken back. */
static bool has_holds_left(const struct stage *stage, unsigned actor)
{
    const struct page_lane *lane = stage_lane(stage, actor);
    const char *line = stage->keys;
    char field[sizeof(lane->owner) + 2];

    if (lane->phase != PAGE_DONE || lane->unsure ||
        stage_held(stage, actor) > 0)
        return false;
    (void)snprintf(field, sizeof(field), "%s=", lane->owner);
    while ((line = strstr(line, field)) != NULL) {
        const char *begin = line;

        while (begin > stage->keys && begin[-1] != '\n')
            begin--;
        begin += stage->world.nodes_n > 1 ? 2 : 0;
        if (stage_is_lock(begin))
            return true;
        line++;
    }
    return false;
}

/* The naive way loses units by itself when it is cut short between two of its
 * steps: that is not the lock's fault. */
static unsigned faults_at_the_end(struct stage *stage)
{
    const struct store_audit *audit = &stage->audit;
    unsigned faults = 0;

    if (stage->scene.deduct == DEDUCT_GUARDED && !audit->balanced)
        faults |= 1u << STAGE_LEDGER;
    if (has_lost_one(stage))
        faults |= 1u << STAGE_LOST;
    if (has_any_key(stage) && !stage->unfaithful && stage->lapses == 0)
        faults |= 1u << STAGE_HELD;
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        const struct page_lane *lane = stage_lane(stage, i);
        struct stage_role role = stage_role(&stage->scene, i);

        if (stage->parts[i].is_dead)
            continue;
        if (lane->phase == PAGE_DONE && lane->answered &&
            lane->outcome == ORDER_SOLD_OUT && !stage->parts[i].saw_short &&
            units_left_of(stage, role.product) >= role.quantity)
            faults |= 1u << STAGE_REFUSED;
        if (has_holds_left(stage, i))
            faults |= 1u << STAGE_HOLDS;
    }
    return faults;
}

/* What the programs themselves have to say. */
static void check_programs(struct stage *stage)
{
    static struct stage_view view;

    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        const struct program *program =
            program_find(stage_role(&stage->scene, i).program);
        const char *wrong;

        if (!program->check || (stage->faults & (1u << STAGE_CHECK)))
            continue;
        stage_look(stage, &view);
        wrong = program->check(&view, stage->world.db_path);
        if (!wrong)
            continue;
        stage->faults |= 1u << STAGE_CHECK;
        stage_tell(stage, -1, "", wrong);
    }
}

/* What all orders that were tried would take at most. */
static int64_t units_tried(const struct stage *stage)
{
    int64_t most = 0;

    for (unsigned i = 0; i < stage->scene.buyers; i++)
        if (stage_role(&stage->scene, i).quantity > most)
            most = stage_role(&stage->scene, i).quantity;
    return stage->orders * most;
}

/* Reading the ledger is the dearest of all: only if there is anything to find. */
static void note_ledger(struct stage *stage)
{
    if ((units_tried(stage) <= stage->scene.stock && !stage_is_over(stage)) ||
        !stage_read_ledger(stage))
        return;
    if (stage->audit.oversold > 0)
        stage->faults |= 1u << STAGE_OVERSOLD;
    if (stage->audit.fence_regressions > 0)
        stage->faults |= 1u << STAGE_STALE;
    if (stage->audit.duplicates > 0 || has_too_many(stage))
        stage->faults |= 1u << STAGE_TWICE;
    if (stage->audit.over_limit > 0)
        stage->faults |= 1u << STAGE_LIMIT;
}

static bool is_left_by_the_dead(const struct stage *stage,
                                const struct stage_lock *lock)
{
    return lock->has_key && lock->ends_us == PAGE_NEVER && lock->setter >= 0 &&
           stage->parts[lock->setter].is_dead;
}

unsigned stage_faults(struct stage *stage)
{
    note_ledger(stage);
    for (unsigned i = 0; i < stage->locks_n; i++)
        if (is_left_by_the_dead(stage, &stage->locks[i]))
            stage->faults |= 1u << STAGE_FOREVER;
    if (stage_is_over(stage)) {
        stage->faults |= faults_at_the_end(stage);
        check_programs(stage);
    } else if (is_stuck(stage)) {
        stage->faults |= 1u << STAGE_DEADLOCK;
    }
    return stage->faults;
}

/*
 * Two tables with open addressing, searched from the slot of the hash onwards.
 * To forget is to raise the age: what is of another age is not there. So is a
 * slot that was never used, since the first age is 1. When one of the tables is
 * nearly full both are forgotten; that costs some thousand reads, each of which
 * would have been made without them.
 */
#include "db/recall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS      4096
#define SLOTS_USED 3072 /* of each table at most: some have to be free */
#define FENCE_TEXT 128  /* name and owner; longer ones are not kept */

struct cell_slot {
    uint64_t age;
    struct recall_cell cell;
};

struct fence_slot {
    uint64_t age;
    uint64_t token;
    char text[FENCE_TEXT]; /* the name, a zero, the owner */
};

struct recall {
    struct sqlite_state state; /* at the last recall_end() */
    bool valid;                /* as of then */
    uint64_t age;
    size_t cells_n, fences_n; /* of this age */
    struct cell_slot cells[SLOTS];
    struct fence_slot fences[SLOTS];
};

struct recall *recall_new(void)
{
    struct recall *recall = calloc(1, sizeof(*recall));

    if (recall)
        recall->age = 1;
    return recall;
}

void recall_free(struct recall *recall)
{
    free(recall);
}

/* ---- for how long --------------------------------------------------------- */

void recall_forget(struct recall *recall)
{
    recall->valid = false;
    recall->age++;
    recall->cells_n = 0;
    recall->fences_n = 0;
}

enum store_status recall_begin(struct recall *recall, struct sqlite *db,
                               struct store_error *error)
{
    struct sqlite_state state;
    enum store_status status = sqlite_state(db, &state, error);

    if (!recall->valid || status != STORE_OK ||
        !sqlite_state_equal(&state, &recall->state))
        recall_forget(recall);
    recall->valid = false;
    recall->state = state;
    return status;
}

/* Others could not change anything meanwhile: ours are all that there are. */
void recall_end(struct recall *recall, struct sqlite *db)
{
    recall->state.own = sqlite_changes(db);
    recall->valid = true;
}

/* ---- cells ---------------------------------------------------------------- */

static size_t first_slot(int64_t product_id, int64_t segment)
{
    /* Fibonacci hashing: neighbouring ids end up far apart. */
    uint64_t hash = ((uint64_t)product_id + ((uint64_t)segment << 48)) *
                    UINT64_C(0x9E3779B97F4A7C15);

    return (hash >> 32) % SLOTS;
}

/* Where it is, or would be. */
static size_t find_cell(const struct recall *recall, int64_t product_id,
                        int64_t segment)
{
    size_t at = first_slot(product_id, segment);

    while (recall->cells[at].age == recall->age &&
           (recall->cells[at].cell.product_id != product_id ||
            recall->cells[at].cell.segment != segment))
        at = (at + 1) % SLOTS;
    return at;
}

bool recall_find_cell(const struct recall *recall, int64_t product_id,
                      int64_t segment, struct recall_cell *cell)
{
    const struct cell_slot *slot;

    if (!recall)
        return false;
    slot = &recall->cells[find_cell(recall, product_id, segment)];
    if (slot->age != recall->age)
        return false;
    *cell = slot->cell;
    return true;
}

void recall_keep_cell(struct recall *recall, const struct recall_cell *cell)
{
    struct cell_slot *slot;

    if (!recall)
        return;
    if (recall->cells_n == SLOTS_USED)
        recall_forget(recall);
    slot = &recall->cells[find_cell(recall, cell->product_id, cell->segment)];
    if (slot->age != recall->age)
        recall->cells_n++;
    *slot = (struct cell_slot){.age = recall->age, .cell = *cell};
}

void recall_set_stock(struct recall *recall, int64_t product_id,
                      int64_t segment, int64_t stock)
{
    struct cell_slot *slot;

    if (!recall)
        return;
    slot = &recall->cells[find_cell(recall, product_id, segment)];
    if (slot->age == recall->age)
        slot->cell.stock = stock;
}

/* ---- fences --------------------------------------------------------------- */

static const char *owner_of(const struct store_fence *fence)
{
    return fence->owner ? fence->owner : "";
}

/* Both with their zeros. */
static bool fits(const struct store_fence *fence)
{
    return strlen(fence->name) + strlen(owner_of(fence)) + 2 <= FENCE_TEXT;
}

/* FNV-1a of the name. */
static size_t first_fence_slot(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return (hash >> 32) % SLOTS;
}

/* Where the lock of that name is, whoever holds it, or would be. */
static size_t find_fence(const struct recall *recall, const char *name)
{
    size_t at = first_fence_slot(name);

    while (recall->fences[at].age == recall->age &&
           strcmp(recall->fences[at].text, name) != 0)
        at = (at + 1) % SLOTS;
    return at;
}

bool recall_is_announced(const struct recall *recall,
                         const struct store_fence *fence)
{
    const struct fence_slot *slot;

    if (!recall)
        return false;
    slot = &recall->fences[find_fence(recall, fence->name)];
    return slot->age == recall->age && slot->token == fence->token &&
           strcmp(slot->text + strlen(slot->text) + 1, owner_of(fence)) == 0;
}

/* What cannot be kept must not leave in place what was there before it. */
void recall_keep_fence(struct recall *recall, const struct store_fence *fence)
{
    struct fence_slot *slot;

    if (!recall)
        return;
    if (recall->fences_n == SLOTS_USED || !fits(fence))
        recall_forget(recall);
    if (!fits(fence))
        return;
    slot = &recall->fences[find_fence(recall, fence->name)];
    if (slot->age != recall->age)
        recall->fences_n++;
    slot->age = recall->age;
    slot->token = fence->token;
    snprintf(slot->text, FENCE_TEXT, "%s%c%s", fence->name, '\0',
             owner_of(fence));
}

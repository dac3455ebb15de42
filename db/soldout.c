/*
 * A note is three numbers that belong together, written by one thread and read
 * by many without a lock: the version around them tells a reader whether it has
 * seen all of the same note (a seqlock, as in the Linux kernel). In doubt it has
 * seen nothing.
 */
#include "db/soldout.h"

void soldout_init(struct soldout *soldout)
{
    atomic_init(&soldout->generation, 1);
}

uint64_t soldout_generation(const struct soldout *soldout)
{
    return atomic_load(&soldout->generation);
}

void soldout_forget(struct soldout *soldout)
{
    atomic_fetch_add(&soldout->generation, 1);
}

static size_t slot_of(int64_t product_id)
{
    /* Fibonacci hashing: neighbouring ids end up far apart. */
    uint64_t hash = (uint64_t)product_id * UINT64_C(0x9E3779B97F4A7C15);

    return (hash >> 32) % SOLDOUT_SLOTS;
}

/* Of two refusals in one generation the smaller order says more. */
static bool says_more(const struct soldout_note *note, int64_t product_id,
                      int64_t quantity, uint64_t generation)
{
    return atomic_load(&note->generation) != generation ||
           atomic_load(&note->product_id) != product_id ||
           quantity < atomic_load(&note->quantity);
}

void soldout_note(struct soldout *soldout, int64_t product_id, int64_t quantity,
                  uint64_t generation)
{
    struct soldout_note *note = &soldout->notes[slot_of(product_id)];

    if (!says_more(note, product_id, quantity, generation))
        return;
    atomic_fetch_add(&note->version, 1);
    atomic_store(&note->generation, generation);
    atomic_store(&note->product_id, product_id);
    atomic_store(&note->quantity, quantity);
    atomic_fetch_add(&note->version, 1);
}

bool soldout_knows(const struct soldout *soldout, int64_t product_id,
                   int64_t quantity)
{
    const struct soldout_note *note = &soldout->notes[slot_of(product_id)];
    uint64_t version = atomic_load(&note->version);
    bool refused =
        atomic_load(&note->product_id) == product_id &&
        quantity >= atomic_load(&note->quantity) &&
        atomic_load(&note->generation) == atomic_load(&soldout->generation);

    return refused && version % 2 == 0 &&
           atomic_load(&note->version) == version;
}

/*
 * A note is three numbers that belong together, written by one thread and read
 * by many without a lock: the version around them tells a reader whether it has
 * seen all of the same note (a seqlock, as in the Linux kernel). In doubt it
 * has seen nothing.
 */
#include "db/soldout.h"

uint64_t soldout_generation(const struct soldout *soldout)
{
    return soldout->shared ? lockfile_generation(soldout->file)
                           : atomic_load(&soldout->generation);
}

enum store_status soldout_forget(struct soldout *soldout,
                                 struct store_error *error)
{
    if (soldout->shared)
        return lockfile_next_generation(soldout->file, error);
    atomic_fetch_add(&soldout->generation, 1);
    return STORE_OK;
}

static size_t slot_of(int64_t product_id)
{
    /* Fibonacci hashing: neighbouring ids end up far apart. */
    uint64_t hash = (uint64_t)product_id * UINT64_C(0x9E3779B97F4A7C15);

    return (hash >> 32) % SOLDOUT_SLOTS;
}

/* The smaller order of two that were refused in one generation says more. */
void soldout_note(struct soldout *soldout, int64_t product_id, int64_t quantity,
                  uint64_t generation)
{
    struct soldout_note *note = &soldout->notes[slot_of(product_id)];

    if (generation == 0 || (atomic_load(&note->generation) == generation &&
                            atomic_load(&note->product_id) == product_id &&
                            quantity >= atomic_load(&note->quantity)))
        return;
    atomic_fetch_add(&note->version, 1);
    /* The version is odd from here on: a reader that comes now does not believe
     * what it finds. */
    atomic_store(&note->generation, generation);
    atomic_store(&note->product_id, product_id);
    atomic_store(&note->quantity, quantity);
    atomic_fetch_add(&note->version, 1);
}

/* The generation is looked up last: where it is shared it costs two
 * system calls, and most products are not sold out. A note that nobody has written has
 * generation 0. */
uint64_t soldout_knows(const struct soldout *soldout, int64_t product_id,
                       int64_t quantity)
{
    const struct soldout_note *note = &soldout->notes[slot_of(product_id)];
    /* The version is read before the numbers and again behind them: the same
     * one, and even, says that nobody has written in between. */
    uint64_t version = atomic_load(&note->version);
    uint64_t generation = atomic_load(&note->generation);
    bool refused = generation != 0 &&
                   atomic_load(&note->product_id) == product_id &&
                   quantity >= atomic_load(&note->quantity) &&
                   version % 2 == 0 && atomic_load(&note->version) == version;

    return refused && soldout_generation(soldout) == generation ? generation
                                                                : 0;
}

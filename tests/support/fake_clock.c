#include "tests/support/fake_clock.h"

static uint64_t now(void *ctx)
{
    struct fake_clock *clock = ctx;

    return atomic_load(&clock->now_ms);
}

/* splitmix64, one step per byte. */
static void dice(void *ctx, void *bytes, size_t len)
{
    struct fake_clock *clock = ctx;
    unsigned char *out = bytes;

    for (size_t i = 0; i < len; i++) {
        uint64_t x = atomic_fetch_add(&clock->dice, 0x9e3779b97f4a7c15u);

        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        out[i] = (unsigned char)(x >> 56);
    }
}

void fake_clock_init(struct fake_clock *clock, uint64_t now_ms)
{
    clock->face.now_ms = now;
    clock->face.random = dice;
    clock->face.ctx = clock;
    atomic_init(&clock->now_ms, now_ms);
    atomic_init(&clock->dice, 1);
}

void fake_clock_advance(struct fake_clock *clock, uint64_t ms)
{
    (void)atomic_fetch_add(&clock->now_ms, ms);
}

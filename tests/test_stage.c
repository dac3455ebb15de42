/*
 * The stage: the same schedule gives the same steps every time, whatever the
 * machine does meanwhile; and the moves mean what stage.h says.
 *
 * STAGE_SCHEDULES says how many random schedules of each lock are played, and
 * STAGE_TIMES how often each; tests/full/stage.t asks for many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/stage/stage.h"

/* All that the stage plays. */
static const char *const locks[] = {"none",
                                    "process",
                                    "setnx",
                                    "setnx-finally",
                                    "setnx-expire",
                                    "setnx-expire-lua",
                                    "set-nx-px",
                                    "token-thread",
                                    "token",
                                    "token-lua",
                                    "guard-thread",
                                    "watchdog",
                                    "reentrant-local",
                                    "reentrant-broken",
                                    "reentrant",
                                    "spin",
                                    "redisson",
                                    "fair",
                                    "fenced",
                                    "fenced-late"};

#define LOCKS_N (sizeof(locks) / sizeof(locks[0]))

enum { RECORD_BYTES_MAX = 64 << 10, RANDOM_MOVES_MAX = 24 };

static struct stage *open_stage(const struct stage_scene *scene)
{
    char error[300] = "";
    struct stage *stage = stage_open(scene, error, sizeof(error));

    if (!stage)
        fail_msg("%s: %s", scene->lock, error);
    return stage;
}

static struct stage *open_lock(const char *lock, enum config_deduct deduct)
{
    struct stage_scene scene = STAGE_SCENE(lock);

    scene.deduct = deduct;
    return open_stage(&scene);
}

static void begin(struct stage *stage)
{
    char error[300];

    if (!stage_begin(stage, error, sizeof(error)))
        fail_msg("%s", error);
}

static char played[512]; /* the schedule under way, for messages */

static void move(struct stage *stage, struct stage_move one)
{
    char error[300];

    if (!stage_move(stage, one, error, sizeof(error)))
        fail_msg("'%s': %s", played, error);
}

/* All that can be known of what has been played. */
static void record(struct stage *stage, char text[RECORD_BYTES_MAX])
{
    static struct stage_view view;
    const struct stage_step *steps;
    size_t n, used = 0;

    steps = stage_steps(stage, &n);
    for (size_t i = 0; i < n; i++)
        used +=
            (size_t)snprintf(text + used, RECORD_BYTES_MAX - used,
                             "%u %" PRIu64 " %d %s|%s|%s|%s\n", steps[i].move,
                             steps[i].at_us, steps[i].actor, steps[i].who,
                             steps[i].name, steps[i].sent, steps[i].reply);
    stage_look(stage, &view);
    (void)snprintf(text + used, RECORD_BYTES_MAX - used,
                   "%s\n%" PRId64 " %" PRId64 " %" PRIu64 " %x %" PRIx64 "\n",
                   view.redis, view.stock, view.sold, view.now_us,
                   stage_faults(stage), stage_hash(stage));
}

/* ---- determinism -------------------------------------------------------- */

static unsigned long from_environment(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);

    return text ? strtoul(text, NULL, 10) : otherwise;
}

/* Deaths cost a process, so they are rare. */
static size_t play_random(struct stage *stage, uint64_t seed,
                          struct stage_move moves[RANDOM_MOVES_MAX])
{
    struct stage_move enabled[STAGE_ENABLED_MAX];
    size_t n, chosen;

    begin(stage);
    for (size_t i = 0; i < RANDOM_MOVES_MAX; i++) {
        n = stage_enabled(stage, enabled);
        if (n == 0)
            return i;
        do {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            chosen = (seed >> 33) % n;
        } while (enabled[chosen].kind == '!' && (seed >> 20) % 8 != 0);
        moves[i] = enabled[chosen];
        move(stage, moves[i]);
    }
    return RANDOM_MOVES_MAX;
}

static void assert_same_again(struct stage *stage,
                              const struct stage_move moves[], size_t n)
{
    static char first[RECORD_BYTES_MAX], again[RECORD_BYTES_MAX];
    unsigned long times = from_environment("STAGE_TIMES", 3);

    stage_text(moves, n, played, sizeof(played));
    record(stage, first);
    for (unsigned long i = 1; i < times; i++) {
        begin(stage);
        for (size_t j = 0; j < n; j++)
            move(stage, moves[j]);
        record(stage, again);
        if (strcmp(first, again) == 0)
            continue;
        /* cmocka cuts a long text. */
        fprintf(stderr, "'%s' once gave\n%s\nand then\n%s\n", played, first,
                again);
        fail_msg("'%s' is not the same every time", played);
    }
}

static void test_same_every_time(void **state)
{
    unsigned long schedules = from_environment("STAGE_SCHEDULES", 12);
    struct stage_move moves[RANDOM_MOVES_MAX];

    (void)state;
    for (size_t i = 0; i < LOCKS_N; i++) {
        struct stage *stage;

        if (getenv("STAGE_LOCK") && strcmp(getenv("STAGE_LOCK"), locks[i]))
            continue;
        stage = open_lock(locks[i], i % 2 ? DEDUCT_NAIVE : DEDUCT_GUARDED);

        print_message("%s\n", locks[i]);

        for (unsigned long j = 0; j < schedules; j++)
            assert_same_again(stage, moves,
                              play_random(stage, 1000 * i + j, moves));
        stage_close(stage);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_every_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Random schedules: they find what breaks a lock, the same with the same seed; and what
 * they find is shortened to what breaks it. Nothing in one that holds: e2e/explore.t.
 */
#include "lock/dlock.h"
#include "server/lab/search/search.h"
#include "tests/support/unit_test.h"

static struct search_bounds bounds = {.expiries = 3,
                                      .crashes = 1,
                                      .lost = 3,
                                      .late = 3,
                                      .waits = 6,
                                      .renewals = 3,
                                      .troubles = 6,
                                      .moves = 60};

/* CTX: the schedules that are enough. */
static bool is_enough(void *ctx, const struct search_result *result)
{
    const uint64_t *enough = ctx;

    return !result->faults[STAGE_OVERSOLD].is_found &&
           result->schedules < *enough;
}

static void search(const struct stage_scene *scene, uint64_t seed,
                   uint64_t enough, struct search_result *result)
{
    struct fail error;

    bounds.seed = seed;
    if (!search_run(scene, &bounds, 1, is_enough, &enough, result, &error))
        fail_msg("%s: %s", scene->lock, error.text);
}

UNIT_TEST(test_finds)
{
    const struct stage_scene scene = STAGE_SCENE("set-nx-px");
    static struct search_result once, again;
    const struct search_found *found = &once.faults[STAGE_OVERSOLD];
    struct stage *stage;
    struct fail error;

    search(&scene, 1, 20000, &once);
    assert_true(found->is_found);
    /* A shortest one has nine. */
    assert_in_range(found->n, 9, 11);
    search(&scene, 1, 20000, &again);
    assert_int_equal(again.faults[STAGE_OVERSOLD].n, found->n);
    assert_memory_equal(again.faults[STAGE_OVERSOLD].moves, found->moves,
                        found->n * sizeof(found->moves[0]));

    stage = stage_open(&scene, &error);
    assert_non_null(stage);
    for (size_t i = 0; i < found->n; i++) {
        assert_false(stage_faults(stage) & (1u << STAGE_OVERSOLD));
        assert_true(stage_move(stage, found->moves[i], &error));
    }
    assert_true(stage_faults(stage) & (1u << STAGE_OVERSOLD));
    stage_close(stage);
}

UNIT_TEST(test_shortens)
{
    const struct stage_scene scene = STAGE_SCENE("set-nx-px");
    struct search_found found = {.n = 0}, right = {.n = 0};
    _Atomic bool stop = true;
    char text[4 * STAGE_MOVES_MAX + 1];
    struct fail error;
    struct stage *stage = stage_open(&scene, &error);

    assert_non_null(stage);
    /* Two moves of no use, and switches where none is needed. */
    found.n = (size_t)stage_parse("a a b L b b b a b a b", found.moves, &error);
    assert_true(random_shorten(stage, STAGE_OVERSOLD, &stop, &found, &error));
    assert_int_equal(found.n, 11); /* nobody waits for it any more */
    stop = false;
    assert_true(random_shorten(stage, STAGE_OVERSOLD, &stop, &found, &error));
    stage_text(found.moves, found.n, text, sizeof(text));
    /* No shorter, and each of them goes on for as long as it can. */
    assert_string_equal(text, "a a L b b b b a a");

    right.n = (size_t)stage_parse("a a a a", right.moves, &error);
    assert_false(random_shorten(stage, STAGE_OVERSOLD, &stop, &right, &error));
    assert_non_null(strstr(error.text, "does not break again"));
    stage_close(stage);
}

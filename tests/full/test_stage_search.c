/*
 * The search: it finds the same, whoever plays; and it loses nothing of what breaks a
 * lock by going on from only one of the schedules that lead to a state. That it finds
 * the shortest schedule: e2e/explore.t; the shortest behind another: full/by-hand.t.
 *
 * With STAGE_DEEPER only that, with schedules that are so many moves longer:
 * tests/full/stage.t asks for it.
 */
#include <inttypes.h>
#include <signal.h>

#include "lock/dlock.h"
#include "server/lab/base/expected.h"
#include "server/lab/search/search.h"
#include "tests/support/unit_test.h"

static void search(const struct stage_scene *scene,
                   const struct search_bounds *bounds, unsigned stages,
                   struct search_result *result)
{
    struct fail error;

    if (!search_run(scene, bounds, stages, NULL, NULL, result, &error))
        fail_msg("%s: %s", scene->lock, error.text);
}

/* With reduction and without, the same is found, and as short. */
UNIT_TEST(test_reduction_loses_nothing)
{
    /* Of all troubles few moves; of the end of a lease, enough to oversell. */
    const char *more = getenv("STAGE_DEEPER");
    unsigned deeper = more ? (unsigned)atoi(more) : 0;
    const struct search_bounds kinds[] = {{.expiries = 1,
                                           .crashes = 1,
                                           .lost = 1,
                                           .late = 1,
                                           .waits = 1,
                                           .renewals = 1,
                                           .troubles = 2,
                                           .preemptions = 2,
                                           .moves = 2 + deeper},
                                          {.expiries = 1,
                                           .waits = 1,
                                           .troubles = 1,
                                           .preemptions = 2,
                                           .moves = 7 + deeper}};
    static struct search_result with, without;
    uint64_t all_with = 0, all_without = 0;
    const struct dlock_strategy_info *info;

    for (size_t i = 0; (info = dlock_strategy_info(i / 2)) != NULL; i++) {
        struct stage_scene scene = STAGE_SCENE(info->name);
        struct search_bounds bounds = kinds[i % 2];

        if (!expected_of(info->name)->faults)
            continue;
        search(&scene, &bounds, 0, &with);
        bounds.no_reduction = true;
        search(&scene, &bounds, 0, &without);
        for (int j = 0; j < STAGE_FAULT_N; j++) {
            assert_int_equal(with.faults[j].is_found,
                             without.faults[j].is_found);
            assert_int_equal(with.faults[j].n, without.faults[j].n);
        }
        all_with += with.schedules;
        all_without += without.schedules;
    }
    print_message("%" PRIu64 " schedules instead of %" PRIu64 "\n", all_with,
                  all_without);
    assert_true(all_with < all_without);
}

/* Who plays the schedules makes no difference to what is found. */
UNIT_TEST(test_stages_agree)
{
    const struct search_bounds bounds = {.expiries = 1,
                                         .crashes = 1,
                                         .troubles = 2,
                                         .preemptions = 2,
                                         .moves = 8};
    static struct search_result one, three;
    struct stage_scene scene = STAGE_SCENE("token-thread");

    search(&scene, &bounds, 1, &one);
    search(&scene, &bounds, 3, &three);
    assert_int_equal(one.schedules, three.schedules);
    assert_int_equal(one.states, three.states);
    assert_memory_equal(one.faults, three.faults, sizeof(one.faults));
    assert_true(one.faults[STAGE_FOREIGN].is_found);
}

static struct {
    int pids[2]; /* of stages */
    unsigned calls, moves;
} ended;

static void go_on(int number)
{
    (void)number;
    (void)kill(ended.pids[1], SIGCONT);
}

/* The second of two stages is stopped between two lengths, and the first one killed when it
 * has played all of the next length. */
static bool end_one(void *ctx, const struct search_result *result)
{
    char path[64];
    FILE *children;

    (void)ctx;
    if (result->moves == 0)
        return true;
    if (ended.calls++ == 0) {
        ended.moves = result->moves;
        (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children",
                       (int)getpid());
        assert_non_null(children = fopen(path, "r"));
        assert_int_equal(
            fscanf(children, "%d %d", &ended.pids[0], &ended.pids[1]), 2);
        (void)fclose(children);
        (void)kill(ended.pids[1], SIGSTOP);
    } else if (ended.calls == 10) {
        (void)kill(ended.pids[0], SIGKILL);
        (void)alarm(2); /* nobody may be asked any more */
    }
    return true;
}

/* It ends the search at once, though nothing was to come from it. */
UNIT_TEST(test_a_stage_that_ends_when_it_is_done)
{
    const struct search_bounds bounds = {.preemptions = 2, .moves = 9};
    const struct stage_scene scene = STAGE_SCENE("none");
    static struct search_result result;
    struct fail error = {""};

    (void)signal(SIGALRM, go_on);
    assert_false(
        search_run(&scene, &bounds, 2, end_one, NULL, &result, &error));
    assert_string_equal(error.text, "a stage has ended by itself");
    assert_int_equal(result.moves, ended.moves);
}

int main(void)
{
    cmocka_set_test_filter(
        getenv("STAGE_DEEPER") ? "test_reduction_loses_nothing" : NULL);
    return unit_test_run(NULL, NULL);
}

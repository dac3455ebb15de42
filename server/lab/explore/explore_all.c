/*
 * See explore.h. Every lock that the stage plays, on the way of an order by which
 * the lock alone decides; and the ways by which nothing may break at all. What is
 * found is compared with the table of what each lock must hold (expected.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lock/dlock.h"
#include "server/lab/expected.h"
#include "server/lab/explore/explore.h"
#include "server/lab/stage/stage_options.h"

/* Besides the locks as they are: ways on which none of their faults is left. */
static const struct {
    const char *lock;
    bool batched; /* or order by order */
} sound[] = {
    {"fenced", false},
    {"fenced", true},
    {"redisson", false},
    {"fair", false},
};

struct tally {
    unsigned
        different;    /* faults that were found or missed, and should not be */
    unsigned unknown; /* that were not found in time */
    unsigned failed;  /* locks that could not be played */
};

/* ---- one row ------------------------------------------------------------ */

static void tell_row(const struct explore *explore)
{
    const struct search_result *result = &explore->result;
    const char *way = explore->scene.batched                    ? ", batched"
                      : explore->scene.deduct == DEDUCT_GUARDED ? ", guarded"
                                                                : "";
    char text[4 * STAGE_MOVES_MAX + 1], name[40];
    char verdict[EXPLORE_VERDICT_BYTES], extent[EXPLORE_EXTENT_BYTES];
    bool first = true;

    (void)snprintf(name, sizeof(name),
                   explore->markdown ? "| `%s`%s |" : "%s%s",
                   explore->scene.lock, way);
    printf(explore->markdown ? "%s" : "%-18s", name);
    for (int i = 0; i < STAGE_FAULT_N; i++) {
        const struct search_found *found = &result->faults[i];
        const char *word = stage_fault_word((enum stage_fault)i);

        if (!found->is_found)
            continue;
        stage_text(found->moves, found->n, text, sizeof(text));
        if (explore->markdown)
            printf("%s %s `%s`", first ? "" : "<br>", word, text);
        else
            printf("%s %-16s '%s'\n", first ? "" : "                  ", word,
                   text);
        first = false;
    }
    if (explore->markdown) {
        printf("%s | %" PRIu64 ": %s |\n",
               !first             ? ""
               : result->is_whole ? " none"
                                  : " none in those that were played",
               result->schedules, explore_extent(explore, extent));
    } else if (first) {
        printf(" %s\n", explore_verdict(explore, verdict));
    }
    (void)fflush(stdout);
}

/* "No" is an answer only if all schedules were played, however many moves they have. */
static void compare(const struct explore *explore,
                    const struct expected *expected, struct tally *tally)
{
    bool is_sound = explore->scene.deduct != DEDUCT_NAIVE;
    bool is_short = explore->bounds.moves < STAGE_MOVES_MAX;

    for (int i = 0; i < STAGE_FAULT_N; i++) {
        const char *word = stage_fault_word((enum stage_fault)i);
        bool is_found = explore->result.faults[i].is_found;
        bool breaks = !is_sound && expected_breaks(expected, word);

        if (is_found == breaks)
            continue;
        if (!is_found && (!explore->result.is_whole || is_short))
            tally->unknown++;
        else
            tally->different++;
        fprintf(stderr, "stockade: explore: %s, %s: %s is %s, and %s\n",
                explore->scene.lock, explore_deduct(explore), word,
                breaks ? "expected" : "not expected",
                is_found                    ? "was found"
                : !explore->result.is_whole ? "was not found, but not all was "
                                              "played"
                : is_short                  ? "was not found in so few moves"
                                            : "was not found");
    }
}

static void play(struct explore *explore, const char *lock, struct tally *tally)
{
    const struct expected *expected = expected_of(lock);
    char error[300] = "";

    if (stage_options_interrupted())
        return;
    explore->scene.lock = lock;
    if (!expected)
        (void)snprintf(error, sizeof(error), "no row in expected.c");
    else if (!expected->faults) /* the stage has not what it needs */
        return;
    if (!expected || !explore_search(explore, error, sizeof(error))) {
        fprintf(stderr, "stockade: explore: %s: %s\n", lock, error);
        tally->failed++;
        return;
    }
    if (explore->json)
        explore_tell_json(explore);
    else
        tell_row(explore);
    if (!stage_options_interrupted())
        compare(explore, expected, tally);
}

int explore_all(struct explore *explore)
{
    const struct dlock_strategy_info *info;
    struct tally tally = {.different = 0};

    if (!explore->json)
        explore_tell_bounds(explore);
    if (explore->markdown)
        printf("| lock | breaks by: the shortest schedules | played |\n"
               "|---|---|---|\n");
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++)
        play(explore, info->name, &tally);
    explore->scene.deduct = DEDUCT_GUARDED;
    for (size_t i = 0; i < sizeof(sound) / sizeof(sound[0]); i++) {
        explore->scene.batched = sound[i].batched;
        play(explore, sound[i].lock, &tally);
    }
    if (tally.different > 0)
        return EXPLORE_BROKEN;
    return tally.failed > 0 || tally.unknown > 0 || stage_options_interrupted()
               ? EXPLORE_COULD_NOT_RUN
               : EXPLORE_AS_EXPECTED;
}

/*
 * See explore.h. Every lock that the stage plays, in the way of an order by which the
 * lock alone decides; and then other ways, by a table. The faults that are found are
 * compared with the table of what each lock must hold (expected.h): a way that deducts
 * guarded must not oversell, and has the other faults of its lock.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lock/dlock.h"
#include "server/lab/base/expected.h"
#include "server/lab/explore/explore.h"
#include "server/lab/scene/stage_options.h"

enum { FLAGS_BYTES = 200 };

/* Bounds for long programs, because a fault that stands late in them must be reached in
 * time: more troubles lead to more schedules, and not to longer ones. */
#define FEW     "--troubles 1 --preemptions 2"
#define SHALLOW "--troubles 0 --preemptions 0 --waits 1"

/* Redis forgets all: a trouble of its own, because most locks are lost by it. */
#define FORGETS                                                                \
    "--forgets 1 --lost-replies 0 --late 0 --renewals 0 --refusals 0 "         \
    "--preemptions 3"

/* One of several servers begins anew, while a command to another is held up. */
#define ONE_FORGETS                                                            \
    "--forgets 1 --lost-replies 0 --renewals 0 --refusals 0 --expiries 0 "     \
    "--crashes 0 --preemptions 1 --waits 0"

/* With three, a queue has a second place. */
#define QUEUE "--troubles 1 --preemptions 3"

/* One dies in the queue, and the next one has to look for longer than a heartbeat. */
#define DEAD_AHEAD                                                             \
    "--waits 4 --troubles 1 --expiries 0 --lost-replies 0 --late 0 "           \
    "--renewals 0 --refusals 0 --preemptions 2"

/* Nothing happens but that the time to pay runs out. */
#define OVERDUE                                                                \
    "--troubles 1 --crashes 0 --lost-replies 0 --late 0 --renewals 0 "         \
    "--refusals 0 --preemptions 1"

/* A line of ways.txt: a row for each of its locks. */
static const struct way {
    unsigned seconds; /* at most, for each row */
    const char *bounds, *locks, *flags;
} ways[] = {
#define ROW(seconds, bounds, locks, flags) {seconds, bounds, locks, flags},
#include "server/lab/explore/ways.inc"
};

struct tally {
    unsigned rows;      /* that were asked for */
    unsigned different; /* faults: found or missed, and should not be */
    unsigned unknown;   /* that were not found in time */
    unsigned failed;    /* locks that could not be played */
};

/* ---- one row ------------------------------------------------------------ */

/* The lock and the flags by which replay plays it. */
static const char *row_name(const struct explore *explore)
{
    static char name[240];

    (void)snprintf(name, sizeof(name), "%s%s%s", explore->scene.lock,
                   explore->flags[0] ? " " : "", explore->flags);
    return name;
}

static void tell_row(const struct explore *explore, const char *bounds)
{
    const struct search_result *result = &explore->result;
    const char *before = "";

    printf(explore->markdown ? "| `%s` |" : "%-18s", row_name(explore));
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++) {
        if (!result->faults[i].is_found)
            continue;
        printf(explore->markdown ? "%s %s `%s`" : "%s %-16s '%s'\n", before,
               stage_fault_word(i), search_text(&result->faults[i]));
        /* The markdown has all of a row in one line; people have a line for
         * each fault. */
        before = explore->markdown ? "<br>" : "                  ";
    }
    if (explore->markdown)
        printf("%s | %" PRIu64 ": %s%s%s |\n",
               *before            ? ""
               : result->is_whole ? " none"
                                  : " none in those that were played",
               result->schedules, explore_extent(explore),
               bounds[0] ? "; " : "", bounds);
    else if (!*before)
        printf(" %s\n", explore_verdict(explore));
}

/* "No" is an answer only if all schedules were played within bounds that reach what is
 * expected. */
static void compare(const struct explore *explore,
                    const struct expected *expected, struct tally *tally)
{
    bool is_guarded = explore->scene.deduct != DEDUCT_NAIVE;
    char lacks[80] = "";

    /* The first reason is enough: a search that was cut short, or bounds that were
     * too narrow. */
    if (!explore->result.is_whole)
        (void)snprintf(lacks, sizeof(lacks), ", but not all was played");
    for (int i = 0; i < SEARCH_BOUNDS_N && !lacks[0]; i++)
        if (explore->bounds.most[i] < search_bound_rows[i].expected)
            (void)snprintf(lacks, sizeof(lacks),
                           " with --%s %u: %u is enough to tell",
                           search_bound_rows[i].flag, explore->bounds.most[i],
                           search_bound_rows[i].expected);
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++) {
        const char *word = stage_fault_word(i);
        bool is_found = explore->result.faults[i].is_found;
        /* Guarded, the database refuses what the lock let in: the same lock must
         * not oversell. */
        bool is_mended = is_guarded && i == STAGE_OVERSOLD;
        bool breaks = !is_mended && expected_breaks(expected, word);

        if (is_found == breaks)
            continue;
        /* A fault that is missing may lie in what was not played: unknown is
         * not different. */
        if (!is_found && lacks[0])
            tally->unknown++;
        else
            tally->different++;
        fprintf(stderr,
                "stockade: explore: %s: %s is %sexpected, and was %s%s\n",
                row_name(explore), word, breaks ? "" : "not ",
                is_found ? "found" : "not found", is_found ? "" : lacks);
    }
}

/* FLAGS of a way make sense, because they are ours. TEXT must stay as long as the
 * scene. */
static void take_flags(struct explore *explore, char *text)
{
    char *name, *arg;
    bool good;

    /* A flag of a way is a bound or of the stage: none is both. */
    while (stage_options_next(&text, &name, &arg)) {
        good = (arg && explore_take_bound(explore, name, arg)) ||
               stage_options_take(&explore->scene, name, arg);
        assert(good);
        (void)good;
    }
}

static void play(const struct explore *asked, const struct way *way,
                 const char *lock, struct tally *tally)
{
    static struct explore explore; /* what it has found takes room */
    const struct expected *expected = expected_of(lock);
    char flags[FLAGS_BYTES], bounds[FLAGS_BYTES];
    const char *only = asked->only ? asked->only : "", *name;
    struct fail error = {"no row in expected.txt"};

    /* Each row begins with what was asked for, and has its way's flags on top. */
    explore = *asked;
    explore.scene.lock = lock;
    /* Random ones are for what lies behind many moves. */
    explore.wide =
        asked->bounds.moves < STAGE_MOVES_MAX ? NULL : &asked->bounds;
    explore.flags = way->flags;
    /* The time that was asked for may be less than the row's own; more would be spent
     * for nothing on a row that is whole sooner. */
    if (asked->seconds == 0 || asked->seconds > way->seconds)
        explore.seconds = way->seconds;
    /* ONLY: any text in a row's name; "=NAME", the whole of it. */
    name = row_name(&explore);
    /* A row that was not asked for is none: it must not be counted as one that
     * was searched. */
    if (stage_options_interrupted() ||
        (only[0] == '=' ? strcmp(only + 1, name) != 0
                        : strstr(name, only) == NULL))
        return;
    tally->rows++;
    /* The texts are cut apart in place: copies are. */
    (void)snprintf(flags, sizeof(flags), "%s", way->flags);
    (void)snprintf(bounds, sizeof(bounds), "%s", way->bounds);
    take_flags(&explore, flags);
    take_flags(&explore, bounds);
    if (!expected || !explore_search(&explore, &error)) {
        (void)fail_aloud("explore: %s: %s", row_name(&explore), error.text);
        tally->failed++;
        return;
    }
    if (explore.json)
        (void)explore_tell_json(&explore, true);
    else
        tell_row(&explore, way->bounds);
    (void)fflush(stdout);
    /* A search that was interrupted says nothing of what is missing. */
    if (!stage_options_interrupted())
        compare(&explore, expected, tally);
}

static bool is_of(const struct way *way, const char *lock)
{
    const struct expected *expected = expected_of(lock);

    if (!expected) /* which is an error */
        return strcmp(way->locks, "every") == 0;
    if (!expected->faults)
        return false;
    /* Locks that are right for one unit: they may only oversell by a lease that
     * was outlived. */
    if (strcmp(way->locks, "right") == 0)
        return strcmp(expected->faults, "oversold") == 0 ||
               strcmp(expected->faults, "oversold late-change") == 0 ||
               expected->faults[0] == '\0';
    return strcmp(way->locks, "every") == 0 ||
           expected_has_word(way->locks, lock);
}

/* Hours for nobody, if the output goes nowhere. */
int explore_all(const struct explore *explore)
{
    const struct dlock_strategy_info *info;
    struct tally tally = {.different = 0};

    if (!explore->json)
        explore_tell_bounds(stdout, explore);
    if (explore->markdown)
        printf("| lock | breaks by: the shortest schedules | played |\n"
               "|---|---|---|\n");
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        for (size_t j = 0; (info = dlock_strategy_info(j)) && !ferror(stdout);
             j++)
            if (is_of(&ways[i], info->name))
                play(explore, &ways[i], info->name, &tally);
    /* A name that is in no row would be "as expected": nothing was compared. */
    if (tally.rows == 0 && !stage_options_interrupted())
        return fail_to_run("explore: no row is called '%s'", explore->only);
    /* A difference is told before what could not be said: it is a finding either way. */
    if (tally.different > 0)
        return EXPLORE_BROKEN;
    return tally.failed > 0 || tally.unknown > 0 || stage_options_interrupted()
               ? EXPLORE_COULD_NOT_RUN
               : EXPLORE_AS_EXPECTED;
}

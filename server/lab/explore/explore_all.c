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
#include "server/lab/expected.h"
#include "server/lab/explore/explore.h"
#include "server/lab/stage/stage_options.h"

enum { FLAGS_BYTES = 200, ROW_BYTES = 240 };

#define EVERY NULL /* lock that the stage plays */
#define RIGHT                                                                  \
    "" /* locks that only the end of a lease, or a late command, can break */

#define SAME(program) program ":user=1:key=k," program ":user=1:key=k"

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

/* A way to play: a row of the table for each of its locks. Its FLAGS are what replay
 * must be given, and stand in the row's name. */
static const struct way {
    const char *locks; /* with blanks between */
    const char *flags;
    const char *bounds; /* that differ from those of all, as flags */
    unsigned seconds;   /* at most, for each row */
} ways[] = {
    {EVERY, "", "", 300},
    {"fenced redisson fair", "--deduct guarded", "", 120},
    {"multi redlock", "--deduct guarded", "", 60},
    {"fenced", "--batched", "", 180},
    {"fenced", "--batched --stock 3", "", 60},
    {"fenced", "--batched --buyers 1", "", 90},
    {"fenced", "--batched --buyers 1 --stock 4", "", 90},

    /* who gives up before a lease ends; units for both */
    {RIGHT, "--deduct guarded --wait-ms 1000", "", 45},
    {"fenced", "--wait-ms 1000", "", 60},
    {RIGHT, "--deduct guarded --stock 2", "", 45},
    {"fenced", "--stock 2", "", 60},
    {"fenced", "--stock 3", "--troubles 1 --preemptions 1", 60},
    {"fenced", "--batched --wait-ms 1000", "", 90},
    {"redisson", "--deduct guarded --wait-ms 1", "", 45},

    /* two in the queue behind the holder */
    {"fenced redisson fair", "--deduct guarded --buyers 3 --stock 3", QUEUE,
     60},
    {"fenced redisson fair",
     "--deduct guarded --wait-ms 1000 --buyers 3 --stock 3", QUEUE, 60},
    {"redisson", "--deduct guarded --wait-ms 1000 --buyers 3 --one-process",
     QUEUE, 60},

    /* a part of the stock each, and an order that needs both */
    {"fenced", "--deduct guarded --segments 2 --stock 2", "", 45},
    {"fenced",
     "--deduct guarded --segments 2 --stock 2 --programs "
     "order:quantity=2,order",
     FEW, 45},
    {"fenced", "--batched --buyers 1 --segments 2 --stock 3", "", 45},
    {"fenced",
     "--batched --segments 2 --stock 2 --programs instance:quantity=2,instance",
     SHALLOW, 60},

    /* all copies of a command get lost: its sender knows nothing */
    {"redisson fenced fair multi", "--deduct guarded",
     "--lost-replies 3 --troubles 3 --late 0 --expiries 0 --preemptions 2", 45},
    {"redisson", "--deduct guarded --wait-ms 1 --programs order-again,order",
     "--lost-replies 3 --troubles 4 --crashes 0 --expiries 0 --renewals 0", 60},

    /* held once more by who holds it */
    {"fenced redisson", "--deduct guarded --programs lock-nested,lock", "", 45},
    {"fenced", "--deduct guarded --programs order-nested,order", "", 45},
    {"reentrant", "--programs order-nested,order", "", 45},

    /* a lease that is made shorter, and a late command of it */
    {"redisson fenced fair",
     "--deduct guarded --buyers 1 --programs lock-extends",
     "--late 1 --renewals 2 --troubles 4", 60},
    {"redisson fenced fair", "--deduct guarded --programs lock-extends,lock",
     "", 45},

    /* the same session once more */
    {"redisson fenced fair multi",
     "--deduct guarded --stock 3 --programs order-twice,order", FEW, 45},
    {"fenced redisson fair",
     "--deduct guarded --wait-ms 1000 --stock 3 --programs order-twice,order",
     FEW, 45},
    {"fair", "--deduct guarded --stock 2 --programs order-twice,order",
     DEAD_AHEAD, 60},

    {"redisson fenced fair", "--deduct guarded", FORGETS, 45},
    {"fenced", "--batched --buyers 1", FORGETS, 60},
    {"redlock", "--deduct guarded", ONE_FORGETS, 180},

    /* keys: one order, whoever sends it how often */
    {"fenced", "--deduct guarded --programs " SAME("order"), FEW, 45},
    {"fenced redisson",
     "--deduct guarded --stock 3 --programs " SAME("order-twice"), FEW, 45},
    {"fenced", "--stock 2 --programs " SAME("order-again"), FEW, 45},
    {"fenced",
     "--deduct guarded --stock 3 --programs "
     "order:user=1:key=k,order:user=2:key=k",
     FEW, 45},
    {"fenced", "--deduct guarded --stock 3 --programs order-twice:key=k,order",
     FEW, 45},
    {"fenced", "--batched --programs " SAME("instance-same"), SHALLOW, 60},
    {"fenced", "--batched --stock 3 --programs " SAME("instance-same"), SHALLOW,
     60},

    /* a limit */
    {"fenced redisson",
     "--deduct guarded --stock 3 --limit 1 --programs "
     "order:user=1,order:user=1",
     FEW, 45},
    {"fenced", "--stock 2 --limit 1 --programs order:user=1,order:user=1", FEW,
     45},
    {"fenced",
     "--deduct guarded --stock 2 --limit 1 --programs "
     "order-cancel:user=1,order-again:user=1:key=k",
     FEW, 45},
    {"fenced",
     "--batched --stock 3 --limit 1 --programs "
     "instance-same:user=1,instance-same:user=1",
     SHALLOW, 60},

    /* units that come back, and units that are added */
    {"fenced redisson", "--deduct guarded --programs order-cancel,order-twice",
     FEW, 45},
    {"fenced", "--deduct guarded --one-process --programs order-cancel,order",
     FEW, 45},
    {"fenced",
     "--deduct guarded --buyers 3 --programs order-cancel:key=k,cancel:key=k,"
     "cancel:key=k",
     FEW, 45},
    {"fenced", "--batched --programs instance-cancel:key=k,instance", SHALLOW,
     60},
    {"fenced", "--batched --limit 1 --programs " SAME("instance-cancel"),
     SHALLOW, 60},
    {"fenced",
     "--batched --programs instance-cancel:key=k,instance-cancels:key=k",
     SHALLOW, 60},
    {"fenced", "--deduct guarded --programs restock-twice,order-twice", FEW,
     45},
    {"fenced",
     "--deduct guarded --stock 1 --programs restock-twice,restock-twice", FEW,
     45},
    {"fenced", "--batched --programs instance-refill,instance", SHALLOW, 60},
    {"fenced", "--batched --buyers 1 --stock 0 --programs instance-refill", "",
     60},
    {"fenced", "--batched --buyers 1 --stock 0 --programs instance-refused",
     FEW, 45},
    {"fenced", "--batched --programs instance-restock,instance-restock",
     SHALLOW, 60},

    /* payment, cancel and expiry of one order, and others who want its unit */
    {"fenced redisson",
     "--deduct guarded --pay-within 1 --programs order-pay:key=k,cancel:key=k",
     "", 90},
    {"redisson",
     "--deduct guarded --pay-within 1 --programs order-pay:key=k,pay:key=k", "",
     90},
    {"redisson",
     "--deduct guarded --pay-within 1 --buyers 3 --programs "
     "order:key=k,pay:key=k,cancel:key=k",
     FEW, 60},
    {"redisson",
     "--deduct guarded --pay-within 1 --programs order-pay,order-pay", FEW, 90},
    {"redisson",
     "--deduct guarded --pay-within 1 --buyers 3 --programs "
     "order-pay:key=k,cancel:key=k,order",
     OVERDUE, 90},
    {"redisson",
     "--deduct guarded --pay-within 1 --stock 2 --limit 1 --programs "
     "order-pay:user=1,order-twice:user=1",
     OVERDUE, 60},
    {"fenced",
     "--batched --pay-within 1 --buyers 1 --programs instance-pay:key=k", FEW,
     60},
    {"fenced",
     "--batched --pay-within 1 --programs "
     "instance-pay:key=k,instance-cancels:key=k",
     OVERDUE " --preemptions 0 --waits 0", 60},

    /* mixed */
    {"fenced",
     "--deduct guarded --buyers 3 --programs order-cancel:key=k:user=1,"
     "restock-twice,order-again:key=k:user=1",
     FEW, 45},
    {"fenced", "--batched --programs instance-refill,instance-cancel:key=k",
     SHALLOW, 60},
};

struct tally {
    unsigned
        different;    /* faults that were found or missed, and should not be */
    unsigned unknown; /* that were not found in time */
    unsigned failed;  /* locks that could not be played */
};

/* ---- one row ------------------------------------------------------------ */

/* The lock and the flags by which replay plays it. */
static const char *row_name(const struct explore *explore, char name[ROW_BYTES])
{
    (void)snprintf(name, ROW_BYTES, "%s%s%s", explore->scene.lock,
                   explore->flags[0] ? " " : "", explore->flags);
    return name;
}

static void tell_row(const struct explore *explore, const char *bounds)
{
    const struct search_result *result = &explore->result;
    char text[4 * STAGE_MOVES_MAX + 1], name[ROW_BYTES];
    char verdict[EXPLORE_VERDICT_BYTES], extent[EXPLORE_EXTENT_BYTES];
    bool first = true;

    printf(explore->markdown ? "| `%s` |" : "%-18s", row_name(explore, name));
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
        printf("%s | %" PRIu64 ": %s%s%s |\n",
               !first             ? ""
               : result->is_whole ? " none"
                                  : " none in those that were played",
               result->schedules, explore_extent(explore, extent),
               bounds[0] ? "; " : "", bounds);
    } else if (first) {
        printf(" %s\n", explore_verdict(explore, verdict));
    }
}

/* "No" is an answer only if all schedules were played, however many moves they have,
 * and if two troubles may come together: some faults need both. NULL: it is one. */
static const char *why_no_answer(const struct explore *explore)
{
    if (!explore->result.is_whole)
        return ", but not all was played";
    if (explore->bounds.moves < STAGE_MOVES_MAX)
        return " in so few moves";
    return explore->bounds.troubles < 2 ? " with so few troubles" : NULL;
}

static void compare(const struct explore *explore,
                    const struct expected *expected, struct tally *tally)
{
    bool is_guarded = explore->scene.deduct != DEDUCT_NAIVE;
    const char *why = why_no_answer(explore);
    char name[ROW_BYTES];

    for (int i = 0; i < STAGE_FAULT_N; i++) {
        const char *word = stage_fault_word((enum stage_fault)i);
        bool is_found = explore->result.faults[i].is_found;
        bool is_mended = is_guarded && i == STAGE_OVERSOLD;
        bool breaks = !is_mended && expected_breaks(expected, word);

        if (is_found == breaks)
            continue;
        if (!is_found && why)
            tally->unknown++;
        else
            tally->different++;
        fprintf(stderr,
                "stockade: explore: %s: %s is %sexpected, and was %s%s\n",
                row_name(explore, name), word, breaks ? "" : "not ",
                is_found ? "found" : "not found", !is_found && why ? why : "");
    }
}

/* FLAGS of a way make sense, because they are ours. TEXT must stay as long as the
 * scene. */
static void take_flags(struct explore *explore, char *text)
{
    char *name, *arg;
    bool good;

    while (stage_options_next(&text, &name, &arg)) {
        good = (arg && explore_take_bound(explore, name, arg)) ||
               stage_options_take(&explore->scene, name, arg);
        assert(good);
        (void)good;
    }
}

/* Time that a row may take: the way's, unless less is asked for. */
static unsigned seconds_of(const struct explore *asked, const struct way *way)
{
    return asked->seconds > 0 && asked->seconds < way->seconds ? asked->seconds
                                                               : way->seconds;
}

/* EXPLORE is a copy of what was asked, with the way's flags taken. */
static void play_row(struct explore *explore, const struct way *way,
                     struct tally *tally)
{
    const struct expected *expected = expected_of(explore->scene.lock);
    char error[300] = "", name[ROW_BYTES];

    if (!expected)
        (void)snprintf(error, sizeof(error), "no row in expected.c");
    if (!expected || !explore_search(explore, error, sizeof(error))) {
        fprintf(stderr, "stockade: explore: %s: %s\n", row_name(explore, name),
                error);
        tally->failed++;
        return;
    }
    if (explore->json)
        explore_tell_json(explore, true);
    else
        tell_row(explore, way->bounds);
    (void)fflush(stdout);
    if (!stage_options_interrupted())
        compare(explore, expected, tally);
}

/* ONLY: any text in a row's name; "=NAME", the whole of it; NULL, every row. */
static bool is_asked_for(const char *only, const char *name)
{
    if (!only)
        return true;
    return only[0] == '=' ? strcmp(only + 1, name) == 0
                          : strstr(name, only) != NULL;
}

static void play(const struct explore *asked, const struct way *way,
                 const char *lock, struct tally *tally)
{
    static struct explore explore; /* what it has found takes room */
    char flags[FLAGS_BYTES], bounds[FLAGS_BYTES], name[ROW_BYTES];

    explore = *asked;
    explore.scene.lock = lock;
    explore.wide = &asked->bounds;
    explore.flags = way->flags;
    explore.seconds = seconds_of(asked, way);
    if (stage_options_interrupted() ||
        !is_asked_for(asked->only, row_name(&explore, name)))
        return;
    (void)snprintf(flags, sizeof(flags), "%s", way->flags);
    (void)snprintf(bounds, sizeof(bounds), "%s", way->bounds);
    take_flags(&explore, flags);
    take_flags(&explore, bounds);
    play_row(&explore, way, tally);
}

static bool is_of(const struct way *way, const char *lock)
{
    const struct expected *expected = expected_of(lock);
    const char *at;
    size_t len = strlen(lock);

    if (way->locks == EVERY) /* and one without a row is an error */
        return !expected || expected->faults;
    if (!expected || !expected->faults)
        return false;
    if (way->locks[0] == '\0')
        return strcmp(expected->faults, "oversold") == 0 ||
               strcmp(expected->faults, "oversold late-change") == 0 ||
               expected->faults[0] == '\0';
    for (at = way->locks; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, lock, len) == 0 && strchr(" ", at[len]))
            return true;
    }
    return false;
}

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
        for (size_t j = 0; (info = dlock_strategy_info(j)) != NULL; j++)
            if (is_of(&ways[i], info->name))
                play(explore, &ways[i], info->name, &tally);
    if (tally.different > 0)
        return EXPLORE_BROKEN;
    return tally.failed > 0 || tally.unknown > 0 || stage_options_interrupted()
               ? EXPLORE_COULD_NOT_RUN
               : EXPLORE_AS_EXPECTED;
}

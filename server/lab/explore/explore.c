/*
 * `stockade explore LOCK`: the shortest schedules that break a lock, within
 * bounds, and what happens in the worst of them.
 */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lock/dlock.h"
#include "lock/textbook/textbook.h"
#include "server/base/clock.h"
#include "server/lab/base/expected.h"
#include "server/lab/explore/explore.h"
#include "server/lab/picture/draw.h"
#include "server/lab/scene/stage_options.h"

enum {
    PROGRESS_MS = 200,
    SECONDS_MAX = 86400,
    SEEDS = 1000000,
    RANDOM_SEED = 1, /* of those beside a search of all */
};

#define NOT_GIVEN UINT_MAX

static const char help[] =
#include "server/lab/help/explore.txt.inc"
#include "server/lab/help/stage.txt.inc"
    "\n"
    "Exit status: 0 nothing broke, and all within the bounds was played; 1\n"
    "something broke; 2 nothing broke in what was played, and that was not\n"
    "all, or it could not run. --all: 0 as expected, as far as was played, 1\n"
    "not as expected, 2 too little was played to say so.\n";

/* ---- what is asked ------------------------------------------------------ */

bool explore_take_bound(struct explore *explore, const char *name,
                        const char *arg)
{
    const struct {
        const char *name;
        unsigned *value, most;
    } numbers[] = {
        {"stages", &explore->stages, SEARCH_STAGES_MAX},
        {"seconds", &explore->seconds, SECONDS_MAX},
        {"random", &explore->random_s, SECONDS_MAX},
    };
    unsigned *value = NULL, most = STAGE_MOVES_MAX;
    int64_t number;

    if (strcmp(name, "seed") == 0)
        return stage_options_number(name, arg, 1, INT64_MAX, &explore->seed);
    for (int i = 0; i < SEARCH_BOUNDS_N; i++)
        if (strcmp(search_bound_rows[i].flag, name) == 0)
            value = &explore->bounds.most[i];
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (strcmp(numbers[i].name, name) == 0) {
            value = numbers[i].value;
            most = numbers[i].most;
        }
    if (!value || !stage_options_number(name, arg, 0, most, &number))
        return false;
    *value = (unsigned)number;
    return true;
}

static void take_defaults(struct explore *explore)
{
    const char *lock = explore->scene.lock;

    /* Nobody else has looked at the renewals of a lock of one's own. */
    if (lock && explore->bounds.renewals == NOT_GIVEN &&
        dlock_textbook_is_file(lock) &&
        (dlock_strategy_find(lock)->capabilities & DLOCK_CAP_RENEW) != 0)
        explore->bounds.renewals = search_bound_rows[SEARCH_RENEWALS].expected;
    for (int i = 0; i < SEARCH_BOUNDS_N; i++) {
        const struct search_bound_row *bound = &search_bound_rows[i];
        bool is_wider = !lock && bound->expected > bound->of_one;

        /* A search of one lock is for a person who waits: narrow bounds. A search of
         * all is compared with expected.txt, whose faults need the wider ones. */
        if (explore->bounds.most[i] == NOT_GIVEN)
            explore->bounds.most[i] = explore->random_s > 0 ? bound->at_random
                                      : is_wider            ? bound->expected
                                                            : bound->of_one;
    }
    if (explore->random_s == 0)
        return;
    explore->seconds = explore->random_s;
    explore->bounds.seed = (uint64_t)explore->seed;
    if (explore->seed == 0)
        /* A seed that nobody chose is told with the result: the same schedules can be
         * drawn again. */
        explore->bounds.seed = 1 + clock_us() % SEEDS;
}

static bool read_options(int argc, char *argv[], struct explore *explore)
{
    int no_reduction = 0, all = 0, zh = 0, sets_stage = 0, c, i;
    struct option flags[64] = {
        {"stages", required_argument, NULL, 'b'},
        {"seconds", required_argument, NULL, 'b'},
        {"random", required_argument, NULL, 'b'},
        {"seed", required_argument, NULL, 'b'},
        {"no-reduction", no_argument, &no_reduction, 1},
        {"json", no_argument, &explore->json, 1},
        {"markdown", no_argument, &explore->markdown, 1},
        {"all", no_argument, &all, 1},
        {"only", required_argument, NULL, 'o'},
        {"zh", no_argument, &zh, DRAW_CHINESE},
        {"help", no_argument, &explore->help, 1},
    };
    struct option *next = stage_options_add(flags);

    for (i = 0; i < SEARCH_BOUNDS_N; i++)
        *next++ = (struct option){search_bound_rows[i].flag, required_argument,
                                  NULL, 'b'};
    /* Short flags are two: h is for people, i for the page. */
    while ((c = getopt_long(argc, argv, "hi", flags, &i)) != -1) {
        if (c == '?')
            fprintf(stderr, "stockade explore --help lists the flags\n");
        if (c == '?' ||
            (c == 'c' &&
             !stage_options_take(&explore->scene, flags[i].name, optarg)) ||
            (c == 'b' && !explore_take_bound(explore, flags[i].name, optarg)))
            return false;
        explore->asked |= c == 'i';
        explore->help |= c == 'h';
        sets_stage |= c == 'c';
        if (c == 'o')
            explore->only = optarg;
    }
    explore->bounds.no_reduction = no_reduction;
    explore->look |= (unsigned)zh;
    explore->scene.lock = argv[optind];
    if (explore->asked && (!explore->json || all))
        return fail_aloud("explore: -i goes with --json, of one LOCK");
    /* Flags that would do nothing are refused: a search that was not asked for must not
     * look like one. */
    if (!all && (explore->markdown || explore->only))
        return fail_aloud("--markdown and --only go with --all");
    if (explore->seed > 0 && explore->random_s == 0)
        return fail_aloud("--seed goes with --random");
    if (all && (explore->random_s > 0 || sets_stage))
        return fail_aloud("--random and the stage's flags are of one LOCK: "
                          "each row of --all has a stage of its own");
    if (explore->help || argc - optind == (all ? 0 : 1))
        return true;
    fprintf(stderr, "usage: stockade explore [flags] LOCK, or --all; --help "
                    "tells more\n");
    return false;
}

/* ---- the search ----------------------------------------------------------- */

/* On a terminal, a line that rewrites itself. */
static bool on_progress(void *ctx, const struct search_result *result)
{
    static struct explore now;
    struct explore *explore = ctx;
    uint64_t now_ms = clock_ms(), ms = now_ms - explore->began_ms;
    int questions = 0;
    char text[400] = "";
    FILE *line;

    /* Faults that are enough end the search before its time: then it is not whole. */
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (result->faults[i].is_found && (explore->enough & 1u << i))
            return false;
    if (stage_options_interrupted() ||
        (explore->until_ms > 0 && now_ms >= explore->until_ms))
        return false;
    /* The page asks when it has room for an answer: a line for each question, and none
     * without one; a question that is read must be answered. */
    if (explore->asked)
        questions = stage_options_questions(0);
    for (; questions > 0; questions--) {
        now = *explore;
        now.result = *result;
        now.ms = ms;
        if (!explore_tell_json(&now, false))
            return false;
    }
    /* The end of the input is the end of who asked: nobody would read the rest. */
    if (questions < 0)
        return false;
    if (!isatty(STDERR_FILENO) || now_ms < explore->told_ms + PROGRESS_MS ||
        !(line = fmemopen(text, sizeof(text), "w")))
        return true;
    explore->told_ms = now_ms;
    draw_say(line, explore->look,
             "%s: %" PRIu64 " schedules, %s up to %u moves, %" PRIu64
             " a second%s",
             explore->scene.lock, result->schedules,
             explore->draws ? "of" : "all of", result->moves,
             result->schedules * 1000 / (ms + 1),
             explore_worst(explore) ? ", found a way" : "");
    (void)fclose(line);
    /* A line that wraps could not be rewritten. */
    fprintf(stderr, "\r\033[K%.*s",
            (int)draw_fit(text, (size_t)draw_columns(stderr) - 1), text);
    return true;
}

/* Until UNTIL_MS, 0 = all; its schedules count, and the faults that it has found beside
 * those of others. */
static bool search(struct explore *explore, const struct search_bounds *bounds,
                   uint64_t until_ms, struct search_result *result,
                   struct fail *error)
{
    struct search_result *all = &explore->result;
    bool good;

    explore->until_ms = until_ms;
    good = search_run(&explore->scene, bounds, explore->stages, on_progress,
                      explore, result, error);
    /* The first search is the result itself; the others are added to it. */
    if (result == all)
        return good;
    all->schedules += result->schedules;
    all->states += result->states;
    /* A fault of the search of all stays: it has the shortest schedule, and those of
     * the others are longer. */
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (result->faults[i].is_found && !all->faults[i].is_found)
            all->faults[i] = result->faults[i];
    return good;
}

bool explore_search(struct explore *explore, struct fail *error)
{
    static struct search_result found;
    const struct search_result *result = &explore->result;
    struct search_bounds calm = explore->bounds, random = explore->bounds;
    bool is_wider = false;
    bool in_parts = explore->seconds > 0 && explore->enough == 0 &&
                    !explore->asked && explore->random_s == 0;
    uint64_t quarter_ms = (uint64_t)explore->seconds * 250, end_ms, now_ms;
    bool good;

    /* A bound that was narrowed for the row is wide again for random schedules. */
    for (int i = 0; explore->wide && i < SEARCH_BOUNDS_N; i++)
        if (explore->wide->most[i] > random.most[i]) {
            random.most[i] = explore->wide->most[i];
            is_wider = true;
        }
    explore->began_ms = clock_ms();
    explore->calm = (struct search_result){.moves = 0};
    explore->at_random = 0;
    explore->draws = explore->random_s > 0;
    end_ms = quarter_ms > 0 ? explore->began_ms + 4 * quarter_ms : 0;
    /* In parts: half of the time for all schedules, a quarter for those with one
     * trouble, a quarter at random. */
    good = search(explore, &explore->bounds,
                  in_parts ? end_ms - 2 * quarter_ms : end_ms, &explore->result,
                  error);
    /* A search with one trouble has fewer schedules of each length, and reaches further
     * in the same time. */
    calm.troubles = 1;
    if (good && in_parts && !result->is_whole && explore->bounds.troubles > 1)
        good =
            search(explore, &calm, end_ms - quarter_ms, &explore->calm, error);
    /* A search of all that was whole leaves random ones nothing to find, unless they
     * may do more. */
    if (good && in_parts && (!result->is_whole || is_wider) &&
        !stage_options_interrupted()) {
        explore->draws = true;
        random.seed = RANDOM_SEED;
        /* The quarter counts from now: a search that ended early gives its time
         * to nobody. */
        now_ms = clock_ms();
        good =
            search(explore, &random,
                   now_ms + quarter_ms < end_ms ? now_ms + quarter_ms : end_ms,
                   &found, error);
        explore->at_random = found.schedules;
    }
    /* Bounds within which there is nothing to play tell nothing. */
    if (explore->result.schedules == 0)
        explore->result.is_whole = false;
    explore->ms = clock_ms() - explore->began_ms;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    return good;
}

static int explore_one(struct explore *explore)
{
    struct fail error = {""};
    int questions = explore->asked ? 0 : 1;
    bool good;

    /* The page hears at once that the search is there. */
    if (explore->asked)
        (void)explore_tell_json(explore, false);
    good = explore_search(explore, &error);
    /* The last line answers a question, too. */
    while (good && questions == 0 && stage_options_wait_input())
        questions = stage_options_questions(0);
    if (good && questions <= 0)
        return EXPLORE_COULD_NOT_RUN;
    if (good && explore->json)
        (void)explore_tell_json(explore, true);
    else if (good)
        good = explore_tell(explore, &error);
    (void)fflush(stdout);
    if (!good)
        return fail_to_run("explore: %s", error.text);
    /* A fault that was found is one however little was played; "none" needs all. */
    if (explore_worst(explore))
        return EXPLORE_BROKEN;
    return explore->result.is_whole ? EXPLORE_AS_EXPECTED
                                    : EXPLORE_COULD_NOT_RUN;
}

int explore_main(int argc, char *argv[])
{
    static struct explore explore = {.scene = STAGE_SCENE(NULL)};
    const struct stage_scene *scene = &explore.scene;
    struct stage *trial;
    bool good = true;
    struct fail error;

    for (int i = 0; i < SEARCH_BOUNDS_N; i++)
        explore.bounds.most[i] = NOT_GIVEN;
    explore.look = draw_look();
    if (!read_options(argc, argv, &explore))
        return EXPLORE_COULD_NOT_RUN;
    if (explore.help) {
        fputs(help, stdout);
        return 0;
    }
    stage_options_catch_signals();
    if (scene->lock)
        good = expected_lock(scene->lock, &error);
    /* A fault of a text is told before all else. */
    /* Its scripts have to compile on a server. */
    if (good && scene->lock && dlock_textbook_is_file(scene->lock)) {
        trial = stage_open(scene, &error);
        good = trial != NULL;
        stage_close(trial);
    }
    if (!good && !explore.asked)
        return fail_to_run("%s", error.text);
    if (!good) {
        draw_json_error(error.text, explore.look);
        return EXPLORE_COULD_NOT_RUN;
    }
    /* The renewals of a text are known only once the text was read. */
    take_defaults(&explore);
    return scene->lock ? explore_one(&explore) : explore_all(&explore);
}

/*
 * `stockade explore LOCK`: the shortest schedules that break a lock, within
 * bounds, and what happens in the worst of them.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lock/dlock.h"
#include "server/clock.h"
#include "server/lab/stage/draw.h"
#include "server/lab/stage/search.h"
#include "server/lab/stage/stage_commands.h"
#include "server/lab/stage/stage_options.h"

enum {
    NOTHING_BROKE = 0,
    BROKEN = 1,
    COULD_NOT_RUN = 2,
    PROGRESS_MS = 200,
    SECONDS_MAX = 86400
};

struct explore {
    struct stage_scene scene;
    struct search_bounds bounds;
    struct search_result result;
    unsigned stages, seconds; /* 0 = as many as it likes */
    uint64_t began_ms, told_ms;
    bool json, help;
};

static void help(void)
{
    printf(
        "usage: stockade explore [flags] LOCK\n\n"
        "Plays all schedules of real orders against a real Redis and a real\n"
        "database, the shortest first, and tells by which the lock breaks.\n"
        "Ctrl-C tells what is known by then.\n\n"
        "  --expiries N     leases that end [1]\n"
        "  --crashes N      processes that die [1]\n"
        "  --lost-replies N replies that get lost [0]\n"
        "  --late N         commands that arrive late [0]\n"
        "  --forgets N      times that Redis loses all data [0]\n"
        "  --troubles N     of all of these, in one schedule [64]\n"
        "  --waits N        waits that end by time, not by a word [2]\n"
        "  --renewals N     turns of a watchdog [0]\n"
        "  --preemptions N  times that a buyer who could go on has to wait "
        "[3]\n"
        "  --moves N        moves of the longest schedule [64]\n"
        "  --no-reduction   also play schedules that lead to a known state\n"
        "  --stages N       that play at once [one for each processor]\n"
        "  --seconds N      what is known by then is all that is told\n"
        "  --json           the result as one JSON object\n" STAGE_OPTIONS_HELP
        "\nExit status: 0 nothing broke, 1 something did, 2 could not run.\n");
}

/* ---- what is asked ------------------------------------------------------ */

static bool take_bound(struct explore *explore, const char *name,
                       const char *arg)
{
    struct search_bounds *bounds = &explore->bounds;
    const struct {
        const char *name;
        unsigned *value, most;
    } numbers[] = {
        {"expiries", &bounds->expiries, STAGE_MOVES_MAX},
        {"crashes", &bounds->crashes, STAGE_MOVES_MAX},
        {"lost-replies", &bounds->lost, STAGE_MOVES_MAX},
        {"late", &bounds->late, STAGE_MOVES_MAX},
        {"troubles", &bounds->troubles, STAGE_MOVES_MAX},
        {"waits", &bounds->waits, STAGE_MOVES_MAX},
        {"forgets", &bounds->forgets, STAGE_MOVES_MAX},
        {"renewals", &bounds->renewals, STAGE_MOVES_MAX},
        {"preemptions", &bounds->preemptions, STAGE_MOVES_MAX},
        {"moves", &bounds->moves, STAGE_MOVES_MAX},
        {"stages", &explore->stages, SEARCH_STAGES_MAX},
        {"seconds", &explore->seconds, SECONDS_MAX},
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        int64_t number = stage_options_number(arg, numbers[i].most);

        if (strcmp(numbers[i].name, name) != 0)
            continue;
        *numbers[i].value = (unsigned)number;
        if (number >= 0)
            return true;
        fprintf(stderr, "stockade: --%s takes 0 to %u\n", name,
                numbers[i].most);
    }
    return false;
}

static bool read_options(int argc, char *argv[], struct explore *explore)
{
    static const struct option flags[] = {
        {"expiries", required_argument, NULL, 'b'},
        {"crashes", required_argument, NULL, 'b'},
        {"lost-replies", required_argument, NULL, 'b'},
        {"late", required_argument, NULL, 'b'},
        {"forgets", required_argument, NULL, 'b'},
        {"troubles", required_argument, NULL, 'b'},
        {"waits", required_argument, NULL, 'b'},
        {"renewals", required_argument, NULL, 'b'},
        {"preemptions", required_argument, NULL, 'b'},
        {"moves", required_argument, NULL, 'b'},
        {"stages", required_argument, NULL, 'b'},
        {"seconds", required_argument, NULL, 'b'},
        {"no-reduction", no_argument, NULL, 'r'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        STAGE_OPTIONS,
        {0},
    };
    int c, i;

    while ((c = getopt_long(argc, argv, "h", flags, &i)) != -1) {
        if (c == '?' ||
            (c == 'c' &&
             !stage_options_take(&explore->scene, flags[i].name, optarg)) ||
            (c == 'b' && !take_bound(explore, flags[i].name, optarg)))
            return false;
        explore->bounds.no_reduction |= c == 'r';
        explore->json |= c == 'j';
        explore->help |= c == 'h';
    }
    if (explore->help || argc - optind == 1) {
        explore->scene.lock = argv[optind];
        return true;
    }
    fprintf(stderr,
            "usage: stockade explore [flags] LOCK; --help tells more\n");
    return false;
}

/* ---- what came of it ---------------------------------------------------- */

static uint64_t per_second(const struct explore *explore)
{
    uint64_t ms = clock_ms() - explore->began_ms;

    return explore->result.schedules * 1000 / (ms ? ms : 1);
}

static const struct search_found *worst(const struct explore *explore)
{
    for (int i = 0; i < STAGE_FAULT_N; i++)
        if (explore->result.faults[i].is_found)
            return &explore->result.faults[i];
    return NULL;
}

/* On a terminal, a line that rewrites itself. */
static bool on_progress(void *ctx, const struct search_result *result)
{
    struct explore *explore = ctx;
    uint64_t now_ms = clock_ms();

    if (stage_options_interrupted() ||
        (explore->seconds > 0 &&
         now_ms >= explore->began_ms + 1000 * (uint64_t)explore->seconds))
        return false;
    if (!isatty(STDERR_FILENO) || now_ms < explore->told_ms + PROGRESS_MS)
        return true;
    explore->told_ms = now_ms;
    fprintf(stderr,
            "\r\033[K%s: %" PRIu64 " schedules of up to %u moves, %" PRIu64
            " a second%s",
            explore->scene.lock, result->schedules, result->moves,
            per_second(explore), worst(explore) ? ", found a way" : "");
    return true;
}

static void tell_bounds(const struct explore *explore)
{
    const struct search_bounds *bounds = &explore->bounds;

    printf("%s, %s: %u buyers, stock %" PRId64 "; at most %u expiries, %u "
           "crashes,\n%u lost replies, %u late commands, %u preemptions\n\n",
           explore->scene.lock,
           explore->scene.deduct == DEDUCT_NAIVE ? "naive" : "guarded",
           explore->scene.buyers, explore->scene.stock, bounds->expiries,
           bounds->crashes, bounds->lost, bounds->late, bounds->preemptions);
}

/* The worst one, as it happens. */
static bool draw_worst(const struct explore *explore, char *error,
                       size_t error_size)
{
    bool colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    const struct search_found *found = worst(explore);
    struct stage *stage = stage_open(&explore->scene, error, error_size);
    bool good = stage != NULL;

    for (size_t i = 0; good && i < found->n; i++)
        good = stage_move(stage, found->moves[i], error, error_size);
    if (good) {
        putchar('\n');
        draw_head(stdout, &explore->scene, colour);
        draw_steps(stdout, stage, &explore->scene, 0, found->moves, colour);
        draw_verdict(stdout, stage_faults(stage), true, colour);
    }
    stage_close(stage);
    return good;
}

static void tell(const struct explore *explore)
{
    const struct search_result *result = &explore->result;
    char text[4 * STAGE_MOVES_MAX + 1];

    tell_bounds(explore);
    for (int i = 0; i < STAGE_FAULT_N; i++) {
        const struct search_found *found = &result->faults[i];

        if (!found->is_found)
            continue;
        stage_text(found->moves, found->n, text, sizeof(text));
        printf("  %-16s '%s'\n", stage_fault_word((enum stage_fault)i), text);
    }
    if (!worst(explore))
        printf("  none in %" PRIu64 " schedules within these bounds\n",
               result->schedules);
    printf("\n%" PRIu64 " schedules, %" PRIu64
           " states, up to %u moves, %" PRIu64 " a second%s\n",
           result->schedules, result->states, result->moves,
           per_second(explore),
           result->is_whole ? "" : "; not all within the bounds");
}

static void tell_json(const struct explore *explore)
{
    const struct search_result *result = &explore->result;
    char text[4 * STAGE_MOVES_MAX + 1];
    bool first = true;

    printf(
        "{\"lock\": \"%s\", \"deduct\": \"%s\", \"buyers\": %u, "
        "\"schedules\": %" PRIu64 ", \"states\": %" PRIu64
        ", \"moves\": %u, \"whole\": %s, \"ms\": %" PRIu64 ",\n\"faults\": {",
        explore->scene.lock,
        explore->scene.deduct == DEDUCT_NAIVE ? "naive" : "guarded",
        explore->scene.buyers, result->schedules, result->states, result->moves,
        result->is_whole ? "true" : "false", clock_ms() - explore->began_ms);
    for (int i = 0; i < STAGE_FAULT_N; i++) {
        const struct search_found *found = &result->faults[i];

        if (!found->is_found)
            continue;
        stage_text(found->moves, found->n, text, sizeof(text));
        printf("%s\"%s\": \"%s\"", first ? "" : ", ",
               stage_fault_word((enum stage_fault)i), text);
        first = false;
    }
    printf("}}\n");
}

static int run(struct explore *explore)
{
    char error[300] = "";
    bool good;

    stage_options_catch_signals();
    explore->began_ms = clock_ms();
    good = search_run(&explore->scene, &explore->bounds, explore->stages,
                      on_progress, explore, &explore->result, error,
                      sizeof(error));
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    if (explore->json)
        tell_json(explore);
    else if (good)
        tell(explore);
    if (good && worst(explore) && !explore->json)
        good = draw_worst(explore, error, sizeof(error));
    (void)fflush(stdout);
    if (!good)
        fprintf(stderr, "stockade: explore: %s\n", error);
    if (worst(explore))
        return BROKEN;
    return good && !stage_options_interrupted() ? NOTHING_BROKE : COULD_NOT_RUN;
}

int explore_main(int argc, char *argv[])
{
    static struct explore explore = {.scene = STAGE_SCENE(NULL),
                                     .bounds = {.expiries = 1,
                                                .crashes = 1,
                                                .troubles = STAGE_MOVES_MAX,
                                                .waits = 2,
                                                .preemptions = 3,
                                                .moves = STAGE_MOVES_MAX}};

    if (!read_options(argc, argv, &explore))
        return COULD_NOT_RUN;
    if (explore.help) {
        help();
        return 0;
    }
    if (!dlock_strategy_find(explore.scene.lock)) {
        stage_options_no_lock(explore.scene.lock);
        return COULD_NOT_RUN;
    }
    return run(&explore);
}

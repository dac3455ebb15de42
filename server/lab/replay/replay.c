/*
 * `stockade replay LOCK 'SCHEDULE'`: plays a schedule, and draws what happens.
 * The schedule is that of an experiment, of the explorer, or a person's own, who makes
 * it with -i, move by move (hand.c). `stockade replay FILE` draws a timeline
 * (replay_file.c).
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lock/textbook/textbook.h"
#include "server/lab/base/expected.h"
#include "server/lab/replay/game.h"
#include "server/lab/scene/stage_options.h"

enum { NOTHING_BROKE = 0, BROKEN = 1, COULD_NOT_RUN = 2 };

static struct {
    struct stage_scene scene;
    struct stage_move moves[STAGE_MOVES_MAX];
    size_t n;      /* moves to be played */
    int64_t until; /* --until; -1 = all */
    int json, help, by_hand;
    unsigned look;
    const char *save; /* --save FILE; or NULL */
    const char *svg;  /* --svg FILE; or NULL */
    char **files;     /* to draw instead */
    size_t files_n;   /* 0 = a schedule is played */
} replay = {.scene = STAGE_SCENE(NULL), .until = -1};

static const char help[] =
#include "server/lab/help/replay.txt.inc"
#include "server/lab/help/stage.txt.inc"
    "\n"
    "Exit status: 0 nothing broke, 1 something did, 2 could not run, or of a\n"
    "FILE nobody has looked.\n";

/* Else it is the name of a lock, or ought to be. */
static bool is_file(const char *word)
{
    if (dlock_textbook_is_file(word))
        return false; /* but a lock's */
    return strpbrk(word, "/.") ||
           (!dlock_strategy_find(word) && access(word, F_OK) == 0);
}

/* The words behind the flags: a lock and a schedule, or files to be drawn. */
static bool read_words(int n, char *words[])
{
    struct fail error;
    int moves;

    /* A lock's name is looked for first: a file that is called like one must not stand
     * in its place. */
    if (n >= 1 && n <= REPLAY_FILES_MAX && is_file(words[0])) {
        replay.files = words;
        replay.files_n = (size_t)n;
        return (!replay.json && !replay.save && !replay.svg) ||
               fail_aloud("replay: --json, --save and --svg go with a "
                          "schedule; a FILE has JSON in it already");
    }
    if (replay.by_hand && (replay.save || replay.svg))
        return fail_aloud("replay: -i is without --save and --svg; its "
                          "schedule can be played with them");
    /* Without the quotes the shell has cut the schedule into words: the first alone
     * would be played, and called all. */
    if (n > 2 && !replay.by_hand)
        return fail_aloud(
            "replay: a schedule has quotes around it: '%s %s ...'", words[1],
            words[2]);
    if (n != 2 && !(n == 1 && replay.by_hand)) {
        fprintf(stderr,
                "usage: stockade replay [flags] LOCK 'SCHEDULE' | -i LOCK | "
                "FILE [FILE]; --help tells more\n");
        return false;
    }
    replay.scene.lock = words[0];
    moves = stage_parse(n == 2 ? words[1] : "", replay.moves, &error);
    if (moves < 0)
        return fail_aloud("replay: %s", error.text);
    replay.n = (size_t)moves;
    if (replay.until >= 0 && (size_t)replay.until < replay.n)
        replay.n = (size_t)replay.until;
    return true;
}

static bool read_options(int argc, char *argv[])
{
    static int zh;
    /* The table has room for the common flags and for the row of zeros. */
    static struct option flags[32] = {
        {"until", required_argument, NULL, 'u'},
        {"json", no_argument, &replay.json, 1},
        {"svg", required_argument, NULL, 'v'},
        {"save", required_argument, NULL, 's'},
        {"zh", no_argument, &zh, DRAW_CHINESE},
        {"help", no_argument, &replay.help, 1},
    };
    int c, i;

    (void)stage_options_add(flags);
    while ((c = getopt_long(argc, argv, "hi", flags, &i)) != -1) {
        if (c == 's')
            replay.save = optarg;
        if (c == 'v')
            replay.svg = optarg;
        replay.help |= c == 'h';
        replay.by_hand |= c == 'i';
        if (c == '?')
            fprintf(stderr, "stockade replay --help lists the flags\n");
        /* --until counts events of a live instance, and there are many. */
        if (c == '?' ||
            (c == 'u' && !stage_options_number("until", optarg, 0, INT32_MAX,
                                               &replay.until)) ||
            (c == 'c' &&
             !stage_options_take(&replay.scene, flags[i].name, optarg)))
            return false;
    }
    replay.look |= (unsigned)zh;
    return replay.help || read_words(argc - optind, argv + optind);
}

/* Into the file that FLAG names; NULL: there is none. */
static bool save(const struct game *game, const char *flag, const char *path,
                 game_writer *write)
{
    struct fail error;

    /* A file has a verdict, so a broken stage must have none. */
    return !path || stage_is_broken(game->stage, &error) ||
           game_save(path, game, write, &error) ||
           fail_aloud("replay: %s: %s", flag, error.text);
}

static int run(void)
{
    static struct game game;
    struct stage_move moves[STAGE_ENABLED_MAX];
    char text[4 * STAGE_ENABLED_MAX];
    bool played, saved, is_broken;
    struct fail error;
    size_t n;

    stage_options_catch_signals();
    if (!game_open(&game, &replay.scene, replay.json ? NULL : stdout,
                   replay.look))
        return fail_to_run("replay: %s", game.error.text);
    /* The columns' heads come before any move: a schedule that fails has its picture up
     * to there. */
    game_draw(&game);
    played = game_play(&game, replay.moves, replay.n);
    /* A broken stage has no verdict: the error below is all that is said. */
    is_broken = stage_is_broken(game.stage, &error);
    if (replay.json && !is_broken) {
        draw_json_line(stdout, game_json(&game, 0));
    } else if (!is_broken) {
        n = stage_enabled(game.stage, moves);
        draw_verdict(stdout, &game.verdict, stage_is_over(game.stage),
                     replay.look);
        if (n > 0)
            draw_say(stdout, replay.look, "moves now: %s\n",
                     stage_text(moves, n, text, sizeof(text)));
    }
    /* The picture must be out before a line on standard error speaks of it. */
    (void)fflush(stdout);
    if (!played)
        (void)fail_aloud("replay: move %zu: %s", game.n + 1, game.error.text);
    /* Both files are written, even if one cannot be. */
    saved = save(&game, "--save", replay.save, game_write_timeline);
    saved = save(&game, "--svg", replay.svg, game_write_svg) && saved;
    game_close(&game);
    return !played || !saved          ? COULD_NOT_RUN
           : game.verdict.faults != 0 ? BROKEN
                                      : NOTHING_BROKE;
}

int replay_main(int argc, char *argv[])
{
    static const struct game_goal whatever = {.faults = 0};
    struct fail error;

    replay.look = draw_look();
    if (!read_options(argc, argv))
        return COULD_NOT_RUN;
    if (replay.help) {
        fputs(help, stdout);
        return 0;
    }
    if (replay.files_n > 0)
        return replay_files(replay.files, replay.files_n, replay.until,
                            replay.look);
    /* A lock's text is read before a stage is opened: the stage knows locks by
     * name alone. */
    if (!expected_lock(replay.scene.lock, &error)) {
        if (!replay.by_hand || !replay.json)
            return fail_to_run("%s", error.text);
        draw_json_error(error.text, replay.look); /* for who plays by lines */
        return COULD_NOT_RUN;
    }
    if (!replay.by_hand)
        return run();
    return replay.json ? lines_play(&replay.scene, replay.moves, replay.n,
                                    &whatever, replay.look)
                       : hand_play(&replay.scene, replay.moves, replay.n,
                                   &whatever, replay.look, NULL);
}

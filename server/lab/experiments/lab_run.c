/*
 * `stockade lab run NAME...`: each experiment with its bug and with its fix. One is
 * told at length; of several there is a line each. See experiment.h.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dlock.h"
#include "server/base/clock.h"
#include "server/lab/experiments/experiment.h"
#include "server/lab/load/load.h"
#include "server/lab/replay/game.h"
#include "server/lab/scene/stage_options.h"
#include "server/lab/world/world.h"

/* The command is the whole process: what was asked for, and what came of it. */
static struct lab_options options;
static const struct experiment **all; /* that are meant, in their order */
static unsigned all_n, run_n, as_told_n;
static unsigned broken_n; /* could not be run */

static const char help[] =
#include "server/lab/help/run.txt.inc"
    ;

/* ---- for people --------------------------------------------------------- */

/* A part of a line. */
static void tell(const char *code, const char *english)
{
    draw_in(stdout, options.look, code, english);
}

#define SAY(...) draw_say(stdout, options.look, __VA_ARGS__)

/* PLAY: number INDEX of the experiment, or a change of it. */
static void tell_scene(const struct experiment *experiment, unsigned index,
                       const struct experiment_play *play)
{
    tell(DRAW_BOLD, experiment_play_title(experiment, index));
    putchar('\n');
    lab_scene(experiment, play, options.look);
    putchar('\n');
}

/* One line of the verdict. */
static void tell_finding(const char *colour, const char *word, const char *text)
{
    tell("", "verdict: ");
    tell(colour, word);
    tell("", *word ? ": " : "");
    tell("", text);
    putchar('\n');
}

static void tell_as_told(bool as_told)
{
    tell(as_told ? DRAW_GREEN : DRAW_RED,
         as_told ? "as told\n" : "NOT AS TOLD\n");
}

static void tell_verdict(const struct experiment_play *play,
                         const struct experiment_run *run)
{
    /* The words count only if all else is as told: alone they are no finding. */
    bool is_heard = play->says && run->as_told;
    bool is_said = run->said[0] && run->verdict.faults == 0;

    SAY("ledger: stock %" PRId64 ", sold %" PRId64 ", orders %" PRId64 "\n",
        run->stock, run->sold, run->orders);
    if (run->said[0])
        draw_english(stdout, 0, options.look, run->said);
    if (is_heard)
        tell_finding(DRAW_RED, "somebody is told", play->says);
    /* "Nothing broke" is beside the point where somebody was told what is wrong, and more
     * than is known where the locks were not seen. */
    if (is_said)
        tell_finding(DRAW_GREEN, "",
                     "the ledger is right; what counts is above");
    else if (!is_heard || run->verdict.faults)
        draw_verdict(stdout, &run->verdict, run->is_over, options.look);
    printf("-> ");
    tell_as_told(run->as_told);
    putchar('\n');
}

/* "oversold, foreign-release"; "none". */
static void tell_faults(unsigned faults)
{
    const char *between = "";

    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (faults & EXPERIMENT_FAULT(i)) {
            printf("%s%s", between, stage_fault_word(i));
            between = ", ";
        }
    SAY("%s", faults == 0 ? "none" : "");
}

/* A run that did not go as told: what was expected, and what came of it. */
static void tell_difference(const struct experiment_play *play,
                            const struct experiment_run *run, const char *title)
{
    SAY("  %s: expected ", title);
    tell_faults(play->faults);
    if (play->schedule)
        SAY(", sold %" PRId64, play->sold);
    if (play->says)
        SAY(", \"%s\"", play->says);
    SAY("; found ");
    tell_faults(run->verdict.faults | run->verdict.remarks);
    SAY(", sold %" PRId64, run->sold);
    /* A run without a fault is as told only if all are done. */
    SAY("%s\n", run->is_over ? "" : ", not all are done");
}

static void tell_before(const struct experiment *experiment)
{
    const char *const *text = reader_texts(&experiment->entry, options.look);

    /* One of several has a line; its end comes when it is over. */
    if (all_n > 1) {
        printf("[%2u/%u] %-4s %-28s ", run_n + 1, all_n, experiment->entry.id,
               experiment->entry.name);
        (void)fflush(stdout);
        return;
    }
    draw_title(stdout, options.look, experiment->entry.id,
               text[EXPERIMENT_TITLE]);
    printf(" - %s\n\n", text[EXPERIMENT_SYMPTOM]);
    draw_paragraph(stdout, options.look, "What you will see",
                   text[EXPERIMENT_SEE]);
}

/* Play INDEX of one that is told at length: its verdict, and what is learnt from it. */
static void tell_after(const struct experiment *experiment, unsigned index,
                       const struct experiment_run *run)
{
    const char *const *text = reader_texts(&experiment->entry, options.look);

    if (experiment->plays[index].scene.lock)
        tell_verdict(&experiment->plays[index], run);
    if (index == EXPERIMENT_BUG) {
        draw_paragraph(stdout, options.look, "Why", text[EXPERIMENT_WHY]);
        draw_paragraph(stdout, options.look, "What fixes it",
                       text[EXPERIMENT_HOW]);
    } else if (index == EXPERIMENT_FIX && text[EXPERIMENT_TEXT_REST]) {
        draw_paragraph(stdout, options.look, "What the fix leaves open",
                       text[EXPERIMENT_TEXT_REST]);
    }
}

/* ---- running ------------------------------------------------------------ */

/* One way. False: it could not be run. */
static bool play(const struct experiment *experiment, unsigned index,
                 struct experiment_run *run)
{
    const char *save = options.save;
    /* A path that is cut here is one that fopen() finds too long, and says so. */
    char path[PATH_MAX + sizeof(".rest")];

    run->out = options.json || all_n > 1 ? NULL : stdout;
    run->json = options.json ? json_object() : NULL;
    /* JSON is for programs: its texts are English, and have no colours. */
    run->look = options.json ? 0 : options.look;
    run->brief = options.brief;
    run->name = experiment->entry.name;
    /* Real instances are over when they are; on the stage conclude() says so. */
    run->is_over = true;
    /* Three runs have three files: the first has the name as it is. */
    (void)snprintf(path, sizeof(path), "%s%s", save ? save : "",
                   (const char *[]){"", ".fix", ".rest"}[index]);
    if (save && experiment->kind != &steps_kind)
        return fail_with(&run->error,
                         "--save keeps what is played on the stage; instances "
                         "have serve --lab-timeline");
    run->save = save ? path : NULL;
    return experiment->kind->run(&experiment->plays[index], run);
}

static void run_one(const struct experiment *experiment)
{
    bool at_length = all_n == 1 && !options.json, ran = true, as_told = true;
    struct experiment_run results[EXPERIMENT_PLAYS_N] = {{0}};
    json_t *told =
        json_pack("{s:s, s:s, s:s}", "id", experiment->entry.id, "name",
                  experiment->entry.name, "kind", experiment->kind->name);
    uint64_t began_us = clock_us();

    if (!options.json)
        tell_before(experiment);
    /* A run that could not be ends the experiment: its fix alone would say little. */
    for (unsigned i = 0; i < EXPERIMENT_PLAYS_N && ran; i++) {
        const struct experiment_play *each = &experiment->plays[i];
        struct experiment_run *run = &results[i];

        /* A play that is not there is as told. */
        run->as_told = !each->scene.lock;
        if (each->scene.lock && at_length)
            tell_scene(experiment, i, each);
        if (each->scene.lock)
            ran = play(experiment, i, run);
        as_told = as_told && run->as_told;
        if (run->json)
            (void)json_object_update_new(run->json, experiment_json(run));
        (void)json_object_set_new(told, experiment_play_word(i),
                                  run->json ? run->json : json_null());
        /* The lesson is told behind each run, and not at the end. */
        if (ran && at_length)
            tell_after(experiment, i, run);
        if (ran)
            continue;
        if (!at_length && !options.json)
            putchar('\n');
        (void)fflush(stdout);
        (void)fail_aloud("lab run %s, %s: %s", experiment->entry.id,
                         experiment_play_word(i), run->error.text);
    }
    (void)json_object_set_new(told, "as_told", json_boolean(as_told));
    /* Half of an experiment is no line of JSON: the error was said above. */
    if (ran && options.json) {
        draw_json_line(stdout, json_incref(told));
    } else if (ran && !at_length) {
        printf("%5.1f s  ", (double)(clock_us() - began_us) / 1e6);
        tell_as_told(as_told);
    }
    for (unsigned i = 0; i < EXPERIMENT_PLAYS_N && ran && !options.json; i++)
        if (!results[i].as_told)
            tell_difference(&experiment->plays[i], &results[i],
                            experiment_play_title(experiment, i));
    (void)fflush(stdout);
    json_decref(told);
    /* It was run, even if it failed: only Ctrl-C leaves some out. */
    run_n++;
    as_told_n += ran && as_told;
    broken_n += !ran;
}

/* ---- which -------------------------------------------------------------- */

/* NAME is "all", a kind, or one. False: there is none, which is said. */
static bool add_named(const char *name)
{
    const struct experiment *one;
    unsigned n = all_n;
    struct fail error;

    /* The word "all", or a kind, means many; a name only one, and that is looked
     * for last. */
    for (size_t i = 0; (one = reader_at(&experiments, i)) != NULL; i++)
        if (strcmp(name, "all") == 0 || strcmp(name, one->kind->name) == 0)
            all[all_n++] = one;
    if (all_n == n && (one = reader_find(&experiments, name, &error)) != NULL)
        all[all_n++] = one;
    return all_n > n || fail_aloud("%s", error.text);
}

/* The bug is the player's to find: nothing is told that would give it away. A load is
 * for a program to watch. */
static int play_by_hand(const struct experiment *experiment)
{
    const char *const *text = reader_texts(&experiment->entry, options.look);
    unsigned index = options.fix ? EXPERIMENT_FIX : EXPERIMENT_BUG;
    struct experiment_play play = experiment->plays[index];
    const struct game_goal goal = {.faults = stage_goals(play.faults)};
    bool is_load = experiment->kind == &load_kind;

    if (!play.scene.lock)
        return fail_to_run("lab run --fix: %s has no fix",
                           experiment->entry.name);
    /* A lock on several servers has none of them under load: a site has one Redis. */
    if (options.lock && (!dlock_strategy_find(options.lock) ||
                         (is_load && world_nodes_for(options.lock) > 1)))
        return fail_to_run("there is no lock '%s' here", options.lock);
    if (options.lock)
        play.scene.lock = options.lock;
    if (is_load && options.json)
        return load_watch_main(&play, options.look);
    if (is_load)
        return fail_to_run("lab run -i: %s is played by instances under load, "
                           "not by moves: leave -i out",
                           experiment->entry.name);
    if (options.json)
        return lines_play(&play.scene, NULL, 0, &goal, options.look);
    draw_title(stdout, options.look, experiment->entry.id,
               text[EXPERIMENT_TITLE]);
    printf("\n\n");
    tell_scene(experiment, index, &play);
    return hand_play(&play.scene, NULL, 0, &goal, options.look, NULL);
}

int lab_run_main(int argc, char *argv[])
{
    if (!lab_options_read(argc, argv, &options))
        return LAB_COULD_NOT_RUN;
    if (options.help || (options.names_n == 0) == !options.own) {
        fputs(help, options.help ? stdout : stderr);
        return options.help ? 0 : LAB_COULD_NOT_RUN;
    }
    /* Each name may mean all of them. */
    all = calloc((size_t)options.names_n * experiments.files_n + 1,
                 sizeof(const struct experiment *));
    if (!all)
        return fail_to_run("no memory");
    if (options.own)
        all[all_n++] = options.own;
    for (int i = 0; i < options.names_n; i++)
        if (!add_named(options.names[i]))
            return LAB_COULD_NOT_RUN;
    if (options.save && all_n > 1)
        return fail_to_run("lab run --save FILE takes one experiment");
    options.look |= draw_look();
    if (options.by_hand && all_n > 1)
        return fail_to_run("lab run -i takes one experiment");
    if (options.by_hand)
        return play_by_hand(all[0]);
    /* A game by hand catches its signals itself: here it is between two runs that
     * Ctrl-C is asked for. */
    stage_options_catch_signals();
    for (unsigned i = 0; i < all_n && !stage_options_interrupted(); i++)
        run_one(all[i]);
    if (all_n > 1 && !options.json)
        SAY("%u of %u as told\n", as_told_n, all_n);
    /* A run that could not be is neither as told nor otherwise. */
    if (broken_n > 0 || run_n < all_n)
        return LAB_COULD_NOT_RUN;
    return as_told_n == run_n ? LAB_AS_TOLD : LAB_NOT_AS_TOLD;
}

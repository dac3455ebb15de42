/*
 * `stockade lab run NAME...`: each experiment with its bug and with its fix. One is
 * told at length; of several there is a line each. See experiment.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dlock.h"
#include "server/base/clock.h"
#include "server/lab/experiments/experiment.h"
#include "server/lab/fail.h"
#include "server/lab/load/load.h"
#include "server/lab/replay/game.h"
#include "server/lab/stage/stage_options.h"
#include "server/lab/world/world.h"

struct runs {
    struct lab_options options;
    bool is_many;
    const struct experiment **all; /* that are meant, in their order */
    unsigned all_n, run_n, as_told_n;
    unsigned broken_n; /* could not be run */
};

static const char help[] =
#include "server/lab/help/run.txt.inc"
    ;

/* ---- for people --------------------------------------------------------- */

/* A part of a line. */
static void tell(const struct runs *runs, const char *code, const char *english)
{
    draw_in(stdout, runs->options.look, code, english);
}

/* PLAY: number INDEX of the experiment, or a change of it. */
static void tell_scene(const struct runs *runs,
                       const struct experiment *experiment, unsigned index,
                       const struct experiment_play *play)
{
    tell(runs, DRAW_BOLD, experiment_play_title(experiment, index));
    putchar('\n');
    lab_scene(experiment, play, runs->options.look);
    putchar('\n');
}

/* One line of the verdict. */
static void tell_finding(const struct runs *runs, const char *colour,
                         const char *word, const char *text)
{
    tell(runs, "", "verdict: ");
    tell(runs, colour, word);
    tell(runs, "", *word ? ": " : "");
    tell(runs, "", text);
    putchar('\n');
}

static void tell_as_told(const struct runs *runs, bool as_told)
{
    tell(runs, as_told ? DRAW_GREEN : DRAW_RED,
         as_told ? "as told\n" : "NOT AS TOLD\n");
}

static void tell_verdict(const struct runs *runs,
                         const struct experiment_play *play,
                         const struct experiment_run *run)
{
    bool is_heard = play->says && run->as_told;
    bool is_measured = run->said[0] && run->verdict.faults == 0;

    draw_say(stdout, runs->options.look,
             "ledger: stock %" PRId64 ", sold %" PRId64 ", orders %" PRId64
             "\n",
             run->stock, run->sold, run->orders);
    if (run->said[0])
        draw_english(stdout, 0, runs->options.look, run->said);
    if (is_heard)
        tell_finding(runs, DRAW_RED, "somebody is told", play->says);
    if (is_measured)
        tell_finding(runs, DRAW_GREEN, "",
                     "nothing broke; what counts is above");
    else if (!is_heard || run->verdict.faults)
        draw_verdict(stdout, &run->verdict, true, runs->options.look);
    printf("-> ");
    tell_as_told(runs, run->as_told);
    putchar('\n');
}

/* "oversold, foreign-release"; "none". */
static void tell_faults(unsigned faults, unsigned look)
{
    const char *between = "";

    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (faults & EXPERIMENT_FAULT(i)) {
            printf("%s%s", between, stage_fault_word(i));
            between = ", ";
        }
    draw_say(stdout, look, "%s", faults == 0 ? "none" : "");
}

/* A run that did not go as told: what was expected, and what came of it. */
static void tell_difference(const struct runs *runs,
                            const struct experiment_play *play,
                            const struct experiment_run *run, const char *title)
{
    unsigned look = runs->options.look;

    draw_say(stdout, look, "  %s: expected ", title);
    tell_faults(play->faults, look);
    if (play->schedule)
        draw_say(stdout, look, ", sold %" PRId64, play->sold);
    if (play->says)
        draw_say(stdout, look, ", \"%s\"", play->says);
    draw_say(stdout, look, "; found ");
    tell_faults(run->verdict.faults | run->verdict.remarks, look);
    draw_say(stdout, look, ", sold %" PRId64, run->sold);
    draw_say(stdout, look, "%s\n", run->is_over ? "" : ", not all are done");
}

/* ---- running ------------------------------------------------------------ */

/* One way. False: it could not be run. */
static bool play(const struct runs *runs, const struct experiment *experiment,
                 unsigned index, struct experiment_run *run)
{
    const char *save = runs->options.save;
    char path[1024];
    bool ran;

    *run = (struct experiment_run){
        .out = runs->options.json || runs->is_many ? NULL : stdout,
        .json = runs->options.json ? json_object() : NULL,
        .look = runs->options.json ? 0 : runs->options.look,
        .brief = runs->options.brief,
        .save = save ? path : NULL,
        .name = experiment->entry.name,
        .is_over = true};
    (void)snprintf(path, sizeof(path), "%s%s", save ? save : "",
                   (const char *[]){"", ".fix", ".rest"}[index]);
    if (save && experiment->kind != &steps_kind)
        (void)fail_with(&run->error,
                        "--save keeps what is played on the stage; instances "
                        "have serve --lab-timeline");
    ran = run->error.text[0] == '\0' &&
          experiment->kind->run(&experiment->plays[index], run);
    run->save = NULL;
    if (run->json)
        (void)json_object_update_new(run->json, experiment_json(run));
    return ran;
}

static void tell_before(const struct runs *runs,
                        const struct experiment *experiment)
{
    const char *const *text =
        reader_texts(&experiment->entry, runs->options.look);

    if (runs->options.json)
        return;
    if (runs->is_many) {
        printf("[%2u/%u] %-4s %-28s ", runs->run_n + 1, runs->all_n,
               experiment->entry.id, experiment->entry.name);
        (void)fflush(stdout);
        return;
    }
    draw_title(stdout, runs->options.look, experiment->entry.id,
               text[EXPERIMENT_TITLE]);
    printf(" - %s\n\n", text[EXPERIMENT_SYMPTOM]);
    draw_paragraph(stdout, runs->options.look, "What you will see",
                   text[EXPERIMENT_SEE]);
}

static void tell_after(const struct runs *runs,
                       const struct experiment *experiment,
                       const struct experiment_run results[], bool as_told,
                       double seconds)
{
    if (runs->options.json) {
        draw_json_line(
            stdout,
            json_pack("{s:s, s:s, s:s, s:O?, s:O?, s:O?, s:b}", "id",
                      experiment->entry.id, "name", experiment->entry.name,
                      "kind", experiment->kind->name, "bug",
                      results[EXPERIMENT_BUG].json, "fix",
                      results[EXPERIMENT_FIX].json, "rest",
                      results[EXPERIMENT_REST].json, "as_told", as_told));
    } else if (runs->is_many) {
        printf("%5.1f s  ", seconds);
        tell_as_told(runs, as_told);
    }
}

static void run_one(struct runs *runs, const struct experiment *experiment)
{
    unsigned look = runs->options.look;
    const char *const *text = reader_texts(&experiment->entry, look);
    bool at_length = !runs->is_many && !runs->options.json;
    struct experiment_run results[EXPERIMENT_PLAYS_N] = {{0}};
    bool ran = true, as_told = true;
    uint64_t began_us = clock_us();

    tell_before(runs, experiment);
    for (unsigned i = 0; i < EXPERIMENT_PLAYS_N && ran; i++) {
        const struct experiment_play *each = &experiment->plays[i];

        results[i] = (struct experiment_run){.as_told = true};
        if (each->scene.lock) {
            if (at_length)
                tell_scene(runs, experiment, i, each);
            ran = play(runs, experiment, i, &results[i]);
            if (ran && at_length)
                tell_verdict(runs, each, &results[i]);
            as_told = as_told && results[i].as_told;
        }
        if (!ran) {
            if (runs->is_many && !runs->options.json)
                putchar('\n');
            (void)fflush(stdout);
            (void)fail_aloud("lab run %s, %s: %s", experiment->entry.id,
                             experiment_play_word(i), results[i].error.text);
        } else if (at_length && i == EXPERIMENT_BUG) {
            draw_paragraph(stdout, look, "Why", text[EXPERIMENT_WHY]);
            draw_paragraph(stdout, look, "What fixes it", text[EXPERIMENT_HOW]);
        } else if (at_length && i == EXPERIMENT_FIX &&
                   text[EXPERIMENT_TEXT_REST]) {
            draw_paragraph(stdout, look, "What the fix leaves open",
                           text[EXPERIMENT_TEXT_REST]);
        }
    }
    if (ran)
        tell_after(runs, experiment, results, as_told,
                   (double)(clock_us() - began_us) / 1e6);
    for (unsigned i = 0; i < EXPERIMENT_PLAYS_N && ran && !runs->options.json;
         i++)
        if (!results[i].as_told)
            tell_difference(runs, &experiment->plays[i], &results[i],
                            experiment_play_title(experiment, i));
    (void)fflush(stdout);
    for (unsigned i = 0; i < EXPERIMENT_PLAYS_N; i++)
        json_decref(results[i].json);
    runs->run_n++;
    runs->as_told_n += ran && as_told;
    runs->broken_n += !ran;
}

/* ---- which -------------------------------------------------------------- */

static void add(struct runs *runs, const struct experiment *one)
{
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): pointers are meant */
    const struct experiment **all = reallocarray(
        runs->all, runs->all_n + 1, sizeof(const struct experiment *));

    if (!all)
        exit(fail_to_run("no memory"));
    runs->all = all;
    runs->all[runs->all_n++] = one;
}

/* NAME is "all", a kind, or one. False: there is none, which is said. */
static bool add_named(struct runs *runs, const char *name)
{
    const struct experiment *one;
    unsigned n = runs->all_n;
    struct fail error;

    for (size_t i = 0; (one = reader_at(&experiments, i)) != NULL; i++)
        if (strcmp(name, "all") == 0 || strcmp(name, one->kind->name) == 0)
            add(runs, one);
    if (runs->all_n == n &&
        (one = reader_find(&experiments, name, &error)) != NULL)
        add(runs, one);
    return runs->all_n > n || fail_aloud("%s", error.text);
}

/* The bug is the player's to find: nothing is told that would give it away. A load is
 * for a program to watch. */
static int play_by_hand(const struct runs *runs,
                        const struct experiment *experiment)
{
    const struct lab_options *options = &runs->options;
    const char *const *text = reader_texts(&experiment->entry, options->look);
    struct experiment_play play =
        experiment->plays[options->fix ? EXPERIMENT_FIX : EXPERIMENT_BUG];
    struct game_goal goal;

    if (!play.scene.lock)
        return fail_to_run("lab run --fix: %s has no fix",
                           experiment->entry.name);
    if (options->lock && (!dlock_strategy_find(options->lock) ||
                          (experiment->kind == &load_kind &&
                           world_nodes_for(options->lock) > 1)))
        return fail_to_run("there is no lock '%s' here", options->lock);
    if (options->lock)
        play.scene.lock = options->lock;
    if (experiment->kind == &load_kind && options->json)
        return load_watch_main(&play, options->look);
    if (experiment->kind == &load_kind)
        return fail_to_run("lab run -i: %s is played by instances under load, "
                           "not by moves: leave -i out",
                           experiment->entry.name);
    goal = (struct game_goal){.faults = stage_goals(play.faults)};
    if (options->json)
        return lines_play(&play.scene, NULL, 0, &goal, runs->options.look);
    draw_title(stdout, options->look, experiment->entry.id,
               text[EXPERIMENT_TITLE]);
    printf("\n\n");
    tell_scene(runs, experiment, options->fix ? EXPERIMENT_FIX : EXPERIMENT_BUG,
               &play);
    return hand_play(&play.scene, NULL, 0, &goal, runs->options.look, NULL);
}

int lab_run_main(int argc, char *argv[])
{
    static struct runs runs;
    struct lab_options *options = &runs.options;

    if (!lab_options_read(argc, argv, options))
        return LAB_COULD_NOT_RUN;
    if (options->help) {
        fputs(help, stdout);
        return 0;
    }
    if ((options->names_n == 0) == !options->own) {
        fprintf(stderr,
                "usage: stockade lab run [--brief] [--json] [--zh] [--save "
                "FILE] NAME... | --file FILE; stockade lab list has the "
                "names\n");
        return LAB_COULD_NOT_RUN;
    }
    if (options->own)
        add(&runs, options->own);
    for (int i = 0; i < options->names_n; i++)
        if (!add_named(&runs, options->names[i]))
            return LAB_COULD_NOT_RUN;
    if (options->save && runs.all_n > 1)
        return fail_to_run("lab run --save FILE takes one experiment");
    runs.is_many = runs.all_n > 1;
    options->look |= draw_look();
    if (options->by_hand && runs.is_many)
        return fail_to_run("lab run -i takes one experiment");
    if (options->by_hand)
        return play_by_hand(&runs, runs.all[0]);
    stage_options_catch_signals();
    for (unsigned i = 0; i < runs.all_n && !stage_options_interrupted(); i++)
        run_one(&runs, runs.all[i]);
    if (runs.is_many && !options->json)
        draw_say(stdout, options->look, "%u of %u as told\n", runs.as_told_n,
                 runs.all_n);
    if (runs.broken_n > 0 || runs.run_n < runs.all_n)
        return LAB_COULD_NOT_RUN;
    return runs.as_told_n == runs.run_n ? LAB_AS_TOLD : LAB_NOT_AS_TOLD;
}

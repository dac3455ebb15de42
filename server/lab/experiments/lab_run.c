/*
 * `stockade lab run NAME...`: each experiment with its bug and with its fix. One is
 * told at length; of several there is a line each. See lab_experiments.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/lab/experiments/lab_experiments.h"
#include "server/lab/experiments/words.h"
#include "server/lab/stage/draw.h"
#include "server/lab/stage/stage_options.h"

#define RED   "\033[31m"
#define GREEN "\033[32m"
#define BOLD  "\033[1m"
#define PLAIN "\033[0m"

struct runs {
    struct lab_options options;
    bool colour, is_many;
    unsigned all_n, run_n, as_told_n;
    unsigned broken_n; /* could not be run */
};

static const char *tint(const struct runs *runs, const char *code)
{
    return runs->colour ? code : "";
}

static void help(void)
{
    printf(
        "usage: stockade lab run [--json] [--zh] [--save FILE] NAME...\n\n"
        "Runs an experiment twice: with the bug, and with what fixes it. NAME "
        "is a\nname or a number of stockade lab list; or steps, load or all, "
        "for many.\nDraws what happens, a column for each actor, and says what "
        "the ledger has,\nand whether it went as told: of many, in a line for "
        "each. Ctrl-C ends it,\nand leaves nothing behind.\n\n"
        "  --json   one JSON object on a line for each\n"
        "  --zh     in Chinese\n"
        "  --save FILE  of one, on the stage: keeps the timeline of the bug, "
        "and that\n           of the fix in FILE.fix, for stockade replay\n\n"
        "Exit status: 0 all as told, 1 not as told, 2 could not run.\n");
}

/* ---- for people --------------------------------------------------------- */

/* A part of a line. */
static void tell(const struct runs *runs, const char *code, const char *english)
{
    fputs(tint(runs, code), stdout);
    words_say(stdout, runs->options.language, "%s", english);
    fputs(tint(runs, PLAIN), stdout);
}

static void tell_part(const struct runs *runs, const char *label,
                      const char *text)
{
    tell(runs, BOLD, label);
    putchar('\n');
    words_wrap(stdout, 2, text);
    putchar('\n');
}

static const char *way(bool is_fix)
{
    return is_fix ? "With the fix" : "With the bug";
}

static void tell_scene(const struct runs *runs,
                       const struct experiment_family *family,
                       const struct experiment_play *play, bool is_fix)
{
    tell(runs, BOLD, way(is_fix));
    putchar('\n');
    lab_scene(family, play, runs->options.language);
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
    tell(runs, as_told ? GREEN : RED, as_told ? "as told\n" : "NOT AS TOLD\n");
}

static void tell_verdict(const struct runs *runs,
                         const struct experiment_play *play,
                         const struct experiment_run *run)
{
    bool is_heard = play->says && run->as_told;

    words_say(stdout, runs->options.language,
              "ledger: stock %" PRId64 ", sold %" PRId64 ", orders %" PRId64
              "\n",
              run->stock, run->sold, run->orders);
    if (run->said[0])
        words_wrap(stdout, 0, run->said);
    for (int i = 0; i < STAGE_FAULT_N; i++)
        if (run->faults & EXPERIMENT_FAULT(i))
            tell_finding(runs, RED, stage_fault_word((enum stage_fault)i),
                         stage_fault_text((enum stage_fault)i));
    if (is_heard)
        tell_finding(runs, RED, play->says, "somebody is told this");
    else if (run->faults == 0)
        tell_finding(runs, GREEN, "", "nothing broke");
    printf("-> ");
    tell_as_told(runs, run->as_told);
    putchar('\n');
}

/* What was expected of a run that did not go as told, and what came of it. */
static void tell_difference(const struct runs *runs,
                            const struct experiment_play *play,
                            const struct experiment_run *run, bool is_fix)
{
    enum experiment_language language = runs->options.language;

    words_say(stdout, language, "  %s: expected ", way(is_fix));
    lab_faults(stdout, play->faults, language);
    if (play->schedule)
        words_say(stdout, language, ", sold %" PRId64, play->sold);
    if (play->says)
        words_say(stdout, language, ", \"%s\"", play->says);
    words_say(stdout, language, "; found ");
    lab_faults(stdout, run->faults, language);
    words_say(stdout, language, ", sold %" PRId64, run->sold);
    words_say(stdout, language, "%s\n",
              run->is_over ? "" : ", not all are done");
}

/* ---- for programs ------------------------------------------------------- */

/* The text of a play's object; to be freed. NULL: no memory. */
static char *json_of(const char *members, const struct experiment_run *run)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    fprintf(out,
            "{%s%s\"stock\": %" PRId64 ", \"sold\": %" PRId64
            ", \"orders\": %" PRId64 ", \"faults\": ",
            members, *members ? ", " : "", run->stock, run->sold, run->orders);
    lab_json_faults(out, run->faults);
    if (run->said[0]) {
        fputs(", \"said\": ", out);
        draw_json_string(out, run->said);
    }
    fprintf(out, ", \"as_told\": %s}", run->as_told ? "true" : "false");
    (void)fclose(out);
    for (char *at = text; (at = strchr(at, '\n')) != NULL;)
        *at = ' '; /* a line for each experiment */
    return text;
}

/* ---- running ------------------------------------------------------------ */

/* One way. False: it could not be run. JSON has the text of it, if that is asked
 * for: to be freed. */
static bool play(const struct runs *runs, const struct experiment *experiment,
                 const struct experiment_family *family, bool is_fix,
                 struct experiment_run *run, char **json)
{
    const char *save = runs->options.save;
    char path[1024], *members = NULL;
    size_t size;
    bool ran;

    *run = (struct experiment_run){
        .out = runs->options.json || runs->is_many ? NULL : stdout,
        .json = runs->options.json ? open_memstream(&members, &size) : NULL,
        .colour = runs->colour,
        .language = runs->options.language,
        .save = save ? path : NULL,
        .name = experiment->name,
        .is_over = true};
    (void)snprintf(path, sizeof(path), "%s%s", save ? save : "",
                   is_fix ? ".fix" : "");
    if (save && family->kind != &steps_kind)
        (void)snprintf(run->error, sizeof(run->error),
                       "--save keeps what is played on the stage; instances "
                       "have serve --lab-timeline");
    ran = run->error[0] == '\0' &&
          family->kind->run(is_fix ? &experiment->fix : &experiment->bug, run);
    run->save = NULL;
    if (run->json)
        (void)fclose(run->json);
    *json = ran && members ? json_of(members, run) : NULL;
    free(members);
    return ran;
}

static void tell_before(const struct runs *runs,
                        const struct experiment *experiment)
{
    const struct experiment_text *text =
        &experiment->text[runs->options.language];

    if (runs->options.json)
        return;
    if (runs->is_many) {
        printf("[%2u/%u] %-4s %-28s ", runs->run_n + 1, runs->all_n,
               experiment->id, experiment->name);
        (void)fflush(stdout);
        return;
    }
    printf("%s%s %s%s", tint(runs, BOLD), experiment->id, text->title,
           tint(runs, PLAIN));
    tell(runs, "", ": ");
    printf("%s\n\n", text->symptom);
    tell_part(runs, "What you will see", text->see);
}

static void tell_after(const struct runs *runs,
                       const struct experiment *experiment,
                       const struct experiment_family *family,
                       char *const json[2], bool as_told, double seconds)
{
    const struct experiment_text *text =
        &experiment->text[runs->options.language];

    if (runs->options.json) {
        printf("{\"id\": \"%s\", \"name\": \"%s\", \"kind\": \"%s\", \"bug\": "
               "%s, \"fix\": %s, \"as_told\": %s}\n",
               experiment->id, experiment->name, family->kind->name,
               json[0] ? json[0] : "null", json[1] ? json[1] : "null",
               as_told ? "true" : "false");
    } else if (runs->is_many) {
        printf("%5.1f s  ", seconds);
        tell_as_told(runs, as_told);
    } else {
        tell_part(runs, "What fixes it", text->fix);
    }
}

static void tell_error(const struct runs *runs,
                       const struct experiment *experiment, bool is_fix,
                       const char *error)
{
    if (runs->is_many && !runs->options.json)
        putchar('\n');
    (void)fflush(stdout);
    fprintf(stderr, "stockade: lab run %s, with the %s: %s\n", experiment->id,
            is_fix ? "fix" : "bug", error);
}

static void run_one(struct runs *runs, const struct experiment *experiment,
                    const struct experiment_family *family)
{
    const struct experiment_play *plays[] = {&experiment->bug,
                                             &experiment->fix};
    const struct experiment_text *text =
        &experiment->text[runs->options.language];
    bool at_length = !runs->is_many && !runs->options.json;
    struct experiment_run results[2] = {{.as_told = true}, {.as_told = true}};
    char *json[2] = {NULL, NULL};
    bool ran = true, as_told;
    uint64_t began_us = clock_us();

    tell_before(runs, experiment);
    for (int i = 0; i < 2 && ran; i++) {
        if (!experiment_has(plays[i]))
            continue;
        if (at_length)
            tell_scene(runs, family, plays[i], i == 1);
        ran = play(runs, experiment, family, i == 1, &results[i], &json[i]);
        if (!ran)
            tell_error(runs, experiment, i == 1, results[i].error);
        if (ran && at_length)
            tell_verdict(runs, plays[i], &results[i]);
        if (ran && at_length && i == 0)
            tell_part(runs, "Why", text->why);
    }
    as_told = results[0].as_told && results[1].as_told;
    if (ran)
        tell_after(runs, experiment, family, json, as_told,
                   (double)(clock_us() - began_us) / 1e6);
    for (int i = 0; i < 2 && ran && !runs->options.json; i++)
        if (!results[i].as_told)
            tell_difference(runs, plays[i], &results[i], i == 1);
    (void)fflush(stdout);
    free(json[0]);
    free(json[1]);
    runs->run_n++;
    runs->as_told_n += ran && as_told;
    runs->broken_n += !ran;
}

/* ---- which -------------------------------------------------------------- */

/* "all", or the kind of some. */
static bool is_meant(const struct experiment_family *family, const char *name)
{
    return strcmp(name, "all") == 0 || strcmp(name, family->kind->name) == 0;
}

/* How many experiments NAME stands for; 0: there are none, which is said. */
static unsigned count(const char *name)
{
    const struct experiment_family *family;
    unsigned n = 0;

    for (size_t i = 0; (family = experiment_family(i)) != NULL; i++)
        n += is_meant(family, name) ? (unsigned)family->n : 0;
    return n > 0 ? n : lab_find(name, &family) != NULL;
}

/* Until Ctrl-C. */
static void run_named(struct runs *runs, const char *name)
{
    const struct experiment_family *family;
    const struct experiment *experiment = experiment_find(name, &family);

    if (experiment) {
        run_one(runs, experiment, family);
        return;
    }
    for (size_t i = 0; (family = experiment_family(i)) != NULL; i++)
        for (size_t j = 0; j < family->n && is_meant(family, name) &&
                           !stage_options_interrupted();
             j++)
            run_one(runs, &family->experiments[j], family);
}

int lab_run_main(int argc, char *argv[])
{
    struct runs runs = {.options = {.language = EXPERIMENT_EN}};
    struct lab_options *options = &runs.options;
    unsigned n;

    if (!lab_options_read(argc, argv, options))
        return LAB_COULD_NOT_RUN;
    if (options->help) {
        help();
        return 0;
    }
    if (options->names_n == 0) {
        fprintf(stderr, "usage: stockade lab run [--json] [--zh] NAME...; "
                        "stockade lab list has the names\n");
        return LAB_COULD_NOT_RUN;
    }
    for (int i = 0; i < options->names_n; i++, runs.all_n += n)
        if ((n = count(options->names[i])) == 0)
            return LAB_COULD_NOT_RUN;
    if (options->save && runs.all_n > 1) {
        fprintf(stderr, "stockade: lab run --save FILE takes one experiment\n");
        return LAB_COULD_NOT_RUN;
    }
    runs.is_many = runs.all_n > 1;
    runs.colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    stage_options_catch_signals();
    for (int i = 0; i < options->names_n && !stage_options_interrupted(); i++)
        run_named(&runs, options->names[i]);
    if (runs.is_many && !options->json)
        words_say(stdout, options->language, "%u of %u as told\n",
                  runs.as_told_n, runs.all_n);
    if (runs.broken_n > 0 || runs.run_n < runs.all_n)
        return LAB_COULD_NOT_RUN;
    return runs.as_told_n == runs.run_n ? LAB_AS_TOLD : LAB_NOT_AS_TOLD;
}

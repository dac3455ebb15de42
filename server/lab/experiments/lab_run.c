/*
 * `stockade lab run NAME...|all`: each experiment with its bug and with its fix.
 * One is told at length; of all there is a line each. See lab_experiments.h.
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
    bool colour, is_all;
    unsigned run_n, as_told_n, broken_n; /* broken: could not be run */
};

static const char *tint(const struct runs *runs, const char *code)
{
    return runs->colour ? code : "";
}

static void help(void)
{
    printf(
        "usage: stockade lab run [--json] [--zh] NAME... | all\n\n"
        "Runs an experiment twice: with the bug, and with what fixes it. NAME "
        "is a\nname or a number of stockade lab list. Draws what happens, a "
        "column for\neach actor, and says what is in the ledger, and whether "
        "it went as told.\nCtrl-C ends it, and leaves nothing behind.\n\n"
        "  --json   one JSON object on a line for each\n"
        "  --zh     in Chinese\n\n"
        "Exit status: 0 all as told, 1 not as told, 2 could not run.\n");
}

/* ---- for people --------------------------------------------------------- */

static void tell_part(const struct runs *runs, enum words label,
                      const char *text)
{
    printf("%s%s%s\n", tint(runs, BOLD), words(label, runs->options.language),
           tint(runs, PLAIN));
    words_wrap(stdout, 2, text);
    putchar('\n');
}

static void tell_verdict(const struct runs *runs,
                         const struct experiment_run *run)
{
    enum experiment_language language = runs->options.language;

    printf("%s: stock %" PRId64 ", sold %" PRId64 ", orders %" PRId64 "\n",
           words(WORDS_LEDGER, language), run->stock, run->sold, run->orders);
    if (run->said[0])
        words_wrap(stdout, 0, run->said);
    for (int i = 0; i < STAGE_FAULT_N; i++)
        if (run->faults & EXPERIMENT_FAULT(i))
            printf("%s: %s%s%s: %s\n", words(WORDS_VERDICT, language),
                   tint(runs, RED), stage_fault_word((enum stage_fault)i),
                   tint(runs, PLAIN),
                   words_fault((enum stage_fault)i, language));
    if (run->faults == 0)
        printf("%s: %s%s%s\n", words(WORDS_VERDICT, language),
               tint(runs, GREEN), words(WORDS_HOLDS, language),
               tint(runs, PLAIN));
    printf("-> %s%s%s\n\n", tint(runs, run->as_told ? GREEN : RED),
           words(run->as_told ? WORDS_AS_TOLD : WORDS_NOT_AS_TOLD, language),
           tint(runs, PLAIN));
}

static void tell_scene(const struct runs *runs,
                       const struct experiment_family *family,
                       const struct experiment_play *play, bool is_fix)
{
    char scene[200];

    family->scene(play, scene, sizeof(scene));
    printf("%s%s%s: %s\n", tint(runs, BOLD),
           words(is_fix ? WORDS_FIX_PLAYS : WORDS_BUG_PLAYS,
                 runs->options.language),
           tint(runs, PLAIN), scene);
    if (play->schedule)
        printf("'%s'\n", play->schedule);
    putchar('\n');
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
    for (char *at = text; *at; at++) /* a line for each experiment */
        *at = *at == '\n' ? ' ' : *at;
    return text;
}

/* ---- running ------------------------------------------------------------ */

/* One way. False: it could not be run. JSON has the text of it, if that is asked
 * for: to be freed. */
static bool play(const struct runs *runs,
                 const struct experiment_family *family,
                 const struct experiment_play *one, struct experiment_run *run,
                 char **json)
{
    char *members = NULL;
    size_t size;
    bool ran;

    *run = (struct experiment_run){
        .out = runs->options.json || runs->is_all ? NULL : stdout,
        .json = runs->options.json ? open_memstream(&members, &size) : NULL,
        .colour = runs->colour,
        .language = runs->options.language};
    ran = family->run(one, run);
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
    if (runs->is_all) {
        printf("%-4s %-28s ", experiment->id, experiment->name);
        (void)fflush(stdout);
        return;
    }
    printf("%s%s %s%s: %s\n\n", tint(runs, BOLD), experiment->id, text->title,
           tint(runs, PLAIN), text->symptom);
    tell_part(runs, WORDS_SEE, text->see);
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
               experiment->id, experiment->name, family->kind,
               json[0] ? json[0] : "null", json[1] ? json[1] : "null",
               as_told ? "true" : "false");
    } else if (runs->is_all) {
        printf("%6.1f s  %s%s%s\n", seconds, tint(runs, as_told ? GREEN : RED),
               words(as_told ? WORDS_AS_TOLD : WORDS_NOT_AS_TOLD,
                     runs->options.language),
               tint(runs, PLAIN));
    } else {
        tell_part(runs, WORDS_FIX, text->fix);
    }
    (void)fflush(stdout);
}

static void tell_error(const struct runs *runs,
                       const struct experiment *experiment, const char *error)
{
    if (runs->is_all && !runs->options.json)
        putchar('\n');
    (void)fflush(stdout);
    fprintf(stderr, "stockade: lab run %s: %s\n", experiment->id, error);
}

/* False: Ctrl-C has come. */
static bool run_one(struct runs *runs, const struct experiment *experiment,
                    const struct experiment_family *family)
{
    const struct experiment_play *plays[] = {&experiment->bug,
                                             &experiment->fix};
    struct experiment_run run = {.as_told = true};
    char *json[2] = {NULL, NULL};
    bool ran = true, as_told = true;
    uint64_t began_us = clock_us();

    tell_before(runs, experiment);
    for (int i = 0; i < 2 && ran; i++) {
        if (!experiment_has(plays[i]))
            continue;
        if (!runs->is_all && !runs->options.json)
            tell_scene(runs, family, plays[i], i == 1);
        ran = play(runs, family, plays[i], &run, &json[i]);
        as_told = as_told && run.as_told;
        if (ran && run.out)
            tell_verdict(runs, &run);
        if (ran && run.out && i == 0)
            tell_part(runs, WORDS_WHY,
                      experiment->text[runs->options.language].why);
    }
    if (ran)
        tell_after(runs, experiment, family, json, as_told,
                   (double)(clock_us() - began_us) / 1e6);
    else
        tell_error(runs, experiment, run.error);
    free(json[0]);
    free(json[1]);
    runs->run_n++;
    runs->as_told_n += ran && as_told;
    runs->broken_n += !ran;
    return !stage_options_interrupted();
}

static bool run_all(struct runs *runs)
{
    const struct experiment_family *family;

    for (size_t i = 0; (family = experiment_family(i)) != NULL; i++)
        for (size_t j = 0; j < family->n; j++)
            if (!run_one(runs, &family->experiments[j], family))
                return false;
    return true;
}

static void run_named(struct runs *runs)
{
    const struct experiment_family *family;

    for (int i = 0; i < runs->options.names_n; i++) {
        const struct experiment *experiment =
            lab_find(runs->options.names[i], &family);

        if (!run_one(runs, experiment, family))
            return;
    }
}

int lab_run_main(int argc, char *argv[])
{
    struct runs runs = {.options = {.language = EXPERIMENT_EN}};
    const struct experiment_family *family;

    if (!lab_options_read(argc, argv, &runs.options))
        return LAB_COULD_NOT_RUN;
    if (runs.options.help) {
        help();
        return 0;
    }
    if (runs.options.names_n == 0) {
        fprintf(stderr, "usage: stockade lab run [--json] [--zh] NAME... | "
                        "all; stockade lab list has the names\n");
        return LAB_COULD_NOT_RUN;
    }
    runs.is_all =
        runs.options.names_n == 1 && strcmp(runs.options.names[0], "all") == 0;
    for (int i = 0; i < runs.options.names_n && !runs.is_all; i++)
        if (!lab_find(runs.options.names[i], &family))
            return LAB_COULD_NOT_RUN;
    runs.colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
    stage_options_catch_signals();
    if (runs.is_all)
        (void)run_all(&runs);
    else
        run_named(&runs);
    if (runs.is_all && !runs.options.json)
        printf("\n%u of %u %s\n", runs.as_told_n, runs.run_n,
               words(WORDS_AS_TOLD, runs.options.language));
    if (runs.broken_n > 0)
        return LAB_COULD_NOT_RUN;
    return runs.as_told_n == runs.run_n ? LAB_AS_TOLD : LAB_NOT_AS_TOLD;
}

/* `stockade lab list` and `stockade lab show NAME`: see lab_experiments.h. */
#include "server/lab/experiments/lab_experiments.h"

#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include "server/lab/experiments/words.h"
#include "server/lab/stage/draw.h"

bool lab_options_read(int argc, char *argv[], struct lab_options *options)
{
    static const struct option flags[] = {
        {"json", no_argument, NULL, 'j'},
        {"zh", no_argument, NULL, 'z'},
        {"save", required_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "h", flags, NULL)) != -1) {
        options->json = options->json || c == 'j';
        options->help = options->help || c == 'h';
        if (c == 'z')
            options->language = EXPERIMENT_ZH;
        if (c == '?')
            return false;
        if (c == 's' && strcmp(argv[0], "run") != 0) {
            fprintf(stderr, "stockade: --save is for lab run\n");
            return false;
        }
        if (c == 's')
            options->save = optarg;
    }
    options->names_n = argc - optind;
    options->names = argv + optind;
    return true;
}

const struct experiment *lab_find(const char *name,
                                  const struct experiment_family **family)
{
    const struct experiment *experiment = experiment_find(name, family);
    const char *nearest = experiment ? NULL : experiment_nearest(name);

    if (!experiment && nearest)
        fprintf(stderr, "stockade: there is no experiment '%s'; is it %s?\n",
                name, nearest);
    else if (!experiment)
        fprintf(stderr,
                "stockade: there is no experiment '%s'; stockade lab list has "
                "all\n",
                name);
    return experiment;
}

void lab_faults(FILE *out, unsigned faults)
{
    const char *between = "";

    for (int i = 0; i < STAGE_FAULT_N; i++)
        if (faults & EXPERIMENT_FAULT(i)) {
            fprintf(out, "%s%s", between,
                    stage_fault_word((enum stage_fault)i));
            between = ", ";
        }
    fputs(faults == 0 ? "none" : "", out);
}

static void tell_json_play(const char *name,
                           const struct experiment_family *family,
                           const struct experiment_play *play)
{
    char scene[EXPERIMENT_SCENE_BYTES];

    printf(", \"%s\": ", name);
    if (!experiment_has(play)) {
        printf("null");
        return;
    }
    family->kind->scene(play, scene, sizeof(scene));
    draw_json_member(stdout, "{", "scene", scene);
    if (play->schedule)
        draw_json_member(stdout, ", ", "schedule", play->schedule);
    if (play->says)
        draw_json_member(stdout, ", ", "says", play->says);
    printf(", \"faults\": ");
    draw_json_faults(stdout, play->faults);
    putchar('}');
}

/* One object. */
static void tell_json(const struct experiment *experiment,
                      const struct experiment_family *family)
{
    static const char *const languages[] = {"en", "zh"};

    draw_json_member(stdout, "{", "id", experiment->id);
    draw_json_member(stdout, ", ", "name", experiment->name);
    draw_json_member(stdout, ", ", "family", family->title[EXPERIMENT_EN]);
    draw_json_member(stdout, ", ", "kind", family->kind->name);
    printf(", \"text\": {");
    for (int i = 0; i < EXPERIMENT_LANGUAGES_N; i++) {
        const struct experiment_text *text = &experiment->text[i];

        printf("%s\"%s\": ", i > 0 ? ", " : "", languages[i]);
        draw_json_member(stdout, "{", "title", text->title);
        draw_json_member(stdout, ", ", "symptom", text->symptom);
        draw_json_member(stdout, ", ", "see", text->see);
        draw_json_member(stdout, ", ", "why", text->why);
        draw_json_member(stdout, ", ", "fix", text->fix);
        putchar('}');
    }
    putchar('}');
    tell_json_play("bug", family, &experiment->bug);
    tell_json_play("fix", family, &experiment->fix);
    puts("}");
}

static void list_help(void)
{
    printf("usage: stockade lab list [--json] [--zh]\n\n"
           "The experiments, by families: id, name and symptom.\n\n"
           "  --json   one JSON object on each line\n"
           "  --zh     in Chinese\n");
}

static void list_family(const struct experiment_family *family,
                        const struct lab_options *options)
{
    if (!options->json)
        printf("%s (%s)\n", family->title[options->language],
               family->kind->name);
    for (size_t i = 0; i < family->n; i++) {
        const struct experiment *experiment = &family->experiments[i];

        if (options->json) {
            tell_json(experiment, family);
            continue;
        }
        printf("  %-4s %-28s %s\n", experiment->id, experiment->name,
               experiment->text[options->language].symptom);
    }
}

int lab_list_main(int argc, char *argv[])
{
    struct lab_options options = {.language = EXPERIMENT_EN};
    const struct experiment_family *family;

    if (!lab_options_read(argc, argv, &options))
        return LAB_COULD_NOT_RUN;
    if (options.help) {
        list_help();
        return 0;
    }
    if (options.names_n > 0) {
        fprintf(stderr, "stockade: lab list takes no name; lab show does\n");
        return LAB_COULD_NOT_RUN;
    }
    for (size_t i = 0; (family = experiment_family(i)) != NULL; i++)
        list_family(family, &options);
    return 0;
}

/* ---- show --------------------------------------------------------------- */

static void show_part(enum words label, const char *text,
                      enum experiment_language language)
{
    printf("%s\n", words(label, language));
    words_wrap(stdout, 2, text);
}

void lab_scene(const struct experiment_family *family,
               const struct experiment_play *play,
               enum experiment_language language)
{
    char text[EXPERIMENT_SCENE_BYTES];

    family->kind->scene(play, text, sizeof(text));
    words_wrap(stdout, 2, text);
    for (unsigned i = 0; i < STAGE_ACTORS_MAX; i++)
        if (play->scene.roles[i].program) {
            (void)snprintf(
                text, sizeof(text), "%c: %s", 'a' + (int)i,
                words_program(play->scene.roles[i].program, language));
            words_wrap(stdout, 2, text);
        }
}

static void show_play(enum words label, const struct experiment_family *family,
                      const struct experiment_play *play,
                      enum experiment_language language)
{
    if (!experiment_has(play))
        return;
    printf("%s\n", words(label, language));
    lab_scene(family, play, language);
    if (play->schedule)
        words_wrap(stdout, 2, play->schedule);
    printf("  %s: ", words(WORDS_EXPECTED, language));
    lab_faults(stdout, play->faults);
    if (play->says)
        printf(", \"%s\"", play->says);
    putchar('\n');
}

int lab_show_main(int argc, char *argv[])
{
    struct lab_options options = {.language = EXPERIMENT_EN};
    const struct experiment_family *family;
    const struct experiment *experiment;
    const struct experiment_text *text;

    if (!lab_options_read(argc, argv, &options))
        return LAB_COULD_NOT_RUN;
    if (options.help || options.names_n != 1) {
        fprintf(options.help ? stdout : stderr,
                "usage: stockade lab show [--json] [--zh] NAME\n");
        return options.help ? 0 : LAB_COULD_NOT_RUN;
    }
    experiment = lab_find(options.names[0], &family);
    if (!experiment)
        return LAB_COULD_NOT_RUN;
    if (options.json) {
        tell_json(experiment, family);
        return 0;
    }
    text = &experiment->text[options.language];
    printf("%s %s: %s\n\n", experiment->id, text->title, text->symptom);
    show_part(WORDS_SEE, text->see, options.language);
    show_part(WORDS_WHY, text->why, options.language);
    show_part(WORDS_FIX, text->fix, options.language);
    putchar('\n');
    show_play(WORDS_BUG_PLAYS, family, &experiment->bug, options.language);
    show_play(WORDS_FIX_PLAYS, family, &experiment->fix, options.language);
    return 0;
}

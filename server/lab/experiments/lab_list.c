/* `stockade lab list` and `stockade lab show NAME`: see experiment.h. */
#include "server/lab/experiments/experiment.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/programs/program.h"

/* The experiment of a file that was not there when this was built. NULL: there is
 * none, which is said. */
static const struct experiment *read_own(const char *path)
{
    static struct experiment own;
    FILE *file = fopen(path, "re");
    struct fail error;
    char *content = NULL;
    size_t size = 0;
    /* A NUL ends the reading: a file with one is read up to it, as a text. */
    bool is_read =
        file && getdelim(&content, &size, '\0', file) >= 0 && !ferror(file);

    if (!is_read)
        (void)fail_aloud("cannot read %s: %s", path,
                         file && feof(file) ? "it is empty" : strerror(errno));
    if (file)
        (void)fclose(file);
    if (!is_read) {
        free(content);
        return NULL;
    }
    free(own.entry.content); /* --file may be there twice */
    if (reader_read(&experiments, path, content, &own, &error))
        return &own;
    (void)fail_aloud("%s", error.text);
    return NULL;
}

bool lab_options_read(int argc, char *argv[], struct lab_options *options)
{
    /* The flags are those of all three commands: what does not fit is said below. */
    int zh = 0, c;
    const struct option flags[] = {
        {"json", no_argument, &options->json, 1},
        {"zh", no_argument, &zh, DRAW_CHINESE},
        {"brief", no_argument, &options->brief, 1},
        {"save", required_argument, NULL, 's'},
        {"file", required_argument, NULL, 'f'},
        {"fix", no_argument, &options->fix, 1},
        {"lock", required_argument, NULL, 'l'},
        {"help", no_argument, &options->help, 1},
        {0},
    };

    while ((c = getopt_long(argc, argv, "hi", flags, NULL)) != -1) {
        options->help |= c == 'h';
        options->by_hand |= c == 'i';
        if (c == 'l')
            options->lock = optarg;
        if (c == 's')
            options->save = optarg;
        if (c == '?')
            fprintf(stderr, "stockade lab %s --help lists the flags\n",
                    argv[0]);
        if (c == '?' || (c == 'f' && (options->own = read_own(optarg)) == NULL))
            return false;
    }
    options->look |= (unsigned)zh;
    /* A flag that would do nothing must not look as if it had. */
    if ((options->save || options->brief || options->by_hand || options->fix ||
         options->lock) &&
        strcmp(argv[0], "run") != 0)
        return fail_aloud("--save, --brief, -i, --fix and --lock "
                          "are for lab run");
    if ((options->fix || options->lock) && !options->by_hand)
        return fail_aloud("lab run --fix and --lock go with -i");
    options->names_n = argc - optind;
    options->names = argv + optind;
    return true;
}

static void json_experiment(FILE *out, const struct experiment *experiment)
{
    char scene[EXPERIMENT_SCENE_BYTES];
    json_t *all =
        json_pack("{s:{s:o, s:o}, s:s, s:s, s:s}", "text", "en",
                  reader_json(&experiments, &experiment->entry, 0), "zh",
                  reader_json(&experiments, &experiment->entry, DRAW_CHINESE),
                  "id", experiment->entry.id, "name", experiment->entry.name,
                  "kind", experiment->kind->name);

    /* A play that is not there is null: so a program finds each word. */
    for (unsigned i = 0; i < EXPERIMENT_PLAYS_N; i++) {
        const struct experiment_play *play = &experiment->plays[i];
        json_t *one = NULL;

        if (play->scene.lock) {
            experiment->kind->scene(play, scene, sizeof(scene));
            one = json_pack(
                "{s:o, s:o, s:o, s:o*, s:o*}", "faults",
                draw_json_faults(play->faults & ~STAGE_REMARKS), "remarks",
                draw_json_faults(play->faults & STAGE_REMARKS), "scene",
                draw_json_text(scene, 0), "schedule",
                play->schedule ? draw_json_text(play->schedule, 0) : NULL,
                "says", play->says ? draw_json_text(play->says, 0) : NULL);
        }
        (void)json_object_set_new(all, experiment_play_word(i),
                                  one ? one : json_null());
    }
    draw_json_line(out, all);
}

static const char list_help[] =
#include "server/lab/help/list.txt.inc"
    ;

int lab_list_main(int argc, char *argv[])
{
    struct lab_options options = {.look = 0};
    const struct experiment *one;
    unsigned all_n = 0, wild_n = 0;

    if (!lab_options_read(argc, argv, &options))
        return LAB_COULD_NOT_RUN;
    if (options.help) {
        fputs(list_help, stdout);
        return 0;
    }
    if (options.names_n > 0 || options.own)
        return fail_to_run("lab list takes no name; lab show does");
    for (size_t i = 0; (one = reader_at(&experiments, i)) != NULL; i++) {
        all_n++;
        wild_n += strchr(one->entry.id, 'w') != NULL;
        if (options.json) {
            json_experiment(stdout, one);
        } else {
            printf("%-4s %-28s %s\n", one->entry.id, one->entry.name,
                   reader_texts(&one->entry, options.look)[EXPERIMENT_SYMPTOM]);
        }
    }
    if (options.json)
        return 0;
    putchar('\n');
    /* One "in the wild" is one of the others once more. */
    draw_say(stdout, options.look,
             "%u experiments; %u of them once more with real instances (w)\n",
             all_n - wild_n, wild_n);
    draw_say(stdout, options.look,
             "To see what one is about, and to run it:\n");
    printf("  %s lab show 08\n  %s lab run 08\n", draw_program(),
           draw_program());
    return 0;
}

/* ---- show --------------------------------------------------------------- */

/* An actor's program, and its settings where they are not those of all. */
static void tell_role(const struct stage_scene *scene, unsigned actor,
                      unsigned look)
{
    const struct stage_role *role = &scene->roles[actor];
    const struct program *program =
        program_find(stage_role(scene, actor).program);
    const char *between = " (";
    char text[EXPERIMENT_SCENE_BYTES];
    FILE *out = fmemopen(text, sizeof(text), "w");

    if (!out)
        return;
    draw_say(out, look, "%c: %s", 'a' + (int)actor,
             look & DRAW_CHINESE ? program->chinese : program->english);
#define ROW(member, flag, words)                                               \
    if (role->member > 0) {                                                    \
        draw_say(out, look, "%s", between);                                    \
        draw_say(out, look, "%s %" PRId64, words, role->member);               \
        between = ", ";                                                        \
    }
#include "server/lab/scene/roles.inc"
    if (role->key) {
        draw_say(out, look, "%s", between);
        draw_say(out, look, "Idempotency-Key %s", role->key);
    }
    if (role->key || between[0] == ',')
        draw_say(out, look, ")");
    if (fclose(out) == 0 && (role->program || role->key || between[0] == ','))
        draw_text(stdout, 2, text);
}

void lab_scene(const struct experiment *experiment,
               const struct experiment_play *play, unsigned look)
{
    char text[EXPERIMENT_SCENE_BYTES];

    experiment->kind->scene(play, text, sizeof(text));
    draw_english(stdout, 2, look, text);
    for (unsigned i = 0; i < play->scene.buyers; i++)
        tell_role(&play->scene, i, look);
}

static void tell_expected(const char *what, const char *word, const char *text,
                          unsigned look)
{
    printf("  ");
    draw_say(stdout, look, text[0] ? "%s: %s: %s\n" : "%s: %s\n", what, word,
             text);
}

static void show(const struct experiment *experiment, unsigned look)
{
    static const char *const parts[] = {"What you will see", "Why",
                                        "What fixes it",
                                        "What the fix leaves open"};
    const char *const *text = reader_texts(&experiment->entry, look);
    const struct experiment_play *bug = &experiment->plays[EXPERIMENT_BUG];

    draw_say(stdout, look, "%s %s - %s\n\n", experiment->entry.id,
             text[EXPERIMENT_TITLE], text[EXPERIMENT_SYMPTOM]);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (text[EXPERIMENT_SEE + i])
            draw_paragraph(stdout, look, parts[i], text[EXPERIMENT_SEE + i]);
    for (unsigned i = 0; i < EXPERIMENT_PLAYS_N; i++) {
        const struct experiment_play *play = &experiment->plays[i];

        if (!play->scene.lock)
            continue;
        draw_say(stdout, look, "%s\n", experiment_play_title(experiment, i));
        lab_scene(experiment, play, look);
        if (play->schedule)
            draw_text(stdout, 2, play->schedule);
        /* Remarks are expected like faults, and are none. */
        for (enum stage_fault j = 0; j < STAGE_FAULT_N; j++)
            if (play->faults & EXPERIMENT_FAULT(j))
                tell_expected(1u << j & STAGE_REMARKS ? "expected remark"
                                                      : "expected",
                              stage_fault_word(j), stage_fault_text(j), look);
        /* Words that somebody is told are what counts; else nothing may break. */
        if (play->says)
            tell_expected("expected", "somebody is told", play->says, look);
        else if ((play->faults & ~STAGE_REMARKS) == 0)
            tell_expected("expected", "nothing broke", "", look);
    }
    if (bug->schedule) {
        putchar('\n');
        draw_say(
            stdout, look, "%s\n",
            experiment->kind == &load_kind
                ? "server/lab/README.md says what the words of a story mean"
                : "stockade replay --help says what these moves mean");
    }
}

static const char show_help[] =
#include "server/lab/help/show.txt.inc"
    ;

int lab_show_main(int argc, char *argv[])
{
    struct lab_options options = {.look = 0};
    const struct experiment *experiment;
    struct fail error;

    if (!lab_options_read(argc, argv, &options))
        return LAB_COULD_NOT_RUN;
    if (options.help || options.names_n != (options.own ? 0 : 1)) {
        fputs(show_help, options.help ? stdout : stderr);
        return options.help ? 0 : LAB_COULD_NOT_RUN;
    }
    experiment = options.own
                     ? options.own
                     : reader_find(&experiments, options.names[0], &error);
    if (!experiment)
        return fail_to_run("%s", error.text);
    if (options.json)
        json_experiment(stdout, experiment);
    else
        show(experiment, options.look);
    return 0;
}

/* `stockade lab path`: the stops, and one of them at a terminal. See path.h. */
#include "server/lab/path/path.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "server/lab/replay/game.h"
#include "server/lab/scene/stage_options.h"

enum { SOLVED = 0, NOT_SOLVED = 1, COULD_NOT_RUN = 2 };

/* A learner's progress at one stop. */
struct progress {
    unsigned broken; /* by how few moves; 0 = not yet */
    bool is_mended;  /* or the search has agreed that it cannot be broken */
};

/* The command is the whole process. */
static struct {
    const struct path_stop *stop;
    char choice;     /* --choice; 0 = the stop itself */
    int64_t seconds; /* of a search */
    int judges, json, help;
    unsigned look;
    struct progress progress[PATH_STOPS_MAX];
} walk;

#define SAY(...) draw_say(stdout, walk.look, __VA_ARGS__)

/* ---- what was solved ------------------------------------------------------- */

enum { LINE_BYTES = 200 };

/* The file has lines as "no-lock broken 6" and "no-lock mended"; a browser keeps its own. $XDG_STATE_HOME/stockade/path, or ~/.local/state/stockade/path. NULL:
 * there is no home. */
static const char *progress_file(void)
{
    static char path[PATH_MAX];
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool is_state = state && state[0] == '/'; /* as its specification has it */
    int n;

    if (!is_state && (!home || home[0] != '/'))
        return NULL;
    n = snprintf(path, sizeof(path), "%s%s/stockade/path",
                 is_state ? state : home, is_state ? "" : "/.local/state");
    /* A path that is cut would be another file. */
    return n < PATH_MAX ? path : NULL;
}

static size_t index_of(const struct path_stop *stop)
{
    return (size_t)(stop - (const struct path_stop *)reader_at(&stops, 0));
}

/* Nothing of stops that nobody has begun; a line that makes no sense says nothing. */
static void progress_read(void)
{
    const char *path = progress_file();
    FILE *file = path ? fopen(path, "re") : NULL;
    char line[LINE_BYTES], name[40];
    struct fail error;

    while (file && fgets(line, sizeof(line), file)) {
        const char *broken = strstr(line, " broken ");
        /* A stop that the path has no more says nothing. */
        const struct path_stop *stop = sscanf(line, "%39s", name) == 1
                                           ? reader_find(&stops, name, &error)
                                           : NULL;
        struct progress *progress = &walk.progress[stop ? index_of(stop) : 0];

        if (stop && broken)
            /* The last line counts: only better ones are added. */
            (void)sscanf(broken, " broken %5u", &progress->broken);
        if (stop && strstr(line, " mended"))
            progress->is_mended = true;
    }
    if (file)
        (void)fclose(file);
}

/* Adds a line about the stop, by how many moves it was BROKEN, or 0: it was mended; and
 * makes the folders in which the file lies. */
static void progress_add(unsigned broken)
{
    const char *path = progress_file();
    char folder[PATH_MAX];
    FILE *file;

    if (!path) {
        fprintf(stderr, "stockade: lab path: there is no HOME to keep it in\n");
        return;
    }
    /* The folders above are made from the left; those that are there stay. */
    for (const char *at = path; (at = strchr(at + 1, '/')) != NULL;) {
        (void)snprintf(folder, sizeof(folder), "%.*s", (int)(at - path), path);
        (void)mkdir(folder, 0700);
    }
    /* A line is added and none written over: two at a time lose nothing. */
    file = fopen(path, "ae");
    if (file && broken > 0)
        fprintf(file, "%s broken %u\n", walk.stop->entry.name, broken);
    else if (file)
        fprintf(file, "%s mended\n", walk.stop->entry.name);
    if (!file || fclose(file) != 0)
        fprintf(stderr, "stockade: lab path: %s: %s\n", path, strerror(errno));
}

/* ---- words ---------------------------------------------------------------- */

static const char help[] =
#include "server/lab/help/path.txt.inc"
    ;

/* Lines with " |" between them, that dots indent. */
static void tell_code(void)
{
    const char *at = walk.stop->code, *end;
    int dots;

    draw_in(stdout, walk.look, DRAW_BOLD, "The lock");
    putchar('\n');
    for (; at; at = end ? end + strlen(" | ") : NULL) {
        end = strstr(at, " | ");
        dots = (int)strspn(at, ".");
        printf("    %*s%.*s\n", dots, "",
               (int)(end ? (size_t)(end - at) : strlen(at)) - dots, at + dots);
    }
    putchar('\n');
}

static void tell_elsewhere(const char *const text[])
{
    const char *const rows[][2] = {{"Redisson", text[PATH_REDISSON]},
                                   {"redsync", text[PATH_REDSYNC]},
                                   {"Spring", text[PATH_SPRING]}};
    char line[1000];

    draw_in(stdout, walk.look, DRAW_BOLD, "What you type elsewhere");
    putchar('\n');
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)snprintf(line, sizeof(line), "%s: %s", rows[i][0], rows[i][1]);
        draw_text(stdout, 2, line);
    }
    putchar('\n');
}

/* ---- the list ------------------------------------------------------------- */

static int list(void)
{
    const struct path_stop *stop, *next = NULL;
    unsigned solved_n = 0, n = 0;

    for (; (stop = reader_at(&stops, n)) != NULL; n++) {
        const struct progress *progress = &walk.progress[n];
        /* A right lock is solved by the word alone: there is nothing to break. */
        bool is_solved =
            progress->is_mended && (progress->broken > 0 || !stop->schedule);

        printf("[%c] %s  %-23s %s\n",
               is_solved              ? 'x'
               : progress->broken > 0 ? '/'
                                      : ' ',
               stop->entry.id, stop->entry.name,
               reader_texts(&stop->entry, walk.look)[PATH_TITLE]);
        solved_n += is_solved;
        if (!is_solved && !next)
            next = stop;
    }
    putchar('\n');
    SAY("%u of %u solved\n", solved_n, n);
    if (next)
        printf("  %s lab path %s\n", draw_program(), next->entry.id);
    return 0;
}

/* ---- one stop ------------------------------------------------------------- */

static enum path_answer judge(char choice)
{
    struct fail error;
    enum path_answer answer =
        path_judge(walk.stop, choice, (unsigned)walk.seconds, walk.json,
                   walk.look, &error);

    if (answer == PATH_FAILED)
        (void)fail_aloud("lab path: %s", error.text);
    return answer;
}

static int status_of(enum path_answer answer)
{
    return answer == PATH_HOLDS    ? SOLVED
           : answer == PATH_BREAKS ? NOT_SOLVED
                                   : COULD_NOT_RUN;
}

/* The learner's own way, until the fault is there or they give up. */
static int break_it(void)
{
    const struct path_stop *stop = walk.stop;
    struct progress *progress = &walk.progress[index_of(stop)];
    /* The hints keep to the stop's bounds, in which its fault is known to lie. */
    const struct game_goal goal = {stop->faults, &stop->bounds};
    const struct experiment_play play = {.scene = stop->scene};
    char text[EXPERIMENT_SCENE_BYTES];
    unsigned moves;
    int status;

    draw_in(stdout, walk.look, DRAW_BOLD, "Break it");
    putchar('\n');
    steps_kind.scene(&play, text, sizeof(text));
    draw_english(stdout, 2, walk.look, text);
    putchar('\n');
    status = hand_play(&stop->scene, NULL, 0, &goal, walk.look, &moves);
    putchar('\n');
    /* The goal is another thing than any fault: MOVES is 0 if it was not reached. */
    if (status == COULD_NOT_RUN || moves == 0)
        return status;
    /* The fewest moves are kept: a worse try changes nothing. */
    if (progress->broken == 0 || moves < progress->broken) {
        progress->broken = moves;
        progress_add(moves);
    }
    if (stop->schedule)
        SAY("the fewest known are %u\n", path_fewest(stop));
    putchar('\n');
    return status;
}

/* Asks until a choice holds, or the learner gives up. */
static int mend_it(void)
{
    const struct path_choice *choices = walk.stop->choices;
    enum path_answer answer = PATH_UNKNOWN;
    unsigned n = 0;
    int key;

    draw_in(stdout, walk.look, DRAW_BOLD, "Mend it");
    putchar('\n');
    for (; n < PATH_CHOICES_MAX && choices[n].scene.lock; n++) {
        char line[1000];

        (void)snprintf(line, sizeof(line), "%c  %s", 'a' + (int)n,
                       choices[n].text[experiment_language(walk.look)]);
        draw_text(stdout, 2, line);
    }
    /* A choice that breaks, or that nobody knows of, asks for another; one that failed
     * ends it. */
    do {
        putchar('\n');
        SAY("your choice (q end)");
        printf(": ");
        key = hand_key();
        if (key == 'q')
            return NOT_SOLVED;
        if (!path_scene(walk.stop, (char)key))
            SAY("there is no such choice\n");
        else
            answer = judge((char)key);
    } while (answer == PATH_BREAKS || answer == PATH_UNKNOWN);
    return status_of(answer);
}

/* A right lock: the search has the last word. */
static int agree(void)
{
    SAY("Can it be done? s: it cannot, and the search has to agree "
        "(q end)");
    printf(": ");
    if (hand_key() != 's')
        return NOT_SOLVED;
    return status_of(judge(0));
}

static int walk_stop(void)
{
    const struct path_stop *stop = walk.stop;
    const char *const *text = reader_texts(&stop->entry, walk.look);
    const struct path_stop *next = reader_at(&stops, index_of(stop) + 1);
    struct progress *progress = &walk.progress[index_of(stop)];
    int status;

    draw_title(stdout, walk.look, stop->entry.id, text[PATH_TITLE]);
    printf("\n\n");
    draw_paragraph(stdout, walk.look, "What the books say",
                   text[PATH_LITERATURE]);
    tell_code();
    status = break_it();
    /* Ctrl-C ends the stop, whatever was reached. */
    if (status == COULD_NOT_RUN || stage_options_interrupted())
        return COULD_NOT_RUN;
    /* A stop that was broken another day may be mended now. */
    if (stop->schedule && progress->broken == 0) {
        SAY("not broken yet\n");
        return NOT_SOLVED;
    }
    status = stop->schedule ? mend_it() : agree();
    if (status != SOLVED)
        return stage_options_interrupted() ? COULD_NOT_RUN : status;
    progress->is_mended = true;
    progress_add(0);
    SAY("solved\n\n");
    draw_paragraph(stdout, walk.look, "What is still wrong", text[PATH_STILL]);
    tell_elsewhere(text);
    if (!next)
        SAY("This was the last stop.\n");
    else
        printf("  %s lab path %s    %s\n", draw_program(), next->entry.id,
               reader_texts(&next->entry, walk.look)[PATH_TITLE]);
    return SOLVED;
}

/* ---- the command ---------------------------------------------------------- */

static bool read_options(int argc, char *argv[])
{
    static int zh;
    static const struct option flags[] = {
        {"choice", required_argument, NULL, 'c'},
        {"judge", no_argument, &walk.judges, 1},
        {"seconds", required_argument, NULL, 's'},
        {"json", no_argument, &walk.json, 1},
        {"zh", no_argument, &zh, DRAW_CHINESE},
        {"help", no_argument, &walk.help, 1},
        {0},
    };
    struct fail error;
    int c;

    while ((c = getopt_long(argc, argv, "h", flags, NULL)) != -1) {
        walk.help |= c == 'h';
        if (c == 'c')
            walk.choice = *(strlen(optarg) == 1 ? optarg : "?");
        if (c == '?')
            fprintf(stderr, "stockade lab path --help lists the flags\n");
        if (c == '?' || (c == 's' && !stage_options_number("seconds", optarg, 1,
                                                           PATH_JUDGE_S_MAX,
                                                           &walk.seconds)))
            return false;
    }
    walk.look |= (unsigned)zh;
    if (walk.help)
        return true;
    if (argc - optind > 1 ||
        (argc == optind && (walk.judges || walk.json || walk.choice))) {
        fprintf(stderr, "usage: stockade lab path [flags] [STOP]; --help tells "
                        "more\n");
        return false;
    }
    if (argc == optind)
        return true;
    walk.stop = reader_find(&stops, argv[optind], &error);
    if (!walk.stop)
        return fail_aloud("%s", error.text);
    /* The choice is checked here, because all below take its scene for granted. */
    return path_scene(walk.stop, walk.choice) ||
           fail_aloud("lab path: stop %s has no choice %c", walk.stop->entry.id,
                      walk.choice);
}

int lab_path_main(int argc, char *argv[])
{
    struct game_goal goal;

    walk.look = draw_look();
    walk.seconds = PATH_JUDGE_S;
    if (!read_options(argc, argv))
        return COULD_NOT_RUN;
    if (walk.help) {
        const char *file = progress_file();

        printf(help, PATH_JUDGE_S,
               file ? file : "but you have no HOME for it.");
        return 0;
    }
    progress_read();
    if (!walk.stop)
        return list();
    stage_options_catch_signals();
    goal = (struct game_goal){walk.stop->faults, &walk.stop->bounds};
    /* The judge, the page and a choice of one's own come before the walk: they are for
     * programs, and for the curious. */
    if (walk.judges)
        return status_of(judge(walk.choice));
    if (walk.json)
        return lines_play(path_scene(walk.stop, walk.choice), NULL, 0, &goal,
                          walk.look);
    if (walk.choice)
        return hand_play(path_scene(walk.stop, walk.choice), NULL, 0, &goal,
                         walk.look, NULL);
    return walk_stop();
}

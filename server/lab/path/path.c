/* All stops, as the build has found their files, and their judge, which is the search. See
 * path.h. */
#include "server/lab/path/path.h"

#include <stdlib.h>
#include <string.h>

#include "server/lab/experiments/reader.h"
#include "server/lab/explore/explore.h"
#include "server/lab/fail.h"
#include "server/lab/picture/draw.h"
#include "server/lab/replay/game.h"

static const struct {
    const char *name, *content;
} files[] = {
#include "server/lab/path/all.inc"
};

enum { FILES_N = sizeof(files) / sizeof(files[0]) };

/* The languages first, then what is to be broken, and the choices. */
enum { BREAK = EXPERIMENT_LANGUAGES_N, CHOICES };
static const char *const sections[] = {"en", "zh", "break", "a",
                                       "b",  "c",  "d",     NULL};

/* ---- a file -------------------------------------------------------------- */

const struct reader_text path_texts[] = {
    {"title", offsetof(struct path_text, title)},
    {"literature", offsetof(struct path_text, literature)},
    {"still", offsetof(struct path_text, still)},
    {"redisson", offsetof(struct path_text, redisson)},
    {"redsync", offsetof(struct path_text, redsync)},
    {"spring", offsetof(struct path_text, spring)},
    {NULL, 0}};

enum { TEXTS_N = sizeof(path_texts) / sizeof(path_texts[0]) - 1 };

/* "late 1 troubles 2": those that differ from the bounds of all hints. */
static bool set_bounds(struct reader *reader, struct search_bounds *bounds,
                       char *words)
{
    struct explore explore = {.bounds = *bounds};
    char *rest = NULL;

    for (char *word = strtok_r(words, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        const char *number = strtok_r(NULL, " ", &rest);

        if (!number || !explore_take_bound(&explore, word, number))
            return reader_fail(reader, "'%s' is no bound of explore", word);
    }
    *bounds = explore.bounds;
    return true;
}

/* A choice is the same scene, but for what it says. */
static bool begin_section(struct reader *reader)
{
    struct path_stop *stop = reader->into;

    if (reader->section >= CHOICES)
        stop->choices[reader->section - CHOICES].scene = stop->scene;
    return true;
}

static bool set_value(struct reader *reader, const char *key, char *value)
{
    struct path_stop *stop = reader->into;
    int section = reader->section;
    bool is_choice = section >= CHOICES;
    struct path_choice *choice =
        &stop->choices[is_choice ? section - CHOICES : 0];
    const char *schedule;

    if (section < 0)
        return reader_fail(reader, "a stop begins with [en]");
    if (section < BREAK)
        return reader_text(reader, path_texts, &stop->text[section], key,
                           value);
    for (int i = 0; i < EXPERIMENT_LANGUAGES_N && is_choice; i++)
        if (strcmp(sections[i], key) == 0) {
            choice->text[i] = value;
            return true;
        }
    if (is_choice)
        return reader_play(reader, &choice->scene, &schedule, key, value);
    if (strcmp(key, "faults") == 0)
        return reader_faults(reader, &stop->faults, value);
    if (strcmp(key, "without") == 0)
        return reader_faults(reader, &stop->without, value);
    if (strcmp(key, "bounds") == 0)
        return set_bounds(reader, &stop->bounds, value);
    if (strcmp(key, "code") == 0) {
        stop->code = value;
        return true;
    }
    if (strcmp(key, "shortest") == 0)
        return reader_play(reader, &stop->scene, &stop->shortest, "schedule",
                           value);
    return reader_play(reader, &stop->scene, &stop->schedule, key, value);
}

static bool has_all(struct reader *reader, struct path_stop *stop)
{
    const struct path_choice *choice = stop->choices;

    for (int i = 0; i < EXPERIMENT_LANGUAGES_N; i++)
        if (!reader_has_texts(reader, path_texts, TEXTS_N, &stop->text[i],
                              sections[i]))
            return false;
    if (!stop->scene.lock || !stop->code || !stop->faults)
        return reader_fail(reader, "[break] has no lock, code, or faults");
    if (!choice->scene.lock != !stop->schedule)
        return reader_fail(reader, "choices go with a schedule");
    if (!stop->shortest)
        stop->shortest = stop->schedule;
    for (; choice < stop->choices + PATH_CHOICES_MAX && choice->scene.lock;
         choice++)
        if (!choice->text[EXPERIMENT_EN] || !choice->text[EXPERIMENT_ZH])
            return reader_fail(reader, "a choice is not in both languages");
    return true;
}

/* Takes CONTENT, from malloc(). False: ERROR says which line is wrong. */
static bool read_stop(const char *file, char *content, struct path_stop *stop,
                      struct fail *error)
{
    struct reader reader = {.file = file,
                            .at = content,
                            .sections = sections,
                            .into = stop,
                            .begin = begin_section,
                            .set = set_value,
                            .error = error};

    *stop = (struct path_stop){.scene = STAGE_SCENE(NULL),
                               .bounds = game_hint_bounds,
                               .content = content};
    return reader_read(&reader, stop->id, stop->name) && has_all(&reader, stop);
}

/* A file that is wrong is a bug of ours, which each test of the path finds. */
const struct path_stop *path_at(size_t index)
{
    static struct path_stop all[FILES_N];
    struct fail error;

    for (size_t i = 0; i < FILES_N && !all[FILES_N - 1].content; i++)
        if (!read_stop(files[i].name, strdup(files[i].content), &all[i],
                       &error))
            exit(fail_to_run("%s", error.text));
    return index < FILES_N ? &all[index] : NULL;
}

const struct path_stop *path_find(const char *name, size_t *index)
{
    const struct path_stop *stop;

    for (size_t i = 0; (stop = path_at(i)) != NULL; i++)
        if (strcmp(stop->name, name) == 0 || strcmp(stop->id, name) == 0 ||
            (stop->id[0] == '0' && strcmp(stop->id + 1, name) == 0)) {
            if (index)
                *index = i;
            return stop;
        }
    return NULL;
}

unsigned path_fewest(const struct path_stop *stop)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    struct fail error;

    return stop->shortest ? (unsigned)stage_parse(stop->shortest, moves, &error)
                          : 0;
}

const struct stage_scene *path_scene(const struct path_stop *stop, char choice)
{
    unsigned index = (unsigned)(choice - 'a');

    if (choice == 0)
        return &stop->scene;
    return index < PATH_CHOICES_MAX && stop->choices[index].scene.lock
               ? &stop->choices[index].scene
               : NULL;
}

/* ---- the judge ------------------------------------------------------------ */

/* A search, and the answer that it gives. */
struct judgement {
    char choice;
    enum path_answer answer;
    struct explore explore; /* with the faults that count against it */
    enum stage_fault fault; /* the nearest of them; STAGE_FAULT_N = none */
    unsigned others;        /* that were found on the way */
    bool is_new;            /* the stop's own lock has another one */
    unsigned look;
};

static void tell(const struct judgement *judgement, const char *schedule)
{
    const struct explore *explore = &judgement->explore;

    if (judgement->answer == PATH_BREAKS) {
        draw_say(stdout, judgement->look,
                 judgement->is_new ? "it breaks in another way: %s\n"
                                   : "it still breaks: %s\n",
                 stage_fault_text(judgement->fault));
        printf("  ");
        command_replay(stdout, &explore->scene, schedule);
        putchar('\n');
        return;
    }
    draw_say(stdout, judgement->look, "%s\n", explore_verdict(explore));
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (judgement->others & 1u << i)
            draw_say(stdout, judgement->look, "but something else breaks: %s\n",
                     stage_fault_text(i));
    if (judgement->answer == PATH_UNKNOWN)
        draw_say(stdout, judgement->look,
                 "time was up first: that is no answer yet\n");
    explore_tell_bounds(stdout, explore);
}

static void tell_json(const struct judgement *judgement, const char *schedule)
{
    static const char *const answers[] = {"holds", "breaks", "unknown"};
    const struct explore *explore = &judgement->explore;
    bool breaks = judgement->answer == PATH_BREAKS;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out) {
        explore_tell_bounds(out, explore);
        (void)fclose(out);
    }
    draw_json_line(
        stdout,
        json_pack(
            "{s:o, s:s, s:o, s:s, s:s*, s:s*, s:o, s:i}", "choice",
            json_sprintf("%c", judgement->choice ? judgement->choice : '-'),
            "answer", answers[judgement->answer], "says",
            draw_json_text(explore_verdict(explore), judgement->look), "bounds",
            text ? text : "", "fault",
            breaks ? stage_fault_word(judgement->fault) : NULL, "schedule",
            breaks ? schedule : NULL, "others",
            draw_json_faults(judgement->others), "moves",
            (int)explore->result.moves));
    free(text);
}

enum path_answer path_judge(const struct path_stop *stop, char choice,
                            unsigned seconds, bool json, unsigned look,
                            struct fail *error)
{
    static struct judgement judgement;
    struct explore *explore = &judgement.explore;
    char schedule[4 * STAGE_MOVES_MAX + 1] = "";
    unsigned against = stop->faults | stop->without;
    struct search_found *faults = explore->result.faults, *nearest = NULL;

    judgement = (struct judgement){
        .choice = choice, .look = look, .fault = STAGE_FAULT_N};
    *explore = (struct explore){.scene = *path_scene(stop, choice),
                                .bounds = stop->bounds,
                                .seconds = seconds,
                                .enough = against,
                                .look = look};
    explore->bounds.passes = ~against;
    if (!explore_search(explore, error))
        return PATH_FAILED;
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++) {
        if (!faults[i].is_found)
            continue;
        /* Faults of another kind are no answer; they are told beside it. */
        if ((against & 1u << i) == 0) {
            judgement.others |= 1u << i;
            faults[i].is_found = false;
        } else if (!nearest || faults[i].n < nearest->n) {
            nearest = &faults[i];
            judgement.fault = i;
        }
    }
    judgement.answer = nearest                    ? PATH_BREAKS
                       : explore->result.is_whole ? PATH_HOLDS
                                                  : PATH_UNKNOWN;
    judgement.is_new = (stop->faults & 1u << judgement.fault) == 0;
    if (nearest)
        stage_text(nearest->moves, nearest->n, schedule, sizeof(schedule));
    if (json)
        tell_json(&judgement, schedule);
    else
        tell(&judgement, schedule);
    return judgement.answer;
}

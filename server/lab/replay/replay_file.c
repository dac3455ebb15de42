/*
 * See game.h. A line is read, checked, and drawn: files may be long. Whatever is wrong with
 * one is told with file and line; all before it is drawn.
 */
#include "server/lab/replay/game.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "server/lab/picture/draw.h"
#include "server/lab/timeline/timeline.h"

enum {
    LANES_MAX = 5, /* more would be too narrow: a line each instead */
    LANE_BYTES = TIMELINE_NAME_BYTES + 4, /* "2:worker-1" */
    LINE_BYTES = 16384,                   /* longer lines are none of ours */
};

/* A file that is being read. */
struct source {
    const char *path;
    const char *prefix; /* of its actors: with two files "2:", else "" */
    FILE *file;
    unsigned line_n;   /* of the line that was read last */
    json_int_t events; /* so far */
    struct fail error; /* why the file is no whole timeline; "" = it is one */
    uint64_t started_us;
    struct stage_move moves[STAGE_MOVES_MAX];
    int moves_n;
    json_t *head, *event, *verdict; /* the lines; NULL = it has none (more) */
};

struct picture {
    struct source sources[REPLAY_FILES_MAX];
    size_t n;
    int64_t until;
    json_t *lanes; /* the number of each actor's column, by its name; those of a
                      live instance are many, and not in its head */
    unsigned look;
};

/* ---- lines ------------------------------------------------------------------ */

/* Of the line that was read last. Returns false. */
#define COMPLAIN(source, ...)                                                  \
    (fail_with(&(source)->error, "%s:%u: ", (source)->path, (source)->line_n), \
     fail_more(&(source)->error, __VA_ARGS__))

/* For a terminal: others have written the file, and each byte that is no printable ASCII
 * becomes a '?'. */
static char *make_plain(char text[])
{
    for (char *at = text; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    return text;
}

/* The same of all texts in VALUE. */
static void make_all_plain(json_t *value)
{
    const char *name;
    json_t *each;

    if (json_is_string(value)) {
        char *text = strdup(json_string_value(value));

        /* A text for which there is no memory is shown as none, and never as it came. */
        (void)json_string_set(value, text ? make_plain(text) : "");
        free(text);
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        make_all_plain(json_array_get(value, i));
    json_object_foreach(value, name, each)
    {
        make_all_plain(each);
    }
}

/* The next line. NULL: there is none, and source->error says why. */
static json_t *read_line(struct source *source)
{
    static char text[LINE_BYTES];
    json_error_t error;
    json_t *line = NULL;

    /* The line counts before it is read: an error is told with the number it
     * would have. */
    source->line_n++;
    errno = 0;
    /* A line without an end is cut, or too long: a part of one must not be taken
     * for JSON. */
    if (!fgets(text, sizeof(text), source->file))
        (void)COMPLAIN(source,
                       errno ? "cannot be read: %s"
                             : "the timeline is cut: there is no line with "
                               "its verdict%s",
                       errno ? strerror(errno) : "");
    else if (text[strcspn(text, "\n")] != '\n')
        (void)COMPLAIN(source, feof(source->file)
                                   ? "the line is cut: it has no end"
                                   : "the line is too long, or has a NUL: "
                                     "this is no timeline");
    else if (!(line = json_loads(text, JSON_REJECT_DUPLICATES, &error)))
        (void)COMPLAIN(source, "no JSON at byte %d: %s", error.position,
                       make_plain(error.text));
    /* The texts are drawn on a terminal, where a byte of a stranger's could be a
     * command to it. */
    make_all_plain(line);
    return line;
}

static const char *text_of(const json_t *line, const char *name)
{
    const char *text = json_string_value(json_object_get(line, name));

    return text ? text : "";
}

static json_int_t number_of(const json_t *line, const char *name)
{
    return json_integer_value(json_object_get(line, name));
}

/* Whether LINE has the members that FORMAT names, as json_unpack() does. */
static bool has(struct source *source, json_t *line, const char *format, ...)
{
    json_error_t error;
    va_list args;
    int status;

    va_start(args, format);
    status = json_vunpack_ex(line, &error, JSON_VALIDATE_ONLY, format, args);
    va_end(args);
    return status == 0 || COMPLAIN(source, "%s", error.text);
}

/* "started" is as "2026-01-01T00:00:00.000000Z". */
static bool is_head(struct source *source, json_t *line)
{
    json_int_t version = number_of(line, "timeline");
    struct tm utc = {0};
    const char *rest;
    struct fail error;
    unsigned us;
    char end;

    if (!json_is_integer(json_object_get(line, "timeline")))
        return COMPLAIN(source,
                        "no head of a timeline: it has no number \"timeline\"");
    if (version != TIMELINE_VERSION)
        return COMPLAIN(source,
                        "a timeline of version %lld; this program reads "
                        "version %d",
                        version, TIMELINE_VERSION);
    if (!has(source, line, "{s:s, s:s, s:o, s?s, s?s, s?s, s?s}", "source",
             "started", "actors", "scene", "lock", "settings", "schedule"))
        return false;
    rest = strptime(text_of(line, "started"), "%Y-%m-%dT%H:%M:%S", &utc);
    /* One byte behind the fraction, and it is the Z: nothing may follow. */
    if (!rest || sscanf(rest, ".%6u%c", &us, &end) != 2 || end != 'Z')
        return COMPLAIN(source, "\"started\" of the head is wrong");
    source->started_us = (uint64_t)timegm(&utc) * 1000000 + us;
    source->moves_n =
        stage_parse(text_of(line, "schedule"), source->moves, &error);
    return source->moves_n >= 0 ||
           COMPLAIN(source, "\"schedule\" of the head is wrong");
}

static bool is_event(struct source *source, json_t *line)
{
    if (!has(source, line, "{s:I, s:s, s?I, s?I, s?s, s?s, s?s, s?s, s?s, s?s}",
             "at_us", "phase", "move", "dropped", "actor", "part", "step",
             "sent", "reply", "mark"))
        return false;
    /* Gaps are no events: the verdict counts what is in the file. */
    source->events += number_of(line, "dropped") == 0;
    return (number_of(line, "at_us") >= 0 && number_of(line, "move") >= 0 &&
            number_of(line, "dropped") >= 0) ||
           COMPLAIN(source, "a number of the event is below 0");
}

static bool is_verdict(struct source *source, json_t *line)
{
    if (!has(source, line, "{s:o, s:I, s:I}", "verdict", "events", "dropped"))
        return false;
    /* The count tells a file from which lines were taken out. */
    if (number_of(line, "events") != source->events)
        return COMPLAIN(source, "\"events\" of the verdict is wrong");
    if (!json_is_null(json_object_get(line, "verdict")) &&
        !has(source, line, "{s:[], s:I, s:I, s:I}", "verdict", "stock", "sold",
             "orders"))
        return false;
    /* Lines behind a verdict would be drawn by nobody: so they are an error. */
    return getc(source->file) == EOF ||
           COMPLAIN(
               source,
               "a verdict, and lines behind it: two timelines in one file?");
}

/* To the next event, if there is one. */
static void go_on(struct source *source)
{
    json_t *line = read_line(source);

    /* The old event is let go of, whatever came. */
    json_decref(source->event);
    source->event = NULL;
    if (line && json_object_get(line, "verdict"))
        /* A verdict that is wrong is none: its file is then cut. */
        source->verdict = is_verdict(source, line) ? json_incref(line) : NULL;
    else if (line && is_event(source, line))
        source->event = json_incref(line);
    json_decref(line);
}

/* ---- lanes ------------------------------------------------------------------ */

/* The column of ACTOR, whose name is put into NAME; NULL = it has none, as the world. */
static json_t *lane_of(const struct picture *picture,
                       const struct source *source, const char *actor,
                       char name[LANE_BYTES])
{
    (void)snprintf(name, LANE_BYTES, "%s%s", *actor ? source->prefix : "",
                   actor);
    return json_object_get(picture->lanes, name);
}

static bool has_lanes(const struct picture *picture)
{
    size_t n = json_object_size(picture->lanes);

    return n > 0 && n <= LANES_MAX;
}

/* Reads the head, and the first event. False: the file is not there, or no timeline. */
static bool begin(struct picture *picture, struct source *source)
{
    const char *path = source->path;
    char name[LANE_BYTES];
    struct stat about;
    json_t *actor;
    size_t i;

    /* A pipe cannot be read again, and a fifo may never have anything. */
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return fail_with(&source->error,
                         "%s: not a regular file: save the timeline in one",
                         path);
    source->file = fopen(path, "re");
    if (!source->file)
        return fail_with(&source->error, "%s: %s", path, strerror(errno));
    source->head = read_line(source);
    if (!source->head || !is_head(source, source->head))
        return false;
    json_array_foreach(json_object_get(source->head, "actors"), i, actor)
    {
        /* An actor that the head names twice has one lane. */
        if (!lane_of(picture, source,
                     json_is_string(actor) ? json_string_value(actor) : "?",
                     name))
            (void)json_object_set_new(
                picture->lanes, name,
                json_integer((json_int_t)json_object_size(picture->lanes)));
    }
    go_on(source);
    return true;
}

/* ---- drawing ---------------------------------------------------------------- */

static uint64_t time_of(const struct source *source)
{
    return source->started_us + (uint64_t)number_of(source->event, "at_us");
}

/* BEGAN_US: when the first of the timelines began. */
static void draw_event(const struct picture *picture,
                       const struct source *source, const char *move,
                       uint64_t began_us)
{
    const json_t *event = source->event, *lane;
    json_int_t dropped = number_of(event, "dropped");
    struct stage_step step = {.at_us = time_of(source) - began_us};
    size_t lanes_n = json_object_size(picture->lanes);
    char actor[LANE_BYTES];

    lane = lane_of(picture, source, text_of(event, "actor"), actor);
    step.actor = (signed char)(lane ? json_integer_value(lane) : -1);
    (void)snprintf(step.who, sizeof(step.who), "%s", text_of(event, "part"));
    (void)snprintf(step.name, sizeof(step.name), "%s", text_of(event, "step"));
    (void)snprintf(step.sent, sizeof(step.sent), "%s", text_of(event, "sent"));
    (void)snprintf(step.mark, sizeof(step.mark), "%s", text_of(event, "mark"));
    (void)snprintf(step.reply, sizeof(step.reply), "%s",
                   text_of(event, "reply"));
    if (dropped > 0)
        (void)snprintf(step.reply, sizeof(step.reply),
                       "%lld events are missing here", dropped);
    /* An actor beyond the lanes is named in its line; without lanes all of them are. */
    if (*actor && (!lane || !has_lanes(picture))) {
        (void)snprintf(step.who, sizeof(step.who), "%.11s", actor);
        step.actor = has_lanes(picture) ? -1 : 0;
    }
    draw_step(stdout, &step, move, has_lanes(picture) ? (unsigned)lanes_n : 1,
              picture->look);
}

/* The source whose next event comes first; NULL: none has one. */
static struct source *first_of(struct picture *picture)
{
    struct source *first = NULL;

    for (size_t i = 0; i < picture->n; i++) {
        struct source *each = &picture->sources[i];

        /* The first file goes first if times are equal: so a picture is the same
         * each time. */
        if (each->event && (!first || time_of(each) < time_of(first)))
            first = each;
    }
    return first;
}

static void draw_events(struct picture *picture)
{
    uint64_t began_us = UINT64_MAX;
    struct source *source;
    json_int_t last = 0, n = 0;

    for (size_t i = 0; i < picture->n; i++)
        if (picture->sources[i].started_us < began_us)
            began_us = picture->sources[i].started_us;
    for (; (source = first_of(picture)) != NULL; go_on(source)) {
        json_int_t move = number_of(source->event, "move");
        char text[4] = "";

        /* The stage counts moves, a live instance events: --until means whichever
         * there is. */
        n = source->moves_n > 0 ? move : n + 1;
        if (picture->until >= 0 && n > picture->until)
            return;
        /* The move stands with the first of its steps. */
        if (move > 0 && move != last && move <= source->moves_n)
            (void)stage_move_text(source->moves[move - 1], text);
        last = move;
        draw_event(picture, source, source->moves_n > 0 ? text : NULL,
                   began_us);
    }
}

/* The faults in a list of words: one of another version of the stage is not among them. */
static unsigned bits_of(const json_t *words)
{
    unsigned faults = 0;

    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *word = json_string_value(json_array_get(words, i));

        for (enum stage_fault fault = 0; word && fault < STAGE_FAULT_N; fault++)
            if (strcmp(stage_fault_word(fault), word) == 0)
                faults |= 1u << fault;
    }
    return faults;
}

static void draw_end(const json_t *verdict, unsigned look)
{
    const json_t *faults = json_object_get(verdict, "verdict");
    /* A fault of a newer version has a word here, and no bit: it must not be told
     * as none. */
    const char *first = json_string_value(json_array_get(faults, 0));
    json_int_t dropped = number_of(verdict, "dropped");
    json_int_t orders = number_of(verdict, "orders");
    struct stage_verdict found = {
        .faults = bits_of(faults),
        .remarks = bits_of(json_object_get(verdict, "remarks"))};

    if (dropped > 0)
        draw_say(stdout, look,
                 "%lld events were dropped: the disk was too slow\n", dropped);
    /* Null is a verdict that nobody gave. */
    if (json_is_null(faults)) {
        draw_say(stdout, look,
                 "verdict: nobody has looked; stockade audit does\n");
        return;
    }
    draw_say(stdout, look, "stock %lld, %lld sold in %lld order%s\n",
             number_of(verdict, "stock"), number_of(verdict, "sold"), orders,
             orders == 1 ? "" : "s");
    if (found.faults != 0 || !first)
        draw_verdict(stdout, &found,
                     json_is_true(json_object_get(verdict, "over")), look);
    else
        draw_say(stdout, look, "verdict: %s\n", first);
}

static void draw_heads(const struct picture *picture)
{
    const char *names[LANES_MAX] = {"who"}, *name;
    json_t *lane;

    for (size_t i = 0; i < picture->n; i++) {
        const json_t *head = picture->sources[i].head;

        printf("%s%s%s %s %s %s\n", text_of(head, "source"),
               *text_of(head, "scene") ? " " : "", text_of(head, "scene"),
               text_of(head, "lock"), text_of(head, "settings"),
               text_of(head, "schedule"));
    }
    json_object_foreach(picture->lanes, name, lane)
    {
        if (has_lanes(picture))
            names[json_integer_value(lane)] = name;
    }
    draw_names(stdout, names,
               has_lanes(picture) ? (unsigned)json_object_size(picture->lanes)
                                  : 1,
               picture->look);
}

/* The verdict counts also where --until ends before it. */
static int status_of(const struct source *source)
{
    const json_t *faults = json_object_get(source->verdict, "verdict");

    /* A file without a verdict, or with none that anybody gave, has not shown that
     * nothing broke. */
    if (!source->verdict || json_is_null(faults))
        return 2;
    return json_array_size(faults) > 0;
}

int replay_files(char *const paths[], size_t n, int64_t until, unsigned look)
{
    static struct picture picture;
    int status = 0;

    picture = (struct picture){
        .n = n, .until = until, .lanes = json_object(), .look = look};
    for (size_t i = 0; i < n; i++) {
        picture.sources[i].path = paths[i];
        picture.sources[i].prefix = n == 1 ? "" : i == 0 ? "1:" : "2:";
        /* The files are opened before anything is drawn: one that is not there leaves
         * no half of a picture. */
        if (!begin(&picture, &picture.sources[i]))
            return fail_to_run("replay: %s", picture.sources[i].error.text);
    }
    draw_heads(&picture);
    draw_events(&picture);
    for (size_t i = 0; i < n; i++) {
        struct source *source = &picture.sources[i];
        bool is_drawn = !source->event;

        while (source->event) /* behind --until, for the verdict */
            go_on(source);
        if (source->verdict && is_drawn)
            draw_end(source->verdict, look);
        (void)fflush(stdout);
        if (source->error.text[0])
            (void)fail_aloud("replay: %s", source->error.text);
        /* The worse of two files is the status. */
        if (status_of(source) > status)
            status = status_of(source);
        (void)fclose(source->file);
        json_decref(source->head);
        json_decref(source->event);
        json_decref(source->verdict);
    }
    json_decref(picture.lanes);
    return status;
}

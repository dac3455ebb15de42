/*
 * See game.h. Each file is read twice: first for the names of its actors,
 * which need a column each, then for its events, which may be many. Whatever is wrong with
 * a line is told with file and line.
 */
#include "server/lab/replay/game.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "server/lab/fail.h"
#include "server/lab/picture/draw.h"
#include "server/lab/timeline/timeline.h"

enum {
    LANES_MAX = 5, /* more would be too narrow: a line each instead */
    LANE_BYTES = TIMELINE_NAME_BYTES + 4, /* "2:worker-1" */
    LINE_BYTES = 16384,                   /* longer lines are none of ours */
    HEADING_BYTES = 1000,
};

/* A file that is being read. */
struct source {
    const char *path;
    char prefix[4]; /* of its actors: with two files "2:", else "" */
    FILE *file;
    unsigned line_n; /* of the line that was read last */
    json_int_t events;
    struct fail error; /* why the file is no whole timeline; "" = it is one */

    /* The head. */
    char heading[HEADING_BYTES];
    uint64_t started_us;
    struct stage_move moves[STAGE_MOVES_MAX];
    int moves_n;

    /* The next event. */
    bool has_event;
    struct stage_step next;
    char actor[LANE_BYTES];

    bool is_at_end;  /* the verdict was read just now: */
    json_t *verdict; /* of the file; NULL = it has none */
};

struct picture {
    struct source *sources;
    size_t n;
    int64_t until;
    unsigned lanes_n; /* LANES_MAX + 1: too many */
    char lanes[LANES_MAX][LANE_BYTES];
    unsigned look;
};

/* ---- lines ------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static bool
complain(struct source *source, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fail_in_file(&source->error, source->path, source->line_n, format,
                       args);
    va_end(args);
    return false;
}

/* FROM, cut, for a terminal: others have written the file, and each byte that is no
 * printable ASCII becomes a '?'. */
static void put_plain(char *to, size_t size, const char *from)
{
    (void)snprintf(to, size, "%s", from);
    for (; *to; to++)
        if (*to < ' ' || *to > '~')
            *to = '?';
}

/* The next line. NULL: there is none, and source->error says why. */
static json_t *read_line(struct source *source)
{
    static char text[LINE_BYTES];
    char why[JSON_ERROR_TEXT_LENGTH];
    json_error_t error;
    json_t *line;

    source->line_n++;
    errno = 0;
    if (!fgets(text, sizeof(text), source->file)) {
        (void)complain(source,
                       errno ? "cannot be read: %s"
                             : "the timeline is cut: there is no line with "
                               "its verdict%s",
                       errno ? strerror(errno) : "");
        return NULL;
    }
    if (text[strcspn(text, "\n")] != '\n') {
        (void)complain(source, feof(source->file)
                                   ? "the line is cut: it has no end"
                                   : "the line is too long, or has a NUL: "
                                     "this is no timeline");
        return NULL;
    }
    line = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    put_plain(why, sizeof(why), error.text);
    if (!line)
        (void)complain(source, "no JSON at byte %d: %s", error.position, why);
    return line;
}

/* The members of LINE that FORMAT names, as json_unpack() does. False: one is not there,
 * or of another kind. */
static bool take(struct source *source, json_t *line, const char *format, ...)
{
    json_error_t error;
    va_list args;
    int status;

    va_start(args, format);
    status = json_vunpack_ex(line, &error, 0, format, args);
    va_end(args);
    return status == 0 || complain(source, "%s", error.text);
}

/* "2026-01-01T00:00:00.000000Z" */
static bool take_date(struct source *source, const char *date)
{
    struct tm utc = {0};
    const char *rest = strptime(date, "%Y-%m-%dT%H:%M:%S", &utc);
    unsigned us;
    char end;

    if (!rest || sscanf(rest, ".%6u%c", &us, &end) != 2 || end != 'Z')
        return complain(source, "\"started\" of the head is wrong");
    source->started_us = (uint64_t)timegm(&utc) * 1000000 + us;
    return true;
}

/* ACTORS: the list of the head. */
static bool take_head(struct source *source, json_t *line, json_t **actors)
{
    const char *from, *date, *scene = "", *lock = "", *settings = "";
    const char *schedule = "";
    char heading[HEADING_BYTES];
    struct fail error;
    int version;

    if (!take(source, line, "{s:i}", "timeline", &version))
        return complain(source,
                        "no head of a timeline: it has no number \"timeline\"");
    if (version != TIMELINE_VERSION)
        return complain(source,
                        "a timeline of version %d; this program reads "
                        "version %d",
                        version, TIMELINE_VERSION);
    if (!take(source, line, "{s:s, s:s, s:o, s?s, s?s, s?s, s?s}", "source",
              &from, "started", &date, "actors", actors, "scene", &scene,
              "lock", &lock, "settings", &settings, "schedule", &schedule) ||
        !take_date(source, date))
        return false;
    source->moves_n = stage_parse(schedule, source->moves, &error);
    if (source->moves_n < 0)
        return complain(source, "\"schedule\" of the head is wrong");
    (void)snprintf(heading, sizeof(heading), "%s%s%s %s %s %s", from,
                   *scene ? " " : "", scene, lock, settings, schedule);
    put_plain(source->heading, sizeof(source->heading), heading);
    return true;
}

/* Into source->actor, which is "" for the world. */
static void name_actor(struct source *source, const char *actor)
{
    char name[LANE_BYTES];

    (void)snprintf(name, sizeof(name), "%s%s", *actor ? source->prefix : "",
                   actor);
    put_plain(source->actor, sizeof(source->actor), name);
}

static bool take_event(struct source *source, json_t *line)
{
    const char *phase, *actor = "", *part = "", *name = "", *sent = "",
                       *reply = "", *mark = "";
    struct stage_step *step = &source->next;
    json_int_t at_us, move = 0, dropped = 0;

    if (!take(source, line,
              "{s:I, s:s, s?I, s?I, s?s, s?s, s?s, s?s, s?s, s?s}", "at_us",
              &at_us, "phase", &phase, "move", &move, "dropped", &dropped,
              "actor", &actor, "part", &part, "step", &name, "sent", &sent,
              "reply", &reply, "mark", &mark))
        return false;
    if (at_us < 0 || move < 0 || dropped < 0)
        return complain(source, "a number of the event is below 0");
    *step =
        (struct stage_step){.at_us = (uint64_t)at_us, .move = (unsigned)move};
    name_actor(source, actor);
    put_plain(step->who, sizeof(step->who), part);
    put_plain(step->name, sizeof(step->name), name);
    put_plain(step->sent, sizeof(step->sent), sent);
    put_plain(step->reply, sizeof(step->reply), reply);
    put_plain(step->mark, sizeof(step->mark), mark);
    if (dropped > 0)
        (void)snprintf(step->reply, sizeof(step->reply),
                       "%" JSON_INTEGER_FORMAT " events are missing here",
                       dropped);
    source->events += dropped == 0;
    return true;
}

static bool take_verdict(struct source *source, json_t *line)
{
    json_int_t events, dropped, stock, sold, orders;
    json_t *faults;

    if (!take(source, line, "{s:o, s:I, s:I}", "verdict", &faults, "events",
              &events, "dropped", &dropped))
        return false;
    if (events != source->events)
        return complain(source, "\"events\" of the verdict is wrong");
    if (!json_is_null(faults) &&
        !take(source, line, "{s:[], s:I, s:I, s:I}", "verdict", "stock", &stock,
              "sold", &sold, "orders", &orders))
        return false;
    if (getc(source->file) != EOF)
        return complain(
            source,
            "a verdict, and lines behind it: two timelines in one file?");
    source->is_at_end = true;
    json_decref(source->verdict);
    source->verdict = json_incref(line);
    return true;
}

/* To the next event, if there is one. */
static void go_on(struct source *source)
{
    json_t *line = read_line(source);

    source->has_event = false;
    if (line && json_object_get(line, "verdict"))
        (void)take_verdict(source, line);
    else if (line)
        source->has_event = take_event(source, line);
    json_decref(line);
}

/* ---- lanes ------------------------------------------------------------------ */

/* -1: the world, or there are too many. */
static signed char find_lane(const struct picture *picture, const char *actor)
{
    for (unsigned lane = 0; lane < LANES_MAX && lane < picture->lanes_n; lane++)
        if (strcmp(picture->lanes[lane], actor) == 0)
            return (signed char)lane;
    return -1;
}

/* The actor that SOURCE has named last. */
static void add_lane(struct picture *picture, const struct source *source)
{
    if (source->actor[0] == '\0' || picture->lanes_n > LANES_MAX ||
        find_lane(picture, source->actor) >= 0)
        return;
    if (picture->lanes_n < LANES_MAX)
        memcpy(picture->lanes[picture->lanes_n], source->actor, LANE_BYTES);
    picture->lanes_n++;
}

/* From its beginning on, up to the head. False: the file is no timeline. */
static bool begin(struct picture *picture, struct source *source)
{
    json_t *line, *actors = NULL, *actor;
    size_t at;
    bool good;

    rewind(source->file);
    source->line_n = 0;
    source->events = 0;
    source->is_at_end = false;
    line = read_line(source);
    good = line && take_head(source, line, &actors);
    if (good)
        json_array_foreach(actors, at, actor)
        {
            name_actor(source,
                       json_is_string(actor) ? json_string_value(actor) : "?");
            add_lane(picture, source);
        }
    json_decref(line);
    return good;
}

/* The first reading. False: the file is not there, or no timeline. */
static bool find_actors(struct picture *picture, struct source *source)
{
    const char *path = source->path;
    struct stat about;

    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return fail_with(&source->error,
                         "%s: not a regular file: save the timeline in one",
                         path);
    source->file = fopen(path, "re");
    if (!source->file)
        return fail_with(&source->error, "%s: %s", path, strerror(errno));
    if (!begin(picture, source))
        return false;
    for (go_on(source); source->has_event; go_on(source))
        add_lane(picture, source);
    return begin(picture, source);
}

/* ---- drawing ---------------------------------------------------------------- */

/* SINCE_US: when its timeline began, after the first of them. */
static void draw_event(const struct picture *picture,
                       const struct source *source, const char *move,
                       uint64_t since_us)
{
    bool has_lanes = picture->lanes_n > 0 && picture->lanes_n <= LANES_MAX;
    struct stage_step step = source->next;

    step.at_us += since_us;
    step.actor = find_lane(picture, source->actor);
    if (!has_lanes && source->actor[0]) {
        (void)snprintf(step.who, sizeof(step.who), "%.11s", source->actor);
        step.actor = 0;
    }
    draw_step(stdout, &step, move, has_lanes ? picture->lanes_n : 1,
              picture->look);
}

/* The source whose next event comes first; NULL: none has one. */
static struct source *first_of(const struct picture *picture)
{
    struct source *first = NULL;

    for (size_t i = 0; i < picture->n; i++) {
        struct source *each = &picture->sources[i];

        if (each->has_event &&
            (!first || each->started_us + each->next.at_us <
                           first->started_us + first->next.at_us))
            first = each;
    }
    return first;
}

static void draw_events(struct picture *picture)
{
    uint64_t began_us = UINT64_MAX;
    struct source *source;
    unsigned last = 0;
    int64_t n = 0;

    for (size_t i = 0; i < picture->n; i++) {
        go_on(&picture->sources[i]);
        if (picture->sources[i].started_us < began_us)
            began_us = picture->sources[i].started_us;
    }
    for (; (source = first_of(picture)) != NULL; go_on(source)) {
        unsigned move = source->next.move;
        char text[4] = "";

        n = source->moves_n > 0 ? move : n + 1;
        if (picture->until >= 0 && n > picture->until)
            return;
        if (move > 0 && move != last && move <= (unsigned)source->moves_n)
            (void)stage_move_text(source->moves[move - 1], text);
        last = move;
        draw_event(picture, source, source->moves_n > 0 ? text : NULL,
                   source->started_us - began_us);
    }
}

static json_int_t number_of(const json_t *line, const char *name)
{
    return json_integer_value(json_object_get(line, name));
}

/* The faults in a list of words: one of another version of the stage is not among them. */
static unsigned bits_of(const json_t *words)
{
    unsigned faults = 0;
    const json_t *word;
    size_t i;

    json_array_foreach(
        words, i, word) for (enum stage_fault fault = 0; fault < STAGE_FAULT_N;
                             fault++) if (json_is_string(word) &&
                                          strcmp(stage_fault_word(fault),
                                                 json_string_value(word)) == 0)
        faults |= 1u << fault;
    return faults;
}

static void draw_end(const struct source *source, unsigned look)
{
    const json_t *verdict = source->verdict;
    const json_t *faults = json_object_get(verdict, "verdict");
    json_int_t dropped = number_of(verdict, "dropped");
    json_int_t orders = number_of(verdict, "orders");
    struct stage_verdict found = {
        .faults = bits_of(faults),
        .remarks = bits_of(json_object_get(verdict, "remarks"))};
    const char *first = json_string_value(json_array_get(faults, 0));
    char fault[TIMELINE_NAME_BYTES];

    if (dropped > 0)
        draw_say(stdout, look,
                 "%lld events were dropped: the disk was too slow\n", dropped);
    if (json_is_null(faults)) {
        draw_say(stdout, look,
                 "verdict: nobody has looked; stockade audit does\n");
        return;
    }
    draw_say(stdout, look, "stock %lld, %lld sold in %lld order%s\n",
             number_of(verdict, "stock"), number_of(verdict, "sold"), orders,
             orders == 1 ? "" : "s");
    put_plain(fault, sizeof(fault), first ? first : "");
    if (found.faults != 0 || !first)
        draw_verdict(stdout, &found,
                     json_is_true(json_object_get(verdict, "over")), look);
    else
        draw_say(stdout, look, "verdict: %s\n", fault);
}

/* The verdict is that of the first reading, also where --until ends before it. */
static int status_of(const struct source *source)
{
    const json_t *faults = json_object_get(source->verdict, "verdict");

    if (!source->verdict || json_is_null(faults))
        return 2;
    return json_array_size(faults) > 0;
}

int replay_files(char *const paths[], size_t n, int64_t until, unsigned look)
{
    static struct source sources[REPLAY_FILES_MAX];
    struct picture picture = {
        .sources = sources, .n = n, .until = until, .look = look};
    const char *names[LANES_MAX];
    int status = 0;

    for (size_t i = 0; i < n; i++) {
        sources[i].path = paths[i];
        if (n > 1)
            (void)snprintf(sources[i].prefix, 4, "%c:", '1' + (int)i);
        if (!find_actors(&picture, &sources[i]))
            return fail_to_run("replay: %s", sources[i].error.text);
    }
    for (size_t i = 0; i < n; i++)
        printf("%s\n", sources[i].heading);
    for (unsigned i = 0; i < LANES_MAX; i++)
        names[i] = picture.lanes[i];
    if (picture.lanes_n == 0 || picture.lanes_n > LANES_MAX)
        draw_names(stdout, (const char *[]){"who"}, 1, look);
    else
        draw_names(stdout, names, picture.lanes_n, look);
    draw_events(&picture);
    for (size_t i = 0; i < n; i++) {
        struct source *source = &sources[i];

        if (source->is_at_end)
            draw_end(source, look);
        (void)fflush(stdout);
        if (source->error.text[0])
            (void)fail_aloud("replay: %s", source->error.text);
        if (status_of(source) > status)
            status = status_of(source);
        (void)fclose(source->file);
        json_decref(source->verdict);
    }
    return status;
}

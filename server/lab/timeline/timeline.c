/* See timeline.h. Lines are written by hand and not by jansson, since a live instance
 * writes thousands of them a second beside its orders. Whatever is wrong with one that is
 * read is told with file and line. */
#include "server/lab/timeline/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WORD(name, word) word,
static const char *const phases[] = {TIMELINE_PHASE_MAP(WORD)};
static const char *const outcomes[] = {TIMELINE_OUTCOME_MAP(WORD)};
#undef WORD

/* A text of a struct, by its name in a line. */
struct text {
    const char *name;
    size_t offset, size;
};

#define TEXT(of, text) #text, offsetof(of, text), sizeof(((of *)0)->text)
#define HEAD(text)     TEXT(struct timeline_head, text)
#define EVENT(text)    TEXT(struct timeline_event, text)

/* In the order of a line, up to one without a name. */
static const struct text head_texts[] = {{HEAD(source)},   {HEAD(scene)},
                                         {HEAD(lock)},     {HEAD(settings)},
                                         {HEAD(schedule)}, {0}};
static const struct text event_texts[] = {
    {EVENT(actor)}, {EVENT(part)},  {EVENT(step)}, {EVENT(key)},
    {EVENT(sent)},  {EVENT(reply)}, {EVENT(mark)}, {0}};

/* ---- writing ---------------------------------------------------------------- */

/* As a JSON string, in quotes. What is no ASCII is taken byte by byte. */
static void write_string(FILE *out, const char *text)
{
    const char *from = text;

    (void)putc_unlocked('"', out);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\')
            continue;
        (void)fwrite_unlocked(from, 1, (size_t)(text - from), out);
        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else
            fprintf(out, "\\u%04x", byte);
        from = text + 1;
    }
    (void)fwrite_unlocked(from, 1, (size_t)(text - from), out);
    (void)putc_unlocked('"', out);
}

/* The texts of STRUCTURE, behind another member; without those that are empty. */
static void write_texts(FILE *out, const struct text *texts,
                        const void *structure)
{
    for (; texts->name; texts++) {
        const char *text = (const char *)structure + texts->offset;

        if (text[0] == '\0')
            continue;
        (void)fputs_unlocked(",\"", out);
        (void)fputs_unlocked(texts->name, out);
        (void)fputs_unlocked("\":", out);
        write_string(out, text);
    }
}

static void write_list(FILE *out, const char *name,
                       const char texts[][TIMELINE_NAME_BYTES], unsigned n)
{
    fprintf(out, "\"%s\":[", name);
    for (unsigned i = 0; i < n; i++) {
        fputs(i > 0 ? "," : "", out);
        write_string(out, texts[i]);
    }
    fputc(']', out);
}

void timeline_write_head(FILE *out, const struct timeline_head *head)
{
    time_t seconds = (time_t)(head->started_us / 1000000);
    struct tm utc;
    char date[32];

    (void)gmtime_r(&seconds, &utc);
    (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
    fprintf(out, "{\"timeline\":%d", TIMELINE_VERSION);
    write_texts(out, head_texts, head);
    fputc(',', out);
    write_list(out, "actors", head->actors, head->actors_n);
    fprintf(out, ",\"started\":\"%s.%06uZ\"}\n", date,
            (unsigned)(head->started_us % 1000000));
}

void timeline_write_event(FILE *out, const struct timeline_event *event)
{
    fprintf(out, "{\"at_us\":%" PRIu64 ",\"phase\":\"%s\"", event->at_us,
            phases[event->phase]);
    if (event->phase == TIMELINE_DROPPED)
        fprintf(out, ",\"dropped\":%" PRIu64, event->dropped);
    else
        fprintf(out, ",\"outcome\":\"%s\"", outcomes[event->outcome]);
    if (event->took_us > 0)
        fprintf(out, ",\"took_us\":%" PRIu64, event->took_us);
    if (event->move > 0)
        fprintf(out, ",\"move\":%u", event->move);
    write_texts(out, event_texts, event);
    (void)fputs_unlocked("}\n", out);
}

void timeline_write_verdict(FILE *out, const struct timeline_verdict *verdict)
{
    fputc('{', out);
    if (verdict->is_known)
        write_list(out, "verdict", verdict->faults, verdict->faults_n);
    else
        fputs("\"verdict\":null", out);
    if (verdict->remarks_n > 0) {
        fputc(',', out);
        write_list(out, "remarks", verdict->remarks, verdict->remarks_n);
    }
    fprintf(out, ",\"over\":%s", verdict->over ? "true" : "false");
    if (verdict->is_known)
        fprintf(out,
                ",\"stock\":%" PRId64 ",\"sold\":%" PRId64
                ",\"orders\":%" PRId64,
                verdict->stock, verdict->sold, verdict->orders);
    fprintf(out, ",\"events\":%" PRIu64 ",\"dropped\":%" PRIu64 "}\n",
            verdict->events, verdict->dropped);
}

/* The texts of lock/redis/call.c, of the stage, and of timeline_live.c. */
enum timeline_outcome timeline_outcome_of(const char *reply)
{
    static const struct {
        const char *text;
        enum timeline_outcome outcome;
    } texts[] = {
        {"(no reply)", TIMELINE_UNKNOWN},    {"(held up)", TIMELINE_UNKNOWN},
        {"(not awaited)", TIMELINE_UNKNOWN}, {"(lost)", TIMELINE_UNKNOWN},
        {"(unreachable)", TIMELINE_FAILED},  {"not inside", TIMELINE_FAILED},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (strstr(reply, texts[i].text))
            return texts[i].outcome;
    return TIMELINE_OK;
}

/* ---- reading ---------------------------------------------------------------- */

struct timeline {
    FILE *file;
    char *path;
    struct fail *error; /* the caller's: why a line is not what it has to be */
    unsigned line_n;    /* of the line that was read last */
    uint64_t events;
    char line[TIMELINE_LINE_BYTES];
};

__attribute__((format(printf, 2, 3))) static void
complain(const struct timeline *timeline, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fail_in_file(timeline->error, timeline->path, timeline->line_n,
                       format, args);
    va_end(args);
}

/* Others have written the file: their escape sequences stay off the terminal. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

/* ---- members ---------------------------------------------------------------- */

/* Into STRUCTURE, cut; "" for what is not there. NULL, or the name of what is no text. */
static const char *take_texts(const json_t *line, const struct text *texts,
                              void *structure)
{
    for (; texts->name; texts++) {
        const json_t *member = json_object_get(line, texts->name);
        char *text = (char *)structure + texts->offset;

        if (member && !json_is_string(member))
            return texts->name;
        (void)snprintf(text, texts->size, "%s",
                       member ? json_string_value(member) : "");
        make_plain(text);
    }
    return NULL;
}

/* False: it is not there, or no number from 0 on. */
static bool take_number(const json_t *line, const char *name, uint64_t *number)
{
    const json_t *member = json_object_get(line, name);
    json_int_t value = json_integer_value(member);

    *number = (uint64_t)value;
    return json_is_integer(member) && value >= 0;
}

/* False: it is too long, or no list of texts. */
static bool take_list(const json_t *line, const char *name,
                      char texts[][TIMELINE_NAME_BYTES], size_t n_max,
                      unsigned *n)
{
    const json_t *list = json_object_get(line, name), *each;
    size_t i;

    *n = 0;
    if (!json_is_array(list) || json_array_size(list) > n_max)
        return false;
    json_array_foreach(list, i, each)
    {
        if (!json_is_string(each))
            return false;
        (void)snprintf(texts[i], TIMELINE_NAME_BYTES, "%s",
                       json_string_value(each));
        make_plain(texts[i]);
        *n += 1;
    }
    return true;
}

/* The place of a member's word in WORDS; -1: it is none of them. */
static int take_word(const json_t *line, const char *name,
                     const char *const words[], int n)
{
    const char *text = json_string_value(json_object_get(line, name));

    for (int i = 0; text && i < n; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return -1;
}

/* ---- lines ------------------------------------------------------------------ */

/* The next line as an object, or NULL and why not. */
static json_t *read_line(struct timeline *timeline)
{
    json_error_t error;
    json_t *object;
    size_t len;

    timeline->line_n++;
    errno = 0;
    if (!fgets(timeline->line, sizeof(timeline->line), timeline->file)) {
        complain(timeline,
                 ferror(timeline->file) ? "cannot be read: %s"
                                        : "the timeline is cut: there is no "
                                          "line with its verdict%s",
                 ferror(timeline->file) ? strerror(errno) : "");
        return NULL;
    }
    len = strlen(timeline->line);
    if (len == 0 || timeline->line[len - 1] != '\n') {
        complain(timeline, feof(timeline->file)
                               ? "the line is cut: it has no end"
                               : "the line is too long, or has a NUL: "
                                 "this is no timeline");
        return NULL;
    }
    object = json_loads(timeline->line, JSON_REJECT_DUPLICATES, &error);
    make_plain(error.text);
    if (!object)
        complain(timeline, "no JSON at byte %d: %s", error.position,
                 error.text);
    if (object && !json_is_object(object)) {
        complain(timeline, "no JSON object: this is no timeline");
        json_decref(object);
        object = NULL;
    }
    return object;
}

/* NULL, or the member that is wrong. */
static const char *read_head(const json_t *line, struct timeline_head *head)
{
    const char *date = json_string_value(json_object_get(line, "started"));
    const char *wrong = take_texts(line, head_texts, head), *rest;
    struct tm utc = {0};
    unsigned us = 0;
    int end = 0;

    if (!take_list(line, "actors", head->actors, TIMELINE_ACTORS_MAX,
                   &head->actors_n))
        return "actors";
    if (wrong || head->source[0] == '\0')
        return wrong ? wrong : "source";
    /* "2026-01-01T00:00:00.000000Z" */
    rest = date ? strptime(date, "%Y-%m-%dT%H:%M:%S", &utc) : NULL;
    if (!rest || sscanf(rest, ".%6uZ%n", &us, &end) != 1 || end != 8 ||
        us > 999999)
        return "started";
    head->started_us = (uint64_t)timegm(&utc) * 1000000 + us;
    return NULL;
}

static const char *read_event(const json_t *line, struct timeline_event *event)
{
    int phase = take_word(line, "phase", phases, TIMELINE_PHASE_N);
    int outcome = take_word(line, "outcome", outcomes, TIMELINE_OUTCOME_N);
    uint64_t move = 0;

    *event = (struct timeline_event){.phase = (enum timeline_phase)phase};
    if (!take_number(line, "at_us", &event->at_us))
        return "at_us";
    if (phase < 0)
        return "phase";
    if (phase == TIMELINE_DROPPED)
        return take_number(line, "dropped", &event->dropped) ? NULL : "dropped";
    if (outcome < 0)
        return "outcome";
    event->outcome = (enum timeline_outcome)outcome;
    if (json_object_get(line, "took_us") &&
        !take_number(line, "took_us", &event->took_us))
        return "took_us";
    if (json_object_get(line, "move") && !take_number(line, "move", &move))
        return "move";
    event->move = (unsigned)move;
    return take_texts(line, event_texts, event);
}

static const char *read_verdict(const struct timeline *timeline,
                                const json_t *line,
                                struct timeline_verdict *verdict)
{
    const json_t *stock = json_object_get(line, "stock");
    uint64_t sold = 0, orders = 0;

    *verdict = (struct timeline_verdict){
        .is_known = !json_is_null(json_object_get(line, "verdict")),
        .over = json_is_true(json_object_get(line, "over")),
        .stock = json_integer_value(stock)};
    if (verdict->is_known) {
        if (!take_list(line, "verdict", verdict->faults, TIMELINE_FAULTS_MAX,
                       &verdict->faults_n))
            return "verdict";
        if (json_object_get(line, "remarks") &&
            !take_list(line, "remarks", verdict->remarks, TIMELINE_FAULTS_MAX,
                       &verdict->remarks_n))
            return "remarks";
        /* A stock may be below 0: that is what a lock is there against. */
        if (!json_is_integer(stock) || !take_number(line, "sold", &sold) ||
            !take_number(line, "orders", &orders))
            return "stock, sold or orders";
    }
    verdict->sold = (int64_t)sold;
    verdict->orders = (int64_t)orders;
    if (!take_number(line, "dropped", &verdict->dropped))
        return "dropped";
    return take_number(line, "events", &verdict->events) &&
                   verdict->events == timeline->events
               ? NULL
               : "events";
}

/* A FIFO or a device may let its reader wait for ever, and is not there twice. */
static FILE *open_file(const char *path, struct fail *error)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat about;

    (void)fail_with(error, "%s: %s", path,
                    fd < 0 ? strerror(errno)
                           : "not a regular file: save the timeline in one");
    if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        return fdopen(fd, "r");
    if (fd >= 0)
        (void)close(fd);
    return NULL;
}

struct timeline *timeline_open(const char *path, struct timeline_head *head,
                               struct fail *error)
{
    struct timeline *timeline = calloc(1, sizeof(*timeline));
    const char *wrong = NULL;
    json_t *line = NULL;
    uint64_t version;

    *head = (struct timeline_head){.actors_n = 0};
    (void)fail_with(error, "%s: no memory", path);
    if (!timeline)
        return NULL;
    timeline->error = error;
    if ((timeline->path = strdup(path)) != NULL)
        timeline->file = open_file(path, error);
    if (timeline->file)
        line = read_line(timeline);
    if (line && !take_number(line, "timeline", &version))
        complain(timeline,
                 "no head of a timeline: it has no number \"timeline\"");
    else if (line && version != TIMELINE_VERSION)
        complain(timeline,
                 "a timeline of version %llu; this program reads version %d",
                 (unsigned long long)version, TIMELINE_VERSION);
    else if (line && (wrong = read_head(line, head)) != NULL)
        complain(timeline, "\"%s\" of the head is wrong", wrong);
    else if (line) {
        json_decref(line);
        return timeline;
    }
    json_decref(line);
    timeline_close(timeline);
    return NULL;
}

enum timeline_line timeline_next(struct timeline *timeline,
                                 struct timeline_event *event,
                                 struct timeline_verdict *verdict)
{
    json_t *line = read_line(timeline);
    bool is_last = line && json_object_get(line, "verdict");
    const char *wrong = NULL;

    if (!line)
        return TIMELINE_LINE_BROKEN;
    wrong = is_last ? read_verdict(timeline, line, verdict)
                    : read_event(line, event);
    json_decref(line);
    if (wrong || (is_last && getc(timeline->file) != EOF)) {
        complain(timeline,
                 wrong ? "\"%s\" of the %s is wrong"
                       : "a verdict, and lines behind it: two timelines in one "
                         "file?",
                 wrong, is_last ? "verdict" : "event");
        return TIMELINE_LINE_BROKEN;
    }
    timeline->events += !is_last && event->phase != TIMELINE_DROPPED;
    return is_last ? TIMELINE_LINE_VERDICT : TIMELINE_LINE_EVENT;
}

void timeline_close(struct timeline *timeline)
{
    if (!timeline)
        return;
    if (timeline->file)
        (void)fclose(timeline->file);
    free(timeline->path);
    free(timeline);
}

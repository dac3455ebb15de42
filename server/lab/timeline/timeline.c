/* See timeline.h. Lines are written by hand and not by jansson, since a live instance
 * writes thousands of them a second beside its orders. */
#include "server/lab/timeline/timeline.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

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

/* As a JSON string, in quotes. What is no ASCII is taken byte by byte. */
static void write_string(FILE *out, const char *text)
{
    (void)putc_unlocked('"', out);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;

        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte < ' ' || byte >= 0x7f)
            fprintf(out, "\\u%04x", byte);
        else
            (void)putc_unlocked(byte, out);
    }
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

void timeline_tell_words(const char *const words[], size_t n, size_t parts_n,
                         char text[], size_t size)
{
    bool is_script = n > 0 && strcmp(words[0], "EVAL") == 0;
    size_t used = 0;

    if (is_script && parts_n == 0)
        parts_n = 1;
    for (size_t i = 0; i < n && used < size; i++)
        if (i == 0 || i > parts_n)
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     i > 0 ? " " : "",
                                     i == 0 && is_script ? "script" : words[i]);
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

/* See timeline.h. Lines are written by hand and not by jansson, since a live instance
 * writes thousands of them a second beside its orders. */
#include "server/lab/timeline/timeline.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

/* TEXT as the member NAME, behind another one; nothing if it is empty. What is no ASCII is
 * taken byte by byte. */
static void write_text(FILE *out, const char *name, const char *text)
{
    if (!text || !*text)
        return;
    /* The unlocked calls: only one thread writes to a file, and each call with a lock
     * costs as much as the byte. */
    (void)fputs_unlocked(",\"", out);
    (void)fputs_unlocked(name, out);
    (void)fputs_unlocked("\":\"", out);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;

        /* A byte above ASCII is told as the character of that number: so the line is
         * JSON whatever was sent. */
        if (byte < ' ' || byte >= 0x7f) {
            fprintf(out, "\\u%04x", byte);
            continue;
        }
        if (byte == '"' || byte == '\\')
            (void)putc_unlocked('\\', out);
        (void)putc_unlocked(byte, out);
    }
    (void)putc_unlocked('"', out);
}

void timeline_write_head(FILE *out, const struct timeline_head *head)
{
    time_t seconds = (time_t)(head->started_us / 1000000);
    struct tm utc;
    char date[32];

    (void)gmtime_r(&seconds, &utc);
    (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
    fprintf(out, "{\"timeline\":%d", TIMELINE_VERSION);
    write_text(out, "source", head->source);
    write_text(out, "scene", head->scene);
    write_text(out, "lock", head->lock);
    write_text(out, "settings", head->settings);
    write_text(out, "schedule", head->schedule);
    fputs(",\"actors\":[", out);
    for (unsigned i = 0; i < head->actors_n; i++)
        fprintf(out, "%s\"%c\"", i > 0 ? "," : "", 'a' + (int)i);
    fprintf(out, "],\"started\":\"%s.%06uZ\"}\n", date,
            (unsigned)(head->started_us % 1000000));
}

/* Whether it was done, as the REPLY tells it: these are the texts of lock/redis/call.c,
 * of the stage, and of timeline_live.c. */
static const char *outcome_of(const char *reply)
{
    /* The texts are looked for anywhere in the reply: a note has them behind
     * other words. */
    static const char *const texts[][2] = {
        {"(no reply)", "unknown"},    {"(held up)", "unknown"},
        {"(not awaited)", "unknown"}, {"(lost)", "unknown"},
        {"(unreachable)", "failed"},  {"not inside", "failed"},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (strstr(reply, texts[i][0]))
            return texts[i][1];
    return "ok";
}

void timeline_write_event(FILE *out, const struct timeline_event *event)
{
    const struct stage_step *step = &event->step;

    fprintf(out, "{\"at_us\":%" PRIu64, step->at_us);
    /* A gap has neither a step nor an outcome. */
    if (event->dropped > 0)
        fprintf(out, ",\"phase\":\"dropped\",\"dropped\":%" PRIu64,
                event->dropped);
    else
        fprintf(out, ",\"phase\":\"%s\",\"outcome\":\"%s\"",
                step->name[0] ? "step" : "note",
                event->is_lost ? "unknown" : outcome_of(step->reply));
    if (event->took_us > 0)
        fprintf(out, ",\"took_us\":%" PRIu64, event->took_us);
    if (step->move > 0)
        fprintf(out, ",\"move\":%u", step->move);
    write_text(out, "actor", event->actor);
    write_text(out, "part", step->who);
    write_text(out, "step", step->name);
    write_text(out, "key", step->key);
    write_text(out, "sent", step->sent);
    write_text(out, "reply", step->reply);
    write_text(out, "mark", step->mark);
    (void)fputs_unlocked("}\n", out);
}

void timeline_tell_words(const char *const words[], size_t n, size_t parts_n,
                         char text[], size_t size)
{
    bool is_script = n > 0 && strcmp(words[0], "EVAL") == 0;
    size_t used = 0;

    /* A script of no parts is one word. */
    if (is_script && parts_n == 0)
        parts_n = 1;
    /* The script's text is left out: it would fill the line. */
    for (size_t i = 0; i < n && used < size; i++)
        if (i == 0 || i > parts_n)
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     i > 0 ? " " : "",
                                     i == 0 && is_script ? "script" : words[i]);
}

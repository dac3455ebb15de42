/* See draw.h. */
#include "server/lab/picture/draw.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { STARS_MAX = 6, PART_BYTES = 1024 };

static const struct phrase phrases[] = {
#define ROW(english, chinese) {english, chinese},
#include "server/lab/picture/chinese.inc"
    {NULL, NULL},
};

/* Whether TEXT is PATTERN: PARTS has where the text of each * begins and ends. */
static bool match(const char *pattern, const char *text, const char *parts[][2])
{
    if (*pattern != '*')
        return *pattern == *text &&
               (*text == '\0' || match(pattern + 1, text + 1, parts));
    /* The shortest text for a star is tried first: what stands behind it must fit
     * as well. */
    for (const char *end = text;; end++) {
        if (match(pattern + 1, end, parts + 1)) {
            parts[0][0] = text;
            parts[0][1] = end;
            return true;
        }
        if (*end == '\0')
            return false;
    }
}

/* TEXT by the first that fits. */
static void write_by(FILE *out, const struct phrase *phrase, const char *text)
{
    const struct phrase *const all = phrase;
    const char *parts[STARS_MAX][2];
    char part[PART_BYTES];

    /* The first phrase that fits counts: the special ones stand before the general. */
    while (phrase->pattern && !match(phrase->pattern, text, parts))
        phrase++;
    if (!phrase->pattern) {
        fputs(text, out);
        return;
    }
    for (const char *at = phrase->words; *at; at++) {
        const char **star;

        if (*at != '$' || at[1] < '1' || at[1] > '0' + STARS_MAX) {
            fputc(*at, out);
            continue;
        }
        /* A part is put into words by the same phrases: an outcome within a line, say. */
        star = parts[*++at - '1'];
        (void)snprintf(part, sizeof(part), "%.*s", (int)(star[1] - star[0]),
                       star[0]);
        write_by(out, all, part);
    }
}

void phrase_put(const struct phrase *all, char text[], size_t size)
{
    char before[PART_BYTES];
    size_t n, lines_n = 0;
    FILE *out;

    /* The text is copied, because its own room is written to. */
    (void)snprintf(before, sizeof(before), "%s", text);
    for (n = strlen(before); n > 0 && before[n - 1] == '\n'; lines_n++)
        before[--n] = '\0';
    /* The room is one byte less: the last one stays a NUL. */
    out = fmemopen(text, size - 1, "w");
    if (!out)
        return;
    memset(text, 0, size); /* fmemopen() ends no text that fills all of it */
    write_by(out, all, before);
    while (lines_n-- > 0)
        fputc('\n', out);
    (void)fclose(out);
}

void translate(char text[], size_t size, unsigned look)
{
    if (look & DRAW_CHINESE)
        phrase_put(phrases, text, size);
}

/* A paragraph of a comment, in as many lines as its phrase has parts. */
static void write_comment(FILE *out, char paragraph[], size_t size)
{
    char *rest = paragraph, *line;

    if (!*paragraph)
        return;
    translate(paragraph, size, DRAW_CHINESE);
    /* A phrase in Chinese says by | where its lines end. */
    while ((line = strsep(&rest, "|")) != NULL)
        fprintf(out, "# %s\n", line);
    *paragraph = '\0';
}

char *chinese_lock(const char *text)
{
    char comment[PART_BYTES] = "", claim[PART_BYTES], *all = NULL;
    size_t size, used, n;
    FILE *out = open_memstream(&all, &size);

    for (; out && *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        used = strlen(comment);
        /* A comment goes over several lines: the whole of it is one phrase. */
        if (strncmp(text, "# ", 2) == 0) {
            (void)snprintf(comment + used, sizeof(comment) - used, "%s%.*s",
                           used > 0 ? " " : "", (int)n - 2, text + 2);
            continue;
        }
        /* Any other line ends a comment. */
        write_comment(out, comment, sizeof(comment));
        if (sscanf(text, "claim %1000[^\n]", claim) == 1) {
            translate(claim, sizeof(claim), DRAW_CHINESE);
            fprintf(out, "claim    %s\n", claim);
        } else {
            /* Commands stay as they are: the text plays the same. */
            fprintf(out, "%.*s\n", (int)n, text);
        }
    }
    if (out)
        (void)fclose(out);
    return all;
}

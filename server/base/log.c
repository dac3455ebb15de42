/*
 * Log lines, one write(2) each, so that lines of several threads and processes
 * never mix. No timestamps: journald and every container runtime add their own,
 * and tests read the lines.
 *
 * A pipe that nobody reads gets full, and a write to it never ends. So a line that
 * finds no room is left away and counted, because the thread may be the one that decides
 * orders.
 */
#include "server/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unistr.h>

#define LOG_LINE_BYTES_MAX 1024
#define LOG_END_BYTES      sizeof("\"\n") /* always room for it */
/* For room, of the first line that finds none. */
#define LOG_WAIT_MS 1000

static atomic_int log_threshold = LOG_INFO;
static bool to_journal;

static const struct {
    const char *name, *priority; /* sd-daemon(3) */
} level_rows[] = {{"error", "<3>"}, {"warn", "<4>"}, {"info", "<6>"}};

struct line {
    size_t n;
    char text[LOG_LINE_BYTES_MAX];
};

/* The journal says which file it has given us: device:inode. Standard error must be
 * open, because lines would go into a descriptor of ours that had its number. */
void log_open(enum log_level level)
{
    const char *named = getenv("JOURNAL_STREAM");
    int fd = open("/dev/null", O_RDWR);
    uintmax_t dev, ino;
    struct stat st;

    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR);
    if (fd >= 0)
        close(fd);
    log_level_set(level);
    to_journal = named && sscanf(named, "%ju:%ju", &dev, &ino) == 2 &&
                 fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev &&
                 st.st_ino == ino;
}

void log_level_set(enum log_level level)
{
    atomic_store(&log_threshold, (int)level);
}

static bool put(struct line *line, const char *bytes, size_t n)
{
    if (line->n + n + LOG_END_BYTES > sizeof(line->text))
        return false;
    memcpy(line->text + line->n, bytes, n);
    line->n += n;
    return true;
}

/* Bytes that do not fit are left away. A control character, of ASCII or of Latin-1,
 * becomes a space. */
static void put_quoted(struct line *line, const char *value)
{
    bool fits = put(line, "\"", 1);
    ucs4_t c;
    int n;

    for (; *value && fits; value += n > 0 ? n : 1) {
        n = u8_strmbtouc(&c, (const uint8_t *)value);
        if (n < 0)
            fits = put(line, "?", 1);
        else if (c == '"' || c == '\\')
            fits = put(line, (const char[]){'\\', *value}, 2);
        else if (c < ' ' || (c >= 0x7f && c < 0xa0))
            fits = put(line, " ", 1);
        else
            fits = put(line, value, (size_t)n);
    }
    /* LOG_END_BYTES are kept free for this quote, also in a line that was cut. */
    line->text[line->n++] = '"';
}

/* A value stands bare if it can. A pair that does not fit is left away. */
static void put_pair(struct line *line, const char *key, const char *value)
{
    bool is_bare = *value;

    if (line->n + strlen(key) + sizeof("=\" ") + LOG_END_BYTES >
        sizeof(line->text))
        return;
    for (const char *c = value; *c; c++)
        is_bare &= *c > ' ' && *c < 0x7f && !strchr("\"\\=", *c);
    (void)put(line, key, strlen(key));
    (void)put(line, "=", 1);
    if (!is_bare || !put(line, value, strlen(value)))
        put_quoted(line, value);
    line->text[line->n++] = ' ';
}

/* The pairs of FORMAT, without its quotes. Each is printed together with those
 * before it: its place follows from their length, so no byte in a value can look like
 * the end of a pair. */
static void put_pairs(struct line *line, const char *format, va_list args)
{
    char pairs[256], text[LOG_LINE_BYTES_MAX], *value;
    size_t n = 0, start = 0;
    bool in_quotes = false;
    va_list copy;
    int end;

    /* One pair more of the format each time, up to a blank that is not in
     * quotes; the whole beginning is printed anew, because va_copy() must begin
     * at the first argument. */
    while (*format && start < sizeof(text) && n + 2 < sizeof(pairs)) {
        for (; *format && (in_quotes || *format != ' '); format++) {
            in_quotes ^= *format == '"';
            if (*format != '"' && n + 2 < sizeof(pairs))
                pairs[n++] = *format;
        }
        pairs[n] = '\0';
        va_copy(copy, args);
        end = vsnprintf(text, sizeof(text), pairs, copy);
        va_end(copy);
        value = end < 0 ? NULL : strchr(text + start, '=');
        if (!value)
            return;
        *value++ = '\0';
        put_pair(line, text + start, value);
        start = (size_t)end + 1;
        if (*format)
            pairs[n++] = *format++;
    }
}

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static unsigned missing; /* lines in a row that were left away */

static bool has_room(int wait_ms)
{
    struct pollfd out = {STDERR_FILENO, POLLOUT, 0};
    int n;

    while ((n = poll(&out, 1, wait_ms)) < 0 && errno == EINTR)
        continue;
    return n != 0;
}

static void put_out(const char *text, size_t n)
{
    while (write(STDERR_FILENO, text, n) < 0 && errno == EINTR)
        continue;
}

/* A pipe with room has it for 4 KiB, unless another process writes as well. */
void log_line(enum log_level level, const char *msg, const char *format, ...)
{
    struct line line = {0};
    /* The errno is the caller's: a line is often logged between a failure and
     * the look at it. */
    int n, saved_errno = errno;
    va_list args;
    char gap[64];

    if ((int)level > atomic_load(&log_threshold))
        return;
    if (to_journal)
        (void)put(&line, level_rows[level].priority, 3);
    put_pair(&line, "level", level_rows[level].name);
    put_pair(&line, "msg", msg);
    va_start(args, format);
    put_pairs(&line, format, args);
    va_end(args);
    line.text[line.n - 1] = '\n'; /* in place of the last pair's space */
    pthread_mutex_lock(&writing);
    /* The gap is told in its own place, before the first line that has room
     * again. */
    if (missing && has_room(0)) {
        n = snprintf(gap, sizeof(gap), "%slevel=warn msg=log missing=%u\n",
                     to_journal ? level_rows[LOG_WARN].priority : "", missing);
        put_out(gap, (size_t)n);
        missing = 0;
    }
    /* Only the first line waits: if each did, a pipe that nobody reads would
     * slow the service to a line a second. */
    if (has_room(missing ? 0 : LOG_WAIT_MS))
        put_out(line.text, line.n);
    else
        missing++;
    pthread_mutex_unlock(&writing);
    errno = saved_errno;
}

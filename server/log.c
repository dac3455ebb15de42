/*
 * Log lines in logfmt, one write(2) each, so that lines of several threads and
 * processes never mix. No timestamps: journald and every container runtime add
 * their own, and tests read the lines.
 */
#include "server/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOG_LINE_BYTES_MAX 1024

static atomic_uint log_threshold = LOG_INFO;

static const char *const level_names[] = {"error", "warn", "info"};

void log_level_set(enum log_level level)
{
    atomic_store(&log_threshold, level);
}

void log_open(enum log_level level)
{
    log_level_set(level);
}

void log_line(enum log_level level, const char *msg, const char *format, ...)
{
    char line[LOG_LINE_BYTES_MAX];
    size_t len;
    va_list args;
    int saved_errno = errno;

    if (level > atomic_load_explicit(&log_threshold, memory_order_relaxed))
        return;
    snprintf(line, sizeof(line), "level=%s msg=%s ", level_names[level], msg);
    len = strlen(line);
    va_start(args, format);
    vsnprintf(line + len, sizeof(line) - len, format, args);
    va_end(args);
    /* Where the terminating NUL stood, so that a cut line ends well too. */
    len = strlen(line);
    line[len] = '\n';
    while (write(STDERR_FILENO, line, len + 1) < 0 && errno == EINTR)
        continue;
    errno = saved_errno;
}

const char *log_quote(const char *text, char *buf, size_t size)
{
    size_t at = 0;

    if (size < 3) /* room for the quotes and the NUL */
        return "";
    buf[at++] = '"';
    for (; *text && at + 3 < size; text++) {
        if (*text == '"' || *text == '\\')
            buf[at++] = '\\';
        if (iscntrl((unsigned char)*text))
            buf[at++] = ' ';
        else
            buf[at++] = *text;
    }
    buf[at++] = '"';
    buf[at] = '\0';
    return buf;
}

/*
 * Log lines in logfmt on standard error: one event a line, msg first, then
 * key=value pairs, values quoted where they need it.
 *
 *     log_info("ready", "listen=%s lock=%s", address, lock);
 */
#ifndef LOG_H
#define LOG_H

#include <stddef.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO };

/* Call before threads start. */
void log_open(enum log_level level);

/* Lines above LEVEL are not written any more. From any thread. */
void log_level_set(enum log_level level);

/*
 * Writes one line; MSG is a word or a few, FORMAT makes the key=value pairs.
 * A line is cut at 1 KiB. From any thread.
 */
void log_line(enum log_level level, const char *msg, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* TEXT as a quoted logfmt value in BUF, which is returned. */
const char *log_quote(const char *text, char *buf, size_t size);

#define log_error(msg, ...) log_line(LOG_ERROR, msg, __VA_ARGS__)
#define log_warn(msg, ...)  log_line(LOG_WARN, msg, __VA_ARGS__)
#define log_info(msg, ...)  log_line(LOG_INFO, msg, __VA_ARGS__)

#endif

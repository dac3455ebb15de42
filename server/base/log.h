/*
 * Log lines on standard error: one event a line, in logfmt.
 *
 *     log_info("ready", "listen=%s lock=%s", address, lock);
 */
#ifndef LOG_H
#define LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO };

/* Call before threads start. A line has journald's priority in front if standard
 * error goes there. */
void log_open(enum log_level level);

/* Lines above LEVEL are not written any more. From any thread. */
void log_level_set(enum log_level level);

/* Writes one line. MSG is a word; FORMAT makes key=value pairs with a space between
 * them. A value with spaces in the format stands in double quotes there; what an
 * argument has in it does not matter. A line is cut at 1 KiB; it is left away, and
 * counted, if standard error has no room for it. From any thread. */
void log_line(enum log_level level, const char *msg, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(msg, ...) log_line(LOG_ERROR, msg, __VA_ARGS__)
#define log_warn(msg, ...)  log_line(LOG_WARN, msg, __VA_ARGS__)
#define log_info(msg, ...)  log_line(LOG_INFO, msg, __VA_ARGS__)

#endif

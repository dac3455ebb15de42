/*
 * Times as text, in RFC 3339 and in UTC only: "2030-01-01T12:00:00.000Z". A
 * service has no business with zones. Within, a time is milliseconds of Unix
 * time. From any thread.
 */
#ifndef STAMP_H
#define STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STAMP_BYTES 32

/* Always with milliseconds. MS is not negative. Returns the text's length. */
size_t stamp_write(int64_t ms, char text[STAMP_BYTES]);

/* With or without a fraction, up to milliseconds; false for what is none. */
bool stamp_read(const char *text, int64_t *ms);

#endif

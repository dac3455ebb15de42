/*
 * Reading is for administrators; writing is for every order, and nearly all of
 * them were placed in the second that the last one was.
 */
#include "server/http/stamp.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* The last second that this thread wrote. -1 is none: times are not negative. */
static _Thread_local struct {
    int64_t second;
    size_t size;
    char text[STAMP_BYTES];
} last = {.second = -1};

static void remember(int64_t second)
{
    time_t seconds = (time_t)second;
    struct tm utc;

    gmtime_r(&seconds, &utc);
    last.size =
        strftime(last.text, sizeof(last.text), "%Y-%m-%dT%H:%M:%S", &utc);
    last.second = second;
}

size_t stamp_write(int64_t ms, char text[STAMP_BYTES])
{
    const char fraction[] = {'.',
                             (char)('0' + ms / 100 % 10),
                             (char)('0' + ms / 10 % 10),
                             (char)('0' + ms % 10),
                             'Z',
                             '\0'};

    if (ms / 1000 != last.second)
        remember(ms / 1000);
    memcpy(text, last.text, last.size);
    memcpy(text + last.size, fraction, sizeof(fraction));
    return last.size + sizeof(fraction) - 1;
}

/* Up to three digits after the seconds: ".5" is 500 ms. */
static bool read_fraction(const char **text, int64_t *ms)
{
    int64_t scale = 100;
    const char *c = *text;

    *ms = 0;
    if (*c != '.')
        return true;
    for (c++; *c >= '0' && *c <= '9' && scale; c++, scale /= 10)
        *ms += (*c - '0') * scale;
    if (c == *text + 1)
        return false;
    *text = c;
    return true;
}

/*
 * The shape is compared first, so that sscanf() never meets a sign or a space
 * where a digit has to be.
 */
bool stamp_read(const char *text, int64_t *ms)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd";
    struct tm given = {0}, back;
    int64_t fraction;
    time_t seconds;
    size_t i;

    for (i = 0; shape[i]; i++)
        if (shape[i] == 'd' ? text[i] < '0' || text[i] > '9'
                            : text[i] != shape[i])
            return false;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &given.tm_year, &given.tm_mon,
               &given.tm_mday, &given.tm_hour, &given.tm_min,
               &given.tm_sec) != 6)
        return false;
    given.tm_year -= 1900;
    given.tm_mon -= 1;
    back = given;
    seconds = timegm(&back);
    /* timegm() makes the 2nd of March of the 30th of February. */
    if (back.tm_mday != given.tm_mday || back.tm_mon != given.tm_mon ||
        back.tm_hour != given.tm_hour || back.tm_min != given.tm_min ||
        back.tm_sec != given.tm_sec || seconds < 1)
        return false;
    text += i;
    if (!read_fraction(&text, &fraction) || strcmp(text, "Z") != 0)
        return false;
    *ms = (int64_t)seconds * 1000 + fraction;
    return true;
}

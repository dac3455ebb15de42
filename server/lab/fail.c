/* See fail.h. */
#include "server/lab/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

bool fail_with(char *error, size_t error_size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(error, error_size, format, args);
    va_end(args);
    return false;
}

bool fail_aloud(const char *format, ...)
{
    char text[2000]; /* at once, because others write there as well */
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "stockade: %s\n", text);
    return false;
}

int fail_unless_told(int status)
{
    struct stat out;

    if ((fflush(stdout) == 0 && !ferror(stdout)) ||
        (fstat(STDOUT_FILENO, &out) == 0 &&
         (S_ISFIFO(out.st_mode) || S_ISSOCK(out.st_mode))))
        return status;
    return fail_to_run("not all of the output could be written");
}

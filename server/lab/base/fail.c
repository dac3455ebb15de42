/* See fail.h. */
#include "server/lab/base/fail.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool fail_with(struct fail *error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return false;
}

bool fail_more(struct fail *error, const char *format, ...)
{
    size_t used = strlen(error->text);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(error->text + used, sizeof(error->text) - used, format,
                    args);
    va_end(args);
    return false;
}

bool fail_in_file(struct fail *error, const char *file, unsigned line,
                  const char *format, va_list args)
{
    char text[sizeof(error->text)];

    (void)vsnprintf(text, sizeof(text), format, args);
    /* The texts may be ERROR's own: so they are put together beside it. */
    return fail_with(error, "%.200s:%u: %.800s", file, line, text);
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

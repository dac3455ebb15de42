/*
 * The one place where a struct store_error is written. See failure.h.
 */
#include "db/failure.h"

#include <stdarg.h>
#include <stdio.h>

void failure_text(struct store_error *error, const char *format, ...)
{
    va_list args;

    if (!error)
        return;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
}

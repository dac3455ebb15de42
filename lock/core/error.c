/*
 * Statuses and their texts, and the error struct of the caller.
 */
#include "lock/core/error.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const status_texts[DLOCK_STATUS_N] = {
#define DLOCK_STATUS_ROW(name, text) [name] = (text),
    DLOCK_STATUS_MAP(DLOCK_STATUS_ROW)
#undef DLOCK_STATUS_ROW
};

const char *dlock_status_text(enum dlock_status status)
{
    size_t index = (size_t)status;

    if (index >= DLOCK_STATUS_N)
        return "not a status of the lock library";
    return status_texts[index];
}

static const char *const loss_texts[DLOCK_LOSS_N] = {
#define DLOCK_LOSS_ROW(name, text) [name] = (text),
    DLOCK_LOSS_MAP(DLOCK_LOSS_ROW)
#undef DLOCK_LOSS_ROW
};

const char *dlock_loss_text(enum dlock_loss loss)
{
    size_t index = (size_t)loss;

    if (index >= DLOCK_LOSS_N)
        return "not a loss of the lock library";
    return loss_texts[index];
}

enum dlock_status dlock_error_set(struct dlock_error *error,
                                  enum dlock_status status, const char *format,
                                  ...)
{
    va_list args;

    if (error == NULL)
        return status;
    va_start(args, format);
    (void)vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return status;
}

enum dlock_status dlock_error_report(struct dlock_error *error,
                                     enum dlock_status status, const char *call,
                                     const struct dlock_error *detail)
{
    if (status == DLOCK_OK)
        return status;
    return dlock_error_set(error, status, "%s: %.180s", call,
                           detail->text[0] != '\0' ? detail->text
                                                   : dlock_status_text(status));
}

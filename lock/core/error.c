/*
 * Statuses and their texts, and the text of a failure.
 */
#include "lock/core/error.h"

#include <stdarg.h>
#include <stdio.h>

#define ROW(name, text) [name] = (text),

const char *dlock_status_text(enum dlock_status status)
{
    static const char *const texts[] = {DLOCK_STATUS_MAP(ROW)};

    return (size_t)status < DLOCK_STATUS_N ? texts[status]
                                           : "not a status of the lock library";
}

const char *dlock_loss_text(enum dlock_loss loss)
{
    static const char *const texts[] = {DLOCK_LOSS_MAP(ROW)};

    return (size_t)loss < DLOCK_LOSS_N ? texts[loss]
                                       : "not a loss of the lock library";
}

static _Thread_local struct dlock_error said;

void dlock_error_say(const char *format, ...)
{
    /* The arguments may point into `said`, which therefore changes only when the new text
     * is complete. */
    struct dlock_error next;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(next.text, sizeof(next.text), format, args);
    va_end(args);
    said = next;
}

const char *dlock_error_text(void)
{
    return said.text;
}

struct dlock_error dlock_error_take(void)
{
    struct dlock_error taken = said;

    said.text[0] = '\0';
    return taken;
}

void dlock_error_put(const struct dlock_error *error)
{
    said = *error;
}

enum dlock_status dlock_error_report(struct dlock_error *error,
                                     enum dlock_status status, const char *call)
{
    const char *text =
        said.text[0] != '\0' ? said.text : dlock_status_text(status);

    /* The caller's text stays as it is after a success: it may hold that of an earlier
     * call. */
    if (status != DLOCK_OK && error != NULL && call == NULL)
        (void)snprintf(error->text, sizeof(error->text), "%s", text);
    else if (status != DLOCK_OK && error != NULL)
        /* The bound leaves room for the call's name, which is of at most 17 bytes. */
        (void)snprintf(error->text, sizeof(error->text), "%s: %.180s", call,
                       text);
    said.text[0] = '\0';
    return status;
}

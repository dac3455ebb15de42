/* See expected.h. */
#include "server/lab/base/expected.h"

#include <stdio.h>
#include <string.h>

#include "lock/textbook/textbook.h"

const struct property properties[PROPERTIES_N] = {
#define ROW(property, check, letter, text) [property] = {letter, text},
#include "server/lab/base/properties.inc"
};

/* Faults of two bytes are "-", which is none. */
static const struct expected rows[] = {
#define ROW(kept, nodes_n, aged, lock, verdicts, faults)                       \
    {lock,    verdicts, kept,                                                  \
     nodes_n, aged,     sizeof(faults) == 2 ? NULL : (faults)},
#include "server/lab/base/expected.inc"
};

const struct expected *expected_of(const char *lock)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].lock, lock) == 0)
            return &rows[i];
    return NULL;
}

bool expected_has_word(const char *list, const char *word)
{
    /* A word is whole: it begins at the list's head or behind a blank, and ends at one
     * or at the end. */
    size_t len = strlen(word);

    /* The next word begins behind a blank; a NULL list has none. */
    for (const char *at = list; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, word, len) == 0 && strchr(" ", at[len]))
            return true;
    }
    return false;
}

bool expected_breaks(const struct expected *expected, const char *fault)
{
    return expected_has_word(expected->faults, fault);
}

bool expected_lock(const char *name, struct fail *error)
{
    /* A text has to be read to be known; what is wrong with it is the answer. */
    const struct dlock_strategy_info *info;
    struct dlock_error why;

    if (dlock_textbook_is_file(name))
        return dlock_textbook_open(name, true, &why) == DLOCK_OK ||
               fail_with(error, "%s", why.text);
    if (dlock_strategy_find(name))
        return true;
    (void)fail_with(error, "there is no lock '%.100s'; there are:", name);
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++)
        (void)fail_more(error, " %s", info->name);
    return fail_more(error, "; or a text of your own, FILE.lock");
}

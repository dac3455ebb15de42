/* See expected.h. */
#include "server/lab/expected.h"

#include <stdio.h>
#include <string.h>

#include "lock/dlock_textbook.h"
#include "server/lab/fail.h"

const struct property properties[PROPERTIES_N] = {
#define ROW(property, letter, text) [property] = {letter, text},
#include "server/lab/properties.inc"
#undef ROW
};

/* Faults of two bytes are "-", which is none. */
static const struct expected rows[] = {
#define ROW(kept, nodes_n, aged, lock, verdicts, faults)                       \
    {lock,    verdicts, kept,                                                  \
     nodes_n, aged,     sizeof(faults) == 2 ? NULL : (faults)},
#include "server/lab/expected.inc"
#undef ROW
};

const struct expected *expected_of(const char *lock)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].lock, lock) == 0)
            return &rows[i];
    return NULL;
}

bool expected_breaks(const struct expected *expected, const char *fault)
{
    size_t len = strlen(fault);

    for (const char *at = expected->faults; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, fault, len) == 0 && strchr(" ", at[len]))
            return true;
    }
    return false;
}

/* Which properties would, had they held, have prevented it. */
static const struct {
    const char *fault;
    unsigned char by[6];
    size_t by_n;
} causes[] = {
    {"error-reply", {PROPERTY_X}, 1}, /* it cannot be taken and given back */
    {"unnamed-reply", {PROPERTY_X}, 1},
    {"two-inside", {PROPERTY_X, PROPERTY_X2}, 2},
    {"oversold", {PROPERTY_X2, PROPERTY_S}, 2},
    {"ledger", {PROPERTY_X2, PROPERTY_S}, 2},
    {"stale-write", {PROPERTY_S}, 1},
    {"foreign-release", {PROPERTY_X2, PROPERTY_P, PROPERTY_R, PROPERTY_D}, 4},
    {"left-for-ever", {PROPERTY_C, PROPERTY_A}, 2},
    {"holds-left", {PROPERTY_N, PROPERTY_D}, 2},
    {"still-held", {PROPERTY_N}, 1},
    {"foreign-lease", {PROPERTY_X2, PROPERTY_P, PROPERTY_R, PROPERTY_D}, 4},
    {"late-change", {PROPERTY_D}, 1},
    {"told-lost", {PROPERTY_P, PROPERTY_D}, 2},
    {"told-kept", {PROPERTY_P, PROPERTY_D}, 2},
    {"asleep", {PROPERTY_W}, 1},
    {"overtaken", {PROPERTY_F}, 1},
    {"old-token", {PROPERTY_D, PROPERTY_S}, 2},
};

bool expected_allows(const struct expected *expected, const char *fault)
{
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
        for (size_t j = 0; j < causes[i].by_n; j++)
            if (strcmp(causes[i].fault, fault) == 0 &&
                expected->verdicts[causes[i].by[j]] == '.')
                return true;
    return false;
}

bool expected_lock(const char *name, char *error, size_t error_size)
{
    const struct dlock_strategy_info *info;
    struct dlock_error why;
    size_t used;

    if (dlock_textbook_is_file(name))
        return dlock_textbook_open(name, true, &why) == DLOCK_OK ||
               fail_with(error, error_size, "%s", why.text);
    if (dlock_strategy_find(name))
        return true;
    used = (size_t)snprintf(error, error_size,
                            "there is no lock '%.100s'; there are:", name);
    for (size_t i = 0;
         used < error_size && (info = dlock_strategy_info(i)) != NULL; i++)
        used += (size_t)snprintf(error + used, error_size - used, " %s",
                                 info->name);
    if (used < error_size)
        (void)snprintf(error + used, error_size - used,
                       "; or a text of your own, FILE.lock");
    return false;
}

/*
 * See expected.h. The reasons for the dots stand in locks.md and in the head
 * comment of the lock's own file.
 */
#include "server/lab/expected.h"

#include <stdio.h>
#include <string.h>

#include "lock/dlock_textbook.h"

const struct property properties[PROPERTIES_N] = {
    [PROPERTY_X] = {"X", "one at a time, among threads"},
    [PROPERTY_X2] = {"X2", "one at a time, among processes"},
    [PROPERTY_C] = {"C", "the holder crashes: others get in within the lease"},
    [PROPERTY_A] = {"A", "the holder crashes between any two of its commands: "
                         "the same"},
    [PROPERTY_P] = {"P", "the holder pauses beyond its lease: it cannot free "
                         "another's lock"},
    [PROPERTY_R] = {"R", "the same, wherever in the release it pauses"},
    [PROPERTY_L] = {"L", "work longer than the lease stays alone while the "
                         "holder lives"},
    [PROPERTY_N] = {"N", "the same session may lock again, and gives back as "
                         "often"},
    [PROPERTY_N2] = {"N2", "and the inner lease counts: it lengthens the outer "
                           "one"},
    [PROPERTY_D] = {"D", "late and doubled commands change nothing that is "
                         "newer"},
    [PROPERTY_W] = {"W", "a waiter gets it promptly after a release, without "
                         "polling"},
    [PROPERTY_HERD] = {"H",
                       "no herd: a release costs the same with 32 waiters"},
    [PROPERTY_F] = {"F", "first come, first served"},
    [PROPERTY_M] = {"M", "a node fails over to a replica that is behind: "
                         "still one holder"},
    [PROPERTY_M2] = {"M2", "a node is away: one holder, and to be had"},
    [PROPERTY_S] = {"S", "a late holder's write is refused by the store"},
};

/* clang-format off */
static const struct expected rows[] = {
    /*                    X X2 C A P R L N N2 D W H F M M2 S                    */
    {"none",             ".........-.-....", KEPT_LOCALLY,  0, false,
     "oversold two-inside"},
    {"process",          "#..-###..-#-.---", KEPT_LOCALLY,  0, false,
     "oversold two-inside"},
    {"mkdir",            "##....#..-.-.---", KEPT_LOCALLY,  0, false,
     "foreign-release left-for-ever"},
    {"setnx",            "##....#....-...-", KEPT_IN_REDIS, 1, false,
     "foreign-release left-for-ever late-change"},
    {"setnx-finally",    "...........-....", KEPT_IN_REDIS, 1, false,
     "foreign-release left-for-ever late-change"},
    {"setnx-expire",     "###........-....", KEPT_IN_REDIS, 1, false,
     "oversold foreign-release left-for-ever foreign-lease late-change"},
    {"setnx-expire-lua", "####.......-....", KEPT_IN_REDIS, 1, false,
     "oversold foreign-release late-change"},
    {"set-nx-px",        "####.......-....", KEPT_IN_REDIS, 1, false,
     "oversold foreign-release late-change"},
    {"token-thread",     "####.......-....", KEPT_IN_REDIS, 1, false,
     "oversold foreign-release late-change"},
    {"token",            "#####......-....", KEPT_IN_REDIS, 1, false,
     "oversold foreign-release late-change"},
    {"token-lua",        "######.....-....", KEPT_IN_REDIS, 1, false,
     "oversold late-change"},
    {"guard-thread",     "##.###.....-....", KEPT_IN_REDIS, 1, false,
     "oversold late-change"},
    {"watchdog",         "#######....-....", KEPT_IN_REDIS, 1, false,
     "oversold late-change"},
    {"reentrant-local",  "########...-....", KEPT_IN_REDIS, 1, false,
     "oversold late-change"},
    {"reentrant-broken", "...........-....", KEPT_IN_REDIS, 1, false,
     "error-reply left-for-ever still-held"},
    {"reentrant",        "#########..-....", KEPT_IN_REDIS, 1, false,
     "oversold holds-left late-change"},
    {"spin",             "#########..-....", KEPT_IN_REDIS, 1, false,
     "oversold holds-left late-change"},
    {"redisson",         "###########.....", KEPT_IN_REDIS, 1, false,
     "oversold"},
    {"fair",             "#############...", KEPT_IN_REDIS, 1, false,
     "oversold"},
    {"multi",            "###########..#..", KEPT_IN_REDIS, 3, false,
     "oversold"},
    {"redlock",          "###########..##.", KEPT_IN_REDIS, 3, true,
     "oversold"},
    {"recorded",         "######.....-.#..", KEPT_IN_BOTH,  1, false,
     NULL},
    {"sql-table",        "##..####--.-.---", KEPT_IN_SQL,   0, false,
     NULL},
    {"sql-row",          "#######..-.-.---", KEPT_IN_SQL,   0, false,
     NULL},
    {"zk",               "#######..-#..##.", KEPT_IN_ZK,    0, false,
     NULL},
    {"zk-fair",          "#######..-######", KEPT_IN_ZK,    0, false,
     NULL},
    {"fenced",           "############...#", KEPT_IN_REDIS, 1, false,
     ""},
    {"fenced-late",      "############....", KEPT_IN_REDIS, 1, false,
     "oversold"},
};
/* clang-format on */

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

    if (dlock_textbook_is_file(name)) {
        if (dlock_textbook_open(name, true, &why) == DLOCK_OK)
            return true;
        (void)snprintf(error, error_size, "%s", why.text);
        return false;
    }
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

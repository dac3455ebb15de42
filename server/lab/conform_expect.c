/*
 * What is expected of every lock: the tables of shared/locks.md as data. A lock
 * without a row here is a failure of the suite: whoever adds one has to say
 * what it is good for, and what it is bad at.
 *
 * The reasons for the dots stand in locks.md and in the head comment of the
 * lock's own file.
 */
#include "server/lab/conform.h"

#include <string.h>

/* clang-format off */
static const struct conform_expectation rows[] = {
    /*                    X X2 C A P R L N N2 D W H F M M2 S                    */
    {"none",             ".........-.-....", CONFORM_LOCAL, 0, false},
    {"process",          "#..-###..-#-.---", CONFORM_LOCAL, 0, false},
    {"mkdir",            "##....#..-.-.---", CONFORM_LOCAL, 0, false},
    {"setnx",            "##....#....-...-", CONFORM_REDIS, 1, false},
    {"setnx-finally",    "...........-....", CONFORM_REDIS, 1, false},
    {"setnx-expire",     "###........-....", CONFORM_REDIS, 1, false},
    {"setnx-expire-lua", "####.......-....", CONFORM_REDIS, 1, false},
    {"set-nx-px",        "####.......-....", CONFORM_REDIS, 1, false},
    {"token-thread",     "####.......-....", CONFORM_REDIS, 1, false},
    {"token",            "#####......-....", CONFORM_REDIS, 1, false},
    {"token-lua",        "######.....-....", CONFORM_REDIS, 1, false},
    {"guard-thread",     "##.###.....-....", CONFORM_REDIS, 1, false},
    {"watchdog",         "#######....-....", CONFORM_REDIS, 1, false},
    {"reentrant-local",  "########...-....", CONFORM_REDIS, 1, false},
    {"reentrant-broken", "...........-....", CONFORM_REDIS, 1, false},
    {"reentrant",        "#########..-....", CONFORM_REDIS, 1, false},
    {"spin",             "#########..-....", CONFORM_REDIS, 1, false},
    {"redisson",         "###########.....", CONFORM_REDIS, 1, false},
    {"fair",             "#############...", CONFORM_REDIS, 1, false},
    {"multi",            "###########..#..", CONFORM_REDIS, 3, false},
    {"redlock",          "###########..##.", CONFORM_REDIS, 3, true},
    {"recorded",         "######.....-.#..", CONFORM_BOTH,  1, false},
    {"sql-table",        "##..####--.-.---", CONFORM_SQL,   0, false},
    {"sql-row",          "#######..-.-.---", CONFORM_SQL,   0, false},
    {"zk",               "#######..-#..##.", CONFORM_ZK,    0, false},
    {"zk-fair",          "#######..-######", CONFORM_ZK,    0, false},
    {"fenced",           "############...#", CONFORM_REDIS, 1, false},
    {"fenced-late",      "############....", CONFORM_REDIS, 1, false},
};
/* clang-format on */

const struct conform_expectation *conform_expectation_of(const char *lock)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].lock, lock) == 0)
            return &rows[i];
    return NULL;
}

bool conform_agrees(const struct conform_expectation *expected, size_t index,
                    enum conform_verdict found)
{
    static const char signs[] = {
        [CONFORM_UNTESTED] = '-', [CONFORM_HOLDS] = '#', [CONFORM_FAILS] = '.'};

    if (found == CONFORM_NOT_ASKED)
        return true;
    return expected->verdicts[index] == signs[found];
}

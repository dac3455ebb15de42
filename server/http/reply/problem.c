/* The table of problems as data; see problem.h for what it is for. */
#include "server/http/reply/problem.h"

#include <assert.h>

static const struct problem_row rows[] = {
#define PROBLEM_ROW(name, status, slug, retry_s, title)                        \
    [name] = {slug, PROBLEM_TYPE_PREFIX slug, title, #retry_s, retry_s, status},
    PROBLEM_MAP(PROBLEM_ROW)
#undef PROBLEM_ROW
};

const struct problem_row *problem_row(enum problem problem)
{
    assert((unsigned)problem < PROBLEM_N);
    return &rows[problem];
}

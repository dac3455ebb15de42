/*
 * The games of a page's visitors: an answer of their processes is bounded, in bytes and in
 * time, because a thread of the page waits for it. How they are played: e2e/lab-serve.t.
 */
#include <sys/syscall.h>
#include <time.h>

#include "server/lab/serve/lab_serve.h"
#include "tests/support/unit_test.h"

enum { ENDS_S = 30 /* of a test that hangs */ };

static bool is_hurried; /* a second passes between two looks at the clock */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static time_t ahead_s;
    long status = syscall(SYS_clock_gettime, clock, now);

    ahead_s += is_hurried;
    now->tv_sec += ahead_s;
    return (int)status;
}

/* A game is this program anew. */
__attribute__((constructor)) static void play(int argc, char *argv[])
{
    static char text[1 << 16];
    bool drips = argc == 2 && strcmp(argv[1], "drips") == 0;

    if (!drips && (argc != 2 || strcmp(argv[1], "floods") != 0))
        return;
    memset(text, '{', sizeof(text));
    while (write(STDOUT_FILENO, text, drips ? 1 : sizeof(text)) > 0)
        (void)usleep(drips ? 1000 : 0);
    _exit(0);
}

UNIT_TEST(test_no_line_without_end)
{
    static char *const games[][3] = {{"lab", "floods"}, {"lab", "drips"}};
    char id[VISITORS_ID_BYTES], *answer;
    struct fail error;

    (void)alarm(ENDS_S);
    assert_true(visitors_open(&error));
    for (size_t i = 0; i < COUNT_OF(games); i++) {
        is_hurried = i == 1;
        assert_int_equal(visitors_begin(false, games[i], NULL, id, &answer),
                         VISITORS_BROKEN);
        assert_null(answer);
    }
    visitors_close();
}

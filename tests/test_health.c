/*
 * What the end-to-end test of /readyz cannot do: a write that hangs, and outages
 * that come and go faster than the log is to say so.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/clock.h"
#include "server/health.h"
#include "server/metrics.h"
#include "tests/support/store_rig.h"

#define FLAPPING_MS 2500
#define LINES_MAX   8 /* a part begins once a second at most, and ends */

struct fixture {
    struct store_rig rig;
    struct metrics *metrics;
    struct health *health;
    struct dlock *locks;
    char why[HEALTH_TEXT_BYTES];
};

static int set_up(void **state)
{
    static struct fixture fixture;
    const struct dlock_options locks = {.strategy = "none", .url = "dir:/tmp"};
    struct fixture *f = *state = &fixture;

    store_rig_begin(&f->rig);
    f->metrics = metrics_new();
    f->health = health_new(f->metrics);
    store_rig_open(&f->rig,
                   (struct store_options){.on_commit = health_heard_store,
                                          .on_commit_ctx = f->health});
    assert_int_equal(dlock_open(&locks, &f->locks, NULL), DLOCK_OK);
    assert_true(health_start(f->health, f->rig.store, f->locks));
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    health_stop(f->health);
    dlock_close(f->locks);
    store_rig_close(&f->rig);
    store_rig_end(&f->rig);
    health_free(f->health);
    metrics_free(f->metrics);
    return 0;
}

static void a_write_that_hangs_is_not_ready(void **state)
{
    struct fixture *f = *state;

    assert_true(health_ask(f->health, f->why));
    store_rig_hold(&f->rig, true);
    assert_false(health_ask(f->health, f->why));
    assert_non_null(strstr(f->why, "does not come to its end"));
    assert_non_null(strstr(f->why, "the database"));
    store_rig_hold(&f->rig, false);
    /* Nobody asks, and it notices. */
    while (health_look(f->health, f->why) == HEALTH_NOT_READY)
        usleep(1000);
    assert_true(health_ask(f->health, f->why));
    health_stop(f->health);
    assert_int_equal(health_look(f->health, f->why), HEALTH_NOT_READY);
    assert_non_null(strstr(f->why, "shutting down"));
}

static int lines_of(int fd, const char *pattern)
{
    static char text[65536];
    ssize_t size = pread(fd, text, sizeof(text) - 1, 0);
    int n = 0;

    assert_in_range(size, 0, sizeof(text) - 2);
    text[size] = '\0';
    for (const char *at = text; (at = strstr(at, pattern)); at++)
        n++;
    return n;
}

static void short_outages_share_their_lines(void **state)
{
    struct fixture *f = *state;
    uint64_t until_ms = clock_ms() + FLAPPING_MS;
    int fd = memfd_create("log", MFD_CLOEXEC), real = dup(STDERR_FILENO);
    int outages = 0;

    assert_true(health_ask(f->health, f->why));
    dup2(fd, STDERR_FILENO);
    for (; clock_ms() < until_ms; outages++) {
        metrics_order(f->metrics, ORDER_LOCK_UNREACHABLE);
        health_heard(f->health, HEALTH_LOCK, "no answer");
        usleep(1000);
        health_heard(f->health, HEALTH_LOCK, NULL);
        usleep(1000);
    }
    /* The last one is not forgotten. */
    while (lines_of(fd, "state=fails") > lines_of(fd, "state=works"))
        usleep(1000);
    dup2(real, STDERR_FILENO);
    close(real);
    assert_true(outages > LINES_MAX * 4);
    assert_in_range(lines_of(fd, "part=lock-server"), 2, LINES_MAX);
    assert_int_equal(lines_of(fd, "\n"), lines_of(fd, "part=lock-server"));
    close(fd);
}

static const struct CMUnitTest tests[] = {
    FIXTURE_TEST(a_write_that_hangs_is_not_ready),
    FIXTURE_TEST(short_outages_share_their_lines),
};

TEST_MAIN(tests)

/*
 * What the end-to-end test of /readyz cannot do: a write that hangs, readers that fail
 * alone, what is heard in another order than it began, and outages that come and go
 * faster than the log is to say so.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/health.h"
#include "server/base/metrics.h"
#include "tests/support/store_rig.h"

#define FLAPPING_MS 2500
#define LINES_MAX   4 /* one outage; two, if the test stood still for a second */

static atomic_int ahead_s; /* of the real time */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long status = syscall(SYS_clock_gettime, clock, now);

    now->tv_sec += atomic_load(&ahead_s);
    return (int)status;
}

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
    f->health = health_new(f->metrics, false);
    store_rig_open(&f->rig,
                   (struct store_options){.on_failure = health_heard_store,
                                          .on_failure_ctx = f->health});
    assert_int_equal(dlock_open(&locks, &f->locks, NULL), DLOCK_OK);
    health_watch(f->health, f->rig.store, f->locks);
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

/* Waits for that ANSWER; whether somebody ASKS meanwhile. */
static void becomes(struct fixture *f, struct health *health,
                    enum health_answer answer, bool asks)
{
    while (health_look(health, f->why) != answer) {
        if (asks)
            health_try(health);
        usleep(1000);
    }
}

UNIT_TEST_OF(struct fixture *f, a_write_that_hangs_is_not_ready)
{
    becomes(f, f->health, HEALTH_READY, false);
    store_rig_hold(&f->rig, true);
    becomes(f, f->health, HEALTH_NOT_READY, true);
    assert_non_null(strstr(f->why, "does not come to its end"));
    assert_non_null(strstr(f->why, "the database"));
    store_rig_hold(&f->rig, false);
    becomes(f, f->health, HEALTH_READY, false); /* nobody asks */
    health_stop(f->health);
    assert_int_equal(health_look(f->health, f->why), HEALTH_NOT_READY);
    assert_non_null(strstr(f->why, "shutting down"));
}

/* Orders are placed all the while: none of them needs a reader. */
UNIT_TEST_OF(struct fixture *f, readers_may_fail_alone)
{
    struct health *health = health_new(f->metrics, false);
    sqlite3 *db = store_rig_connect(&f->rig, "SELECT 1");
    char back[40];

    snprintf(back, sizeof(back), "PRAGMA user_version = %d",
             (int)store_rig_number(db, "PRAGMA user_version"));
    sqlite3_close(db);
    store_rig_sql(&f->rig, "PRAGMA user_version = 2");
    health_watch(health, f->rig.store, f->locks);
    becomes(f, health, HEALTH_NOT_READY, false);
    assert_non_null(strstr(f->why, "reading the database fails since 20"));
    assert_non_null(strstr(f->why, "schema version 2"));
    health_worked(health, HEALTH_STORE, clock_us());
    assert_int_equal(health_look(health, f->why), HEALTH_NOT_READY);
    health_refused(health, HEALTH_STORE, "an order");
    assert_int_equal(health_look(health, f->why), HEALTH_NOT_READY);
    assert_null(strstr(f->why, "an order")); /* but what fails below it */
    store_rig_sql(&f->rig, back);
    becomes(f, health, HEALTH_READY, false);
    health_stop(health);
    health_free(health);
}

/* It has nothing to try yet: only what is told counts. */
UNIT_TEST_OF(struct fixture *f, an_order_speaks_from_when_it_began)
{
    struct health *health = health_new(f->metrics, false);
    uint64_t before_us = clock_us() - 1;

    assert_int_equal(health_look(health, f->why), HEALTH_UNKNOWN);
    assert_string_equal(f->why,
                        "nobody knows: of the database nothing was heard yet");
    for (size_t i = 0; i < HEALTH_PARTS; i++)
        health_worked(health, (enum health_part)i, before_us);
    assert_int_equal(health_look(health, f->why), HEALTH_READY);
    health_refused(health, HEALTH_STORE, "first");
    assert_int_equal(health_look(health, f->why), HEALTH_NOT_READY);
    assert_non_null(strstr(f->why, "the database fails since 20"));
    health_worked(health, HEALTH_STORE, before_us);
    assert_int_equal(health_look(health, f->why), HEALTH_NOT_READY);
    health_refused(health, HEALTH_STORE, "second");
    assert_int_equal(health_look(health, f->why), HEALTH_NOT_READY);
    assert_non_null(strstr(f->why, "first"));
    usleep(1);
    health_worked(health, HEALTH_STORE, clock_us());
    assert_int_equal(health_look(health, f->why), HEALTH_READY);
    /* An order that took long does not wipe out what was heard since it began. */
    health_worked(health, HEALTH_STORE, clock_us() - 31000000);
    assert_int_equal(health_look(health, f->why), HEALTH_READY);
    atomic_store(&ahead_s, 31);
    assert_int_equal(health_look(health, f->why), HEALTH_UNKNOWN);
    atomic_store(&ahead_s, 0);
    assert_non_null(strstr(f->why, "nothing was heard for half a minute"));
    health_stop(health);
    health_free(health);
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

UNIT_TEST_OF(struct fixture *f, short_outages_share_their_lines)
{
    uint64_t until_ms = clock_ms() + FLAPPING_MS;
    int fd = memfd_create("log", MFD_CLOEXEC), real = dup(STDERR_FILENO);
    int outages = 0;

    becomes(f, f->health, HEALTH_READY, false);
    dup2(fd, STDERR_FILENO);
    for (; clock_ms() < until_ms; outages++) {
        health_refused(f->health, HEALTH_LOCK, "no answer");
        usleep(1000);
        health_worked(f->health, HEALTH_LOCK, clock_us());
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

/*
 * The service's own eye on its promises: what is planted is seen and counted,
 * what is right is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/store_private.h"
#include "server/clock.h"
#include "server/metrics.h"
#include "server/pool.h"
#include "server/selfcheck.h"
#include "tests/support/desk_rig.h"

struct fixture {
    struct desk_rig *rig;
    struct selfcheck *selfcheck;
};

static int open_as(bool shared, void **state)
{
    struct config config = {
        .lock = "process", .desk = DESK_COMBINE, .shared = shared};
    struct fixture *f = calloc(1, sizeof(*f));

    f->rig = desk_rig_new(&config, NULL, 3, NULL, NULL);
    f->rig->app.pool = pool_open(&f->rig->app);
    assert_non_null(f->rig->app.pool);
    f->selfcheck = selfcheck_new(&f->rig->app);
    f->rig->app.selfcheck = f->selfcheck;
    *state = f;
    return 0;
}

static int set_up(void **state)
{
    return open_as(false, state);
}

/* As if other instances sold from the same database. */
static int set_up_shared(void **state)
{
    return open_as(true, state);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    pool_close(f->rig->app.pool);
    desk_rig_free(f->rig);
    selfcheck_free(f->selfcheck);
    free(f);
    return 0;
}

/* A number of /metrics. */
static long shown(const struct fixture *f, const char *name)
{
    char *text = NULL, line[100];
    const char *at;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    long number;

    metrics_write(f->rig->app.metrics, 0, out);
    fclose(out);
    snprintf(line, sizeof(line), "\n%s ", name);
    at = strstr(text, line);
    assert_non_null(at);
    number = strtol(at + strlen(line), NULL, 10);
    free(text);
    return number;
}

/* The looking is done elsewhere, and nobody is told: so it is waited for. */
static void wait_shown(const struct fixture *f, const char *name, long number)
{
    for (int i = 0; shown(f, name) != number; i++) {
        assert_true(i < 10000);
        usleep(1000);
    }
}

/* Whether an order of one unit is refused from memory. */
static bool is_foreseen(struct fixture *f)
{
    struct ticket ticket = {
        .order = {.product_id = 1, .user_id = 9, .quantity = 1}};

    return desk_foresees(f->rig->app.desk, &ticket);
}

/* A flag that sticks: the product has three. */
static void plant(struct fixture *f)
{
    struct soldout *soldout = &f->rig->app.store->soldout;

    soldout_note(soldout, 1, 1, soldout_generation(soldout));
}

static void a_false_refusal_is_counted(void **state)
{
    struct fixture *f = *state;

    assert_false(is_foreseen(f));
    plant(f);
    assert_true(is_foreseen(f));
    wait_shown(f, "stockade_false_sold_out_total", 1);
    assert_int_equal(shown(f, "stockade_sold_out_checks_total"), 1);
}

/* The refusal is not known any more when somebody has the time to look. */
static void a_look_at_nothing_is_not_counted(void **state)
{
    struct fixture *f = *state;

    selfcheck_refused(f->selfcheck, 2, 1);
    plant(f);
    /* One at a time: not before that look is over. */
    for (int i = 0; shown(f, "stockade_false_sold_out_total") == 0; i++) {
        assert_true(i < 10000);
        selfcheck_refused(f->selfcheck, 1, 1);
        usleep(1000);
    }
    assert_int_equal(shown(f, "stockade_sold_out_checks_total"), 1);
}

static void a_right_refusal_is_looked_at_and_not_counted(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 4; i++)
        assert_true(desk_rig_submit(f->rig, i));
    desk_rig_wait_answered(f->rig, 4);
    assert_true(is_foreseen(f));
    wait_shown(f, "stockade_sold_out_checks_total", 1);
    assert_int_equal(shown(f, "stockade_false_sold_out_total"), 0);
}

/* Thousands are refused; one look a second is enough. */
static void it_is_nobodys_burden(void **state)
{
    struct fixture *f = *state;

    plant(f);
    for (int i = 0; i < 1000; i++)
        assert_true(is_foreseen(f));
    wait_shown(f, "stockade_sold_out_checks_total", 1);
}

static void stranded_units_are_shown(void **state)
{
    struct fixture *f = *state;
    sqlite3 *db;

    assert_int_equal(shown(f, "stockade_stranded_units"), 0);
    assert_int_equal(sqlite3_open(f->rig->dir.db, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "UPDATE cells SET active = 0", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    /* Once is enough, but the look before may be under way still. */
    for (int i = 0; shown(f, "stockade_stranded_units") != 3; i++) {
        assert_true(i < 10000);
        selfcheck_stranded(f->selfcheck);
        usleep(1000);
    }
}

/* It takes a look at all cells, however often somebody asks. */
static void scraping_is_nobodys_burden(void **state)
{
    struct fixture *f = *state;
    uint64_t began_ms = clock_ms(), seconds;

    for (int i = 0; i < 1000; i++) {
        selfcheck_stranded(f->selfcheck);
        usleep(500);
    }
    seconds = (clock_ms() - began_ms) / 1000;
    assert_in_range(atomic_load(&f->rig->scans), 1, seconds + 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define SHARED(name)                                                           \
    cmocka_unit_test_setup_teardown(name, set_up_shared, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_false_refusal_is_counted),
        TEST(a_right_refusal_is_looked_at_and_not_counted),
        SHARED(a_false_refusal_is_counted),
        SHARED(a_right_refusal_is_looked_at_and_not_counted),
        TEST(a_look_at_nothing_is_not_counted),
        TEST(it_is_nobodys_burden),
        TEST(stranded_units_are_shown),
        TEST(scraping_is_nobodys_burden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Warm keys that are not what they should be: what others have left in their
 * place, and what is left by whoever dies while he writes them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/warm_rig.h"

#define SEGMENTS 4

static struct redis_server *redis;
static struct temp_dir dir;

static int set_up(void **state)
{
    *state = NULL;
    temp_dir_make(&dir);
    redis_server_ask(redis, "FLUSHALL", NULL, 0);
    return 0;
}

static int tear_down(void **state)
{
    if (*state)
        warm_rig_free(*state);
    temp_dir_remove(&dir);
    return 0;
}

static struct warm_rig *begin(void **state, int64_t units, int64_t segments)
{
    struct warm_rig *rig = warm_rig_guest(&dir, redis, false, NULL);

    *state = rig;
    warm_rig_put(rig, 1, units, segments);
    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    return rig;
}

static void warm_up_now(struct warm_rig *rig)
{
    struct store_cells cells;
    bool in_redis = false;

    assert_int_equal(warm_up(rig->app.warm, 1, &cells, &in_redis, NULL),
                     STORE_OK);
    assert_true(in_redis);
}

static int64_t epoch_of(struct warm_rig *rig)
{
    return warm_rig_cells(rig, 1).epoch;
}

/* Just these keys: as many as there are segments. */
static void expect_keys(struct warm_rig *rig, int64_t n)
{
    warm_rig_await_keys(rig, 1);
    assert_int_equal(redis_server_number(rig->redis, "DBSIZE"), n);
}

/* ---- planted -------------------------------------------------------------- */

static const char *const fields[] = {"epoch", "units", "order", "segments"};

static const char *const values[] = {
    "0",
    "-1",
    "-4503599627370496",
    "2.5",
    "8.5",
    "255",
    "256",
    "257",
    "2251799813685248", /* 2^51 */
    "2251799813685249",
    "4503599627370496", /* 2^52 */
    "9007199254740991",
    "9007199254740992",
    "9223372036854775807",
    "1e300",
    "inf",
    "-inf",
    "nan",
    "x",
};

#define N(list) (sizeof(list) / sizeof((list)[0]))

static void plant(int64_t segment, const char *field, const char *value)
{
    char command[160];

    snprintf(command, sizeof(command), "HSET stock:{1:%" PRId64 "} %s %s",
             segment, field, value);
    redis_server_ask(redis, command, NULL, 0);
}

/* Whatever has been planted: a warm-up, and the product sells. */
static void expect_sells(struct warm_rig *rig, const char *field,
                         const char *value)
{
    enum store_status status;

    warm_up_now(rig);
    warm_rig_await_keys(rig, 1);
    status = warm_rig_buy(rig, 1, 1);
    if (status != STORE_OK)
        fail_msg("%s %s: it does not sell: %d", field, value, status);
    expect_keys(rig, SEGMENTS);
}

/* In all of its keys, or in one of them. */
static void test_planted_numbers(void **state)
{
    struct warm_rig *rig = begin(state, 1000, SEGMENTS);

    for (size_t f = 0; f < N(fields); f++) {
        for (size_t v = 0; v < N(values); v++) {
            for (int64_t k = 0; k < SEGMENTS; k++)
                plant(k, fields[f], values[v]);
            expect_sells(rig, fields[f], values[v]);
            plant((int64_t)v % SEGMENTS, fields[f], values[v]);
            expect_sells(rig, fields[f], values[v]);
        }
    }
    /* Nobody has gone up to where garbage was: there is an end to that. */
    assert_in_range(epoch_of(rig), 1, 100000);
}

static bool sells(struct warm_rig *rig, int64_t product_id)
{
    return warm_rig_buy(rig, product_id, 1) == STORE_OK;
}

/* Nobody asks for a warm-up: who comes by sees that it is no count. */
static void test_planted_and_found(void **state)
{
    struct warm_rig *rig = begin(state, 1000, SEGMENTS);

    for (size_t v = 0; v < N(values); v++) {
        for (int64_t k = 0; k < SEGMENTS; k++)
            plant(k, "epoch", values[v]);
        warm_rig_until(rig, sells, 1, "it sells");
        warm_rig_await_keys(rig, 1);
    }
    assert_in_range(epoch_of(rig), 1, 100000);
}

static void test_keys_of_another_kind(void **state)
{
    struct warm_rig *rig = begin(state, 1000, SEGMENTS);

    for (int64_t k = 0; k < SEGMENTS; k++) {
        char command[64];

        snprintf(command, sizeof(command), "DEL stock:{1:%" PRId64 "}", k);
        redis_server_ask(redis, command, NULL, 0);
        snprintf(command, sizeof(command), "RPUSH stock:{1:%" PRId64 "} 7", k);
        redis_server_ask(redis, command, NULL, 0);
    }
    expect_sells(rig, "a list", "");
}

/* A count that somebody may have made is respected: he goes above it. */
static void test_a_later_count(void **state)
{
    struct warm_rig *rig = begin(state, 1000, SEGMENTS);

    for (int64_t k = 0; k < SEGMENTS; k++)
        plant(k, "epoch", "5000000");
    expect_sells(rig, "epoch", "5000000");
    assert_in_range(epoch_of(rig), 5000001, 5000100);
}

/* With one segment the key is for people to look at; but not for ever wrong. */
static void test_a_later_count_of_one(void **state)
{
    struct warm_rig *rig = begin(state, 1000, 1);

    plant(0, "epoch", "5000000");
    plant(0, "units", "77");
    expect_keys(rig, 1);
    assert_in_range(epoch_of(rig), 5000001, 5000100);
}

/* ---- of more segments ----------------------------------------------------- */

/* Wherever they come from, and whatever they say: the next count removes them,
 * and what they say does not keep it away. */
static void test_strays(void **state)
{
    struct warm_rig *rig = begin(state, 1000, SEGMENTS);

    for (size_t v = 0; v < N(values); v++) {
        for (int64_t k = SEGMENTS; k < STORE_SEGMENTS_MAX; k += 17) {
            plant(k, "epoch", "5");
            plant(k, "segments", values[v]);
        }
        plant(STORE_SEGMENTS_MAX - 1, "segments", values[v]);
        plant(0, "segments", values[v]);
        expect_sells(rig, "strays with segments", values[v]);
    }
}

/* The same with one segment, which has no count of its own. */
static void test_strays_of_one(void **state)
{
    struct warm_rig *rig = begin(state, 1000, 1);

    plant(7, "segments", "8");
    plant(0, "segments", "8");
    expect_keys(rig, 1);
}

#define WRITERS 3
#define COUNTS  15

struct writer {
    struct warm_rig *rig;
    pthread_t thread;
    pthread_barrier_t *together;
    int64_t width;
};

/* Resizes and counts, again and again, while others do. */
static void *write_counts(void *arg)
{
    struct writer *writer = arg;

    for (int64_t i = 0; i < COUNTS; i++) {
        struct store_cells cells;
        bool in_redis;

        pthread_barrier_wait(writer->together);
        warm_rig_put(writer->rig, 1, 1000, 1 + (writer->width * (i + 1)) % 200);
        warm_moved(writer->rig->app.warm, 1);
        assert_int_equal(
            warm_up(writer->rig->app.warm, 1, &cells, &in_redis, NULL),
            STORE_OK);
    }
    return NULL;
}

/* Keys of each width, written over each other. */
static void test_three_writers(void **state)
{
    struct writer writers[WRITERS];
    pthread_barrier_t together;

    (void)state;
    pthread_barrier_init(&together, NULL, WRITERS);
    for (int64_t i = 0; i < WRITERS; i++) {
        writers[i] =
            (struct writer){.rig = warm_rig_guest(&dir, redis, true, NULL),
                            .together = &together,
                            .width = 61 * (i + 1)};
        if (i == 0)
            warm_rig_put(writers[i].rig, 1, 1000, 5);
        warm_rig_warm(writers[i].rig);
    }
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(
            pthread_create(&writers[i].thread, NULL, write_counts, &writers[i]),
            0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i].thread, NULL);
    for (int i = 0; i < WRITERS; i++)
        warm_rig_await_keys(writers[i].rig, 1);
    expect_keys(writers[0].rig, (int64_t)warm_rig_cells(writers[0].rig, 1).n);
    for (int i = 0; i < WRITERS; i++)
        warm_rig_free(writers[i].rig);
    pthread_barrier_destroy(&together);
}

/* ---- dead while he wrote -------------------------------------------------- */

static struct {
    bool armed;
    int to_go; /* before this load it stops, and after it it dies */
} death;

static void on_point(const char *step, enum warm_phase phase)
{
    if (!death.armed || strcmp(step, "warm-load") != 0)
        return;
    if (phase == WARM_BEFORE && --death.to_go == 0)
        raise(SIGSTOP);
    else if (phase == WARM_AFTER && death.to_go == 0)
        raise(SIGKILL);
}

/* Grows the product from 4 segments to 16, and writes their keys. */
static void grow_and_die(int load)
{
    struct warm_rig *rig = warm_rig_guest(&dir, redis, true, on_point);

    warm_rig_warm(rig);
    warm_rig_await_keys(rig, 1);
    warm_rig_shut(rig);
    death.armed = true;
    death.to_go = load;
    warm_rig_put(rig, 1, 1000, 16);
    warm_moved(rig->app.warm, 1);
    warm_rig_let_go(rig);
    warm_rig_await_keys(rig, 1);
    _exit(0);
}

/* Cuts it down to three, while the other stands in the middle of his work. */
static void cut_down(pid_t child)
{
    struct warm_rig *rig = warm_rig_guest(&dir, redis, true, NULL);
    int status;

    warm_rig_warm(rig);
    warm_rig_put(rig, 1, 1000, 3);
    warm_moved(rig->app.warm, 1);
    warm_rig_await_keys(rig, 1);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    warm_rig_await_pass(rig);
    expect_keys(rig, 3);
    warm_rig_free(rig);
}

/* False: he has come to the end before that load. */
static bool dies_in_load(int load)
{
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child == 0)
        grow_and_die(load);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    if (WIFSTOPPED(status))
        cut_down(child);
    else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the child has ended with status %x", (unsigned)status);
    return WIFSTOPPED(status);
}

/* His keys that come after the other's count are of segments that nobody knows
 * of any more. */
static void test_killed_while_he_wrote(void **state)
{
    struct warm_rig *rig = begin(state, 1000, SEGMENTS);
    int deaths = 0;

    warm_rig_free(rig);
    *state = NULL;
    while (dies_in_load(deaths + 1))
        deaths++;
    assert_true(deaths > 0);
}

/* ---- all ------------------------------------------------------------------ */

static int start_redis(void **state)
{
    (void)state;
    redis = redis_server_start();
    return 0;
}

static int stop_redis(void **state)
{
    (void)state;
    redis_server_stop(redis);
    return 0;
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_planted_numbers),       TEST(test_planted_and_found),
        TEST(test_keys_of_another_kind),  TEST(test_a_later_count),
        TEST(test_a_later_count_of_one),  TEST(test_strays),
        TEST(test_strays_of_one),         TEST(test_three_writers),
        TEST(test_killed_while_he_wrote),
    };

    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}

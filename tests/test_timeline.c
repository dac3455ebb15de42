/*
 * Timelines: what is written is JSON, whatever bytes are in it; and a live one never
 * blocks those whose steps it writes down, and loses none without saying so. How one is
 * read, and what is no timeline: e2e/timeline.t.
 */
#include <jansson.h>
#include <pthread.h>

#include "server/base/config.h"
#include "server/base/log.h"
#include "server/lab/timeline/timeline.h"
#include "server/lab/timeline/timeline_live.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unit_test.h"

static struct temp_dir dir;
static char path[TEMP_DIR_BYTES_MAX + 32];
static struct fail error;

static int set_up(NO_STATE)
{
    log_level_set(LOG_ERROR);
    temp_dir_make(&dir);
    (void)snprintf(path, sizeof(path), "%s/timeline.jsonl", dir.path);
    return 0;
}

static int tear_down(NO_STATE)
{
    temp_dir_remove(&dir);
    return 0;
}

static const struct timeline_head head = {
    .source = "stage",
    .lock = "none",
    .schedule = "a b",
    .actors_n = 2,
    .started_us = UINT64_C(1767225600000123),
};

/* A byte that is no ASCII is written as the character of its number. */
static const char lines[] =
    "{\"timeline\":1,\"source\":\"stage\",\"lock\":\"none\","
    "\"schedule\":\"a b\",\"actors\":[\"a\",\"b\"],"
    "\"started\":\"2026-01-01T00:00:00.000123Z\"}\n"
    "{\"at_us\":5,\"phase\":\"step\",\"outcome\":\"ok\",\"move\":1,"
    "\"actor\":\"a\",\"step\":\"set-nx\","
    "\"sent\":\"\\\"\\\\\\u000a\\u0001\\u007f\\u00ff</x>\"}\n"
    "{\"at_us\":6,\"phase\":\"note\",\"outcome\":\"failed\","
    "\"reply\":\"(unreachable)\"}\n"
    "{\"at_us\":0,\"phase\":\"dropped\",\"dropped\":7}\n"
    "{\"at_us\":7,\"phase\":\"step\",\"outcome\":\"unknown\","
    "\"step\":\"del\",\"reply\":\"1\"}\n";

UNIT_TEST_OF(NO_FIXTURE, what_is_written)
{
    const struct timeline_event events[] = {
        {.step = {.at_us = 5,
                  .move = 1,
                  .name = "set-nx",
                  .sent = "\"\\\n\x01\x7f\xff</x>"},
         .actor = "a"},
        {.step = {.at_us = 6, .reply = "(unreachable)"}},
        {.dropped = 7},
        {.step = {.at_us = 7, .name = "del", .reply = "1"}, .is_lost = true}};
    char text[sizeof(lines) + 1] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    assert_non_null(out);
    timeline_write_head(out, &head);
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
        timeline_write_event(out, &events[i]);
    (void)fclose(out);
    assert_string_equal(text, lines);
}

/* ---- live ------------------------------------------------------------------- */

enum { THREADS = 4, STEPS = 800 };

static struct timeline_live *live_open(void)
{
    static struct config config = {.lock = "fenced"};
    struct timeline_live *live;

    (void)snprintf(config.lab_timeline, sizeof(config.lab_timeline), "%s",
                   path);
    live = timeline_live_open(&config, &error);
    assert_non_null(live);
    return live;
}

/* A step within a step, as renewals in one go are. */
static void do_step(struct timeline_live *live)
{
    static const char *const words[] = {"EVAL", "a script", "1", "k"};
    struct dlock_step lock = {.name = "eval-acquire",
                              .owner = "0123456789abcdef-1",
                              .key = "k",
                              .words = words,
                              .words_n = 4,
                              .parts_n = 1};
    struct store_step store = {.name = "place", .product_id = 7};

    timeline_live_on_lock(live, &lock);
    timeline_live_on_store(live, &store);
    lock.phase = DLOCK_AFTER;
    lock.reply = "(no reply)";
    timeline_live_on_lock(live, &lock);
    store.phase = STORE_AFTER;
    store.reply = "ok";
    timeline_live_on_store(live, &store);
}

static void *do_steps(void *live)
{
    for (int i = 0; i < STEPS; i++) {
        do_step(live);
        if (i % 100 == 99)
            usleep(1000); /* orders have pauses, too */
    }
    return NULL;
}

/* Steps in the file, by their kind. */
struct count {
    json_int_t lock, store, dropped;
};

static void count_event(struct count *count, const json_t *event)
{
    const json_t *dropped = json_object_get(event, "dropped");
    const char *step = json_string_value(json_object_get(event, "step"));
    const char *told = step && strcmp(step, "place") == 0 ? "reply" : "sent";
    const char *text = json_string_value(json_object_get(event, told));

    count->dropped += json_integer_value(dropped);
    if (dropped)
        return;
    assert_non_null(text);
    count->store += told[0] == 'r';
    count->lock += told[0] == 's';
    assert_string_equal(text, told[0] == 'r' ? "ok" : "script 1 k");
}

static struct count count_file(void)
{
    const size_t flags = JSON_DISABLE_EOF_CHECK;
    struct count count = {.lock = 0};
    FILE *file = fopen(path, "r");
    json_t *line, *next;

    assert_non_null(file);
    json_decref(json_loadf(file, flags, NULL)); /* the head */
    line = json_loadf(file, flags, NULL);
    while ((next = json_loadf(file, flags, NULL)) != NULL) {
        count_event(&count, line);
        json_decref(line);
        line = next;
    }
    assert_true(json_is_null(json_object_get(line, "verdict")));
    assert_int_equal(json_integer_value(json_object_get(line, "events")),
                     count.lock + count.store);
    assert_int_equal(json_integer_value(json_object_get(line, "dropped")),
                     count.dropped);
    json_decref(line);
    (void)fclose(file);
    return count;
}

/* On a machine that is busy enough some may be dropped; none may vanish. */
UNIT_TEST_OF(NO_FIXTURE, threads_leave_nothing_out)
{
    struct timeline_live *live = live_open();
    pthread_t threads[THREADS];
    struct count count;

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, do_steps, live), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    timeline_live_close(live);
    count = count_file();
    assert_int_equal(count.lock + count.store + count.dropped,
                     2 * THREADS * STEPS);
    assert_true(count.lock > 0 && count.store > 0);
}

/* A disk that takes nothing as long as this is held. */
static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;
__typeof__(timeline_write_event) __real_timeline_write_event,
    __wrap_timeline_write_event;

void __wrap_timeline_write_event(FILE *out, const struct timeline_event *event)
{
    (void)pthread_mutex_lock(&disk);
    __real_timeline_write_event(out, event);
    (void)pthread_mutex_unlock(&disk);
}

UNIT_TEST_OF(NO_FIXTURE, a_slow_disk_holds_up_nobody)
{
    enum { MANY = 20000 };
    struct timeline_live *live = live_open();
    struct count count;

    (void)pthread_mutex_lock(&disk);
    for (int i = 0; i < MANY; i++)
        do_step(live);
    (void)pthread_mutex_unlock(&disk);
    timeline_live_close(live);
    count = count_file();
    assert_true(count.dropped > 0);
    assert_int_equal(count.lock + count.store + count.dropped, 2 * MANY);
}

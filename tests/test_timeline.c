/*
 * Timelines: what is written is read again, whatever bytes are in it; of a file that
 * is cut anywhere, or is no timeline, the line is told; and a live one never blocks
 * those whose steps it writes down, and loses none without saying so.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

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
    .actors = {"a", "b"},
    .started_us = UINT64_C(1767225600000123),
};

static void write_file(void)
{
    struct timeline_event event = {
        .at_us = 5, .move = 1, .actor = "a", .step = "set-nx"};
    struct timeline_verdict verdict = {
        .is_known = true, .over = true, .stock = -1, .sold = 2, .orders = 2};
    FILE *out = fopen(path, "w");

    assert_non_null(out);
    (void)snprintf(event.sent, sizeof(event.sent), "\"\\\n\t\x01\x7f\xff</x>");
    timeline_write_head(out, &head);
    timeline_write_event(out, &event);
    event = (struct timeline_event){
        .at_us = 6, .phase = TIMELINE_NOTE, .outcome = TIMELINE_FAILED};
    timeline_write_event(out, &event);
    event = (struct timeline_event){.phase = TIMELINE_DROPPED, .dropped = 7};
    timeline_write_event(out, &event);
    verdict.faults_n = 1;
    (void)snprintf(verdict.faults[0], sizeof(verdict.faults[0]), "oversold");
    verdict.events = 2;
    verdict.dropped = 7;
    timeline_write_verdict(out, &verdict);
    assert_int_equal(fclose(out), 0);
}

/* The next line of the file that is being read. */
static struct timeline_verdict verdict;
static struct timeline_event event;

static enum timeline_line next(struct timeline *timeline)
{
    return timeline_next(timeline, &event, &verdict);
}

UNIT_TEST_OF(NO_FIXTURE, what_is_written_is_read)
{
    struct timeline_head found;
    struct timeline *timeline;

    write_file();
    timeline = timeline_open(path, &found, &error);
    assert_non_null(timeline);
    assert_memory_equal(&found, &head, sizeof(head));
    assert_int_equal(next(timeline), TIMELINE_LINE_EVENT);
    assert_int_equal(event.at_us, 5);
    assert_int_equal(event.move, 1);
    assert_string_equal(event.actor, "a");
    /* Read for a terminal: of the character of a byte that is no ASCII, too. */
    assert_string_equal(event.sent, "\"\\\?\?\?\?\?\?</x>");
    assert_int_equal(next(timeline), TIMELINE_LINE_EVENT);
    assert_int_equal(event.phase, TIMELINE_NOTE);
    assert_int_equal(event.outcome, TIMELINE_FAILED);
    assert_int_equal(next(timeline), TIMELINE_LINE_EVENT);
    assert_int_equal(event.dropped, 7);
    assert_int_equal(next(timeline), TIMELINE_LINE_VERDICT);
    assert_int_equal(verdict.stock, -1);
    assert_string_equal(verdict.faults[0], "oversold");
    timeline_close(timeline);
}

/* The last line that was read, good or not; 0: there is no end to it. */
static unsigned read_to_the_end(enum timeline_line *line)
{
    struct timeline_head found;
    struct timeline *timeline;
    unsigned n = 1;

    *line = TIMELINE_LINE_BROKEN;
    timeline = timeline_open(path, &found, &error);
    if (!timeline)
        return 1;
    do {
        n++;
        *line = next(timeline);
    } while (*line == TIMELINE_LINE_EVENT);
    timeline_close(timeline);
    return n;
}

static void assert_told(unsigned line_n, const char *what)
{
    char place[sizeof(path) + 16];

    (void)snprintf(place, sizeof(place), "%s:%u: ", path, line_n);
    assert_memory_equal(error.text, place, strlen(place));
    if (!strstr(error.text, what))
        fail_msg("'%s' does not say '%s'", error.text, what);
}

UNIT_TEST_OF(NO_FIXTURE, a_cut_is_told_wherever_it_is)
{
    enum timeline_line line;
    char text[4096];
    size_t size;
    FILE *file;

    write_file();
    file = fopen(path, "r");
    assert_non_null(file);
    size = fread(text, 1, sizeof(text), file);
    (void)fclose(file);
    /* A byte that is no ASCII is written as the character of its number. */
    assert_non_null(memmem(text, size, "\\u0001\\u007f\\u00ff<", 19));
    assert_int_equal(read_to_the_end(&line), 5);
    assert_int_equal(line, TIMELINE_LINE_VERDICT);
    while (size-- > 0) {
        unsigned line_n = 1;

        assert_int_equal(truncate(path, (off_t)size), 0);
        for (size_t i = 0; i < size; i++)
            line_n += text[i] == '\n';
        assert_int_equal(read_to_the_end(&line), line_n);
        assert_int_equal(line, TIMELINE_LINE_BROKEN);
        assert_told(line_n, "cut");
    }
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

    assert_int_equal(timeline_live_on_lock(live, &lock), DLOCK_GO);
    assert_int_equal(timeline_live_on_store(live, &store), STORE_GO);
    lock.phase = DLOCK_AFTER;
    lock.reply = "(no reply)";
    assert_int_equal(timeline_live_on_lock(live, &lock), DLOCK_GO);
    store.phase = STORE_AFTER;
    store.reply = "ok";
    assert_int_equal(timeline_live_on_store(live, &store), STORE_GO);
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

/* What is in the file: whole, and how many steps of each kind. */
struct count {
    uint64_t lock, store, dropped;
};

static struct count count_file(void)
{
    struct count count = {.lock = 0};
    struct timeline_head found;
    struct timeline *timeline = timeline_open(path, &found, &error);
    enum timeline_line line;

    assert_non_null(timeline);
    assert_string_equal(found.source, "serve");
    while ((line = next(timeline)) == TIMELINE_LINE_EVENT) {
        count.dropped += event.dropped;
        if (event.phase == TIMELINE_DROPPED)
            continue;
        assert_int_equal(event.phase, TIMELINE_STEP);
        if (strcmp(event.step, "place") == 0) {
            count.store++;
            assert_string_equal(event.key, "product 7");
            assert_string_equal(event.reply, "ok");
        } else {
            count.lock++;
            assert_string_equal(event.sent, "script 1 k");
            assert_int_equal(event.outcome, TIMELINE_UNKNOWN);
        }
    }
    if (line != TIMELINE_LINE_VERDICT)
        fail_msg("%s", error.text);
    timeline_close(timeline);
    assert_false(verdict.is_known);
    assert_int_equal(verdict.events, count.lock + count.store);
    assert_int_equal(verdict.dropped, count.dropped);
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

static void *read_pipe(void *arg)
{
    char copy_path[sizeof(path) + 8], bytes[4096];
    FILE *copy;
    ssize_t got;

    (void)snprintf(copy_path, sizeof(copy_path), "%s.copy", path);
    copy = fopen(copy_path, "w");
    while (copy && (got = read(*(int *)arg, bytes, sizeof(bytes))) > 0)
        (void)fwrite(bytes, 1, (size_t)got, copy);
    if (copy)
        (void)fclose(copy);
    return NULL;
}

/* A disk that takes nothing for a while is a pipe that nobody reads. */
UNIT_TEST_OF(NO_FIXTURE, a_slow_disk_holds_up_nobody)
{
    enum { MANY = 20000 };
    struct timeline_live *live;
    struct count count;
    pthread_t reader;
    int fd;

    assert_int_equal(mkfifo(path, 0600), 0);
    fd = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    live = live_open();
    for (int i = 0; i < MANY; i++)
        do_step(live);
    assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_pipe, &fd), 0);
    timeline_live_close(live);
    (void)pthread_join(reader, NULL);
    (void)close(fd);
    (void)strncat(path, ".copy", sizeof(path) - strlen(path) - 1);
    count = count_file();
    assert_true(count.dropped > 0);
    assert_int_equal(count.lock + count.store + count.dropped, 2 * MANY);
}

/* Neither the beginning of a sale nor its end waits for a reader. */
UNIT_TEST_OF(NO_FIXTURE, a_pipe_that_nobody_reads_is_given_up)
{
    static struct config config;
    struct timeline_live *live;
    int fd;

    (void)snprintf(config.lab_timeline, sizeof(config.lab_timeline), "%s",
                   path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_null(timeline_live_open(&config, &error));
    if (!strstr(error.text, "nobody reads this FIFO"))
        fail_msg("%s", error.text);
    fd = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    live = live_open();
    for (int i = 0; i < STEPS; i++)
        do_step(live);
    timeline_live_close(live);
    (void)close(fd);
}

/* The lines of the log: whatever is in a value, a line stays one line, within its
 * bounds, and what a machine can read. Levels, and the journal's priorities:
 * e2e/notify.t, e2e/logs.t. */
#include <fcntl.h>
#include <sys/mman.h>

#include "server/base/log.h"
#include "tests/support/unit_test.h"

/* Standard error is a file meanwhile. */
struct captured {
    int fd, real;
    char text[8192];
};

static int set_up(void **state)
{
    static struct captured captured;

    captured.real = dup(STDERR_FILENO);
    captured.fd = memfd_create("log", MFD_CLOEXEC);
    dup2(captured.fd, STDERR_FILENO);
    unsetenv("JOURNAL_STREAM");
    *state = &captured;
    return captured.real < 0 || captured.fd < 0;
}

static int tear_down(void **state)
{
    struct captured *captured = *state;

    dup2(captured->real, STDERR_FILENO);
    close(captured->real);
    close(captured->fd);
    return 0;
}

/* What was written since the last call. */
static const char *written(struct captured *captured)
{
    ssize_t n =
        pread(captured->fd, captured->text, sizeof(captured->text) - 1, 0);

    assert_true(n >= 0);
    captured->text[n] = '\0';
    assert_int_equal(ftruncate(captured->fd, 0), 0);
    lseek(captured->fd, 0, SEEK_SET);
    return captured->text;
}

UNIT_TEST_OF(struct captured *captured, logfmt_quotes_what_needs_it)
{
    log_open(LOG_INFO);
    log_info("word", "a=%s b=%d c=\"%s at %s\" d=%s e=%s", "bare", 7, "two",
             "words", "", "a=\"b\\\n\xff\xc3\xa4");
    assert_string_equal(written(captured),
                        "level=info msg=word a=bare b=7 c=\"two at words\" "
                        "d=\"\" e=\"a=\\\"b\\\\ ?\xc3\xa4\"\n");
}

/* Bytes 1 to 31 and 127, and the control characters of Latin-1 in UTF-8: a value
 * that has one stays a value, and the pair after it stays a pair. */
UNIT_TEST_OF(struct captured *captured, no_byte_forges_a_pair)
{
    char value[16], expected[128];

    log_open(LOG_INFO);
    for (int c = 1; c < 0xa0; c++) {
        if (c >= ' ' && c < 0x7f)
            continue;
        snprintf(value, sizeof(value), c < 0x80 ? "a%cx=y" : "a\xc2%cx=y", c);
        log_info("word", "n=%d text=%s last=\"%s and %s\"", c, value, value,
                 "more");
        snprintf(expected, sizeof(expected),
                 "level=info msg=word n=%d text=\"a x=y\" "
                 "last=\"a x=y and more\"\n",
                 c);
        assert_string_equal(written(captured), expected);
    }
}

/* Bytes that are no UTF-8: one too many, too few, overlong, a surrogate, too large. */
UNIT_TEST_OF(struct captured *captured, what_is_no_text_is_replaced)
{
    static const char *const values[][2] = {
        {"x \x80", "x ?"},
        {"x \xc3", "x ?"},
        {"x \xc0\x80", "x ??"},
        {"x \xe0\x80\x80", "x ???"},
        {"x \xed\xa0\x80", "x ???"},
        {"x \xf5\x80\x80\x80", "x ????"},
        {"x \xf0\x9f\x98\x80", "x \xf0\x9f\x98\x80"},
    };
    char expected[128];

    log_open(LOG_INFO);
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        log_warn("word", "text=%s last=end", values[i][0]);
        snprintf(expected, sizeof(expected),
                 "level=warn msg=word text=\"%s\" last=end\n", values[i][1]);
        assert_string_equal(written(captured), expected);
    }
}

/* Around the bound, every length: the line is cut, and whole all the same. */
UNIT_TEST_OF(struct captured *captured, long_lines_are_cut)
{
    static char value[1400];
    const char *line;

    log_open(LOG_INFO);
    for (size_t n = 900; n < sizeof(value); n++) {
        for (size_t i = 0; i < n; i++)
            value[i] = "\"\\x\xc3\xa4"[i % 5];
        value[n] = '\0';
        log_info("word", "text=%s a=%s last=end", value, value + n - 3);
        line = written(captured);
        assert_true(strlen(line) <= 1024);
        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    }
}

/* Nobody reads the pipe: no thread waits for that, and how many lines are missing is
 * told as soon as somebody does. */
UNIT_TEST_OF(struct captured *captured, a_full_pipe_stops_nobody)
{
    char text[65536], expected[128];
    int ends[2], told = 0, read_n = 0;
    ssize_t n;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    log_open(LOG_INFO);
    for (; told < 5000; told++)
        log_info("word", "number=%d", told);
    n = read(ends[0], text, sizeof(text));
    for (ssize_t i = 0; i < n; i++)
        read_n += text[i] == '\n';
    log_info("word", "number=last");
    dup2(captured->fd, STDERR_FILENO);
    n = read(ends[0], text, sizeof(text) - 1);
    text[n > 0 ? n : 0] = '\0';
    snprintf(expected, sizeof(expected),
             "level=warn msg=log missing=%d\nlevel=info msg=word number=last\n",
             told - read_n);
    assert_string_equal(text, expected);
    close(ends[0]);
}

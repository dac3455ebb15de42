/* The check of heads, cut into pieces the way libmicrohttpd cuts them. */
#include <stdio.h>
#include <string.h>

#include "server/http/check.h"
#include "tests/support/unit_test.h"

static char head[32768];
static struct check_field fields[CHECK_FIELDS_MAX + 1];
static struct check_verdict verdict;

/* Up to the next STOP or the end; ends the piece with a NUL, as the parser. */
static char *cut(char **at, const char *stop)
{
    char *piece = *at;

    *at += strcspn(*at, stop);
    if (**at)
        *(*at)++ = '\0';
    return piece;
}

/* A head with lines that end in CRLF, through the parser's eyes. */
static void view_of(const char *text, size_t size, struct check_view *view)
{
    char *at = head, *name, *value;
    size_t value_size, blanks;

    memset(view, 0, sizeof(*view));
    memcpy(head, text, size + 1);
    view->head = view->method = cut(&at, " ");
    view->target = view->target_at = cut(&at, " ");
    view->target_size = strlen(view->target);
    view->version = cut(&at, "\r");
    view->fields = fields;
    view->head_size = size;
    while (*++at && *at != '\r') {
        name = cut(&at, ":");
        at += strspn(at, " ");
        value = at;
        at = memmem(at, (size_t)(head + size - at), "\r\n", 2);
        *at++ = '\0';
        /* What follows a NUL in a value is lost: strlen() on purpose. */
        value_size = strlen(value);
        for (blanks = 0; blanks < value_size; blanks++)
            if (!strchr(" \t", value[value_size - blanks - 1]))
                break;
        value_size -= blanks;
        value[value_size] = '\0';
        fields[view->fields_n++] =
            (struct check_field){name, value, strlen(name), value_size, blanks};
    }
}

static enum problem check_bytes(const char *text, size_t size)
{
    struct check_view view;

    view_of(text, size, &view);
    check_head(&view, &verdict);
    return verdict.problem;
}

static enum problem check(const char *text)
{
    return check_bytes(text, strlen(text));
}

#define LINE "POST /api/orders HTTP/1.1\r\n"
#define HOST "Host: h\r\n"

/* Header lines that close the connection with 400. */
static const char *const bad_fields[] = {
    /* two opinions on where the body ends, or none */
    "Content-Length: 1\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 1",
    "Content-Length: 1\r\nContent-Length: 1",
    "Content-Length: 1\r\ncontent-length: 2",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunke",
    "Transfer-Encoding: ",
    "Transfer-Encoding: chunked ",
    "Content-Length: +4",
    "Content-Length: -4",
    "Content-Length: 4, 4",
    "Content-Length: 0x4",
    "Content-Length: 4 ",
    "Content-Length: ",
    "Content-Length: 18446744073709551620",
    /* names and values that are not clean; a second Host */
    "Content-Length : 34",
    "Content-Length\t: 34",
    "X Y: a",
    "X\x01: a",
    "X\x7f: a",
    "X(): a",
    ": a",
    "X\xc3\xa4: a",
    "X: a\x01",
    "X: a\x7f",
    "X: \x1b[0m",
    "host: b",
};

static const struct row {
    const char *head;
    enum problem problem;
    bool close;
    uint64_t body_size;
} rows[] = {
    {"GET / HTTP/1.0\r\n\r\n", PROBLEM_NONE, false, 0},
    {"GET / HTTP/1.1\r\n" HOST "\r\n", PROBLEM_NONE, false, 0},
    {LINE HOST "Content-Length: 41\r\n\r\n", PROBLEM_NONE, false, 41},
    {LINE HOST "Transfer-Encoding: Chunked\r\n\r\n", PROBLEM_NONE, false, 0},
    {LINE HOST "X:\r\nY: a\tb \xc3\xa4\r\n\r\n", PROBLEM_NONE, false, 0},
    {LINE "Host: h \t\r\nX: a \r\n\r\n", PROBLEM_NONE, false, 0},
    /* a body that is too long can be read past, up to a bound */
    {LINE HOST "Content-Length: 16384\r\n\r\n", PROBLEM_NONE, false, 16384},
    {LINE HOST "Content-Length: 16385\r\n\r\n", PROBLEM_BODY_SIZE, false,
     16385},
    {LINE HOST "Content-Length: 1048577\r\n\r\n", PROBLEM_BODY_SIZE, true,
     1048577},
    /* version and Host */
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
     PROBLEM_BAD_REQUEST, true, 0},
    {"GET / HTTP/1.1\r\n\r\n", PROBLEM_BAD_REQUEST, true, 0},
    {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", PROBLEM_BAD_REQUEST, true,
     0},
    {"GET / HTTP/1.0\r\nHost: a\r\nhost: b\r\n\r\n", PROBLEM_BAD_REQUEST, true,
     0},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", PROBLEM_BAD_REQUEST, true, 0},
    {"GET / HTTP/1.2\r\n" HOST "\r\n", PROBLEM_VERSION, true, 0},
    {"GET / HTTP/2.0\r\n" HOST "\r\n", PROBLEM_VERSION, true, 0},
    /* the request line */
    {"G@T / HTTP/1.1\r\n" HOST "\r\n", PROBLEM_BAD_REQUEST, true, 0},
    {"GET /\x01 HTTP/1.1\r\n" HOST "\r\n", PROBLEM_BAD_TARGET, true, 0},
    {"GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", PROBLEM_BAD_TARGET, true, 0},
};

static void heads_are_told_apart(NO_STATE)
{
    char text[256];

    for (const struct row *row = rows; row < rows + COUNT_OF(rows); row++) {
        assert_int_equal(check(row->head), row->problem);
        assert_int_equal(verdict.close, row->close);
        assert_int_equal(verdict.body_size, row->body_size);
        assert_int_equal(!*verdict.detail, !row->problem);
    }
    for (size_t i = 0; i < COUNT_OF(bad_fields); i++) {
        snprintf(text, sizeof(text), LINE HOST "%s\r\n\r\n", bad_fields[i]);
        assert_int_equal(check(text), PROBLEM_BAD_REQUEST);
        assert_true(verdict.close && *verdict.detail);
    }
}

/* The pieces are all clean; only what lies between them is not. */
static void seams_show_what_was_dropped(NO_STATE)
{
    struct check_view view;

#define BYTES(text) check_bytes(text, sizeof(text) - 1)
    assert_int_equal(BYTES("GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n"),
                     PROBLEM_BAD_REQUEST);
    assert_int_equal(BYTES("GET / HTTP/1.1\r\nX: a\0\r\n" HOST "\r\n"),
                     PROBLEM_BAD_REQUEST);
#undef BYTES
    view_of(LINE HOST "X: a\r\n\r\n", strlen(LINE HOST "X: a\r\n\r\n"), &view);
    view.head_size++; /* a byte too many at the end */
    check_head(&view, &verdict);
    assert_int_equal(verdict.problem, PROBLEM_BAD_REQUEST);
    view.head_size -= 2; /* a bare LF somewhere */
    check_head(&view, &verdict);
    assert_int_equal(verdict.problem, PROBLEM_BAD_REQUEST);
    view.head = NULL; /* not known: not checked */
    check_head(&view, &verdict);
    assert_int_equal(verdict.problem, PROBLEM_NONE);
}

static enum problem check_with(size_t header_bytes, size_t target_bytes)
{
    static char text[32768];

    snprintf(text, sizeof(text),
             "GET /%0*d HTTP/1.1\r\n" HOST "X: %0*d\r\n\r\n",
             (int)target_bytes - 1, 0, (int)header_bytes, 0);
    return check(text);
}

static void heads_have_a_size(NO_STATE)
{
    size_t rest = strlen("GET /0 HTTP/1.1\r\n" HOST "X: \r\n\r\n");
    struct check_view view;

    assert_int_equal(check_with(CHECK_HEAD_BYTES_MAX - rest, 2), PROBLEM_NONE);
    assert_int_equal(check_with(CHECK_HEAD_BYTES_MAX - rest + 1, 2),
                     PROBLEM_HEAD_SIZE);
    assert_int_equal(check_with(1, CHECK_TARGET_BYTES_MAX), PROBLEM_NONE);
    assert_int_equal(check_with(1, CHECK_TARGET_BYTES_MAX + 1),
                     PROBLEM_TARGET_SIZE);
    assert_true(verdict.close);
    /* Without the raw head the sum of the pieces counts. */
    assert_int_equal(check_with(CHECK_HEAD_BYTES_MAX, 2), PROBLEM_HEAD_SIZE);
    view_of(LINE HOST "\r\n", strlen(LINE HOST "\r\n"), &view);
    view.fields_n = CHECK_FIELDS_MAX + 1;
    for (size_t i = 1; i < view.fields_n; i++)
        fields[i] = (struct check_field){"X", "", 1, 0, 0};
    view.head = NULL;
    check_head(&view, &verdict);
    assert_int_equal(verdict.problem, PROBLEM_HEAD_SIZE);
}

static void finds_fields_by_name(NO_STATE)
{
    const struct check_field some[] = {
        {"Host", "h", 4, 1, 0}, {"X", "1", 1, 1, 0}, {"x", "2", 1, 1, 0}};
    size_t n;

    assert_string_equal(check_find(some, 3, "x", &n)->value, "1");
    assert_int_equal(n, 2);
    assert_null(check_find(some, 3, "Hos", &n));
    assert_int_equal(n, 0);
    assert_non_null(check_find(some, 3, "HOST", NULL));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(heads_are_told_apart),
    cmocka_unit_test(seams_show_what_was_dropped),
    cmocka_unit_test(heads_have_a_size),
    cmocka_unit_test(finds_fields_by_name),
};

TEST_MAIN(tests)

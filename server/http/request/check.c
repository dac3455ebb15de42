/*
 * From the outside in: do the parsed pieces make up the whole head, is each piece
 * clean, does the framing say one thing only. Each check returns true when it has
 * found nothing; else it has filled the verdict.
 */
#include "server/http/request/check.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The connection is closed: after a head that is not understood nobody knows
 * where the next one begins. */
static bool refuse(struct check_verdict *verdict, enum problem problem,
                   const char *detail)
{
    verdict->problem = problem;
    verdict->detail = detail;
    verdict->close = true;
    return false;
}

/*
 * What a byte may be part of: a field value may have tabs and bytes above
 * ASCII, but no controls; a target is visible; names and methods are tokens,
 * RFC 9110's tchar, which is what is visible without the separators.
 */
enum { VALUE = 1, TARGET = 2, TOKEN = 4 };

#define SEPARATOR (VALUE | TARGET)
#define TCHAR     (VALUE | TARGET | TOKEN)

static const unsigned char kinds[256] = {
    ['\t'] = VALUE,         [' '] = VALUE,
    ['!'] = TCHAR,          ['"'] = SEPARATOR,
    ['#' ... '\''] = TCHAR, ['(' ... ')'] = SEPARATOR,
    ['*' ... '+'] = TCHAR,  [','] = SEPARATOR,
    ['-' ... '.'] = TCHAR,  ['/'] = SEPARATOR,
    ['0' ... '9'] = TCHAR,  [':' ... '@'] = SEPARATOR,
    ['A' ... 'Z'] = TCHAR,  ['[' ... ']'] = SEPARATOR,
    ['^' ... 'z'] = TCHAR,  ['{'] = SEPARATOR,
    ['|'] = TCHAR,          ['}'] = SEPARATOR,
    ['~'] = TCHAR,          [0x80 ... 0xff] = VALUE,
};

static bool is_all(unsigned char kind, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!(kinds[(unsigned char)text[i]] & kind))
            return false;
    return true;
}

static bool is_token(const char *text, size_t size)
{
    return size > 0 && is_all(TOKEN, text, size);
}

const struct check_field *check_find(const struct check_field fields[],
                                     size_t fields_n, const char *name,
                                     size_t *n)
{
    const struct check_field *found = NULL;
    size_t i, count = 0, size = strlen(name);

    for (i = 0; i < fields_n; i++) {
        if (fields[i].name_size != size ||
            strncasecmp(fields[i].name, name, size) != 0)
            continue;
        if (!count++)
            found = &fields[i];
    }
    if (n)
        *n = count;
    return found;
}

/*
 * libmicrohttpd cuts C strings from its read buffer: what follows a NUL in a line
 * is lost, a folded line is joined elsewhere, a line may end in a bare LF. All of
 * that shows as a gap: in a clean head each piece begins one separator after the
 * last, up to the final CRLF CRLF.
 */
static bool check_seams(const struct check_view *view,
                        struct check_verdict *verdict)
{
    const char *at = view->head;
    const struct check_field *field;
    size_t i;

    if (!view->head)
        return true;
    /* One space, and no more, on either side of the target. */
    if (view->method != at || view->target_at != at + strlen(view->method) + 1)
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "the request line is malformed");
    if (view->version != view->target_at + view->target_size + 1)
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "the request target has a space or a NUL in it");
    /* Where the first name has to begin: after the CRLF. */
    at = view->version + strlen(view->version) + 2;
    for (i = 0; i < view->fields_n; i++) {
        field = &view->fields[i];
        /* The colon and any number of spaces lie between name and value. */
        if (field->name != at || field->value <= at + field->name_size)
            break;
        at = field->value + field->value_size + 2;
    }
    if (i < view->fields_n || at + 2 != view->head + view->head_size)
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "a header line is folded, or has a NUL in it, or does "
                      "not end in CRLF");
    return true;
}

/* Sizes count what was sent where that is known, else what was understood. */
static bool check_request_line(const struct check_view *view,
                               struct check_verdict *verdict)
{
    size_t size = view->target_size;

    if (strcmp(view->version, "HTTP/1.1") != 0 &&
        strcmp(view->version, "HTTP/1.0") != 0)
        return refuse(verdict, PROBLEM_VERSION, "send HTTP/1.1 or HTTP/1.0");
    if (!is_token(view->method, strlen(view->method)))
        return refuse(verdict, PROBLEM_BAD_REQUEST, "the method is no token");
    if (!is_all(TARGET, view->target, view->target_size))
        return refuse(verdict, PROBLEM_BAD_TARGET,
                      "the target may only have visible ASCII characters");
    if (view->target_size > CHECK_TARGET_BYTES_MAX)
        return refuse(verdict, PROBLEM_TARGET_SIZE,
                      "the target may have 2048 bytes");
    for (size_t i = 0; i < view->fields_n; i++)
        size += view->fields[i].name_size + view->fields[i].value_size + 4;
    /* The head also has the method, the version and the line ends. */
    if (size < view->head_size)
        size = view->head_size;
    if (size > CHECK_HEAD_BYTES_MAX || view->fields_n > CHECK_FIELDS_MAX)
        return refuse(verdict, PROBLEM_HEAD_SIZE,
                      "the request line and the headers may have 8192 bytes "
                      "and 64 fields together");
    return true;
}

/* "Content-Length : 34": one reader sees a Content-Length there, another one a
 * field that it does not know. */
static bool check_fields(const struct check_view *view,
                         struct check_verdict *verdict)
{
    const struct check_field *field;

    for (field = view->fields; field < view->fields + view->fields_n; field++) {
        if (!is_token(field->name, field->name_size))
            return refuse(verdict, PROBLEM_BAD_REQUEST,
                          "a header name has a space, a control character or "
                          "a separator in it");
        if (!is_all(VALUE, field->value, field->value_size))
            return refuse(verdict, PROBLEM_BAD_REQUEST,
                          "a header value has a control character in it");
    }
    return true;
}

/* Equal ones are refused as well: no browser sends the same Host twice. */
static bool check_host(const struct check_view *view,
                       struct check_verdict *verdict)
{
    const struct check_field *host;
    size_t n;

    host = check_find(view->fields, view->fields_n, "Host", &n);
    if (n > 1)
        return refuse(verdict, PROBLEM_BAD_REQUEST, "there are several Hosts");
    if (!host && !strcmp(view->version, "HTTP/1.1"))
        return refuse(verdict, PROBLEM_BAD_REQUEST, "there is no Host");
    if (host && memchr(host->value, ' ', host->value_size))
        return refuse(verdict, PROBLEM_BAD_REQUEST, "the Host has a space");
    return true;
}

/* Content-Length or chunked or neither; never two opinions. */
static bool check_framing(const struct check_view *view,
                          struct check_verdict *verdict)
{
    const struct check_field *length, *coding;
    size_t lengths, codings;

    length =
        check_find(view->fields, view->fields_n, "Content-Length", &lengths);
    coding =
        check_find(view->fields, view->fields_n, "Transfer-Encoding", &codings);
    /* RFC 9112 lets the coding win, and calls it a possible attack. */
    if (lengths && codings)
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "Content-Length and Transfer-Encoding exclude each "
                      "other");
    if (lengths > 1 || codings > 1)
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "the length of the body is given several times");
    /* We can find the end of no other coding. */
    if (coding &&
        (coding->value_size != strlen("chunked") ||
         strncasecmp(coding->value, "chunked", coding->value_size) != 0))
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "the only Transfer-Encoding known here is chunked");
    if (coding && strcmp(view->version, "HTTP/1.1") != 0)
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "HTTP/1.0 has no Transfer-Encoding");
    if (!length)
        return true;
    /* Digits only: no sign, no list, no space; eighteen fit into 64 bits. */
    if (!length->value_size || length->value_size > 18 ||
        strspn(length->value, "0123456789") != length->value_size)
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "the Content-Length is malformed or absurd");
    verdict->body_size = strtoull(length->value, NULL, 10);
    if (verdict->body_size <= CHECK_BODY_BYTES_MAX)
        return true;
    /* Its end is known, so it can be read past; within reason. */
    refuse(verdict, PROBLEM_BODY_SIZE, "the body may have 16384 bytes");
    verdict->close = verdict->body_size > CHECK_SWALLOW_BYTES_MAX;
    return false;
}

void check_head(const struct check_view *view, struct check_verdict *verdict)
{
    memset(verdict, 0, sizeof(*verdict));
    verdict->detail = "";
    (void)(check_request_line(view, verdict) && check_seams(view, verdict) &&
           check_fields(view, verdict) && check_host(view, verdict) &&
           check_framing(view, verdict));
}

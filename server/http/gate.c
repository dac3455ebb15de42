/*
 * The checks of the gate, from the outside in: do the parsed pieces make up
 * the whole head, is each piece clean, does the framing say one thing only.
 *
 * Each check returns true when it has found nothing; otherwise it has filled
 * the verdict. All but a body that is merely too long end the connection:
 * after a head that is not understood nobody knows where the next one starts.
 */
#include "server/http/gate.h"

#include <string.h>
#include <strings.h>

/*
 * Fills the verdict. Closing is the rule: it costs an honest client a new
 * connection, and a dishonest one its whole plan.
 */
static bool refuse(struct gate_verdict *verdict, enum problem problem,
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

/* Names of fields are told apart without regard to case. */
const struct gate_field *gate_find(const struct gate_field fields[],
                                   size_t fields_n, const char *name, size_t *n)
{
    const struct gate_field *found = NULL;
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
 * libmicrohttpd hands out C strings cut from its read buffer: what follows a
 * NUL in a line is silently lost, a folded line is glued on elsewhere, a line
 * may end in a bare LF. All of that shows as a gap: in a clean head each piece
 * begins exactly one separator after the last, up to the final CRLF CRLF.
 */
static bool check_seams(const struct gate_view *view,
                        struct gate_verdict *verdict)
{
    const char *at = view->head;
    const struct gate_field *field;
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
        /*
         * The colon and spaces lie between name and value: how many is no
         * matter.
         */
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

/*
 * Counts what was sent where that is known, and otherwise what was understood.
 * The number of fields counts as well: each costs more than its bytes.
 */
static bool check_sizes(const struct gate_view *view,
                        struct gate_verdict *verdict)
{
    size_t i, size = view->target_size;

    for (i = 0; i < view->fields_n; i++)
        size += view->fields[i].name_size + view->fields[i].value_size + 4;
    /* The head also has the method, the version and the line ends. */
    if (size < view->head_size)
        size = view->head_size;
    if (view->target_size > GATE_TARGET_BYTES_MAX)
        return refuse(verdict, PROBLEM_TARGET_SIZE,
                      "the target may have 2048 bytes");
    if (size > GATE_HEAD_BYTES_MAX || view->fields_n > GATE_FIELDS_MAX)
        return refuse(verdict, PROBLEM_HEAD_SIZE,
                      "the request line and the headers may have 8192 bytes "
                      "and 64 fields together");
    return true;
}

/*
 * What comes first is checked first: the version says how the rest is to be
 * read, and the target goes into logs and messages.
 */
static bool check_request_line(const struct gate_view *view,
                               struct gate_verdict *verdict)
{
    if (strcmp(view->version, "HTTP/1.1") != 0 &&
        strcmp(view->version, "HTTP/1.0") != 0)
        return refuse(verdict, PROBLEM_VERSION, "send HTTP/1.1 or HTTP/1.0");
    if (!is_token(view->method, strlen(view->method)))
        return refuse(verdict, PROBLEM_BAD_REQUEST, "the method is no token");
    if (!is_all(TARGET, view->target, view->target_size))
        return refuse(verdict, PROBLEM_BAD_TARGET,
                      "the target may only have visible ASCII characters");
    return true;
}

/*
 * "Content-Length : 34" is the classic: one reader sees a Content-Length there,
 * the other a field that it does not know.
 */
static bool check_fields(const struct gate_view *view,
                         struct gate_verdict *verdict)
{
    const struct gate_field *field;

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

/*
 * Equal ones are refused as well: who sends the same Host twice is not a
 * browser, and whoever stands before us may have looked at the other one.
 */
static bool check_host(const struct gate_view *view,
                       struct gate_verdict *verdict)
{
    const struct gate_field *host;
    size_t n;

    host = gate_find(view->fields, view->fields_n, "Host", &n);
    if (n > 1)
        return refuse(verdict, PROBLEM_BAD_REQUEST, "there are several Hosts");
    if (!host && !strcmp(view->version, "HTTP/1.1"))
        return refuse(verdict, PROBLEM_BAD_REQUEST, "there is no Host");
    if (host && memchr(host->value, ' ', host->value_size))
        return refuse(verdict, PROBLEM_BAD_REQUEST, "the Host has a space");
    return true;
}

/* Digits only: no sign, no list, no space, nothing that overflows. */
static bool check_length(const struct gate_field *length,
                         struct gate_verdict *verdict)
{
    uint64_t size = 0;
    size_t i;

    /* Eighteen digits cannot overflow 64 bits. */
    if (!length->value_size || length->value_size > 18)
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "the Content-Length is malformed or absurd");
    for (i = 0; i < length->value_size; i++) {
        if (length->value[i] < '0' || length->value[i] > '9')
            return refuse(verdict, PROBLEM_BAD_REQUEST,
                          "the Content-Length is not a number");
        size = size * 10 + (uint64_t)(length->value[i] - '0');
    }
    verdict->body_size = size;
    return true;
}

/* Content-Length or chunked or neither; never two opinions. */
static bool check_framing(const struct gate_view *view,
                          struct gate_verdict *verdict)
{
    const struct gate_field *length, *coding;
    size_t lengths, codings;

    length =
        gate_find(view->fields, view->fields_n, "Content-Length", &lengths);
    coding =
        gate_find(view->fields, view->fields_n, "Transfer-Encoding", &codings);
    /*
     * RFC 9112 lets the coding win; it also says that this smells of an attack.
     */
    if (lengths && codings)
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "Content-Length and Transfer-Encoding exclude each "
                      "other");
    if (lengths > 1 || codings > 1)
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "the length of the body is given several times");
    /* Anything else would have to be decoded, and its end found, by us. */
    if (coding &&
        (coding->value_size != strlen("chunked") ||
         strncasecmp(coding->value, "chunked", coding->value_size) != 0))
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "the only Transfer-Encoding known here is chunked");
    /* A reader that is strictly HTTP/1.0 would not know of it. */
    if (coding && strcmp(view->version, "HTTP/1.1") != 0)
        return refuse(verdict, PROBLEM_BAD_REQUEST,
                      "HTTP/1.0 has no Transfer-Encoding");
    return length ? check_length(length, verdict) : true;
}

/* Its end is known, so it can be read past; within reason. */
static bool check_body(struct gate_verdict *verdict)
{
    if (verdict->body_size <= GATE_BODY_BYTES_MAX)
        return true;
    refuse(verdict, PROBLEM_BODY_SIZE, "the body may have 16384 bytes");
    verdict->close = verdict->body_size > GATE_SWALLOW_BYTES_MAX;
    return false;
}

void gate_check(const struct gate_view *view, struct gate_verdict *verdict)
{
    memset(verdict, 0, sizeof(*verdict));
    verdict->detail = "";
    (void)(check_request_line(view, verdict) && check_sizes(view, verdict) &&
           check_seams(view, verdict) && check_fields(view, verdict) &&
           check_host(view, verdict) && check_framing(view, verdict) &&
           check_body(verdict));
}

/*
 * Heads, and below them targets.
 *
 * From the outside in: do the parsed pieces make up the whole head, is each piece
 * clean, does the framing say one thing only. Each check returns what is wrong,
 * NULL if nothing is; that is a 400, unless it has said otherwise in the verdict.
 */
#include "server/http/check.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A name, or a method: RFC 9110's tchar. */
static bool is_token(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)text[i]) &&
            /* A NUL must be asked for by itself: strchr() finds it at the end
             * of each string. */
            (!text[i] || !strchr("!#$%&'*+-.^_`|~", text[i])))
            return false;
    return size > 0;
}

/* A target is visible ASCII; a field's VALUE may also have blanks, and bytes above ASCII,
 * but no controls. */
static bool is_clean(bool value, const char *text, size_t size)
{
    const unsigned char *at = (const unsigned char *)text;

    for (const unsigned char *end = at + size; at < end; at++)
        if (value ? (*at < ' ' && *at != '\t') || *at == 0x7f
                  : *at <= ' ' || *at >= 0x7f)
            return false;
    return true;
}

const struct check_field *check_find(const struct check_head *head,
                                     const char *name, size_t *n)
{
    const struct check_field *found = NULL, *at = head->fields;
    size_t count = 0, size = strlen(name);

    for (; at < head->fields + head->fields_n; at++)
        if (at->name_size == size && !strncasecmp(at->name, name, size) &&
            !count++)
            found = at;
    if (n)
        *n = count;
    return found;
}

/* libmicrohttpd cuts C strings from its read buffer: what follows a NUL in a line is
 * lost, a folded line is joined elsewhere, a line may end in a bare LF. All of that
 * shows as a gap: in a clean head each piece begins one separator after the last, up to
 * the final CRLF CRLF. */
static const char *check_seams(const struct check_head *head)
{
    const char *at = head->bytes;
    const struct check_field *field;
    size_t i;

    if (!head->bytes)
        return NULL;
    /* One space, and no more, on either side of the target. */
    if (head->method != at || head->target_at != at + strlen(head->method) + 1)
        return "the request line is malformed";
    if (head->version != head->target_at + head->target_size + 1)
        return "the request target has a space or a NUL in it";
    /* Where the first name has to begin: after the CRLF. */
    at = head->version + strlen(head->version) + 2;
    for (i = 0; i < head->fields_n; i++) {
        field = &head->fields[i];
        /* The colon and any number of spaces lie between name and value. */
        if (field->name != at || field->value <= at + field->name_size)
            break;
        at = field->value + field->value_size + field->blanks + 2;
    }
    /* The last piece must end where the head does: a proxy might take bytes
     * that belong to no piece for another request. */
    if (i < head->fields_n || at + 2 != head->bytes + head->size)
        return "a header line is folded, or has a NUL in it, or does "
               "not end in CRLF";
    return NULL;
}

/* Sizes count what was sent where that is known, else what was understood. */
static const char *check_request_line(const struct check_head *head,
                                      struct check_verdict *verdict)
{
    size_t size = head->target_size, arguments = 0;

    /* The version comes first: all other rules are those of HTTP/1.x. */
    if (strcmp(head->version, "HTTP/1.1") != 0 &&
        strcmp(head->version, "HTTP/1.0") != 0) {
        verdict->problem = PROBLEM_VERSION;
        return "send HTTP/1.1 or HTTP/1.0";
    }
    if (!is_token(head->method, strlen(head->method)))
        return "the method is no token";
    if (!is_clean(false, head->target, head->target_size)) {
        verdict->problem = PROBLEM_BAD_TARGET;
        return "the target may only have visible ASCII characters";
    }
    if (head->target_size > CHECK_TARGET_BYTES_MAX) {
        verdict->problem = PROBLEM_TARGET_SIZE;
        return "the target may have 2048 bytes";
    }
    /* Each argument would take the library's memory; it may be left with none
     * for the reply. */
    for (const char *at = strchr(head->target, '?'); at;
         at = strchr(at + 1, '&'))
        arguments++;
    if (arguments > CHECK_ARGUMENTS_MAX) {
        verdict->problem = PROBLEM_TARGET_SIZE;
        return "the query may have 64 arguments";
    }
    for (size_t i = 0; i < head->fields_n; i++)
        size += head->fields[i].name_size + head->fields[i].value_size + 4;
    /* The head also has the method, the version and the line ends. */
    if (size < head->size)
        size = head->size;
    if (size > CHECK_HEAD_BYTES_MAX || head->fields_n > CHECK_FIELDS_MAX) {
        verdict->problem = PROBLEM_HEAD_SIZE;
        return "the request line and the headers may have 8192 bytes "
               "and 64 fields together";
    }
    return NULL;
}

/* "Content-Length : 34": one reader sees a Content-Length there, another one a
 * field that it does not know. */
static const char *check_fields(const struct check_head *head)
{
    const struct check_field *field;

    for (field = head->fields; field < head->fields + head->fields_n; field++) {
        if (!is_token(field->name, field->name_size))
            return "a header name has a space, a control character or "
                   "a separator in it";
        if (!is_clean(true, field->value, field->value_size))
            return "a header value has a control character in it";
    }
    return NULL;
}

/* Equal ones are refused as well: no browser sends the same Host twice. */
static const char *check_host(const struct check_head *head)
{
    const struct check_field *host;
    size_t n;

    host = check_find(head, "Host", &n);
    if (n > 1)
        return "there are several Hosts";
    if (!host && !strcmp(head->version, "HTTP/1.1"))
        return "there is no Host";
    if (host && memchr(host->value, ' ', host->value_size))
        return "the Host has a space";
    return NULL;
}

/* Wishes that no handler grants. The connection goes on, because the end of the body is
 * known. */
static const char *check_wishes(const struct check_head *head,
                                struct check_verdict *verdict)
{
    const struct check_field *coding, *expect;
    size_t codings, expects;

    coding = check_find(head, "Content-Encoding", &codings);
    expect = check_find(head, "Expect", &expects);
    if (expect && strcmp(head->version, "HTTP/1.1") == 0 &&
        (expects > 1 || strcasecmp(expect->value, "100-continue") != 0)) {
        verdict->problem = PROBLEM_EXPECTATION;
        return "leave Expect out, or send 100-continue";
    }
    if (!coding ||
        (codings == 1 && strcasecmp(coding->value, "identity") == 0) ||
        /* A coding of no body asks for nothing, and some clients always send
         * it. */
        (!verdict->body_size && !check_find(head, "Transfer-Encoding", NULL)))
        return NULL;
    verdict->problem = PROBLEM_MEDIA_TYPE;
    return "send the body as it is, without a Content-Encoding";
}

/* Content-Length or chunked or neither; never two opinions. */
static const char *check_framing(const struct check_head *head,
                                 struct check_verdict *verdict)
{
    const struct check_field *length, *coding;
    size_t lengths, codings;

    length = check_find(head, "Content-Length", &lengths);
    coding = check_find(head, "Transfer-Encoding", &codings);
    /* RFC 9112 lets the coding win, and calls it a possible attack. */
    if (lengths && codings)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (lengths > 1 || codings > 1)
        return "the length of the body is given several times";
    if ((length && length->blanks) || (coding && coding->blanks))
        return "there are blanks after the length of the body";
    /* We can find the end of no other coding. */
    if (coding &&
        (coding->value_size != strlen("chunked") ||
         strncasecmp(coding->value, "chunked", coding->value_size) != 0))
        return "the only Transfer-Encoding known here is chunked";
    if (coding && strcmp(head->version, "HTTP/1.1") != 0)
        return "HTTP/1.0 has no Transfer-Encoding";
    if (!length)
        return NULL;
    /* Digits only: no sign, no list, no space. */
    if (!length->value_size ||
        strspn(length->value, "0123456789") != length->value_size)
        return "the Content-Length is malformed or absurd";
    /* A number that is too large for any integer becomes the largest, and is
     * refused by the next line. */
    verdict->body_size = strtoull(length->value, NULL, 10);
    if (verdict->body_size <= CHECK_BODY_BYTES_MAX)
        return NULL;
    verdict->problem = PROBLEM_BODY_SIZE;
    return "the body may have 16384 bytes";
}

/* The connection is closed: after a head that is not understood nobody knows
 * where the next one begins. The end of a body that is too long is known, so it
 * can be read past; within reason. */
void check_head(const struct check_head *head, struct check_verdict *verdict)
{
    const char *wrong;

    /* The problem is assumed, and each check says otherwise where it knows
     * better: a check that is forgotten refuses. */
    *verdict = (struct check_verdict){.problem = PROBLEM_BAD_REQUEST};
    if (!(wrong = check_request_line(head, verdict)) &&
        !(wrong = check_seams(head)) && !(wrong = check_fields(head)) &&
        !(wrong = check_host(head)) &&
        !(wrong = check_framing(head, verdict)) &&
        !(wrong = check_wishes(head, verdict)))
        verdict->problem = PROBLEM_NONE;
    verdict->detail = wrong ? wrong : "";
    verdict->close = wrong && ((verdict->problem != PROBLEM_BODY_SIZE &&
                                verdict->problem != PROBLEM_EXPECTATION &&
                                verdict->problem != PROBLEM_MEDIA_TYPE) ||
                               verdict->body_size > CHECK_SWALLOW_BYTES_MAX);
}

/* ---- targets: visible ASCII as far as here, and NUL-terminated ------------- */

/* The byte of "%41" at TEXT, or -1. */
static int escaped_byte(const char *text, const char *end)
{
    char digits[3] = "";

    if (end - text < 3 || !isxdigit((unsigned char)text[1]) ||
        !isxdigit((unsigned char)text[2]))
        return -1;
    memcpy(digits, text + 1, 2);
    return (int)strtol(digits, NULL, 16);
}

/* Decodes once, so "%252e" becomes "%2e" and not a dot. */
static const char *decode_path(const char *at, const char *end, char *path)
{
    int byte;

    while (at < end) {
        byte = (unsigned char)*at;
        if (byte == '%') {
            byte = escaped_byte(at, end);
            if (byte < 0)
                return "the path has a malformed percent escape";
            /* Would be a separator for some and a letter for others. */
            if (byte == '/')
                return "the path has an escaped slash";
            at += 2;
        }
        at++;
        if (byte < ' ' || byte == 0x7f)
            return "the path has an escaped control character";
        if (byte == '\\')
            return "the path has a backslash";
        *path++ = (char)byte;
    }
    *path = '\0';
    return NULL;
}

const char *target_split(const char *target, size_t target_size, char *path,
                         const char **query)
{
    const char *end = target + target_size, *mark, *wrong;

    /* "http://host/path" means the same as "/path" with that Host. */
    if (target_size >= 7 && !strncasecmp(target, "http://", 7)) {
        target += 7;
        target += strcspn(target, "/?");
    }
    if (*target != '/')
        return "the target does not begin with a slash";
    /* The first question mark ends the path; later ones belong to the query. */
    mark = memchr(target, '?', (size_t)(end - target));
    *query = mark ? mark + 1 : "";
    /* A fragment is for the browser and never sent. */
    if (memchr(target, '#', (size_t)(end - target)))
        return "the target has a fragment";
    wrong = decode_path(target, mark ? mark : end, path);
    /* "." and ".." have no place in a path that names no files. */
    while (!wrong && (path = strstr(path, "/."))) {
        path += path[2] == '.' ? 3 : 2;
        if (!*path || *path == '/')
            wrong = "the path has a dot segment";
    }
    return wrong;
}

/* As forms are encoded: "+" is a space. */
static bool decode_value(const char *at, const char *end, char *value,
                         size_t value_size)
{
    int byte;
    size_t n = 0;

    for (; at < end; at++) {
        byte = *at == '+' ? ' ' : (unsigned char)*at;
        if (byte == '%') {
            byte = escaped_byte(at, end);
            at += 2;
        }
        /* A NUL would end the value for everybody who reads it afterwards. */
        if (byte <= 0 || n + 1 >= value_size)
            return false;
        value[n++] = (char)byte;
    }
    value[n] = '\0';
    return true;
}

/* A name that is there twice is refused: proxies and servers disagree about which
 * of the two counts. */
enum target_found target_query(const char *query, const char *name, char *value,
                               size_t value_size)
{
    enum target_found found = TARGET_ABSENT;
    const char *end, *at;

    for (; *query; query = *end ? end + 1 : end) {
        end = strchrnul(query, '&');
        at = query + strcspn(query, "=&");
        /* The name is compared as it stands: an escaped one is another name,
         * and is passed over like all that mean nothing here. */
        if ((size_t)(at - query) != strlen(name) ||
            strncmp(query, name, strlen(name)) != 0)
            continue;
        at += *at == '='; /* without one the value is "" */
        if (found != TARGET_ABSENT || !decode_value(at, end, value, value_size))
            return TARGET_BAD;
        found = TARGET_FOUND;
    }
    return found;
}

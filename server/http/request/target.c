/* See target.h. The request check has seen to it that TARGET is visible ASCII and
 * NUL-terminated. */
#include "server/http/request/target.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* "." and ".." have no place in a path that names no files. */
static bool has_dot_segment(const char *path)
{
    const char *end;

    /* Each turn looks at what is between one slash and the next. */
    for (; *path == '/'; path = end) {
        end = strchrnul(++path, '/');
        if ((end - path == 1 && !memcmp(path, ".", 1)) ||
            (end - path == 2 && !memcmp(path, "..", 2)))
            return true;
    }
    return false;
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
    if (!wrong && has_dot_segment(path))
        wrong = "the path has a dot segment";
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
    size_t name_size = strlen(name);
    const char *end;

    for (; *query; query = *end ? end + 1 : end) {
        end = strchrnul(query, '&');
        if (strncmp(query, name, name_size) != 0 || query[name_size] != '=')
            continue;
        if (found != TARGET_ABSENT ||
            !decode_value(query + name_size + 1, end, value, value_size))
            return TARGET_BAD;
        found = TARGET_FOUND;
    }
    return found;
}

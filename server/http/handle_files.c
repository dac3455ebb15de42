/*
 * The page and the description of the interface. They are part of the binary, so
 * no path of the file system is involved, and they fit this version.
 *
 * The page loads nothing from elsewhere and runs no inline script; by the policy
 * below browsers enforce it.
 */
#include "server/http/route.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

#define SCRIPT "text/javascript; charset=utf-8"

/* The build makes a row of each script: {"/app.js", SCRIPT, "its text"}. */
static const struct file {
    const char *path, *type, *text;
} files[] = {
    {
        "/",
        "text/html; charset=utf-8",
#include "static/index.html.inc"
    },
    {
        "/style.css",
        "text/css; charset=utf-8",
#include "static/colours.css.inc"
#include "static/style.css.inc"
    },
    {
        "/openapi.json",
        "application/json",
#include "static/openapi.json.inc"
    },
#include "server/http/scripts.inc"
};

enum { FILES = sizeof(files) / sizeof(*files) };

static char tags[FILES][24]; /* made at the first request */

/* FNV-1a of the content: changes when it does, and only then. */
static void make_tags(void)
{
    for (size_t i = 0; i < FILES; i++) {
        uint64_t hash = 14695981039346656037u;

        for (const char *c = files[i].text; *c; c++)
            hash = (hash ^ (unsigned char)*c) * 1099511628211u;
        snprintf(tags[i], sizeof(tags[i]), "\"%016" PRIx64 "\"", hash);
    }
}

const struct file *handle_files_find(const char *path)
{
    for (size_t i = 0; i < FILES; i++)
        if (!strcmp(files[i].path, path))
            return &files[i];
    return NULL;
}

/* "no-cache" lets browsers keep a copy and makes them ask: after an update
 * nobody sees an old script with a new page. */
void handle_files_get(struct request *request)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *given = request_field(request, "If-None-Match", NULL);
    const struct file *file = handle_files_find(request->path);
    const char *tag = tags[file - files];

    pthread_once(&once, make_tags);
    request_header(request, "ETag", tag);
    request_header(request, "Cache-Control", "no-cache");
    request_header(request, "X-Content-Type-Options", "nosniff");
    /* A list of tags, weak or not, or "*". A 304 repeats what a cache needs to
     * keep its copy fresh; the library leaves away the text, and tells its length. */
    if (given && (!strcmp(given, "*") || strstr(given, tag))) {
        request_reply(request, 304, file->text, strlen(file->text));
        return;
    }
    request_header(request, "Content-Type", file->type);
    request_header(request, "Content-Security-Policy", policy);
    request_header(request, "Referrer-Policy", "no-referrer");
    request_reply(request, 200, file->text, strlen(file->text));
}

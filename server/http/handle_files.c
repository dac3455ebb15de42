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

#include "server/http/reply.h"

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

/* What is served, under which name; the route table has the same names. */
static struct file {
    const char *path;
    const char *type;
    const char *text;
    size_t size;  /* these two are made at the first request: */
    char tag[24]; /* initialisers cannot hash */
} files[] = {
    {"/", "text/html; charset=utf-8",
#include "static/index.html.inc"
     , 0, ""},
    {"/app.js", "text/javascript; charset=utf-8",
#include "static/app.js.inc"
     , 0, ""},
    {"/shop.js", "text/javascript; charset=utf-8",
#include "static/shop.js.inc"
     , 0, ""},
    {"/live.js", "text/javascript; charset=utf-8",
#include "static/live.js.inc"
     , 0, ""},
    {"/browser.js", "text/javascript; charset=utf-8",
#include "static/browser.js.inc"
     , 0, ""},
    {"/words.js", "text/javascript; charset=utf-8",
#include "static/words.js.inc"
     , 0, ""},
    {"/orders.js", "text/javascript; charset=utf-8",
#include "static/orders.js.inc"
     , 0, ""},
    {"/admin.js", "text/javascript; charset=utf-8",
#include "static/admin.js.inc"
     , 0, ""},
    {"/style.css", "text/css; charset=utf-8",
#include "static/colours.css.inc"
#include "static/style.css.inc"
     , 0, ""},
    {"/openapi.json", "application/json",
#include "static/openapi.json.inc"
     , 0, ""},
};

static struct file *const files_end = files + sizeof(files) / sizeof(*files);

/* FNV-1a of the content: changes when it does, and only then. */
static void make_tags(void)
{
    for (struct file *file = files; file < files_end; file++) {
        uint64_t hash = 14695981039346656037u;

        file->size = strlen(file->text);
        for (size_t i = 0; i < file->size; i++)
            hash = (hash ^ (unsigned char)file->text[i]) * 1099511628211u;
        snprintf(file->tag, sizeof(file->tag), "\"%016" PRIx64 "\"", hash);
    }
}

/* "no-cache" lets browsers keep a copy and makes them ask: after an update
 * nobody sees an old script with a new page. */
void handle_files_get(struct request *request)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *given = request_field(request, "If-None-Match", NULL);
    const struct file *file = files;

    pthread_once(&once, make_tags);
    while (file < files_end && strcmp(file->path, request->path) != 0)
        file++;
    if (file == files_end) {
        reply_problem(request, PROBLEM_NOT_FOUND, "no such file");
        return;
    }
    request_header(request, "ETag", file->tag);
    request_header(request, "Cache-Control", "no-cache");
    request_header(request, "X-Content-Type-Options", "nosniff");
    /* A list of tags, weak or not, or "*". A 304 repeats what a cache needs to
     * keep its copy fresh, and nothing else. */
    if (given && (!strcmp(given, "*") || strstr(given, file->tag))) {
        request_reply(request, 304, "", 0);
        return;
    }
    request_header(request, "Content-Type", file->type);
    request_header(request, "Content-Security-Policy", policy);
    request_header(request, "Referrer-Policy", "no-referrer");
    request_reply(request, 200, file->text, file->size);
}

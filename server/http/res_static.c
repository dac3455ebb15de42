/*
 * The page and the description of the interface. They are part of the binary,
 * so there is no path to check, nothing to read, and no two versions.
 *
 * The pages load nothing from elsewhere and run no inline script; the policy
 * below makes browsers hold them to it.
 */
#include "server/http/res.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "server/http/reply.h"
#include "server/http/request.h"

static const char index_html[] =
#include "static/index.html.inc"
    ;
static const char app_js[] =
#include "static/app.js.inc"
    ;
static const char style_css[] =
#include "static/style.css.inc"
    ;
static const char openapi_json[] =
#include "static/openapi.json.inc"
    ;

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

/* What is served, under which name; the route table has the same names. */
static const struct file {
    const char *path;
    const char *type;
    const char *text;
    size_t size;
} files[] = {
    {"/", "text/html; charset=utf-8", index_html, sizeof(index_html) - 1},
    {"/app.js", "text/javascript; charset=utf-8", app_js, sizeof(app_js) - 1},
    {"/style.css", "text/css; charset=utf-8", style_css, sizeof(style_css) - 1},
    {"/openapi.json", "application/json", openapi_json,
     sizeof(openapi_json) - 1},
};

enum { FILES_N = sizeof(files) / sizeof(*files) };

/* Made at the first request: constant initialisers cannot hash. */
static char tags[FILES_N][24];
static pthread_once_t tags_once = PTHREAD_ONCE_INIT;

/* FNV-1a of the content: changes when it does, and only then. */
static void make_tags(void)
{
    uint64_t hash;
    size_t i, j;

    for (i = 0; i < FILES_N; i++) {
        hash = 14695981039346656037u;
        for (j = 0; j < files[i].size; j++)
            hash = (hash ^ (unsigned char)files[i].text[j]) * 1099511628211u;
        snprintf(tags[i], sizeof(tags[i]), "\"%016" PRIx64 "\"", hash);
    }
}

/* If-None-Match is a list of tags, weak or not, or "*". */
static bool has_it(const struct request *request, const char *tag)
{
    const char *given = request_field(request, "If-None-Match", NULL);

    return given && (!strcmp(given, "*") || strstr(given, tag));
}

/*
 * "no-cache" lets browsers keep a copy and makes them ask: after an update
 * nobody sees an old script with a new page.
 */
void res_static_get(struct request *request)
{
    const struct file *file = files;
    const char *tag;

    while (file < files + FILES_N && strcmp(file->path, request->path) != 0)
        file++;
    if (file == files + FILES_N) {
        reply_problem(request, PROBLEM_NOT_FOUND, "no such file");
        return;
    }
    pthread_once(&tags_once, make_tags);
    tag = tags[file - files];
    request_header(request, "ETag", tag);
    request_header(request, "Cache-Control", "no-cache");
    request_header(request, "X-Content-Type-Options", "nosniff");
    /*
     * 304 repeats what a cache needs to keep its copy fresh, and nothing else.
     */
    if (has_it(request, tag)) {
        request_reply(request, 304, "", 0);
        return;
    }
    request_header(request, "Content-Type", file->type);
    request_header(request, "Content-Security-Policy", policy);
    request_header(request, "Referrer-Policy", "no-referrer");
    request_reply(request, 200, file->text, file->size);
}

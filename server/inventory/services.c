/*
 * The inventory services: whose turn it is, and who is left out.
 *
 * Each is asked /readyz once a second. One that does not say 200, or that leaves a
 * request unanswered, gets no more requests, and is asked again after a pause that
 * grows as long as that goes on: also if /readyz says yes each time and orders fail.
 *
 * Requests to them are tries, of libcurl's multi interface: many requests on one pool of
 * connections that are kept open, all on one thread.
 *
 * libcurl sends a request again by itself when a kept connection turns out to be
 * closed. Then the second connect may fail although the first one has sent the
 * request. So whether a try was sent is not read from its error: PREREQFUNCTION
 * is called each time before a request goes out.
 */
#include "server/inventory/services.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "db/store.h"
#include "server/base/clock.h"
#include "server/base/log.h"

#define PROBE_EVERY_US 1000000
#define PAUSE_US_MIN   100000
#define PAUSE_US_MAX   3200000

#define REPLY_BYTES_MAX 4194304

/* Whether URL is http://HOST[:PORT] and no more. */
static bool is_url(const char *url)
{
    static const char scheme[] = "http://";
    const char *host = url + sizeof(scheme) - 1, *rest;
    CURLU *parsed;
    bool valid;

    if (strncasecmp(url, scheme, sizeof(scheme) - 1) != 0)
        return false;
    rest = host + strcspn(host, "/?#@");
    if (strcmp(rest, "/") != 0 && *rest)
        return false;
    parsed = curl_url();
    valid = parsed && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK;
    curl_url_cleanup(parsed);
    return valid;
}

/* Two of one name would take turns as two, and have one line of metrics. */
static bool is_there(const struct services *services, const char *url)
{
    for (size_t i = 0; i < services->n; i++)
        if (strcasecmp(services->list[i].url, url) == 0)
            return true;
    return false;
}

bool services_read(struct services *services, const char *text)
{
    size_t size = 0;

    for (; *text; text += size + (text[size] == ',')) {
        struct service *service = &services->list[services->n];

        size = strcspn(text, ",");
        if (services->n == SERVICES_MAX || size >= sizeof(service->url))
            break;
        memcpy(service->url, text, size);
        service->url[size] = '\0';
        if (!is_url(service->url))
            break;
        if (service->url[size - 1] == '/')
            service->url[size - 1] = '\0';
        if (is_there(services, service->url))
            break;
        service->pause_us = PAUSE_US_MIN;
        services->n++;
    }
    if (!*text)
        return services->n > 0;
    log_error("inventory",
              "error=\"--inventory takes http://HOST:PORT, up to %d different "
              "ones with commas between, not '%.*s'\"",
              SERVICES_MAX, (int)size, text);
    return false;
}

bool services_any(const struct services *services, const struct service *failed)
{
    const struct service *service = services->list;

    for (; service < services->list + services->n; service++)
        if (service != failed && atomic_load(&service->is_ready))
            return true;
    return false;
}

struct service *services_choose(struct services *services,
                                const struct service *failed)
{
    struct service *service;

    for (size_t i = 0; i < services->n; i++) {
        service = &services->list[(services->turn + i) % services->n];
        if (service != failed && atomic_load(&service->is_ready) &&
            service->flying < SERVICE_FLYING_MAX)
            return service;
    }
    return NULL;
}

/* The pause begins small again only for one that has stayed ready. */
void services_works(struct service *service, uint64_t now_us)
{
    if (atomic_exchange(&service->is_ready, true))
        service->pause_us = PAUSE_US_MIN;
    else
        log_info("inventory", "url=%s state=ready", service->url);
    service->is_told = false;
    service->probe_us = now_us + PROBE_EVERY_US;
}

void services_fails(struct service *service, uint64_t now_us, const char *why)
{
    atomic_store(&service->is_ready, false);
    if (!service->is_told)
        log_warn("inventory", "url=%s state=away error=\"%s\"", service->url,
                 why);
    service->is_told = true;
    service->probe_us = now_us + service->pause_us;
    if (service->pause_us < PAUSE_US_MAX)
        service->pause_us *= 2;
}

/* ---- one try -------------------------------------------------------------- */

static int on_sent(void *ctx, char *peer, char *local, int peer_port,
                   int local_port)
{
    struct http_try *try = ctx;

    (void)peer, (void)local, (void)peer_port, (void)local_port;
    try->is_sent = true;
    return CURL_PREREQFUNC_OK;
}

/* A reply that has no room is as good as lost. */
static size_t on_body(char *data, size_t unit, size_t n, void *ctx)
{
    struct inventory_reply *reply = ctx;
    size_t size = unit * n;
    char *text = NULL;

    if (reply->size + size < REPLY_BYTES_MAX)
        text = realloc(reply->text, reply->size + size + 1);
    if (!text)
        return 0;
    reply->text = text;
    memcpy(reply->text + reply->size, data, size);
    reply->size += size;
    reply->text[reply->size] = '\0';
    return size;
}

static bool add_field(struct http_try *try, const char *name, const char *value)
{
    char line[2 * STORE_KEY_BYTES_MAX + 32];
    struct curl_slist *longer;

    snprintf(line, sizeof(line), "%s: %s", name, value);
    longer = curl_slist_append(try->fields, line);
    if (longer)
        try->fields = longer;
    return longer;
}

/* In quotes, because a key that begins with one is another without. */
static bool add_key(struct http_try *try, const char *key)
{
    char quoted[2 * STORE_KEY_BYTES_MAX + 3];
    size_t n = 0;

    quoted[n++] = '"';
    for (; *key; key++) {
        if (*key == '"' || *key == '\\')
            quoted[n++] = '\\';
        quoted[n++] = *key;
    }
    quoted[n++] = '"';
    quoted[n] = '\0';
    return add_field(try, "Idempotency-Key", quoted);
}

static void set_request(struct http_try *try, const struct inventory_call *what,
                        uint64_t limit_ms)
{
    CURL *easy = try->easy;

    curl_easy_setopt(easy, CURLOPT_URL, try->service->url);
    curl_easy_setopt(easy, CURLOPT_REQUEST_TARGET, what->target);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)limit_ms);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, try->why);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, try);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_sent);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, try);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &try->reply);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, try->fields);
    if (what->body) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)what->body_size);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, what->body);
    } else if (strcmp(what->method, "GET") != 0) {
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, what->method);
    }
}

struct http_try *tries_begin(struct services *services, struct service *service,
                             const struct inventory_call *what,
                             uint64_t limit_ms)
{
    struct http_try *try = calloc(1, sizeof(*try));
    bool good;

    if (!try)
        return NULL;
    try->service = service;
    try->begun_us = clock_us();
    try->easy = curl_easy_init();
    LIST_INSERT_HEAD(&services->flying, try, place);
    good = try->easy &&
           (!what->body || add_field(try, "Content-Type", "application/json"));
    good = good && (!what->key || add_key(try, what->key));
    if (good) {
        set_request(try, what, limit_ms);
        good = curl_multi_add_handle(services->multi, try->easy) == CURLM_OK;
    }
    if (good)
        return try;
    tries_free(try);
    return NULL;
}

/* ---- all of them ----------------------------------------------------------- */

static void read_field(CURL *easy, const char *name, char *value, size_t size)
{
    struct curl_header *field;

    if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &field) == CURLHE_OK)
        snprintf(value, size, "%s", field->value);
}

static void read_reply(CURL *easy, struct inventory_reply *reply)
{
    char replayed[8] = "";
    long status = 0;

    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    reply->status = (unsigned)status;
    read_field(easy, "Content-Type", reply->type, sizeof(reply->type));
    read_field(easy, "Location", reply->location, sizeof(reply->location));
    read_field(easy, "Retry-After", reply->retry_after,
               sizeof(reply->retry_after));
    read_field(easy, "Idempotent-Replayed", replayed, sizeof(replayed));
    reply->replayed = strcmp(replayed, "true") == 0;
}

struct http_try *tries_next(struct services *services)
{
    struct http_try *try = NULL;
    CURLMsg *message;
    CURLcode code;
    int left;

    message = curl_multi_info_read(services->multi, &left);
    if (!message)
        return NULL;
    code = message->data.result; /* gone with the handle */
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &try);
    curl_multi_remove_handle(services->multi, try->easy);
    if (code == CURLE_OK) {
        try->end = TRY_ANSWERED;
        read_reply(try->easy, &try->reply);
        return try;
    }
    try->end = try->is_sent ? TRY_LOST : TRY_NOT_SENT;
    if (!try->why[0])
        snprintf(try->why, sizeof(try->why), "%s", curl_easy_strerror(code));
    return try;
}

void tries_free(struct http_try *try)
{
    LIST_REMOVE(try, place);
    curl_easy_cleanup(try->easy);
    curl_slist_free_all(try->fields);
    free(try->reply.text);
    free(try);
}

void tries_wait(struct services *services, uint64_t ms)
{
    int running;

    curl_multi_poll(services->multi, NULL, 0, (int)ms, NULL);
    curl_multi_perform(services->multi, &running);
}

void tries_wake(struct services *services)
{
    curl_multi_wakeup(services->multi);
}

bool services_open(struct services *services)
{
    if (curl_global_init(CURL_GLOBAL_NOTHING) == CURLE_OK)
        services->multi = curl_multi_init();
    curl_multi_setopt(services->multi, CURLMOPT_MAXCONNECTS,
                      (long)services->n * (SERVICE_FLYING_MAX + 1));
    return services->multi;
}

void services_close(struct services *services)
{
    struct http_try *try = LIST_FIRST(&services->flying), *next;

    for (; try; try = next) {
        next = LIST_NEXT(try, place);
        curl_multi_remove_handle(services->multi, try->easy);
        tries_free(try);
    }
    curl_multi_cleanup(services->multi);
    curl_global_cleanup();
}

/*
 * See fetch.h. libcurl's multi interface sends a request again by itself when a kept
 * connection turns out to be closed. Then the second connect may fail although the first
 * one has sent the request. So whether it was sent is not read from its error:
 * PREREQFUNCTION is called each time before a request goes out.
 */
#include "server/base/fetch.h"

#include <assert.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "db/store.h"
#include "server/base/clock.h"

#define REPLY_BYTES_MAX 4194304

bool fetch_is_url(const char *url)
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

/* ---- one request ------------------------------------------------------------ */

static int on_sent(void *ctx, char *peer, char *local, int peer_port,
                   int local_port)
{
    struct fetch *fetch = ctx;

    (void)peer, (void)local, (void)peer_port, (void)local_port;
    fetch->is_sent = true;
    return CURL_PREREQFUNC_OK;
}

/* A reply that has no room is as good as lost. */
static size_t on_body(char *data, size_t unit, size_t n, void *ctx)
{
    struct fetch_reply *reply = ctx;
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

static bool add_field(struct fetch *fetch, const char *name, const char *value)
{
    char line[2 * STORE_KEY_BYTES_MAX + 32];
    struct curl_slist *longer;

    snprintf(line, sizeof(line), "%s: %s", name, value);
    longer = curl_slist_append(fetch->fields, line);
    if (longer)
        fetch->fields = longer;
    return longer;
}

/* In quotes, because a key that begins with one is another without. */
static bool add_key(struct fetch *fetch, const char *key)
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
    return add_field(fetch, "Idempotency-Key", quoted);
}

struct fetch *fetch_begin(struct fetches *fetches,
                          const struct fetch_request *what)
{
    struct fetch *fetch = calloc(1, sizeof(*fetch));
    CURL *easy;

    if (!fetch)
        return NULL;
    fetch->begun_us = clock_us();
    fetch->easy = easy = curl_easy_init();
    /* The fetch is in the list before anything can fail, because fetch_free()
     * takes it out of it. */
    LIST_INSERT_HEAD(&fetches->list, fetch, place);
    if (!easy ||
        (what->body && !add_field(fetch, "Content-Type", "application/json")) ||
        (what->key && !add_key(fetch, what->key)))
        goto err;
    curl_easy_setopt(easy, CURLOPT_URL, what->url);
    curl_easy_setopt(easy, CURLOPT_REQUEST_TARGET, what->target);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    /* A proxy of the environment is for the world outside: our own services are
     * not behind it. */
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* Else it waits for the name service at the end, and all others with it. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)what->limit_ms);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, fetch->why);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, fetch);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_sent);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, fetch);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &fetch->reply);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fetch->fields);
    if (what->body) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)what->body_size);
        /* The size must be set before the body is copied, or libcurl would
         * measure it as a string. */
        curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, what->body);
    }
    if (strcmp(what->method, what->body ? "POST" : "GET") != 0)
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, what->method);
    if (curl_multi_add_handle(fetches->multi, easy) == CURLM_OK)
        return fetch;

err:
    fetch_free(fetch);
    return NULL;
}

void fetch_free(struct fetch *fetch)
{
    LIST_REMOVE(fetch, place);
    curl_easy_cleanup(fetch->easy);
    curl_slist_free_all(fetch->fields);
    free(fetch->reply.text);
    free(fetch);
}

/* ---- all of them ------------------------------------------------------------ */

static void read_field(CURL *easy, const char *name, char *value, size_t size)
{
    struct curl_header *field;

    if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &field) == CURLHE_OK)
        snprintf(value, size, "%s", field->value);
}

struct fetch *fetch_next(struct fetches *fetches)
{
    struct fetch *fetch = NULL;
    struct fetch_reply *reply;
    char replayed[8] = "";
    CURLMsg *message;
    CURLcode code;
    long status = 0;
    CURL *easy;
    int left;

    message = curl_multi_info_read(fetches->multi, &left);
    if (!message)
        return NULL;
    code = message->data.result; /* gone with the handle */
    easy = message->easy_handle;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &fetch);
    curl_multi_remove_handle(fetches->multi, easy);
    if (code != CURLE_OK) {
        /* A request that did not go out was not done for certain, and may be
         * sent elsewhere; of any other nobody knows. */
        fetch->end = fetch->is_sent ? FETCH_LOST : FETCH_NOT_SENT;
        if (!fetch->why[0])
            snprintf(fetch->why, sizeof(fetch->why), "%s",
                     curl_easy_strerror(code));
        return fetch;
    }
    fetch->end = FETCH_ANSWERED;
    reply = &fetch->reply;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    reply->status = (unsigned)status;
    /* The fields are copied, as they are libcurl's and go with the handle. */
    read_field(easy, "Content-Type", reply->type, sizeof(reply->type));
    read_field(easy, "Location", reply->location, sizeof(reply->location));
    read_field(easy, "Retry-After", reply->retry_after,
               sizeof(reply->retry_after));
    read_field(easy, "Idempotent-Replayed", replayed, sizeof(replayed));
    reply->replayed = strcmp(replayed, "true") == 0;
    return fetch;
}

void fetch_wait(struct fetches *fetches, const struct pollfd fds[], size_t n,
                uint64_t ms)
{
    struct curl_waitfd more[FETCH_FDS_MAX];
    int running;

    assert(n <= FETCH_FDS_MAX);
    for (size_t i = 0; i < n; i++)
        more[i] =
            (struct curl_waitfd){.fd = fds[i].fd, .events = CURL_WAIT_POLLIN};
    curl_multi_poll(fetches->multi, more, (unsigned)n, (int)ms, NULL);
    curl_multi_perform(fetches->multi, &running);
}

void fetch_wake(struct fetches *fetches)
{
    curl_multi_wakeup(fetches->multi);
}

bool fetch_open(struct fetches *fetches, size_t connections_max)
{
    if (curl_global_init(CURL_GLOBAL_NOTHING) == CURLE_OK)
        fetches->multi = curl_multi_init();
    curl_multi_setopt(fetches->multi, CURLMOPT_MAXCONNECTS,
                      (long)connections_max);
    return fetches->multi;
}

void fetch_close(struct fetches *fetches)
{
    struct fetch *fetch = LIST_FIRST(&fetches->list), *next;

    if (!fetches->multi)
        return;
    for (; fetch; fetch = next) {
        next = LIST_NEXT(fetch, place);
        curl_multi_remove_handle(fetches->multi, fetch->easy);
        fetch_free(fetch);
    }
    curl_multi_cleanup(fetches->multi);
    curl_global_cleanup();
}

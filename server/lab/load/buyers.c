/* See buyers.h. */
#include "server/lab/load/buyers.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "server/base/clock.h"

enum {
    REPLY_MS_MAX = 15000,
    TURN_MS = 20,
    SCRAPE_MS_MAX = 2000,
};

/* A request without an answer yet. */
struct buyers_call {
    LIST_ENTRY(buyers_call) entry;
    CURL *easy;
    struct curl_slist *fields;
    FILE *out; /* into .reply */
    char *reply;
    size_t reply_n;
    void (*on_reply)(struct buyers *buyers, struct buyers_call *call,
                     CURLcode code, long status);
    size_t of; /* the order that it sends; or the instance that it asks */
};

static void end(struct buyers *buyers, struct buyers_call *call)
{
    curl_multi_remove_handle(buyers->multi, call->easy);
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->fields);
    if (call->out)
        (void)fclose(call->out);
    free(call->reply);
    LIST_REMOVE(call, entry);
    free(call);
}

bool buyers_open(struct buyers *buyers, struct site *site, unsigned n)
{
    struct rlimit files;

    *buyers = (struct buyers){.site = site, .most = n, .product_id = 1};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < n + 64) {
        files.rlim_cur = files.rlim_max < n + 64 ? files.rlim_max : n + 64;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (curl_global_init(CURL_GLOBAL_NOTHING) != CURLE_OK)
        return site_fail(site, "libcurl does not begin");
    buyers->multi = curl_multi_init();
    if (!buyers->multi)
        return site_fail(site, "no memory for %u buyers", n);
    curl_multi_setopt(buyers->multi, CURLMOPT_MAXCONNECTS, (long)n);
    return true;
}

void buyers_close(struct buyers *buyers)
{
    for (struct buyers_call *call = LIST_FIRST(&buyers->calls), *next; call;
         call = next) {
        next = LIST_NEXT(call, entry);
        end(buyers, call);
    }
    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++) {
        free(buyers->scrapes[i].come);
        free(buyers->scrapes[i].told);
    }
    if (buyers->multi) {
        curl_multi_cleanup(buyers->multi);
        curl_global_cleanup();
    }
    free(buyers->orders);
}

/* Requests --------------------------------------------------------------------- */

/* KEY: "" = no order. BODY: "" = none. NULL: it cannot, and site->error says why. */
static struct buyers_call *begin(struct buyers *buyers, const char *method,
                                 unsigned instance, const char *target,
                                 const char *key, const char *body)
{
    struct buyers_call *call = calloc(1, sizeof(*call));
    char url[160];

    if (!call) {
        (void)site_fail(buyers->site, "no memory");
        return NULL;
    }
    LIST_INSERT_HEAD(&buyers->calls, call, entry);
    (void)snprintf(url, sizeof(url), "http://%s%s",
                   buyers->site->instances[instance].address, target);
    call->easy = curl_easy_init();
    call->out = open_memstream(&call->reply, &call->reply_n);
    call->fields = curl_slist_append(NULL, "Content-Type: application/json");
    if (call->fields && *key)
        (void)curl_slist_append(call->fields, key);
    curl_easy_setopt(call->easy, CURLOPT_URL, url);
    curl_easy_setopt(call->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(call->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, (long)REPLY_MS_MAX);
    curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call->out);
    curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->fields);
    if (*body)
        curl_easy_setopt(call->easy, CURLOPT_COPYPOSTFIELDS, body);
    curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, method);
    if (call->out && call->fields &&
        curl_multi_add_handle(buyers->multi, call->easy) == CURLM_OK)
        return call;
    (void)site_fail(buyers->site, "libcurl does not take a request");
    end(buyers, call);
    return NULL;
}

/* The last word of a problem's type: ".../lock-timeout". */
static void read_why(const char *reply, char *why, size_t size)
{
    const char *at = strstr(reply, "\"type\""), *end, *word;

    at = at ? strchr(at + 6, '"') : NULL;
    end = at ? strchr(at + 1, '"') : NULL;
    if (!end)
        return;
    for (word = end; word > at + 1 && word[-1] != '/' && word[-1] != ':';)
        word--;
    (void)snprintf(why, size, "%.*s", (int)(end - word), word);
}

static enum buyers_outcome outcome_of(CURLcode code, long status)
{
    if (code != CURLE_OK)
        return BUYERS_LOST;
    return status == 201                    ? BUYERS_SOLD
           : status == 409                  ? BUYERS_SOLD_OUT
           : status == 503 || status == 429 ? BUYERS_NOT_NOW
                                            : BUYERS_OTHER;
}

static void on_order(struct buyers *buyers, struct buyers_call *call,
                     CURLcode code, long status)
{
    struct buyers_order *order = &buyers->orders[call->of];

    buyers->taken--;
    order->outcome = (unsigned char)outcome_of(code, status);
    order->status = (unsigned short)status;
    order->answered_us = clock_us();
    if (code == CURLE_OK && status != 201)
        read_why(call->reply, order->why, sizeof(order->why));
}

size_t buyers_send(struct buyers *buyers, unsigned instance)
{
    struct buyers_order *more = buyers->orders;
    size_t n = buyers->orders_n;
    struct buyers_call *call;
    char key[64], body[160];

    if ((n & (n - 1)) == 0)
        more = reallocarray(more, n ? 2 * n : 1, sizeof(*more));
    if (more)
        buyers->orders = more;
    if (!more || n >= BUYERS_ORDERS_MAX || buyers->taken == buyers->most) {
        (void)site_fail(buyers->site, "too many orders at a time");
        return SIZE_MAX;
    }
    (void)snprintf(body, sizeof(body),
                   "{\"product_id\":%" PRId64
                   ",\"user_id\":%zu,\"quantity\":1}",
                   buyers->product_id, n + 1);
    (void)snprintf(key, sizeof(key), "Idempotency-Key: \"order-%zu\"", n + 1);
    more[n] =
        (struct buyers_order){.instance = (unsigned char)instance,
                              .product = (unsigned char)buyers->product_id,
                              .sent_us = clock_us()};
    call = begin(buyers, "POST", instance, "/api/orders", key, body);
    if (!call)
        return SIZE_MAX;
    call->on_reply = on_order;
    call->of = n;
    buyers->taken++;
    buyers->orders_n++;
    return n;
}

/* The text of a scrape that failed is not whole. */
static void on_scrape(struct buyers *buyers, struct buyers_call *call,
                      CURLcode code, long status)
{
    struct buyers_scrape *scrape = &buyers->scrapes[call->of];

    (void)status;
    scrape->is_owed = false;
    if (code == CURLE_OK) {
        scrape->come = call->reply;
        call->reply = NULL;
    }
}

const char *buyers_scrape(struct buyers *buyers, unsigned instance)
{
    struct buyers_scrape *scrape = &buyers->scrapes[instance];
    struct buyers_call *call;

    if (scrape->is_owed)
        return NULL;
    free(scrape->told);
    scrape->told = scrape->come;
    scrape->come = NULL;
    call = begin(buyers, "GET", instance, "/metrics", "", "");
    scrape->is_owed = call;
    if (call) {
        curl_easy_setopt(call->easy, CURLOPT_TIMEOUT_MS, (long)SCRAPE_MS_MAX);
        call->on_reply = on_scrape;
        call->of = instance;
    }
    return scrape->told;
}

/* Replies ---------------------------------------------------------------------- */

static void take_reply(struct buyers *buyers, CURL *easy, CURLcode code)
{
    struct buyers_call *call = NULL;
    long status = 0;

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &call);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    (void)fclose(call->out);
    call->out = NULL;
    call->on_reply(buyers, call, code, status);
    end(buyers, call);
}

void buyers_turn(struct buyers *buyers, unsigned ms)
{
    struct pollfd logs[SITE_INSTANCES_MAX];
    struct curl_waitfd fds[SITE_INSTANCES_MAX];
    size_t n = site_fds(buyers->site, logs);
    int running, left;
    CURLMsg *message;

    for (size_t i = 0; i < n; i++)
        fds[i] =
            (struct curl_waitfd){.fd = logs[i].fd, .events = CURL_WAIT_POLLIN};
    curl_multi_perform(buyers->multi, &running);
    curl_multi_poll(buyers->multi, fds, (unsigned)n, (int)ms, NULL);
    curl_multi_perform(buyers->multi, &running);
    while ((message = curl_multi_info_read(buyers->multi, &left)))
        if (message->msg == CURLMSG_DONE)
            take_reply(buyers, message->easy_handle, message->data.result);
    site_read(buyers->site);
}

static void on_offer(struct buyers *buyers, struct buyers_call *call,
                     CURLcode code, long status)
{
    (void)code;
    buyers->taken--;
    buyers->is_offered =
        status == 201 || site_fail(buyers->site, "PUT of a product: %ld %.300s",
                                   status, call->reply);
}

/* Each request has a time limit, so has this. */
bool buyers_offer(struct buyers *buyers, int64_t product_id, int64_t stock,
                  unsigned segments)
{
    struct buyers_call *call;
    char target[64], body[160];

    (void)snprintf(target, sizeof(target), "/api/products/%" PRId64,
                   product_id);
    (void)snprintf(body, sizeof(body),
                   "{\"name\":\"Phone\",\"stock\":%" PRId64 ",\"segments\":%u,"
                   "\"price_cents\":100,\"limit_per_user\":0}",
                   stock, segments);
    call = begin(buyers, "PUT", 0, target, "", body);
    if (!call)
        return false;
    call->on_reply = on_offer;
    buyers->taken++;
    while (buyers->taken > 0) {
        if (!site_goes_on(buyers->site))
            return false;
        buyers_turn(buyers, TURN_MS);
    }
    return buyers->is_offered;
}

/* A crowd ---------------------------------------------------------------------- */

/* When the order behind SENT others is due, since the crowd began, NOW later; UINT64_MAX:
 * never. */
static uint64_t due_us(const struct buyers_crowd *crowd, size_t sent,
                       uint64_t now)
{
    if ((crowd->orders && sent >= crowd->orders) ||
        (crowd->for_ms && now > crowd->for_ms * UINT64_C(1000)))
        return UINT64_MAX;
    return crowd->within_ms && crowd->orders
               ? sent * UINT64_C(1000) * crowd->within_ms / crowd->orders
               : 0;
}

bool buyers_crowd(struct buyers *buyers, const struct buyers_crowd *crowd,
                  unsigned instances)
{
    uint64_t begun_us = clock_us(), due = 0, now = 0;
    size_t sent = 0;

    while (buyers->taken > 0 || due != UINT64_MAX) {
        while (buyers->taken < crowd->buyers && due <= now) {
            if (buyers_send(buyers, (unsigned)(sent % instances)) == SIZE_MAX)
                return false;
            due = due_us(crowd, ++sent, now);
        }
        buyers_turn(buyers, due > now && due - now < TURN_MS * UINT64_C(1000)
                                ? (unsigned)((due - now) / 1000)
                                : TURN_MS);
        if (!site_goes_on(buyers->site))
            return false;
        now = clock_us() - begun_us;
        due = due_us(crowd, sent, now);
    }
    return true;
}

size_t buyers_count(const struct buyers *buyers, enum buyers_outcome outcome)
{
    size_t n = 0;

    for (size_t i = 0; i < buyers->orders_n; i++)
        n += buyers->orders[i].outcome == outcome;
    return n;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

double buyers_latency_ms(const struct buyers *buyers, unsigned p)
{
    size_t n = 0, sold = buyers_count(buyers, BUYERS_SOLD);
    uint64_t *us = calloc(sold ? sold : 1, sizeof(*us));
    double ms = 0;

    for (size_t i = 0; us && i < buyers->orders_n; i++)
        if (buyers->orders[i].outcome == BUYERS_SOLD)
            us[n++] = buyers->orders[i].answered_us - buyers->orders[i].sent_us;
    if (n > 0) {
        qsort(us, n, sizeof(*us), by_size);
        n = (n - 1) * p / 100;
        ms = (double)us[n] / 1000;
    }
    free(us);
    return ms;
}

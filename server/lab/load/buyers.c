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
    REPLY_BYTES = 400, /* of it are read: the problem's name is among them */
    TURN_MS = 20,
    SCRAPE_MS_MAX = 2000,
};

/* A connection, which one order after the other uses. */
struct buyers_seat {
    CURL *easy;
    struct curl_slist *fields;
    bool is_taken;
    size_t order;
    char body[160];
    char reply[REPLY_BYTES];
    size_t reply_n;
};

static size_t on_body(char *data, size_t unit, size_t n, void *ctx)
{
    struct buyers_seat *seat = ctx;
    size_t room = sizeof(seat->reply) - 1 - seat->reply_n;
    size_t taken = unit * n < room ? unit * n : room;

    memcpy(seat->reply + seat->reply_n, data, taken);
    seat->reply_n += taken;
    seat->reply[seat->reply_n] = '\0';
    return unit * n;
}

bool buyers_open(struct buyers *buyers, struct site *site, unsigned n)
{
    struct rlimit files;

    *buyers = (struct buyers){.site = site, .seats_n = n, .product_id = 1};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < n + 64) {
        files.rlim_cur = files.rlim_max < n + 64 ? files.rlim_max : n + 64;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    if (curl_global_init(CURL_GLOBAL_NOTHING) != CURLE_OK)
        return site_fail(site, "libcurl does not begin");
    buyers->multi = curl_multi_init();
    buyers->seats = calloc(n, sizeof(*buyers->seats));
    if (!buyers->multi || !buyers->seats)
        return site_fail(site, "no memory for %u buyers", n);
    curl_multi_setopt(buyers->multi, CURLMOPT_MAXCONNECTS, (long)n);
    return true;
}

void buyers_close(struct buyers *buyers)
{
    struct buyers_seat *seat = buyers->seats;

    for (unsigned i = 0; seat && i < buyers->seats_n; i++, seat++) {
        if (seat->is_taken)
            curl_multi_remove_handle(buyers->multi, seat->easy);
        curl_easy_cleanup(seat->easy);
        curl_slist_free_all(seat->fields);
    }
    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++) {
        if (buyers->scrapes[i].is_owed)
            curl_multi_remove_handle(buyers->multi, buyers->scrapes[i].easy);
        curl_easy_cleanup(buyers->scrapes[i].easy);
    }
    if (buyers->multi) {
        curl_multi_cleanup(buyers->multi);
        curl_global_cleanup();
    }
    free(buyers->seats);
    free(buyers->orders);
}

/* Requests --------------------------------------------------------------------- */

static struct buyers_seat *free_seat(struct buyers *buyers)
{
    struct buyers_seat *seat = buyers->seats;

    if (buyers->taken == buyers->seats_n)
        return NULL;
    while (seat->is_taken)
        seat++;
    if (!seat->easy)
        seat->easy = curl_easy_init();
    return seat->easy ? seat : NULL;
}

/* KEY: "" = no order. */
static bool begin(struct buyers *buyers, struct buyers_seat *seat,
                  const char *method, unsigned instance, const char *target,
                  const char *key)
{
    CURL *easy = seat->easy;
    char url[160];

    (void)snprintf(url, sizeof(url), "http://%s%s",
                   buyers->site->instances[instance].address, target);
    curl_slist_free_all(seat->fields);
    seat->fields = curl_slist_append(NULL, "Content-Type: application/json");
    if (seat->fields && *key)
        (void)curl_slist_append(seat->fields, key);
    seat->reply_n = 0;
    *seat->reply = '\0';
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)REPLY_MS_MAX);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, seat);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, seat);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, seat->fields);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, seat->body);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
    if (curl_multi_add_handle(buyers->multi, easy) != CURLM_OK)
        return site_fail(buyers->site, "libcurl does not take a request");
    seat->is_taken = true;
    buyers->taken++;
    return true;
}

size_t buyers_send(struct buyers *buyers, unsigned instance)
{
    struct buyers_seat *seat = free_seat(buyers);
    struct buyers_order *more = buyers->orders;
    size_t n = buyers->orders_n;
    char key[64];

    if ((n & (n - 1)) == 0)
        more = reallocarray(more, n ? 2 * n : 1, sizeof(*more));
    if (more)
        buyers->orders = more;
    if (!seat || !more || n >= BUYERS_ORDERS_MAX) {
        (void)site_fail(buyers->site, "too many orders at a time");
        return SIZE_MAX;
    }
    (void)snprintf(seat->body, sizeof(seat->body),
                   "{\"product_id\":%" PRId64
                   ",\"user_id\":%zu,\"quantity\":1}",
                   buyers->product_id, n + 1);
    (void)snprintf(key, sizeof(key), "Idempotency-Key: \"order-%zu\"", n + 1);
    more[n] =
        (struct buyers_order){.instance = (unsigned char)instance,
                              .product = (unsigned char)buyers->product_id,
                              .sent_us = clock_us()};
    seat->order = n;
    if (!begin(buyers, seat, "POST", instance, "/api/orders", key))
        return SIZE_MAX;
    buyers->orders_n++;
    return n;
}

static size_t on_metrics(char *data, size_t unit, size_t n, void *ctx)
{
    struct buyers_scrape *scrape = ctx;

    if (unit * n > sizeof(scrape->text) - 1 - scrape->n)
        return 0;
    memcpy(scrape->text + scrape->n, data, unit * n);
    scrape->n += unit * n;
    scrape->text[scrape->n] = '\0';
    return unit * n;
}

const char *buyers_scrape(struct buyers *buyers, unsigned instance)
{
    struct buyers_scrape *scrape = &buyers->scrapes[instance];
    bool has_come = scrape->n > 0;
    char url[160];

    if (!scrape->easy)
        scrape->easy = curl_easy_init();
    if (!scrape->easy || scrape->is_owed)
        return NULL;
    (void)snprintf(url, sizeof(url), "http://%s/metrics",
                   buyers->site->instances[instance].address);
    curl_easy_setopt(scrape->easy, CURLOPT_URL, url);
    curl_easy_setopt(scrape->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(scrape->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(scrape->easy, CURLOPT_TIMEOUT_MS, (long)SCRAPE_MS_MAX);
    curl_easy_setopt(scrape->easy, CURLOPT_WRITEFUNCTION, on_metrics);
    curl_easy_setopt(scrape->easy, CURLOPT_WRITEDATA, scrape);
    scrape->n = 0;
    scrape->is_owed =
        curl_multi_add_handle(buyers->multi, scrape->easy) == CURLM_OK;
    return has_come ? scrape->text : NULL;
}

/* Replies ---------------------------------------------------------------------- */

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

/* The text of a scrape that failed is not whole. */
static void take_scrape(struct buyers *buyers, CURL *easy, CURLcode code)
{
    struct buyers_scrape *scrape = buyers->scrapes;

    while (scrape->easy != easy)
        scrape++;
    scrape->is_owed = false;
    if (code != CURLE_OK)
        scrape->n = 0;
}

static void take_reply(struct buyers *buyers, CURL *easy, CURLcode code)
{
    struct buyers_seat *seat = NULL;
    struct buyers_order *order;
    long status = 0;

    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &seat);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_multi_remove_handle(buyers->multi, easy);
    if (!seat) {
        take_scrape(buyers, easy, code);
        return;
    }
    seat->is_taken = false;
    buyers->taken--;
    if (seat->order == SIZE_MAX)
        return;
    order = &buyers->orders[seat->order];
    order->outcome = (unsigned char)outcome_of(code, status);
    order->status = (unsigned short)status;
    order->answered_us = clock_us();
    if (code == CURLE_OK && status != 201)
        read_why(seat->reply, order->why, sizeof(order->why));
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

/* Until all that were sent have a reply: each has a time limit, so has this. */
static bool await_all(struct buyers *buyers)
{
    while (buyers->taken > 0) {
        if (!site_goes_on(buyers->site))
            return false;
        buyers_turn(buyers, TURN_MS);
    }
    return true;
}

bool buyers_offer(struct buyers *buyers, int64_t product_id, int64_t stock,
                  unsigned segments)
{
    struct buyers_seat *seat = free_seat(buyers);
    char target[64];
    long status = 0;

    if (!seat)
        return site_fail(buyers->site, "no memory");
    (void)snprintf(target, sizeof(target), "/api/products/%" PRId64,
                   product_id);
    (void)snprintf(seat->body, sizeof(seat->body),
                   "{\"name\":\"Phone\",\"stock\":%" PRId64 ",\"segments\":%u,"
                   "\"price_cents\":100,\"limit_per_user\":0}",
                   stock, segments);
    seat->order = SIZE_MAX;
    if (!begin(buyers, seat, "PUT", 0, target, "") || !await_all(buyers))
        return false;
    curl_easy_getinfo(seat->easy, CURLINFO_RESPONSE_CODE, &status);
    return status == 201 || site_fail(buyers->site, "PUT %s: %ld %s", target,
                                      status, seat->reply);
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

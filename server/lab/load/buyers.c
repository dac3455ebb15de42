/* See buyers.h. */
#include "server/lab/load/buyers.h"

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

struct buyers buyers;

bool buyers_open(unsigned n)
{
    struct rlimit files;

    buyers = (struct buyers){.most = n, .product_id = 1};
    /* Each buyer is a socket; so few may be allowed. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < n + 64) {
        files.rlim_cur = files.rlim_max < n + 64 ? files.rlim_max : n + 64;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    return fetch_open(&buyers.fetches, n) ||
           site_fail("no memory for %u buyers", n);
}

void buyers_close(void)
{
    fetch_close(&buyers.fetches);
    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++)
        free(buyers.scrapes[i].text);
    free(buyers.orders);
    /* The next play may close them without having opened them. */
    buyers = (struct buyers){.most = 0};
}

/* Requests --------------------------------------------------------------------- */

/* Its reply is for OWNER: a scrape, or .is_offered; NULL: the order NUMBER. False: it
 * cannot, and site.error says why. */
static bool begin(unsigned instance, struct fetch_request request, void *owner,
                  size_t number)
{
    char url[80];
    struct fetch *fetch;

    (void)snprintf(url, sizeof(url), "http://%s",
                   site.instances[instance].address);
    request.url = url;
    request.body_size = request.body ? strlen(request.body) : 0;
    fetch = fetch_begin(&buyers.fetches, &request);
    if (!fetch)
        return site_fail("no memory");
    fetch->owner = owner;
    fetch->number = number;
    return true;
}

/* The last word of a problem's type: ".../lock-timeout". */
static void read_why(const char *reply, char *why, size_t size)
{
    const char *at = strstr(reply, "\"type\""), *end, *word;

    at = at ? strchr(at + 6, '"') : NULL;
    end = at ? strchr(at + 1, '"') : NULL;
    if (!end)
        return;
    /* The type is a URN or a URL: its last word stands behind the last of both signs. */
    for (word = end; word > at + 1 && word[-1] != '/' && word[-1] != ':';)
        word--;
    (void)snprintf(why, size, "%.*s", (int)(end - word), word);
}

static void on_order(const struct fetch *fetch)
{
    struct buyers_order *order = &buyers.orders[fetch->number];
    unsigned status = fetch->reply.status;

    /* A place is free with the answer, whatever it was. */
    buyers.taken--;
    order->outcome = fetch->end != FETCH_ANSWERED     ? BUYERS_LOST
                     : status == 201                  ? BUYERS_SOLD
                     : status == 409                  ? BUYERS_SOLD_OUT
                     : status == 503 || status == 429 ? BUYERS_NOT_NOW
                                                      : BUYERS_OTHER;
    order->status = (unsigned short)status;
    order->answered_us = clock_us();
    if (fetch->end == FETCH_ANSWERED && order->outcome != BUYERS_SOLD &&
        fetch->reply.text)
        read_why(fetch->reply.text, order->why, sizeof(order->why));
}

size_t buyers_send(unsigned instance)
{
    struct buyers_order *more = buyers.orders;
    size_t n = buyers.orders_n;
    char key[64], body[160];

    /* The room doubles: N is a power of two whenever it is full. */
    if ((n & (n - 1)) == 0)
        more = reallocarray(more, n ? 2 * n : 1, sizeof(*more));
    if (more)
        buyers.orders = more;
    /* The orders are bounded, because a crowd without an end would fill the memory. */
    if (!more || n >= BUYERS_ORDERS_MAX || buyers.taken == buyers.most) {
        (void)site_fail("too many orders at a time");
        return SIZE_MAX;
    }
    (void)snprintf(body, sizeof(body),
                   "{\"product_id\":%" PRId64
                   ",\"user_id\":%zu,\"quantity\":1}",
                   buyers.product_id, n + 1);
    (void)snprintf(key, sizeof(key), "order-%zu", n + 1);
    more[n] = (struct buyers_order){.instance = (unsigned char)instance,
                                    .product = (unsigned char)buyers.product_id,
                                    .sent_us = clock_us()};
    if (!begin(instance,
               (struct fetch_request){.method = "POST",
                                      .target = "/api/orders",
                                      .key = key,
                                      .body = body,
                                      .limit_ms = REPLY_MS_MAX},
               NULL, n))
        return SIZE_MAX;
    /* Only an order that was sent counts: its number is its place. */
    buyers.taken++;
    buyers.orders_n++;
    return n;
}

const char *buyers_scrape(unsigned instance)
{
    struct buyers_scrape *scrape = &buyers.scrapes[instance];

    /* One scrape at a time: an instance that does not answer must not be asked again
     * and again. */
    if (scrape->is_owed)
        return NULL;
    scrape->is_owed = begin(instance,
                            (struct fetch_request){.method = "GET",
                                                   .target = "/metrics",
                                                   .limit_ms = SCRAPE_MS_MAX},
                            scrape, 0);
    return scrape->text;
}

/* Replies ---------------------------------------------------------------------- */

void buyers_turn(unsigned ms)
{
    struct pollfd logs[SITE_INSTANCES_MAX];
    struct buyers_scrape *scrape;
    struct fetch *fetch;

    fetch_wait(&buyers.fetches, logs, site_fds(logs), ms);
    while ((fetch = fetch_next(&buyers.fetches))) {
        struct fetch_reply *reply = &fetch->reply;

        if (!fetch->owner) {
            on_order(fetch);
        } else if (fetch->owner == &buyers.is_offered) {
            buyers.taken--;
            buyers.is_offered =
                reply->status == 201 ||
                site_fail("PUT of a product: %u %.300s", reply->status,
                          reply->text ? reply->text : "");
        } else {
            scrape = fetch->owner;
            scrape->is_owed = false;
            free(scrape->text);
            scrape->text = NULL;
            /* The text of a scrape that failed is not whole. */
            if (fetch->end == FETCH_ANSWERED) {
                /* The text changes hands: fetch_free() must not free it. */
                scrape->text = reply->text;
                reply->text = NULL;
            }
        }
        fetch_free(fetch);
    }
    site_read();
}

void buyers_await_scrapes(void)
{
    for (unsigned i = 0; i < SITE_INSTANCES_MAX; i++)
        while (buyers.scrapes[i].is_owed)
            buyers_turn(TURN_MS);
}

/* Each request has a time limit, so has this. */
bool buyers_offer(int64_t product_id, int64_t stock, unsigned segments)
{
    char target[64], body[160];

    buyers.offered = product_id;
    if (buyers.segments < segments)
        buyers.segments = segments;
    (void)snprintf(target, sizeof(target), "/api/products/%" PRId64,
                   product_id);
    (void)snprintf(body, sizeof(body),
                   "{\"name\":\"Phone\",\"stock\":%" PRId64 ",\"segments\":%u,"
                   "\"price_cents\":100,\"limit_per_user\":0}",
                   stock, segments);
    if (!begin(0,
               (struct fetch_request){.method = "PUT",
                                      .target = target,
                                      .body = body,
                                      .limit_ms = REPLY_MS_MAX},
               &buyers.is_offered, 0))
        return false;
    buyers.taken++;
    /* The offer is the only one under way: so nobody else's answer is waited for. */
    while (buyers.taken > 0) {
        if (!site_goes_on())
            return false;
        buyers_turn(TURN_MS);
    }
    return buyers.is_offered;
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

bool buyers_crowd(const struct buyers_crowd *crowd, unsigned instances)
{
    uint64_t begun_us = clock_us(), due = 0, now = 0;
    size_t sent = 0;

    while (buyers.taken > 0 || due != UINT64_MAX) {
        /* Buyers that are free send what is due, all of it, before anybody waits. */
        while (buyers.taken < crowd->buyers && due <= now) {
            if (buyers_send((unsigned)(sent % instances)) == SIZE_MAX)
                return false;
            due = due_us(crowd, ++sent, now);
        }
        /* The wait ends when the next order is due, if that is sooner than a turn. */
        buyers_turn(due > now && due - now < TURN_MS * UINT64_C(1000)
                        ? (unsigned)((due - now) / 1000)
                        : TURN_MS);
        if (!site_goes_on())
            return false;
        now = clock_us() - begun_us;
        due = due_us(crowd, sent, now);
    }
    return true;
}

size_t buyers_count(enum buyers_outcome outcome)
{
    size_t n = 0;

    for (size_t i = 0; i < buyers.orders_n; i++)
        n += buyers.orders[i].outcome == outcome;
    return n;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

double buyers_latency_ms(unsigned p)
{
    size_t n = 0, sold = buyers_count(BUYERS_SOLD);
    uint64_t *us = calloc(sold ? sold : 1, sizeof(*us));
    double ms = 0;

    for (size_t i = 0; us && i < buyers.orders_n; i++)
        if (buyers.orders[i].outcome == BUYERS_SOLD)
            us[n++] = buyers.orders[i].answered_us - buyers.orders[i].sent_us;
    if (n > 0) {
        qsort(us, n, sizeof(*us), by_size);
        /* The order that P percent of the others are not slower than: of 100 it is
         * the slowest. */
        n = (n - 1) * p / 100;
        ms = (double)us[n] / 1000;
    }
    free(us);
    return ms;
}

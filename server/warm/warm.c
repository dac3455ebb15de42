/*
 * The door: what other threads call, and the life of the warmer's thread.
 *
 * The thread sleeps until there is something to do, and a bit longer: what is
 * sold within WARM_GATHER_MS goes to Redis together. Only what somebody waits for
 * is done at once.
 */
#include "server/warm/warm.h"

#include <stdlib.h>
#include <sys/random.h>

#include "server/clock.h"
#include "server/config_rules.h"
#include "server/log.h"
#include "server/warm/warmer.h"

#define WARM_GATHER_MS 20

/* ---- choosing ------------------------------------------------------------- */

/* Splitmix64: any seed will do, and any number of them differ. */
static uint64_t next_random(struct warm *warm)
{
    uint64_t z = warm->random += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* The thread is woken once: then it sees for itself. */
static void stir(struct warm *warm, bool urgent)
{
    if (!warm->stirred || (urgent && !warm->urgent))
        pthread_cond_signal(&warm->stir);
    warm->stirred = true;
    warm->urgent |= urgent;
}

static enum warm_choice choose(struct warm *warm, struct copy_product *product,
                               int64_t units, struct warm_ticket *ticket)
{
    if (!product || product->segments <= 1)
        return WARM_SINGLE;
    product->asked_for = true;
    if (product->cold)
        return WARM_COLD;
    if (units < 1 || !copy_take(product, units, next_random(warm), ticket))
        return WARM_GATHER;
    return WARM_SEGMENT;
}

enum warm_choice warm_take(struct warm *warm, int64_t product_id, int64_t units,
                           struct warm_ticket *ticket)
{
    enum warm_choice choice;

    if (!atomic_load_explicit(&warm->choosy, memory_order_acquire))
        return WARM_SINGLE;
    pthread_mutex_lock(&warm->mutex);
    choice = choose(warm, copy_find(&warm->copy, product_id), units, ticket);
    pthread_mutex_unlock(&warm->mutex);
    return choice;
}

void warm_settle(struct warm *warm, const struct warm_ticket *ticket,
                 enum warm_outcome outcome)
{
    struct copy_product *product;
    bool was_short;

    pthread_mutex_lock(&warm->mutex);
    product = copy_find(&warm->copy, ticket->product_id);
    was_short = product->chores.spread;
    copy_settle(product, ticket, outcome);
    if (product->chores.tell || product->chores.spread)
        stir(warm, product->chores.spread && !was_short);
    pthread_mutex_unlock(&warm->mutex);
}

/* True: it is the first. Under the mutex. */
static bool note_moved(struct warm *warm, int64_t product_id)
{
    for (size_t i = 0; i < warm->moved_n; i++) {
        if (warm->moved[i] == product_id)
            return false;
    }
    if (warm->moved_n < WARMER_MOVED_MAX)
        warm->moved[warm->moved_n++] = product_id;
    else
        warm->moved_more = true;
    return warm->moved_n == 1;
}

/* The same; false: it was put off, and will be done in its time. */
static bool note_renewal(struct copy_product *product)
{
    bool first = !product->chores.renew;

    product->chores.renew = true;
    return first;
}

void warm_moved(struct warm *warm, int64_t product_id)
{
    struct copy_product *product;

    pthread_mutex_lock(&warm->mutex);
    product = copy_find(&warm->copy, product_id);
    stir(warm, product ? note_renewal(product) : note_moved(warm, product_id));
    pthread_mutex_unlock(&warm->mutex);
}

/* ---- warming up ----------------------------------------------------------- */

static void await_done(struct warm *warm, struct warmer_request *request)
{
    pthread_mutex_lock(&warm->mutex);
    request->next = warm->requests;
    warm->requests = request;
    stir(warm, true);
    while (!request->done)
        pthread_cond_wait(&warm->done, &warm->mutex);
    pthread_mutex_unlock(&warm->mutex);
}

enum store_status warm_up(struct warm *warm, int64_t product_id,
                          struct store_cells *cells, bool *in_redis,
                          struct store_error *error)
{
    struct warmer_request request = {
        .product_id = product_id, .cells = cells, .error = error};

    await_done(warm, &request);
    *in_redis = request.in_redis;
    return request.status;
}

/* ---- the thread ----------------------------------------------------------- */

/* Until something is due or urgent. Under the mutex. */
static void await(struct warm *warm, uint64_t passed_ms, uint64_t due_ms)
{
    for (;;) {
        uint64_t until_ms = due_ms;

        if (warm->stirred && passed_ms + WARM_GATHER_MS < until_ms)
            until_ms = passed_ms + WARM_GATHER_MS;
        if (warm->urgent || warm->closing || clock_ms() >= until_ms)
            return;
        clock_wait_until(&warm->stir, &warm->mutex, until_ms);
    }
}

/* The last pass is after the end was asked for. */
static void *work(void *arg)
{
    struct warm *warm = arg;
    bool closing = false;
    uint64_t now = 0, due = 0;

    while (!closing) {
        pthread_mutex_lock(&warm->mutex);
        await(warm, now, due);
        closing = warm->closing;
        warm->stirred = warm->urgent = false;
        pthread_mutex_unlock(&warm->mutex);
        now = clock_ms();
        due = warmer_pass(warm, now);
    }
    return NULL;
}

static void seed(struct warm *warm)
{
    if (getrandom(&warm->random, sizeof(warm->random), 0) < 0)
        warm->random = clock_us();
}

static void free_warm(struct warm *warm)
{
    keys_close(warm->keys);
    store_reader_close(warm->reader);
    pthread_cond_destroy(&warm->stir);
    pthread_cond_destroy(&warm->done);
    pthread_mutex_destroy(&warm->mutex);
    copy_free(&warm->copy);
    free(warm);
}

static bool open_keys(struct warm *warm)
{
    const struct config *config = warm->app->config;

    if (!warm->options.redis_url)
        return true;
    warm->keys =
        keys_open(&warm->options, config_rules_command_timeout_ms(config));
    if (!warm->keys)
        log_error("warm", "redis=%s error=\"not to be understood\"",
                  warm->options.redis_url);
    return warm->keys != NULL;
}

static bool open_reader(struct warm *warm)
{
    struct store_error error = {""};

    if (store_reader_open(warm->app->store, &warm->reader, &error) == STORE_OK)
        return true;
    log_error("warm", "error=\"%s\"", error.text);
    return false;
}

struct warm *warm_open_with(const struct app *app,
                            const struct warm_options *options)
{
    struct warm *warm = calloc(1, sizeof(*warm));

    if (!warm)
        return NULL;
    warm->app = app;
    warm->options = *options;
    pthread_mutex_init(&warm->mutex, NULL);
    clock_cond_init(&warm->stir);
    pthread_cond_init(&warm->done, NULL);
    seed(warm);
    if (open_keys(warm) && open_reader(warm) && warmer_load(warm) &&
        pthread_create(&warm->thread, NULL, work, warm) == 0) {
        pthread_setname_np(warm->thread, "warmer");
        return warm;
    }
    free_warm(warm);
    return NULL;
}

struct warm *warm_open(const struct app *app, const char *redis_url)
{
    const struct warm_options options = {.redis_url = redis_url};

    return warm_open_with(app, &options);
}

void warm_close(struct warm *warm)
{
    if (!warm)
        return;
    pthread_mutex_lock(&warm->mutex);
    warm->closing = true;
    warm->closing_ms = clock_ms();
    pthread_cond_signal(&warm->stir);
    pthread_mutex_unlock(&warm->mutex);
    pthread_join(warm->thread, NULL);
    free_warm(warm);
}

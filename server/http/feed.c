/*
 * Events are kept as text: each is rendered once, for all viewers. An event says
 * how the product is, and not by how much it has changed; so a viewer who has lost
 * some is right again with the whole list.
 */
#include "server/http/feed.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "db/store.h"
#include "server/base/app.h"
#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/tasks.h"
#include "server/http/reply.h"

#define PRODUCTS_MAX 200 /* as many as a page of the list has */

struct feed {
    const struct app *app;
    size_t viewers_max;
    atomic_size_t viewers;
    atomic_uint_fast64_t due_ms; /* of the next look */
    atomic_bool looking;         /* the task is with the readers */
    struct task task;
    struct store_product seen[PRODUCTS_MAX + 1]; /* the task's */
    uint32_t run;                                /* in the ids of events */

    pthread_mutex_t mutex; /* guards the rest; held for memory only */
    uint64_t looked_ms;    /* when the last good look began; 0 = none yet */
    struct store_product told[PRODUCTS_MAX];
    size_t told_n;
    int64_t after; /* the id that the next page begins after; 0 = no more */
    uint64_t last; /* event */
    char *events[FEED_EVENTS]; /* NUMBER is at NUMBER % FEED_EVENTS */
};

/* ---- looking --------------------------------------------------------------- */

/* Without memory the text is NULL: then it is lost, and viewers get the list. */
static void add_event(struct feed *feed, const struct store_product *product)
{
    char *json = render_product(product, NULL, feed->app->config->lock);
    char **place = &feed->events[++feed->last % FEED_EVENTS];

    /* The slot has the event of FEED_EVENTS before, which viewers that lag by
     * so many have lost. */
    free(*place);
    if (!json ||
        asprintf(place,
                 "id: %08" PRIx32 "-%" PRIu64 "\nevent: product\ndata: %s\n",
                 feed->run, feed->last, json) < 0)
        *place = NULL;
    free(json);
}

static bool differ(const struct store_product *a, const struct store_product *b)
{
    return a->stock != b->stock || a->initial != b->initial ||
           a->opens_ms != b->opens_ms || a->ends_ms != b->ends_ms ||
           a->price_cents != b->price_cents ||
           a->limit_per_user != b->limit_per_user ||
           a->pay_within_s != b->pay_within_s || a->segments != b->segments ||
           strcmp(a->name, b->name) != 0;
}

/* Both lists ascend, and products are never removed. After a look that failed, or was
 * refused, there is no beat. */
static void look_run(struct task *task, struct worker *worker)
{
    struct feed *feed = task->owner;
    const struct store_product *old = feed->told, *end = old + feed->told_n;
    uint64_t now_ms = clock_ms();
    bool has_more;
    size_t n;

    if (worker && store_product_list(worker->reader, 0, PRODUCTS_MAX + 1,
                                     feed->seen, &n, NULL) == STORE_OK) {
        has_more = n > PRODUCTS_MAX;
        n -= has_more;
        pthread_mutex_lock(&feed->mutex);
        /* At the first look all are new, and nobody has been told of any:
         * viewers begin with the whole list. */
        for (size_t i = 0; i < n && feed->looked_ms; i++) {
            while (old < end && old->id < feed->seen[i].id)
                old++;
            if (old == end || old->id != feed->seen[i].id ||
                differ(old, &feed->seen[i]))
                add_event(feed, &feed->seen[i]);
        }
        memcpy(feed->told, feed->seen, n * sizeof(*feed->told));
        feed->told_n = n;
        feed->after = has_more ? feed->told[n - 1].id : 0;
        feed->looked_ms = now_ms;
        pthread_mutex_unlock(&feed->mutex);
    }
    /* The flag falls last: the next look uses the same `seen`. */
    atomic_store(&feed->looking, false);
}

/* Two of these are a look's period, 100 ms and one more for each viewer: the first may
 * have a look begun, the second one tells of it. */
uint64_t feed_pause_us(const struct feed *feed)
{
    uint64_t ms = FEED_LOOK_MS + feed_viewers(feed);

    return (ms < FEED_LOOK_MS_MAX ? ms : FEED_LOOK_MS_MAX) * 500;
}

static bool beat_is_due(const struct viewer *viewer)
{
    return viewer->feed->looked_ms >= viewer->beat_ms + FEED_BEAT_MS;
}

bool feed_look(const struct viewer *viewer)
{
    struct feed *feed = viewer->feed;
    uint64_t now_ms = clock_ms();
    bool is_ready;

    if (now_ms >= atomic_load(&feed->due_ms)) {
        /* Two loops may come here at once: both set the same time, and
         * `looking` lets one of them submit the task. */
        atomic_store(&feed->due_ms, now_ms + feed_pause_us(feed) / 500);
        if (!atomic_exchange(&feed->looking, true))
            tasks_submit(feed->app->readers, &feed->task);
    }
    pthread_mutex_lock(&feed->mutex);
    is_ready =
        /* A viewer must not begin with what was looked up before it came: it
         * may hold the answer to an order that is newer. */
        feed->looked_ms > viewer->since_ms &&
        (!viewer->next || viewer->next <= feed->last || beat_is_due(viewer));
    pthread_mutex_unlock(&feed->mutex);
    return is_ready;
}

/* ---- telling --------------------------------------------------------------- */

/* False: some of those that it has not heard of are gone. */
static bool put_events(struct viewer *viewer, FILE *out)
{
    const struct feed *feed = viewer->feed;
    uint64_t number = viewer->next;

    if (!number || feed->last - number + 1 > FEED_EVENTS)
        return false;
    /* All are looked at before the first is written: half of the events would
     * be worse than the whole list. */
    for (; number <= feed->last; number++)
        if (!feed->events[number % FEED_EVENTS])
            return false;
    for (number = viewer->next; number <= feed->last; number++)
        fputs(feed->events[number % FEED_EVENTS], out);
    viewer->next = number;
    return true;
}

/* All that there is to be told becomes the viewer's text; the time first, because the
 * windows of sales are seen by it. Without memory the next look tries again. */
static void collect(struct viewer *viewer)
{
    struct feed *feed = viewer->feed;
    FILE *out = open_memstream(&viewer->text, &viewer->size);
    struct timespec now;
    char *json;

    viewer->at = 0;
    if (!out)
        return;
    pthread_mutex_lock(&feed->mutex);
    if (feed->looked_ms > viewer->since_ms) {
        if (beat_is_due(viewer)) {
            clock_gettime(CLOCK_REALTIME, &now);
            json = render_beat(now.tv_sec * 1000 + now.tv_nsec / 1000000);
            if (json)
                fprintf(out, "event: beat\ndata: %s\n", json);
            free(json);
            viewer->beat_ms = feed->looked_ms;
        }
        /* The events that this viewer has missed, or, if some of them are gone,
         * the whole list. */
        json = put_events(viewer, out)
                   ? NULL
                   : render_products(feed->told, feed->told_n,
                                     feed->app->config->lock, feed->after);
        if (json) {
            if (viewer->next || viewer->has_lost)
                fputs("event: lost\ndata: {}\n\n", out);
            fprintf(out,
                    "id: %08" PRIx32 "-%" PRIu64 "\nevent: products\n"
                    "data: %s\n",
                    feed->run, feed->last, json);
            /* The list has all that the events up to now have told. */
            viewer->next = feed->last + 1;
        }
        free(json);
    }
    pthread_mutex_unlock(&feed->mutex);
    if (fclose(out) || !viewer->size) {
        free(viewer->text);
        viewer->text = NULL;
    }
}

size_t feed_read(struct viewer *viewer, char *bytes, size_t size)
{
    if (!viewer->text)
        collect(viewer);
    if (!viewer->text)
        return 0;
    if (size > viewer->size - viewer->at)
        size = viewer->size - viewer->at;
    memcpy(bytes, viewer->text + viewer->at, size);
    viewer->at += size;
    if (viewer->at == viewer->size) {
        free(viewer->text);
        viewer->text = NULL;
    }
    return size;
}

/* ---- viewers ---------------------------------------------------------------- */

/* The first text is sent at once: with it go the reply's headers, for which
 * browsers wait. */
bool feed_enter(struct feed *feed, struct viewer *viewer, const char *last_id)
{
    static const char hello[] = "retry: 1000\n\n";
    uint64_t number;
    uint32_t run;
    char tail;

    /* The count rises before it is compared, so that two who come at once do
     * not both take the last place. */
    if (atomic_fetch_add(&feed->viewers, 1) >= feed->viewers_max) {
        atomic_fetch_sub(&feed->viewers, 1);
        return false;
    }
    *viewer = (struct viewer){.feed = feed, .since_ms = clock_ms()};
    viewer->has_lost = last_id;
    pthread_mutex_lock(&feed->mutex);
    if (last_id &&
        sscanf(last_id, "%8" SCNx32 "-%" SCNu64 "%c", &run, &number, &tail) ==
            2 &&
        /* An id of another process, or one that is still to come, says nothing
         * of what this viewer has seen. */
        run == feed->run && number <= feed->last)
        viewer->next = number + 1;
    pthread_mutex_unlock(&feed->mutex);
    viewer->text = strdup(hello);
    viewer->size = viewer->text ? strlen(hello) : 0;
    return true;
}

void feed_leave(struct viewer *viewer)
{
    atomic_fetch_sub(&viewer->feed->viewers, 1);
    free(viewer->text);
    *viewer = (struct viewer){0};
}

size_t feed_viewers(const struct feed *feed)
{
    return atomic_load(&feed->viewers);
}

struct feed *feed_open(const struct app *app, size_t viewers_max)
{
    struct feed *feed = calloc(1, sizeof(*feed));

    if (!feed)
        return NULL;
    feed->app = app;
    feed->viewers_max = viewers_max;
    feed->task = (struct task){.run = look_run, .owner = feed};
    pthread_mutex_init(&feed->mutex, NULL);
    (void)getrandom(&feed->run, sizeof(feed->run), 0);
    return feed;
}

void feed_close(struct feed *feed)
{
    if (!feed)
        return;
    for (size_t i = 0; i < FEED_EVENTS; i++)
        free(feed->events[i]);
    pthread_mutex_destroy(&feed->mutex);
    free(feed);
}

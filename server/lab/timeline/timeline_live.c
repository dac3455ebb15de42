/* See timeline_live.h. */
#include "server/lab/timeline/timeline_live.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/log.h"
#include "server/lab/timeline/timeline.h"

enum {
    QUEUE_MAX = 4096,    /* events */
    WRITE_EVERY_MS = 20, /* enough for 200,000 of them a second */
    OPEN_MAX = 8, /* steps of one thread that have begun: renewals go in one */
    BYTES_MAX = 1 << 30,
};

struct timeline_live {
    FILE *file;
    const char *path; /* the configuration's */
    pthread_t thread;
    atomic_bool closing;
    uint64_t began_us; /* monotonic */
    atomic_uint_fast64_t dropped;

    /* The mutex guards the ring and is held for one copy, never for a write: a step
     * must not wait for the file. */
    pthread_mutex_t mutex;
    uint64_t head, tail; /* events put, events taken */
    struct timeline_event ring[QUEUE_MAX];

    /* The writer's own: */
    uint64_t told; /* of the dropped */
    uint64_t events;
    bool is_broken; /* the file takes no more events */
};

/* ---- on the threads that do the steps --------------------------------------- */

/* Those that have begun and not ended, of this thread. */
static _Thread_local struct timeline_event open_steps[OPEN_MAX];
static _Thread_local unsigned open_n;
static _Thread_local char thread_name[16];

static void copy(char *to, size_t size, const char *from)
{
    if (!memccpy(to, from, '\0', size))
        to[size - 1] = '\0';
}

/* A step that finds the ring full is counted and dropped. A mutex will do: each step
 * stands beside a round trip to a server. */
static void put(struct timeline_live *live, const struct timeline_event *event)
{
    bool fits;

    (void)pthread_mutex_lock(&live->mutex);
    fits = live->head - live->tail < QUEUE_MAX;
    if (fits)
        live->ring[live->head++ % QUEUE_MAX] = *event;
    (void)pthread_mutex_unlock(&live->mutex);
    if (!fits)
        atomic_fetch_add(&live->dropped, 1);
}

static const char *actor_name(void)
{
    static const char ours[] = "dlock-";

    if (thread_name[0] == '\0' &&
        pthread_getname_np(pthread_self(), thread_name, sizeof(thread_name)))
        copy(thread_name, sizeof(thread_name), "unnamed");
    return strncmp(thread_name, ours, sizeof(ours) - 1) == 0
               ? thread_name + sizeof(ours) - 1
               : thread_name;
}

/* Where a step that begins is to be filled in. If too many have begun, the beginning of
 * the last one is forgotten: its answer will stand alone. */
static struct timeline_event *begin(struct timeline_live *live,
                                    const char *step, const char *key)
{
    struct timeline_event *event;

    if (open_n == OPEN_MAX)
        open_n--;
    event = &open_steps[open_n++];
    event->at_us = clock_us() - live->began_us;
    event->took_us = 0;
    event->reply[0] = event->part[0] = event->sent[0] = '\0';
    copy(event->actor, sizeof(event->actor), actor_name());
    copy(event->step, sizeof(event->step), step);
    copy(event->key, sizeof(event->key), key);
    return event;
}

static void end(struct timeline_live *live, const char *step, const char *key,
                const char *reply)
{
    struct timeline_event *event = NULL;
    uint64_t now_us = clock_us() - live->began_us;
    char cut[sizeof(event->key)];

    copy(cut, sizeof(cut), key);
    for (unsigned i = open_n; i-- > 0 && !event;)
        if (strcmp(open_steps[i].step, step) == 0 &&
            strcmp(open_steps[i].key, cut) == 0)
            event = &open_steps[i];
    if (event)
        event->took_us = now_us - event->at_us;
    else
        event = begin(live, step, key);
    event->at_us = now_us;
    copy(event->reply, sizeof(event->reply), reply);
    event->outcome = timeline_outcome_of(event->reply);
    put(live, event);
    *event = open_steps[--open_n];
}

void timeline_live_on_lock(struct timeline_live *live,
                           const struct dlock_step *step)
{
    struct timeline_event *event;

    if (step->phase == DLOCK_AFTER) {
        end(live, step->name, step->key, step->reply);
        return;
    }
    event = begin(live, step->name, step->key);
    /* Else it is a session, which works for the thread. */
    if (strlen(step->owner) < sizeof(event->part) &&
        strcmp(step->owner, event->actor) != 0)
        copy(event->part, sizeof(event->part), step->owner);
    timeline_tell_words(step->words, step->words_n, step->parts_n, event->sent,
                        sizeof(event->sent));
}

void timeline_live_on_store(struct timeline_live *live,
                            const struct store_step *step)
{
    char key[32] = "";

    /* The COMMIT tells enough of a transaction. */
    if (strcmp(step->name, "begin") == 0)
        return;
    if (step->product_id != 0)
        (void)snprintf(key, sizeof(key), "product %" PRId64, step->product_id);
    if (step->phase == STORE_BEFORE)
        (void)begin(live, step->name, key);
    else
        end(live, step->name, key, step->reply);
}

/* ---- on the writer's thread --------------------------------------------------- */

/* A full disk is told once. */
static void flush(struct timeline_live *live)
{
    if (!live->is_broken && (fflush(live->file) != 0 || ferror(live->file))) {
        live->is_broken = true;
        log_warn("timeline", "file=%s error=\"%s: the timeline ends here\"",
                 live->path, strerror(errno));
    }
    live->is_broken |= ftell(live->file) > BYTES_MAX;
}

/* All that is in the ring, and how many are missing. */
static void drain(struct timeline_live *live)
{
    struct timeline_event event, dropped = {.phase = TIMELINE_DROPPED};
    uint64_t dropped_n;
    bool has_one;

    for (;;) {
        (void)pthread_mutex_lock(&live->mutex);
        has_one = live->tail < live->head;
        if (has_one)
            event = live->ring[live->tail++ % QUEUE_MAX];
        (void)pthread_mutex_unlock(&live->mutex);
        if (!has_one)
            break;
        if (live->is_broken) {
            atomic_fetch_add(&live->dropped, 1);
            continue;
        }
        timeline_write_event(live->file, &event);
        live->events++;
    }
    dropped_n = atomic_load(&live->dropped);
    dropped.dropped = dropped_n - live->told;
    dropped.at_us = clock_us() - live->began_us;
    if (dropped.dropped > 0 && live->told == 0)
        log_warn("timeline",
                 "file=%s error=\"steps are dropped: the disk or the machine "
                 "is too slow, or the file has 1 GiB\"",
                 live->path);
    live->told = dropped_n;
    if (dropped.dropped > 0 && !live->is_broken)
        timeline_write_event(live->file, &dropped);
    flush(live);
}

static void *writer_main(void *arg)
{
    struct timeline_live *live = arg;
    bool closing;

    do {
        clock_sleep_ms(WRITE_EVERY_MS);
        closing = atomic_load(&live->closing);
        drain(live);
    } while (!closing);
    return NULL;
}

/* ---- opening, closing --------------------------------------------------------- */

static void write_head(const struct timeline_live *live,
                       const struct config *config)
{
    struct timeline_head head = {.source = "serve"};
    struct timespec now;
    char host[40] = "";

    (void)gethostname(host, sizeof(host) - 1);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    head.started_us =
        (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    (void)snprintf(head.scene, sizeof(head.scene), "%s:%ld", host,
                   (long)getpid());
    copy(head.lock, sizeof(head.lock), config->lock);
    (void)snprintf(head.settings, sizeof(head.settings),
                   "--orders %s --deduct %s --workers %" PRId64 "%s",
                   config->orders == ORDERS_BATCHED ? "batched" : "one-by-one",
                   config->deduct == DEDUCT_NAIVE ? "naive" : "guarded",
                   config->workers, config->shared ? " --shared" : "");
    timeline_write_head(live->file, &head);
}

/* A pipe that nobody reads would keep the instance from its beginning, or its end. */
static FILE *open_file(const char *path)
{
    struct stat about;

    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        errno = EINVAL;
        return NULL;
    }
    return fopen(path, "we");
}

struct timeline_live *timeline_live_open(const struct config *config,
                                         struct fail *error)
{
    struct timeline_live *live = calloc(1, sizeof(*live));
    int why;

    if (!live)
        goto err;
    (void)pthread_mutex_init(&live->mutex, NULL);
    live->path = config->lab_timeline;
    live->file = open_file(live->path);
    if (!live->file)
        goto err_after_alloc;
    live->began_us = clock_us();
    write_head(live, config);
    if (fflush(live->file) != 0 ||
        (errno = pthread_create(&live->thread, NULL, writer_main, live)) != 0)
        goto err_after_file;
    (void)pthread_setname_np(live->thread, "timeline");
    return live;

err_after_file:
    why = errno; /* fclose() sets another */
    (void)fclose(live->file);
    errno = why;
err_after_alloc:
    (void)pthread_mutex_destroy(&live->mutex);
    free(live);
err:
    (void)fail_with(error, "%s: %s", config->lab_timeline,
                    errno == EINVAL ? "not a regular file" : strerror(errno));
    return NULL;
}

void timeline_live_close(struct timeline_live *live)
{
    struct timeline_verdict verdict = {.over = true};

    if (!live)
        return;
    atomic_store(&live->closing, true);
    (void)pthread_join(live->thread, NULL);
    verdict.events = live->events;
    verdict.dropped = atomic_load(&live->dropped);
    if (!ferror(live->file))
        timeline_write_verdict(live->file, &verdict);
    flush(live);
    (void)fclose(live->file);
    log_info("timeline", "file=%s events=%" PRIu64 " dropped=%" PRIu64,
             live->path, verdict.events, verdict.dropped);
    (void)pthread_mutex_destroy(&live->mutex);
    free(live);
}

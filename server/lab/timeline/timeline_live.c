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
    /* The count needs no mutex: the writer reads it without. */
    if (!fits)
        atomic_fetch_add(&live->dropped, 1);
}

/* Where a step that begins is to be filled in. If too many have begun, the beginning of
 * the last one is forgotten: its answer will stand alone. */
static struct timeline_event *begin(struct timeline_live *live,
                                    const char *step, const char *key)
{
    static const char ours[] = "dlock-";
    char name[16] = "unnamed";
    struct timeline_event *event;

    if (open_n == OPEN_MAX)
        open_n--;
    event = &open_steps[open_n++];
    event->step.at_us = clock_us() - live->began_us;
    event->took_us = 0;
    /* The members are set one by one: to clear a whole event for each step would cost
     * more than its copy. */
    event->step.reply[0] = event->step.who[0] = event->step.sent[0] = '\0';
    /* The name of a thread is its actor's; the library's own begin with dlock-. */
    (void)pthread_getname_np(pthread_self(), name, sizeof(name));
    copy(event->actor, sizeof(event->actor),
         name + (strncmp(name, ours, 6) == 0 ? 6 : 0));
    copy(event->step.name, sizeof(event->step.name), step);
    copy(event->step.key, sizeof(event->step.key), key);
    return event;
}

static void end(struct timeline_live *live, const char *step, const char *key,
                const char *reply)
{
    struct timeline_event *event = NULL;
    uint64_t now_us = clock_us() - live->began_us;
    char cut[sizeof(event->step.key)];

    /* The key was cut when the step began: only one that is cut alike is the same. */
    copy(cut, sizeof(cut), key);
    /* Steps end in any order, the last one that began most often first. */
    for (unsigned i = open_n; i-- > 0 && !event;)
        if (strcmp(open_steps[i].step.name, step) == 0 &&
            strcmp(open_steps[i].step.key, cut) == 0)
            event = &open_steps[i];
    if (event)
        event->took_us = now_us - event->step.at_us;
    else
        event = begin(live, step, key);
    event->step.at_us = now_us;
    copy(event->step.reply, sizeof(event->step.reply), reply);
    put(live, event);
    /* The last of the open steps fills the place: their order does not matter. */
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
    if (strlen(step->owner) < sizeof(event->step.who) &&
        strcmp(step->owner, event->actor) != 0)
        copy(event->step.who, sizeof(event->step.who), step->owner);
    timeline_tell_words(step->words, step->words_n, step->parts_n,
                        event->step.sent, sizeof(event->step.sent));
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
    /* The size is asked for once a round: a file is larger than its bound by one round
     * at most. */
    live->is_broken |= ftell(live->file) > BYTES_MAX;
}

/* Now and then: all that is in the ring, and how many are missing. */
static void *writer_main(void *arg)
{
    struct timeline_live *live = arg;
    struct timeline_event event, gap = {.dropped = 0};
    bool closing, has_one;
    uint64_t dropped;

    do {
        clock_sleep_ms(WRITE_EVERY_MS);
        /* The flag is read before the ring: the last round takes all that was put
         * before it was set. */
        closing = atomic_load(&live->closing);
        do {
            /* The mutex is held for one event at a time: to hold it for all of them
             * would keep steps waiting. */
            (void)pthread_mutex_lock(&live->mutex);
            has_one = live->tail < live->head;
            if (has_one)
                event = live->ring[live->tail++ % QUEUE_MAX];
            (void)pthread_mutex_unlock(&live->mutex);
            /* An event that the file does not take is missing like one that found the
             * ring full. */
            if (has_one && live->is_broken) {
                atomic_fetch_add(&live->dropped, 1);
            } else if (has_one) {
                timeline_write_event(live->file, &event);
                live->events++;
            }
        } while (has_one);
        /* The gap stands where the writer has seen it: the events around it are near
         * in time. */
        dropped = atomic_load(&live->dropped);
        gap.dropped = dropped - live->told;
        gap.step.at_us = clock_us() - live->began_us;
        if (gap.dropped > 0 && live->told == 0)
            log_warn("timeline",
                     "file=%s error=\"steps are dropped: the disk or the "
                     "machine is too slow, or the file has 1 GiB\"",
                     live->path);
        live->told = dropped;
        if (gap.dropped > 0 && !live->is_broken)
            timeline_write_event(live->file, &gap);
        flush(live);
    } while (!closing);
    return NULL;
}

/* ---- opening, closing --------------------------------------------------------- */

static void write_head(const struct timeline_live *live,
                       const struct config *config)
{
    struct timespec now;
    char host[40] = "", scene[64], settings[256];

    (void)gethostname(host, sizeof(host) - 1);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)snprintf(scene, sizeof(scene), "%s:%ld", host, (long)getpid());
    (void)snprintf(settings, sizeof(settings),
                   "--orders %s --deduct %s --workers %" PRId64 "%s",
                   config->orders == ORDERS_BATCHED ? "batched" : "one-by-one",
                   config->deduct == DEDUCT_NAIVE ? "naive" : "guarded",
                   config->workers, config->shared ? " --shared" : "");
    timeline_write_head(
        live->file,
        &(struct timeline_head){.source = "serve",
                                .scene = scene,
                                .lock = config->lock,
                                .settings = settings,
                                .started_us = (uint64_t)now.tv_sec * 1000000 +
                                              (uint64_t)now.tv_nsec / 1000});
}

struct timeline_live *timeline_live_open(const struct config *config,
                                         struct fail *error)
{
    struct timeline_live *live = calloc(1, sizeof(*live));
    const char *path = config->lab_timeline;
    struct stat about;
    int why = ENOMEM;

    /* A pipe that nobody reads would keep the instance from its beginning, or its end. */
    if (live && stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        why = EINVAL;
    else if (live && !(live->file = fopen(path, "we")))
        why = errno;
    if (live && live->file) {
        (void)pthread_mutex_init(&live->mutex, NULL);
        live->path = path;
        live->began_us = clock_us();
        write_head(live, config);
        /* The head is written out here: a full disk is told before the
         * instance begins. */
        why = fflush(live->file) != 0
                  ? errno
                  : pthread_create(&live->thread, NULL, writer_main, live);
        if (why == 0) {
            (void)pthread_setname_np(live->thread, "timeline");
            return live;
        }
        (void)fclose(live->file);
    }
    free(live);
    (void)fail_with(error, "%s: %s", path,
                    why == EINVAL ? "not a regular file" : strerror(why));
    return NULL;
}

/* The verdict is null, because nobody has looked. */
void timeline_live_close(struct timeline_live *live)
{
    uint64_t dropped;

    if (!live)
        return;
    atomic_store(&live->closing, true);
    (void)pthread_join(live->thread, NULL);
    dropped = atomic_load(&live->dropped);
    /* No hook runs any more: the last round of the writer has all. */
    if (!ferror(live->file))
        fprintf(live->file,
                "{\"verdict\":null,\"over\":true,\"events\":%" PRIu64
                ",\"dropped\":%" PRIu64 "}\n",
                live->events, dropped);
    flush(live);
    (void)fclose(live->file);
    log_info("timeline", "file=%s events=%" PRIu64 " dropped=%" PRIu64,
             live->path, live->events, dropped);
    (void)pthread_mutex_destroy(&live->mutex);
    free(live);
}

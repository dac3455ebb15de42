/*
 * Failpoints: a list in the order of the specification, and a mutex, because
 * steps come from all threads. The mutex is not held while a thread pauses.
 */
#include "tests/support/failpoint.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/clock.h"
#include "lock/error.h"

enum {
    POINTS_MAX = 32,
    STEP_BYTES_MAX = 31,
    PAUSE_MS_MAX = 600000,
    TIMES_MAX = 1000000,
};

enum action { ACTION_NONE, ACTION_PAUSE, ACTION_CRASH, ACTION_FAIL };

struct point {
    char step[STEP_BYTES_MAX + 1]; /* "any" = all */
    enum dlock_phase phase;
    enum action action;
    unsigned pause_ms;
    bool counted; /* acts only as often as LEFT says */
    unsigned left;
};

struct plan {
    size_t n;
    struct point points[POINTS_MAX];
};

struct failpoints {
    pthread_mutex_t mutex; /* guards the rest */
    struct plan plan;
    unsigned acted;
};

/* Reading specifications --------------------------------------------------- */

/* Takes WORD off the front of *AT, if it stands there. */
static bool take(const char **at, const char *word)
{
    size_t len = strlen(word);

    if (strncmp(*at, word, len) != 0)
        return false;
    *at += len;
    return true;
}

/* Takes a decimal number of 1 to MOST. */
static bool take_number(const char **at, unsigned most, unsigned *number)
{
    unsigned value = 0;
    const char *begin = *at;

    while (**at >= '0' && **at <= '9' && value <= most)
        value = value * 10 + (unsigned)(*(*at)++ - '0');
    *number = value;
    return *at > begin && value > 0 && value <= most;
}

static bool take_step(const char **at, struct point *point)
{
    size_t len = strcspn(*at, ":,=*");

    if (len == 0 || len > STEP_BYTES_MAX || (*at)[len] != ':')
        return false;
    memcpy(point->step, *at, len);
    point->step[len] = '\0';
    *at += len;
    return true;
}

static bool take_phase(const char **at, struct point *point)
{
    point->phase = take(at, ":before=") ? DLOCK_BEFORE : DLOCK_AFTER;
    return point->phase == DLOCK_BEFORE || take(at, ":after=");
}

/* An error is of the way there, a drop of the way back: no other way round. */
static bool take_action(const char **at, struct point *point)
{
    if (take(at, "pause:")) {
        point->action = ACTION_PAUSE;
        return take_number(at, PAUSE_MS_MAX, &point->pause_ms);
    }
    point->action = take(at, "crash") ? ACTION_CRASH : ACTION_FAIL;
    return point->action == ACTION_CRASH ||
           take(at, point->phase == DLOCK_BEFORE ? "error" : "drop");
}

static bool take_point(const char **at, struct point *point)
{
    if (!take_step(at, point) || !take_phase(at, point) ||
        !take_action(at, point))
        return false;
    point->counted = take(at, "*");
    if (point->counted && !take_number(at, TIMES_MAX, &point->left))
        return false;
    return **at == '\0' || take(at, ",");
}

static enum dlock_status parse(const char *spec, struct plan *plan,
                               struct dlock_error *error)
{
    const char *at = spec;

    memset(plan, 0, sizeof(*plan));
    while (*at != '\0') {
        const char *begin = at;

        if (plan->n == POINTS_MAX)
            return dlock_error_set(error, DLOCK_MISUSE,
                                   "more than %d failpoints", POINTS_MAX);
        if (!take_point(&at, &plan->points[plan->n++]))
            return dlock_error_set(error, DLOCK_MISUSE,
                                   "'%.60s' is no failpoint: STEP:before|after="
                                   "pause:MS|crash|error|drop[*N]",
                                   begin);
    }
    return DLOCK_OK;
}

/* Opening and setting ------------------------------------------------------ */

enum dlock_status failpoints_open(const char *spec, struct failpoints **points,
                                  struct dlock_error *error)
{
    struct failpoints *made;
    enum dlock_status status;

    if (spec == NULL || points == NULL)
        return dlock_error_set(error, DLOCK_MISUSE,
                               "failpoints: an argument is NULL");
    made = calloc(1, sizeof(*made));
    if (made == NULL || pthread_mutex_init(&made->mutex, NULL) != 0) {
        free(made);
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "failpoints: no memory");
    }
    status = parse(spec, &made->plan, error);
    if (status == DLOCK_OK)
        *points = made;
    else
        failpoints_close(made);
    return status;
}

void failpoints_close(struct failpoints *points)
{
    if (points == NULL)
        return;
    (void)pthread_mutex_destroy(&points->mutex);
    free(points);
}

enum dlock_status failpoints_set(struct failpoints *points, const char *spec,
                                 struct dlock_error *error)
{
    enum dlock_status status;
    struct plan plan;

    if (points == NULL || spec == NULL)
        return dlock_error_set(error, DLOCK_MISUSE,
                               "failpoints: an argument is NULL");
    status = parse(spec, &plan, error);
    if (status != DLOCK_OK)
        return status;
    (void)pthread_mutex_lock(&points->mutex);
    points->plan = plan;
    points->acted = 0;
    (void)pthread_mutex_unlock(&points->mutex);
    return DLOCK_OK;
}

/* Acting ------------------------------------------------------------------- */

static bool fits(const struct point *point, const char *step,
                 enum dlock_phase phase)
{
    return point->phase == phase && (!point->counted || point->left > 0) &&
           (strcmp(point->step, "any") == 0 || strcmp(point->step, step) == 0);
}

/* What is to happen here; one less is left of it. */
static struct point draw(struct failpoints *points, const char *step,
                         enum dlock_phase phase)
{
    struct point drawn = {.action = ACTION_NONE};

    (void)pthread_mutex_lock(&points->mutex);
    for (size_t i = 0; i < points->plan.n; i++) {
        struct point *each = &points->plan.points[i];

        if (!fits(each, step, phase))
            continue;
        each->left -= each->counted;
        points->acted++;
        drawn = *each;
        break;
    }
    (void)pthread_mutex_unlock(&points->mutex);
    return drawn;
}

/* By real time: a stopped process does not know what its clocks say. */
static void pause_ms(unsigned ms)
{
    uint64_t until_ms = dlock_clock_real_now() + ms;
    uint64_t now;

    while ((now = dlock_clock_real_now()) < until_ms)
        dlock_clock_sleep_us((until_ms - now) * 1000);
}

enum dlock_verdict failpoints_hit(struct failpoints *points, const char *step,
                                  enum dlock_phase phase)
{
    struct point point = draw(points, step, phase);

    if (point.action == ACTION_CRASH)
        _exit(FAILPOINT_CRASH_CODE);
    if (point.action == ACTION_PAUSE)
        pause_ms(point.pause_ms);
    return point.action == ACTION_FAIL ? DLOCK_FAIL : DLOCK_GO;
}

enum dlock_verdict failpoints_hook(void *points, const struct dlock_step *step)
{
    return failpoints_hit(points, step->name, step->phase);
}

unsigned failpoints_acted(struct failpoints *points)
{
    unsigned acted;

    (void)pthread_mutex_lock(&points->mutex);
    acted = points->acted;
    (void)pthread_mutex_unlock(&points->mutex);
    return acted;
}

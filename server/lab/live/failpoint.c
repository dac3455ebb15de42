/*
 * Failpoints: a list in the order of the specification, and a mutex, because
 * steps come from all threads. The mutex is not held while a thread pauses.
 */
#include "server/lab/live/failpoint.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/log.h"

enum {
    POINTS_MAX = 32, /* and so says a text below */
    STEP_BYTES_MAX = 31,
    PAUSE_MS_MAX = 600000,
    TIMES_MAX = 1000000,
};

enum action {
    ACTION_NONE,
    ACTION_PAUSE,
    ACTION_HOLD,
    ACTION_STOP,
    ACTION_CRASH,
    ACTION_FAIL
};

static const char *const action_words[] = {"none", "pause", "hold",
                                           "stop", "crash", "fail"};

struct point {
    char step[STEP_BYTES_MAX + 1]; /* "any" = all */
    bool is_after;
    enum action action;
    unsigned pause_ms;
    uint64_t left; /* times to act; UINT64_MAX, which never ends: always */
};

struct failpoints {
    pthread_mutex_t mutex; /* guards what is left of each point */
    size_t n;
    struct point points[POINTS_MAX];
};

/* Reading specifications --------------------------------------------------- */

/* Takes a decimal number of 1 to MOST. */
static bool take_number(const char **at, unsigned most, unsigned *number)
{
    unsigned value = 0;
    const char *begin = *at;

    /* The number stops growing beyond its bound: so it cannot overflow. */
    while (**at >= '0' && **at <= '9' && value <= most)
        value = value * 10 + (unsigned)(*(*at)++ - '0');
    *number = value;
    return *at > begin && value > 0 && value <= most;
}

/* An error is of the way there, a drop of the way back: no other way round. */
static bool read_point(const char *text, struct point *point)
{
    char phase[8], action[8];
    const char *fails, *at = text;
    unsigned times;
    int end = 0;

    /* The end is asked for by %n: three words are no specification if more stands
     * behind them. */
    if (sscanf(text, "%31[^:=*]:%7[a-z]=%7[a-z]%n", point->step, phase, action,
               &end) != 3)
        return false;
    at += end;
    point->is_after = strcmp(phase, "after") == 0;
    fails = point->is_after ? "drop" : "error";
    if (!point->is_after && strcmp(phase, "before") != 0)
        return false;
    /* The word for a failure depends on the phase; the others are the same in both. */
    point->action = strcmp(action, fails) == 0 ? ACTION_FAIL : ACTION_NONE;
    for (int i = ACTION_PAUSE; i < ACTION_FAIL; i++)
        if (strcmp(action, action_words[i]) == 0)
            point->action = (enum action)i;
    if (point->action == ACTION_PAUSE &&
        (*at++ != ':' || !take_number(&at, PAUSE_MS_MAX, &point->pause_ms)))
        return false;
    point->left = UINT64_MAX;
    if (*at == '*') {
        at++;
        if (!take_number(&at, TIMES_MAX, &times))
            return false;
        point->left = times;
    }
    return point->action != ACTION_NONE && *at == '\0';
}

/* Opening ------------------------------------------------------------------- */

static sigset_t wake_signals(void)
{
    sigset_t wakes;

    sigemptyset(&wakes);
    sigaddset(&wakes, SIGUSR2);
    return wakes;
}

struct failpoints *failpoints_open(const char *spec, struct fail *error)
{
    struct failpoints *made = malloc(sizeof(*made));
    sigset_t wakes = wake_signals();
    const char *wrong = NULL;
    char one[80];

    (void)fail_with(error, "no memory");
    if (!made)
        return NULL;
    *made = (struct failpoints){.mutex = PTHREAD_MUTEX_INITIALIZER};
    /* The signal must be blocked before any thread begins: a mask is inherited. */
    (void)pthread_sigmask(SIG_BLOCK, &wakes, NULL);
    for (size_t len; *spec != '\0'; spec += len + (spec[len] == ',')) {
        len = strcspn(spec, ",");
        (void)snprintf(one, sizeof(one), "%.*s", (int)len, spec);
        /* A longer one is cut here, and could be another failpoint: it is refused. */
        if (made->n == POINTS_MAX)
            wrong = "more than 32 failpoints before ";
        else if (len >= sizeof(one) ||
                 !read_point(one, &made->points[made->n++]))
            wrong = "a failpoint is STEP:before|after=pause:MS|hold|stop|"
                    "crash|error|drop[*N], and this is none: ";
        if (wrong)
            break;
    }
    if (!wrong)
        return made;
    /* The place of the error is the text from there on. */
    (void)fail_with(error, "%s'%.60s'", wrong, spec);
    failpoints_close(made);
    return NULL;
}

void failpoints_close(struct failpoints *points)
{
    free(points);
}

/* Acting ------------------------------------------------------------------- */

/* What is to happen here; one less is left of it. */
static struct point draw(struct failpoints *points, const char *step,
                         bool is_after)
{
    struct point drawn = {.action = ACTION_NONE};

    (void)pthread_mutex_lock(&points->mutex);
    for (size_t i = 0; i < points->n && drawn.action == ACTION_NONE; i++) {
        struct point *each = &points->points[i];

        /* A failpoint that is used up lets the next one act. */
        if (each->is_after == is_after && each->left > 0 &&
            (strcmp(each->step, "any") == 0 || strcmp(each->step, step) == 0)) {
            each->left--;
            drawn = *each;
        }
    }
    (void)pthread_mutex_unlock(&points->mutex);
    return drawn;
}

bool failpoints_act(struct failpoints *points, const char *step, bool is_after)
{
    const struct timespec most = {.tv_sec = PAUSE_MS_MAX / 1000};
    struct point point = draw(points, step, is_after);
    sigset_t wakes;

    if (point.action == ACTION_NONE)
        return false;
    /* The log has it before it happens: after a crash nobody could say so. */
    log_warn("failpoint", "step=%s phase=%s action=%s", step,
             is_after ? "after" : "before", action_words[point.action]);
    if (point.action == ACTION_CRASH)
        _exit(FAILPOINT_CRASH_CODE);
    if (point.action == ACTION_PAUSE)
        clock_sleep_ms(point.pause_ms);
    if (point.action == ACTION_HOLD) {
        wakes = wake_signals();
        /* The signal wakes one thread of all that hold: each hold takes one. */
        while (sigtimedwait(&wakes, NULL, &most) < 0 && errno == EINTR)
            continue;
    }
    if (point.action == ACTION_STOP)
        (void)raise(SIGSTOP); /* this thread at once; kill() lets it run on */
    return point.action == ACTION_FAIL;
}

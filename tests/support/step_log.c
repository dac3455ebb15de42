#include "tests/support/step_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATIENCE_S = 60 };

void step_log_init(struct step_log *log)
{
    memset(log, 0, sizeof(*log));
    (void)pthread_mutex_init(&log->mutex, NULL);
    (void)pthread_cond_init(&log->changed, NULL);
}

void step_log_reset(struct step_log *log)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->names_n = 0;
    (void)pthread_mutex_unlock(&log->mutex);
}

/* With the mutex: the row of a name, made if need be. */
static unsigned row(struct step_log *log, const char *name)
{
    unsigned i = 0;

    while (i < log->names_n && strcmp(log->counts[i].name, name) != 0)
        i++;
    if (i == log->names_n) {
        log->names_n++;
        log->counts[i].n[DLOCK_BEFORE] = log->counts[i].n[DLOCK_AFTER] = 0;
        (void)snprintf(log->counts[i].name, sizeof(log->counts[i].name), "%s",
                       name);
    }
    return i;
}

static bool is_at(const struct step_at *at, const struct dlock_step *step)
{
    return at->phase == step->phase && strcmp(at->name, step->name) == 0;
}

static struct step_at at(const char *name, enum dlock_phase phase)
{
    struct step_at at = {.phase = phase};

    (void)snprintf(at.name, sizeof(at.name), "%s", name);
    return at;
}

enum dlock_verdict step_log_hook(void *ctx, const struct dlock_step *step)
{
    struct step_log *log = ctx;
    enum dlock_verdict verdict = DLOCK_GO;

    (void)pthread_mutex_lock(&log->mutex);
    log->counts[row(log, step->name)].n[step->phase]++;
    if (log->shut && is_at(&log->gate, step)) {
        log->at_gate_n++;
        (void)pthread_cond_broadcast(&log->changed);
        while (log->shut)
            (void)pthread_cond_wait(&log->changed, &log->mutex);
    }
    for (size_t i = 0; i < 2; i++) {
        if (log->faults[i].n > 0 && is_at(&log->faults[i].at, step)) {
            log->faults[i].n--;
            verdict = DLOCK_FAIL;
        }
    }
    (void)pthread_cond_broadcast(&log->changed);
    (void)pthread_mutex_unlock(&log->mutex);
    return verdict;
}

static unsigned count(struct step_log *log, const char *name,
                      enum dlock_phase phase)
{
    unsigned n = 0;

    (void)pthread_mutex_lock(&log->mutex);
    for (unsigned i = 0; i < log->names_n; i++)
        if (name == NULL || strcmp(log->counts[i].name, name) == 0)
            n += log->counts[i].n[phase];
    (void)pthread_mutex_unlock(&log->mutex);
    return n;
}

unsigned step_log_count(struct step_log *log, const char *name)
{
    return count(log, name, DLOCK_BEFORE);
}

unsigned step_log_ended(struct step_log *log, const char *name)
{
    return count(log, name, DLOCK_AFTER);
}

/* With the mutex: until *N is at least LEAST. A test that hangs has failed. */
static void await(struct step_log *log, const char *what, const unsigned *n,
                  unsigned least)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    while (*n < least)
        if (pthread_cond_timedwait(&log->changed, &log->mutex, &until) != 0) {
            fprintf(stderr, "step_log: waited in vain for %s\n", what);
            abort();
        }
}

void step_log_await(struct step_log *log, const char *name, unsigned n)
{
    (void)pthread_mutex_lock(&log->mutex);
    await(log, name, &log->counts[row(log, name)].n[DLOCK_AFTER], n);
    (void)pthread_mutex_unlock(&log->mutex);
}

void step_log_fail(struct step_log *log, const char *name,
                   enum dlock_phase phase, unsigned n)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->faults[0] = (struct step_fault){at(name, phase), n};
    log->faults[1].n = 0;
    (void)pthread_mutex_unlock(&log->mutex);
}

void step_log_fail_also(struct step_log *log, const char *name,
                        enum dlock_phase phase, unsigned n)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->faults[1] = (struct step_fault){at(name, phase), n};
    (void)pthread_mutex_unlock(&log->mutex);
}

void step_log_shut(struct step_log *log, const char *name,
                   enum dlock_phase phase)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->gate = at(name, phase);
    log->at_gate_n = 0;
    log->shut = true;
    (void)pthread_mutex_unlock(&log->mutex);
}

void step_log_await_gate(struct step_log *log, unsigned n)
{
    (void)pthread_mutex_lock(&log->mutex);
    await(log, log->gate.name, &log->at_gate_n, n);
    (void)pthread_mutex_unlock(&log->mutex);
}

void step_log_open(struct step_log *log)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->shut = false;
    (void)pthread_cond_broadcast(&log->changed);
    (void)pthread_mutex_unlock(&log->mutex);
}

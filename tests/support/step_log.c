#include "tests/support/step_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_S = 300 };

void step_log_init(struct step_log *log)
{
    memset(log, 0, sizeof(*log));
    log->rows_max = sizeof(log->own) / sizeof(log->own[0]);
    (void)pthread_mutex_init(&log->mutex, NULL);
    (void)pthread_cond_init(&log->changed, NULL);
}

void step_log_reset(struct step_log *log)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->rows_n = 0;
    (void)pthread_mutex_unlock(&log->mutex);
}

/* ---- at a step, with the mutex --------------------------------------------- */

static struct step_row *row_at(struct step_log *log, unsigned i)
{
    return log->rows != NULL ? &log->rows[i] : &log->own[i];
}

static struct step_row *row_of(struct step_log *log, const char *name,
                               int64_t id)
{
    struct step_row *row;

    for (unsigned i = 0; i < log->rows_n; i++) {
        row = row_at(log, i);
        if (row->id == id && strcmp(row->name, name) == 0)
            return row;
    }
    if (log->rows_n == log->rows_max) {
        fprintf(stderr, "step_log: too many steps\n");
        abort();
    }
    row = row_at(log, log->rows_n++);
    *row = (struct step_row){.id = id};
    (void)snprintf(row->name, sizeof(row->name), "%s", name);
    return row;
}

static bool is_at(const struct step_at *at, const char *name, int64_t id,
                  enum dlock_phase phase)
{
    return at->phase == phase && (at->id == 0 || at->id == id) &&
           strcmp(at->name, name) == 0;
}

enum dlock_verdict step_log_note(struct step_log *log, const char *name,
                                 int64_t id, enum dlock_phase phase)
{
    enum dlock_verdict verdict = DLOCK_GO;
    struct step_row *row;
    unsigned round;

    (void)pthread_mutex_lock(&log->mutex);
    row = row_of(log, name, id);
    row->n[phase]++;
    row->last[phase] = ++log->steps_n;
    round = log->round;
    if (log->shut && is_at(&log->gate, name, id, phase)) {
        log->at_gate_n++;
        (void)pthread_cond_broadcast(&log->changed);
        while (log->round == round)
            (void)pthread_cond_wait(&log->changed, &log->mutex);
    }
    for (size_t i = 0; i < 2; i++) {
        if (log->faults[i].n > 0 &&
            is_at(&log->faults[i].at, name, id, phase)) {
            log->faults[i].n--;
            verdict = DLOCK_FAIL;
        }
    }
    (void)pthread_cond_broadcast(&log->changed);
    (void)pthread_mutex_unlock(&log->mutex);
    return verdict;
}

enum dlock_verdict step_log_hook(void *ctx, const struct dlock_step *step)
{
    return step_log_note(ctx, step->name, 0, step->phase);
}

/* ---- for tests ------------------------------------------------------------- */

/* With the mutex. */
static unsigned sum(struct step_log *log, const char *name, int64_t id,
                    enum dlock_phase phase)
{
    unsigned n = 0;

    for (unsigned i = 0; i < log->rows_n; i++) {
        const struct step_row *row = row_at(log, i);

        if ((id == 0 || row->id == id) &&
            (name == NULL || strcmp(row->name, name) == 0))
            n += row->n[phase];
    }
    return n;
}

unsigned step_log_count_at(struct step_log *log, const char *name, int64_t id,
                           enum dlock_phase phase)
{
    unsigned n;

    (void)pthread_mutex_lock(&log->mutex);
    n = sum(log, name, id, phase);
    (void)pthread_mutex_unlock(&log->mutex);
    return n;
}

unsigned step_log_count(struct step_log *log, const char *name)
{
    return step_log_count_at(log, name, 0, DLOCK_BEFORE);
}

unsigned step_log_ended(struct step_log *log, const char *name)
{
    return step_log_count_at(log, name, 0, DLOCK_AFTER);
}

unsigned step_log_last(struct step_log *log, const char *name,
                       enum dlock_phase phase)
{
    unsigned last = 0;

    (void)pthread_mutex_lock(&log->mutex);
    for (unsigned i = 0; i < log->rows_n; i++) {
        const struct step_row *row = row_at(log, i);

        if (strcmp(row->name, name) == 0 && row->last[phase] > last)
            last = row->last[phase];
    }
    (void)pthread_mutex_unlock(&log->mutex);
    return last;
}

struct timespec step_log_patience(void)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    return until;
}

void step_log_wait(pthread_cond_t *changed, pthread_mutex_t *mutex,
                   const struct timespec *until, const char *what)
{
    if (pthread_cond_timedwait(changed, mutex, until) != 0) {
        fprintf(stderr, "step_log: waited in vain for %s\n", what);
        abort();
    }
}

void step_log_await_at(struct step_log *log, const char *name, int64_t id,
                       enum dlock_phase phase, unsigned n)
{
    const struct timespec until = step_log_patience();

    (void)pthread_mutex_lock(&log->mutex);
    while (sum(log, name, id, phase) < n)
        step_log_wait(&log->changed, &log->mutex, &until, name);
    (void)pthread_mutex_unlock(&log->mutex);
}

void step_log_await(struct step_log *log, const char *name, unsigned n)
{
    step_log_await_at(log, name, 0, DLOCK_AFTER, n);
}

static struct step_at at(const char *name, int64_t id, enum dlock_phase phase)
{
    struct step_at at = {.id = id, .phase = phase};

    (void)snprintf(at.name, sizeof(at.name), "%s", name);
    return at;
}

void step_log_fail(struct step_log *log, const char *name,
                   enum dlock_phase phase, unsigned n)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->faults[0] = (struct step_fault){at(name, 0, phase), n};
    log->faults[1].n = 0;
    (void)pthread_mutex_unlock(&log->mutex);
}

void step_log_fail_also(struct step_log *log, const char *name,
                        enum dlock_phase phase, unsigned n)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->faults[1] = (struct step_fault){at(name, 0, phase), n};
    (void)pthread_mutex_unlock(&log->mutex);
}

void step_log_shut_at(struct step_log *log, const char *name, int64_t id,
                      enum dlock_phase phase)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->gate = at(name, id, phase);
    log->at_gate_n = 0;
    log->shut = true;
    (void)pthread_mutex_unlock(&log->mutex);
}

void step_log_shut(struct step_log *log, const char *name,
                   enum dlock_phase phase)
{
    step_log_shut_at(log, name, 0, phase);
}

void step_log_await_gate(struct step_log *log, unsigned n)
{
    const struct timespec until = step_log_patience();

    (void)pthread_mutex_lock(&log->mutex);
    while (log->at_gate_n < n)
        step_log_wait(&log->changed, &log->mutex, &until, log->gate.name);
    (void)pthread_mutex_unlock(&log->mutex);
}

void step_log_open(struct step_log *log)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->shut = false;
    log->round++;
    (void)pthread_cond_broadcast(&log->changed);
    (void)pthread_mutex_unlock(&log->mutex);
}

void step_log_pass(struct step_log *log)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->at_gate_n = 0;
    log->round++;
    (void)pthread_cond_broadcast(&log->changed);
    (void)pthread_mutex_unlock(&log->mutex);
}

char *step_line(const struct dlock_step *step)
{
    size_t size = 1, used = 0;
    char *line;

    for (size_t i = 0; i < step->words_n; i++)
        size += 2 * strlen(step->words[i]) + 3;
    line = malloc(size);
    if (line == NULL)
        abort();
    for (size_t i = 0; i < step->words_n; i++) {
        bool goes_on = i > 0 && i < step->parts_n;

        if (i < 2 || i > step->parts_n)
            line[used++] = '"';
        for (const char *at = step->words[i]; *at != '\0'; at++) {
            if (strchr("\"\\\n", *at) != NULL)
                line[used++] = '\\';
            line[used] = *at;
            if (*at == '\n')
                line[used] = 'n';
            used++;
        }
        if (!goes_on) {
            line[used++] = '"';
            line[used++] = ' ';
        }
    }
    line[used] = '\0';
    return line;
}

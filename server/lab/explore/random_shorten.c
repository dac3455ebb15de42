/* See random.h: a schedule that breaks something, made as short as leaving out and
 * joining can make it. The same fault may have shorter ones. */
#include <stdio.h>
#include <string.h>

#include "server/lab/explore/random.h"

enum {
    REPLAYS_MAX = 1500, /* some seconds */
    CHUNK_MAX = 8,      /* moves that are left out at once */
};

struct shortening {
    struct stage *stage;
    unsigned fault;
    struct search_found *best;
    unsigned replays;
    char *error; /* "" = the stage is well */
    size_t error_size;
};

/* Plays TRIAL up to the move that breaks it, and cuts the rest. A move that is not
 * enabled any more is left out as well. False: it does not break. */
static bool breaks(struct shortening *s, struct search_found *trial)
{
    size_t n = 0;

    s->replays++;
    if (!stage_begin(s->stage, s->error, s->error_size))
        return false;
    for (size_t i = 0; i < trial->n; i++) {
        if (!stage_has_move(s->stage, trial->moves[i]))
            continue;
        if (!stage_move(s->stage, trial->moves[i], s->error, s->error_size))
            return false;
        trial->moves[n++] = trial->moves[i];
        if (stage_faults(s->stage) & (1u << s->fault)) {
            trial->n = n;
            return true;
        }
    }
    return false;
}

/* How often another actor goes on than the one before. */
static unsigned switches(const struct search_found *found)
{
    unsigned n = 0;

    for (size_t i = 1; i < found->n; i++)
        n += found->moves[i].actor != found->moves[i - 1].actor;
    return n;
}

static bool is_better(const struct search_found *a,
                      const struct search_found *b)
{
    return a->n < b->n || (a->n == b->n && switches(a) < switches(b));
}

/* Takes TRIAL if it breaks as well, and is better. */
static bool take(struct shortening *s, struct search_found *trial)
{
    if (s->error[0] || s->replays >= REPLAYS_MAX || !breaks(s, trial) ||
        !is_better(trial, s->best))
        return false;
    *s->best = *trial;
    return true;
}

static bool leave_out(struct shortening *s, size_t chunk)
{
    bool is_shorter = false;

    for (size_t at = 0; at + chunk <= s->best->n;) {
        struct search_found trial = *s->best;

        memmove(&trial.moves[at], &trial.moves[at + chunk],
                (trial.n - at - chunk) * sizeof(trial.moves[0]));
        trial.n -= chunk;
        if (take(s, &trial))
            is_shorter = true;
        else
            at++;
    }
    return is_shorter;
}

/* A move changes places with the one before, where that joins two of one actor. */
static bool join(struct shortening *s)
{
    bool is_joined = false;

    for (size_t i = 1; i < s->best->n; i++) {
        struct search_found trial = *s->best;
        struct stage_move move = trial.moves[i];

        if (move.actor == trial.moves[i - 1].actor)
            continue;
        trial.moves[i] = trial.moves[i - 1];
        trial.moves[i - 1] = move;
        if (switches(&trial) < switches(s->best) && take(s, &trial))
            is_joined = true;
    }
    return is_joined;
}

bool random_shorten(struct stage *stage, unsigned fault,
                    struct search_found *found, char *error, size_t error_size)
{
    struct shortening s = {.stage = stage,
                           .fault = fault,
                           .best = found,
                           .error = error,
                           .error_size = error_size};
    bool goes_on = true;

    error[0] = '\0';
    if (!breaks(&s, found)) {
        if (!error[0])
            (void)snprintf(error, error_size,
                           "a schedule that broke does not break again");
        return false;
    }
    while (goes_on) {
        goes_on = false;
        for (size_t chunk = CHUNK_MAX; chunk > 0; chunk /= 2)
            goes_on |= leave_out(&s, chunk);
        goes_on |= join(&s);
    }
    return !error[0];
}

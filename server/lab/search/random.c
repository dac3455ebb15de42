/*
 * Random schedules, for what is beyond all that can be enumerated: 20 to 60 moves of
 * up to four actors.
 *
 * Each schedule draws a priority for every actor, and the first in rank moves; at a
 * few random points the one that would move falls behind all others. A bug that needs
 * d such points comes up with a probability that has a lower bound: this is the PCT
 * scheduler of Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler
 * with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010. Troubles (deaths, ends of
 * leases, lost replies) are drawn into it at random points as well. Each stage takes up
 * the next number of a schedule, which with the seed says all that is drawn for it.
 *
 * A schedule that breaks something is shortened before it is told: moves are left out,
 * and those of one actor joined, as long as the same still breaks.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "server/lab/search/search_private.h"

enum {
    CHANGES_MAX = 4, /* points at which who would move falls behind */
    TROUBLES_MAX = 8,
    REPLAYS_MAX = 1500,      /* of a shortening: some seconds */
    CHUNK_MAX = 8,           /* moves that are left out at once */
    NEWS = STAGE_ACTORS_MAX, /* of who has a rank: the orders of actor 0, ... */
    WORLD = 2 * STAGE_ACTORS_MAX,
    RANKS = WORLD + 1,
};

static_assert(STAGE_MOVES_MAX <= 64, "a bit for each move");

/* One stage, and what was drawn for the schedule that it plays. */
struct player {
    struct search_shared *shared;
    struct stage *stage;
    uint64_t random;
    unsigned ranks[RANKS]; /* the highest moves */
    unsigned lowest;
    uint64_t changes, troubles; /* at these moves, a bit each */
    unsigned length;            /* of a schedule to which nothing happens */
    struct search_node at;
    struct search_found played;
    struct fail *error;
};

/* ---- drawing -------------------------------------------------------------- */

/* SplitMix64 (Steele, Lea, Flood 2014). */
static unsigned draw_below(struct player *p, unsigned n)
{
    uint64_t z = p->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ (z >> 31)) % n);
}

/* Up to N_MAX moves, a bit each, within twice the length of a plain schedule, because
 * troubles make it longer. */
static uint64_t draw_points(struct player *p, unsigned n_max)
{
    uint64_t points = 0;

    /* None at all is as likely as any other number: short of all troubles, a plain race
     * must come up, too. */
    for (unsigned n = draw_below(p, n_max + 1); n > 0; n--) {
        unsigned at = draw_below(p, 2 * p->length);

        if (at < STAGE_MOVES_MAX)
            points |= UINT64_C(1) << at;
    }
    return points;
}

/* All that a schedule needs. */
static void draw_schedule(struct player *p, uint64_t number)
{
    /* A number and the seed say all that is drawn: whichever stage plays it draws
     * the same. */
    p->random =
        p->shared->bounds.seed ^ (number * UINT64_C(0xd1342543de82ef95));
    /* Ranks begin above RANKS: one that falls behind gets a lower number than all that
     * were drawn. */
    p->lowest = RANKS;
    for (unsigned i = 0; i < RANKS; i++)
        p->ranks[i] = RANKS + draw_below(p, 1u << 20);
    p->changes = draw_points(p, CHANGES_MAX);
    p->troubles = draw_points(p, TROUBLES_MAX);
}

/* ---- one schedule ---------------------------------------------------------- */

static unsigned rank_of(struct stage_move move)
{
    if (move.actor < 0)
        /* An instance's orders come in apart from what it does: they have a rank of
         * their own. */
        return WORLD;
    return (unsigned)move.actor + (move.kind == 'i' ? NEWS : 0);
}

/* Moves that come by themselves: all others are troubles. */
static bool is_plain(struct stage_move move)
{
    return strchr("sei+", move.kind) || (move.actor == -1 && move.kind == '^');
}

/* The index of one of the moves that are ALLOWED: of the plain ones the first in rank, of
 * troubles any; -1 = there is none. */
static int pick(struct player *p, const bool allowed[], bool plain)
{
    const struct stage_move *moves = p->at.moves;
    int picked = -1;
    unsigned n = 0;

    /* Each of N is picked with the same chance: the Nth takes the place with one in N
     * (reservoir sampling). */
    for (int i = 0; i < p->at.moves_n; i++)
        if (allowed[i] && is_plain(moves[i]) == plain &&
            (plain ? picked < 0 || p->ranks[rank_of(moves[i])] >
                                       p->ranks[rank_of(moves[picked])]
                   : draw_below(p, ++n) == 0))
            picked = i;
    return picked;
}

/* The index of the next move; -1: the schedule is over. */
static int choose(struct player *p)
{
    bool allowed[STAGE_ENABLED_MAX];
    struct search_node child;
    int picked = -1;

    for (unsigned i = 0; i < p->at.moves_n; i++)
        /* The bounds hold for random schedules as well, without a table: what is beyond
         * is never drawn. */
        allowed[i] = search_child(&p->shared->bounds, &p->at, i, &child);
    if (p->troubles >> p->played.n & 1)
        picked = pick(p, allowed, false);
    /* A trouble that was drawn where there is none is left out. */
    if (picked >= 0)
        return picked;
    picked = pick(p, allowed, true);
    if (picked >= 0 && p->changes >> p->played.n & 1) {
        /* A change point of PCT: the actor falls below all, and below those that
         * fell before. */
        p->ranks[rank_of(p->at.moves[picked])] = --p->lowest;
        picked = pick(p, allowed, true);
    }
    /* Only troubles are left: nobody can go on without one. */
    return picked >= 0 ? picked : pick(p, allowed, false);
}

static bool begin(struct player *p)
{
    p->played = (struct search_found){.n = 0};
    p->at = (struct search_node){.last = -1, .move = {.actor = -1}};
    return stage_begin(p->stage, p->error) &&
           search_fill(p->stage, &p->at, p->error);
}

/* One move on. False: the schedule is over, or the stage is broken. */
static bool move_on(struct player *p)
{
    struct search_node child;
    int i = p->played.n < p->shared->bounds.moves ? choose(p) : -1;

    if (i < 0 || !search_child(&p->shared->bounds, &p->at, (unsigned)i, &child))
        return false;
    p->played.moves[p->played.n++] = child.move;
    if (!search_play(p->stage, p->shared, &p->at, &child, p->error))
        return false;
    p->at = child;
    return true;
}

/* ---- shortening: leaving out and joining ------------------------------------
 *
 * The same fault may have a shorter schedule, which these two do not lead to.
 */

struct shortening {
    struct stage *stage;
    unsigned fault;
    struct search_found *best;
    unsigned replays;
    const _Atomic bool *stop;
    struct fail *error; /* "" = the stage is well */
};

/* Plays TRIAL up to the move that breaks it, and cuts the rest. A move that is not
 * enabled any more is left out as well. False: it does not break. */
static bool breaks(struct shortening *s, struct search_found *trial)
{
    size_t n = 0;

    s->replays++;
    if (!stage_begin(s->stage, s->error))
        return false;
    for (size_t i = 0; i < trial->n; i++) {
        /* Leaving out a move may take away what later ones need: these are left out in
         * the same go, as delta debugging does with parts that no longer fit. */
        if (!stage_has_move(s->stage, trial->moves[i]))
            continue;
        if (!stage_move(s->stage, trial->moves[i], s->error))
            return false;
        trial->moves[n++] = trial->moves[i];
        /* Each move is judged, as in the search: a fault may be there for a
         * moment only. */
        if (stage_faults(s->stage) & (1u << s->fault)) {
            trial->n = n;
            return !stage_is_broken(s->stage, s->error);
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

/* Takes TRIAL if it breaks as well, and is better. */
static bool take(struct shortening *s, struct search_found *trial)
{
    /* Fewer moves are better, then fewer switches: an equal one is not taken, or the
     * loop would not end. */
    if (s->error->text[0] || *s->stop || s->replays >= REPLAYS_MAX ||
        !breaks(s, trial) || trial->n > s->best->n ||
        (trial->n == s->best->n && switches(trial) >= switches(s->best)))
        return false;
    *s->best = *trial;
    return true;
}

static bool leave_out(struct shortening *s, size_t chunk)
{
    /* Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-
     * Inducing Input", 2002), by chunks that get smaller. AT stays after a success:
     * other moves have come there. */
    bool is_shorter = false;

    for (size_t at = 0; at + chunk <= s->best->n;) {
        struct search_found trial = *s->best;

        memmove(&trial.moves[at], &trial.moves[at + chunk],
                (trial.n - at - chunk) * sizeof(trial.moves[0]));
        trial.n -= chunk;
        if (take(s, &trial))
            is_shorter = true;
        else
            /* A chunk begins at each move, as cuts at multiples of its length would
             * miss some. */
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
        /* Joined moves read as one: the schedule is no shorter, but has
         * fewer switches. */
        if (switches(&trial) < switches(s->best) && take(s, &trial))
            is_joined = true;
    }
    return is_joined;
}

bool random_shorten(struct stage *stage, unsigned fault,
                    const _Atomic bool *stop, struct search_found *found,
                    struct fail *error)
{
    struct shortening s = {.stage = stage,
                           .fault = fault,
                           .best = found,
                           .stop = stop,
                           .error = error};
    bool goes_on = true;

    /* ERROR is what says that the stage is well. */
    error->text[0] = '\0';
    if (!breaks(&s, found)) {
        if (!error->text[0])
            (void)fail_with(error,
                            "a schedule that broke does not break again");
        return false;
    }
    /* Each success may make another possible: it ends when nothing helps any more,
     * REPLAYS_MAX is used up, or nobody waits for a shorter one. */
    while (goes_on) {
        goes_on = false;
        for (size_t chunk = CHUNK_MAX; chunk > 0; chunk /= 2)
            goes_on |= leave_out(&s, chunk);
        goes_on |= join(&s);
    }
    return !error->text[0];
}

/* ---- all stages ------------------------------------------------------------- */

/* A schedule is shortened if it shows a fault that no other has shown. */
static void play(struct player *p, uint64_t number)
{
    struct search_shared *shared = p->shared;
    unsigned longest = atomic_load(&shared->longest);

    draw_schedule(p, number);
    if (!begin(p))
        return;
    /* A fault that was shown already does not end a schedule: another may lie
     * behind it. */
    while (move_on(p) && !(p->at.faults & ~atomic_load(&shared->claimed)) &&
           !search_is_end(&shared->bounds, &p->at))
        continue;
    for (enum stage_fault i = 0; i < STAGE_FAULT_N && !p->error->text[0]; i++) {
        struct search_found found = p->played;
        unsigned bit = 1u << i;

        found.is_found = true;
        /* The first stage that claims a fault shortens it; others go on looking
         * for others. */
        if ((p->at.faults & bit) &&
            !(atomic_fetch_or(&shared->claimed, bit) & bit) &&
            random_shorten(p->stage, i, &shared->stop, &found, p->error))
            /* The found schedule is whole before its fault is looked at: search_run()
             * reads it when all stages are done. */
            shared->faults[i] = found;
    }
    while (p->played.n > longest &&
           !atomic_compare_exchange_weak(&shared->longest, &longest,
                                         (unsigned)p->played.n))
        continue;
    atomic_fetch_add(&shared->moves, p->played.n);
    atomic_fetch_add(&shared->schedules, 1);
}

bool random_work(struct search_shared *shared, struct stage *stage,
                 struct fail *error)
{
    struct player p = {.shared = shared, .stage = stage, .error = error};

    /* One to which nothing happens, for its length: all points lie beyond it. */
    /* Number 0 is no schedule of the search: numbers drawn begin with 1. */
    p.length = STAGE_MOVES_MAX;
    draw_schedule(&p, 0);
    p.troubles = 0;
    if (begin(&p))
        while (move_on(&p))
            continue;
    /* Points are drawn over the length of a plain schedule: PCT's bound goes by the
     * number of steps. */
    p.length = p.played.n > 0 ? (unsigned)p.played.n : 1;
    while (!error->text[0] && !shared->stop)
        play(&p, atomic_fetch_add(&shared->drawn, 1) + 1);
    return !error->text[0];
}

void random_look(const struct search_shared *shared,
                 struct search_result *result)
{
    memcpy(result->faults, shared->faults, sizeof(result->faults));
    result->schedules = atomic_load(&shared->schedules);
    result->moves = atomic_load(&shared->longest);
    result->moves_all = atomic_load(&shared->moves);
}

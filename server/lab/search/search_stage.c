/*
 * See search_private.h. Each stage is in a process of its own, which stays on one
 * processor with its redis-server and its actors: they take turns, and a turn that
 * goes to another processor takes several times as long.
 *
 * What a schedule leads to depends on nothing but the schedule: so stages may take
 * up the schedules of one length in any order, and play on after one of them, since
 * they are there, for as long as what they meet is new to them.
 */
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/lab/search/search_private.h"

enum { AHEAD_MOVES = 8 }; /* played beyond the length that is due */

/* One stage, in its own process. */
struct runner {
    struct search_shared *shared;
    struct stage *stage;
    struct search_table seen; /* what it has met so far */
    struct fail *error;
};

/* ---- playing ------------------------------------------------------------ */

static bool play(struct runner *runner, const struct search_node *node)
{
    const struct search_bounds *bounds = &runner->shared->bounds;
    struct stage_move moves[STAGE_MOVES_MAX];
    size_t n = bounds->from_n + node->used.of[SEARCH_MOVES];
    char text[4 * STAGE_MOVES_MAX + 1];
    struct fail why;

    memcpy(moves, bounds->from, sizeof(moves));
    /* The way back to the root: a node knows its parent, and no schedule is
     * kept whole. */
    for (size_t i = n; i > bounds->from_n;
         node = &runner->shared->nodes[node->parent])
        moves[--i] = node->move;
    if (!stage_begin(runner->stage, runner->error))
        return false;
    for (size_t i = 0; i < n; i++) {
        /* A state that does not come again would make all that was found a matter of
         * chance: so it is an error. */
        if (!stage_move(runner->stage, moves[i], runner->error)) {
            /* Moves that were possible once must be so again. */
            why = *runner->error;
            return fail_with(runner->error,
                             "an error of the stage's own: '%s' is not the "
                             "same twice: %.199s",
                             stage_text(moves, i + 1, text, sizeof(text)),
                             why.text);
        }
        /* A fault may be one of this moment only, and is part of the state. */
        (void)stage_faults(runner->stage);
    }
    return !stage_is_broken(runner->stage, runner->error);
}

bool search_fill(struct stage *stage, struct search_node *node,
                 struct fail *error)
{
    node->moves_n = (uint8_t)stage_enabled(stage, node->moves);
    /* Faults come before the hash: the hash has them. */
    node->lapses = (uint8_t)stage_lapses(stage);
    node->faults = stage_faults(stage);
    node->state = stage_hash(stage);
    return !stage_is_broken(stage, error);
}

bool search_play(struct stage *stage, const struct search_shared *shared,
                 const struct search_node *node, struct search_node *child,
                 struct fail *error)
{
    return stage_move(stage, child->move, error) &&
           search_fill(stage, child, error) &&
           search_is_within(&shared->bounds, node, child);
}

/* Where the stage is at NODE: one move on. The number of the child, or 0: it goes
 * no further, or the stage is broken. */
static uint32_t step(struct runner *runner, uint32_t at, unsigned i,
                     struct search_node *child)
{
    struct search_shared *shared = runner->shared;
    struct search_node *node = &shared->nodes[at];
    uint32_t number;

    /* The number is the parent's for as long as the child is not in its place. */
    child->parent = at;
    /* An error is no child: the search ends with it. A child beyond the bounds is
     * noted, or it would be played again. */
    if (!search_play(runner->stage, shared, node, child, runner->error)) {
        node->children[i] = runner->error->text[0] ? 0 : NODE_BEYOND;
        return 0;
    }
    /* The last mover decides what a preemption is, and so what may follow: it is part
     * of the state of a search, and not of a stage. Odd, and so never 0. */
    child->state =
        (child->state + (uint64_t)(child->last + 2)) * UINT64_C(1099511628211) |
        1;
    /* The stages share one row of nodes: a number is taken once. */
    number = atomic_fetch_add(&shared->nodes_n, 1);
    /* The last number is NODE_BEYOND: the search stops before it, and is not whole. */
    if (number >= NODES_MAX) {
        shared->stop = true;
        return 0;
    }
    /* The node must be whole before its number is there: other stages go by
     * the number. */
    shared->nodes[number] = *child;
    node->children[i] = number;
    return number;
}

/* Plays the child by move I, and on from there. False: the stage is broken. */
static bool follow(struct runner *runner, uint32_t at, unsigned i)
{
    struct search_shared *shared = runner->shared;
    struct search_node child;

    if (!search_child(&shared->bounds, &shared->nodes[at], i, &child))
        return true;
    /* The stage plays from the start: what has happened to servers cannot be
     * taken back. */
    if (!play(runner, &shared->nodes[at]))
        return false;
    /* The first child that is allowed is gone on with at once, which saves a start for
     * each move. It is the one that comes first in the order, too. */
    for (int ahead = 0; ahead <= AHEAD_MOVES; ahead++) {
        const struct search_node *node;

        at = step(runner, at, i, &child);
        node = &shared->nodes[at];
        /* A search may have met this state before, by another way: playing on would be
         * work that go_on_from() throws away. This table is the stage's own, and
         * decides nothing. */
        if (at == 0 || shared->stop || search_is_end(&shared->bounds, node) ||
            node->used.of[SEARCH_MOVES] >= shared->bounds.moves ||
            !search_table_put(&runner->seen, node))
            break;
        for (i = 0; i < node->moves_n; i++)
            if (search_child(&shared->bounds, node, i, &child))
                break;
        if (i == node->moves_n)
            break;
    }
    return runner->error->text[0] == '\0';
}

/* The queue is played, by the stages beside this one as well. False: the stage is broken. */
static bool go_through(struct runner *runner)
{
    struct search_shared *shared = runner->shared;
    bool good = true;

    while (good && !shared->stop) {
        /* A place is taken once: the counter runs beyond the queue when it is empty. */
        uint32_t place = atomic_fetch_add(&shared->next, 1), at;

        if (place >= shared->queue_n)
            break;
        at = shared->queue[place];
        for (unsigned i = 0; good && i < shared->nodes[at].moves_n; i++) {
            /* A child that was played ahead by any stage has its number already. */
            if (!shared->stop && shared->nodes[at].children[i] == 0)
                good = follow(runner, at, i);
            /* The ones played ahead count when it is their turn. */
            shared->schedules += shared->nodes[at].children[i] != 0;
        }
    }
    return good;
}

/* ---- the process ---------------------------------------------------------- */

unsigned search_processors(int only)
{
    cpu_set_t all, one;
    unsigned n = 0;

    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return 1;
    /* The processor counts from those that we may use, not from all. */
    CPU_ZERO(&one);
    for (unsigned i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && (int)n++ == only)
            CPU_SET(i, &one);
    if (only >= 0)
        (void)sched_setaffinity(0, sizeof(one), &one);
    return n;
}

_Noreturn void search_stage_main(struct search_shared *shared, unsigned index,
                                 int line)
{
    struct search_node *root = &shared->nodes[NODE_ROOT];
    struct runner runner = {.shared = shared,
                            .seen = {.bounds = &shared->bounds},
                            .error = &shared->errors[index]};
    bool good;
    char byte;

    /* Ctrl-C is for who started the search, which ends it. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    /* The stages are placed evenly, also where there are more of them than processors. */
    (void)search_processors((int)(index % search_processors(-1)));
    runner.stage = stage_open(&shared->scene, runner.error);
    /* All stages open the same scene; one plays the root, for all of them. */
    good = runner.stage && (index != 0 || play(&runner, root));
    if (good && index == 0)
        good = search_fill(runner.stage, root, runner.error);
    while (good && !shared->stop && send(line, "", 1, MSG_NOSIGNAL) == 1 &&
           recv(line, &byte, 1, 0) == 1)
        good = shared->bounds.seed
                   ? random_work(shared, runner.stage, runner.error)
                   : go_through(&runner);
    /* The error is in SHARED before the stop: the search reads it when it hears of
     * the end. */
    if (!good)
        shared->stop = true;
    /* The stage must be closed here: its folder and servers belong to this process. */
    stage_close(runner.stage);
    /* No exit handlers: those of the search's process are not ours. */
    _exit(0);
}

/*
 * See search.h: all schedules in their order, what they have found, and which are gone on
 * with. They are played by stages, each in a process of its own (search_stage.c), to which
 * a socket leads: a byte says that there is something to be played, or that it was; and the
 * end of one is that of the process.
 */
#include "server/lab/search/search_private.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/child.h"

enum { LOOK_MS = 100 }; /* how often it is asked whether it is still wanted */

struct search {
    struct search_shared *shared;
    pid_t pids[SEARCH_STAGES_MAX];
    struct pollfd lines[SEARCH_STAGES_MAX]; /* to the stages */
    unsigned stages_n;
    struct search_table seen;
    search_progress *progress;
    void *ctx;
    struct search_result *result;
};

/* ---- stages --------------------------------------------------------------- */

static bool is_wanted(struct search *search)
{
    struct search_shared *shared = search->shared;
    struct search_result now = *search->result;

    /* Both counts only rise: the stages' is ahead while a length is played, the
     * result's has the ones that were met in their order. */
    if (shared->bounds.seed)
        random_look(shared, &now);
    else if (now.schedules < shared->schedules)
        now.schedules = shared->schedules;
    return !search->progress || search->progress(search->ctx, &now);
}

/* Until all stages are done with what they were given. One that hears of the stop may end
 * instead. False: ERROR says why. */
static bool await(struct search *search, struct fail *error)
{
    struct search_shared *shared = search->shared;
    char byte;

    for (unsigned i = 0; i < search->stages_n; i++)
        search->lines[i].events = POLLIN;
    for (unsigned busy = search->stages_n; busy > 0;) {
        /* The question is asked when nothing came for LOOK_MS, or a signal has ended
         * the wait: so a search ends soon after its time is up, but a move is never
         * cut short. */
        if (poll(search->lines, search->stages_n, LOOK_MS) <= 0 &&
            !is_wanted(search))
            shared->stop = true;
        for (unsigned i = 0; i < search->stages_n; i++) {
            struct pollfd *line = &search->lines[i];

            if (shared->stop) /* for one that has nothing to do */
                (void)shutdown(line->fd, SHUT_WR);
            if (line->revents == 0)
                continue;
            /* A stage that is done is not listened to until it has something to
             * play again; but poll() tells of its end, over and over. */
            busy -= line->events != 0;
            line->events = 0;
            /* An end without a byte is that of the process. After a stop it is what was
             * asked for. */
            if (recv(line->fd, &byte, 1, 0) == 1 || shared->stop)
                continue;
            (void)fail_with(&shared->errors[i], "a stage has ended by itself");
            shared->stop = true;
        }
    }
    /* One stage's error spoils all: what the others found may be cut short by its stop,
     * and nothing may be called whole. */
    for (unsigned i = 0; i < search->stages_n; i++)
        if (shared->errors[i].text[0]) {
            *error = shared->errors[i];
            return false;
        }
    return true;
}

/* All children of what is in the queue from shared->next on; or random schedules until they
 * are not wanted any more. False: ERROR says why. */
static bool play_queue(struct search *search, struct fail *error)
{
    /* The nodes and the queue must be written before the byte: it is what stages
     * wait for. */
    for (unsigned i = 0; i < search->stages_n; i++)
        (void)send(search->lines[i].fd, "", 1, MSG_NOSIGNAL);
    return await(search, error);
}

/* Opens N stages, 0 = one for each processor, and plays the root. False: ERROR says why;
 * those that there are have to be closed all the same. */
static bool open_stages(struct search *search, unsigned n, struct fail *error)
{
    if (n == 0)
        n = search_processors(-1);
    while (search->stages_n < n && search->stages_n < SEARCH_STAGES_MAX) {
        unsigned i = search->stages_n;
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            return fail_with(error, "no socket for a stage: %s",
                             strerror(errno));
        search->lines[i].fd = ends[0];
        /* A stage must die with the thread that runs the search, however that ends. */
        search->pids[i] = child_fork(SIGKILL);
        if (search->pids[i] == 0) {
            /* A child that keeps the other ends would hide the end of this process from
             * the stages beside it. */
            for (unsigned j = 0; j <= i; j++)
                (void)close(search->lines[j].fd);
            search_stage_main(search->shared, i, ends[1]);
        }
        (void)close(ends[1]);
        search->stages_n++;
        /* The place is counted first: its socket has to be closed even if there is
         * no process. */
        if (search->pids[i] < 0)
            return fail_with(error, "no process for a stage: %s",
                             strerror(errno));
    }
    /* The first byte of each stage says that it is open, and of stage 0 that the root
     * was played. */
    return await(search, error);
}

/* ---- in their order --------------------------------------------------------- */

static void note_faults(struct search *search, const struct search_node *node)
{
    const struct search_node *nodes = search->shared->nodes;

    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++) {
        struct search_found *found = &search->result->faults[i];

        /* The first schedule that shows a fault is a shortest one, because nodes come
         * by their length; of those of one length it is the first in the moves' order,
         * whoever has played it. */
        if (!(node->faults & (1u << i)) || found->is_found)
            continue;
        found->is_found = true;
        found->n = node->used.of[SEARCH_MOVES];
        for (const struct search_node *each = node;
             each->used.of[SEARCH_MOVES] > 0; each = &nodes[each->parent])
            found->moves[each->used.of[SEARCH_MOVES] - 1] = each->move;
    }
}

/* Schedules of the next length are behind those of this one. */
static void go_on_from(struct search *search, const struct search_node *node)
{
    struct search_shared *shared = search->shared;

    for (unsigned i = 0; i < node->moves_n; i++) {
        uint32_t number = node->children[i];
        const struct search_node *child = &shared->nodes[number];
        bool is_new;

        /* A child of 0 was not allowed; or the search was stopped before it, and then
         * nothing is whole. */
        if (number == 0)
            continue;
        /* A schedule that led beyond the bounds was played, but it is none of those
         * that are told of. */
        search->result->schedules++;
        if (number == NODE_BEYOND)
            continue;
        /* Faults count even where the state is an old one: the way there is what a
         * reader needs. */
        note_faults(search, child);
        /* The state is taken as seen by what was played at this length and before,
         * never by what stages played ahead: so the result is the same with any number
         * of stages. */
        is_new = search_table_put(&search->seen, child);
        if ((!is_new && !shared->bounds.no_reduction) ||
            search_is_end(&shared->bounds, child))
            continue;
        if (child->used.of[SEARCH_MOVES] < shared->bounds.moves)
            shared->queue[shared->queue_n++] = number;
    }
    search->result->states = search->seen.n;
}

static bool run(struct search *search, struct fail *error)
{
    struct search_shared *shared = search->shared;
    uint32_t done = 0, end;
    bool good = true;

    if (shared->bounds.seed) {
        good = play_queue(search, error);
        random_look(shared, search->result);
        return good;
    }
    /* The queue is a list of all lengths: DONE stands before those of the length
     * under way. */
    if (shared->bounds.moves > 0)
        shared->queue[shared->queue_n++] = NODE_ROOT;
    note_faults(search, &shared->nodes[NODE_ROOT]);
    while (good && done < shared->queue_n && !shared->stop) {
        uint64_t before = search->result->schedules;

        /* The queue grows behind END while the loop below goes through it. */
        end = shared->queue_n;
        good = play_queue(search, error);
        for (; done < end; done++)
            go_on_from(search, &shared->nodes[shared->queue[done]]);
        /* Stages have counted NEXT beyond the queue to see that it is empty. */
        shared->next = done;
        /* A length counts if it was played whole, and has schedules at all. */
        if (!shared->stop && search->result->schedules > before)
            search->result->moves++;
        if (!is_wanted(search))
            shared->stop = true;
    }
    return good;
}

/* ---- confirmed ---------------------------------------------------------- */

/* Plays what was found once more in fresh processes, and takes back what does not come out
 * again: what actors keep from one schedule to the next would be a fault of ours. False and
 * a text: that was so, or it could not be played. */
static bool confirm(const struct stage_scene *scene,
                    const struct search_bounds *bounds,
                    struct search_result *result, struct fail *error)
{
    bool good = true;

    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++) {
        struct search_found *found = &result->faults[i], all;
        struct fail why = {"it does not break"};
        struct stage *stage;
        unsigned faults = 0;
        bool goes_on = true;

        if (!found->is_found)
            continue;
        /* The found schedule goes behind the one that the search began from, as it
         * was played. */
        all.n = bounds->from_n + found->n;
        memcpy(all.moves, bounds->from, sizeof(all.moves));
        memcpy(all.moves + bounds->from_n, found->moves,
               found->n * sizeof(found->moves[0]));
        stage = stage_open(scene, &why);
        if (!stage)
            return fail_with(error, "%s", why.text);
        /* The fault is judged after each move, because it may be there for a moment
         * only; the last move must show it. A move that is refused is the end, because
         * the fault would be one of the others alone. */
        for (size_t j = 0; j < all.n && goes_on; j++) {
            goes_on = stage_move(stage, all.moves[j], &why);
            faults = goes_on ? stage_faults(stage) : 0;
        }
        if (stage_is_broken(stage, &why))
            faults = 0;
        stage_close(stage);
        if (faults & (1u << i))
            continue;
        (void)fail_with(
            error,
            "an error of the stage's own, and no finding: %s by "
            "'%s' does not come out again in fresh processes: %.199s",
            stage_fault_word(i), search_text(&all), why.text);
        found->is_found = good = false;
    }
    return good;
}

static struct search_shared *share(const struct stage_scene *scene,
                                   const struct search_bounds *bounds)
{
    /* NORESERVE: memory for a million nodes is taken only as they come. */
    struct search_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (shared == MAP_FAILED)
        return NULL;
    shared->scene = *scene;
    shared->bounds = *bounds;
    /* Random schedules are told apart by their draw: no two of them are taken for one. */
    shared->bounds.no_reduction |= bounds->seed != 0;
    if (shared->bounds.moves > STAGE_MOVES_MAX - bounds->from_n)
        shared->bounds.moves = STAGE_MOVES_MAX - bounds->from_n;
    /* Buyers are not alike with several segments: each chooses one by chance. */
    /* Alike means that letters can be changed: what comes before may have told
     * them apart. */
    shared->bounds.are_alike = scene->segments <= 1 && bounds->from_n == 0;
    for (unsigned i = 1; i < scene->buyers; i++)
        if (memcmp(&scene->roles[i], &scene->roles[0],
                   sizeof(scene->roles[0])) != 0)
            shared->bounds.are_alike = false;
    shared->nodes_n = NODE_ROOT + 1;
    shared->nodes[NODE_ROOT].move.actor = shared->nodes[NODE_ROOT].last = -1;
    shared->nodes[NODE_ROOT].state = 1;
    return shared;
}

bool search_run(const struct stage_scene *scene,
                const struct search_bounds *bounds, unsigned stages,
                search_progress *progress, void *ctx,
                struct search_result *result, struct fail *error)
{
    struct search search = {.shared = share(scene, bounds),
                            .seen = {.bounds = bounds},
                            .progress = progress,
                            .ctx = ctx,
                            .result = result};
    bool good;

    *result = (struct search_result){.is_whole = false};
    if (!search.shared)
        return fail_with(error, "no memory for the search");
    good = open_stages(&search, stages, error) && run(&search, error);
    /* A search that was stopped by its caller, by a full memory, or by an error has not
     * seen all; nor has one that was played to the end of a room for moves that is less
     * than the bound on them. */
    result->is_whole = good && !search.shared->stop &&
                       (bounds->moves == search.shared->bounds.moves ||
                        result->moves < search.shared->bounds.moves);
    /* The stop must be set before the lines are closed: a stage that is in the middle
     * of its work looks at the one, a stage that waits at the other. */
    search.shared->stop = true;
    for (unsigned i = 0; i < search.stages_n; i++)
        (void)close(search.lines[i].fd);
    for (unsigned i = 0; i < search.stages_n; i++)
        /* Stages end within a move. Their pids are waited for, because the memory below
         * is theirs too. */
        while (search.pids[i] > 0 && waitpid(search.pids[i], NULL, 0) < 0 &&
               errno == EINTR)
            continue;
    (void)munmap(search.shared, sizeof(*search.shared));
    free(search.seen.places);
    return good && confirm(scene, bounds, result, error);
}

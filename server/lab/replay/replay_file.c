/*
 * See game.h. Each file is read twice: first for the names of its actors,
 * which need a column each, then for its events, which may be many.
 */
#include "server/lab/replay/game.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/lab/fail.h"
#include "server/lab/picture/draw.h"
#include "server/lab/stage/stage_options.h"
#include "server/lab/timeline/timeline.h"

enum { LANES_MAX = 5 }; /* more would be too narrow: a line each instead */

struct source {
    struct timeline *timeline;
    struct timeline_head head;
    struct timeline_event next;
    enum timeline_line line; /* what NEXT is: an event, or there is none */
    struct timeline_verdict verdict;
    struct stage_move moves[STAGE_MOVES_MAX];
    int moves_n;
    struct fail error;
    struct fail cut; /* why the file is no whole timeline; "" = it is one */
};

struct picture {
    struct source *sources;
    size_t n;
    int64_t until;
    unsigned lanes_n; /* LANES_MAX + 1: too many */
    char lanes[LANES_MAX][TIMELINE_NAME_BYTES + 2];
    unsigned look;
};

static bool open_source(struct source *source, const char *path)
{
    source->timeline = timeline_open(path, &source->head, &source->error);
    source->moves_n =
        stage_parse(source->head.schedule, source->moves, &source->error);
    if (source->timeline && source->moves_n < 0)
        (void)fail_with(&source->error,
                        "%s:1: \"schedule\" of the head is wrong", path);
    return source->timeline && source->moves_n >= 0;
}

static void go_on(struct source *source)
{
    source->line =
        timeline_next(source->timeline, &source->next, &source->verdict);
}

/* "worker-1"; with two files "2:worker-1". */
static void name_lane(const struct picture *picture, size_t i,
                      const char *actor, char name[TIMELINE_NAME_BYTES + 2])
{
    (void)snprintf(name, TIMELINE_NAME_BYTES + 2,
                   picture->n > 1 ? "%zu:%s" : "%.0zu%s",
                   picture->n > 1 ? i + 1 : 0, actor);
}

/* -1: the world, or there are too many. */
static signed char find_lane(const struct picture *picture, size_t i,
                             const char *actor)
{
    char name[TIMELINE_NAME_BYTES + 2];

    name_lane(picture, i, actor, name);
    for (unsigned lane = 0; lane < LANES_MAX && lane < picture->lanes_n; lane++)
        if (strcmp(picture->lanes[lane], name) == 0)
            return (signed char)lane;
    return -1;
}

static void add_lane(struct picture *picture, size_t i, const char *actor)
{
    if (actor[0] == '\0' || picture->lanes_n > LANES_MAX ||
        find_lane(picture, i, actor) >= 0)
        return;
    if (picture->lanes_n < LANES_MAX)
        name_lane(picture, i, actor, picture->lanes[picture->lanes_n]);
    picture->lanes_n++;
}

/* The first reading. False: the file is not there, or no timeline. */
static bool find_actors(struct picture *picture, size_t i, const char *path)
{
    struct source *source = &picture->sources[i];

    if (!open_source(source, path))
        return false;
    for (unsigned actor = 0; actor < source->head.actors_n; actor++)
        add_lane(picture, i, source->head.actors[actor]);
    for (go_on(source); source->line == TIMELINE_LINE_EVENT; go_on(source))
        add_lane(picture, i, source->next.actor);
    if (source->line == TIMELINE_LINE_BROKEN)
        source->cut = source->error;
    timeline_close(source->timeline);
    return open_source(source, path);
}

/* ---- drawing ---------------------------------------------------------------- */

/* SINCE_US: when its timeline began, after the first of them. */
static void draw_event(const struct picture *picture, size_t i,
                       const char *move, uint64_t since_us)
{
    const struct timeline_event *event = &picture->sources[i].next;
    bool has_lanes = picture->lanes_n > 0 && picture->lanes_n <= LANES_MAX;
    struct stage_step step = {.at_us = event->at_us + since_us};
    char who[TIMELINE_NAME_BYTES + 2];

    step.actor = find_lane(picture, i, event->actor);
    (void)snprintf(step.name, sizeof(step.name), "%s", event->step);
    (void)snprintf(step.sent, sizeof(step.sent), "%s", event->sent);
    (void)snprintf(step.reply, sizeof(step.reply), "%s", event->reply);
    (void)snprintf(step.mark, sizeof(step.mark), "%s", event->mark);
    (void)snprintf(step.who, sizeof(step.who), "%.11s", event->part);
    if (!has_lanes && event->actor[0]) {
        name_lane(picture, i, event->actor, who);
        (void)snprintf(step.who, sizeof(step.who), "%.11s", who);
        step.actor = 0;
    }
    if (event->phase == TIMELINE_BEFORE)
        (void)snprintf(step.reply, sizeof(step.reply), "(no answer)");
    if (event->phase == TIMELINE_DROPPED)
        (void)snprintf(step.reply, sizeof(step.reply),
                       "%" PRIu64 " events are missing here", event->dropped);
    draw_step(stdout, &step, move, has_lanes ? picture->lanes_n : 1,
              picture->look);
}

/* The source whose next event comes first; NULL: none has one. */
static struct source *first_of(const struct picture *picture)
{
    struct source *first = NULL;

    for (size_t i = 0; i < picture->n; i++) {
        struct source *each = &picture->sources[i];

        if (each->line == TIMELINE_LINE_EVENT &&
            (!first || each->head.started_us + each->next.at_us <
                           first->head.started_us + first->next.at_us))
            first = each;
    }
    return first;
}

static void draw_events(struct picture *picture)
{
    uint64_t began_us = UINT64_MAX;
    struct source *source;
    unsigned last = 0;
    int64_t n = 0;

    for (size_t i = 0; i < picture->n; i++) {
        go_on(&picture->sources[i]);
        if (picture->sources[i].head.started_us < began_us)
            began_us = picture->sources[i].head.started_us;
    }
    while ((source = first_of(picture)) != NULL &&
           !stage_options_interrupted()) {
        unsigned move = source->next.move;
        char text[4] = "";

        n = source->moves_n > 0 ? move : n + 1;
        if (picture->until >= 0 && n > picture->until)
            return;
        if (move > 0 && move != last && move <= (unsigned)source->moves_n)
            (void)stage_move_text(source->moves[move - 1], text);
        last = move;
        draw_event(picture, (size_t)(source - picture->sources),
                   source->moves_n > 0 ? text : NULL,
                   source->head.started_us - began_us);
        go_on(source);
    }
}

/* A word of another version of the stage has no text here. */
static unsigned bits_of(unsigned n, char words[][TIMELINE_NAME_BYTES])
{
    unsigned faults = 0;

    for (unsigned i = 0; i < n; i++)
        for (enum stage_fault fault = 0; fault < STAGE_FAULT_N; fault++)
            if (strcmp(stage_fault_word(fault), words[i]) == 0)
                faults |= 1u << fault;
    return faults;
}

static void draw_end(const struct picture *picture, struct source *source)
{
    struct timeline_verdict *verdict = &source->verdict;
    struct stage_verdict found = {
        .faults = bits_of(verdict->faults_n, verdict->faults),
        .remarks = bits_of(verdict->remarks_n, verdict->remarks)};

    if (verdict->dropped > 0)
        draw_say(stdout, picture->look,
                 "%" PRIu64 " events were dropped: the disk was too slow\n",
                 verdict->dropped);
    if (!verdict->is_known) {
        draw_say(stdout, picture->look,
                 "verdict: nobody has looked; stockade audit does\n");
        return;
    }
    draw_say(stdout, picture->look,
             "stock %" PRId64 ", %" PRId64 " sold in %" PRId64 " order%s\n",
             verdict->stock, verdict->sold, verdict->orders,
             verdict->orders == 1 ? "" : "s");
    if (found.faults != 0 || verdict->faults_n == 0)
        draw_verdict(stdout, &found, verdict->over, picture->look);
    else
        draw_say(stdout, picture->look, "verdict: %s\n", verdict->faults[0]);
}

/* The verdict is that of the first reading, also where --until ends before it. */
static int status_of(const struct source *source)
{
    if (source->cut.text[0] || !source->verdict.is_known)
        return 2;
    return source->verdict.faults_n > 0;
}

int replay_files(char *const paths[], size_t n, int64_t until, unsigned look)
{
    static struct source sources[REPLAY_FILES_MAX];
    struct picture picture = {
        .sources = sources, .n = n, .until = until, .look = look};
    const char *names[LANES_MAX];
    int status = 0;

    for (size_t i = 0; i < n; i++)
        if (!find_actors(&picture, i, paths[i]))
            return fail_to_run("replay: %s", sources[i].error.text);
    for (size_t i = 0; i < n; i++) {
        const struct timeline_head *head = &sources[i].head;

        printf("%s%s%s %s %s %s\n", head->source, head->scene[0] ? " " : "",
               head->scene, head->lock, head->settings, head->schedule);
    }
    for (unsigned i = 0; i < LANES_MAX; i++)
        names[i] = picture.lanes[i];
    if (picture.lanes_n == 0 || picture.lanes_n > LANES_MAX)
        draw_names(stdout, (const char *[]){"who"}, 1, look);
    else
        draw_names(stdout, names, picture.lanes_n, look);
    draw_events(&picture);
    for (size_t i = 0; i < n; i++) {
        struct source *source = &sources[i];

        if (source->line == TIMELINE_LINE_VERDICT)
            draw_end(&picture, source);
        (void)fflush(stdout);
        if (source->cut.text[0])
            (void)fail_aloud("replay: %s", source->cut.text);
        if (status_of(source) > status)
            status = status_of(source);
        timeline_close(source->timeline);
    }
    return status;
}

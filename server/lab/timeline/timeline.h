/*
 * Timelines: what happened, as a file of JSON Lines, one object a line. The stage
 * writes one with `--save FILE`, a live instance with `--lab-timeline FILE`;
 * `stockade replay FILE` draws it; and others can check it.
 *
 *     {"timeline":1,"source":"stage","lock":"none","actors":["a","b"],"started":...}
 *     {"at_us":0,"phase":"step","outcome":"ok","move":1,"actor":"a","step":...}
 *     ...
 *     {"verdict":["oversold"],"over":true,...,"events":12,"dropped":0}
 *
 * The first line is the head, the last one the verdict, all others are events. What is
 * empty is left out. schema.json says which members there are, and which have to be
 * there. A reader ignores members that it does not know, and refuses another version of
 * the format.
 *
 * A file without a verdict line is cut: its writer was killed, or the disk was full.
 * All lines before the cut are good.
 */
#ifndef TIMELINE_H
#define TIMELINE_H

#include <stdio.h>

#include "server/lab/scene/scene.h"

enum {
    TIMELINE_VERSION = 1,
    TIMELINE_NAME_BYTES = 32, /* of an actor, with the NUL */
};

/* The head: what was played or served. A text may be NULL. */
struct timeline_head {
    const char *source;   /* "stage", or "serve": a live instance */
    const char *scene;    /* name of the experiment, or HOST:PID */
    const char *lock;     /* as in --lock NAME */
    const char *settings; /* the others, as flags */
    const char *schedule; /* of the stage: the moves */
    unsigned actors_n;    /* a, b, ...; 0 = not known yet: a live instance */
    /* "started": Unix time. Of the stage, by its own clock: so the same schedule gives the
     * same bytes. */
    uint64_t started_us;
};

/* A step that was begun and has ended, then; a note, if the step has no name; or a gap. */
struct timeline_event {
    struct stage_step step;          /* its actor does not count */
    char actor[TIMELINE_NAME_BYTES]; /* "" = the world */
    uint64_t took_us;                /* of a live instance; 0 = not known */
    uint64_t dropped; /* so many events are missing here; 0 = it is none */
    bool is_lost;     /* nobody has heard the reply: it was done, or not */
};

/* Each writes one line. Whether that worked, ferror() and fclose() say. */
void timeline_write_head(FILE *out, const struct timeline_head *head);
void timeline_write_event(FILE *out, const struct timeline_event *event);

/* A command as people write it into TEXT: the N WORDS with blanks between, cut; of a script
 * (EVAL), of whose text there are PARTS_N words, none or one of it. */
void timeline_tell_words(const char *const words[], size_t n, size_t parts_n,
                         char text[], size_t size);

#endif

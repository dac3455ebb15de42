/*
 * Timelines: what happened, as a file of JSON Lines, one object a line. The stage
 * writes one with `--save FILE`, a live instance with `--lab-timeline FILE`;
 * `stockade replay FILE` draws it; and others can check it.
 *
 *     {"timeline":1,"source":"stage","lock":"none","actors":["a","b"],"started":...}
 *     {"at_us":0,"phase":"step","outcome":"ok","move":1,"actor":"a","step":...}
 *     ...
 *     {"verdict":["oversold"],"over":true,"events":12,"dropped":0,...}
 *
 * The first line is the head, the last one the verdict, all others are events. Each
 * line has the members of its struct below; what is empty is left out. schema.json
 * says which have to be there. A reader ignores members that it does not know, and
 * refuses another version of the format.
 *
 * A file without a verdict line is cut: its writer was killed, or the disk was full.
 * All lines before the cut are good.
 */
#ifndef TIMELINE_H
#define TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    TIMELINE_VERSION = 1,
    TIMELINE_ACTORS_MAX = 64,
    TIMELINE_FAULTS_MAX = 16,
    TIMELINE_NAME_BYTES = 32, /* of an actor, with the NUL */
};

/* The head: what was played or served. */
struct timeline_head {
    char source[16]; /* "stage", or "serve": a live instance */
    char scene[64];  /* name of the experiment, or HOST:PID of the instance */
    char lock[256];  /* as in --lock NAME */
    char settings[256]; /* the others, as flags */
    char schedule[320]; /* of the stage: the moves */
    /* Actors of the stage: a live instance does not know them yet. */
    unsigned actors_n;
    char actors[TIMELINE_ACTORS_MAX][TIMELINE_NAME_BYTES];
    /* "started": Unix time. Of the stage, by its own clock: so the same schedule gives the
     * same bytes. */
    uint64_t started_us;
};

/* Kinds of events, each with its word in the file. */
#define TIMELINE_PHASE_MAP(X)                                                  \
    X(TIMELINE_STEP, "step")       /* begun, and answered */                   \
    X(TIMELINE_NOTE, "note")       /* no step: what became of something */     \
    X(TIMELINE_DROPPED, "dropped") /* here so many events are missing */

/* Outcomes of a step, told by the reply. */
#define TIMELINE_OUTCOME_MAP(X)                                                \
    X(TIMELINE_OK, "ok")                                                       \
    X(TIMELINE_FAILED, "failed")   /* it is certain that nothing was done */   \
    X(TIMELINE_UNKNOWN, "unknown") /* it may have been done */

#define TIMELINE_ENUM(name, word) name,
enum timeline_phase { TIMELINE_PHASE_MAP(TIMELINE_ENUM) TIMELINE_PHASE_N };
enum timeline_outcome {
    TIMELINE_OUTCOME_MAP(TIMELINE_ENUM) TIMELINE_OUTCOME_N
};
#undef TIMELINE_ENUM

struct timeline_event {
    uint64_t at_us;   /* when it ended, since "started" */
    uint64_t took_us; /* of a live instance's step; 0 = not known */
    enum timeline_phase phase;
    enum timeline_outcome outcome;
    uint64_t dropped;                /* TIMELINE_DROPPED: how many */
    unsigned move;                   /* of the schedule, from 1; 0 = none */
    char actor[TIMELINE_NAME_BYTES]; /* "" = the world */
    char part[16];                   /* of the actor: "watchdog" */
    char step[24];                   /* "set-nx" */
    char key[64];                    /* the lock, cut; "product 1" */
    char sent[320];                  /* in plain words, cut */
    char reply[96];
    char mark[80]; /* what is wrong about it, in words */
};

/* The end: what broke, and what is in the ledger. */
struct timeline_verdict {
    bool is_known; /* else "verdict" is null: nobody has looked */
    bool over;     /* all that was begun has ended */
    unsigned faults_n;
    char faults[TIMELINE_FAULTS_MAX][TIMELINE_NAME_BYTES];
    unsigned remarks_n;
    char remarks[TIMELINE_FAULTS_MAX][TIMELINE_NAME_BYTES];
    int64_t stock, sold, orders; /* if it is known */
    uint64_t events, dropped;
};

/* Each writes one line. Whether that worked, ferror() and fclose() say. */
void timeline_write_head(FILE *out, const struct timeline_head *head);
void timeline_write_event(FILE *out, const struct timeline_event *event);
void timeline_write_verdict(FILE *out, const struct timeline_verdict *verdict);

/* A command as people write it into TEXT: the N WORDS with blanks between, cut; of a script
 * (EVAL), of whose text there are PARTS_N words, none or one of it. */
void timeline_tell_words(const char *const words[], size_t n, size_t parts_n,
                         char text[], size_t size);

/* The outcome that a reply of the step hooks means: "(no reply)" is unknown. */
enum timeline_outcome timeline_outcome_of(const char *reply);

#endif

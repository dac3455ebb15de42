/* The files of `stockade lab serve` share this: lab_serve.c listens and answers, api.c
 * reads what is asked of games, visitors.c has them. */
#ifndef LAB_SERVE_H
#define LAB_SERVE_H

#include <stdbool.h>
#include <stddef.h>

#include "server/lab/base/fail.h"

/* The command: gets ARGV from its name on, and returns the exit status. */
int lab_serve_main(int argc, char *argv[]);

/* ---- games (visitors.c) ------------------------------------------------------ */

/*
 * The games of a page's visitors: a process for each, which plays by lines
 * (server/lab/replay/game.h). A stage is for one thread, forks, and stops its own
 * processes: none of that may happen to whoever serves others.
 *
 * Any thread may call all of this.
 */

enum {
    VISITORS_MAX = 16, /* a search is one, and a judge, too */
    VISITORS_ID_BYTES = 33,
    VISITORS_UNUSED_S = 10,    /* a game that nobody has asked for so long ends,
                               if its place is wanted */
    VISITORS_SEARCHES_MAX = 8, /* each wants all processors */
    VISITORS_RUNS_MAX = 2,     /* under load, which wants the machine */
};

enum visitors_kind { VISITORS_GAME, VISITORS_SEARCH, VISITORS_RUN };

/* What became of a call, as a status of HTTP. */
enum {
    VISITORS_OK = 200,
    VISITORS_NONE = 404,   /* there is no such game, or none any more */
    VISITORS_BUSY = 429,   /* there are as many runs, or as many calls that
                              wait for the game, as there may be */
    VISITORS_BROKEN = 500, /* its process gave no answer, and is gone */
    VISITORS_FULL = 503,   /* and all were asked something a moment ago */
};

/* Once, before all else, while there is one thread. False and a text. */
bool visitors_open(struct fail *error);

/* Starts `stockade ARGS...`, up to a NULL, in a folder of its own, where TEXT, if it is
 * not NULL, is the file VISITORS_LOCK. Into ID its name, and into *ANSWER its first line,
 * to be freed; of VISITORS_BROKEN NULL, or a line that says why. If all places are taken,
 * the game that was unused for the longest time makes room, after VISITORS_UNUSED_S:
 * browsers that are killed say no goodbye, and a page whose game has ended plays the same
 * moves in a new one. */
#define VISITORS_LOCK "mine.lock"
unsigned visitors_begin(enum visitors_kind kind, char *const args[],
                        const char *text, char id[VISITORS_ID_BYTES],
                        char **answer);

/* Sends LINE, which has no newline, and waits for the answer: to be freed; of
 * VISITORS_BROKEN as above. A run that is done has given its last one, and is gone. */
unsigned visitors_ask(const char *id, const char *line, char **answer);

/* VISITORS_OK, _NONE, or _BUSY. */
unsigned visitors_end(const char *id);

/* Ends all: for good, because none can begin any more. */
void visitors_close(void);

/* ---- requests (api.c) --------------------------------------------------------- */

struct api_reply {
    unsigned status; /* of HTTP */
    char *text;      /* JSON, to be freed; NULL = none */
    char begun
        [VISITORS_ID_BYTES]; /* a game that nobody knows of before; "" = none */
};

enum { API_BODY_BYTES_MAX = 32 * 1024 /* a lock's text, and more */ };

/* METHOD of PATH, "/api/lab/games/...", with the N bytes of BODY, which are followed by a
 * NUL, from the socket PEER. Waits for a game to answer. */
struct api_reply api_call(const char *method, const char *path,
                          const char *body, size_t n, int peer);

/* Nobody waits at the other end. */
bool api_has_left(int peer);

#endif

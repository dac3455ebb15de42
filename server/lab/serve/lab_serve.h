/* The files of `stockade lab serve` share this: lab_serve.c listens and answers, api.c
 * reads what is asked of games, visitors.c has them. */
#ifndef LAB_SERVE_H
#define LAB_SERVE_H

#include <stddef.h>

#include "server/lab/serve/visitors.h"

/* The command: gets ARGV from its name on, and returns the exit status. */
int lab_serve_main(int argc, char *argv[]);

struct api_reply {
    unsigned status; /* of HTTP */
    char *text;      /* JSON, to be freed; NULL = none */
    char begun
        [VISITORS_ID_BYTES]; /* a game that nobody knows of before; "" = none */
};

enum { API_BODY_BYTES_MAX = 32 * 1024 /* a lock's text, and more */ };

/* METHOD of PATH, "/api/lab/games/...", with the N bytes of BODY, which are followed by a
 * NUL. Waits for a game to answer. */
struct api_reply api_call(const char *method, const char *path,
                          const char *body, size_t n);

#endif

/* See lab_serve.h. */
#include "server/lab/serve/lab_serve.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/lab/servers/folder.h"

enum {
    ANSWER_MS = 60000, /* a hint takes half of it at most */
    ANSWER_BYTES_MAX = 1 << 20,
    UNUSED_MS = VISITORS_UNUSED_S * 1000,
    RUN_UNUSED_MS = VISITORS_RUN_UNUSED_S * 1000,
};

/* One game. A call holds its mutex while it waits for the answer: each game has one
 * conversation. */
struct visitor {
    uint64_t used_ms; /* 0 = free; by `all` */
    pthread_mutex_t mutex;
    enum visitors_kind kind;    /* by `all` */
    pid_t pid;                  /* 0 = no process */
    int lines;                  /* its input and output */
    char id[VISITORS_ID_BYTES]; /* "" = free; by `all` */
};

static struct visitor visitors[VISITORS_MAX];
static pthread_mutex_t all = PTHREAD_MUTEX_INITIALIZER;
static bool is_open;         /* by `all` */
static struct folder folder; /* each game has one in it */

bool visitors_open(struct fail *error)
{
    if (!folder_open(&folder, FOLDER_IN_MEMORY, "lab", error))
        return false;
    for (int i = 0; i < VISITORS_MAX; i++)
        (void)pthread_mutex_init(&visitors[i].mutex, NULL);
    is_open = true;
    return true;
}

/* ---- one process -------------------------------------------------------- */

static void name_place(const struct visitor *visitor, const char *file,
                       char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/%td%s", folder.path, visitor - visitors,
                   file);
}

static bool start(struct visitor *visitor, char *const args[])
{
    char place[PATH_MAX];
    sigset_t none;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    name_place(visitor, "", place);
    visitor->pid = fork();
    /* In the child nothing may be called that takes a lock. Signals are blocked here, and
     * must not be in a game. */
    if (visitor->pid == 0) {
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        if (chdir(place) == 0 && dup2(ends[1], STDIN_FILENO) >= 0 &&
            dup2(ends[1], STDOUT_FILENO) >= 0)
            (void)execv("/proc/self/exe", args);
        _exit(127);
    }
    (void)close(ends[1]);
    visitor->lines = ends[0];
    if (visitor->pid > 0)
        return true;
    visitor->pid = 0;
    (void)close(ends[0]);
    return false;
}

/* The end of its input ends it; the signal ends a hint that it searches for. */
static void stop(struct visitor *visitor)
{
    char place[PATH_MAX];

    if (visitor->pid != 0) {
        (void)close(visitor->lines);
        (void)kill(visitor->pid, SIGTERM);
        while (waitpid(visitor->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    visitor->pid = 0;
    name_place(visitor, "", place);
    folder_remove(place);
}

/* A line without its end, to be freed. NULL: there came none in time. */
static char *read_line(int fd)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    uint64_t end_ms = clock_ms() + ANSWER_MS, now_ms;
    char *text = malloc(ANSWER_BYTES_MAX);
    ssize_t got = 1;

    for (size_t n = 0; text && got > 0 && n < ANSWER_BYTES_MAX;) {
        now_ms = clock_ms();
        if (now_ms >= end_ms || poll(&input, 1, (int)(end_ms - now_ms)) == 0)
            break;
        do
            got = read(fd, text + n, ANSWER_BYTES_MAX - n);
        while (got < 0 && errno == EINTR);
        n += got > 0 ? (size_t)got : 0;
        if (got > 0 && text[n - 1] == '\n') {
            text[n - 1] = '\0';
            return text;
        }
    }
    free(text);
    return NULL;
}

/* ---- all of them -------------------------------------------------------- */

/* Under `all`. */
static unsigned runs_under_way(uint64_t now_ms)
{
    unsigned n = 0;

    for (int i = 0; i < VISITORS_MAX; i++)
        n += visitors[i].id[0] && visitors[i].kind == VISITORS_RUN &&
             now_ms <= visitors[i].used_ms + RUN_UNUSED_MS;
    return n;
}

/* The place of a new game, locked; NULL: there is none, and *STATUS says why. */
static struct visitor *take_place(enum visitors_kind kind,
                                  char id[VISITORS_ID_BYTES],
                                  enum visitors_status *status)
{
    struct visitor *place = NULL;
    uint8_t dice[(VISITORS_ID_BYTES - 1) / 2];
    uint64_t now_ms = clock_ms();

    *status = VISITORS_FULL;
    if (getrandom(dice, sizeof(dice), 0) != (ssize_t)sizeof(dice))
        return NULL;
    (void)pthread_mutex_lock(&all);
    if (kind == VISITORS_RUN && runs_under_way(now_ms) >= VISITORS_RUNS_MAX)
        *status = VISITORS_BUSY;
    for (int i = 0; i < VISITORS_MAX && is_open && *status != VISITORS_BUSY;
         i++) {
        struct visitor *each = &visitors[i];

        if (now_ms <= each->used_ms + UNUSED_MS && each->id[0])
            continue;
        if ((place && place->used_ms <= each->used_ms) ||
            pthread_mutex_trylock(&each->mutex) != 0)
            continue;
        if (place)
            (void)pthread_mutex_unlock(&place->mutex);
        place = each;
    }
    for (size_t i = 0; i < sizeof(dice) && place; i++)
        (void)snprintf(place->id + 2 * i, 3, "%02x", dice[i]);
    if (place) {
        place->used_ms = now_ms;
        place->kind = kind;
        memcpy(id, place->id, VISITORS_ID_BYTES);
    }
    (void)pthread_mutex_unlock(&all);
    return place;
}

/* Locked; NULL: there is none. */
static struct visitor *find(const char *id)
{
    struct visitor *found = NULL;

    (void)pthread_mutex_lock(&all);
    for (int i = 0; i < VISITORS_MAX && *id; i++)
        if (strcmp(visitors[i].id, id) == 0)
            found = &visitors[i];
    if (found)
        found->used_ms = clock_ms();
    (void)pthread_mutex_unlock(&all);
    if (!found)
        return NULL;
    (void)pthread_mutex_lock(&found->mutex);
    /* Somebody else may have ended it while we waited for its mutex. */
    if (strcmp(found->id, id) == 0)
        return found;
    (void)pthread_mutex_unlock(&found->mutex);
    return NULL;
}

/* Ends the game, whose place is free then. */
static void give_back(struct visitor *visitor)
{
    stop(visitor);
    (void)pthread_mutex_lock(&all);
    visitor->id[0] = '\0';
    visitor->used_ms = 0;
    (void)pthread_mutex_unlock(&all);
}

enum visitors_status visitors_begin(enum visitors_kind kind, char *const args[],
                                    const char *text,
                                    char id[VISITORS_ID_BYTES], char **answer)
{
    enum visitors_status status;
    struct visitor *visitor = take_place(kind, id, &status);
    char place[PATH_MAX];
    bool good;

    *answer = NULL;
    if (!visitor)
        return status;
    stop(visitor); /* the game that had this place, and was not used any more */
    name_place(visitor, "", place);
    good = mkdir(place, 0700) == 0;
    name_place(visitor, "/" VISITORS_LOCK, place);
    good = good && (!text || file_write(place, text, strlen(text))) &&
           start(visitor, args);
    if (good)
        *answer = read_line(visitor->lines);
    /* A game that cannot be played says why, and ends. */
    good = *answer && (strstr(*answer, "\"moves\"") || kind == VISITORS_RUN);
    if (!good)
        give_back(visitor);
    (void)pthread_mutex_unlock(&visitor->mutex);
    return good ? VISITORS_OK : VISITORS_BROKEN;
}

enum visitors_status visitors_ask(const char *id, const char *line,
                                  char **answer)
{
    struct visitor *visitor = find(id);

    *answer = NULL;
    if (!visitor)
        return VISITORS_NONE;
    if (dprintf(visitor->lines, "%s\n", line) > 0)
        *answer = read_line(visitor->lines);
    if (!*answer || (visitor->kind == VISITORS_RUN &&
                     strstr(*answer, "{\"done\": true") == *answer)) {
        give_back(visitor);
    } else {
        /* The player begins to think when the answer is there. */
        (void)pthread_mutex_lock(&all);
        visitor->used_ms = clock_ms();
        (void)pthread_mutex_unlock(&all);
    }
    (void)pthread_mutex_unlock(&visitor->mutex);
    return *answer ? VISITORS_OK : VISITORS_BROKEN;
}

enum visitors_status visitors_end(const char *id)
{
    struct visitor *visitor = find(id);

    if (!visitor)
        return VISITORS_NONE;
    give_back(visitor);
    (void)pthread_mutex_unlock(&visitor->mutex);
    return VISITORS_OK;
}

void visitors_close(void)
{
    (void)pthread_mutex_lock(&all);
    is_open = false;
    (void)pthread_mutex_unlock(&all);
    for (int i = 0; i < VISITORS_MAX; i++) {
        (void)pthread_mutex_lock(&visitors[i].mutex);
        give_back(&visitors[i]);
        (void)pthread_mutex_unlock(&visitors[i].mutex);
    }
    folder_close(&folder);
}

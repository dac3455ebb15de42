/* See lab_serve.h. */
#include "server/lab/serve/lab_serve.h"

#include <errno.h>
#include <fcntl.h>
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

#define COMPLAINT "complaint" /* a game's standard error */

/* One game. */
struct visitor {
    uint64_t used_ms; /* 0 = never */
    enum visitors_kind kind;
    pid_t pid;                  /* 0 = no process */
    int lines;                  /* its input and output */
    bool is_busy;               /* a call has it: it has one conversation */
    char id[VISITORS_ID_BYTES]; /* "" = free */
};

static struct visitor visitors[VISITORS_MAX];
/* Guards what is above, but for .pid and .lines, which are of the call that has it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER; /* one is not busy now */
static bool is_open;
static struct folder folder; /* each game has one in it */

bool visitors_open(struct fail *error)
{
    is_open = folder_open(&folder, FOLDER_IN_MEMORY, "lab", error);
    return is_open;
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
            dup2(ends[1], STDOUT_FILENO) >= 0 &&
            dup2(open(COMPLAINT, O_WRONLY | O_CREAT | O_CLOEXEC, 0600),
                 STDERR_FILENO) >= 0)
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

/* The first line on standard error, without its end, to be freed. NULL: there is none. */
static char *read_complaint(const struct visitor *visitor)
{
    char path[PATH_MAX], *text;
    size_t len;

    name_place(visitor, "/" COMPLAINT, path);
    text = (char *)file_read(path, &len);
    if (text) {
        text[len] = '\0';
        text[strcspn(text, "\n")] = '\0';
    }
    return text;
}

/* ---- all of them -------------------------------------------------------- */

/* The place of a new game, which is busy; NULL: there is none, and *STATUS says why. */
static struct visitor *take_place(enum visitors_kind kind,
                                  char id[VISITORS_ID_BYTES],
                                  enum visitors_status *status)
{
    struct visitor *place = NULL;
    uint8_t dice[(VISITORS_ID_BYTES - 1) / 2];
    uint64_t now_ms = clock_ms();
    unsigned runs = 0;

    *status = VISITORS_FULL;
    if (getrandom(dice, sizeof(dice), 0) != (ssize_t)sizeof(dice))
        return NULL;
    (void)pthread_mutex_lock(&mutex);
    for (int i = 0; i < VISITORS_MAX && is_open; i++) {
        struct visitor *each = &visitors[i];

        runs += each->id[0] && each->kind == VISITORS_RUN &&
                now_ms <= each->used_ms + RUN_UNUSED_MS;
        if (!each->is_busy &&
            (!each->id[0] || now_ms > each->used_ms + UNUSED_MS) &&
            (!place || each->used_ms < place->used_ms))
            place = each;
    }
    if (kind == VISITORS_RUN && runs >= VISITORS_RUNS_MAX) {
        *status = VISITORS_BUSY;
        place = NULL;
    }
    for (size_t i = 0; i < sizeof(dice) && place; i++)
        (void)snprintf(place->id + 2 * i, 3, "%02x", dice[i]);
    if (place) {
        place->is_busy = true;
        place->used_ms = now_ms;
        place->kind = kind;
        memcpy(id, place->id, VISITORS_ID_BYTES);
    }
    (void)pthread_mutex_unlock(&mutex);
    return place;
}

/* The game, which is busy from now on; NULL: there is none. */
static struct visitor *find(const char *id)
{
    struct visitor *found;

    (void)pthread_mutex_lock(&mutex);
    do { /* somebody may end it while we wait for it */
        found = NULL;
        for (int i = 0; i < VISITORS_MAX && *id; i++)
            if (strcmp(visitors[i].id, id) == 0)
                found = &visitors[i];
        if (found)
            found->used_ms = clock_ms();
    } while (found && found->is_busy && pthread_cond_wait(&left, &mutex) == 0);
    if (found)
        found->is_busy = true;
    (void)pthread_mutex_unlock(&mutex);
    return found;
}

/* The call is done with it. The player begins to think when the answer is there. If it ENDS,
 * its place is free then. */
static void leave(struct visitor *visitor, bool ends)
{
    if (ends)
        stop(visitor);
    (void)pthread_mutex_lock(&mutex);
    if (ends)
        visitor->id[0] = '\0';
    visitor->used_ms = ends ? 0 : clock_ms();
    visitor->is_busy = false;
    (void)pthread_cond_broadcast(&left);
    (void)pthread_mutex_unlock(&mutex);
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
    good = *answer &&
           (kind == VISITORS_RUN ? strncmp(*answer, "{\"done\": ", 9) == 0
                                 : strstr(*answer, "\"moves\"") != NULL);
    if (!*answer)
        *answer = read_complaint(visitor);
    leave(visitor, !good);
    return good ? VISITORS_OK : VISITORS_BROKEN;
}

enum visitors_status visitors_ask(const char *id, const char *line,
                                  char **answer)
{
    struct visitor *visitor = find(id);
    bool good;

    *answer = NULL;
    if (!visitor)
        return VISITORS_NONE;
    if (dprintf(visitor->lines, "%s\n", line) > 0)
        *answer = read_line(visitor->lines);
    good = *answer != NULL;
    if (!good)
        *answer = read_complaint(visitor);
    leave(visitor, !good || (visitor->kind == VISITORS_RUN &&
                             strstr(*answer, "{\"done\": true") == *answer));
    return good ? VISITORS_OK : VISITORS_BROKEN;
}

enum visitors_status visitors_end(const char *id)
{
    struct visitor *visitor = find(id);

    if (!visitor)
        return VISITORS_NONE;
    leave(visitor, true);
    return VISITORS_OK;
}

void visitors_close(void)
{
    (void)pthread_mutex_lock(&mutex);
    is_open = false;
    for (int i = 0; i < VISITORS_MAX; i++) {
        while (visitors[i].is_busy)
            (void)pthread_cond_wait(&left, &mutex);
        visitors[i].is_busy = true;
    }
    (void)pthread_mutex_unlock(&mutex);
    for (int i = 0; i < VISITORS_MAX; i++)
        leave(&visitors[i], true);
    folder_close(&folder);
}

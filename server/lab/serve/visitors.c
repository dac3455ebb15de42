/* See lab_serve.h. */
#include "server/lab/serve/lab_serve.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
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
    WAITING_MAX = 4, /* calls for one game */
};

/* How many there may be of a kind. */
static const unsigned most[] = {
    [VISITORS_GAME] = VISITORS_MAX,
    [VISITORS_SEARCH] = VISITORS_SEARCHES_MAX,
    [VISITORS_RUN] = VISITORS_RUNS_MAX,
};

/* One game. */
struct visitor {
    uint64_t used_ms;           /* 0 = never */
    int line;                   /* what it is told, and all that it says */
    pid_t pid;                  /* 0 = no process */
    char id[VISITORS_ID_BYTES]; /* "" = free */
    enum visitors_kind kind;
    bool is_busy;     /* a call has it: it has one conversation */
    unsigned waiting; /* other calls */
};

static struct visitor visitors[VISITORS_MAX];
/* Guards what is above, but for .pid and .line, which are of the call that has it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER; /* one is not busy now */
static bool is_open;
static int closing =
    -1; /* readable when no call may wait for its game any more */
static struct folder folder; /* each game has one in it */

bool visitors_open(struct fail *error)
{
    /* The folder must be opened before any thread: its remover is forked. */
    closing = eventfd(0, EFD_CLOEXEC);
    is_open =
        (closing >= 0 || fail_with(error, "no eventfd: %s", strerror(errno))) &&
        folder_open(&folder, FOLDER_IN_MEMORY, "lab", error);
    return is_open;
}

/* ---- one process -------------------------------------------------------- */

static void name_place(const struct visitor *visitor, const char *file,
                       char path[PATH_MAX])
{
    (void)snprintf(path, PATH_MAX, "%s/%td%s", folder.path, visitor - visitors,
                   file);
}

/* In the child, where nothing may be called that takes a lock. Signals are blocked here,
 * and must not be in a game. */
static _Noreturn void become(const char *place, int line, char *const args[])
{
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* The line is all that a game hears and says; of other files it has the folder's
     * socket alone, which its exec leaves open (folder.h). */
    if (chdir(place) == 0 && dup2(line, STDIN_FILENO) >= 0 &&
        dup2(line, STDOUT_FILENO) >= 0 && dup2(line, STDERR_FILENO) >= 0)
        (void)execv("/proc/self/exe", args);
    _exit(127);
}

static bool start(struct visitor *visitor, char *const args[])
{
    char place[PATH_MAX];
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    /* The place has its name before the fork: the child may call nothing that takes
     * a lock. */
    name_place(visitor, "", place);
    visitor->line = ends[0];
    visitor->pid = fork();
    if (visitor->pid == 0)
        become(place, ends[1], args);
    (void)close(ends[1]);
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
        (void)close(visitor->line);
        (void)kill(visitor->pid, SIGTERM);
        while (waitpid(visitor->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    visitor->pid = 0;
    /* A game that could not be started has a folder all the same. */
    name_place(visitor, "", place);
    folder_remove(place);
}

/* Into *ANSWER the next line, without its end, to be freed; NULL: none that is short enough
 * came in time. False: it is no answer, but a complaint. A game says one line at a time. */
static bool listen_to(const struct visitor *visitor, char **answer)
{
    const uint64_t until_ms = clock_ms() + ANSWER_MS;
    struct pollfd fds[] = {{.fd = visitor->line, .events = POLLIN},
                           {.fd = closing, .events = POLLIN}};
    char *text = malloc(ANSWER_BYTES_MAX), *end = NULL;
    size_t used = 0;
    uint64_t now_ms;
    ssize_t n = text ? 1 : 0;

    /* One limit is for all parts of the line: a game that says a byte now and then has
     * no more time. */
    while (n > 0 && !end) {
        now_ms = clock_ms();
        n = now_ms < until_ms && poll(fds, 2, (int)(until_ms - now_ms)) > 0 &&
                    !fds[1].revents
                ? read(visitor->line, text + used, ANSWER_BYTES_MAX - used)
                : 0;
        end = n > 0 ? memchr(text + used, '\n', (size_t)n) : NULL;
        used += n > 0 ? (size_t)n : 0;
    }
    if (end)
        *end = '\0';
    *answer = end ? strdup(text) : NULL;
    free(text);
    return *answer && (*answer)[0] == '{';
}

/* ---- all of them -------------------------------------------------------- */

/* The place of a new game, which is busy; NULL: there is none, and *STATUS says why. */
static struct visitor *take_place(enum visitors_kind kind,
                                  char id[VISITORS_ID_BYTES], unsigned *status)
{
    struct visitor *place = NULL;
    uint64_t dice[2], now_ms = clock_ms();
    unsigned of_kind = 0;

    *status = VISITORS_FULL;
    /* The dice are thrown before the mutex is taken: they may block. */
    if (getrandom(dice, sizeof(dice), 0) != (ssize_t)sizeof(dice))
        return NULL;
    (void)pthread_mutex_lock(&mutex);
    for (int i = 0; i < VISITORS_MAX; i++)
        of_kind += visitors[i].id[0] && visitors[i].kind == kind;
    for (int i = 0; i < VISITORS_MAX && is_open; i++) {
        struct visitor *each = &visitors[i];
        int64_t unused_ms = (int64_t)(now_ms - each->used_ms);
        /* A kind that is full has the places of its own alone. */
        bool is_allowed =
            of_kind < most[kind] || (each->id[0] && each->kind == kind);

        /* The place is free, or may be had; of these it is the one that was unused for
         * the longest time. */
        if (is_allowed && !each->is_busy &&
            (!each->id[0] || unused_ms > UNUSED_MS) &&
            (!place || each->used_ms < place->used_ms))
            place = each;
    }
    /* The page waits for a place if all are taken, and for a run in a way of its own. */
    if (!place && kind == VISITORS_RUN && of_kind >= most[kind])
        *status = VISITORS_BUSY;
    /* The new id must be there before the mutex is given back: with it nobody finds the
     * old game any more. */
    if (place) {
        (void)snprintf(id, VISITORS_ID_BYTES, "%016" PRIx64 "%016" PRIx64,
                       dice[0], dice[1]);
        memcpy(place->id, id, VISITORS_ID_BYTES);
        place->is_busy = true;
        place->used_ms = now_ms;
        place->kind = kind;
    }
    (void)pthread_mutex_unlock(&mutex);
    return place;
}

/* The game, which is busy from now on; NULL: *STATUS says why. */
static struct visitor *find(const char *id, unsigned *status)
{
    struct visitor *found;
    bool waits = false;

    *status = VISITORS_NONE;
    (void)pthread_mutex_lock(&mutex);
    for (;;) { /* somebody may end it while we wait for it */
        found = NULL;
        for (int i = 0; i < VISITORS_MAX && *id; i++)
            if (strcmp(visitors[i].id, id) == 0)
                found = &visitors[i];
        /* A call that waits uses the game: its place must not be taken meanwhile. */
        if (found)
            found->used_ms = clock_ms();
        if (!found || !found->is_busy)
            break;
        /* Each call that waits has a connection, and there are few. */
        if (!waits && found->waiting == WAITING_MAX) {
            *status = VISITORS_BUSY;
            found = NULL;
            break;
        }
        waits = true;
        found->waiting++;
        (void)pthread_cond_wait(&left, &mutex);
        found->waiting--;
    }
    if (found)
        found->is_busy = true;
    (void)pthread_mutex_unlock(&mutex);
    return found;
}

/* The call is done with it. The player begins to think when the answer is there. If it ENDS,
 * its place is free then. */
static void leave(struct visitor *visitor, bool ends)
{
    /* The mutex is not held: a process may take its time to end, and other calls must
     * not wait for it. */
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

unsigned visitors_begin(enum visitors_kind kind, char *const args[],
                        const char *text, char id[VISITORS_ID_BYTES],
                        char **answer)
{
    unsigned status;
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
    /* A game that cannot be played says why, and ends. */
    /* The first answer tells a game from a run: one in place of the other is refused. */
    good = good && (!text || file_write(place, text, strlen(text))) &&
           start(visitor, args) && listen_to(visitor, answer) &&
           (kind == VISITORS_RUN ? strncmp(*answer, "{\"done\": ", 9) == 0
                                 : strstr(*answer, "\"moves\"") != NULL);
    leave(visitor, !good);
    return good ? VISITORS_OK : VISITORS_BROKEN;
}

unsigned visitors_ask(const char *id, const char *line, char **answer)
{
    unsigned status;
    struct visitor *visitor = find(id, &status);
    bool good;

    *answer = NULL;
    if (!visitor)
        return status;
    (void)dprintf(visitor->line, "%s\n", line);
    good = listen_to(visitor, answer);
    /* A game that gave no answer in time must end: a late one would be taken for that
     * of the next call. */
    leave(visitor, !good || (visitor->kind == VISITORS_RUN &&
                             strncmp(*answer, "{\"done\": true", 13) == 0));
    return good ? VISITORS_OK : VISITORS_BROKEN;
}

unsigned visitors_end(const char *id)
{
    unsigned status;
    struct visitor *visitor = find(id, &status);

    if (!visitor)
        return status;
    leave(visitor, true);
    return VISITORS_OK;
}

void visitors_close(void)
{
    (void)pthread_mutex_lock(&mutex);
    is_open = false;
    /* A call keeps its game until the answer is there, which may take a minute: all of
     * them give up now. */
    (void)eventfd_write(closing, 1);
    for (int i = 0; i < VISITORS_MAX; i++) {
        while (visitors[i].is_busy)
            (void)pthread_cond_wait(&left, &mutex);
        visitors[i].is_busy = true;
    }
    (void)pthread_mutex_unlock(&mutex);
    for (int i = 0; i < VISITORS_MAX; i++)
        leave(&visitors[i], true);
    folder_close(&folder);
    (void)close(closing);
}

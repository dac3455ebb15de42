/*
 * The games of a page's visitors: an answer of their processes is bounded, in bytes and in
 * time, because a thread of the page waits for it. How they are played: e2e/lab-serve.t.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "server/lab/experiments/reader.h"
#include "server/lab/serve/lab_serve.h"
#include "tests/support/unit_test.h"

enum { ENDS_S = 30 /* of a test that hangs */ };

static bool is_hurried; /* a second passes between two looks at the clock */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static atomic_long ahead_s;
    long status = syscall(SYS_clock_gettime, clock, now);

    now->tv_sec += atomic_fetch_add(&ahead_s, is_hurried) + is_hurried;
    return (int)status;
}

/* A game is this program anew. */
__attribute__((constructor)) static void play(int argc, char *argv[])
{
    static char text[1 << 16];
    const char *word = argc > 1 ? argv[1] : "";
    bool drips = strcmp(word, "drips") == 0;

    /* A judge begins to think at once, a game when it is asked. */
    if (strcmp(word, "path") == 0 || strcmp(word, "replay") == 0) {
        if (*word == 'r') {
            (void)printf("{\"moves\": []}\n");
            (void)fflush(stdout);
            (void)read(STDIN_FILENO, text, sizeof(text));
        }
        (void)kill(getppid(), SIGUSR1);
        (void)pause();
    }
    if (!drips && strcmp(word, "floods") != 0)
        return;
    memset(text, '{', sizeof(text));
    while (write(STDOUT_FILENO, text, drips ? 1 : sizeof(text)) > 0)
        (void)usleep(drips ? 1000 : 0);
    _exit(0);
}

/* The first reader of a folder is held up in the middle, until a second thread was there. */

enum { NAME_BYTES = sizeof(((struct reader_entry *)NULL)->name) };

static struct reader_folder folder;
static pthread_t second;
static bool has_ended; /* the second thread */
static char seen[NAME_BYTES];

static void *look(void *name)
{
    const struct reader_entry *entry = reader_at(&folder, 1);

    memcpy(name, entry->name, NAME_BYTES);
    return NULL;
}

static bool begin_slowly(struct reader *reader)
{
    struct timespec until = {.tv_sec = time(NULL) + 1};

    if (strcmp(reader->file, "01-one.txt") != 0)
        return true;
    assert_int_equal(pthread_create(&second, NULL, look, seen), 0);
    has_ended = pthread_timedjoin_np(second, NULL, &until) == 0;
    return true;
}

static bool is_all(struct reader *reader)
{
    (void)reader;
    return true;
}

UNIT_TEST(test_a_folder_is_read_before_any_thread_has_it)
{
    static const char *const sections[] = {"en", "zh", NULL};
    static const struct reader_file files[] = {{"01-one.txt", ""},
                                               {"02-two.txt", ""}};

    folder = (struct reader_folder){.sections = sections,
                                    .texts = sections + 2,
                                    .entry_bytes = sizeof(struct reader_entry),
                                    .begin = begin_slowly,
                                    .end = is_all,
                                    .files = files,
                                    .files_n = COUNT_OF(files)};
    assert_non_null(reader_at(&folder, 0));
    assert_true(has_ended || pthread_join(second, NULL) == 0);
    assert_string_equal(seen, "two");
}

static void *ask(void *id)
{
    char *answer;

    (void)visitors_ask(id, "hint", &answer);
    return answer;
}

UNIT_TEST(test_the_end_waits_for_no_answer)
{
    static char *const game[] = {"lab", "replay", NULL};
    char id[VISITORS_ID_BYTES], *answer;
    struct fail error;
    pthread_t asker;
    sigset_t heard;
    int number;

    (void)alarm(ENDS_S);
    (void)sigemptyset(&heard);
    (void)sigaddset(&heard, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &heard, NULL);
    assert_true(visitors_open(&error));
    assert_int_equal(visitors_begin(VISITORS_GAME, game, NULL, id, &answer),
                     VISITORS_OK);
    free(answer);
    assert_int_equal(pthread_create(&asker, NULL, ask, id), 0);
    assert_int_equal(sigwait(&heard, &number), 0);
    visitors_close();
    assert_int_equal(pthread_join(asker, (void **)&answer), 0);
    assert_null(answer);
}

/* More calls than may wait: those that are too many are refused, and the others wait until the
 * laboratory ends. */

enum { CALLS_MAX = 8 };

static sem_t refused;

struct call {
    pthread_t thread;
    char path[64];
    const char *body;
};

static void *call(void *ctx)
{
    const struct call *call = ctx;
    struct api_reply reply =
        api_call("POST", call->path, call->body, strlen(call->body), -1);

    free(reply.text);
    if (reply.status == VISITORS_BUSY)
        (void)sem_post(&refused);
    return NULL;
}

static void assert_refused(struct call calls[], size_t n, size_t refused_n)
{
    (void)alarm(ENDS_S);
    (void)sem_init(&refused, 0, 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(
            pthread_create(&calls[i].thread, NULL, call, &calls[i]), 0);
    for (size_t i = 0; i < refused_n; i++)
        assert_int_equal(sem_wait(&refused), 0);
    visitors_close();
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_join(calls[i].thread, NULL), 0);
    assert_int_equal(sem_trywait(&refused), -1);
}

static void begin_game(char path[64])
{
    static const char body[] = "{\"lock\": \"none\"}";
    struct api_reply reply =
        api_call("POST", "/api/lab/games", body, strlen(body), -1);

    assert_int_equal(reply.status, VISITORS_OK);
    (void)snprintf(path, 64, "/api/lab/games/%s", reply.begun);
    free(reply.text);
}

UNIT_TEST(test_few_judges_wait)
{
    struct call calls[CALLS_MAX];
    struct fail error;
    struct api_reply reply;
    int gone[2];

    for (int i = 0; i < CALLS_MAX; i++)
        calls[i] = (struct call){.path = "/api/lab/judge",
                                 .body = "{\"stop\": \"1\"}"};
    (void)alarm(ENDS_S);
    assert_true(visitors_open(&error));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, gone), 0);
    (void)close(gone[1]);
    reply = api_call("POST", calls->path, calls->body, strlen(calls->body),
                     gone[0]);
    assert_int_equal(reply.status, VISITORS_BUSY);
    free(reply.text);
    (void)close(gone[0]);
    assert_refused(calls, CALLS_MAX, 4);
}

UNIT_TEST(test_few_calls_wait_for_a_game)
{
    struct call calls[CALLS_MAX];
    struct fail error;

    assert_true(visitors_open(&error));
    begin_game(calls->path);
    for (int i = 0; i < CALLS_MAX; i++) {
        calls[i] = calls[0];
        calls[i].body = "{\"command\": \"move a\"}";
    }
    assert_refused(calls, CALLS_MAX, 3);
}

UNIT_TEST(test_few_hints_at_once)
{
    struct call calls[6];
    struct fail error;

    assert_true(visitors_open(&error));
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        begin_game(calls[i].path);
        calls[i].body = "{\"command\": \"hint\"}";
    }
    assert_refused(calls, COUNT_OF(calls), 2);
}

UNIT_TEST(test_few_searches_at_once)
{
    static char *const game[] = {"lab", "replay", NULL};
    char id[VISITORS_ID_BYTES], *answer;
    struct fail error;

    (void)alarm(ENDS_S);
    assert_true(visitors_open(&error));
    for (int i = 0; i <= VISITORS_SEARCHES_MAX; i++) {
        assert_int_equal(
            visitors_begin(VISITORS_SEARCH, game, NULL, id, &answer),
            i < VISITORS_SEARCHES_MAX ? VISITORS_OK : VISITORS_FULL);
        free(answer);
    }
    visitors_close();
}

UNIT_TEST(test_no_line_without_end)
{
    static char *const games[][3] = {{"lab", "floods"}, {"lab", "drips"}};
    char id[VISITORS_ID_BYTES], *answer;
    struct fail error;

    (void)alarm(ENDS_S);
    assert_true(visitors_open(&error));
    for (size_t i = 0; i < COUNT_OF(games); i++) {
        is_hurried = i == 1;
        assert_int_equal(
            visitors_begin(VISITORS_GAME, games[i], NULL, id, &answer),
            VISITORS_BROKEN);
        assert_null(answer);
    }
    visitors_close();
}

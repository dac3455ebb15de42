/*
 * The stage: the same schedule gives the same steps every time, whatever the machine
 * does meanwhile. What moves mean, and which there are: e2e/stories.t, e2e/explore.t.
 *
 * STAGE_SCHEDULES says how many random schedules of each lock are played, and
 * STAGE_TIMES how often each; with STAGE_LOCK, only these, of that lock.
 * tests/full/stage.t asks for many.
 */
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>

#include "server/lab/base/expected.h"
#include "server/lab/picture/draw.h"
#include "server/lab/programs/program.h"
#include "server/lab/replay/game.h"
#include "tests/support/stage_scene.h"

enum { RECORD_BYTES_MAX = 64 << 10, RANDOM_MOVES_MAX = 24 };

static void begin(struct stage *stage)
{
    struct fail error;

    if (!stage_begin(stage, &error))
        fail_msg("%s", error.text);
}

static char played[512]; /* the schedule under way, for messages */

static void move(struct stage *stage, struct stage_move one)
{
    struct fail error;

    if (!stage_move(stage, one, &error))
        fail_msg("'%s': %s", played, error.text);
}

/* All that can be known of what has been played. */
static void record(struct stage *stage, char text[RECORD_BYTES_MAX])
{
    static struct stage_view view;
    const struct stage_step *steps;
    size_t n, used = 0;

    steps = stage_steps(stage, &n);
    for (size_t i = 0; i < n; i++)
        used +=
            (size_t)snprintf(text + used, RECORD_BYTES_MAX - used,
                             "%u %" PRIu64 " %d %s|%s|%s|%s\n", steps[i].move,
                             steps[i].at_us, steps[i].actor, steps[i].who,
                             steps[i].name, steps[i].sent, steps[i].reply);
    stage_look(stage, &view);
    (void)snprintf(text + used, RECORD_BYTES_MAX - used,
                   "%s\n%" PRId64 " %" PRId64 " %" PRIu64 " %x %" PRIx64 "\n",
                   view.redis, view.stock, view.sold, view.now_us,
                   stage_faults(stage), stage_hash(stage));
}

/* ---- determinism -------------------------------------------------------- */

static unsigned long from_environment(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);

    return text ? strtoul(text, NULL, 10) : otherwise;
}

/* Deaths cost a process, so they are rare; and a server's take longest. */
static bool is_rare(struct stage_move move, uint64_t dice)
{
    return move.kind == '!' && dice % (move.actor < 0 ? 256 : 32) != 0;
}

static size_t play_random(struct stage *stage, uint64_t seed,
                          struct stage_move moves[RANDOM_MOVES_MAX])
{
    struct stage_move enabled[STAGE_ENABLED_MAX];
    size_t n, chosen;

    begin(stage);
    for (size_t i = 0; i < RANDOM_MOVES_MAX; i++) {
        n = stage_enabled(stage, enabled);
        if (n == 0)
            return i;
        do {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            chosen = (seed >> 33) % n;
        } while (is_rare(enabled[chosen], seed >> 20));
        moves[i] = enabled[chosen];
        move(stage, moves[i]);
    }
    return RANDOM_MOVES_MAX;
}

static void assert_same_again(struct stage *stage,
                              const struct stage_move moves[], size_t n)
{
    static char first[RECORD_BYTES_MAX], again[RECORD_BYTES_MAX];
    unsigned long times = from_environment("STAGE_TIMES", 3);

    stage_text(moves, n, played, sizeof(played));
    record(stage, first);
    for (unsigned long i = 1; i < times; i++) {
        begin(stage);
        for (size_t j = 0; j < n; j++)
            move(stage, moves[j]);
        record(stage, again);
        if (strcmp(first, again) == 0)
            continue;
        /* cmocka cuts a long text. */
        fprintf(stderr, "'%s' once gave\n%s\nand then\n%s\n", played, first,
                again);
        fail_msg("'%s' is not the same every time", played);
    }
}

/* Unless STAGE_LOCK asks for another NAME. */
static void play_scene(const struct stage_scene *scene, const char *name,
                       uint64_t seed)
{
    unsigned long schedules = from_environment("STAGE_SCHEDULES", 5);
    const char *only = getenv("STAGE_LOCK");
    struct stage_move moves[RANDOM_MOVES_MAX];
    struct stage *stage;

    if (only && strcmp(only, name) != 0)
        return;
    stage = open_scene(scene);
    print_message("%s\n", name);
    for (unsigned long i = 0; i < schedules; i++)
        assert_same_again(stage, moves, play_random(stage, seed + i, moves));
    stage_close(stage);
}

UNIT_TEST(test_same_every_time)
{
    struct stage_scene batched = scene_of("fenced --batched --stock 3");
    const struct dlock_strategy_info *info;

    play_scene(&batched, "batched", 77000);
    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        struct stage_scene scene = STAGE_SCENE(info->name);

        scene.deduct = i % 2 ? DEDUCT_NAIVE : DEDUCT_GUARDED;
        /* The search's faults are known of all that the stage plays. */
        if (expected_of(info->name)->faults)
            play_scene(&scene, info->name, 1000 * i);
    }
}

static void play(struct stage *stage, const char *schedule)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    size_t n = moves_of(schedule, moves);

    begin(stage);
    for (size_t i = 0; i < n; i++)
        move(stage, moves[i]);
}

/* ---- how it is drawn ----------------------------------------------------- */

/* A mark is red on a terminal, and no line ends between it and its arrow. Which marks
 * there are: e2e/lab.t, by the text of the README and experiment 09. */
UNIT_TEST(test_marks_are_red)
{
    const struct stage_step step = {.name = "del",
                                    .sent = "DEL lock:{1:0}",
                                    .reply = "1",
                                    .mark = "deletes b's lock"};
    char text[500] = "";
    FILE *out;

    for (unsigned look = 0; look <= DRAW_COLOUR; look++) {
        out = fmemopen(text, sizeof(text), "w");
        assert_non_null(out);
        draw_step(out, &step, "a", 2, look);
        (void)fclose(out);
        assert_non_null(strstr(text, "<- deletes"));
        assert_int_equal(strstr(text, "\033[31mDEL") != NULL,
                         look == DRAW_COLOUR);
    }
}

/* As wide as the terminal; what is none has 80 columns. */
UNIT_TEST(test_width_is_the_terminals)
{
    const struct stage_step step = {.actor = 1,
                                    .reply = "a text that is wider than one "
                                             "of two lanes of 80 columns"};
    const struct winsize size = {.ws_row = 24, .ws_col = 200};
    char text[1000] = "";
    int terminal, end;
    FILE *out;

    assert_int_equal(openpty(&terminal, &end, NULL, NULL, &size), 0);
    out = fdopen(end, "w");
    assert_int_equal(draw_columns(out), 200);
    draw_step(out, &step, "b", 2, 0);
    (void)fclose(out);
    assert_true(read(terminal, text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "lanes of 80 columns\r\n"));
    (void)close(terminal);
    out = tmpfile();
    assert_int_equal(draw_columns(out), 80);
    (void)fclose(out);
    assert_int_equal(draw_fit("to 0: ok <- written from a", 18), 8);
}

/* ---- moves -------------------------------------------------------------- */

/* The lease ends on the server as well as for those who count on it. */
UNIT_TEST(test_time_is_one)
{
    static struct stage_view view;
    const struct stage_scene scene = STAGE_SCENE("redisson");
    struct stage *stage = open_scene(&scene);

    play(stage, "a aw");
    stage_look(stage, &view);
    assert_int_equal(view.locks[0].ttl_ms, 10000); /* renewed */
    assert_in_range(view.now_us, 3000000, 4000000);
    play(stage, "a L");
    stage_look(stage, &view);
    assert_int_equal(view.locks[0].ttl_ms, -2);
    assert_int_equal(view.now_us, 10001000);
    stage_close(stage);
}

/* A server that has died, and a replica in its place, are back at the start. */
UNIT_TEST(test_promoted_and_back)
{
    struct stage_scene scene = STAGE_SCENE("redisson");
    struct stage_move moves[STAGE_MOVES_MAX];
    char first[STAGE_REDIS_BYTES_MAX] = "";
    struct fail error;
    struct stage *stage;
    static struct stage_view view;
    int n = stage_parse("a R b P b", moves, &error);

    scene.replica = true;
    stage = stage_open(&scene, &error);
    assert_non_null(stage);
    for (int round = 0; round < 2; round++) {
        assert_true(stage_begin(stage, &error));
        for (int i = 0; i < n; i++)
            if (!stage_move(stage, moves[i], &error))
                fail_msg("round %d, move %d: %s", round, i + 1, error.text);
        stage_look(stage, &view);
        if (round == 0)
            memcpy(first, view.redis, sizeof(first));
        assert_string_equal(view.redis, first);
        assert_int_equal(view.locks[0].holder, 0);
    }
    stage_close(stage);
}

/* Whether b's next step is a move behind SCHEDULE. */
static bool may_b_step(const char *flags, const char *schedule)
{
    const struct stage_scene scene = scene_of(flags);
    struct stage *stage = open_scene(&scene);
    bool may;

    play(stage, schedule);
    may = stage_has_move(stage, (struct stage_move){.actor = 1, .kind = 's'});
    stage_close(stage);
    return may;
}

UNIT_TEST(test_one_writes_at_a_time)
{
    const char *flags = "fenced --batched --products 2 "
                        "--programs instance,instance:product=2";

    assert_true(may_b_step(flags, "ai bi a b a b"));
    assert_false(may_b_step(flags, "ai bi a b a b a a"));
    assert_true(may_b_step(flags, "ai bi a b a b a a a"));
}

/* Time that is left of a lease is no news to a nap, the end of the lease is. */
UNIT_TEST(test_time_alone_ends_no_nap)
{
    const char *flags = "set-nx-px --deduct guarded --pay-within 1";

    assert_false(may_b_step(flags, "a a b H"));
    assert_true(may_b_step(flags, "a a b L"));
}

/* An answer of the schedule before is none of an actor that dies with its process and has
 * not begun. */
UNIT_TEST(test_answers_are_of_their_schedule)
{
    const struct stage_scene scene =
        scene_of("redisson --one-process --deduct guarded --stock 2 "
                 "--programs order:key=k,order:key=k:user=5");
    struct stage *stage = open_scene(&scene);

    play(stage, "b b b");
    play(stage, "a a a!");
    assert_int_equal(stage_faults(stage), 0);
    stage_close(stage);
}

/* FOUND: by a search of a lock, TOLD: in all, as bits. */
static void assert_faults(const char *flags, const char *schedule,
                          unsigned found, unsigned told)
{
    const struct stage_scene scene = scene_of(flags);
    struct stage *stage = open_scene(&scene);
    struct stage_verdict verdict;

    play(stage, schedule);
    assert_int_equal(stage_faults(stage), found);
    stage_judge(stage, &verdict);
    assert_int_equal(verdict.faults, told);
    stage_close(stage);
}

/* Units that come back when the time to pay runs out were not there when b was refused. */
UNIT_TEST(test_refused_before_units_came_back)
{
    static const char flags[] = "redisson --deduct guarded --pay-within 1";

    assert_faults(flags, "a a a b b b H ae", 0, 0);
    assert_faults(flags, "a a a b b H ae b", 0, 0);
}

/* The naive way loses units by itself when it is cut short: no search blames a lock. */
UNIT_TEST(test_units_of_the_dead)
{
    assert_faults("none", "a a a! b", 0, 1u << STAGE_LEDGER);
}

static void lose_ledger(void)
{
    char path[80];
    glob_t found;

    (void)snprintf(path, sizeof(path), "{/dev/shm,/tmp}/stockade-stage-%d-*/db",
                   (int)getpid());
    assert_int_equal(glob(path, GLOB_BRACE, NULL, &found), 0);
    assert_int_equal(truncate(found.gl_pathv[0], 0), 0);
    globfree(&found);
}

/* Nothing can be said then: the schedule must not go on as if all were well. */
UNIT_TEST(test_a_ledger_that_cannot_be_read_is_told)
{
    const struct stage_scene scene = STAGE_SCENE("none");
    struct stage *stage = open_scene(&scene);
    struct fail error;

    play(stage, "a");
    lose_ledger();
    assert_false(stage_move(stage, (struct stage_move){0, 's'}, &error));
    stage_close(stage);
}

/* An actor's process is known by its pidfd alone: its pid is another's after its end. */

static bool has_no_pidfd;
static int pidfd;       /* of the last actor */
static pid_t actor_pid; /* its own */
static bool is_killed;  /* the pid, since its process has ended */

int pidfd_open(pid_t pid, unsigned flags)
{
    actor_pid = pid;
    errno = EMFILE;
    pidfd = has_no_pidfd ? -1 : (int)syscall(SYS_pidfd_open, pid, flags);
    return pidfd;
}

int kill(pid_t pid, int number)
{
    is_killed = is_killed || pid == actor_pid;
    return (int)syscall(SYS_kill, pid, number);
}

UNIT_TEST(test_an_actor_without_a_pidfd)
{
    const struct stage_scene scene = STAGE_SCENE("none");
    struct fail error = {""};

    has_no_pidfd = true;
    assert_null(stage_open(&scene, &error));
    has_no_pidfd = false;
    assert_string_equal(error.text,
                        "no process for actor a: Too many open files");
    assert_true(is_killed);
}

UNIT_TEST(test_an_actor_that_has_ended_is_not_killed_by_its_pid)
{
    const struct stage_scene scene = STAGE_SCENE("none");
    struct stage *stage = open_scene(&scene);
    struct pollfd end = {.fd = pidfd, .events = POLLIN};

    assert_int_equal(kill(actor_pid, SIGKILL), 0);
    assert_int_equal(poll(&end, 1, -1), 1);
    is_killed = false;
    stage_close(stage);
    assert_false(is_killed);
}

static bool has_no_memory;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return has_no_memory ? NULL : __real_calloc(n, size);
}

UNIT_TEST(test_a_stage_without_memory)
{
    const struct stage_scene scene = STAGE_SCENE("none");
    struct fail error = {""};

    has_no_memory = true;
    assert_null(stage_open(&scene, &error));
    has_no_memory = false;
    assert_string_equal(error.text, "no memory for the stage");
}

/* In place of libc's: nothing else here needs one. */
FILE *open_memstream(char **text, size_t *size)
{
    errno = ENOMEM;
    return NULL;
}

UNIT_TEST(test_a_picture_without_memory)
{
    static struct game game;
    const struct stage_scene scene = STAGE_SCENE("none");
    struct fail error = {""};

    assert_true(game_open(&game, &scene, NULL, 0));
    assert_false(game_save("/dev/null", &game, game_write_svg, &error));
    assert_string_equal(error.text, "/dev/null: Cannot allocate memory");
    game_close(&game);
}

/* When all is over the rules read it as well: orders by their id and by their key, those of
 * a user, and what a program is checked by. */
UNIT_TEST(test_nor_is_it_judged_at_the_end)
{
    static const char *const scenes[][2] = {
        {"none --deduct guarded --buyers 1", "a"},
        {"none --deduct guarded --stock 0 --programs order:key=k,order", "a b"},
        {"none --deduct guarded --stock 9 --buyers 1 --limit 1 "
         "--quantity 2",
         "a"},
        {"none --buyers 1 --programs restock-twice", "a a"},
    };
    struct fail error;

    for (size_t i = 0; i < COUNT_OF(scenes); i++) {
        const struct stage_scene scene = scene_of(scenes[i][0]);
        struct stage *stage = open_scene(&scene);

        play(stage, scenes[i][1]);
        lose_ledger();
        (void)stage_faults(stage);
        if (!stage_is_broken(stage, &error))
            fail_msg("'%s' is judged", scenes[i][0]);
        stage_close(stage);
    }
}

/* SIGKILL to the redis-server that this process has started last. */
static void kill_server(void)
{
    char path[64], name[16];
    int pid, last = 0;
    FILE *children, *comm;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children",
                   (int)getpid());
    assert_non_null(children = fopen(path, "r"));
    while (fscanf(children, "%d", &pid) == 1) {
        (void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
        comm = fopen(path, "r");
        if (comm && fscanf(comm, "%15s", name) == 1 &&
            strcmp(name, "redis-server") == 0)
            last = pid;
        if (comm)
            (void)fclose(comm);
    }
    (void)fclose(children);
    assert_true(last > 0 && kill(last, SIGKILL) == 0);
}

/* A move that a dead server does not answer has no verdict. */
UNIT_TEST(test_a_server_that_is_gone_is_told)
{
    static const char *const schedules[][3] = {
        {"redisson", "a^", "^"},
        {"redisson", "a", "F"},
        {"redlock", "a a a", "3F"},
        {"redisson --replica", "a", "R"},
        {"redisson --replica", "a R", "P"},
    };
    struct stage_move moves[STAGE_MOVES_MAX];
    struct fail error;

    for (size_t i = 0; i < COUNT_OF(schedules); i++) {
        const struct stage_scene scene = scene_of(schedules[i][0]);
        struct stage *stage = open_scene(&scene);

        play(stage, schedules[i][1]);
        kill_server();
        (void)moves_of(schedules[i][2], moves);
        if (stage_move(stage, moves[0], &error) ||
            !stage_is_broken(stage, &error))
            fail_msg("'%s' of a dead server is played", schedules[i][2]);
        stage_close(stage);
    }
}

UNIT_TEST(test_programs_are_known)
{
    struct stage_scene scene = STAGE_SCENE("none");
    struct fail error = {""};

    scene.lock_per = LOCK_PER_USER;
    scene.deduct = DEDUCT_GUARDED;
    scene.batched = true;
    assert_null(stage_open(&scene, &error));
    assert_non_null(strstr(error.text, "orders one by one"));
    scene = (struct stage_scene)STAGE_SCENE("fenced");
    scene.lock_per = LOCK_PER_USER;
    assert_null(stage_open(&scene, &error));
    assert_non_null(strstr(error.text, "no tokens"));
    scene = (struct stage_scene)STAGE_SCENE("none");
    scene.roles[1].program = "sing";
    assert_null(stage_open(&scene, &error));
    assert_non_null(strstr(error.text, "no program 'sing'; there are: order "));
    for (size_t i = 0; program_at(i); i++) {
        assert_ptr_equal(program_find(program_at(i)->name), program_at(i));
        assert_true(program_at(i)->english[0] && program_at(i)->chinese[0]);
    }
}

int main(void)
{
    cmocka_set_test_filter(getenv("STAGE_LOCK") ? "test_same*" : NULL);
    return unit_test_run(NULL, NULL);
}

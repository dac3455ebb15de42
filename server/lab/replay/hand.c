/*
 * See hand.h. The moves that there are stand below the state, each with its key and
 * with what it does: so the learner finds a race by choosing it, and no machine has
 * to be fast or slow at the right moment. A move cannot be taken back from real
 * servers: undo plays all moves but the last anew, a hint searches behind them.
 */
#include "server/lab/replay/hand.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/lab/explore/search.h"
#include "server/lab/picture/command.h"
#include "server/lab/picture/draw.h"
#include "server/lab/stage/stage_options.h"

enum {
    KEY_QUIT = 'q',
    KEY_UNDO = 'u',
    KEY_HINT = '?',
    LOOK_MS = 200,   /* how often a wait for a key looks for Ctrl-C */
    HINT_MS = 30000, /* that a hint is searched for, at most */
    TOLD_MS = 200,   /* between two lines of its progress */
};

/* For moves of two letters. Those of one are their own key. */
static const char KEYS[] = "123456789efghijkmnoprstvwxyzABCDEGHIJKMNOQSTUVWXYZ";

struct hand {
    const struct stage_scene *scene;
    struct stage *stage; /* NULL: it is broken, see error */
    struct stage_move moves[STAGE_MOVES_MAX];
    size_t n;
    unsigned goal; /* see hand.h */
    unsigned look;
    unsigned told; /* faults and remarks */
    uint64_t hint_began_ms, hint_told_ms;
    char state[DRAW_STATE_BYTES_MAX]; /* that was drawn last */
    char error[1000];
};

/* ---- keys --------------------------------------------------------------- */

/* The key of each move: its own letter, or the next one of KEYS. */
static void give_keys(const struct stage_move moves[], size_t n, char keys[])
{
    const char *next = KEYS;
    char text[4];

    for (size_t i = 0; i < n; i++)
        keys[i] = stage_move_text(moves[i], text)[1] ? *next++ : text[0];
}

/* Keys come one by one, without Enter. Ctrl-C stays a signal. */
static bool begin_keys(struct termios *before)
{
    struct termios now;

    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, before) != 0)
        return false;
    now = *before;
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    return tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
}

/* Blanks are none, for those who paste a schedule. */
static int read_key(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    unsigned char key = ' ';
    ssize_t got = 1;

    (void)fflush(stdout);
    while (got > 0 && (key == ' ' || key == '\n')) {
        if (stage_options_interrupted())
            return KEY_QUIT;
        if (poll(&input, 1, LOOK_MS) > 0)
            got = read(STDIN_FILENO, &key, 1);
    }
    return got > 0 ? key : KEY_QUIT;
}

/* ---- what there is ------------------------------------------------------ */

/* The phrase of a move that is no plain step; that has the actor's next step before it
 * in the list. One with %d wants the number of a server. */
static const char *phrase_of(struct stage_move move)
{
    static const struct {
        char kind;
        const char *actor, *world, *server;
    } phrases[] = {
        {'~', "the same, and the reply is lost", NULL, NULL},
        {'^', "the same, but the command is held up",
         "the command that was held up first arrives", NULL},
        {'-', "the same, but the database is busy", NULL, NULL},
        {'x', "the same, but its COMMIT fails", NULL, NULL},
        {'+', "its wait ends by time", NULL, NULL},
        {'w', "the next step of its watchdog", NULL, NULL},
        {'i', "an order comes in", NULL, NULL},
        {'l', "it goes on with its lock", NULL, NULL},
        {'!', "its process dies", NULL,
         "server %d dies, and begins anew with nothing"},
        {'L', NULL, "the lease ends",
         "the clock of server %d leaps, and the lease ends there"},
        {'F', NULL, "Redis forgets all", "server %d forgets all"},
        {'R', NULL, "the replica lags from now on", NULL},
        {'P', NULL, "the server dies, its replica is promoted", NULL},
    };
    const char *phrase = NULL;

    for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++)
        if (phrases[i].kind == move.kind)
            phrase = move.actor >= 0    ? phrases[i].actor
                     : move.actor == -1 ? phrases[i].world
                                        : phrases[i].server;
    return phrase ? phrase : "";
}

static void tell_moves(const struct hand *hand, const struct stage_move moves[],
                       size_t n, const char keys[])
{
    static struct stage_view view;
    char text[4], said[sizeof(view.actors[0].next)];

    stage_look(hand->stage, &view);
    putchar('\n');
    for (size_t i = 0; i < n; i++) {
        if (moves[i].kind == 's')
            memcpy(said, view.actors[moves[i].actor].next, sizeof(said));
        else
            (void)snprintf(said, sizeof(said), phrase_of(moves[i]),
                           -1 - moves[i].actor);
        printf("  %c  %-3s ", keys[i], stage_move_text(moves[i], text));
        draw_say(stdout, hand->look, "%s", said);
        putchar('\n');
    }
    draw_say(stdout, hand->look, n > 0 ? "your move" : "no move is left");
    draw_say(stdout, hand->look, " (u back, ? hint, q end)");
    printf(": ");
}

static void tell_new_faults(struct hand *hand)
{
    struct stage_verdict verdict;

    stage_judge(hand->stage, &verdict);
    verdict.faults &= ~hand->told;
    verdict.remarks &= ~hand->told;
    hand->told |= verdict.faults | verdict.remarks;
    /* A remark is a mark of the move above. */
    if (verdict.faults)
        draw_verdict(stdout, &verdict, false, hand->look);
    if (verdict.faults & hand->goal)
        draw_say(stdout, hand->look, "you have done it in %zu moves\n",
                 hand->n);
}

/* ---- moves -------------------------------------------------------------- */

/* The stage is closed: the game is over. */
static bool give_up(struct hand *hand)
{
    stage_close(hand->stage);
    hand->stage = NULL;
    return false;
}

/* One that is enabled: it can only fail if the stage is broken. */
static bool make_move(struct hand *hand, struct stage_move move)
{
    size_t drawn;

    (void)stage_steps(hand->stage, &drawn);
    if (!stage_move(hand->stage, move, hand->error, sizeof(hand->error)))
        return give_up(hand);
    hand->moves[hand->n++] = move;
    draw_steps(stdout, hand->stage, hand->scene, drawn, hand->moves,
               hand->look);
    draw_state(stdout, hand->stage, hand->scene, hand->state,
               hand->look | DRAW_NO_MOVES);
    tell_new_faults(hand);
    return true;
}

/* All of the state is drawn, because nothing of it stands right above. */
static void draw_all(struct hand *hand)
{
    hand->state[0] = '\0';
    draw_head(stdout, hand->scene, hand->look);
    draw_state(stdout, hand->stage, hand->scene, hand->state,
               hand->look | DRAW_NO_MOVES);
}

/* The first N moves, from the start. */
static bool play_again(struct hand *hand, size_t n)
{
    struct stage_verdict verdict = {0};

    if (!stage_begin(hand->stage, hand->error, sizeof(hand->error)))
        return give_up(hand);
    for (hand->n = 0; hand->n < n; hand->n++) {
        if (!stage_move(hand->stage, hand->moves[hand->n], hand->error,
                        sizeof(hand->error)))
            return give_up(hand);
        stage_judge(hand->stage, &verdict);
    }
    hand->told = verdict.faults | verdict.remarks;
    return true;
}

static bool undo(struct hand *hand)
{
    if (hand->n == 0) {
        draw_say(stdout, hand->look, "this is the start\n");
        return true;
    }
    if (!play_again(hand, hand->n - 1))
        return false;
    draw_all(hand);
    return true;
}

/* ---- hint --------------------------------------------------------------- */

/* Where the shortest way leads: to something that is not broken yet, and to the goal if
 * there is one. STAGE_FAULT_N: RESULT has no way. */
static enum stage_fault nearest(const struct hand *hand,
                                const struct search_result *result)
{
    const struct search_found *faults = result->faults;
    int best = STAGE_FAULT_N;

    for (int i = 0; i < STAGE_FAULT_N; i++)
        if (faults[i].is_found && faults[i].n > 0 &&
            (hand->goal == 0 || (hand->goal & 1u << i)) &&
            (best == STAGE_FAULT_N || faults[i].n < faults[best].n))
            best = i;
    return (enum stage_fault)best;
}

static bool is_wanted(void *ctx, const struct search_result *result)
{
    struct hand *hand = ctx;
    uint64_t now_ms = clock_ms();

    if (isatty(STDOUT_FILENO) && now_ms >= hand->hint_told_ms + TOLD_MS) {
        hand->hint_told_ms = now_ms;
        putchar('\r');
        draw_say(stdout, hand->look, "searching: %" PRIu64 " schedules",
                 result->schedules);
        (void)fflush(stdout);
    }
    return nearest(hand, result) == STAGE_FAULT_N &&
           !stage_options_interrupted() &&
           now_ms < hand->hint_began_ms + HINT_MS;
}

static void tell_hint(const struct hand *hand,
                      const struct search_result *result)
{
    enum stage_fault fault = nearest(hand, result);
    const struct search_found *found = NULL;
    char text[4];

    if (fault != STAGE_FAULT_N)
        found = &result->faults[fault];

    if (isatty(STDOUT_FILENO))
        printf("\r\033[K");
    if (found)
        draw_say(stdout, hand->look, "hint: %s; %zu moves from here: %s\n",
                 stage_move_text(found->moves[0], text), found->n,
                 stage_fault_text(fault));
    else if (result->is_whole)
        draw_say(stdout, hand->look,
                 "nothing breaks from here in %" PRIu64
                 " schedules: all with one lease that ends, one crash and 3 "
                 "preemptions\n",
                 result->schedules);
    else
        draw_say(stdout, hand->look,
                 "nothing breaks from here in the %" PRIu64
                 " schedules that were played; there are more\n",
                 result->schedules);
}

/* The search wants the processors, and a process without a stage. */
static bool give_hint(struct hand *hand)
{
    struct search_bounds bounds = {.expiries = 1,
                                   .crashes = 1,
                                   .waits = 2,
                                   .troubles = 2,
                                   .preemptions = 3,
                                   .moves = STAGE_MOVES_MAX,
                                   .from_n = (unsigned)hand->n};
    static struct search_result result;
    bool searched;

    memcpy(bounds.from, hand->moves, sizeof(bounds.from));
    hand->hint_began_ms = clock_ms();
    stage_close(hand->stage);
    searched = search_run(hand->scene, &bounds, 0, is_wanted, hand, &result,
                          hand->error, sizeof(hand->error));
    hand->stage =
        searched ? stage_open(hand->scene, hand->error, sizeof(hand->error))
                 : NULL;
    if (!hand->stage)
        return false;
    tell_hint(hand, &result);
    return play_again(hand, hand->n);
}

static void tell_goal(const struct hand *hand)
{
    for (int i = 0; i < STAGE_FAULT_N; i++)
        if (hand->goal & 1u << i)
            draw_say(stdout, hand->look, "bring this about: %s\n",
                     stage_fault_text((enum stage_fault)i));
    if (hand->goal)
        putchar('\n');
}

/* ---- a game ------------------------------------------------------------- */

/* One key. False: the end. */
static bool take_turn(struct hand *hand)
{
    struct stage_move moves[STAGE_ENABLED_MAX];
    char keys[STAGE_ENABLED_MAX];
    size_t n =
        hand->n < STAGE_MOVES_MAX ? stage_enabled(hand->stage, moves) : 0;
    int key;

    give_keys(moves, n, keys);
    tell_moves(hand, moves, n, keys);
    key = read_key();
    printf("%c\n", key);
    if (key == KEY_QUIT)
        return false;
    if (key == KEY_UNDO)
        return undo(hand);
    if (key == KEY_HINT)
        return give_hint(hand);
    for (size_t i = 0; i < n; i++)
        if (keys[i] == key)
            return make_move(hand, moves[i]);
    draw_say(stdout, hand->look, "there is no such move now\n");
    return true;
}

/* The schedule as a command, to play it again or to send it to somebody. */
static int tell_end(struct hand *hand)
{
    char text[4 * STAGE_MOVES_MAX + 1];
    struct stage_verdict verdict;
    static struct stage_view view;

    stage_judge(hand->stage, &verdict);
    stage_look(hand->stage, &view);
    stage_text(hand->moves, hand->n, text, sizeof(text));
    putchar('\n');
    draw_verdict(stdout, &verdict, view.over, hand->look);
    command_replay(stdout, hand->scene, text);
    putchar('\n');
    return verdict.faults != 0;
}

int hand_play(const struct stage_scene *scene, const struct stage_move moves[],
              size_t n, unsigned goal, unsigned look)
{
    static struct hand hand;
    struct termios before;
    bool is_terminal;
    int status = 2;

    hand = (struct hand){.scene = scene, .goal = goal, .look = look};
    stage_options_catch_signals();
    hand.stage = stage_open(scene, hand.error, sizeof(hand.error));
    is_terminal = begin_keys(&before);
    if (hand.stage) {
        tell_goal(&hand);
        draw_all(&hand);
    }
    for (size_t i = 0; i < n && hand.stage; i++)
        (void)make_move(&hand, moves[i]);
    while (hand.stage && take_turn(&hand))
        continue;
    if (is_terminal)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    if (hand.stage)
        status = tell_end(&hand);
    else
        fprintf(stderr, "stockade: replay: %s\n", hand.error);
    (void)fflush(stdout);
    stage_close(hand.stage);
    return status;
}

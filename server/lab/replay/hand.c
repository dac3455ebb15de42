/*
 * See game.h. The moves that there are stand below the state, each with its key and
 * with what it does: so the learner finds a race by choosing it, and no machine has
 * to be fast or slow at the right moment.
 */

#include <inttypes.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

#include "server/lab/replay/game.h"
#include "server/lab/scene/stage_options.h"

enum {
    KEY_QUIT = 'q',
    KEY_UNDO = 'u',
    KEY_HINT = '?',
    KEY_CTRL_D = 4, /* an end of input, if lines are not waited for */
};

/* For moves of two letters. Those of one are their own key. */
static const char KEYS[] = "123456789efghijkmnoprstvwxyzABCDEGHIJKMNOQSTUVWXYZ";

struct hand {
    struct game game;
    const struct game_goal *goal;
    unsigned look;
    unsigned reached; /* the moves of it; 0 = not yet */
};

/* To the player. */
#define SAY(...) draw_say(stdout, hand->look, __VA_ARGS__)

/* ---- keys --------------------------------------------------------------- */

/* Keys come one by one, without Enter. Ctrl-C stays a signal. */
static bool begin_keys(struct termios *before)
{
    struct termios now;

    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, before) != 0)
        return false;
    now = *before;
    /* The terminal would keep keys until Enter, and show them; signals it still makes. */
    now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    return tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0;
}

/* Blanks are none, for those who paste a schedule. */
static int read_key(void)
{
    unsigned char key;

    /* The question must be seen before its answer is waited for. */
    (void)fflush(stdout);
    do {
        /* Ctrl-C, the end of the input and Ctrl-D all mean q: the game ends the
         * same way. */
        if (!stage_options_wait_input() || read(STDIN_FILENO, &key, 1) <= 0 ||
            key == KEY_CTRL_D)
            return KEY_QUIT;
    } while (key == ' ' || key == '\n');
    return key;
}

/* ---- turns -------------------------------------------------------------- */

/* Faults are told that were not there before. A remark is a mark of the move that was
 * drawn. */
static void make_move(struct hand *hand, struct stage_move move)
{
    struct game *game = &hand->game;
    unsigned before = game->verdict.faults;
    struct stage_verdict news;

    if (!game_move(game, move)) {
        /* A game that is over says why at its end. */
        if (game->stage)
            SAY("%s\n", game->error.text);
        return;
    }
    news = game->verdict;
    news.faults &= ~before;
    /* Remarks of the whole game are not news. */
    news.remarks = 0;
    if (news.faults)
        draw_verdict(stdout, &news, false, hand->look);
    /* Any of the goals will do. */
    if ((news.faults & hand->goal->faults) == 0)
        return;
    SAY("you have done it in %zu moves\n", game->n);
    if (hand->reached == 0)
        hand->reached = (unsigned)game->n;
}

static void give_hint(struct hand *hand)
{
    static struct game_hint hint;
    unsigned goal = hand->goal->faults, now = hand->game.verdict.faults;
    const char *none = goal & now ? "no other goal is reached"
                       : goal     ? "the goal is not reached"
                       : now      ? "nothing else breaks"
                                  : "nothing breaks";
    char text[4];

    SAY("searching\n");
    (void)fflush(stdout);
    if (!game_hint(&hand->game, hand->goal, &hint))
        return;
    /* A search that was cut short must not say that nothing breaks; and a stop brings
     * bounds of its own, which these words do not name. */
    if (hint.fault != STAGE_FAULT_N)
        SAY("hint: %s; %zu moves from here: %s\n",
            stage_move_text(hint.way.moves[0], text), hint.way.n,
            stage_fault_text(hint.fault));
    else if (!hint.result.is_whole)
        SAY("%s from here in the %" PRIu64
            " schedules that were played; there are more\n",
            none, hint.result.schedules);
    else
        SAY("%s from here in %" PRIu64 " schedules: %s\n", none,
            hint.result.schedules,
            hand->goal->bounds ? "all within these bounds"
                               : "all with " GAME_HINT_BOUNDS);
}

/* ---- a game ------------------------------------------------------------- */

/* One key. False: the end. */
static bool take_turn(struct hand *hand)
{
    static struct stage_view view;
    struct stage_move moves[STAGE_ENABLED_MAX];
    /* The moves are asked for anew: they differ after each key. */
    size_t n = stage_enabled(hand->game.stage, moves), i;
    char keys[STAGE_ENABLED_MAX], text[4], phrase[GAME_PHRASE_BYTES];
    const char *next = KEYS;
    int key;

    stage_look(hand->game.stage, &view);
    putchar('\n');
    for (i = 0; i < n; i++) {
        /* A move of one letter is its own key: so a schedule can be pasted. */
        keys[i] = stage_move_text(moves[i], text)[0];
        if (text[1] != '\0')
            keys[i] = *next++;
        printf("  %c  %-3s ", keys[i], text);
        SAY("%s", game_phrase(&view, moves[i], phrase));
        putchar('\n');
    }
    SAY(n > 0 ? "your move" : "no move is left");
    SAY(" (u back, ? hint, q end)");
    printf(": ");
    key = read_key();
    printf("%c\n", key);
    /* A move's key counts first: none of them is q, u or ?. */
    for (i = 0; i < n && keys[i] != key;)
        i++;
    if (i < n)
        make_move(hand, moves[i]);
    else if (key == KEY_UNDO && hand->game.n == 0)
        SAY("this is the start\n");
    else if (key == KEY_UNDO)
        (void)game_back(&hand->game, hand->game.n - 1);
    else if (key == KEY_HINT)
        give_hint(hand);
    else if (key != KEY_QUIT)
        SAY("there is no such move now\n");
    return key != KEY_QUIT;
}

int hand_key(void)
{
    struct termios before;
    bool is_terminal = begin_keys(&before);
    int key = read_key();

    if (is_terminal)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    printf("%c\n", key);
    return key;
}

int hand_play(const struct stage_scene *scene, const struct stage_move moves[],
              size_t n, const struct game_goal *goal, unsigned look,
              unsigned *reached)
{
    static struct hand hand;
    struct game *game = &hand.game;
    char text[4 * STAGE_MOVES_MAX + 1];
    struct termios before;
    bool is_terminal;

    hand = (struct hand){.goal = goal, .look = look};
    stage_options_catch_signals();
    /* Signals are caught before the terminal is changed: it must be put back however
     * this ends. */
    is_terminal = begin_keys(&before);
    if (game_open(game, scene, stdout, look | DRAW_NO_MOVES)) {
        for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
            if (goal->faults & 1u << i)
                draw_say(stdout, look, "goal: %s\n", stage_fault_goal(i));
        if (goal->faults)
            putchar('\n');
        game_draw(game);
    }
    /* A move that is none leaves the game where it is, for the person to go on. */
    for (size_t i = 0; i < n && game->stage && game->n == i; i++)
        make_move(&hand, moves[i]);
    while (game->stage && !(reached && hand.reached > 0) && take_turn(&hand))
        continue;
    if (reached)
        *reached = hand.reached;
    /* The terminal is put back before anything else is said. */
    if (is_terminal)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    /* The schedule as a command, to play it again or to send it to somebody. */
    if (game->stage) {
        putchar('\n');
        draw_verdict(stdout, &game->verdict, stage_is_over(game->stage), look);
        command_replay(stdout, scene,
                       stage_text(game->moves, game->n, text, sizeof(text)));
        putchar('\n');
    }
    (void)fflush(stdout);
    /* The stage is gone: the verdict so far says nothing of what made it break. */
    if (!game->stage)
        return fail_to_run("replay: %s", game->error.text);
    game_close(game);
    return game->verdict.faults != 0;
}

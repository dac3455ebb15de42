/* See scene.h. */
#include "server/lab/scene/scene.h"

#include <stdio.h>
#include <string.h>

struct stage_role stage_role(const struct stage_scene *scene, unsigned actor)
{
    struct stage_role role = scene->roles[actor];

    if (!role.program)
        /* The words go into the role here and not into the scene: a scene that was
         * copied must not point into another. */
        role.program = scene->batched ? "instance" : "order";
    role.product = role.product ? role.product : 1;
    role.user = role.user ? role.user : 1 + (int64_t)actor;
    role.other = role.other ? role.other : role.product + 1;
    role.quantity = role.quantity ? role.quantity : scene->quantity;
    role.segments = role.segments ? role.segments : 1;
    return role;
}

static const struct {
    const char *word, *text, *goal;
} fault_texts[] = {
#define ROW(name, word, by, text, goal) {word, text, goal},
#include "server/lab/scene/faults.inc"
};

const char *stage_fault_word(enum stage_fault fault)
{
    return fault_texts[fault].word;
}

const char *stage_fault_text(enum stage_fault fault)
{
    return fault_texts[fault].text;
}

const char *stage_fault_goal(enum stage_fault fault)
{
    return fault_texts[fault].goal[0] ? fault_texts[fault].goal : NULL;
}

unsigned stage_goals(unsigned faults)
{
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        /* A fault without a goal is nothing that a player could set out for. */
        if (!stage_fault_goal(i))
            faults &= ~(1u << i);
    return faults;
}

/* ---- schedules ---------------------------------------------------------- */

const char *stage_move_words(struct stage_move move)
{
    static const struct {
        char kind;
        const char *actor, *world, *server;
    } words[] = {
#define ROW(kind, actor, world, server) {kind, actor, world, server},
#include "server/lab/scene/moves.inc"
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (words[i].kind == move.kind)
            return move.actor >= 0    ? words[i].actor
                   : move.actor == -1 ? words[i].world
                                      : words[i].server;
    return "";
}

const char *stage_move_text(struct stage_move move, char text[4])
{
    char *at = text;

    if (move.actor >= 0)
        *at++ = (char)('a' + move.actor);
    if (move.actor < -1)
        *at++ = (char)('0' - 1 - move.actor);
    if (move.kind != 's')
        *at++ = move.kind;
    *at = '\0';
    return text;
}

const char *stage_text(const struct stage_move moves[], size_t n, char text[],
                       size_t size)
{
    size_t used = 0;
    char one[4];

    text[0] = '\0';
    /* Five bytes: a blank, three of a move, and the end. */
    for (size_t i = 0; i < n && used + 5 < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "",
                             stage_move_text(moves[i], one));
    return text;
}

/* The move at *TEXT, which goes on behind it. */
static bool parse_one(const char **text, struct stage_move *move)
{
    char first = *(*text)++;

    /* The first byte is an actor, a server, or the world's move itself; the second one
     * is the kind. */
    *move = (struct stage_move){.actor = -1, .kind = first};
    if (first >= 'a' && first < 'a' + STAGE_ACTORS_MAX)
        move->actor = (signed char)(first - 'a');
    else if (first >= '1' && first <= '0' + STAGE_NODES_MAX)
        move->actor = (signed char)('0' - 1 - first);
    else
        return stage_move_words(*move)[0] != '\0';
    move->kind = **text;
    if (stage_move_words(*move)[0] != '\0') {
        (*text)++;
        return true;
    }
    /* A byte that is no kind is the next move's: the step needs no letter. */
    move->kind = 's';
    /* A server makes no steps. */
    return move->actor >= 0;
}

int stage_parse(const char *text, struct stage_move moves[STAGE_MOVES_MAX],
                struct fail *error)
{
    const char *at = text;
    int n = 0;

    while (*at) {
        const char *begin = at;
        int len = (int)strcspn(at, " ");

        if (*at == ' ') {
            at++;
            continue;
        }
        if (n == STAGE_MOVES_MAX) {
            (void)fail_with(error, "a schedule has at most %d moves",
                            STAGE_MOVES_MAX);
            return -1;
        }
        if (!parse_one(&at, &moves[n++])) {
            (void)fail_with(
                error,
                "'%.*s' is not a move: a b c d, with ~ ^ - x + w e i l or ! "
                "behind it, or ^ L F H R P, or 1L 2L 1! 2F ...",
                len < 8 ? len : 8, begin);
            return -1;
        }
    }
    return n;
}

/*
 * The moves of the stage: which there are, and what each of them does. See
 * stage.h for what they mean.
 */
#include <stdio.h>
#include <string.h>

#include "server/lab/stage/stage_private.h"

/* ---- as text ------------------------------------------------------------ */

const char *stage_move_text(struct stage_move move, char text[4])
{
    char *at = text;

    if (move.actor >= 0)
        *at++ = (char)('a' + move.actor);
    if (move.kind != 's')
        *at++ = move.kind;
    *at = '\0';
    return text;
}

void stage_text(const struct stage_move moves[], size_t n, char text[],
                size_t size)
{
    size_t used = 0;
    char one[4];

    text[0] = '\0';
    for (size_t i = 0; i < n && used + 5 < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "",
                             stage_move_text(moves[i], one));
}

/* The move at *TEXT, which goes on behind it. */
static bool parse_one(const char **text, struct stage_move *move)
{
    char first = *(*text)++;

    *move = (struct stage_move){.actor = -1, .kind = first};
    if (first == '^' || first == 'L' || first == 'F')
        return true;
    if (first < 'a' || first >= 'a' + STAGE_ACTORS_MAX)
        return false;
    *move =
        (struct stage_move){.actor = (signed char)(first - 'a'), .kind = 's'};
    if (**text != '\0' && strchr("~^+w!", **text))
        move->kind = *(*text)++;
    return true;
}

int stage_parse(const char *text, struct stage_move moves[STAGE_MOVES_MAX],
                char *error, size_t error_size)
{
    const char *at = text;
    int n = 0;

    while (*at) {
        const char *begin = at;

        if (*at == ' ') {
            at++;
            continue;
        }
        if (n == STAGE_MOVES_MAX) {
            (void)snprintf(error, error_size, "a schedule has at most %d moves",
                           STAGE_MOVES_MAX);
            return -1;
        }
        if (!parse_one(&at, &moves[n++])) {
            (void)snprintf(error, error_size,
                           "'%.8s' is not a move: a b c d, with ~ ^ + w or ! "
                           "behind it, or ^ L F",
                           begin);
            return -1;
        }
    }
    return n;
}

/* ---- which there are ---------------------------------------------------- */

static bool is_keeper(const struct page_thread *thread)
{
    return strcmp(thread->name, "dlock-watchdog") == 0 ||
           strcmp(thread->name, "dlock-guard") == 0;
}

/* Looking again is worth it if something is there that was not, or if nobody
 * knows what is. */
static bool may_look(const struct stage *stage, unsigned actor)
{
    const struct stage_part *part = &stage->parts[actor];

    return part->hears_nothing || part->asleep_hash != stage_keys_hash(stage);
}

/* The thread of an actor that the next step is of; -1: there is none. Helpers are
 * anybody's who is in their process. */
static int stepping_thread(const struct stage *stage, unsigned actor)
{
    const struct page *page = stage_page(stage, actor);
    unsigned own = stage_lane(stage, actor)->thread;

    for (unsigned i = 0; i < page->threads_n; i++) {
        const struct page_thread *thread = &page->threads[i];

        if (is_keeper(thread) || (thread->is_main && i != own))
            continue;
        if (thread->wait == PAGE_STEP || thread->wait == PAGE_MESSAGE ||
            (thread->wait == PAGE_SLEEP &&
             (i != own || may_look(stage, actor))))
            return (int)i;
    }
    return -1;
}

/* A watchdog is of the process: the first that plays there moves it. */
static int keeper_thread(const struct stage *stage, unsigned actor)
{
    const struct page *page = stage_page(stage, actor);

    for (unsigned i = 0; i < actor; i++)
        if (stage_page(stage, i) == page && stage_is_playing(stage, i))
            return -1;
    for (unsigned i = 0; i < page->threads_n; i++)
        if (is_keeper(&page->threads[i]) &&
            (page->threads[i].wait == PAGE_STEP ||
             page->threads[i].wait == PAGE_TIMED))
            return (int)i;
    return -1;
}

/* Its program is over, and its process goes on keeping what was not given back. */
static bool keeps_on(const struct stage *stage, unsigned actor)
{
    return !stage->parts[actor].is_dead &&
           stage_lane(stage, actor)->phase == PAGE_DONE &&
           stage_held(stage, actor) > 0 && keeper_thread(stage, actor) >= 0;
}

static bool waits(const struct stage *stage, unsigned actor)
{
    const struct page_thread *first = stage_main_thread(stage, actor);

    return first->wait == PAGE_SLEEP || first->wait == PAGE_TIMED;
}

/* What is held up is the server's to do, and not its connection's: a subscription
 * would be one of nobody. */
static bool may_be_late(const struct stage *stage,
                        const struct page_thread *step)
{
    return !step->is_sql && step->words_n > 0 &&
           strcmp(step->words, "SUBSCRIBE") != 0 &&
           strcmp(step->words, "UNSUBSCRIBE") != 0 &&
           stage->late_n < STAGE_LATE_MAX;
}

size_t stage_enabled(struct stage *stage,
                     struct stage_move moves[STAGE_ENABLED_MAX])
{
    size_t n = 0;

    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        const struct page *page = stage_page(stage, i);
        signed char actor = (signed char)i;
        int thread = stepping_thread(stage, i);
        const struct page_thread *step =
            thread >= 0 && page->threads[thread].wait == PAGE_STEP
                ? &page->threads[thread]
                : NULL;

        if (!stage->parts[i].is_dead && !stage->parts[i].has_begun) {
            step = &stage->first[i];
            thread = 0;
        } else if (!stage_is_playing(stage, i)) {
            if (keeps_on(stage, i))
                moves[n++] = (struct stage_move){actor, 'w'};
            continue;
        }
        if (thread >= 0)
            moves[n++] = (struct stage_move){actor, 's'};
        if (step && (!step->is_sql || step->is_write))
            moves[n++] = (struct stage_move){actor, '~'};
        if (step && may_be_late(stage, step))
            moves[n++] = (struct stage_move){actor, '^'};
        if (step == &stage->first[i])
            continue;
        if (waits(stage, i))
            moves[n++] = (struct stage_move){actor, '+'};
        if (keeper_thread(stage, i) >= 0)
            moves[n++] = (struct stage_move){actor, 'w'};
        moves[n++] = (struct stage_move){actor, '!'};
    }
    if (stage->late_n > 0)
        moves[n++] = (struct stage_move){-1, '^'};
    if (stage_next_lease(stage))
        moves[n++] = (struct stage_move){-1, 'L'};
    if (stage->keys[0] != '\0')
        moves[n++] = (struct stage_move){-1, 'F'};
    return n;
}

static bool is_enabled(struct stage *stage, struct stage_move move, char *error,
                       size_t error_size)
{
    struct stage_move moves[STAGE_ENABLED_MAX];
    size_t n = stage_enabled(stage, moves);
    char text[200], one[4];

    for (size_t i = 0; i < n; i++)
        if (moves[i].actor == move.actor && moves[i].kind == move.kind)
            return true;
    stage_text(moves, n, text, sizeof(text));
    (void)snprintf(error, error_size, "'%s' is no move now; %s%s",
                   stage_move_text(move, one),
                   n > 0 ? "there are: " : "there is none: all are done", text);
    return false;
}

/* ---- what they do ------------------------------------------------------- */

/* A line of an actor that is not a step. */
static void tell_of(struct stage *stage, signed char actor, const char *text)
{
    stage_tell(stage, "", "", text);
    stage->steps[stage->steps_n - 1].actor = actor;
}

static bool step(struct stage *stage, unsigned actor, enum page_verdict verdict)
{
    struct stage_part *part = &stage->parts[actor];
    const struct page_thread *shown;
    int thread;
    bool own;

    if (!part->has_begun) {
        part->has_begun = true;
        if (!stage_hand(stage, actor, PAGE_BEGIN, 0, PAGE_OK))
            return false;
    }
    thread = stepping_thread(stage, actor);
    if (thread < 0)
        return true;
    shown = &stage_page(stage, actor)->threads[thread];
    own = (unsigned)thread == stage_lane(stage, actor)->thread;

    if (verdict == PAGE_HOLD)
        stage->late[stage->late_n++] = (struct stage_late){
            .actor = actor, .step = *shown, .sent = part->history};
    if (own)
        part->hears_nothing = verdict != PAGE_OK;
    if (verdict != PAGE_OK)
        stage->unfaithful = true;
    stage->posted = !own;
    if (shown->wait != PAGE_STEP)
        tell_of(stage, (signed char)actor,
                shown->wait == PAGE_SLEEP ? "its nap is over"
                                          : "its subscriber is told something");
    return stage_hand(stage, actor, PAGE_GO, (unsigned)thread, verdict);
}

/* A nap is over; but who naps to look again gives up when all its time is. */
static bool end_wait(struct stage *stage, unsigned actor)
{
    const struct page_thread *first = stage_main_thread(stage, actor);
    struct config config = {.lock_wait_ms = stage->scene.wait_ms};
    uint64_t wait_ms = (uint64_t)stage->scene.wait_ms;
    uint64_t command_ms = config_rules_command_timeout_ms(&config);
    uint64_t until_us = first->until_us;

    wait_ms = wait_ms > command_ms ? wait_ms - command_ms : 0;
    if (first->wait == PAGE_SLEEP &&
        until_us < WORLD_BEGINS_US + wait_ms * 1000)
        until_us = WORLD_BEGINS_US + wait_ms * 1000;
    stage_pass(stage, until_us);
    tell_of(stage, (signed char)actor, "time passes: its wait is over");
    return stage_hand(stage, actor, PAGE_TIME, stage_lane(stage, actor)->thread,
                      PAGE_OK);
}

/* A pass of the watchdog is due: up to its first command, and that. */
static bool keep(struct stage *stage, unsigned actor)
{
    const struct page *page = stage_page(stage, actor);
    unsigned thread = (unsigned)keeper_thread(stage, actor);

    if (page->threads[thread].wait == PAGE_TIMED) {
        stage_pass(stage, page->threads[thread].until_us);
        if (!stage_hand(stage, actor, PAGE_TIME, thread, PAGE_OK))
            return false;
    }
    return page->threads[thread].wait != PAGE_STEP ||
           stage_hand(stage, actor, PAGE_GO, thread, PAGE_OK);
}

static bool deliver(struct stage *stage)
{
    struct stage_late late = stage->late[0];
    const char *words[PAGE_WORDS_MAX + 1];
    const char *word = late.step.words;
    char reply[96], name[32];

    stage->late_n--;
    memmove(stage->late, stage->late + 1, stage->late_n * sizeof(late));
    for (unsigned i = 0; i < late.step.words_n; i++) {
        words[i] = word;
        word += strlen(word) + 1;
    }
    if (!peek_send(stage->world.peek, late.step.words_n, words, reply,
                   sizeof(reply)))
        return false;
    (void)snprintf(name, sizeof(name), "late %.18s", late.step.step);
    stage_tell(stage, name, "", reply);
    stage->steps[stage->steps_n - 1].actor = (signed char)late.actor;
    return true;
}

static bool act(struct stage *stage, struct stage_move move)
{
    unsigned actor = (unsigned)move.actor;

    switch (move.kind) {
    case 's':
        return step(stage, actor, PAGE_OK);
    case '~':
        return step(stage, actor, PAGE_LOSE);
    case '^':
        return move.actor >= 0 ? step(stage, actor, PAGE_HOLD) : deliver(stage);
    case '+':
        return end_wait(stage, actor);
    case 'w':
        return keep(stage, actor);
    case '!':
        stage_kill(stage, actor);
        stage->unfaithful = true;
        tell_of(stage, move.actor, "the process dies");
        return true;
    case 'L':
        stage_pass(stage, stage_next_lease(stage)->ends_us + 1000);
        stage_tell(stage, "", "", "the lease ends");
        return true;
    default:
        stage->lapses++;
        stage_tell(stage, "", "", "Redis forgets all");
        return peek_flush(stage->world.peek);
    }
}

bool stage_move(struct stage *stage, struct stage_move move, char *error,
                size_t error_size)
{
    int mover = move.actor < 0 ? -1 : (int)(unsigned)move.actor;

    if (!is_enabled(stage, move, error, error_size))
        return false;
    if (move.actor < 0 && move.kind == '^')
        mover = (int)stage->late[0].actor;
    stage->moves_n++;
    stage->posted = false;
    if (act(stage, move) && stage_settle(stage, mover))
        return true;
    (void)snprintf(error, error_size, "%s",
                   stage->error[0] ? stage->error : "the stage is broken");
    return false;
}

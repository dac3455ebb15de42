/* The moves of the stage: their text, and what each of them does. See stage.h for
 * what they mean. */
#include <stdio.h>
#include <string.h>

#include "server/lab/stage/stage_private.h"

#define TOO_LONG "a schedule has at most %d moves"

/* ---- as text ------------------------------------------------------------ */

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
    if (strchr("^LFHRP", first))
        return true;
    if (first >= '1' && first <= '0' + PAGE_NODES_MAX && **text != '\0' &&
        strchr("LF!", **text)) {
        *move = (struct stage_move){.actor = (signed char)('0' - 1 - first),
                                    .kind = *(*text)++};
        return true;
    }
    if (first < 'a' || first >= 'a' + STAGE_ACTORS_MAX)
        return false;
    *move =
        (struct stage_move){.actor = (signed char)(first - 'a'), .kind = 's'};
    if (**text != '\0' && strchr("~^-x+weil!", **text))
        move->kind = *(*text)++;
    return true;
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
            (void)fail_with(error, TOO_LONG, STAGE_MOVES_MAX);
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

/* ---- what they do ------------------------------------------------------- */

bool stage_has_move(struct stage *stage, struct stage_move move)
{
    struct stage_move moves[STAGE_ENABLED_MAX];
    size_t n = stage_enabled(stage, moves);

    while (n > 0)
        if (moves[--n].actor == move.actor && moves[n].kind == move.kind)
            return true;
    return false;
}

/* Moves the virtual clock on to UNTIL_US, if it is not there yet. */
static void pass(struct stage *stage, uint64_t until_us)
{
    if (until_us > atomic_load(&stage->board->now_us))
        atomic_store(&stage->board->now_us, until_us);
}

/* Its program begins, up to its first step; if it has not before. */
static bool begin(struct stage *stage, unsigned actor)
{
    return stage_has_begun(stage, actor) ||
           stage_hand(stage, actor, PAGE_BEGIN, 0, PAGE_OK);
}

/* KIND: of the move. */
static bool step(struct stage *stage, unsigned actor, char kind)
{
    enum page_verdict verdict = kind == '~'   ? PAGE_LOSE
                                : kind == '^' ? PAGE_HOLD
                                : kind == '-' ? PAGE_REFUSE
                                : kind == 'x' ? PAGE_FAIL
                                              : PAGE_OK;
    struct stage_part *part = &stage->parts[actor];
    const struct page_thread *shown;
    int thread;
    bool own;

    if (!begin(stage, actor))
        return false;
    thread = kind == '-'   ? stage_opening_thread(stage, actor)
             : kind == 'l' ? stage_second_thread(stage, actor)
                           : stage_stepping_thread(stage, actor);
    if (thread < 0)
        return true;
    shown = &stage_page(stage, actor)->threads[thread];
    own = (unsigned)thread == stage_lane(stage, actor)->thread;

    if (verdict == PAGE_HOLD)
        stage->late[stage->late_n++] =
            (struct stage_late){.actor = actor, .step = *shown};
    if (own)
        part->hears_nothing = verdict == PAGE_LOSE || verdict == PAGE_HOLD;
    if (verdict != PAGE_OK)
        stage->unfaithful = true;
    if (verdict != PAGE_OK && verdict != PAGE_LOSE)
        stage->is_disturbed = true;
    if (verdict != PAGE_OK && shown->is_sql)
        stage->cut_short = true;
    stage->posted = !own;
    if (shown->wait != PAGE_STEP)
        stage_tell(stage, (int)actor, "",
                   shown->wait == PAGE_SLEEP
                       ? "checks again"
                       : "its subscriber is told something");
    return stage_hand(stage, actor, PAGE_GO, (unsigned)thread, verdict);
}

uint64_t stage_wait_us(const struct stage *stage)
{
    struct config config = {.lock_wait_ms = stage->scene.wait_ms};
    uint64_t wait_ms = (uint64_t)stage->scene.wait_ms;
    uint64_t command_ms = config_rules_command_timeout_ms(&config);

    return wait_ms > command_ms ? 1000 * (wait_ms - command_ms) : 0;
}

/* Ends a wait by time. An actor that naps between two looks at a lock is to give up:
 * so all the time passes for which it waits for the lock. */
static bool end_wait(struct stage *stage, unsigned actor)
{
    unsigned index = (unsigned)stage_waiting_thread(stage, actor);
    const struct page_thread *thread =
        &stage_page(stage, actor)->threads[index];
    uint64_t until_us = thread->until_us;

    if (thread->wait == PAGE_SLEEP &&
        until_us < WORLD_BEGINS_US + stage_wait_us(stage))
        until_us = WORLD_BEGINS_US + stage_wait_us(stage);
    pass(stage, until_us);
    stage_tell(stage, (int)actor, "", "time passes: its wait is over");
    return stage_hand(stage, actor, PAGE_TIME, index, PAGE_OK);
}

/* A pass of the watchdog begins, when it is due, and does its first command; or goes
 * on with its next one. */
static bool keep(struct stage *stage, unsigned actor)
{
    const struct page *page = stage_page(stage, actor);
    unsigned thread = (unsigned)stage_keeper_thread(stage, actor);
    int64_t max_ms = stage->scene.max_hold_ms;
    uint64_t now_us;
    size_t steps_n;
    char text[80];

    if (page->threads[thread].wait == PAGE_TIMED) {
        pass(stage, page->threads[thread].until_us);
        if (!stage_hand(stage, actor, PAGE_TIME, thread, PAGE_OK))
            return false;
    }
    steps_n = stage->steps_n;
    if (page->threads[thread].wait == PAGE_STEP &&
        !stage_hand(stage, actor, PAGE_GO, thread, PAGE_OK))
        return false;
    now_us = atomic_load(&stage->board->now_us) - WORLD_BEGINS_US;
    (void)snprintf(text, sizeof(text),
                   max_ms > 0 && now_us >= (uint64_t)max_ms * 1000
                       ? "the watchdog gives up: held for %lld ms"
                       : "the watchdog renews nothing",
                   (long long)max_ms);
    /* A pass that sends nothing is the end of a renewal as well. */
    if (stage->steps_n == steps_n)
        stage_tell(stage, (int)actor, "", text);
    return true;
}

/* The committer looks what is overdue. An instance only begins its batch with it. */
static bool expire(struct stage *stage, unsigned actor)
{
    unsigned thread = (unsigned)stage_committer_thread(stage, actor);

    if (!stage_hand(stage, actor, PAGE_TIME, thread, PAGE_OK))
        return false;
    if (stage->steps_n == stage->steps_before)
        stage_tell(stage, (int)actor, "",
                   stage->scene.batched ? "looks for what was not paid in time"
                                        : "nothing is overdue");
    return true;
}

/* The command that was held up first reaches its server. */
static bool deliver(struct stage *stage)
{
    struct stage_late late = stage->late[0];
    const char *words[PAGE_WORDS_MAX + 1];
    const char *word = late.step.words;
    enum peek_answer answer;
    char reply[96], name[32];

    stage->delivered = late;
    stage->is_delivery = true;
    stage->late_n--;
    memmove(stage->late, stage->late + 1, stage->late_n * sizeof(late));
    for (unsigned i = 0; i < late.step.words_n; i++) {
        words[i] = word;
        word += strlen(word) + 1;
    }
    answer = peek_send(stage->world.nodes[late.step.node].peek,
                       late.step.words_n, words, reply, sizeof(reply));
    if (answer == PEEK_NONE)
        return false;
    if (answer == PEEK_ERROR) /* its sender does not hear of it */
        stage_broke(stage, STAGE_ERROR);
    (void)snprintf(name, sizeof(name), "late %.18s", late.step.step);
    stage_tell(stage, (int)late.actor, name, reply);
    return true;
}

/* A move of server NODE, from 0. */
static bool act_on_node(struct stage *stage, unsigned node, char kind)
{
    uint64_t left_us = stage_node_lease(stage, node) -
                       atomic_load(&stage->board->now_us) + 1000;
    char text[80];

    stage->unfaithful = stage->is_disturbed = true;
    (void)snprintf(text, sizeof(text),
                   kind == '!' ? "server %u dies, and begins anew with nothing"
                   : kind == 'F'
                       ? "server %u forgets all"
                       : "the clock of server %u leaps, and the lease "
                         "ends there",
                   node + 1);
    stage_tell(stage, -1, "", text);
    stage->restarts += kind == '!';
    if (kind == '!')
        return world_restart(&stage->world, node, &stage->error);
    if (kind == 'F')
        return PEEK_ASK(stage->world.nodes[node].peek, "OK", "FLUSHALL",
                        "SYNC");
    (void)atomic_fetch_add(&stage->board->ahead_us[node], left_us);
    return true;
}

static bool act(struct stage *stage, struct stage_move move)
{
    unsigned actor = (unsigned)move.actor;

    if (move.actor < -1)
        return act_on_node(stage, (unsigned)(-2 - move.actor), move.kind);
    switch (move.kind) {
    case '^':
        return move.actor >= 0 ? step(stage, actor, '^') : deliver(stage);
    case 's':
    case '~':
    case '-':
    case 'x':
    case 'l':
        return step(stage, actor, move.kind);
    case '+':
        return end_wait(stage, actor);
    case 'w':
        return keep(stage, actor);
    case 'e':
        return expire(stage, actor);
    case 'i': /* An instance begins, and what its loop does next happens. */
        return begin(stage, actor) &&
               (!stage_has_news(stage, actor) ||
                stage_hand(stage, actor, PAGE_GO,
                           stage_lane(stage, actor)->thread, PAGE_OK));
    case '!':
        stage_kill(stage, actor);
        stage->unfaithful = stage->is_disturbed = stage->cut_short = true;
        stage_tell(stage, move.actor, "", "the process dies");
        return true;
    case 'L':
        pass(stage, stage_next_lease(stage)->ends_us + 1000);
        stage_tell(stage, -1, "", "the lease ends");
        return true;
    case 'H':
        pass(stage, stage_next_payment(stage));
        stage_tell(stage, -1, "", "the time to pay runs out");
        return true;
    case 'R':
        stage_tell(stage, -1, "", "the replica lags from now on");
        return world_cut(&stage->world);
    case 'P':
        stage->unfaithful = stage->is_disturbed = true;
        stage_tell(stage, -1, "", "the server dies, its replica is promoted");
        return world_promote(&stage->world);
    default:
        stage->lapses++;
        stage->losses++;
        stage_tell(stage, -1, "", "Redis forgets all");
        return world_flush(&stage->world);
    }
}

/* Goes on in what the last schedule has shown, or leaves it here. */
static void remember(struct stage *stage, struct stage_move move)
{
    struct stage_past *past = &stage->past[stage->moves_n];

    stage->repeats = stage->repeats && stage->moves_n < stage->past_n &&
                     past->move.actor == move.actor &&
                     past->move.kind == move.kind;
    if (stage->repeats)
        return;
    stage->past_n = stage->moves_n + 1;
    past->move = move;
    past->has_look = past->has_audit = past->has_units = false;
}

bool stage_move(struct stage *stage, struct stage_move move, struct fail *error)
{
    struct stage_move moves[STAGE_ENABLED_MAX];
    int mover = move.actor < 0 ? -1 : move.actor;
    char text[200], one[4];
    size_t n;
    bool done;

    if (stage->moves_n == STAGE_MOVES_MAX)
        return fail_with(error, TOO_LONG, STAGE_MOVES_MAX);
    if (!stage_has_move(stage, move)) {
        n = stage_enabled(stage, moves);
        stage_text(moves, n, text, sizeof(text));
        return fail_with(
            error, "'%s' is no move now; %s%s", stage_move_text(move, one),
            n > 0 ? "there are: " : "there is none: all are done", text);
    }
    if (move.actor < 0 && move.kind == '^')
        mover = (int)stage->late[0].actor;
    stage->moves_n++;
    stage->steps_before = stage->steps_n;
    remember(stage, move);
    stage->kind = move.kind;
    stage->touched = !strchr("s~-xeil", move.kind);
    stage->posted = stage->is_delivery = false;
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        struct page_lane *lane = stage_lane(stage, i);

        lane->lost[0] = lane->gave[0] = lane->gave_one[0] = '\0';
        lane->granted[0] = '\0';
    }
    done = act(stage, move) && stage_settle(stage, mover);
    /* Moves of one actor in a row that asked somebody for something; a nap asks nobody. */
    if (mover < 0 || !strchr("sil", stage->kind) || mover != stage->runner)
        stage->run_n = 0;
    stage->runner = mover;
    for (size_t i = stage->steps_before; i < stage->steps_n; i++)
        if (stage->steps[i].sent[0] != '\0') {
            stage->run_n++;
            break;
        }
    return done || fail_with(error, "%s",
                             stage->error.text[0] ? stage->error.text
                                                  : "the stage is broken");
}

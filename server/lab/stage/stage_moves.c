/* The moves of the stage: which there are, by what each actor, the world and its servers could
 * do next, and what each of them does. See stage.h for what they mean. */
#include <stdio.h>
#include <string.h>

#include "server/lab/stage/stage_private.h"

/* ---- threads ------------------------------------------------------------ */

static bool is_keeper(const struct page_thread *thread)
{
    return strcmp(thread->name, "dlock-watchdog") == 0 ||
           strcmp(thread->name, "dlock-guard") == 0;
}

static bool opens(const struct page_thread *thread)
{
    return thread->wait == PAGE_STEP && thread->step.is_sql &&
           thread->is_write &&
           (thread->part == PAGE_WHOLE || thread->part == PAGE_OPENS);
}

/* Another actor is in a transaction, and nobody else can begin one. */
static bool is_kept_out(const struct actor *actor)
{
    const struct stage *stage = actor->stage;

    for (const struct actor *each = stage->actors; each < stage->end; each++)
        if (!each->is_dead && each->page != actor->page &&
            each->page->in_transaction)
            return true;
    return false;
}

/* Looking again is worth it if something is there that was not, or if nobody
 * knows what is. */
static bool can_step(const struct actor *actor,
                     const struct page_thread *thread)
{
    /* The loop of an instance has moves of its own (i). A transaction that another
     * actor keeps out has no move, because SQLite would wait for it by naps. */
    bool is_own = thread == stage_main_thread(actor);

    if ((is_own && actor->stage->scene.batched) ||
        (opens(thread) && is_kept_out(actor)))
        return false;
    return thread->wait == PAGE_STEP || thread->wait == PAGE_MESSAGE ||
           (thread->wait == PAGE_SLEEP &&
            /* A nap after which nothing is different leads back to the state before it:
             * as a move it would make schedules without end. */
            (!is_own || actor->hears_nothing ||
             actor->asleep_hash != stage_keys_hash(actor->stage)));
}

/* A process's own threads are moved by the first actor in it that does HAS_THEM. */
static bool is_first(const struct actor *actor,
                     bool (*has_them)(const struct actor *actor))
{
    for (const struct actor *each = actor->stage->actors; each < actor; each++)
        if (each->page == actor->page && has_them(each))
            return false;
    return true;
}

/* THREAD of ACTOR into FOUND. Order by order only the program's own waits end by time. */
static void sort_in(const struct actor *actor, struct page_thread *thread,
                    struct stage_threads *found)
{
    bool is_timed = thread->wait == PAGE_TIMED;

    /* The first thread that fits is taken, in the order in which they began: so each
     * schedule has the same one. */
    if (!found->committer && is_timed && strcmp(thread->name, "committer") == 0)
        found->committer = thread;
    if (!found->opening && opens(thread))
        found->opening = thread;
    /* The waits of an instance's threads end by time, the earliest first: no time may
     * pass over one that was due before. */
    if (actor->stage->scene.batched
            ? is_timed && (!found->waiting ||
                           thread->until_us < found->waiting->until_us)
            : thread == stage_main_thread(actor) &&
                  (is_timed || thread->wait == PAGE_SLEEP))
        found->waiting = thread;
    if (found->step && !found->second && actor->stage->scene.batched &&
        can_step(actor, thread))
        found->second = thread;
    if (!found->step && can_step(actor, thread))
        found->step = thread;
}

struct stage_threads stage_threads(const struct actor *actor)
{
    struct page *page = actor->page;
    struct stage_threads found = {0};

    for (unsigned i = 0; i < page->threads_n; i++) {
        struct page_thread *thread = &page->threads[i];

        /* A keeper's moves are its own: it is no step of the program's, and no wait
         * that ends. */
        if (is_keeper(thread)) {
            if (!found.keeper &&
                (thread->wait == PAGE_STEP || thread->wait == PAGE_TIMED))
                found.keeper = thread;
        } else if (!thread->is_main || i == actor->lane->thread) {
            sort_in(actor, thread, &found);
        }
    }
    /* A watchdog must not have two actors that move it, or one schedule would have
     * two names. */
    if (!is_first(actor, stage_is_playing))
        found.keeper = NULL;
    if (actor->is_dead || !stage_has_begun(actor) ||
        !is_first(actor, stage_has_begun))
        found.committer = NULL;
    return found;
}

/* ---- which there are ---------------------------------------------------- */

/* When the next lease ends, on NODE or (-1) on the last server that has it; 0: none ends. */
static uint64_t next_lease(const struct stage *stage, int node)
{
    uint64_t next_us = PAGE_NEVER;

    for (unsigned i = 0; i < stage->locks_n; i++) {
        const struct stage_lock *lock = &stage->locks[i];
        uint64_t ends_us = node >= 0       ? lock->node_ends_us[node]
                           : lock->has_key ? lock->ends_us
                                           : 0;

        if (ends_us != 0 && ends_us < next_us)
            next_us = ends_us;
    }
    return next_us == PAGE_NEVER ? 0 : next_us;
}

/* A process goes on when its program is over; but an instance that has stopped has
 * nobody to make the steps of its batch. */
static bool may_expire(const struct actor *actor,
                       const struct page_thread *committer)
{
    const struct stage_scene *scene = &actor->stage->scene;

    return scene->pay_within_s > 0 && committer &&
           (!scene->batched || stage_is_playing(actor)) &&
           committer->until_us <= stage_now_us(actor->stage);
}

/* A process goes on keeping what its program has not given back. */
static bool may_keep(const struct actor *actor)
{
    return stage_is_playing(actor) ||
           (!actor->is_dead && actor->lane->phase == PAGE_DONE &&
            page_holds(actor->lane) > 0);
}

/* The loop of an instance is at a step of its own. */
static bool has_news(const struct actor *actor)
{
    return actor->stage->scene.batched &&
           stage_main_thread(actor)->wait == PAGE_STEP;
}

static bool may_bring_news(const struct actor *actor)
{
    return actor->stage->scene.batched && !actor->is_dead &&
           (!stage_has_begun(actor) ||
            (stage_is_playing(actor) && has_news(actor)));
}

/* A command that is held up is the server's to do, and not its connection's: a subscription
 * would be one of nobody. */
static bool may_be_late(const struct stage *stage,
                        const struct page_thread *shown)
{
    /* A step of SQL takes effect in a transaction: late, it would be one of nobody. */
    return !shown->step.is_sql && shown->words_n > 0 &&
           strcmp(shown->words, "SUBSCRIBE") != 0 &&
           strcmp(shown->words, "UNSUBSCRIBE") != 0 &&
           stage->late_n < STAGE_LATE_MAX;
}

/* Its answer can be lost on its way back. */
static bool may_be_lost(const struct page_thread *shown)
{
    return (!shown->step.is_sql && !shown->step.is_local) ||
           (shown->step.is_sql && shown->is_write &&
            (shown->part == PAGE_WHOLE || shown->part == PAGE_COMMITS ||
             shown->part == PAGE_BY_HAND));
}

static bool may_fail(const struct page_thread *shown)
{
    return shown->step.is_sql && shown->is_write &&
           (shown->part == PAGE_WHOLE || shown->part == PAGE_COMMITS);
}

/* MOVES has N of them, and KIND behind these if it IS_THERE. Returns how many there are
 * then. */
static size_t add(struct stage_move moves[STAGE_ENABLED_MAX], size_t n,
                  bool is_there, int actor, char kind)
{
    if (is_there)
        moves[n++] = (struct stage_move){(signed char)actor, kind};
    return n;
}

static size_t add_world(struct stage *stage,
                        struct stage_move moves[STAGE_ENABLED_MAX], size_t n)
{
    const struct world_replica *replica = &stage->world.replica;

    n = add(moves, n, stage->late_n > 0, -1, '^');
    n = add(moves, n, next_lease(stage, -1) != 0, -1, 'L');
    n = add(moves, n, stage_next_payment(stage) != 0, -1, 'H');
    n = add(moves, n, stage->look->keys[0] != '\0', -1, 'F');
    n = add(moves, n, replica->is_linked, -1, 'R');
    n = add(moves, n, replica->is_there && !replica->is_promoted, -1, 'P');
    /* A server of its own has moves only where others stay when it goes. */
    for (int i = 0; i < (int)stage->world.nodes_n && stage->world.nodes_n > 1;
         i++) {
        bool has_lease = next_lease(stage, i) != 0;

        n = add(moves, n, has_lease, -2 - i, 'L');
        n = add(moves, n, has_lease, -2 - i, 'F');
        n = add(moves, n, true, -2 - i, '!');
    }
    return n;
}

size_t stage_enabled(struct stage *stage,
                     struct stage_move moves[STAGE_ENABLED_MAX])
{
    size_t n = 0;

    for (const struct actor *each = stage->actors; each < stage->end; each++) {
        /* A dead actor's threads are still in its page, as they were: each move asks
         * for life. */
        const struct stage_threads there = stage_threads(each);
        /* Its first step, which it has shown once; an instance has none. */
        bool is_new =
            !each->is_dead && !stage_has_begun(each) && !stage->scene.batched;
        bool plays = stage_is_playing(each);
        const struct page_thread *step = is_new  ? &each->first
                                         : plays ? there.step
                                                 : NULL;
        bool steps = step && (is_new || step->wait == PAGE_STEP);
        bool opens_one = is_new ? opens(step) : plays && there.opening;
        int a = each->index;

        n = add(moves, n, may_expire(each, there.committer), a, 'e');
        n = add(moves, n, may_bring_news(each), a, 'i');
        n = add(moves, n, step, a, 's');
        n = add(moves, n, plays && there.second, a, 'l');
        n = add(moves, n, steps && may_be_lost(step), a, '~');
        n = add(moves, n, opens_one, a, '-');
        n = add(moves, n, steps && may_fail(step), a, 'x');
        n = add(moves, n, steps && may_be_late(stage, step), a, '^');
        n = add(moves, n, plays && there.waiting, a, '+');
        n = add(moves, n, there.keeper && may_keep(each), a, 'w');
        n = add(moves, n, plays, a, '!');
    }
    return add_world(stage, moves, n);
}

bool stage_has_move(struct stage *stage, struct stage_move move)
{
    struct stage_move moves[STAGE_ENABLED_MAX];
    size_t n = stage_enabled(stage, moves);

    while (n > 0)
        if (moves[--n].actor == move.actor && moves[n].kind == move.kind)
            return true;
    return false;
}

/* ---- what they do ------------------------------------------------------- */

/* Moves the virtual clock on to UNTIL_US, if it is not there yet; and over the millisecond in
 * which a lease ends, because its owner has lost it then, and Redis has not. */
static void pass(struct stage *stage, uint64_t until_us)
{
    if (until_us <= stage_now_us(stage))
        return;
    for (unsigned i = 0; i < stage->locks_n; i++)
        if (stage->locks[i].has_key &&
            stage->locks[i].ends_us / 1000 == until_us / 1000)
            until_us += 1000;
    atomic_store(&stage->world.board->now_us, until_us);
}

/* Its program begins, up to its first step; if it has not before. */
static bool begin(struct actor *actor)
{
    return stage_has_begun(actor) ||
           stage_hand(actor, PAGE_BEGIN, NULL, PAGE_OK);
}

/* KIND: of the move. */
static bool step(struct actor *actor, char kind)
{
    enum page_verdict verdict = kind == '~'   ? PAGE_LOSE
                                : kind == '^' ? PAGE_HOLD
                                : kind == '-' ? PAGE_REFUSE
                                : kind == 'x' ? PAGE_FAIL
                                              : PAGE_OK;
    struct stage *stage = actor->stage;
    struct stage_threads there;
    const struct page_thread *shown;

    if (!begin(actor))
        return false;
    /* The program may have begun with this move: the threads must be looked at
     * after that. */
    there = stage_threads(actor);
    shown = kind == '-'   ? there.opening
            : kind == 'l' ? there.second
                          : there.step;
    if (!shown)
        /* The program was over with its beginning: that was the move. */
        return true;
    stage->posted = shown != stage_main_thread(actor);
    /* A step of another thread says nothing about what the program hears. */
    if (!stage->posted)
        actor->hears_nothing = verdict == PAGE_LOSE || verdict == PAGE_HOLD;
    if (verdict == PAGE_HOLD)
        stage->late[stage->late_n++] =
            (struct stage_late){.actor = actor, .shown = *shown};
    /* A lost reply is trouble, but no disturbance: a lock that asks again must get
     * over it. */
    stage->unfaithful |= verdict != PAGE_OK;
    stage->is_disturbed |= verdict != PAGE_OK && verdict != PAGE_LOSE;
    stage->cut_short |= verdict != PAGE_OK && shown->step.is_sql;
    if (shown->wait != PAGE_STEP)
        stage_tell(stage, actor, "",
                   shown->wait == PAGE_SLEEP
                       ? "checks again"
                       : "its subscriber is told something");
    return stage_hand(actor, PAGE_GO, shown, verdict);
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
static bool end_wait(struct actor *actor)
{
    const struct page_thread *thread = stage_threads(actor).waiting;

    pass(actor->stage, thread->until_us);
    if (thread->wait == PAGE_SLEEP)
        pass(actor->stage, WORLD_BEGINS_US + stage_wait_us(actor->stage));
    stage_tell(actor->stage, actor, "", "time passes: its wait is over");
    return stage_hand(actor, PAGE_TIME, thread, PAGE_OK);
}

/* A pass of the watchdog begins, when it is due, and does its first command; or goes
 * on with its next one. A pass that sends nothing is the end of a renewal as well. */
static bool keep(struct actor *actor)
{
    struct stage *stage = actor->stage;
    const struct page_thread *thread = stage_threads(actor).keeper;
    int64_t max_ms = stage->scene.max_hold_ms;
    char text[80] = "the watchdog renews nothing";
    size_t steps_n;

    /* A watchdog that has a command under way does that, due or not. */
    if (thread->wait == PAGE_TIMED) {
        pass(stage, thread->until_us);
        if (!stage_hand(actor, PAGE_TIME, thread, PAGE_OK))
            return false;
    }
    /* Only lines behind this one are the renewal's: the hand-over above may have
     * told some. */
    steps_n = stage->steps_n;
    if (thread->wait == PAGE_STEP &&
        !stage_hand(actor, PAGE_GO, thread, PAGE_OK))
        return false;
    if (stage_now_us(stage) >= WORLD_BEGINS_US + 1000 * (uint64_t)max_ms)
        (void)snprintf(text, sizeof(text),
                       "the watchdog gives up: held for %lld ms",
                       (long long)max_ms);
    if (stage->steps_n == steps_n)
        stage_tell(stage, actor, "", text);
    return true;
}

/* The committer looks what is overdue. An instance only begins its batch with it. */
static bool expire(struct actor *actor)
{
    struct stage *stage = actor->stage;

    if (!stage_hand(actor, PAGE_TIME, stage_threads(actor).committer, PAGE_OK))
        return false;
    /* A pass that finds nothing must be seen as a move of its own. */
    if (stage->steps_n == stage->steps_before)
        stage_tell(stage, actor, "",
                   stage->scene.batched ? "looks for what was not paid in time"
                                        : "nothing is overdue");
    return true;
}

/* The command that was held up first reaches its server. */
static bool deliver(struct stage *stage)
{
    const struct stage_late late = stage->delivered = stage->late[0];
    const char *words[PAGE_WORDS_MAX + 1], *word = late.shown.words;
    enum peek_answer answer;
    char reply[96], name[32];
    /* The held-up commands keep their order, as on one connection. */

    stage->is_delivery = true;
    stage->late_n--;
    memmove(stage->late, stage->late + 1, stage->late_n * sizeof(late));
    for (unsigned i = 0; i < late.shown.words_n; i++, word += strlen(word) + 1)
        words[i] = word;
    answer = peek_send(stage->world.nodes[late.shown.step.node].peek,
                       late.shown.words_n, words, reply, sizeof(reply));
    /* The server does not answer: nothing can be said of this schedule. */
    if (answer == PEEK_NONE)
        return false;
    if (answer == PEEK_ERROR) /* its sender does not hear of it */
        stage_broke(stage, STAGE_ERROR);
    (void)snprintf(name, sizeof(name), "late %.18s", late.shown.step.name);
    stage_tell(stage, late.actor, name, reply);
    return true;
}

/* A move of the world, or of a server. */
static bool act_of_world(struct stage *stage, struct stage_move move)
{
    bool is_server = move.actor < -1, good = true;
    unsigned node = is_server ? (unsigned)(-2 - move.actor) : 0;
    struct world *world = &stage->world;
    char text[80];

    /* An end of a lease or a loss of data is counted (lapses, losses) and judged by
     * that; a server on its own, and a failover, are troubles like any other. */
    if (is_server || move.kind == 'P')
        stage->unfaithful = stage->is_disturbed = true;
    switch (move.kind) {
    case 'L':
        if (is_server)
            /* Redis keeps a key in the millisecond of its end: one more takes it away. */
            (void)atomic_fetch_add(&world->board->ahead_us[node],
                                   next_lease(stage, (int)node) -
                                       stage_now_us(stage) + 1000);
        else
            pass(stage, next_lease(stage, -1));
        break;
    case 'F':
        /* A flush is the end of all leases, and of what no lease could tell: both
         * are counted. */
        stage->lapses += !is_server;
        stage->losses += !is_server;
        good = is_server
                   ? PEEK_ASK(world->nodes[node].peek, "OK", "FLUSHALL", "SYNC")
                   : world_flush(world);
        break;
    case '!':
        stage->restarts++;
        good = world_restart(world, node, &stage->error);
        break;
    case 'H':
        pass(stage, stage_next_payment(stage));
        break;
    case 'R':
        good = world_cut(world);
        break;
    case 'P':
        good = world_promote(world);
        break;
    default:
        return deliver(stage);
    }
    (void)snprintf(text, sizeof(text), stage_move_words(move), node + 1);
    stage_tell(stage, NULL, "", text);
    return good;
}

static bool act(struct actor *actor, char kind)
{
    struct stage *stage = actor->stage;

    switch (kind) {
    case '+':
        return end_wait(actor);
    case 'w':
        return keep(actor);
    case 'e':
        return expire(actor);
    case 'i': /* An instance begins, and what its loop does next happens. */
        return begin(actor) &&
               (!has_news(actor) ||
                stage_hand(actor, PAGE_GO, stage_main_thread(actor), PAGE_OK));
    case '!':
        /* The keys of the process stay in Redis; its transaction is rolled back
         * by SQLite. */
        stage_kill(stage, actor->page);
        stage->unfaithful = stage->is_disturbed = stage->cut_short = true;
        stage_tell(stage, actor, "", "the process dies");
        return true;
    default:
        return step(actor, kind);
    }
}

/* Goes on in what the last schedule has shown, or leaves it here. */
static void remember(struct stage *stage, struct stage_move move)
{
    /* The looks of the last schedule are true up to the first move that differs; from
     * there on none of them is. */
    struct stage_past *past = &stage->past[stage->moves_n];

    stage->repeats = stage->repeats && stage->moves_n < stage->past_n &&
                     past->move.actor == move.actor &&
                     past->move.kind == move.kind;
    if (stage->repeats)
        return;
    stage->past_n = stage->moves_n + 1;
    past->move = move;
    past->has_look = past->has_audit = false;
}

/* Moves of one actor in a row that asked somebody for something; a nap asks nobody. */
static void count_run(struct stage *stage, const struct actor *last)
{
    bool has_asked = false;

    for (size_t i = stage->steps_before; i < stage->steps_n; i++)
        has_asked = has_asked || stage->steps[i].sent[0] != '\0';
    /* A trouble or another actor's move makes the row begin anew: a loop that somebody
     * else feeds is none. */
    if (!stage->mover || !strchr("sil", stage->kind) || stage->mover != last)
        stage->run_n = 0;
    stage->run_n += has_asked;
}

bool stage_move(struct stage *stage, struct stage_move move, struct fail *error)
{
    struct stage_move moves[STAGE_ENABLED_MAX];
    struct actor *actor = move.actor < 0 ? NULL : &stage->actors[move.actor];
    struct actor *last = stage->mover;
    char text[200], one[4];
    size_t n;
    bool done;

    if (stage->moves_n == STAGE_MOVES_MAX)
        return fail_with(error, "a schedule has at most %d moves",
                         STAGE_MOVES_MAX);
    if (!stage_has_move(stage, move)) {
        n = stage_enabled(stage, moves);
        return fail_with(error, "'%s' is no move now; %s%s",
                         stage_move_text(move, one),
                         n > 0 ? "there are: " : "there is none: all are done",
                         stage_text(moves, n, text, sizeof(text)));
    }
    /* A late command works for its sender: what it changes is judged as that
     * actor's doing. */
    stage->mover = !actor && move.kind == '^' ? stage->late[0].actor : actor;
    stage->moves_n++;
    stage->steps_before = stage->steps_n;
    remember(stage, move);
    stage->kind = move.kind;
    /* Moves of actors touch Redis only if a command is among their records:
     * take_records() says so. */
    stage->touched = !strchr("s~-xeil", move.kind);
    stage->posted = stage->is_delivery = false;
    /* A lane says what came about in this move: the rules must not see the last one's. */
    for (struct actor *each = stage->actors; each < stage->end; each++) {
        struct page_lane *lane = each->lane;

        lane->lost[0] = lane->gave[0] = lane->gave_one[0] = '\0';
        lane->granted[0] = '\0';
    }
    /* A move that failed half way is not settled: what is there is not compared with
     * what was. */
    done = (actor ? act(actor, move.kind) : act_of_world(stage, move)) &&
           stage_settle(stage);
    count_run(stage, last);
    /* The error stays with the stage, because a verdict on half a move would be none. */
    if (!done && !stage_is_broken(stage, error))
        (void)fail_with(&stage->error, "a redis-server does not answer");
    return !stage_is_broken(stage, error);
}

/*
 * The stage as it can be seen: by a search, which compares hashes; and by people, whom
 * marks tell what is wrong about a step: "deletes b's lock". No state depends on marks,
 * so a search does not see them.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/stage/stage_private.h"

unsigned stage_lapses(const struct stage *stage)
{
    return stage->lapses;
}

bool stage_is_inside(const struct stage *stage, unsigned actor)
{
    return stage_is_playing(&stage->actors[actor]) &&
           page_holds(stage->actors[actor].lane) > 0;
}

/* HASH goes on with these numbers. */
#define HASH(hash, ...)                                                        \
    page_hash((hash), (const uint64_t[]){__VA_ARGS__},                         \
              sizeof((const uint64_t[]){__VA_ARGS__}))

/* Among those that wait, whatever number it was given. */
static unsigned rank_of(const struct actor *actor)
{
    const struct stage *stage = actor->stage;
    unsigned rank = 0;

    /* Only the order among those that wait decides what comes: numbers that were given
     * and taken back leave no trace. */
    for (const struct actor *each = stage->actors; each < stage->end; each++) {
        rank += each->place != 0 && each->place <= actor->place;
        rank += each->place != 0 && each->sure_place <= actor->place ? 8 : 0;
        rank +=
            actor->place != 0 && each->sure_place <= actor->sure_place ? 64 : 0;
    }
    return rank;
}

/* The words of an actor, dead or not, by which rules judge at the end. */
static uint64_t hash_told(const struct actor *actor, uint64_t hash)
{
    const struct page_lane *lane = actor->lane;

    hash = HASH(hash, lane->is_wrong, lane->placed_n, lane->outcomes,
                lane->answered ? 1 + (uint64_t)lane->outcome : 0);
    for (unsigned i = 0; i < PAGE_PLACED_MAX && lane->placed[i].id[0]; i++) {
        /* An id is drawn anew in each schedule: its order stands for it. */
        hash = HASH(hash, stage_order_of(actor->stage, lane->placed[i].id),
                    (uint64_t)lane->placed[i].user_id,
                    (uint64_t)lane->placed[i].price_cents);
    }
    return hash;
}

/* An actor that is done or dead does nothing any more: how it ended is left of it.
 * But its process may live on, and renew what it holds, or be another actor's. */
static uint64_t hash_actor(const struct actor *actor, uint64_t hash)
{
    const struct stage *stage = actor->stage;
    const struct page *page = actor->page;
    const struct page_lane *lane = actor->lane;
    const struct page_thread *committer = stage_threads(actor).committer;

    /* A dead waiter counts for others as long as it may be the one that was woken. */
    hash = HASH(hash, actor->is_dead, stage_has_begun(actor),
                actor->place ? actor->asked_us : 0, stage_may_be_woken(actor));
    hash = hash_told(actor, hash);
    if (actor->is_dead || lane->phase == PAGE_CLOSED)
        return hash;
    /* Rules that are judged at the end go by these words of an actor: they must be part
     * of the state although it does nothing more. */
    hash = HASH(hash, lane->phase, lane->unsure, lane->cut_off,
                actor->saw_short, actor->was_free, lane->of_key,
                committer ? committer->until_us : 0);
    if (!stage_is_playing(actor) && page_holds(lane) == 0 &&
        !stage->scene.one_process)
        return hash;
    /* HEARD has all that came into the process: with the same program it can only be at
     * the same line, with the same memory. */
    hash = HASH(hash, page->heard, actor->hears_nothing, rank_of(actor),
                actor->place ? actor->steady_us : 0, actor->asleep_hash,
                actor->was_inside && actor->lapses != stage->lapses);
    for (unsigned i = 0; i < page->threads_n; i++)
        hash = HASH(hash, page->threads[i].wait, page->threads[i].until_us,
                    page->threads[i].pending);
    return hash;
}

uint64_t stage_hash(struct stage *stage)
{
    const struct world *world = &stage->world;
    /* The keys have the time that is left in them, and the clock stands beside: so a
     * lease that ends earlier is another state. */
    uint64_t hash = page_hash_text(PAGE_HASH_SEED, stage->look->keys);

    hash = page_hash_text(hash, stage->look->listeners);
    hash = HASH(hash, stage_now_us(stage));
    hash =
        page_hash(hash, world->board->ahead_us, sizeof(world->board->ahead_us));
    hash = page_hash(hash, world->restarted_us, sizeof(world->restarted_us));
    /* The number of lapses decides nothing that follows; that there was one excuses. */
    hash = HASH(hash, world->replica.is_linked, world->replica.is_promoted,
                stage->written, stage->verdict.faults, stage->unfaithful,
                stage->is_disturbed, stage->cut_short, stage->has_ghost,
                stage->lapses > 0, stage->losses > 0, stage->restarts > 0);
    for (unsigned i = 0; i < stage->locks_n; i++) {
        const struct stage_lock *lock = &stage->locks[i];

        hash = page_hash_text(hash, lock->name);
        hash = HASH(hash, (uint64_t)stage_index(lock->holder), lock->taken_late,
                    lock->token, (uint64_t)stage_index(lock->token_by),
                    lock->token_is_over);
    }
    for (unsigned i = 0; i < stage->late_n; i++) {
        const struct stage_late *late = &stage->late[i];
        const char *word = late->shown.words;

        /* Held-up commands are hashed as they will be sent; who has sent them decides
         * whom they are judged by. */
        hash = HASH(hash, (uint64_t)late->actor->index, late->newer > 0,
                    late->shown.step.node);
        for (unsigned j = 0; j < late->shown.words_n; j++) {
            hash = page_hash_text(hash, word);
            word += strlen(word) + 1;
        }
    }
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        hash = hash_actor(each, hash);
    return hash;
}

/* ---- tokens --------------------------------------------------------------------- */

enum { TOKENS_APART_MAX = 1000 };

static void note_token(struct stage *stage, uint64_t token)
{
    unsigned n = stage->tokens_n;

    /* Tokens rise, and are met in that order: an old one that comes again has its
     * number already. */
    if (n < STAGE_TOKENS_MAX && (n == 0 || token > stage->tokens[n - 1]))
        stage->tokens[stage->tokens_n++] = token;
}

void stage_note_tokens_in_keys(struct stage *stage)
{
    const char *at = stage->look->keys;

    while ((at = strstr(at, "token="))) {
        at += strlen("token=");
        note_token(stage, strtoull(at, NULL, 10));
    }
}

/* Puts #1, #2 in place of tokens in TEXT, in the order in which they rose. One that was
 * never granted is told by how far it is from the last below it; a number below 1 is lower
 * than the first: it went back. */
static void name_tokens(const struct stage *stage, char text[])
{
    char *at = text, number[24];

    while (stage->tokens_n > 0 && *at) {
        size_t len = strspn(at, "0123456789"), used;
        unsigned i = stage->tokens_n - 1;
        long long apart;

        /* Tokens are times in microseconds, of sixteen digits: a shorter number
         * is another. */
        if (len < 16) {
            at += len > 0 ? len : 1;
            continue;
        }
        while (i > 0 && stage->tokens[i] > strtoull(at, NULL, 10))
            i--;
        apart = (long long)(strtoull(at, NULL, 10) - stage->tokens[i]);
        if (apart < TOKENS_APART_MAX && apart > -TOKENS_APART_MAX) {
            used = (size_t)snprintf(number, sizeof(number), "#%lld",
                                    apart + i + 1);
            memmove(at + used, at + len, strlen(at + len) + 1);
            memcpy(at, number, used);
            len = used;
        }
        at += len;
    }
}

/* ---- what can be seen --------------------------------------------------- */

static void tell_next(const struct actor *actor, struct stage_actor_view *view)
{
    const struct page_thread *first = stage_main_thread(actor);
    const char *text = "";

    if (view->is_dead)
        text = "dead";
    else if (!stage_has_begun(actor))
        text = "its program begins";
    else if (view->is_done)
        text = "done";
    else if (first->wait == PAGE_STEP && first->step.is_sql)
        text = first->step.sent;
    else if (first->wait == PAGE_STEP)
        text = first->step.name;
    else if (first->wait == PAGE_SLEEP)
        text = "naps, then checks again";
    else
        text = "waits";
    (void)snprintf(view->next, sizeof(view->next), "%.199s", text);
    name_tokens(actor->stage, view->next);
}

void stage_name_owners(const struct stage *stage, char text[])
{
    for (const struct actor *each = stage->actors; each < stage->end; each++) {
        const char *owner = each->lane->owner;
        size_t len = strlen(owner);
        char *at = text;

        /* The letter is shorter than the id: the text never outgrows its place. */
        while (len > 0 && (at = strstr(at, owner)) != NULL) {
            *at = (char)('a' + each->index);
            memmove(at + 1, at + len, strlen(at + len) + 1);
            at++;
        }
    }
}

void stage_look(struct stage *stage, struct stage_view *view)
{
    uint64_t now_us = stage_now_us(stage);

    *view = (struct stage_view){.now_us = now_us - WORLD_BEGINS_US,
                                .late_n = stage->late_n,
                                .locks_n = stage->locks_n,
                                .over = stage_is_over(stage)};
    for (unsigned i = 0; i < stage->locks_n; i++) {
        const struct stage_lock *lock = &stage->locks[i];
        struct stage_lock_view *seen = &view->locks[i];

        memcpy(seen->name, lock->name, sizeof(seen->name));
        seen->holder = lock->has_key ? stage_index(lock->holder) : -1;
        seen->ttl_ms = !lock->has_key ? -2
                       : lock->ends_us == PAGE_NEVER
                           ? -1
                           : (int64_t)(lock->ends_us - now_us) / 1000;
    }
    memcpy(view->redis, stage->look->keys, sizeof(view->redis));
    stage_name_owners(stage, view->redis);
    name_tokens(stage, view->redis);
    for (const struct actor *each = stage->actors; each < stage->end; each++) {
        struct stage_actor_view *actor = &view->actors[each->index];
        const struct page_lane *lane = each->lane;

        actor->is_dead = each->is_dead;
        actor->is_done = !actor->is_dead && lane->phase == PAGE_DONE;
        actor->is_inside = stage_is_inside(stage, (unsigned)each->index);
        actor->answered = lane->answered;
        actor->outcome = lane->outcome;
        tell_next(each, actor);
    }
    view->stock = *stage->units;
    view->sold = stage->audit->sold;
    view->orders = stage->audit->orders;
}

/* ---- marks --------------------------------------------------------------- */

struct stage_step *stage_line_of(struct stage *stage, const struct actor *actor,
                                 const char *name)
{
    /* The move's lines alone: an older one must not get a mark for what came later. */
    for (size_t i = stage->steps_n; i-- > stage->steps_before;) {
        struct stage_step *step = &stage->steps[i];

        if (step->actor == stage_index(actor) &&
            (name ? strcmp(step->name, name) == 0 : step->name[0] != '\0'))
            return step;
    }
    return NULL;
}

static void mark(struct stage_step *step, const char *format, ...)
{
    va_list args;

    /* The first mark stays: it is the nearest to the cause. */
    if (!step || step->mark[0])
        return;
    va_start(args, format);
    (void)vsnprintf(step->mark, sizeof(step->mark), format, args);
    va_end(args);
}

/* ---- marks: writes ------------------------------------------------------------- */

/* It sets a number that was computed before. */
static bool is_absolute(const struct stage_step *step)
{
    static const char set[] = "UPDATE segments SET stock = ";

    return strcmp(step->name, "naive-update") == 0 ||
           (strncmp(step->sent, set, strlen(set)) == 0 &&
            isdigit((unsigned char)step->sent[strlen(set)]));
}

/* A COMMIT makes visible what was written before. */
static bool is_write(const struct stage_step *step)
{
    return is_absolute(step) ||
           expected_has_word("place cancel restock even-out product-put COMMIT",
                             step->name) ||
           strncmp(step->sent, "UPDATE segments", 15) == 0;
}

/* It may write what its actor has computed from an old read. */
static void mark_write(struct stage *stage, struct stage_step *step)
{
    unsigned product = 1, *read;
    bool is_read = strcmp(step->name, "naive-select") == 0 ||
                   (strcmp(step->name, "SELECT") == 0 &&
                    strstr(step->sent, "FROM segments"));
    bool is_done =
        strncmp(step->reply, "ok", 2) == 0 || strstr(step->reply, " row");

    /* Several segments share one product's name in the steps: reads of one would count
     * as those of another. */
    if (!step->is_sql || stage->scene.segments > 1)
        return;
    (void)sscanf(step->key, "product %u", &product);
    product %= STAGE_PRODUCTS_N;
    read = &stage->actors[step->actor].reads[product];
    if (is_read)
        *read = stage->stocks[product];
    if (!is_write(step) || !is_done)
        return;
    if (is_absolute(step) && *read != stage->stocks[product])
        mark(step, "written from a read that is out of date");
    /* A version for each write, and not the number itself: a stock that came back to
     * the same value was written all the same. */
    *read = ++stage->stocks[product];
}

/* ---- marks: locks -------------------------------------------------------------- */

void stage_note_expiry(struct actor *holder)
{
    if (holder)
        (void)snprintf(holder->loss, sizeof(holder->loss),
                       "its lease had ended");
}

void stage_mark_loss(struct stage *stage, struct actor *holder, bool is_gone)
{
    const struct actor *mover = stage->mover;
    struct stage_step *told = stage_line_of(stage, mover, "");
    char *loss = holder->loss;
    size_t size = sizeof(holder->loss);

    if (!mover) {
        (void)snprintf(loss, size, "%s",
                       stage->kind == 'P'   ? "the failover had lost it"
                       : stage->kind == 'F' ? "Redis had forgotten it"
                                            : "the servers had lost it");
        return;
    }
    (void)snprintf(loss, size,
                   is_gone ? "%c had deleted it" : "%c had taken it",
                   'a' + mover->index);
    mark(stage_line_of(stage, mover, NULL),
         is_gone ? "deletes %c's lock" : "takes %c's lock away",
         'a' + holder->index);
    /* The actor believes that it gave back its own lock: its line must not say what is
     * not so. */
    if (told && strcmp(told->reply, "released it") == 0)
        (void)snprintf(told->reply, sizeof(told->reply),
                       "takes that for its own");
}

/* "a and b"; "a, b and c". */
static unsigned list(unsigned actors, char text[32])
{
    unsigned n = 0, left = (unsigned)__builtin_popcount(actors);
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < STAGE_ACTORS_MAX; i++)
        if (actors & (1u << i)) {
            used += (size_t)snprintf(text + used, 32 - used, "%s%c",
                                     n == 0      ? ""
                                     : left == 1 ? " and "
                                                 : ", ",
                                     'a' + i);
            n++;
            left--;
        }
    return n;
}

/* With no lock there is no inside: all that could be said is that both work. */
void stage_mark_insiders(struct stage *stage, unsigned insiders,
                         enum stage_fault kind)
{
    bool is_news = (insiders & ~stage->insiders) != 0;
    char who[32];
    unsigned n = list(insiders, who);

    stage->insiders = insiders;
    if (!is_news || strcmp(stage->scene.lock, "none") == 0)
        return;
    for (const struct actor *each = stage->actors; each < stage->end; each++) {
        struct stage_step *told = stage_line_of(stage, each, "");

        /* Only an actor that came in with this move has such a line. */
        if (!told || strncmp(told->reply, "inside", 6) != 0)
            continue;
        mark(told, n > 2 ? "%s are all inside%s" : "%s are both inside%s", who,
             kind == STAGE_TWO_LATE   ? ", after a lease had ended"
             : kind == STAGE_TWO_LOST ? ", as Redis has lost the lock"
                                      : "");
    }
}

void stage_mark_silence(struct stage *stage)
{
    mark(stage_line_of(stage, stage->mover, NULL), "wakes nobody");
}

void stage_mark_step(struct stage *stage, struct stage_step *step)
{
    const char *lost = dlock_status_text(DLOCK_LOST);
    const char *loss = stage->actors[step->actor].loss;
    static const char back[] = "released it: ";
    unsigned long long token = 0;

    if (sscanf(step->reply, "inside, with token %llu", &token) == 1 ||
        (strcmp(step->name, "eval-acquire") == 0 &&
         sscanf(step->reply, "1 %*u %llu", &token) == 1))
        note_token(stage, token);
    name_tokens(stage, step->sent);
    name_tokens(stage, step->reply);
    mark_write(stage, step);
    /* The library calls each loss "the lease has ended": the true reason in its place. */
    if (step->name[0] == '\0' &&
        strncmp(step->reply, back, strlen(back)) == 0 &&
        strcmp(step->reply + strlen(back), lost) == 0)
        (void)snprintf(step->reply, sizeof(step->reply),
                       "nothing to release: %s",
                       loss[0] ? loss : "it has no lock");
}

/* ---- marks: the ledger --------------------------------------------------------- */

void stage_mark_fault(struct stage *stage, enum stage_fault fault)
{
    const char *text = fault == STAGE_OVERSOLD ? "sells what is not there"
                       : fault == STAGE_TWICE  ? "one order too many"
                       : fault == STAGE_LIMIT  ? "over the limit per user"
                       : fault == STAGE_STALE  ? "written under an old token"
                                               : NULL;

    for (const struct actor *each = stage->actors; text && each < stage->end;
         each++)
        mark(stage_line_of(stage, each, NULL), "%s", text);
}

/* The verdict: a function for each fault. Those that a single move tells are in
 * stage_settle.c. See stage.h. */
#include <stdio.h>
#include <string.h>

#include "server/lab/programs/program.h"
#include "server/lab/stage/stage_private.h"

/* ---- the ledger --------------------------------------------------------- */

/* Phantoms are units that are sold and still there. Those that were sold beyond all that
 * there were are no news to who knows that it is oversold. */
unsigned ledger_faults(const struct store_audit *audit)
{
    return (unsigned)(audit->oversold > 0) << STAGE_OVERSOLD |
           (unsigned)(audit->phantom > audit->oversold) << STAGE_LEDGER |
           (unsigned)(audit->unsettled > 0) << STAGE_UNSETTLED |
           (unsigned)(audit->fence_regressions > 0) << STAGE_STALE |
           (unsigned)(audit->duplicates > 0) << STAGE_TWICE |
           (unsigned)(audit->over_limit > 0) << STAGE_LIMIT;
}

/* A user who bought more than one may is miscounted as well, and that is told. */
unsigned ledger_faults_at_the_end(const struct store_audit *audit)
{
    bool has_lost_units = audit->undersold > 0 || audit->stranded > 0 ||
                          (audit->negative > 0 && audit->oversold == 0) ||
                          (audit->miscounted > 0 && audit->over_limit == 0);

    return (unsigned)has_lost_units << STAGE_LEDGER;
}

static void add_units(void *ctx, const struct store_audit_line *line)
{
    int64_t *units = ctx;

    units[0] += line->stock;
    if (line->product_id < STAGE_PRODUCTS_N)
        units[line->product_id] += line->stock;
}

bool stage_read_ledger(struct stage *stage)
{
    struct stage_past *past = &stage->past[stage->moves_n];
    struct store_error error;

    /* Each rule and each view looks at the ledger: it is read once after each write. */
    if (stage->is_audited)
        return true;
    /* A schedule that repeats the last one has the same rows here: an audit is the
     * dearest look of all. */
    if (!past->has_audit) {
        memset(past->units, 0, sizeof(past->units));
        past->has_audit =
            store_audit(stage->world.reader, add_units, past->units, NULL, 0,
                        &past->audit, &error) == STORE_OK;
    }
    if (!past->has_audit)
        return fail_with(&stage->error, "the ledger cannot be read: %s",
                         error.text);
    stage->audit = &past->audit;
    stage->units = past->units;
    stage->is_audited = true;
    return true;
}

bool stage_is_broken(const struct stage *stage, struct fail *error)
{
    if (stage->error.text[0] != '\0')
        *error = stage->error;
    return stage->error.text[0] != '\0';
}

/* Whether something was found. A read that has failed breaks the stage, because it says
 * neither that something is wrong nor that it is not. */
static bool has_read(struct stage *stage, enum store_status status,
                     const struct store_error *error)
{
    if (status != STORE_OK && status != STORE_NO_ORDER)
        (void)fail_with(&stage->error, "the ledger cannot be read: %s",
                        error->text);
    return status == STORE_OK;
}

uint64_t stage_order_of(struct stage *stage, const char *id)
{
    struct store_order order = {.number = 0};
    struct store_error error;

    return has_read(stage,
                    store_order_get(stage->world.reader, id, &order, &error),
                    &error)
               ? (uint64_t)order.number
               : 0;
}

struct due {
    uint64_t now_us, next_us;
};

static void add_due(void *ctx, const struct store_order *order)
{
    struct due *due = ctx;
    uint64_t until_us = (uint64_t)order->pay_until_ms * 1000;

    /* A time that is over already is no move: the committer looks for that (ae). */
    if (order->state == STORE_AWAITING && until_us > due->now_us &&
        (due->next_us == 0 || until_us < due->next_us))
        due->next_us = until_us;
}

uint64_t stage_next_payment(struct stage *stage)
{
    struct due due = {.now_us = stage_now_us(stage)};
    struct store_error error;

    if (stage->scene.pay_within_s > 0)
        (void)has_read(stage,
                       store_order_list(stage->world.reader, 0,
                                        STAGE_ORDERS_MAX, add_due, &due,
                                        &error),
                       &error);
    return due.next_us;
}

/* ---- what broke --------------------------------------------------------- */

bool stage_is_over(const struct stage *stage)
{
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        /* An actor that has not begun is under way as well: a schedule is over when
         * nobody has anything to do. */
        if (stage_is_playing(each) ||
            (!each->is_dead && !stage_has_begun(each)))
            return false;
    return stage->late_n == 0;
}

static bool is_stuck(struct stage *stage)
{
    struct stage_move moves[STAGE_ENABLED_MAX];
    size_t n = stage_enabled(stage, moves);

    for (size_t i = 0; i < n; i++)
        /* Deaths, a loss of data and a look of the committer are always there: they
         * free nobody who waits for another. */
        if (!strchr("!FHe", moves[i].kind))
            return false;
    return !stage_is_over(stage);
}

/* How many orders ACTOR wants, if it has begun. A key's order is counted once, with
 * the first actor that has that key. */
static int64_t orders_wanted(const struct actor *actor)
{
    const struct program *program = actor->program;
    const char *key = actor->role.key;
    unsigned keyless = 0; /* of an instance, whatever its role has */
    bool is_known;

    if (!stage_has_begun(actor))
        return 0;
    if (!key)
        return program->orders;
    for (const char *at = program->deeds; *at; at++)
        keyless += program_is_instance(program) && *at == 'o';
    /* Orders under one key are one order, however many ask: a second actor with the key
     * adds none. */
    is_known = program->orders == keyless;
    for (const struct actor *each = actor->stage->actors; each < actor; each++)
        is_known |= stage_has_begun(each) && each->role.key &&
                    strcmp(each->role.key, key) == 0 &&
                    each->program->orders > 0;
    return keyless + !is_known;
}

/* More orders than all that have begun want. */
static bool has_too_many(struct stage *stage)
{
    int64_t wanted = 0;

    for (const struct actor *each = stage->actors; each < stage->end; each++)
        wanted += orders_wanted(each);
    return stage->audit->orders > wanted;
}

/* Whether units can have come back: then an order may be placed under a key that was
 * refused before. */
static bool may_rise(const struct stage *stage)
{
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        /* A program without orders cancels or restocks: so units may come back at
         * any time. */
        if (each->program->orders == 0)
            return true;
    return stage->audit->cancelled + stage->audit->expired > 0;
}

/* What USER has ordered, in that role. */
static bool is_its_own(const struct stage_role *role, int64_t user,
                       const struct store_order *order)
{
    return order->user_id == user && order->product_id == role->product &&
           order->quantity == role->quantity;
}

/* The order under ACTOR's key. False: there is none. */
static bool find_by_key(const struct actor *actor, struct store_order *found)
{
    struct store_error error;

    return actor->role.key &&
           has_read(actor->stage,
                    store_order_by_key(actor->stage->world.reader,
                                       actor->role.key, found, &error),
                    &error);
}

/* Refused, though its key has its order; as another's, or for a reason that may hold for
 * new orders only. */
static bool has_refused_its_own(const struct actor *actor)
{
    enum order_outcome of_key = actor->lane->of_key;
    bool is_new = of_key == ORDER_SOLD_OUT || of_key == ORDER_PURCHASE_LIMIT;
    struct store_order found;

    return ((is_new && !may_rise(actor->stage)) ||
            of_key == ORDER_KEY_REUSED) &&
           find_by_key(actor, &found) &&
           (is_new || is_its_own(&actor->role, actor->role.user, &found));
}

/* The units that each user of an actor has. */
struct bought {
    int64_t user, product, units[STAGE_ORDERS_MAX];
};

static void add_bought(void *ctx, const struct store_order *order)
{
    struct bought *bought = ctx;
    int64_t i = (order->user_id - bought->user) / STAGE_ACTORS_MAX;

    /* An instance's orders are of users STAGE_ACTORS_MAX apart, beginning with
     * its role's. */
    if (order->product_id == bought->product &&
        (order->user_id - bought->user) % STAGE_ACTORS_MAX == 0 && i >= 0 &&
        i < STAGE_ORDERS_MAX && order->cancelled_ms == 0)
        bought->units[i] += order->quantity;
}

/* Refused by the limit, though none of its users has so many units, nor can have had. Each
 * order of an instance may be of a user of its own. */
static bool has_refused_below_limit(const struct actor *actor)
{
    struct stage *stage = actor->stage;
    const struct stage_role *role = &actor->role;
    struct bought bought = {.user = role->user, .product = role->product};
    struct store_error error;

    /* A limit of a lesson's is its own statement's, wrong or right. */
    if (actor->lane->outcome != ORDER_PURCHASE_LIMIT || may_rise(stage) ||
        actor->program->is_lesson)
        return false;
    if (!has_read(stage,
                  store_order_list(stage->world.reader, 0, STAGE_ORDERS_MAX,
                                   add_bought, &bought, &error),
                  &error))
        return false;
    for (int i = 0; i < STAGE_ORDERS_MAX; i++)
        if (bought.units[i] + role->quantity > stage->scene.limit)
            return false;
    return true;
}

bool stage_has_refused_with_stock(const struct actor *actor)
{
    /* SAW_SHORT has each moment since the order began; the stock now is the last
     * of them. Units of another product are no reason to have sold one of this. */
    return actor->lane->outcome == ORDER_SOLD_OUT && !actor->saw_short &&
           stage_units_for(actor) >= actor->role.quantity;
}

static bool has_refused(const struct actor *actor)
{
    return !actor->is_dead && actor->lane->answered &&
           (stage_has_refused_with_stock(actor) || has_refused_its_own(actor) ||
            has_refused_below_limit(actor));
}

/* Fewer orders than were acknowledged. */
static bool has_lost_one(struct stage *stage)
{
    const struct store_audit *audit = stage->audit;
    int64_t acknowledged = 0;

    /* Orders that are gone for a reason still count as kept: they were placed. */
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        acknowledged += each->lane->placed_n;
    return audit->orders + audit->cancelled + audit->expired < acknowledged;
}

/* Told that it has an order, which is of another. */
static bool has_anothers(const struct actor *actor)
{
    const struct page_lane *lane = actor->lane;
    struct store_order found;

    return lane->answered &&
           (lane->outcome == ORDER_PLACED || lane->outcome == ORDER_REPLAYED) &&
           find_by_key(actor, &found) && found.user_id != actor->role.user;
}

/* Told that it has an order, under an id that no order has, or that is not what it was
 * told. */
static bool has_wrong_id(const struct actor *actor)
{
    const struct page_placed *placed = actor->lane->placed;
    struct store_error error;
    struct store_order found;

    /* The first id that is "" ends the list: a lesson's orders have none. */
    for (unsigned i = 0; i < PAGE_PLACED_MAX && placed[i].id[0]; i++) {
        enum store_status status = store_order_get(
            actor->stage->world.reader, placed[i].id, &found, &error);

        if (status == STORE_NO_ORDER ||
            (has_read(actor->stage, status, &error) &&
             (!is_its_own(&actor->role, placed[i].user_id, &found) ||
              found.price_cents != WORLD_PRICE_CENTS ||
              placed[i].price_cents != WORLD_PRICE_CENTS)))
            return true;
    }
    return false;
}

bool stage_has_key(const struct stage *stage)
{
    for (unsigned i = 0; i < stage->locks_n; i++)
        if (stage->locks[i].has_key)
            return true;
    return false;
}

/* A lock that counts holds of somebody who is sure to have none: it has heard that
 * all it had were taken back. A server that has lost its data lets a late command in. */
static bool has_holds_left(const struct actor *actor)
{
    const struct stage *stage = actor->stage;
    const struct page_lane *lane = actor->lane;
    const char *line = stage->look->keys;
    char field[sizeof(lane->owner) + 2];

    /* After a loss or a restart a late command may put in a hold that nobody knows
     * of. And one that does not know what came of its command may have a hold for
     * a reason. */
    if (stage->losses > 0 || stage->restarts > 0 || actor->is_dead ||
        lane->unsure || page_holds(lane) > 0)
        return false;
    (void)snprintf(field, sizeof(field), "%s=", lane->owner);
    for (size_t len; *line; line += len + (line[len] == '\n')) {
        const char *name = line + (stage->world.nodes_n > 1 ? 2 : 0);

        len = strcspn(line, "\n");
        if (stage_is_lock(name) && memmem(line, len, field, strlen(field)))
            return true;
    }
    return false;
}

bool stage_is_excused(const struct stage *stage)
{
    return stage->is_disturbed || (stage->unfaithful && !stage_is_exact(stage));
}

static bool is_still_held(struct stage *stage)
{
    /* A lease that has ended is an excuse: its owner may have lost the lock, and given
     * nothing back. */
    return stage_has_key(stage) && !stage_is_excused(stage) &&
           stage->lapses == 0;
}

/* The lock was free for as long as ACTOR waited for it, in vain. The orders of an instance
 * wait while it does other things. */
static bool has_waited_for_nobody(const struct actor *actor)
{
    return actor->was_free && !actor->stage->scene.batched &&
           actor->lane->outcome == ORDER_LOCK_TIMEOUT;
}

/* An order has failed in a schedule in which all that was asked was done, and at once: a
 * lock server that was not asked for seconds may be taken for one that is gone, and who
 * has waited for somebody for that long may give up. */
static bool has_failed(struct stage *stage)
{
    unsigned failures = 1u << ORDER_STORE_UNAVAILABLE | 1u << ORDER_OVERLOADED |
                        1u << ORDER_NO_PRODUCT | 1u << ORDER_SALE_NOT_OPEN |
                        1u << ORDER_SALE_ENDED | 1u << ORDER_SHUTTING_DOWN;

    /* Time that has passed may have been the reason for a timeout. */
    if (!stage_has_time_passed(stage))
        failures |= 1u << ORDER_LOCK_UNREACHABLE;
    if (!stage_has_time_passed(stage) && stage_wait_us(stage) > 0)
        failures |= 1u << ORDER_LOCK_TIMEOUT;

    /* Failures are faults only where nothing was disturbed. A lesson may fail as part
     * of what it teaches. */
    if (stage->unfaithful || stage->lapses > 0)
        return false;
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        if (each->program->is_lesson)
            return false;
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        if (failures & each->lane->outcomes ||
            (!stage->has_ghost && has_waited_for_nobody(each)))
            return true;
    return false;
}

/* Order by order, it sleeps for longer than it may wait for its lock. */
static bool oversleeps(const struct actor *actor)
{
    const struct stage *stage = actor->stage;
    const struct page_thread *thread = stage_main_thread(actor);
    uint64_t most_us = 1000 * (uint64_t)stage->scene.wait_ms;

    return !stage->unfaithful && !stage->scene.batched &&
           stage_is_playing(actor) && actor->lane->wants[0] != '\0' &&
           (thread->wait == PAGE_SLEEP || thread->wait == PAGE_TIMED) &&
           thread->until_us > actor->lane->wished_us + most_us;
}

/* An actor goes on and on, though nothing disturbs it: no program has so many steps. */
static bool has_no_end(struct stage *stage)
{
    return stage->run_n > STAGE_RUN_MAX;
}

static bool is_left_for_ever(struct stage *stage)
{
    for (unsigned i = 0; i < stage->locks_n; i++) {
        const struct stage_lock *lock = &stage->locks[i];

        /* A holder that lives may still give it back; one that is dead cannot, and
         * without a lease nobody can. */
        if (lock->has_key && lock->ends_us == PAGE_NEVER && lock->holder &&
            lock->holder->is_dead)
            return true;
    }
    return false;
}

/* Whether SELECT has a number, and that is above 0. */
static bool has_number(struct stage *stage, const char *select)
{
    int64_t number;

    return (program_number(stage->world.db_path, select, &number) ||
            fail_with(&stage->error, "the database cannot be read: %s",
                      select)) &&
           number > 0;
}

/* The check of its program. */
static bool breaks_a_promise(const struct actor *actor)
{
    const struct program_check *check = actor->program->check;
    struct stage *stage = actor->stage;

    if (actor->lane->is_wrong)
        return true;
    /* The query costs a connection: it is asked once, and its line is told once. */
    if (!check || (stage->verdict.faults & (1u << STAGE_CHECK)) ||
        (check->first && !has_number(stage, check->first)) ||
        !has_number(stage, check->select))
        return false;
    stage_tell(stage, NULL, "", check->wrong);
    return true;
}

/* ---- the judge ---------------------------------------------------------- */

enum when { AT_ANY_TIME, AT_THE_END, BEFORE_THE_END };

static const struct rule {
    enum stage_fault fault;
    enum when when;
    bool (*is_broken)(struct stage *stage);
    bool (*is_broken_by)(const struct actor *actor); /* by any */
} rules[] = {
    {STAGE_FOREVER, AT_ANY_TIME, is_left_for_ever, NULL},
    {STAGE_TWICE, AT_ANY_TIME, has_too_many, NULL},
    {STAGE_LOST, AT_THE_END, has_lost_one, NULL},
    {STAGE_LOST, AT_THE_END, NULL, has_anothers},
    {STAGE_LOST, AT_THE_END, NULL, has_wrong_id},
    {STAGE_HELD, AT_THE_END, is_still_held, NULL},
    {STAGE_REFUSED, AT_THE_END, NULL, has_refused},
    {STAGE_FAILED, AT_THE_END, has_failed, NULL},
    {STAGE_FAILED, BEFORE_THE_END, has_no_end, NULL},
    {STAGE_FAILED, BEFORE_THE_END, NULL, oversleeps},
    {STAGE_HOLDS, AT_THE_END, NULL, has_holds_left},
    {STAGE_CHECK, AT_THE_END, NULL, breaks_a_promise},
    {STAGE_DEADLOCK, BEFORE_THE_END, is_stuck, NULL},
};

void stage_broke(struct stage *stage, enum stage_fault fault)
{
    struct stage_verdict *verdict = &stage->verdict;
    unsigned *bits =
        STAGE_REMARKS & (1u << fault) ? &verdict->remarks : &verdict->faults;

    /* The first move that broke it stays: a search must tell the shortest schedule. */
    if (*bits & (1u << fault))
        return;
    *bits |= 1u << fault;
    verdict->moves[fault] = stage->moves_n;
}

/* SPARES: units that the naive way loses by itself, because it was cut short between
 * two statements, are nobody's fault. */
static void judge(struct stage *stage, bool spares)
{
    bool over = stage_is_over(stage);
    unsigned found = ledger_faults(stage->audit);

    /* Whatever else the lock does: a command of it that does nothing is no step of a lock,
     * and a reply that it does not understand is no answer. */
    for (const struct actor *each = stage->actors; each < stage->end; each++)
        found |= each->lane->faults;
    /* An order under way may have taken units, and not be recorded yet: so these are of
     * the end. */
    if (over &&
        !(spares && stage->cut_short && stage->scene.deduct == DEDUCT_NAIVE))
        found |= ledger_faults_at_the_end(stage->audit);
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (found & (1u << i))
            stage_broke(stage, i);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        const struct rule *rule = &rules[i];
        bool applies = rule->when == AT_ANY_TIME ||
                       (rule->when == AT_THE_END && over) ||
                       (rule->when == BEFORE_THE_END && !over);

        if (applies && rule->is_broken && rule->is_broken(stage))
            stage_broke(stage, rule->fault);
        for (const struct actor *each = stage->actors;
             applies && rule->is_broken_by && each < stage->end; each++)
            if (rule->is_broken_by(each))
                stage_broke(stage, rule->fault);
    }
}

void stage_judge(struct stage *stage, struct stage_verdict *verdict)
{
    judge(stage, false);
    *verdict = stage->verdict;
    /* Marks are for people: only a fault of the move under way has its line in sight. */
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (verdict->faults & (1u << i) && verdict->moves[i] == stage->moves_n)
            stage_mark_fault(stage, i);
}

unsigned stage_faults(struct stage *stage)
{
    judge(stage, true);
    return stage->verdict.faults;
}

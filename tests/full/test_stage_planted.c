/*
 * The test of the search: bugs that people have made are planted into the real
 * code, and it has to find each. Nothing where none is planted: full/explore-all.t,
 * e2e/stories.t.
 *
 * They are planted here only, by the linker (--wrap, see the Makefile): what sells
 * has no switch for any of them. More of them, in the order path and the ledger, are
 * in tests/planted, as patches.
 */
#include <inttypes.h>

#include "lock/core/held.h"
#include "lock/core/session.h"
#include "lock/redis/command.h"
#include "server/base/app.h"
#include "server/lab/search/search.h"
#include "server/lab/turns/turns.h"
#include "tests/support/stage_scene.h"

enum plant {
    NOTHING,
    RELEASE_WITHOUT_OWNER, /* whoever releases frees the lock, whose ever it is */
    RESENT_COUNTS_TWICE,   /* an acquire that comes twice is two holds */
    HINT_BELIEVED,         /* one segment is short, so all is sold out */
    SOLD_OUT_FOR_EVER,     /* what was sold out once stays so */
    RELEASE_WAKES_NOBODY,
    RELEASE_OF_ANOTHERS, /* it sets the lease of who has the lock */
    RELEASE_SAYS_LOST,
    RENEWAL_SAYS_LOST,
    HOLDER_WAITS, /* who comes in again is told to wait for itself */
    TOKEN_STAYS,
    FLOOR_FORGOTTEN,  /* a server that lost its counter begins at 1 */
    DEAD_STAY,        /* at the front of a fair lock's queue */
    LAST_IS_FIRST,    /* in the queue of a fair lock */
    RENEWAL_NOT_KEPT, /* its number is compared, and not kept */
    ID_OF_NONE,       /* the second order is told an id that no order has */
    ID_OF_ANOTHER,    /* or that of the order before, another user's */
    PRICE_UNTOLD,
    PRICE_UNTOLD_BEHIND_A_WAIT, /* for a textbook's lock */
    KEY_FORGOTTEN,
    LIMIT_TOO_EARLY, /* who may buy two hears that it may not, by the first */
    TIRED,           /* a process that has said no often says yes instead */
    RESTLESS,        /* whoever has ordered looks at the stock for ever */
    PATIENT,         /* whoever waits for a lock does so for a minute */
    REPLAY_REFUSED, /* an order that comes again is told that its key is another's */
    FIRST_FAILS,   /* the first order of all, and those behind it do not */
    FIRST_REFUSED, /* the same, as sold out */
    STUCK,         /* user 2 waits for nobody when it has ordered */
    OVERSLEEPS,    /* a watchdog that looks when the lease is over */
    STEP_MORE, /* user 2 hears no price, and in a search user 1 has a step more */
};

enum { TIRED_AFTER = 3 };

static enum plant planted; /* the actors are forked from here */
static unsigned orders_n,
    tries_n;         /* of an actor in a schedule, to take a lock */
static pid_t tester; /* this process, and the parent of actors that confirm */

/* ---- the bugs ----------------------------------------------------------- */

/* A copy of PART with AFTER in the place of BEFORE, if that is in there. */
static const char *edit(const char *part, const char *before, const char *after,
                        char text[8192])
{
    const char *at = part ? strstr(part, before) : NULL;

    if (!at)
        return part;
    (void)snprintf(text, 8192, "%.*s%s%s", (int)(at - part), part, after,
                   at + strlen(before));
    return text;
}

/* The server counts by itself, going up and going down, as others do. */
static const struct {
    enum plant plant;
    const char *step, *before, *after;
} edits[] = {
    {RELEASE_WITHOUT_OWNER, "eval-release",
     "redis.call('hexists', lock, owner) == 0", "false"},
    {RELEASE_WAKES_NOBODY, "eval-release", "wake(ARGV[5])", "local _"},
    {RELEASE_OF_ANOTHERS, "eval-release", "remember(-1)",
     "redis.call('pexpire', lock, 60000)"},
    {RELEASE_SAYS_LOST, "eval-release",
     "redis.call('hexists', lock, owner) == 0", "true"},
    {RENEWAL_SAYS_LOST, "eval-renew", "redis.call('hexists', lock, owner) == 0",
     "true"},
    {HOLDER_WAITS, "eval-acquire",
     "redis.call('hexists', KEYS[1], ARGV[1]) == 0", "true"},
    {TOKEN_STAYS, "eval-acquire", "tonumber(ARGV[5])) + 1",
     "tonumber(ARGV[5]))"},
    {FLOOR_FORGOTTEN, "eval-acquire", "tonumber(ARGV[5])) + 1", "0) + 1"},
    {DEAD_STAY, "eval-acquire", "while waiter and not is_alive(waiter)",
     "while false"},
    {LAST_IS_FIRST, "eval-acquire", "tonumber(last[2] or '0') + 1",
     "tonumber(last[2] or '0') - 1"},
    {RENEWAL_NOT_KEPT, "eval-renew", "if last then",
     "if last and way ~= 'renew' then"},
    {RESENT_COUNTS_TWICE, "eval-acquire", "attempt == last", "false"},
    {RESENT_COUNTS_TWICE, "eval-acquire", "holds = holds + 1",
     "holds = redis.call('hget', lock, owner) + 1"},
    {RESENT_COUNTS_TWICE, "eval-release", "holds = tonumber(ARGV[3])",
     "holds = (redis.call('hget', lock, owner) or 1) - 1"},
};

/* A script that no server knows by its hash is sent as text. */
static const struct dlock_script *edit_script(const char *step,
                                              const struct dlock_script *script)
{
    static struct dlock_script edited;
    static char texts[COUNT_OF(edits)][8192];
    bool is_edited = false;

    edited = *script;
    edited.sha = "0000000000000000000000000000000000000000";
    for (size_t i = 0; i < COUNT_OF(edits); i++)
        for (int j = 0; j < DLOCK_SCRIPT_PARTS_MAX; j++) {
            const char *part = edited.parts[j];

            if (edits[i].plant == planted && strcmp(edits[i].step, step) == 0)
                edited.parts[j] =
                    edit(part, edits[i].before, edits[i].after, texts[i]);
            is_edited = is_edited || edited.parts[j] != part;
        }
    return is_edited ? &edited : script;
}

WRAPPED(dlock_command_init);

void __wrap_dlock_command_init(struct dlock_command *command, const char *step,
                               const char *name,
                               const struct dlock_script *script)
{
    if (script)
        script = edit_script(step, script);
    tries_n += strcmp(step, "set") == 0;
    __real_dlock_command_init(command, step, name, script);
}

WRAPPED(dlock_held_add);

void __wrap_dlock_held_add(struct dlock_session *session,
                           const struct dlock_grant *grant,
                           uint64_t granted_at_ms, unsigned max_hold_ms)
{
    if (planted == OVERSLEEPS)
        granted_at_ms += session->client->watchdog_lease_ms;
    __real_dlock_held_add(session, grant, granted_at_ms, max_hold_ms);
}

WRAPPED(order_set_decided);

void __wrap_order_set_decided(struct order *order, enum store_status status,
                              const struct store_error *error)
{
    static unsigned refused_n; /* in all schedules */
    static char before[STORE_ID_BYTES_MAX + 1];
    char own[sizeof(before)];

    memcpy(own, order->record.id, sizeof(own));
    if (planted == ID_OF_ANOTHER && before[0])
        memcpy(order->record.id, before, sizeof(own));
    memcpy(before, own, sizeof(own));
    if (planted == ID_OF_NONE && order->record.number > 1)
        order->record.id[0] ^= 1;
    if (planted == PRICE_UNTOLD ||
        (planted == PRICE_UNTOLD_BEHIND_A_WAIT && tries_n > orders_n) ||
        (planted == STEP_MORE && order->record.user_id == 2))
        order->record.price_cents = 0;
    if (planted == REPLAY_REFUSED && order->record.replayed)
        order->record.status = STORE_KEY_REUSED;
    if (planted == FIRST_FAILS && order->record.number == 1)
        order->record.status = STORE_BUSY;
    if (planted == FIRST_REFUSED && order->record.number == 1)
        order->record.status = STORE_SOLD_OUT;
    if (planted == LIMIT_TOO_EARLY)
        order->record.status = STORE_LIMIT;
    if (planted == HINT_BELIEVED && order->record.status == STORE_SHORT)
        order->record.status = STORE_SOLD_OUT;
    if (planted == TIRED && order->record.status == STORE_SOLD_OUT &&
        ++refused_n > TIRED_AFTER)
        order->record.status = STORE_OK;
    __real_order_set_decided(order, status, error);
}

WRAPPED(one_by_one_run);

void __wrap_one_by_one_run(struct task *task, struct worker *worker)
{
    static bool was_sold_out; /* in an order before, of this actor */
    struct order *order = task->owner;
    int64_t stock;
    sem_t nobody;

    if (turns_own_lane()->orders_n == 1) {
        was_sold_out = false;
        orders_n = tries_n = 0;
    }
    orders_n++;
    if (planted == KEY_FORGOTTEN)
        order->record.key[0] = '\0';
    if (planted == PATIENT)
        ((struct config *)worker->app->config)->lock_wait_ms = 60000;
    if (planted == SOLD_OUT_FOR_EVER && was_sold_out) {
        order_set_outcome(order, ORDER_SOLD_OUT, "");
        order_end(order, order->submitted_us);
        return;
    }
    __real_one_by_one_run(task, worker);
    was_sold_out = order->outcome == ORDER_SOLD_OUT;
    while (planted == RESTLESS && !turns_ending())
        (void)store_naive_select(worker->reader, &order->record, &stock, NULL);
    if (planted == STEP_MORE && order->record.user_id == 1 &&
        getppid() != tester && !turns_ending())
        (void)store_naive_select(worker->reader, &order->record, &stock, NULL);
    (void)sem_init(&nobody, 0, 0);
    if (planted == STUCK && order->record.user_id == 2 && !turns_ending())
        (void)sem_wait(&nobody);
}

/* ---- what never ends ----------------------------------------------------- */

/* The number of moves behind which SCHEDULE, played over and over, has broken FAULT; 0: it
 * has not. */
static size_t breaks_at(const char *flags, const char *schedule,
                        enum stage_fault fault)
{
    const struct stage_scene scene = scene_of(flags);
    struct stage_move moves[STAGE_MOVES_MAX];
    struct stage *stage = open_scene(&scene);
    size_t n = moves_of(schedule, moves), i = 0;
    struct fail error;

    while (i < STAGE_MOVES_MAX && !(stage_faults(stage) & 1u << fault) &&
           stage_has_move(stage, moves[i % n]))
        if (!stage_move(stage, moves[i++ % n], &error))
            fail_msg("'%s': %s", schedule, error.text);
    i = stage_faults(stage) & 1u << fault ? i : 0;
    stage_close(stage);
    return i;
}

/* No program has more than forty steps in a row, and no wait goes on when its time is over.
 * To give back what was not paid in time helps nobody who waits for nobody. */
UNIT_TEST(test_what_never_ends_is_told)
{
    planted = RESTLESS;
    assert_int_equal(
        breaks_at("none --deduct guarded --buyers 1", "a", STAGE_FAILED), 41);
    assert_int_equal(breaks_at("none --deduct guarded", "a a b", STAGE_FAILED),
                     0);
    planted = PATIENT;
    assert_int_equal(breaks_at("fenced --deduct guarded --wait-ms 1000",
                               "a a b b b b b b+ b", STAGE_FAILED),
                     9);
    planted = STUCK;
    assert_int_equal(breaks_at("none --deduct guarded --pay-within 1", "a H b",
                               STAGE_DEADLOCK),
                     3);
}

/* Told also where there is something that might be an excuse: the token is the actor's own,
 * another one's move has told it, another waiter is dead, the key is known. */
UNIT_TEST(test_what_is_no_excuse)
{
    planted = TOKEN_STAYS;
    assert_int_equal(breaks_at("fenced --deduct guarded --buyers 1 --stock 2 "
                               "--programs order-twice",
                               "a", STAGE_TOKEN),
                     6);
    planted = RENEWAL_SAYS_LOST; /* by a watchdog that another one has moved */
    assert_int_equal(breaks_at("redisson --deduct guarded --one-process",
                               "b a aw aw", STAGE_TOLD_LOST),
                     4);
    planted = RELEASE_WAKES_NOBODY;
    assert_int_equal(breaks_at("redisson --deduct guarded --buyers 3",
                               "a c c c c! b b b b a a", STAGE_ASLEEP),
                     11);
    planted = REPLAY_REFUSED;
    assert_int_equal(breaks_at("none --deduct guarded --buyers 1 --stock 2 "
                               "--programs order-twice:key=k",
                               "a", STAGE_REFUSED),
                     2);
}

/* Each order is judged, and not only the last one of an actor. */
UNIT_TEST(test_what_another_order_does_not_hide)
{
    static const char *const scenes[][2] = {
        {"none --deduct guarded --buyers 1 --stock 3 --programs order-twice",
         "a"},
        {"fenced --batched --buyers 1 --stock 9",
         "ai a a a a a a a ai a a a a a a ai a"},
    };

    for (size_t i = 0; i < COUNT_OF(scenes); i++) {
        planted = FIRST_FAILS;
        assert_true(breaks_at(scenes[i][0], scenes[i][1], STAGE_FAILED) > 0);
        planted = FIRST_REFUSED;
        assert_true(breaks_at(scenes[i][0], scenes[i][1], STAGE_REFUSED) > 0);
    }
}

/* The hash behind SCHEDULE, and whether anything is broken then. */
static uint64_t hash_behind(struct stage *stage, const char *schedule,
                            bool *is_broken)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    size_t n = moves_of(schedule, moves);
    struct fail error;

    if (!stage_begin(stage, &error))
        fail_msg("%s", error.text);
    for (size_t i = 0; i < n; i++)
        if (!stage_move(stage, moves[i], &error))
            fail_msg("'%s': %s", schedule, error.text);
    *is_broken = stage_faults(stage) != 0;
    return stage_hash(stage);
}

/* The answer that an actor was told is judged when all is over, and is part of the state
 * until then, though the actor is done, or dead. */
UNIT_TEST(test_what_was_told_is_part_of_the_state)
{
    static const char *const pairs[][2] = {
        {"a a a b b b b b b", "a b a a b b b b b b b"},
        {"a a a b b b b b b!", "a b a a b b b b b b b!"},
    };
    const struct stage_scene scene =
        scene_of("set-nx-px --deduct guarded --stock 4 --buyers 3 "
                 "--programs order,order-twice,order");
    struct stage *stage;

    planted = PRICE_UNTOLD_BEHIND_A_WAIT;
    stage = open_scene(&scene);
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        bool is_broken, breaks;

        assert_int_not_equal(hash_behind(stage, pairs[i][0], &is_broken),
                             hash_behind(stage, pairs[i][1], &breaks));
        assert_false(is_broken || breaks);
    }
    stage_close(stage);
    planted = NOTHING;
}

/* ---- what is found ------------------------------------------------------ */

/* Troubles that the fault needs none of would only add schedules. */
static const struct search_bounds few = {.expiries = 1,
                                         .lost = 1,
                                         .waits = 1,
                                         .troubles = 1,
                                         .preemptions = 2,
                                         .moves = 12};

/* Bounds for a bug that comes up soon. */
static const struct search_bounds short_ones = {.expiries = 1,
                                                .lost = 1,
                                                .waits = 1,
                                                .troubles = 1,
                                                .preemptions = 2,
                                                .moves = 8};

/* A turn of the watchdog takes the time in which a command is sent anew. */
static const struct search_bounds held_up = {.expiries = 1,
                                             .late = 1,
                                             .renewals = 2,
                                             .troubles = 4,
                                             .preemptions = 1,
                                             .moves = 11};

static const struct search_bounds held_up_once = {
    .late = 1, .renewals = 2, .troubles = 3, .preemptions = 1, .moves = 5};

static const struct search_bounds forgotten = {
    .forgets = 1, .waits = 1, .troubles = 1, .preemptions = 2, .moves = 8};

/* Longer than a heartbeat: the dead lose their place then. */
static const struct search_bounds waited_for = {
    .crashes = 1, .waits = 3, .troubles = 1, .preemptions = 1, .moves = 16};

static const struct {
    enum plant plant;
    enum stage_fault fault;
    const char *scene;
    const struct search_bounds *bounds;
} cases[] = {
    {RELEASE_WITHOUT_OWNER, STAGE_FOREIGN, "redisson", &few},
    {RESENT_COUNTS_TWICE, STAGE_HOLDS, "redisson", &few},
    {RESENT_COUNTS_TWICE, STAGE_HOLDS, "multi --buyers 1 --programs lock",
     &short_ones}, /* on several servers */
    {HINT_BELIEVED, STAGE_REFUSED,
     "fenced --deduct guarded --segments 2 --stock 2", &few},
    {SOLD_OUT_FOR_EVER, STAGE_REFUSED,
     "fenced --deduct guarded --programs order-twice,order-cancel", &few},
    {ID_OF_NONE, STAGE_LOST, "fenced --batched --buyers 1 --stock 4", &few},
    {ID_OF_ANOTHER, STAGE_LOST, "fenced --batched --buyers 1 --stock 4", &few},
    {PRICE_UNTOLD, STAGE_LOST, "fenced --deduct guarded --buyers 1",
     &short_ones},
    {KEY_FORGOTTEN, STAGE_TWICE,
     "redisson --deduct guarded --stock 2 --programs order:key=k,order:key=k",
     &few},
    {LIMIT_TOO_EARLY, STAGE_REFUSED,
     "fenced --deduct guarded --buyers 1 --stock 2 --limit 2", &short_ones},
    {RELEASE_WAKES_NOBODY, STAGE_ASLEEP, "redisson", &short_ones},
    {RELEASE_OF_ANOTHERS, STAGE_LEASE, "redisson", &short_ones},
    {RELEASE_SAYS_LOST, STAGE_TOLD_LOST, "redisson", &short_ones},
    {OVERSLEEPS, STAGE_TOLD_LEASE,
     "redisson --deduct guarded --buyers 1 --programs lock", &short_ones},
    {HOLDER_WAITS, STAGE_ASLEEP,
     "fenced --deduct guarded --buyers 1 --programs lock-nested", &short_ones},
    {HOLDER_WAITS, STAGE_ASLEEP,
     "fair --deduct guarded --buyers 1 --programs lock-nested", &short_ones},
    {TOKEN_STAYS, STAGE_TOKEN, "fenced --deduct guarded --programs lock,lock",
     &short_ones},
    {FLOOR_FORGOTTEN, STAGE_TOKEN, "fenced", &forgotten},
    {DEAD_STAY, STAGE_ASLEEP,
     "fair --deduct guarded --stock 2 --programs order-twice,order",
     &waited_for},
    {LAST_IS_FIRST, STAGE_OVERTAKEN,
     "fair --deduct guarded --buyers 3 --programs lock,lock,lock", &short_ones},
    /* Two holders: a lease that a late command has cut, and its holder is sure of. */
    {RENEWAL_NOT_KEPT, STAGE_CHECK,
     "redisson --deduct guarded --buyers 1 --programs lock-extends", &held_up},
    /* The same, as the command tells it. */
    {RENEWAL_NOT_KEPT, STAGE_LATE,
     "redisson --deduct guarded --programs lock-extends,lock", &held_up_once},
};

/* Until the fault CTX is found. */
static bool goes_on(void *ctx, const struct search_result *result)
{
    const enum stage_fault *fault = ctx;

    return !result->faults[*fault].is_found;
}

UNIT_TEST(test_planted_bugs_are_found)
{
    static struct search_result result;

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct stage_scene scene = scene_of(cases[i].scene);
        enum stage_fault fault = cases[i].fault;
        const struct search_found *found = &result.faults[fault];
        char text[4 * STAGE_MOVES_MAX + 1];
        struct fail error;

        planted = cases[i].plant;
        if (!search_run(&scene, cases[i].bounds, 0, goes_on, &fault, &result,
                        &error))
            fail_msg("%s: %s", cases[i].scene, error.text);
        if (!found->is_found)
            fail_msg("bug %d was not found in %" PRIu64 " schedules",
                     (int)planted, result.schedules);
        stage_text(found->moves, found->n, text, sizeof(text));
        print_message("bug %d: %s by '%s'\n", (int)planted,
                      stage_fault_word(fault), text);
    }
}

/* A release is marked if nobody is told of it, and somebody waits to be told. */
UNIT_TEST(test_silence_is_marked)
{
    for (int i = 0; i < 2; i++) {
        struct stage_scene scene = STAGE_SCENE("redisson");
        struct stage_move moves[STAGE_MOVES_MAX];
        const struct stage_step *steps;
        bool is_marked = false;
        struct fail error;
        struct stage *stage;
        size_t n, moves_n = moves_of("a b b b b a a a a", moves);

        planted = i == 0 ? NOTHING : RELEASE_WAKES_NOBODY;
        stage = open_scene(&scene);
        for (size_t j = 0; j < moves_n; j++)
            if (!stage_move(stage, moves[j], &error))
                fail_msg("%s", error.text);
        steps = stage_steps(stage, &n);
        for (size_t j = 0; j < n; j++)
            is_marked =
                is_marked || (strcmp(steps[j].name, "eval-release") == 0 &&
                              strcmp(steps[j].mark, "wakes nobody") == 0);
        assert_int_equal(is_marked, i == 1);
        stage_close(stage);
    }
}

/* A finding is played once more where nobody has played: else it is not told. */
UNIT_TEST(test_findings_are_confirmed)
{
    const struct search_bounds bounds = {
        .lost = 1, .troubles = 1, .preemptions = 2, .moves = 11};
    const struct stage_scene scene = STAGE_SCENE("set-nx-px");
    static struct search_result result;
    struct fail error = {""};

    planted = TIRED;
    assert_false(search_run(&scene, &bounds, 0, NULL, NULL, &result, &error));
    planted = NOTHING;
    print_message("%s\n", error.text);
    assert_non_null(strstr(error.text, "an error of the stage's own"));
    assert_false(result.faults[STAGE_LOST].is_found);
}

/* A schedule of which a move is refused is another one, whatever it breaks. */
UNIT_TEST(test_a_finding_is_confirmed_by_all_its_moves)
{
    const struct search_bounds bounds = {.preemptions = 2, .moves = 3};
    const struct stage_scene scene =
        scene_of("none --deduct guarded --stock 2");
    static struct search_result result;
    struct fail error = {""};

    planted = STEP_MORE;
    tester = getpid();
    assert_false(search_run(&scene, &bounds, 1, NULL, NULL, &result, &error));
    planted = NOTHING;
    assert_non_null(strstr(error.text, "'a a b' does not come out again"));
    assert_non_null(strstr(error.text, "'a' is no move now"));
}

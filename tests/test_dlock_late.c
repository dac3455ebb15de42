/*
 * Late commands. A network may hold a command back, or deliver it twice: it comes
 * when a newer one was there. Each command that changes a lock is played against each
 * that may come after it, by the same session or another one: nothing is freed,
 * shortened, lengthened or re-ordered by it, no token falls, and nobody is told of a
 * loss. The numbers that see to that are in the head of lock/redis/numbers.lua.
 *
 * A pair: user 0 does X, whose commands are noted, and perhaps kept from the server;
 * both do what leads to Y; one of them does Y; X's commands arrive.
 */
#include "lock/core/client.h"
#include "tests/support/late_rig.h"
#include "tests/support/lock_rig.h"
#include "tests/support/unit_test.h"

/* Deeds ------------------------------------------------------------------------ */

enum needs { SERVERS = 1, WAITERS = 2 };

static const struct deed {
    const char *name;
    const char *step;
    void (*does)(struct late_user *user);
    unsigned holds; /* before it, by who does it; */
    bool taken;     /* the other one has it; */
    bool waits;     /* and this one waits */
    unsigned skip;  /* commands that come first, of the same step */
    unsigned needs; /* of a lock, or it has no such command */
} deeds[] = {
    {.name = "acquire", .step = "eval-acquire", .does = late_take},
    {.name = "re-entry", .step = "eval-acquire", .does = late_take, .holds = 1},
    {.name = "wait",
     .step = "eval-acquire",
     .does = late_begin_wait,
     .taken = true},
    {.name = "renew", .step = "eval-renew", .does = late_renew, .holds = 1},
    {.name = "extend", .step = "eval-renew", .does = late_extend, .holds = 1},
    {.name = "inner release",
     .step = "eval-release",
     .does = late_give,
     .holds = 2},
    {.name = "release", .step = "eval-release", .does = late_give, .holds = 1},
    {.name = "withdraw", .step = "eval-withdraw", .does = late_take_back},
    {.name = "undo",
     .step = "eval-undo",
     .does = late_take_back,
     .needs = SERVERS},
    {.name = "leave",
     .step = "eval-leave",
     .does = late_end_wait,
     .taken = true,
     .waits = true,
     .needs = WAITERS},
    {.name = "force",
     .step = "eval-force",
     .does = late_force,
     .holds = 1,
     .skip = 1},
    {.name = "fence",
     .step = "eval-fence",
     .does = late_take_fenced,
     .needs = SERVERS},
};

static bool knows_waiters(const struct late_world *world)
{
    return dlock_strategy_called(world->strategy)->give_up != NULL;
}

static bool has(const struct late_world *world, const struct deed *deed)
{
    if (strcmp(deed->name, "withdraw") == 0)
        return world->nodes_n == 1;
    return (deed->needs != SERVERS || world->nodes_n > 1) &&
           (deed->needs != WAITERS || knows_waiters(world));
}

/* Gives back until HOLDS are left. */
static void give_down_to(struct late_user *user, unsigned holds)
{
    while (user->holds > holds)
        late_give(user);
    user->forced_out = user->forced_out && user->holds > 0;
}

/* What got no answer is asked once more, before another one can have the lock. */
static void make_sure(struct late_user *user)
{
    if (!user->unsure)
        return;
    late_take(user);
    late_expect(user->world, "to make sure", user->status, DLOCK_OK);
    late_give(user);
}

static void bring_about(struct late_world *world, unsigned who,
                        const struct deed *deed)
{
    struct late_user *user = &world->users[who],
                     *other = &world->users[1 - who];

    if (other->waits)
        late_end_wait(other);
    if (user->waits && !deed->waits)
        late_end_wait(user);
    give_down_to(user, user->forced_out ? 0 : deed->holds);
    give_down_to(other, deed->taken && !other->forced_out ? 1 : 0);
    if (user->holds == 0 && !deed->taken)
        make_sure(other);
    if (deed->taken && other->holds == 0) {
        make_sure(user);
        late_take(other);
        late_expect(world, "acquire by another", other->status, DLOCK_OK);
    }
    while (user->holds < deed->holds) {
        late_take(user);
        late_expect(world, "acquire", user->status, DLOCK_OK);
    }
    if (deed->waits && !user->waits)
        late_begin_wait(user);
}

/* Whoever believes to hold it does. */
static void settle(struct late_world *world)
{
    for (unsigned i = 0; i < 2; i++) {
        struct late_user *user = &world->users[i];

        if (user->waits)
            late_end_wait(user);
        if (user->holds > 0 && !user->forced_out)
            late_extend(user);
        give_down_to(user, 0);
    }
}

/* Pairs -------------------------------------------------------------------------- */

/*
 * Whether X, held back, is not late, because Y is nothing newer for it: the other one
 * asks in vain for what X's sender goes on to hold, or holds on to what it waits for;
 * or a renewal, beside which one hold of two is given back, and a hold is ended that
 * a force has seen.
 */
static bool is_due(const struct deed *x, const struct deed *y, unsigned who)
{
    bool inner = x->does == late_give && x->holds == 2;
    bool beside_renewals = inner || x->does == late_force;

    if (who == 0)
        return y->does == late_renew && beside_renewals;
    if (x->does == late_end_wait)
        return y->holds > 0;
    return y->taken &&
           (beside_renewals || x->does == late_renew || x->does == late_extend);
}

/* X by user 0, Y by user WHO (NULL: nothing), X's commands. */
static void play(struct late_world *world, const struct deed *x, bool held_back,
                 const struct deed *y, unsigned who)
{
    (void)snprintf(world->pair, sizeof(world->pair), "%s: %s %s, then %s of %s",
                   world->strategy, x->name, held_back ? "held back" : "twice",
                   y == NULL ? "nothing" : y->name,
                   who == 0 ? "its own" : "another");
    late_forget(world);
    bring_about(world, 0, x);
    world->noted_step = x->step;
    world->skip = x->skip;
    world->held_back = held_back;
    x->does(&world->users[0]);
    world->noted_step = NULL;
    world->held_back = false;
    if (world->noted_n == 0)
        fail_msg("%s: there was no %s", world->pair, x->step);
    if (y != NULL) {
        bring_about(world, who, y);
        y->does(&world->users[who]);
    }
    late_deliver(world, x->does == late_begin_wait && !held_back &&
                            !knows_waiters(world));
    settle(world);
    world->users[0].unsure = false;
    memset(world->users[0].over, 0, sizeof(world->users[0].over));
}

static void play_all(struct late_world *world, const struct deed *x)
{
    play(world, x, false, NULL, 0);
    for (size_t i = 0; i < COUNT_OF(deeds); i++)
        for (unsigned who = 0; who < 2 && has(world, &deeds[i]); who++) {
            play(world, x, false, &deeds[i], who);
            if (!is_due(x, &deeds[i], who))
                play(world, x, true, &deeds[i], who);
        }
}

/* The watchdog's thread sends beside the session: no harm, and no doubt. */
static void extend_overtaken(struct late_world *world)
{
    struct late_user *user = &world->users[0];

    (void)snprintf(world->pair, sizeof(world->pair), "%s: extend overtaken",
                   world->strategy);
    late_forget(world);
    late_take(user);
    late_expect(world, "acquire", user->status, DLOCK_OK);
    user->overtaken = true;
    late_extend(user);
    assert_false(user->overtaken);
    assert_in_range(redis_server_number(world->servers[0], "PTTL k"), 1,
                    LATE_SHORT_MS);
    late_give(user);
}

static void play_strategy(struct late_world *world, const char *strategy,
                          unsigned nodes_n)
{
    world->strategy = strategy;
    world->nodes_n = nodes_n;
    for (unsigned i = 0; i < 2; i++)
        late_open(world, &world->users[i]);
    extend_overtaken(world);
    for (size_t i = 0; i < COUNT_OF(deeds); i++)
        if (has(world, &deeds[i]))
            play_all(world, &deeds[i]);
    for (unsigned i = 0; i < 2; i++)
        late_close(&world->users[i]);
}

static struct late_world world;

/* A lock, and on how many servers. */
struct late_lock {
    const char *strategy;
    unsigned nodes_n;
};

static void test_lock(void **state)
{
    const struct late_lock *lock = *state;

    play_strategy(&world, lock->strategy, lock->nodes_n);
}

static int set_up(NO_STATE)
{
    for (unsigned i = 0; i < LATE_NODES_MAX; i++)
        world.servers[i] = redis_server_start();
    return 0;
}

static int tear_down(NO_STATE)
{
    for (unsigned i = 0; i < LATE_NODES_MAX; i++)
        redis_server_stop(world.servers[i]);
    return 0;
}

#define LOCK(strategy, nodes_n)                                                \
    CASE_TEST(strategy, test_lock, &((struct late_lock){strategy, nodes_n}))

static const struct CMUnitTest tests[] = {
    LOCK("redisson", 1),           LOCK("fenced", 1),
    LOCK("fenced-late", 1),        LOCK("fair", 1),
    LOCK("multi", LATE_NODES_MAX), LOCK("redlock", LATE_NODES_MAX),
};
UNIT_TESTS_ADD(tests)

UNIT_TESTS_WITHIN(set_up, tear_down)

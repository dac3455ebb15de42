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
#include "lock/core/clock.h"
#include "lock/core/session.h"
#include "tests/support/fake_clock.h"
#include "tests/support/lock_rig.h"

enum {
    NODES_MAX = 3,
    NOTED_MAX = 32,
    SHORT_MS = 30000,
    LEASE_MS = 60000,
    OF_AGE_MS = 200000,
    TIMEOUT_MS = 10000,
    STATE_BYTES_MAX = 1024,
};

/* A session, and what it believes. */
struct user {
    struct fake_clock clock; /* stands still, but while a reply is waited for */
    struct dlock *client;
    struct dlock_session *session;
    struct dlock_grant grants[2];
    unsigned holds;
    enum dlock_status status; /* of the last acquire */
    bool unsure; /* a release, or the end of a wait, that got no answer */
    bool waits;
    bool forced_out;
    struct dlock_wait wait;
    unsigned long long over[NODES_MAX]; /* will be, by what was not awaited */
    bool overtaken; /* its next extend, by a renewal that is sent before it */
    bool loses; /* its acquires do not reach the server, nor are they noted */
    unsigned reaching; /* but for so many */
};

/* One command on its way. */
struct noted {
    unsigned node;
    char *line;
};

static struct {
    struct redis_server *servers[NODES_MAX];
    unsigned nodes_n;
    const char *strategy;
    struct user users[2];
    /* Commands of user 0 that are noted. */
    const char *noted_step;
    unsigned skip; /* so many to each node come first */
    bool held_back;
    struct noted noted[NOTED_MAX];
    unsigned noted_n;
    unsigned passed_n[NODES_MAX];
    char pair[100];
} world;

/* The servers ---------------------------------------------------------------- */

/* The highest number that is over for USER at NODE. */
static unsigned long long number_over(const struct user *user, unsigned node)
{
    unsigned long long released = 0, over = 0;
    char command[120], reply[80], *text;

    (void)snprintf(command, sizeof(command), "GET {k}:dlock-done:%s",
                   dlock_session_owner(user->session));
    redis_server_ask(world.servers[node], command, reply, sizeof(reply));
    text = strchr(reply, '\n');
    if (text == NULL || sscanf(text, "%llu:%*d:%llu", &released, &over) < 1)
        return 0;
    return released > over ? released : over;
}

/* They are empty, and nothing is on its way. */
static void forget(void)
{
    for (unsigned i = 0; i < world.nodes_n; i++)
        redis_server_tell(world.servers[i], "FLUSHALL");
    for (unsigned i = 0; i < world.noted_n; i++)
        free(world.noted[i].line);
    world.noted_n = 0;
    world.noted_step = NULL;
    memset(world.passed_n, 0, sizeof(world.passed_n));
}

/* All that a session may rely on; and the number that may only rise. */
static const char look[] =
    "EVAL \"local said = {} "
    "local fields = redis.call('hgetall', 'k') "
    "for i = 1, #fields, 2 do "
    "  if fields[i] ~= 'attempt' and fields[i] ~= 'renewed' then "
    "    said[#said + 1] = fields[i] .. '=' .. fields[i + 1] end end "
    "table.sort(said) "
    "said[#said + 1] = 'until=' .. redis.call('pexpiretime', 'k') "
    "said[#said + 1] = 'fence=' .. (redis.call('get', '{k}:dlock-fence') or "
    "'') "
    "for _, key in ipairs({'queue', 'waiters'}) do "
    "  said[#said + 1] = key .. '=' .. table.concat("
    "    redis.call('zrange', '{k}:dlock-' .. key, 0, -1), ',') end "
    "return table.concat(said, ' ')\" 0";

static void look_at(unsigned node, char state[STATE_BYTES_MAX])
{
    redis_server_ask(world.servers[node], look, state, STATE_BYTES_MAX);
    if (state[0] != '$')
        fail_msg("%s: %s", world.pair, state);
}

/* Commands that were noted arrive, and must change nothing. FORGIVEN: but an acquire that was
 * told no may take what is free by now, as locks that do not know their waiters keep
 * nothing of those. */
static void deliver(bool forgiven)
{
    char before[NODES_MAX][STATE_BYTES_MAX], after[STATE_BYTES_MAX];
    unsigned long long over[NODES_MAX] = {0};

    for (unsigned i = 0; i < world.nodes_n; i++) {
        look_at(i, before[i]);
        over[i] = number_over(&world.users[0], i);
    }
    for (unsigned i = 0; i < world.noted_n; i++)
        redis_server_ask(world.servers[world.noted[i].node],
                         world.noted[i].line, NULL, 0);
    for (unsigned i = 0; i < world.nodes_n; i++) {
        look_at(i, after);
        if (strcmp(before[i], after) != 0 &&
            !(forgiven && strstr(before[i], "until=-2") != NULL))
            fail_msg("%s:\n  was %s  is  %s", world.pair, before[i], after);
        if (number_over(&world.users[0], i) < over[i])
            fail_msg("%s: what was over is not", world.pair);
    }
}

/* Users' calls --------------------------------------------------------------- */

static void expect(const char *what, enum dlock_status status,
                   enum dlock_status expected)
{
    if (status != expected)
        fail_msg("%s: %s: %s", world.pair, what, dlock_status_text(status));
}

/* A withdraw is sent, and its answer not waited for. */
static void await_over(struct user *user)
{
    for (unsigned i = 0; i < world.nodes_n; i++) {
        for (unsigned ms = 0; number_over(user, i) < user->over[i]; ms++) {
            if (ms == TIMEOUT_MS)
                fail_msg("%s: what was taken back is not over", world.pair);
            lock_rig_sleep_ms(1);
        }
        user->over[i] = 0;
    }
}

static enum dlock_status ask_for(struct user *user, bool fenced)
{
    struct dlock_terms terms = {.lease_ms = LEASE_MS, .fenced = fenced};
    enum dlock_status status =
        dlock_try(user->session, "k", &terms, &user->grants[user->holds], NULL);

    await_over(user);
    return status;
}

/* A server has a vote when it has been connected to for the longest lease. */
static void come_of_age(struct user *user)
{
    struct dlock_grant grant;

    if (strcmp(world.strategy, "redlock") != 0)
        return;
    if (lock_rig_take(user->session, "age", 0, LEASE_MS, &grant) != DLOCK_OK) {
        fake_clock_advance(&user->clock, OF_AGE_MS);
        expect("of age",
               lock_rig_take(user->session, "age", 0, LEASE_MS, &grant),
               DLOCK_OK);
    }
    expect("of age", dlock_release(user->session, &grant, NULL), DLOCK_OK);
}

/* An acquire may come to nothing: then there is no hold more. */
static void take(struct user *user)
{
    come_of_age(user);
    user->status = ask_for(user, false);
    if (user->status == DLOCK_OK)
        user->holds++;
}

/* Unequal counters: what one server says has to be told to the others. */
static void take_fenced(struct user *user)
{
    static unsigned long long count = 8000000000000000; /* past the time */

    come_of_age(user);
    for (unsigned i = 0; i < world.nodes_n; i++)
        redis_server_tell(world.servers[i], "SET {k}:dlock-fence %llu",
                          count += 10);
    if (ask_for(user, true) == DLOCK_OK)
        user->holds++;
}

static void give(struct user *user)
{
    enum dlock_status status =
        dlock_release(user->session, &user->grants[user->holds - 1], NULL);

    user->holds--;
    user->unsure = status == DLOCK_UNKNOWN;
    if (!user->unsure)
        expect("release", status, user->forced_out ? DLOCK_LOST : DLOCK_OK);
}

static void extend(struct user *user)
{
    enum dlock_status status = dlock_extend(
        user->session, &user->grants[user->holds - 1], SHORT_MS, NULL);

    if (!world.held_back)
        expect("extend", status, DLOCK_OK);
}

/* As the watchdog does, when there is no other command under way. */
static void renew(struct user *user)
{
    struct dlock *client = user->client;
    struct dlock_renew renew = {.name = "k",
                                .owner = user->session->owner,
                                .number = dlock_number(client)};

    client->strategy->renew(client, &renew, 1, 2 * LEASE_MS,
                            dlock_clock_now(client->clock) + TIMEOUT_MS);
    if (renew.status == DLOCK_OK)
        expect("renew", renew.answer == 1 ? DLOCK_OK : DLOCK_LOST, DLOCK_OK);
}

/* An acquire that the server never gets, and what takes it back. */
static void take_back(struct user *user)
{
    come_of_age(user);
    user->loses = true;
    /* multi takes one server after the other: all are told to forget it. */
    user->reaching =
        strcmp(world.strategy, "multi") == 0 ? world.nodes_n - 1 : 0;
    expect("lost acquire", ask_for(user, false), DLOCK_UNKNOWN);
    user->loses = false;
    user->unsure = world.held_back;
}

static void end_wait(struct user *user)
{
    struct dlock_grant grant;

    (void)dlock_session_end(&user->wait, &grant);
    dlock_session_leave(user->session);
    await_over(user);
    user->waits = false;
    user->unsure = world.held_back;
}

static void begin_wait(struct user *user)
{
    static const struct dlock_terms terms = {.wait_ms = LEASE_MS,
                                             .lease_ms = LEASE_MS};

    come_of_age(user);
    expect("enter", dlock_session_enter(user->session), DLOCK_OK);
    assert_true(dlock_session_begin(&user->wait, user->session, "k", &terms));
    assert_true(dlock_wait_try(&user->wait));
    user->waits = true;
    if (user->wait.status != DLOCK_BUSY)
        end_wait(user);
}

/* By an operator, who has the client's other session. */
static void force(struct user *user)
{
    struct dlock_session *session = lock_rig_session(user->client);

    user->forced_out = dlock_force_release(session, "k", NULL) == DLOCK_OK;
    dlock_session_close(session);
}

/* The network ------------------------------------------------------------------ */

static bool is_noted(const struct user *user, const struct dlock_step *step)
{
    return user == &world.users[0] && world.noted_step != NULL &&
           strcmp(step->name, world.noted_step) == 0 &&
           world.passed_n[step->node]++ >= world.skip;
}

static bool is_lost(struct user *user, const struct dlock_step *step)
{
    if (!user->loses || strcmp(step->name, "eval-acquire") != 0)
        return false;
    if (user->reaching == 0)
        return true;
    user->reaching--;
    return false;
}

static enum dlock_verdict hook(void *ctx, const struct dlock_step *step)
{
    struct user *user = ctx;
    bool held_back;

    if (step->phase != DLOCK_BEFORE || strcmp(step->key, "k") != 0)
        return DLOCK_GO;
    if (user->overtaken && strcmp(step->name, "eval-renew") == 0) {
        user->overtaken = false;
        renew(user);
    }
    held_back = is_lost(user, step);
    if (is_noted(user, step)) {
        assert_true(world.noted_n < NOTED_MAX);
        world.noted[world.noted_n++] =
            (struct noted){.node = step->node, .line = step_line(step)};
        held_back = held_back || world.held_back;
    }
    if (!held_back) {
        if (strcmp(step->name, "eval-withdraw") == 0 ||
            strcmp(step->name, "eval-undo") == 0)
            user->over[step->node] = number_over(user, step->node) + 1;
        return DLOCK_GO;
    }
    fake_clock_advance(&user->clock, TIMEOUT_MS);
    return DLOCK_HOLD_BACK;
}

static void open_user(struct user *user)
{
    char url[NODES_MAX * 100] = "";
    struct dlock_options options = {.strategy = world.strategy,
                                    .url = url,
                                    .longest_lease_ms = 2 * LEASE_MS,
                                    .command_timeout_ms = TIMEOUT_MS,
                                    .clock = &user->clock.face,
                                    .on_step = hook,
                                    .on_step_ctx = user};

    for (unsigned i = 0; i < world.nodes_n; i++)
        (void)snprintf(url + strlen(url), sizeof(url) - strlen(url), "%s%s",
                       i > 0 ? "," : "", redis_server_url(world.servers[i]));
    memset(user, 0, sizeof(*user));
    fake_clock_init(&user->clock, OF_AGE_MS);
    /* Owner ids are dice. */
    atomic_store(&user->clock.dice, (uint64_t)(user - world.users) + 2);
    user->client = lock_rig_open(&options);
    user->session = lock_rig_session(user->client);
}

static void close_user(struct user *user)
{
    dlock_session_close(user->session);
    dlock_close(user->client);
}

/* Deeds ------------------------------------------------------------------------ */

enum needs { SERVERS = 1, WAITERS = 2 };

static const struct deed {
    const char *name;
    const char *step;
    void (*does)(struct user *user);
    unsigned holds; /* before it, by who does it; */
    bool taken;     /* the other one has it; */
    bool waits;     /* and this one waits */
    unsigned skip;  /* commands that come first, of the same step */
    unsigned needs; /* of a lock, or it has no such command */
} deeds[] = {
    {"acquire", "eval-acquire", take, .holds = 0},
    {"re-entry", "eval-acquire", take, .holds = 1},
    {"wait", "eval-acquire", begin_wait, .taken = true},
    {"renew", "eval-renew", renew, .holds = 1},
    {"extend", "eval-renew", extend, .holds = 1},
    {"inner release", "eval-release", give, .holds = 2},
    {"release", "eval-release", give, .holds = 1},
    {"withdraw", "eval-withdraw", take_back, .holds = 0},
    {"undo", "eval-undo", take_back, .needs = SERVERS},
    {"leave", "eval-leave", end_wait, .taken = true, .waits = true,
     .needs = WAITERS},
    {"force", "eval-force", force, .holds = 1, .skip = 1},
    {"fence", "eval-fence", take_fenced, .needs = SERVERS},
};

static bool knows_waiters(void)
{
    return dlock_strategy_called(world.strategy)->give_up != NULL;
}

static bool has(const struct deed *deed)
{
    if (strcmp(deed->name, "withdraw") == 0)
        return world.nodes_n == 1;
    return (deed->needs != SERVERS || world.nodes_n > 1) &&
           (deed->needs != WAITERS || knows_waiters());
}

/* Gives back until HOLDS are left. */
static void give_down_to(struct user *user, unsigned holds)
{
    while (user->holds > holds)
        give(user);
    user->forced_out = user->forced_out && user->holds > 0;
}

/* What got no answer is asked once more, before another one can have the lock. */
static void make_sure(struct user *user)
{
    if (!user->unsure)
        return;
    take(user);
    expect("to make sure", user->status, DLOCK_OK);
    give(user);
}

static void bring_about(unsigned who, const struct deed *deed)
{
    struct user *user = &world.users[who], *other = &world.users[1 - who];

    if (other->waits)
        end_wait(other);
    if (user->waits && !deed->waits)
        end_wait(user);
    give_down_to(user, user->forced_out ? 0 : deed->holds);
    give_down_to(other, deed->taken && !other->forced_out ? 1 : 0);
    if (user->holds == 0 && !deed->taken)
        make_sure(other);
    if (deed->taken && other->holds == 0) {
        make_sure(user);
        take(other);
        expect("acquire by another", other->status, DLOCK_OK);
    }
    while (user->holds < deed->holds) {
        take(user);
        expect("acquire", user->status, DLOCK_OK);
    }
    if (deed->waits && !user->waits)
        begin_wait(user);
}

/* A user that believes to hold it does. */
static void settle(void)
{
    for (unsigned i = 0; i < 2; i++) {
        struct user *user = &world.users[i];

        if (user->waits)
            end_wait(user);
        if (user->holds > 0 && !user->forced_out)
            extend(user);
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
    bool inner = x->does == give && x->holds == 2;
    bool beside_renewals = inner || x->does == force;

    if (who == 0)
        return y->does == renew && beside_renewals;
    if (x->does == end_wait)
        return y->holds > 0;
    return y->taken &&
           (beside_renewals || x->does == renew || x->does == extend);
}

/* X by user 0, Y by user WHO (NULL: nothing), X's commands. */
static void play(const struct deed *x, bool held_back, const struct deed *y,
                 unsigned who)
{
    (void)snprintf(world.pair, sizeof(world.pair), "%s: %s %s, then %s of %s",
                   world.strategy, x->name, held_back ? "held back" : "twice",
                   y == NULL ? "nothing" : y->name,
                   who == 0 ? "its own" : "another");
    forget();
    bring_about(0, x);
    world.noted_step = x->step;
    world.skip = x->skip;
    world.held_back = held_back;
    x->does(&world.users[0]);
    world.noted_step = NULL;
    world.held_back = false;
    if (world.noted_n == 0)
        fail_msg("%s: there was no %s", world.pair, x->step);
    if (y != NULL) {
        bring_about(who, y);
        y->does(&world.users[who]);
    }
    deliver(x->does == begin_wait && !held_back && !knows_waiters());
    settle();
    world.users[0].unsure = false;
    memset(world.users[0].over, 0, sizeof(world.users[0].over));
}

static void play_all(const struct deed *x)
{
    play(x, false, NULL, 0);
    for (size_t i = 0; i < COUNT_OF(deeds); i++)
        for (unsigned who = 0; who < 2 && has(&deeds[i]); who++) {
            play(x, false, &deeds[i], who);
            if (!is_due(x, &deeds[i], who))
                play(x, true, &deeds[i], who);
        }
}

/* The watchdog's thread sends beside the session: no harm, and no doubt. */
static void extend_overtaken(void)
{
    struct user *user = &world.users[0];

    (void)snprintf(world.pair, sizeof(world.pair), "%s: extend overtaken",
                   world.strategy);
    forget();
    take(user);
    expect("acquire", user->status, DLOCK_OK);
    user->overtaken = true;
    extend(user);
    assert_false(user->overtaken);
    assert_in_range(redis_server_number(world.servers[0], "PTTL k"), 1,
                    SHORT_MS);
    give(user);
}

/* A lock, and on how many servers. */
struct row {
    const char *strategy;
    unsigned nodes_n;
};

static void test_lock(void **state)
{
    const struct row *lock = *state;

    world.strategy = lock->strategy;
    world.nodes_n = lock->nodes_n;
    for (unsigned i = 0; i < 2; i++)
        open_user(&world.users[i]);
    extend_overtaken();
    for (size_t i = 0; i < COUNT_OF(deeds); i++)
        if (has(&deeds[i]))
            play_all(&deeds[i]);
    for (unsigned i = 0; i < 2; i++)
        close_user(&world.users[i]);
}

static int set_up(NO_STATE)
{
    for (unsigned i = 0; i < NODES_MAX; i++)
        world.servers[i] = redis_server_start();
    return 0;
}

static int tear_down(NO_STATE)
{
    for (unsigned i = 0; i < NODES_MAX; i++)
        redis_server_stop(world.servers[i]);
    return 0;
}

#define LOCK(strategy, nodes_n)                                                \
    CASE_TEST(strategy, test_lock, &((struct row){strategy, nodes_n}))

static const struct CMUnitTest tests[] = {
    LOCK("redisson", 1), LOCK("fenced", 1),        LOCK("fenced-late", 1),
    LOCK("fair", 1),     LOCK("multi", NODES_MAX), LOCK("redlock", NODES_MAX),
};
UNIT_TESTS_ADD(tests)

UNIT_TESTS_WITHIN(set_up, tear_down)

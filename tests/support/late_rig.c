#include "tests/support/late_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "tests/support/lock_rig.h"

enum {
    LEASE_MS = 60000,
    OF_AGE_MS = 200000,
    TIMEOUT_MS = 10000,
    STATE_BYTES_MAX = 1024,
};

/* The network --------------------------------------------------------------- */

static bool is_noted(const struct late_user *user,
                     const struct dlock_step *step)
{
    struct late_world *world = user->world;

    return user == &world->users[0] && world->noted_step != NULL &&
           strcmp(step->name, world->noted_step) == 0 &&
           world->passed_n[step->node]++ >= world->skip;
}

/* Of what is over for USER at NODE. */
static unsigned long long number_over(const struct late_user *user,
                                      unsigned node)
{
    unsigned long long released = 0, over = 0;
    char command[120], reply[80], *text;

    (void)snprintf(command, sizeof(command), "GET {k}:dlock-done:%s",
                   dlock_session_owner(user->session));
    redis_server_ask(user->world->servers[node], command, reply, sizeof(reply));
    text = strchr(reply, '\n');
    if (text == NULL || sscanf(text, "%llu:%*d:%llu", &released, &over) < 1)
        return 0;
    return released > over ? released : over;
}

static bool is_lost(struct late_user *user, const struct dlock_step *step)
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
    struct late_user *user = ctx;
    struct late_world *world = user->world;
    bool held_back;

    if (step->phase != DLOCK_BEFORE || strcmp(step->key, "k") != 0)
        return DLOCK_GO;
    if (user->overtaken && strcmp(step->name, "eval-renew") == 0) {
        user->overtaken = false;
        late_renew(user);
    }
    held_back = is_lost(user, step);
    if (is_noted(user, step)) {
        assert_true(world->noted_n < LATE_NOTED_MAX);
        world->noted[world->noted_n++] =
            (struct late_noted){.node = step->node, .line = step_line(step)};
        held_back = held_back || world->held_back;
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

static void send_noted(struct late_world *world)
{
    for (unsigned i = 0; i < world->noted_n; i++)
        redis_server_ask(world->servers[world->noted[i].node],
                         world->noted[i].line, NULL, 0);
}

void late_forget(struct late_world *world)
{
    for (unsigned i = 0; i < world->nodes_n; i++)
        redis_server_ask(world->servers[i], "FLUSHALL", NULL, 0);
    for (unsigned i = 0; i < world->noted_n; i++)
        free(world->noted[i].line);
    world->noted_n = 0;
    world->noted_step = NULL;
    memset(world->passed_n, 0, sizeof(world->passed_n));
}

/* The servers ---------------------------------------------------------------- */

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

static void look_at(const struct late_world *world, unsigned node,
                    char state[STATE_BYTES_MAX])
{
    redis_server_ask(world->servers[node], look, state, STATE_BYTES_MAX);
    if (state[0] != '$')
        fail_msg("%s: %s", world->pair, state);
}

void late_deliver(struct late_world *world, bool forgiven)
{
    char before[LATE_NODES_MAX][STATE_BYTES_MAX], after[STATE_BYTES_MAX];
    unsigned long long over[LATE_NODES_MAX] = {0};

    for (unsigned i = 0; i < world->nodes_n; i++) {
        look_at(world, i, before[i]);
        over[i] = number_over(&world->users[0], i);
    }
    send_noted(world);
    for (unsigned i = 0; i < world->nodes_n; i++) {
        look_at(world, i, after);
        if (strcmp(before[i], after) != 0 &&
            !(forgiven && strstr(before[i], "until=-2") != NULL))
            fail_msg("%s:\n  was %s  is  %s", world->pair, before[i], after);
        if (number_over(&world->users[0], i) < over[i])
            fail_msg("%s: what was over is not", world->pair);
    }
}

/* What users do -------------------------------------------------------------- */

void late_expect(const struct late_world *world, const char *what,
                 enum dlock_status status, enum dlock_status expected)
{
    if (status != expected)
        fail_msg("%s: %s: %s", world->pair, what, dlock_status_text(status));
}

/* What takes an acquire back is sent, and its answer not waited for. */
static void await_over(struct late_user *user)
{
    for (unsigned i = 0; i < user->world->nodes_n; i++) {
        for (unsigned ms = 0; number_over(user, i) < user->over[i]; ms++) {
            if (ms == TIMEOUT_MS)
                fail_msg("%s: what was taken back is not over",
                         user->world->pair);
            lock_rig_sleep_ms(1);
        }
        user->over[i] = 0;
    }
}

static enum dlock_status ask_for(struct late_user *user, bool fenced)
{
    struct dlock_terms terms = {.lease_ms = LEASE_MS, .fenced = fenced};
    enum dlock_status status =
        dlock_try(user->session, "k", &terms, &user->grants[user->holds], NULL);

    await_over(user);
    return status;
}

/* A server has a vote when it has been connected to for the longest lease. */
static void come_of_age(struct late_user *user)
{
    struct dlock_grant grant;

    if (strcmp(user->world->strategy, "redlock") != 0)
        return;
    if (lock_rig_take(user->session, "age", 0, LEASE_MS, &grant) != DLOCK_OK) {
        fake_clock_advance(&user->clock, OF_AGE_MS);
        late_expect(user->world, "of age",
                    lock_rig_take(user->session, "age", 0, LEASE_MS, &grant),
                    DLOCK_OK);
    }
    late_expect(user->world, "of age",
                dlock_release(user->session, &grant, NULL), DLOCK_OK);
}

void late_take(struct late_user *user)
{
    come_of_age(user);
    user->status = ask_for(user, false);
    if (user->status == DLOCK_OK)
        user->holds++;
}

/* Unequal counters: what one server says has to be told to the others. */
void late_take_fenced(struct late_user *user)
{
    static unsigned long long count = 8000000000000000; /* past the time */
    struct late_world *world = user->world;
    char command[60];

    come_of_age(user);
    for (unsigned i = 0; i < world->nodes_n; i++) {
        (void)snprintf(command, sizeof(command), "SET {k}:dlock-fence %llu",
                       count += 10);
        redis_server_ask(world->servers[i], command, NULL, 0);
    }
    if (ask_for(user, true) == DLOCK_OK)
        user->holds++;
}

void late_give(struct late_user *user)
{
    enum dlock_status status =
        dlock_release(user->session, &user->grants[user->holds - 1], NULL);

    user->holds--;
    user->unsure = status == DLOCK_UNKNOWN;
    if (!user->unsure)
        late_expect(user->world, "release", status,
                    user->forced_out ? DLOCK_LOST : DLOCK_OK);
}

void late_extend(struct late_user *user)
{
    enum dlock_status status = dlock_extend(
        user->session, &user->grants[user->holds - 1], LATE_SHORT_MS, NULL);

    if (!user->world->held_back)
        late_expect(user->world, "extend", status, DLOCK_OK);
}

/* As the watchdog does, when there is no other command under way. */
void late_renew(struct late_user *user)
{
    struct dlock *client = user->client;
    struct dlock_renew renew = {.name = "k",
                                .owner = user->session->owner,
                                .number = dlock_number(client)};

    client->strategy->renew(client, &renew, 1, 2 * LEASE_MS,
                            dlock_clock_now(client->clock) + TIMEOUT_MS);
    if (renew.status == DLOCK_OK)
        late_expect(user->world, "renew",
                    renew.answer == 1 ? DLOCK_OK : DLOCK_LOST, DLOCK_OK);
}

/* An acquire that the server never gets, and what takes it back. */
void late_take_back(struct late_user *user)
{
    come_of_age(user);
    user->loses = true;
    /* multi takes one server after the other: all are told to forget it. */
    user->reaching = strcmp(user->world->strategy, "multi") == 0
                         ? user->world->nodes_n - 1
                         : 0;
    late_expect(user->world, "lost acquire", ask_for(user, false),
                DLOCK_UNKNOWN);
    user->loses = false;
    user->unsure = user->world->held_back;
}

void late_end_wait(struct late_user *user)
{
    struct dlock_grant grant;

    (void)dlock_session_end(&user->wait, &grant);
    dlock_session_leave(user->session);
    await_over(user);
    user->waits = false;
    user->unsure = user->world->held_back;
}

void late_begin_wait(struct late_user *user)
{
    static const struct dlock_terms terms = {.wait_ms = LEASE_MS,
                                             .lease_ms = LEASE_MS};

    come_of_age(user);
    late_expect(user->world, "enter", dlock_session_enter(user->session),
                DLOCK_OK);
    assert_true(dlock_session_begin(&user->wait, user->session, "k", &terms));
    assert_true(dlock_wait_try(&user->wait));
    user->waits = true;
    if (user->wait.status != DLOCK_BUSY)
        late_end_wait(user);
}

/* By an operator, who has the client's other session. */
void late_force(struct late_user *user)
{
    struct dlock_session *session = lock_rig_session(user->client);

    user->forced_out = dlock_force_release(session, "k", NULL) == DLOCK_OK;
    dlock_session_close(session);
}

/* Opening ------------------------------------------------------------------- */

void late_open(struct late_world *world, struct late_user *user)
{
    char url[LATE_NODES_MAX * 100] = "";
    struct dlock_options options = {.strategy = world->strategy,
                                    .url = url,
                                    .longest_lease_ms = 2 * LEASE_MS,
                                    .command_timeout_ms = TIMEOUT_MS,
                                    .clock = &user->clock.face,
                                    .on_step = hook,
                                    .on_step_ctx = user};

    for (unsigned i = 0; i < world->nodes_n; i++)
        (void)snprintf(url + strlen(url), sizeof(url) - strlen(url), "%s%s",
                       i > 0 ? "," : "", redis_server_url(world->servers[i]));
    *user = (struct late_user){.world = world};
    fake_clock_init(&user->clock, OF_AGE_MS);
    /* Owner ids are dice. */
    atomic_store(&user->clock.dice, (uint64_t)(user - world->users) + 2);
    user->client = lock_rig_open(&options);
    user->session = lock_rig_session(user->client);
}

void late_close(struct late_user *user)
{
    dlock_session_close(user->session);
    dlock_close(user->client);
}

/*
 * D: late and doubled commands. A network may hold a command back, and deliver it
 * when its sender has long gone on. So after each step of a holder and of the next
 * one, every command that was sent before that step is delivered again, and
 * nothing may change: not who holds the lock, nor how often, nor until when. Then
 * the same with commands that were held back and come for the first time.
 *
 * One command is forgiven: with nobody there, a late acquire of one who has died
 * may lock for as long as its lease. Here nobody dies.
 */

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/base/redis_proc.h"
#include "server/lab/conform/cast.h"

/* The tapes ------------------------------------------------------------------ */

/*
 * The commands that a node gets. MONITOR shows each with its arguments quoted, as
 * the server itself takes them when they are typed in. So a line of it can be sent
 * as it is.
 */
struct tape {
    const struct testbed *testbed;
    redisContext *monitor; /* what the server shows */
    redisContext *ask;     /* a connection for our own commands */
    unsigned marks;
    char **lines; /* "EVALSHA" "..." ... */
    size_t n;
    size_t before;       /* commands sent before this step */
    size_t unrecorded_n; /* not on it: a replay's, and what came meanwhile */
};

/* The answer to a command, which must have come: a check that cannot record proves
 * nothing. */
static redisReply *answer(const struct tape *tape, void *reply)
{
    if (!reply)
        testbed_broken(tape->testbed, "the tape hears nothing from its node");
    return reply;
}

static redisReply *next_reply(const struct tape *tape, redisContext *redis)
{
    void *reply = NULL;

    (void)redisGetReply(redis, &reply);
    return answer(tape, reply);
}

/* Whether the command is worth a replay: not our own, and not about a
 * connection. */
static bool is_kept(const char *command)
{
    static const char *const left_out[] = {
        "\"ECHO\"",        "\"MONITOR\"", "\"SUBSCRIBE\"", "\"SCRIPT\"",
        "\"UNSUBSCRIBE\"", "\"INFO\"",    "\"PING\"",      "\"AUTH\"",
        "\"SELECT\"",      "\"PUBSUB\""};

    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
        if (strncasecmp(command, left_out[i], strlen(left_out[i])) == 0)
            return false;
    return true;
}

static void keep(struct tape *tape, const char *command)
{
    char **lines = reallocarray(tape->lines, tape->n + 1, sizeof(*lines));

    if (!lines || !(lines[tape->n++] = strdup(command)))
        testbed_broken(tape->testbed, "no memory");
    tape->lines = lines;
}

/* Takes what was shown so far, up to a mark of our own; RECORDS it, or not. How many
 * commands are on the tape. */
static size_t wind(struct tape *tape, bool records)
{
    char mark[40];
    redisReply *shown;
    const char *command;
    bool is_end = false;

    (void)snprintf(mark, sizeof(mark), "\"ECHO\" \"tape-mark-%08u\"",
                   ++tape->marks);
    freeReplyObject(answer(
        tape, redisCommand(tape->ask, "ECHO tape-mark-%08u", tape->marks)));
    while (!is_end) {
        shown = next_reply(tape, tape->monitor);
        command = strstr(shown->str, "] ") + 2;
        is_end = strcmp(command, mark) == 0;
        /* "[0 lua]": a script has called it. */
        if (is_kept(command) && strncmp(command - 5, "lua] ", 5) != 0) {
            if (records)
                keep(tape, command);
            else
                tape->unrecorded_n++;
        }
        freeReplyObject(shown);
    }
    return tape->n;
}

static void tape_open(struct tape *tape, const struct testbed *testbed,
                      const char *url)
{
    const char *path = url + strlen("unix:");

    *tape = (struct tape){.testbed = testbed,
                          .monitor = redisConnectUnix(path),
                          .ask = redisConnectUnix(path)};
    if (!tape->monitor || !tape->ask)
        testbed_broken(testbed, "no memory");
    freeReplyObject(answer(tape, redisCommand(tape->monitor, "MONITOR")));
}

/* Delivers command I once more, and waits for the reply, which nobody reads. */
static void replay(struct tape *tape, size_t i)
{
    (void)redisAppendFormattedCommand(tape->ask, tape->lines[i],
                                      strlen(tape->lines[i]));
    (void)redisAppendFormattedCommand(tape->ask, "\r\n", 2);
    freeReplyObject(next_reply(tape, tape->ask));
    (void)wind(tape, false);
}

/* The script's answer about KEY; to be freed. */
static redisReply *run_script(struct tape *tape, const char *script,
                              const char *key)
{
    redisReply *said =
        answer(tape, redisCommand(tape->ask, "EVAL %s 0 %s", script, key));

    (void)wind(tape, false);
    return said;
}

/* Remembers all keys with KEY in their names, which has no characters that mean
 * something in a pattern. */
static void tape_save(struct tape *tape, const char *key)
{
    freeReplyObject(run_script(
        tape,
        "for _, k in ipairs(redis.call('keys', '*' .. ARGV[1] .. '*')) do "
        "redis.call('copy', k, 'saved:' .. k, 'replace') end",
        key));
}

/* And sets them back, as if nothing had arrived since. */
static void tape_restore(struct tape *tape, const char *key)
{
    freeReplyObject(run_script(
        tape,
        "local like = '*' .. ARGV[1] .. '*' "
        "for _, k in ipairs(redis.call('keys', like)) do "
        "if string.sub(k, 1, 6) ~= 'saved:' then redis.call('del', k) end end "
        "for _, k in ipairs(redis.call('keys', 'saved:' .. like)) do "
        "redis.call('rename', k, string.sub(k, 7)) end",
        key));
}

/* When the value under KEY ends, and its hash: the same text as long as nothing
 * changes. */
static redisReply *tape_state(struct tape *tape, const char *key)
{
    return run_script(tape,
                      "return redis.call('pexpiretime', ARGV[1]) .. ' ' .. "
                      "redis.sha1hex(redis.call('dump', ARGV[1]) or '')",
                      key);
}

static bool is_held(const redisReply *state)
{
    return strncmp(state->str, "-2 ", 3) != 0; /* there is no such key */
}

/* Steps ---------------------------------------------------------------------- */

/* Everything that was sent to the testbed's nodes. */
struct tapes {
    struct cast cast;
    const char *name;
    struct tape tapes[TESTBED_NODES_MAX];
    unsigned replayed_n;
};

static void deed_extend(struct deed_hand *hand, const struct deed_order *order,
                        struct deed_report *report)
{
    if (hand->grants_n == 0)
        report->status = DLOCK_MISUSE;
    else
        report->status =
            dlock_extend(hand->session, &hand->grants[hand->grants_n - 1],
                         order->lease_ms, NULL);
}

/* Delivers command I of node K again: once more if a watchdog's came in between, which
 * may change all it likes. */
static void deliver(struct tapes *all, unsigned k, size_t i, const char *step)
{
    struct tape *tape = &all->tapes[k];
    bool is_alone = false;

    while (!is_alone) {
        size_t n = tape->unrecorded_n;
        redisReply *was = tape_state(tape, all->name), *is;

        replay(tape, i);
        is = tape_state(tape, all->name);
        all->replayed_n++;
        is_alone = tape->unrecorded_n == n + 3; /* these are on no tape */
        if (is_alone && strcmp(was->str, is->str) != 0)
            testbed_fails(all->cast.testbed, "after '%s' a late %.60s %s", step,
                          tape->lines[i],
                          is_held(was) && !is_held(is)   ? "frees the lock"
                          : !is_held(was) && is_held(is) ? "locks for nobody"
                                                         : "changes the lock");
        freeReplyObject(was);
        freeReplyObject(is);
    }
}

/* After a step: all that was sent before it comes once more. */
static void deliver_all(struct tapes *all, const char *step)
{
    for (unsigned k = 0; k < all->cast.testbed->nodes_n; k++) {
        size_t n = wind(&all->tapes[k], true);

        for (size_t i = 0; i < all->tapes[k].before; i++)
            deliver(all, k, i, step);
        all->tapes[k].before = n;
    }
}

/* How a step's commands arrive: at once; or they are held back, and it ends well or
 * without an answer; and whether it lasts until the watchdog has sent one. */
enum way { AT_ONCE, HELD, HELD_MUTE, RENEWED };

static const struct step {
    unsigned needs; /* a capability; 0 = none */
    unsigned who;
    deed_function *deed;
    unsigned lease; /* in halves of the long one */
    enum way way;
    const char *what;
} steps[] = {
    {0, CAST_HOLDER, deed_take, 2, AT_ONCE, "take"},
    {DLOCK_CAP_LEASE, CAST_HOLDER, deed_extend, 1, AT_ONCE,
     "shorten the lease"},
    {DLOCK_CAP_LEASE, CAST_HOLDER, deed_extend, 2, AT_ONCE, "lengthen it"},
    {DLOCK_CAP_REENTRANT, CAST_HOLDER, deed_take, 2, AT_ONCE, "come in again"},
    {DLOCK_CAP_REENTRANT, CAST_HOLDER, deed_give, 0, AT_ONCE,
     "give one hold back"},
    {0, CAST_HOLDER, deed_give, 0, AT_ONCE, "give it back"},
    {0, CAST_NEXT, deed_take, 2, AT_ONCE, "the next one takes it"},
    {0, CAST_NEXT, deed_give, 0, AT_ONCE, "the next one gives it back"},
    {0, CAST_HOLDER, deed_take, 2, AT_ONCE, "take it anew"},
    {0, CAST_HOLDER, deed_give, 0, AT_ONCE, "give it back again"},
    {DLOCK_CAP_RENEW, CAST_HOLDER, deed_take, 0, RENEWED, "take, renewed"},
    {DLOCK_CAP_RENEW, CAST_HOLDER, deed_give, 0, AT_ONCE,
     "give back what was renewed"},
    /* Its client takes back a grant that it was not told of. */
    {0, CAST_HOLDER, deed_take, 2, HELD_MUTE, "a take that is held back"},
    {0, CAST_HOLDER, deed_take, 2, AT_ONCE, "take after an unknown end"},
    {0, CAST_HOLDER, deed_extend, 1, HELD, "an extension that is held back"},
    {0, CAST_HOLDER, deed_extend, 2, AT_ONCE, "lengthen what was shortened"},
    {0, CAST_HOLDER, deed_give, 0, HELD, "a release that is held back"},
    {0, CAST_HOLDER, deed_take, 2, AT_ONCE, "take before the release"},
    {0, CAST_HOLDER, deed_give, 0, AT_ONCE, "give it back at last"},
};

static void play(struct tapes *all, const struct step *step)
{
    struct cast *cast = &all->cast;
    const struct deed_order order = cast_order(
        step->deed, all->name, 0, step->lease * cast->testbed->long_ms / 2);
    bool mute = step->way == HELD_MUTE, held = mute || step->way == HELD;
    enum dlock_status status;

    for (unsigned k = 0; k < cast->testbed->nodes_n && held; k++)
        tape_save(&all->tapes[k], all->name);
    cast_trap(cast, step->who, mute ? DEED_MUTE : DEED_PASS, DLOCK_AFTER, 0);
    status = cast_ask(cast, step->who, &order).status;
    cast_trap(cast, step->who, DEED_PASS, DLOCK_AFTER, 0);
    if ((status == DLOCK_OK) == mute)
        testbed_broken(cast->testbed, "%s: %s", step->what,
                       dlock_status_text(status));
    if (!held)
        deliver_all(all, step->what);
    /* The servers are as they were before it. */
    for (unsigned k = 0; k < cast->testbed->nodes_n && held; k++) {
        all->tapes[k].before = wind(&all->tapes[k], true);
        tape_restore(&all->tapes[k], all->name);
    }
    if (step->way == RENEWED)
        for (size_t n = wind(&all->tapes[0], true);
             wind(&all->tapes[0], true) == n;)
            testbed_sleep_ms(1);
}

void conform_check_d(struct testbed *testbed)
{
    struct tapes all = {.name = testbed_name("d")};

    if (testbed->nodes_n == 0)
        testbed_untested(testbed, "what is sent to it cannot be sent again");
    cast_open(&all.cast, testbed, 2, testbed->lease_ms);
    cast_begin(&all.cast, all.name, testbed->long_ms);
    if (cast_give(&all.cast, CAST_HOLDER, all.name) != DLOCK_OK)
        testbed_broken(testbed, "the release of a new name fails");
    for (unsigned k = 0; k < testbed->nodes_n; k++)
        tape_open(&all.tapes[k], testbed, redis_proc_url(testbed->nodes[k]));
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (steps[i].needs == 0 || testbed_can(testbed, steps[i].needs))
            play(&all, &steps[i]);
    testbed_holds(testbed,
                  "%u late commands, each after every later step: none "
                  "has changed anything",
                  all.replayed_n);
}

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

enum { STATE_BYTES_MAX = 4096 };

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
        "\"ECHO\"",   "\"DUMP\"", "\"PEXPIRETIME\"", "\"SUBSCRIBE\"",
        "\"SCRIPT\"", "\"INFO\"", "\"UNSUBSCRIBE\"", "\"MONITOR\"",
        "\"PING\"",   "\"AUTH\"", "\"SELECT\"",      "\"PUBSUB\""};

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

static void run_script(struct tape *tape, const char *script, const char *key)
{
    freeReplyObject(
        answer(tape, redisCommand(tape->ask, "EVAL %s 0 *%s*", script, key)));
    (void)wind(tape, false);
}

/* Remembers all keys with KEY in their names, which has no characters that mean
 * something in a pattern. */
static void tape_save(struct tape *tape, const char *key)
{
    run_script(tape,
               "for _, k in ipairs(redis.call('keys', ARGV[1])) do "
               "redis.call('copy', k, 'saved:' .. k, 'replace') end",
               key);
}

/* And sets them back, as if nothing had arrived since. */
static void tape_restore(struct tape *tape, const char *key)
{
    run_script(tape,
               "for _, k in ipairs(redis.call('keys', ARGV[1])) do "
               "if string.sub(k, 1, 6) ~= 'saved:' then "
               "redis.call('del', k) end end "
               "for _, k in ipairs(redis.call('keys', 'saved:' .. ARGV[1])) do "
               "redis.call('rename', k, string.sub(k, 7)) end",
               key);
}

/* The value under KEY, and when it ends: the same text as long as nothing changes. */
static void tape_state(struct tape *tape, const char *key, char text[],
                       size_t size, bool *exists)
{
    redisReply *value = answer(tape, redisCommand(tape->ask, "DUMP %s", key));
    redisReply *ends =
        answer(tape, redisCommand(tape->ask, "PEXPIRETIME %s", key));
    size_t used;

    *exists = value->type == REDIS_REPLY_STRING;
    used = (size_t)snprintf(text, size, "%lld ", ends->integer);
    for (size_t i = 0; *exists && i < value->len && used + 2 < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%02x",
                                 (unsigned char)value->str[i]);
    freeReplyObject(value);
    freeReplyObject(ends);
    (void)wind(tape, false);
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
    static char was[STATE_BYTES_MAX], is[STATE_BYTES_MAX];
    struct tape *tape = &all->tapes[k];
    bool was_held, is_held;
    size_t n;

    do {
        n = tape->unrecorded_n;
        tape_state(tape, all->name, was, sizeof(was), &was_held);
        replay(tape, i);
        tape_state(tape, all->name, is, sizeof(is), &is_held);
        all->replayed_n++;
    } while (tape->unrecorded_n != n + 1);
    if (strcmp(was, is) == 0)
        return;
    testbed_fails(all->cast.testbed, "after '%s' a late %.60s %s", step,
                  tape->lines[i],
                  was_held && !is_held   ? "frees the lock"
                  : !was_held && is_held ? "locks for nobody"
                                         : "changes the lock");
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

static enum dlock_status act(struct tapes *all, unsigned who,
                             deed_function *deed, unsigned lease_ms)
{
    struct deed_order order = cast_order(deed, all->name);

    order.lease_ms = lease_ms;
    return cast_ask(&all->cast, who, &order).status;
}

static void do_step(struct tapes *all, unsigned who, deed_function *deed,
                    unsigned lease_ms, const char *what)
{
    enum dlock_status status = act(all, who, deed, lease_ms);

    if (status != DLOCK_OK)
        testbed_broken(all->cast.testbed, "%s: %s", what,
                       dlock_status_text(status));
    deliver_all(all, what);
}

/* A step of the holder's whose commands are held back: the servers are as they
 * were before it. It ends well, or (MUTE) without an answer. */
static void do_held(struct tapes *all, deed_function *deed, unsigned lease_ms,
                    bool mute)
{
    struct testbed *testbed = all->cast.testbed;
    enum dlock_status status;

    for (unsigned k = 0; k < testbed->nodes_n; k++)
        tape_save(&all->tapes[k], all->name);
    cast_trap(&all->cast, CAST_HOLDER, mute ? DEED_MUTE : DEED_PASS,
              DLOCK_AFTER, 0);
    status = act(all, CAST_HOLDER, deed, lease_ms);
    cast_trap(&all->cast, CAST_HOLDER, DEED_PASS, DLOCK_AFTER, 0);
    if ((status == DLOCK_OK) == mute)
        testbed_broken(testbed, "a step that is held back: %s",
                       dlock_status_text(status));
    for (unsigned k = 0; k < testbed->nodes_n; k++) {
        all->tapes[k].before = wind(&all->tapes[k], true);
        tape_restore(&all->tapes[k], all->name);
    }
}

/* The holder has it until the watchdog has renewed it. */
static void be_renewed(struct tapes *all)
{
    const struct testbed *testbed = all->cast.testbed;
    size_t n;

    if (!testbed_can(testbed, DLOCK_CAP_RENEW))
        return;
    do_step(all, CAST_HOLDER, deed_take, 0, "take, renewed");
    n = wind(&all->tapes[0], true);
    while (wind(&all->tapes[0], true) == n)
        testbed_sleep_ms(1);
    do_step(all, CAST_HOLDER, deed_give, 0, "give back what was renewed");
}

static void play(struct tapes *all)
{
    unsigned ms = all->cast.testbed->long_ms;

    do_step(all, CAST_HOLDER, deed_take, ms, "take");
    if (testbed_can(all->cast.testbed, DLOCK_CAP_LEASE)) {
        do_step(all, CAST_HOLDER, deed_extend, ms / 2, "shorten the lease");
        do_step(all, CAST_HOLDER, deed_extend, ms, "lengthen it");
    }
    if (testbed_can(all->cast.testbed, DLOCK_CAP_REENTRANT)) {
        do_step(all, CAST_HOLDER, deed_take, ms, "come in again");
        do_step(all, CAST_HOLDER, deed_give, 0, "give one hold back");
    }
    do_step(all, CAST_HOLDER, deed_give, 0, "give it back");
    do_step(all, CAST_NEXT, deed_take, ms, "the next one takes it");
    do_step(all, CAST_NEXT, deed_give, 0, "the next one gives it back");
    do_step(all, CAST_HOLDER, deed_take, ms, "take it anew");
    do_step(all, CAST_HOLDER, deed_give, 0, "give it back again");
}

/* Commands that come for the first time when they are late already. */
static void play_held(struct tapes *all)
{
    unsigned ms = all->cast.testbed->long_ms;

    do_held(all, deed_take, ms, true); /* and what takes it back */
    do_step(all, CAST_HOLDER, deed_take, ms, "take after an unknown end");
    do_held(all, deed_extend, ms / 2, false);
    do_step(all, CAST_HOLDER, deed_extend, ms, "lengthen what was shortened");
    do_held(all, deed_give, 0, false);
    do_step(all, CAST_HOLDER, deed_take, ms, "take before the release");
    do_step(all, CAST_HOLDER, deed_give, 0, "give it back at last");
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
    play(&all);
    be_renewed(&all);
    play_held(&all);
    testbed_holds(testbed,
                  "%u late commands, each after every later step: none "
                  "has changed anything",
                  all.replayed_n);
}

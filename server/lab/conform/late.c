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

#include <string.h>
#include <sys/mman.h>

#include "server/base/clock.h"
#include "server/lab/conform/check.h"
#include "server/lab/servers/peek.h"

enum { REPLY_BYTES = 96 };

static const char *name;                      /* of the lock */
static struct peek *nodes[TESTBED_NODES_MAX]; /* connections for ourselves */
static unsigned first,
    before; /* commands from FIRST on, sent BEFORE this step */
static unsigned replayed_n;

/* A check that cannot send proves nothing. */
static void ask(unsigned node, size_t n, const char *words[],
                char reply[REPLY_BYTES])
{
    need(peek_send(nodes[node], n, words, reply, REPLY_BYTES) != PEEK_NONE,
         "a node does not answer");
}

/* The script's answer about the lock. */
static void run_script(unsigned node, const char *script,
                       char reply[REPLY_BYTES])
{
    const char *words[] = {"EVAL", script, "0", name};

    ask(node, 4, words, reply);
}

/* Remembers all keys, which are nobody else's, in another database. Both change places,
 * and all is as if nothing had arrived since. */
static void save(void)
{
    static const char script[] =
        "redis.call('select', 1) redis.call('flushdb') redis.call('select', 0) "
        "for _, k in ipairs(redis.call('keys', '*')) do "
        "redis.call('copy', k, k, 'db', 1) end";
    char reply[REPLY_BYTES];

    /* Each node has its own copy. */
    for (unsigned k = 0; k < testbed.nodes_n; k++)
        run_script(k, script, reply);
}

static void restore(void)
{
    for (unsigned k = 0; k < testbed.nodes_n; k++)
        /* The databases change places at once: no client sees half of it. */
        need(PEEK_ASK(nodes[k], "OK", "SWAPDB", "0", "1"),
             "a node does not answer");
}

/* When the value ends, and its hash: the same text as long as nothing changes. */
static const char state[] =
    "return redis.call('pexpiretime', ARGV[1]) .. ' ' .. "
    "redis.sha1hex(redis.call('dump', ARGV[1]) or '')";

static bool is_held(const char *text)
{
    return strncmp(text, "-2 ", 3) != 0; /* there is no such key */
}

/* Steps ---------------------------------------------------------------------- */

static void deed_extend(struct player *player, const struct deed_order *order,
                        struct deed_report *report)
{
    report->status = DLOCK_MISUSE;
    if (player->grants_n > 0)
        report->status =
            dlock_extend(player->session, &player->grants[player->grants_n - 1],
                         order->lease_ms, NULL);
}

/* Steps of all players and watchdogs so far, of this phase. */
static unsigned steps(enum dlock_phase phase)
{
    return atomic_load(&testbed.tape->steps_n[phase]);
}

/* Delivers COMMAND again: once more if a watchdog's came in between, which may change all
 * it likes. */
static void deliver(const struct testbed_command *command, const char *step)
{
    const char *words[TESTBED_WORDS_MAX], *word = command->words;
    char was[REPLY_BYTES], is[REPLY_BYTES], reply[REPLY_BYTES];
    unsigned ended, begun;

    /* The words stand behind each other, each with its end. */
    for (unsigned i = 0; i < command->words_n; i++) {
        words[i] = word;
        word += strlen(word) + 1;
    }
    do {
        ended = steps(DLOCK_AFTER);
        begun = steps(DLOCK_BEFORE);
        run_script(command->node, state, was);
        ask(command->node, command->words_n, words, reply);
        replayed_n++;
        run_script(command->node, state, is);
    } while (ended != begun || begun != steps(DLOCK_BEFORE));
    must(strcmp(was, is) == 0, "after '%s' a late %.60s %s", step,
         command->words,
         is_held(was) && !is_held(is)   ? "frees the lock"
         : !is_held(was) && is_held(is) ? "locks for nobody"
                                        : "changes the lock");
}

/* How a step's commands arrive: at once; or they are held back, and it ends well or
 * without an answer; and whether it lasts until the watchdog has sent one. */
enum way { AT_ONCE, HELD, HELD_MUTE, RENEWED };

static const struct row {
    unsigned needs; /* a capability; 0 = none */
    unsigned who;
    deed_function *deed;
    unsigned lease; /* in halves of the long one */
    enum way way;
    const char *what;
} rows[] = {
#define ROW(needs, who, deed, lease, way, what)                                \
    {needs, who, deed, lease, way, what},
#include "server/lab/conform/late.inc"
};

static void play(const struct row *row)
{
    bool mute = row->way == HELD_MUTE, held = mute || row->way == HELD;
    enum dlock_status status;
    unsigned ended;

    /* The state before the step is kept: its commands are done, and then taken back. */
    if (held)
        save();
    cast_trap(row->who, mute ? TRAP_MUTE : TRAP_PASS, DLOCK_AFTER, 0);
    /* The lease outlives the check: nothing may end by time. */
    status =
        cast_ask(row->who, row->deed, name, 0, row->lease * testbed.long_ms / 2)
            .status;
    cast_trap(row->who, TRAP_PASS, DLOCK_AFTER, 0);
    /* A text may have no renew: nothing was sent. */
    if (status == DLOCK_MISUSE && row->deed == deed_extend)
        return;
    /* A reply that was lost must not read as a yes: else nothing was tested. */
    need((status == DLOCK_OK) != mute, "%s: %s", row->what,
         dlock_status_text(status));
    /* Commands of earlier steps come once more behind this one; its own come behind
     * the next. */
    for (unsigned i = first; i < before && !held; i++)
        deliver(&testbed.tape->commands[i], row->what);
    /* A held-back step has sent its commands, but the servers are as before: they come
     * for the first time with the next step. */
    before = atomic_load(&testbed.tape->n);
    if (held) /* the servers are as they were before it */
        restore();
    ended = steps(DLOCK_AFTER);
    while (row->way == RENEWED && steps(DLOCK_AFTER) == ended)
        clock_sleep_ms(1);
}

void conform_check_d(void)
{
    /* A lock in no Redis of ours has no commands that could be recorded. */
    if (testbed.nodes_n == 0)
        check_untested("what is sent to it cannot be sent again");
    testbed.tape = mmap(NULL, sizeof(*testbed.tape), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    need(testbed.tape != MAP_FAILED, "no memory");
    cast_open(2, testbed.lease_ms);
    name = cast_begin(testbed.long_ms);
    /* A first holder has made connections and scripts known: their commands are not on
     * the list. */
    need(cast_give(HOLDER, name) == DLOCK_OK,
         "the release of a new name fails");
    for (unsigned k = 0; k < testbed.nodes_n; k++)
        nodes[k] = testbed_peek(testbed.nodes[k]);
    first = before = atomic_load(&testbed.tape->n);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].needs == 0 || testbed_can(rows[i].needs))
            play(&rows[i]);
    check_holds("%u late commands, each after every later step: none has "
                "changed anything",
                replayed_n);
}

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
#include "server/lab/conform/cast.h"
#include "server/lab/servers/peek.h"

/* All that was sent to the testbed's nodes, and a connection to each for ourselves. */
struct late {
    struct cast cast;
    const char *name;
    struct deed_tape *tape;
    unsigned first, before; /* commands from FIRST on, sent BEFORE this step */
    struct peek *nodes[TESTBED_NODES_MAX];
    unsigned replayed_n;
};

/* A check that cannot send proves nothing. */
static void ask(const struct late *late, unsigned node, size_t n,
                const char *words[], char reply[], size_t size)
{
    if (peek_send(late->nodes[node], n, words, reply, size) == PEEK_NONE)
        testbed_broken(late->cast.testbed, "a node does not answer");
}

/* The script's answer about the keys with the lock's name, which has no characters that
 * mean something in a pattern. */
static void run_script(const struct late *late, unsigned node,
                       const char *script, char reply[], size_t size)
{
    const char *words[] = {"EVAL", script, "0", late->name};

    ask(late, node, 4, words, reply, size);
}

/* Remembers them; and sets them back, as if nothing had arrived since. */
static const char save[] =
    "for _, k in ipairs(redis.call('keys', '*' .. ARGV[1] .. '*')) do "
    "redis.call('copy', k, 'saved:' .. k, 'replace') end";
static const char restore[] =
    "local like = '*' .. ARGV[1] .. '*' "
    "for _, k in ipairs(redis.call('keys', like)) do "
    "if string.sub(k, 1, 6) ~= 'saved:' then redis.call('del', k) end end "
    "for _, k in ipairs(redis.call('keys', 'saved:' .. like)) do "
    "redis.call('rename', k, string.sub(k, 7)) end";

static void run_on_all(const struct late *late, const char *script)
{
    char reply[96];

    for (unsigned k = 0; k < late->cast.testbed->nodes_n; k++)
        run_script(late, k, script, reply, sizeof(reply));
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

/* Delivers COMMAND again: once more if a watchdog's came in between, which may change all
 * it likes. */
static void deliver(struct late *late, const struct deed_command *command,
                    const char *step)
{
    const char *words[DEED_WORDS_MAX], *word = command->words;
    unsigned ended, begun;
    char was[96], is[96], reply[96];

    for (unsigned i = 0; i < command->words_n; i++) {
        words[i] = word;
        word += strlen(word) + 1;
    }
    do {
        ended = atomic_load(&late->tape->ended_n);
        begun = atomic_load(&late->tape->begun_n);
        run_script(late, command->node, state, was, sizeof(was));
        ask(late, command->node, command->words_n, words, reply, sizeof(reply));
        late->replayed_n++;
        run_script(late, command->node, state, is, sizeof(is));
    } while (ended != begun || begun != atomic_load(&late->tape->begun_n));
    if (strcmp(was, is) != 0)
        testbed_fails(late->cast.testbed, "after '%s' a late %.60s %s", step,
                      command->words,
                      is_held(was) && !is_held(is)   ? "frees the lock"
                      : !is_held(was) && is_held(is) ? "locks for nobody"
                                                     : "changes the lock");
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
#define ROW(needs, who, deed, lease, way, what)                                \
    {needs, who, deed, lease, way, what},
#include "server/lab/conform/late.inc"
};

static void play(struct late *late, const struct step *step)
{
    struct cast *cast = &late->cast;
    const struct deed_order order = cast_order(
        step->deed, late->name, 0, step->lease * cast->testbed->long_ms / 2);
    bool mute = step->way == HELD_MUTE, held = mute || step->way == HELD;
    enum dlock_status status;
    unsigned ended;

    if (held)
        run_on_all(late, save);
    cast_trap(cast, step->who, mute ? DEED_MUTE : DEED_PASS, DLOCK_AFTER, 0);
    status = cast_ask(cast, step->who, order).status;
    cast_trap(cast, step->who, DEED_PASS, DLOCK_AFTER, 0);
    /* A text may have no renew: nothing was sent. */
    if (status == DLOCK_MISUSE && step->deed == deed_extend)
        return;
    if ((status == DLOCK_OK) == mute)
        testbed_broken(cast->testbed, "%s: %s", step->what,
                       dlock_status_text(status));
    for (unsigned i = late->first; i < late->before && !held; i++)
        deliver(late, &late->tape->commands[i], step->what);
    late->before = atomic_load(&late->tape->n);
    if (held) /* the servers are as they were before it */
        run_on_all(late, restore);
    ended = atomic_load(&late->tape->ended_n);
    while (step->way == RENEWED && atomic_load(&late->tape->ended_n) == ended)
        clock_sleep_ms(1);
}

void conform_check_d(struct testbed *testbed)
{
    struct late late = {.name = testbed_name("d")};

    if (testbed->nodes_n == 0)
        testbed_untested(testbed, "what is sent to it cannot be sent again");
    late.tape = testbed->tape =
        mmap(NULL, sizeof(*late.tape), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (late.tape == MAP_FAILED)
        testbed_broken(testbed, "no memory");
    cast_open(&late.cast, testbed, 2, testbed->lease_ms);
    cast_begin(&late.cast, late.name, testbed->long_ms);
    if (cast_give(&late.cast, CAST_HOLDER, late.name) != DLOCK_OK)
        testbed_broken(testbed, "the release of a new name fails");
    for (unsigned k = 0; k < testbed->nodes_n; k++)
        late.nodes[k] = testbed_peek(testbed, testbed->nodes[k]);
    late.first = late.before = atomic_load(&late.tape->n);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (steps[i].needs == 0 || testbed_can(testbed, steps[i].needs))
            play(&late, &steps[i]);
    testbed_holds(testbed,
                  "%u late commands, each after every later step: none "
                  "has changed anything",
                  late.replayed_n);
}

/* Plays a story: see load.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/lab/load/load.h"

enum {
    TURN_MS = 10,
    LEASE_MS_LEAST =
        500, /* a lock that has none: L waits as long as for this */
    FAILPOINT_MS_MAX = 15000,
};

/* "a*3", taken apart. */
struct word {
    char verb; /* '&' '.' '>' '=' 'L'; '*': orders that are waited for */
    unsigned who;
    unsigned long n;
    int64_t product;
};

static bool parse(const char **at, unsigned instances, struct word *word)
{
    *word = (struct word){.verb = '*', .n = 1, .product = 1};
    while (**at == ' ')
        ++*at;
    if (**at == 'L') {
        word->verb = *(*at)++;
        return true;
    }
    word->who = (unsigned)(**at - 'a');
    if (word->who >= instances)
        return false;
    ++*at;
    /* The product is one digit, of the two that begin() offers. */
    if (**at == '/' && ((*at)[1] == '1' || (*at)[1] == '2')) {
        word->product = (*at)[1] - '0';
        *at += 2;
    }
    if (**at == '*' && (*at)[1] >= '1' && (*at)[1] <= '9')
        word->n = strtoul(*at + 1, (char **)at, 10);
    else if (**at && strchr("&.>=", **at))
        word->verb = *(*at)++;
    /* A word ends here, or it is none: "a*3x" must not be read as "a*3". */
    return **at == ' ' || **at == '\0';
}

/* ---- lanes, for those who colour them ------------------------------------------
 *
 * An instance does not say when it has the lock, so its orders do: one that stands at a
 * failpoint between taking and releasing, and one that was sold.
 */

/* Whether a thread that ACTED ("del:before") thinks that it has the lock. */
static bool is_under_lock(const char *acted)
{
    static const char *const takes[] = {"set", "eval-acquire", "eval-take"},
                             *const releases[] = {
                                 "get:", "del:", "eval-release"};
    /* The step naive-... stands between taking and releasing, whichever side of it. */
    bool is_before = strstr(acted, ":before") != NULL;
    bool is_under = strncmp(acted, "naive-", 6) == 0;

    for (size_t i = 0; i < sizeof(takes) / sizeof(takes[0]); i++)
        if (strncmp(acted, takes[i], strlen(takes[i])) == 0)
            is_under = !is_before;
    for (size_t i = 0; i < sizeof(releases) / sizeof(releases[0]); i++)
        if (strncmp(acted, releases[i], strlen(releases[i])) == 0)
            is_under = is_before;
    return is_under;
}

/* From 1; 0: it has got none. */
static size_t last_order(unsigned who)
{
    size_t n = buyers.orders_n;

    /* Orders are looked at from the last one back: only the last can be under way. */
    while (n > 0 && buyers.orders[n - 1].instance != who)
        n--;
    return n;
}

/* The order by which WHO is inside now; NULL: it is not. */
static const struct buyers_order *order_inside(unsigned who)
{
    const struct buyers_order *orders = buyers.orders;

    if (load.lanes[who].held > 0)
        return &orders[load.lanes[who].held - 1];
    return load.sold > 0 && orders[load.sold - 1].instance == who
               ? &orders[load.sold - 1]
               : NULL;
}

/* A sale is inside beside another only if all of it fell in the other's hold: an answer
 * may be read late. */
static bool are_together(unsigned a, unsigned b)
{
    const struct buyers_order *one = order_inside(a), *other = order_inside(b);
    const struct load_lane *lanes = load.lanes;

    return one && other && one->product == other->product &&
           (lanes[a].held > 0 || one->sent_us >= lanes[b].since_us) &&
           (lanes[b].held > 0 || other->sent_us >= lanes[a].since_us);
}

static const char *word_of(unsigned who)
{
    const struct site_instance *instance = &site.instances[who];
    /* A process that is about to die has said so in its log: its orders have no answer
     * to come. */
    bool is_dead = instance->state == SITE_GONE || instance->is_to_crash;
    const char *word = "";

    for (unsigned other = 0; other < load.play->instances; other++)
        if (other != who && are_together(who, other))
            return "clash";
    if (order_inside(who))
        return "held";
    for (size_t i = 0; i < buyers.orders_n; i++) {
        const struct buyers_order *order = &buyers.orders[i];
        bool waits = order->outcome == BUYERS_WAITS;

        if (order->instance != who)
            continue;
        /* Lost or about to be: what became of the order nobody knows. */
        if (order->outcome == BUYERS_LOST || (waits && is_dead))
            return "unknown";
        if (waits)
            word = "waits";
    }
    return word;
}

json_t *load_lanes(void)
{
    json_t *list = json_array();

    for (unsigned who = 0; who < load.play->instances; who++)
        (void)json_array_append_new(list, json_string(word_of(who)));
    return list;
}

/* ---- words ---------------------------------------------------------------- */

/* Answers that were not told yet. */
static void tell_answers(void)
{
    for (size_t i = 0; i < buyers.orders_n; i++) {
        struct buyers_order *order = &buyers.orders[i];

        /* An answer is told once, in the order in which orders were sent. */
        if (order->is_told || order->outcome == BUYERS_WAITS)
            continue;
        order->is_told = true;
        if (load.lanes[order->instance].held == i + 1)
            load.lanes[order->instance].held = 0;
        else if (order->outcome == BUYERS_SOLD)
            /* A sale that was not held is inside for the moment in which it is told. */
            load.sold = i + 1;
        if (order->outcome == BUYERS_LOST)
            load_tell(order->instance, "order %zu: no answer", i + 1);
        else
            load_tell(order->instance, "order %zu: %u %s", i + 1, order->status,
                      order->outcome == BUYERS_SOLD ? "sold" : order->why);
        load.sold = 0;
    }
}

/* The last order to it: it will not come to a failpoint any more. */
static bool was_refused(unsigned who)
{
    size_t n = last_order(who);

    /* An order that was refused has passed the failpoint by, or never came there. */
    return n == 0 || buyers.orders[n - 1].outcome > BUYERS_SOLD;
}

static bool turn(void)
{
    if (!site_goes_on())
        return false;
    buyers_turn(TURN_MS);
    tell_answers();
    return true;
}

/* Each order has a time limit: so has this. */
static bool await_answers(unsigned who)
{
    for (size_t i = 0; i < buyers.orders_n; i++)
        while (buyers.orders[i].instance == who &&
               buyers.orders[i].outcome == BUYERS_WAITS)
            if (!turn())
                return false;
    return true;
}

static bool order(const struct word *word)
{
    buyers.product_id = word->product;
    for (unsigned long i = 0; i < word->n; i++) {
        /* The index stays: orders only become more. */
        size_t n = buyers_send(word->who);

        if (n == SIZE_MAX)
            return false;
        if (word->verb == '&') {
            load_tell((int)word->who, "order %zu", n + 1);
            continue;
        }
        while (buyers.orders[n].outcome == BUYERS_WAITS)
            if (!turn())
                return false;
    }
    return true;
}

static bool await_failpoint(unsigned who)
{
    const struct site_instance *instance = &site.instances[who];
    uint64_t until_ms = clock_ms() + FAILPOINT_MS_MAX;
    size_t n;

    /* A refusal ends the wait as well: the story then says what was refused. */
    while (!instance->has_acted && !was_refused(who)) {
        if (clock_ms() > until_ms)
            return site_fail("%c did not come to its failpoint",
                             'a' + (int)who);
        if (!turn())
            return false;
    }
    n = last_order(who);
    /* The lane is held only if its process waits under the lock. */
    if (n > 0 && instance->pid > 0 && is_under_lock(instance->acted) &&
        (instance->state == SITE_HELD || instance->state == SITE_STOPPED))
        load.lanes[who] = (struct load_lane){.held = n, .since_us = clock_us()};
    if (instance->has_acted)
        load_tell((int)who, "%s at %s",
                  instance->state == SITE_HELD      ? "waits"
                  : instance->state == SITE_STOPPED ? "SIGSTOP"
                  : instance->is_to_crash           ? "the process dies"
                                                    : "a fault",
                  instance->acted);
    return true;
}

static bool await_lease(void)
{
    /* The lease is the one that a's flags say. */
    const char *flags = load.play->each[0] ? load.play->each[0] : "";
    const char *at = strstr(flags, "-lease-ms ");
    uint64_t lease_ms = at ? strtoul(at + strlen("-lease-ms "), NULL, 10) : 0;
    /* Half as long again: the lease may have begun later than this wait. */
    uint64_t wait_ms =
        (lease_ms > LEASE_MS_LEAST ? lease_ms : LEASE_MS_LEAST) * 3 / 2;
    uint64_t until_ms = clock_ms() + wait_ms;
    const char *unseen = load_unseen();
    struct dlock_holder holder;
    bool good;

    if (unseen) {
        load_tell(-1, "%s", unseen);
        return true;
    }
    while ((good = load_look(1, 0, &holder)) && holder.held) {
        if (clock_ms() > until_ms) {
            load_tell(-1, "the lock is still held, after %" PRIu64 " ms",
                      wait_ms);
            /* A lock that is still held is a part of what is told, and no error. */
            return true;
        }
        if (!turn())
            return false;
    }
    if (good)
        load_tell(-1, "the lock has no holder any more");
    return good;
}

static bool play(const struct word *word)
{
    struct load_lane *lane = &load.lanes[word->who];

    switch (word->verb) {
    case 'L':
        return await_lease();
    case '.':
        return await_failpoint(word->who);
    case '=':
        return await_answers(word->who);
    case '>':
        if (site.instances[word->who].has_acted)
            load_tell((int)word->who, "goes on");
        site_go_on(word->who);
        /* An answer can come before the release: then nothing tells of its end. */
        if (lane->held > 0 && buyers.orders[lane->held - 1].is_told)
            lane->held = 0;
        return true;
    default:
        return order(word);
    }
}

const char *load_story_wrong(const char *story, unsigned instances)
{
    const char *at = story;
    struct word word;

    while (*at)
        if (!parse(&at, instances, &word))
            return at;
    return NULL;
}

bool load_story(void)
{
    const char *at = load.story;
    struct word word;

    while (*at) {
        if (!parse(&at, load.play->instances, &word))
            return site_fail("'%s' is not a word of a story", at);
        if (!play(&word))
            return false;
    }
    /* Answers that came with the last word have to be told. */
    tell_answers();
    return true;
}

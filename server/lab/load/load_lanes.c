/* The lanes of a story, for those who colour them: see load.h. An instance does not say
 * when it has the lock, so its orders do: one that stands at a failpoint between taking
 * and releasing, and one that was sold. */
#include <stdio.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/lab/load/load.h"

/* Whether a thread that ACTED ("del:before") thinks that it has the lock. */
static bool is_under_lock(const char *acted)
{
    static const char *const takes[] = {"set", "eval-acquire", "eval-take"},
                             *const releases[] = {
                                 "get:", "del:", "eval-release"};
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

void load_lanes_hold(struct load *load, unsigned who)
{
    const struct site_instance *instance = &load->site.instances[who];
    size_t n = load->buyers.orders_n;

    while (n > 0 && load->buyers.orders[n - 1].instance != who)
        n--;
    if (n > 0 && instance->pid > 0 && is_under_lock(instance->acted) &&
        (instance->state == SITE_HELD || instance->state == SITE_STOPPED))
        load->lanes[who] =
            (struct load_lane){.held = n, .since_us = clock_us()};
}

/* An answer can come before the release: then nothing tells of its end, which is near. */
void load_lanes_go_on(struct load *load, unsigned who)
{
    struct load_lane *lane = &load->lanes[who];

    if (lane->held > 0 && load->buyers.orders[lane->held - 1].is_told)
        lane->held = 0;
}

/* The order by which WHO is inside now; NULL: it is not. */
static const struct buyers_order *order_inside(const struct load *load,
                                               unsigned who)
{
    const struct buyers_order *orders = load->buyers.orders;

    if (load->lanes[who].held > 0)
        return &orders[load->lanes[who].held - 1];
    return load->sold > 0 && orders[load->sold - 1].instance == who
               ? &orders[load->sold - 1]
               : NULL;
}

/* A sale is inside beside another only if all of it fell in the other's hold: an answer
 * may be read late. */
static bool are_together(const struct load *load, unsigned a, unsigned b)
{
    const struct buyers_order *one = order_inside(load, a),
                              *other = order_inside(load, b);
    const struct load_lane *lanes = load->lanes;

    return one && other && one->product == other->product &&
           (lanes[a].held > 0 || one->sent_us >= lanes[b].since_us) &&
           (lanes[b].held > 0 || other->sent_us >= lanes[a].since_us);
}

/* It is dead, or about to be. */
static bool has_died(const struct site_instance *instance)
{
    return instance->state == SITE_GONE ||
           (instance->state == SITE_RUNS && instance->has_acted);
}

static const char *word_of(const struct load *load, unsigned who)
{
    const struct buyers *buyers = &load->buyers;
    bool is_dead = has_died(&load->site.instances[who]);
    const char *word = "";

    for (unsigned other = 0; other < load->play->instances; other++)
        if (other != who && are_together(load, who, other))
            return "clash";
    if (order_inside(load, who))
        return "held";
    for (size_t i = 0; i < buyers->orders_n; i++) {
        const struct buyers_order *order = &buyers->orders[i];
        bool waits = order->outcome == BUYERS_WAITS;

        if (order->instance != who)
            continue;
        if (order->outcome == BUYERS_LOST || (waits && is_dead))
            return "unknown";
        if (waits)
            word = "waits";
    }
    return word;
}

void load_lanes_write(const struct load *load, FILE *out)
{
    fputs(", \"lanes\": [", out);
    for (unsigned who = 0; who < load->play->instances; who++)
        fprintf(out, "%s\"%s\"", who > 0 ? ", " : "", word_of(load, who));
    fputc(']', out);
}

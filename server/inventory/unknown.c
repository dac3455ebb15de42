/*
 * Orders that were sent to an inventory service and not answered. The customer was
 * told so, and has the key. Here they are looked for by that key for a minute, so
 * that the log and the metrics have their outcome, too.
 *
 * "Not found" is no answer before the time is over: an inventory service that stands
 * still may place the order when it goes on. The list is bounded, and in memory only.
 */
#include <stdlib.h>
#include <string.h>

#include "server/base/log.h"
#include "server/inventory/inventory_private.h"

#define FOR_US       60000000
#define PAUSE_US_MIN 250000
#define PAUSE_US_MAX 8000000
#define FLYING_MAX   8

const char *unknown_outcome_text(enum unknown_outcome outcome)
{
    static const char *const texts[UNKNOWN_OUTCOMES] = {"placed", "not-found",
                                                        "given-up"};

    return texts[outcome];
}

static void tell(struct unknowns *unknowns, const char *key,
                 enum unknown_outcome outcome)
{
    log_warn("unknown-order", "key=%s outcome=%s", key,
             unknown_outcome_text(outcome));
    atomic_fetch_add(&unknowns->outcomes[outcome], 1);
}

static void end(struct unknowns *unknowns, struct unknown *unknown,
                enum unknown_outcome outcome)
{
    tell(unknowns, unknown->key, outcome);
    TAILQ_REMOVE(&unknowns->list, unknown, place);
    atomic_fetch_sub(&unknowns->n, 1);
    free(unknown);
}

void unknowns_add(struct unknowns *unknowns, const char *key, uint64_t now_us)
{
    struct unknown *unknown = NULL;

    if (atomic_load(&unknowns->n) < UNKNOWN_MAX)
        unknown = malloc(sizeof(*unknown));
    if (!unknown) {
        tell(unknowns, key, UNKNOWN_GIVEN_UP);
        return;
    }
    *unknown = (struct unknown){.next_us = now_us,
                                .pause_us = PAUSE_US_MIN,
                                .until_us = now_us + FOR_US};
    memccpy(unknown->key, key, '\0', sizeof(unknown->key));
    TAILQ_INSERT_TAIL(&unknowns->list, unknown, place);
    atomic_fetch_add(&unknowns->n, 1);
}

/* The list is in the order in which they came, and so in that of their ends. */
void unknowns_tend(struct unknowns *unknowns, uint64_t now_us)
{
    struct unknown *unknown, *next;

    for (unknown = TAILQ_FIRST(&unknowns->list);
         unknown && now_us >= unknown->until_us; unknown = next) {
        next = TAILQ_NEXT(unknown, place);
        if (!unknown->is_asked)
            end(unknowns, unknown,
                unknown->is_missing ? UNKNOWN_NOT_FOUND : UNKNOWN_GIVEN_UP);
    }
}

struct unknown *unknowns_next(struct unknowns *unknowns, uint64_t now_us)
{
    struct unknown *unknown;

    if (unknowns->flying >= FLYING_MAX)
        return NULL;
    TAILQ_FOREACH(unknown, &unknowns->list, place)
    {
        if (unknown->is_asked || now_us < unknown->next_us)
            continue;
        unknown->is_asked = true;
        unknowns->flying++;
        return unknown;
    }
    return NULL;
}

void unknowns_put_back(struct unknowns *unknowns, struct unknown *unknown)
{
    unknown->is_asked = false;
    unknowns->flying--;
}

void unknowns_heard(struct unknowns *unknowns, const struct http_try *try,
                    uint64_t now_us)
{
    struct unknown *unknown = try->unknown;
    unsigned status = try->end == TRY_ANSWERED ? try->reply.status : 0;

    unknowns_put_back(unknowns, unknown);
    if (status == 200) {
        end(unknowns, unknown, UNKNOWN_PLACED);
        return;
    }
    unknown->is_missing = status == 404;
    unknown->next_us = now_us + unknown->pause_us;
    if (unknown->pause_us < PAUSE_US_MAX)
        unknown->pause_us *= 2;
}

void unknowns_end(struct unknowns *unknowns)
{
    struct unknown *unknown;

    while ((unknown = TAILQ_FIRST(&unknowns->list)))
        end(unknowns, unknown, UNKNOWN_GIVEN_UP);
}

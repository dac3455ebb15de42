/*
 * The names that are waited for. The lists are searched from their start: they
 * are as long as the names waited for at one moment in one process, and a
 * string comparison is nothing beside the round trip that it saves.
 */
#include "lock/redis/topic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"

struct dlock_topic *dlock_topic_find(struct dlock_topic *list,
                                     const char *channel)
{
    while (list != NULL && strcmp(list->channel, channel) != 0)
        list = list->next;
    return list;
}

struct dlock_topic *dlock_topic_need(struct dlock_topic **list,
                                     const char *name, const char *channel)
{
    struct dlock_topic *topic = dlock_topic_find(*list, channel);

    if (topic != NULL)
        return topic;
    topic = calloc(1, sizeof(*topic));
    if (topic == NULL)
        return NULL;
    (void)snprintf(topic->name, sizeof(topic->name), "%s", name);
    (void)snprintf(topic->channel, sizeof(topic->channel), "%s", channel);
    TAILQ_INIT(&topic->waiters);
    topic->next = *list;
    *list = topic;
    return topic;
}

/*
 * At the end, because the one that has waited longest is woken first. (That is not
 * fairness: a newcomer elsewhere may still be faster than the one that was woken.)
 */
void dlock_topic_join(struct dlock_topic *topic, struct dlock_waiter *waiter)
{
    TAILQ_INSERT_TAIL(&topic->waiters, waiter, link);
    waiter->topic = topic;
    waiter->permit = topic->state == DLOCK_TOPIC_STANDS;
}

/* An empty topic stays for a while; the reader thread tidies up. */
void dlock_topic_leave(struct dlock_waiter *waiter)
{
    struct dlock_topic *topic = waiter->topic;

    TAILQ_REMOVE(&topic->waiters, waiter, link);
    if (TAILQ_EMPTY(&topic->waiters))
        topic->idle_since_ms = dlock_clock_real_now();
}

static void permit(struct dlock_waiter *waiter)
{
    waiter->permit = true;
    dlock_wake_call(&waiter->call);
}

/* Those that have a permit are about to try: a second one would be wasted. */
void dlock_topic_wake_one(const struct dlock_topic *topic)
{
    struct dlock_waiter *each = TAILQ_FIRST(&topic->waiters);

    while (each != NULL && each->permit)
        each = TAILQ_NEXT(each, link);
    if (each != NULL)
        permit(each);
}

void dlock_topic_wake_all(const struct dlock_topic *topic)
{
    for (struct dlock_waiter *each = TAILQ_FIRST(&topic->waiters); each != NULL;
         each = TAILQ_NEXT(each, link))
        permit(each);
}

void dlock_topic_wake_by(const struct dlock_topic *topic, uint64_t until_ms)
{
    struct dlock_waiter *each = TAILQ_FIRST(&topic->waiters);

    while (each != NULL && !each->permit && each->until_ms > until_ms)
        each = TAILQ_NEXT(each, link);
    if (each == NULL && !TAILQ_EMPTY(&topic->waiters))
        permit(TAILQ_FIRST(&topic->waiters));
}

struct dlock_topic *dlock_topic_task(struct dlock_topic **list,
                                     uint64_t idle_before_ms,
                                     struct dlock_topic *copy)
{
    for (struct dlock_topic **link = list; *link != NULL;
         link = &(*link)->next) {
        struct dlock_topic *each = *link;

        if (TAILQ_EMPTY(&each->waiters) &&
            each->idle_since_ms <= idle_before_ms) {
            *link = each->next;
            return each;
        }
        if (each->state == DLOCK_TOPIC_NEW && !TAILQ_EMPTY(&each->waiters)) {
            each->state = DLOCK_TOPIC_ASKED;
            *copy = *each;
            return copy;
        }
    }
    return NULL;
}

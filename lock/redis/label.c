/* See label.h. */
#include "lock/redis/label.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lock/core/clock.h"
#include "lock/redis/call.h"

enum {
    HOST_BYTES_MAX = 63,
    LIVES_PER_LEASE = 3, /* so that not each renewal sends it again; ... */
    LIFE_MS_MIN = 60000, /* ... nor each of short leases */
    TIME_MS = 100,       /* for a thing that nothing depends on */
    RETRY_MS = 1000,
};

static const char suffix[] = ":dlock-label"; /* of the client's id */

void dlock_label_make(struct dlock *client, const char *label)
{
    char host[HOST_BYTES_MAX + 1] = "";

    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
        (void)snprintf(host, sizeof(host), "unknown");
    for (char *at = host; *at != '\0'; at++)
        if (!isgraph((unsigned char)*at))
            *at = '?';
    (void)snprintf(client->label, sizeof(client->label), "%s:%ld:%s", host,
                   (long)getpid(), label);
}

/* One of several threads sends it; the others go on. */
static bool is_due(struct dlock *client, uint64_t need_ms, uint64_t until_ms)
{
    uint_fast64_t known_ms = atomic_load(&client->label_until_ms);

    return known_ms < need_ms &&
           atomic_compare_exchange_strong(&client->label_until_ms, &known_ms,
                                          until_ms);
}

void dlock_label_keep(struct dlock *client, struct dlock_wire *wire,
                      unsigned lease_ms)
{
    uint64_t now = dlock_clock_now(client->clock);
    uint64_t life_ms = (uint64_t)LIVES_PER_LEASE * lease_ms;
    struct dlock_command command;
    struct dlock_reply reply;

    life_ms = life_ms < LIFE_MS_MIN ? LIFE_MS_MIN : life_ms;
    if (client->label[0] == '\0' || wire == NULL ||
        !is_due(client, now + lease_ms, now + life_ms))
        return;
    dlock_command_init(&command, "set-label", client->id, NULL);
    command.repeatable = true;
    dlock_command_arg(&command, "SET");
    dlock_command_derived(&command, suffix, "");
    dlock_command_arg(&command, client->label);
    dlock_command_arg(&command, "PX");
    dlock_command_number(&command, life_ms);
    if (dlock_call(wire, &command, now + TIME_MS, &reply, NULL) != DLOCK_OK)
        atomic_store(&client->label_until_ms, now + lease_ms + RETRY_MS);
}

void dlock_label_find(struct dlock_session *session, uint64_t limit_ms,
                      struct dlock_holder *holder)
{
    char id[sizeof(session->client->id)] = "";
    const char *end = strchr(holder->owner, '-');
    struct dlock_command command;
    struct dlock_reply reply;

    /* Textbook locks have owners of other kinds. */
    if (session->wire == NULL || end != holder->owner + sizeof(id) - 1)
        return;
    memcpy(id, holder->owner, sizeof(id) - 1);
    dlock_command_init(&command, "get-label", id, NULL);
    command.repeatable = true;
    dlock_command_arg(&command, "GET");
    dlock_command_derived(&command, suffix, "");
    if (dlock_call(session->wire, &command, limit_ms, &reply, NULL) ==
            DLOCK_OK &&
        reply.kind == DLOCK_REPLY_STRING)
        (void)snprintf(holder->label, sizeof(holder->label), "%.*s",
                       (int)sizeof(holder->label) - 1, reply.string);
}

/*
 * What a warm rig's keys say, and what they ought to. See warm_rig.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/warm_rig.h"

/* One of the bulk strings of a raw reply; "-" for nil. */
static const char *next_bulk(const char *at, char *text, size_t size)
{
    const char *begin = at ? strchr(at, '$') : NULL;
    long length = begin ? strtol(begin + 1, NULL, 10) : -1;

    snprintf(text, size, "-");
    if (length < 0)
        return begin ? begin + 1 : NULL;
    begin = strchr(begin, '\n') + 1;
    snprintf(text, size, "%.*s", (int)length, begin);
    return begin + length;
}

void warm_rig_key(const struct warm_rig *rig, int64_t product_id,
                  int64_t segment, char text[WARM_RIG_KEY_BYTES])
{
    char command[128], reply[256], fields[3][32];
    const char *at = reply;

    snprintf(command, sizeof(command),
             "HMGET stock:{%" PRId64 ":%" PRId64 "} epoch units segments",
             product_id, segment);
    redis_server_ask(rig->redis, command, reply, sizeof(reply));
    for (int i = 0; i < 3; i++)
        at = next_bulk(at, fields[i], sizeof(fields[i]));
    snprintf(text, WARM_RIG_KEY_BYTES, "%s %s %s", fields[0], fields[1],
             fields[2]);
}

/* What is not so, the last time that somebody looked. */
static char wrong[3 * WARM_RIG_KEY_BYTES];

static bool key_is(struct warm_rig *rig, int64_t product_id, int64_t segment,
                   const char *wanted)
{
    char found[WARM_RIG_KEY_BYTES];

    warm_rig_key(rig, product_id, segment, found);
    if (strcmp(found, wanted) == 0)
        return true;
    snprintf(wrong, sizeof(wrong), "key {%" PRId64 ":%" PRId64 "}: %s, not %s",
             product_id, segment, found, wanted);
    return false;
}

static bool keys_are_right(struct warm_rig *rig, int64_t product_id)
{
    struct store_cells cells = warm_rig_cells(rig, product_id);
    char wanted[WARM_RIG_KEY_BYTES];

    for (size_t i = 0; i < cells.n; i++) {
        snprintf(wanted, sizeof(wanted), "%" PRId64 " %" PRId64 " %zu",
                 cells.epoch, cells.cells[i].stock, cells.n);
        if (!key_is(rig, product_id, (int64_t)i, wanted))
            return false;
    }
    return key_is(rig, product_id, (int64_t)cells.n, "- - -");
}

void warm_rig_await_keys(struct warm_rig *rig, int64_t product_id)
{
    warm_rig_until(rig, keys_are_right, product_id, wrong);
}

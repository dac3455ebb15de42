/* See server.h. */
#include "lock/redis/server.h"

#include <stdlib.h>

static enum dlock_status prepare(struct dlock *client,
                                 struct dlock_error *error)
{
    enum dlock_status status =
        dlock_address_parse(client->url, &client->wire.address, error);

    if (status == DLOCK_OK && (client->wire.address.cluster ||
                               client->wire.address.primary[0] != '\0'))
        client->wire.primary = &client->primary;
    return status;
}

const struct dlock_server dlock_redis_server = {
    .prepare = prepare,
    .wire_open = dlock_wire_open,
    .wire_close = dlock_wire_close,
};

struct dlock_exchange *dlock_redis_renewals(struct dlock_renew renews[],
                                            size_t n, unsigned lease_ms,
                                            dlock_fill_renewal *fill)
{
    struct dlock_exchange *exchanges = malloc(n * sizeof(*exchanges));

    for (size_t i = 0; i < n; i++) {
        renews[i].status = DLOCK_UNREACHABLE;
        if (exchanges != NULL)
            fill(renews[i].name, renews[i].owner, renews[i].number, lease_ms,
                 &exchanges[i].command);
    }
    return exchanges;
}

void dlock_redis_renew(struct dlock *client, struct dlock_renew renews[],
                       size_t n, unsigned lease_ms, uint64_t limit_ms,
                       dlock_fill_renewal *fill)
{
    struct dlock_exchange *exchanges =
        dlock_redis_renewals(renews, n, lease_ms, fill);

    if (exchanges == NULL)
        return;
    dlock_call_batch(client->renewal_wire, exchanges, n, limit_ms, NULL);
    for (size_t i = 0; i < n; i++) {
        renews[i].status = exchanges[i].status;
        if (renews[i].status == DLOCK_OK)
            renews[i].answer = exchanges[i].reply.integers[0];
    }
    free(exchanges);
}

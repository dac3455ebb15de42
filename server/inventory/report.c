/* What an order service tells Prometheus about its inventory services. */
#include <inttypes.h>
#include <string.h>

#include "server/base/metrics.h"
#include "server/inventory/inventory_private.h"

/* A reply as the outcome of an order; ORDER_OUTCOME_N: none of these. */
static enum order_outcome outcome_of(const struct inventory_call *call)
{
    static const char type[] = "urn:stockade:problem:";
    const struct inventory_reply *reply = &call->reply;
    const char *slug = reply->text ? strstr(reply->text, type) : NULL;

    if (call->end != INVENTORY_ANSWERED || (reply->status != 201 && !slug))
        return ORDER_STORE_UNAVAILABLE;
    if (reply->status == 201)
        return reply->replayed ? ORDER_REPLAYED : ORDER_PLACED;
    for (unsigned i = 0; slug && i < ORDER_OUTCOME_N; i++) {
        const char *name = order_outcome_slug((enum order_outcome)i);
        size_t size = strlen(name);

        if (strncmp(slug + sizeof(type) - 1, name, size) == 0 &&
            slug[sizeof(type) - 1 + size] == '"')
            return (enum order_outcome)i;
    }
    return ORDER_OUTCOME_N;
}

enum order_outcome report_order(struct metrics *metrics,
                                const struct inventory_call *call,
                                uint64_t now_us)
{
    enum order_outcome outcome = outcome_of(call);

    if (outcome != ORDER_OUTCOME_N)
        metrics_order(metrics, outcome);
    metrics_observe(metrics, METRICS_ORDER, now_us - call->begun_us);
    return outcome;
}

static void head(FILE *out, const char *name, const char *type,
                 const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

#define EACH(service, services)                                                \
    for ((service) = (services)->list;                                         \
         (service) < (services)->list + (services)->n; (service)++)

static void write_services(const struct services *services, FILE *out)
{
    const struct service *service;

    head(out, "stockade_inventory_ready", "gauge",
         "1 if the inventory service is asked for orders.");
    EACH(service, services)
    fprintf(out, "stockade_inventory_ready{inventory=\"%s\"} %d\n",
            service->url, atomic_load(&service->is_ready));
    head(out, "stockade_inventory_failures_total", "counter",
         "Requests to it without an answer, but for those to /readyz.");
    EACH(service, services)
    fprintf(out,
            "stockade_inventory_failures_total{inventory=\"%s\"} %" PRIu64 "\n",
            service->url, atomic_load(&service->failures));
    head(out, "stockade_inventory_seconds", "summary",
         "Requests to it, but for those to /readyz: their number and time.");
    EACH(service, services)
    fprintf(out,
            "stockade_inventory_seconds_sum{inventory=\"%s\"} %.6f\n"
            "stockade_inventory_seconds_count{inventory=\"%s\"} %" PRIu64 "\n",
            service->url, (double)atomic_load(&service->time_us) / 1e6,
            service->url, atomic_load(&service->tries));
}

void report_write(const struct services *services,
                  const struct unknowns *unknowns, uint64_t retries, FILE *out)
{
    write_services(services, out);
    head(out, "stockade_inventory_retries_total", "counter",
         "Requests that were sent to another inventory service as well.");
    fprintf(out, "stockade_inventory_retries_total %" PRIu64 "\n", retries);
    head(out, "stockade_unknown_orders", "gauge",
         "Orders without an answer that are looked for by their keys.");
    fprintf(out, "stockade_unknown_orders %zu\n", atomic_load(&unknowns->n));
    head(out, "stockade_unknown_orders_total", "counter",
         "Such orders, by what was found of them in the end.");
    for (size_t i = 0; i < UNKNOWN_OUTCOMES; i++)
        fprintf(out,
                "stockade_unknown_orders_total{outcome=\"%s\"} %" PRIu64 "\n",
                unknown_outcome_text((enum unknown_outcome)i),
                atomic_load(&unknowns->outcomes[i]));
}

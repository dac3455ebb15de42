/*
 * The inventory services: whose turn it is, and who is left out.
 *
 * Each is asked /readyz once a second. One that does not say 200, or that leaves a
 * request unanswered, gets no more requests, and is asked again after a pause that
 * grows as long as that goes on: also if /readyz says yes each time and orders fail.
 */
#include "server/inventory/services.h"

#include <string.h>
#include <strings.h>

#include "server/base/log.h"

#define PROBE_EVERY_US 1000000
#define PAUSE_US_MIN   100000
#define PAUSE_US_MAX   3200000

/* Two of one name would take turns as two, and have one line of metrics. */
static bool is_there(const struct services *services, const char *url)
{
    for (size_t i = 0; i < services->n; i++)
        if (strcasecmp(services->list[i].url, url) == 0)
            return true;
    return false;
}

bool services_read(struct services *services, const char *text)
{
    size_t size = 0;

    for (; *text; text += size + (text[size] == ',')) {
        struct service *service = &services->list[services->n];

        size = strcspn(text, ",");
        if (services->n == SERVICES_MAX || size >= sizeof(service->url))
            break;
        memcpy(service->url, text, size);
        service->url[size] = '\0';
        if (!fetch_is_url(service->url))
            break;
        if (service->url[size - 1] == '/')
            service->url[size - 1] = '\0';
        if (is_there(services, service->url))
            break;
        service->pause_us = PAUSE_US_MIN;
        services->n++;
    }
    if (!*text)
        return services->n > 0;
    if (memchr(text, '@', size)) { /* a password may stand before it */
        text = "(hidden)";
        size = strlen(text);
    }
    log_error("inventory",
              "error=\"--inventory takes http://HOST:PORT, up to %d different "
              "ones with commas between, not '%.*s'\"",
              SERVICES_MAX, (int)size, text);
    return false;
}

bool services_any(const struct services *services, const struct service *failed)
{
    const struct service *service = services->list;

    for (; service < services->list + services->n; service++)
        if (service != failed && atomic_load(&service->is_ready))
            return true;
    return false;
}

struct service *services_choose(struct services *services,
                                const struct service *failed)
{
    struct service *service;

    for (size_t i = 0; i < services->n; i++) {
        service = &services->list[(services->turn + i) % services->n];
        if (service != failed && atomic_load(&service->is_ready) &&
            service->flying < SERVICE_FLYING_MAX)
            return service;
    }
    return NULL;
}

/* The pause begins small again only for one that has stayed ready. */
void services_works(struct service *service, uint64_t now_us)
{
    if (atomic_exchange(&service->is_ready, true))
        service->pause_us = PAUSE_US_MIN;
    else
        log_info("inventory", "url=%s state=ready", service->url);
    service->is_told = false;
    service->probe_us = now_us + PROBE_EVERY_US;
}

void services_fails(struct service *service, uint64_t now_us, const char *why)
{
    atomic_store(&service->is_ready, false);
    if (!service->is_told)
        log_warn("inventory", "url=%s state=away error=\"%s\"", service->url,
                 why);
    service->is_told = true;
    service->probe_us = now_us + service->pause_us;
    if (service->pause_us < PAUSE_US_MAX)
        service->pause_us *= 2;
}

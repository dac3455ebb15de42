#include "server/base/order_outcome.h"

static const char *const slugs[] = {
#define ORDER_OUTCOME_SLUG(name, status, slug, retry_s, title) slug,
    ORDER_OUTCOME_MAP(ORDER_OUTCOME_SLUG)
#undef ORDER_OUTCOME_SLUG
};

const char *order_outcome_slug(enum order_outcome outcome)
{
    return outcome < ORDER_OUTCOME_N ? slugs[outcome] : "unknown";
}

#include "server/base/order_outcome.h"

static const char *const slugs[] = {
#define ROW(name, status, retry_s, slug, title) slug,
#include "server/base/order_outcomes.inc"
#undef ROW
};

const char *order_outcome_slug(enum order_outcome outcome)
{
    return outcome < ORDER_OUTCOME_N ? slugs[outcome] : "unknown";
}

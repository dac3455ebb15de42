/*
 * The table of contents: which locks there are, in the order in which one
 * should meet them, from no lock to the complete one.
 */
#include "lock/strategy.h"

#include <string.h>

static const struct dlock_strategy *const strategies[] = {
#define STRATEGY_POINTER(name) &dlock_strategy_##name,
    DLOCK_STRATEGY_MAP(STRATEGY_POINTER)
#undef STRATEGY_POINTER
};

static const struct dlock_strategy *strategy_at(size_t index)
{
    size_t n = sizeof(strategies) / sizeof(strategies[0]);

    return index < n ? strategies[index] : NULL;
}

const struct dlock_strategy *dlock_strategy_called(const char *name)
{
    const struct dlock_strategy *strategy;

    for (size_t i = 0; (strategy = strategy_at(i)) != NULL; i++)
        if (strcmp(strategy->info.name, name) == 0)
            return strategy;
    return NULL;
}

const struct dlock_strategy_info *dlock_strategy_info(size_t index)
{
    const struct dlock_strategy *strategy = strategy_at(index);

    return strategy == NULL ? NULL : &strategy->info;
}

const struct dlock_strategy_info *dlock_strategy_find(const char *name)
{
    const struct dlock_strategy *strategy =
        name == NULL ? NULL : dlock_strategy_called(name);

    return strategy == NULL ? NULL : &strategy->info;
}

/*
 * The table of contents: which locks there are, in the order in which one
 * should meet them, from no lock to the complete one.
 */
#include "lock/strategy.h"

#include <string.h>

/* Three pieces, because the ladder is a table of its own and will grow. */
static const struct dlock_strategy *strategy_at(size_t index)
{
    static const struct dlock_strategy *const first[] = {
        &dlock_strategy_none, &dlock_strategy_process};
    static const struct dlock_strategy *const last[] = {
        &dlock_strategy_redisson, &dlock_strategy_fenced};
    size_t ladder_n = 0;

    while (dlock_strategy_ladder[ladder_n] != NULL)
        ladder_n++;
    if (index < 2)
        return first[index];
    if (index < 2 + ladder_n)
        return dlock_strategy_ladder[index - 2];
    if (index < 4 + ladder_n)
        return last[index - 2 - ladder_n];
    return NULL;
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

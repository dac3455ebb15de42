/* All experiments, by families. A new family is a row below. See experiment.h. */
#include <string.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/experiments/families.h"
#include "server/nearest.h"

static const struct experiment_family *const families[] = {
    &experiments_sale,     &experiments_crash,   &experiments_owner,
    &experiments_lease,    &experiments_session, &experiments_queue,
    &experiments_servers,  &experiments_several, &experiments_order,
    &experiments_segment,  &experiments_answer,  &experiments_wild_left,
    &experiments_wild_two,
};

const struct experiment_family *experiment_family(size_t index)
{
    return index < sizeof(families) / sizeof(families[0]) ? families[index]
                                                          : NULL;
}

bool experiment_has(const struct experiment_play *play)
{
    return play->scene.lock || play->load;
}

const struct experiment_play *
experiment_play(const struct experiment *experiment, unsigned index)
{
    return index == 0   ? &experiment->bug
           : index == 1 ? &experiment->fix
                        : &experiment->rest;
}

const char *experiment_play_word(unsigned index)
{
    return index == 0 ? "bug" : index == 1 ? "fix" : "rest";
}

/* Nothing breaks in an experiment that measures: it has no bug. */
const char *experiment_play_title(const struct experiment *experiment,
                                  unsigned index)
{
    bool breaks = experiment->bug.faults != 0 || experiment->bug.says;

    if (index == 2)
        return "With the fix, once more";
    if (index == 1)
        return "With the fix";
    return breaks                             ? "With the bug"
           : experiment_has(&experiment->fix) ? "Without the fix"
                                              : "What is played";
}

static bool is_called(const struct experiment *experiment, const char *name)
{
    const char *id = experiment->id;

    return strcmp(experiment->name, name) == 0 || strcmp(id, name) == 0 ||
           (id[0] == '0' && strcmp(id + 1, name) == 0);
}

const struct experiment *experiment_at(size_t index,
                                       const struct experiment_family **family)
{
    const struct experiment *found = NULL, *last = NULL;
    const struct experiment_family *each;

    for (size_t n = 0; n <= index; n++, last = found) {
        found = NULL;
        for (size_t i = 0; (each = experiment_family(i)) != NULL; i++)
            for (size_t j = 0; j < each->n; j++) {
                const struct experiment *one = &each->experiments[j];

                if ((!last || strcmp(one->id, last->id) > 0) &&
                    (!found || strcmp(one->id, found->id) < 0)) {
                    found = one;
                    *family = each;
                }
            }
        if (!found)
            return NULL;
    }
    return found;
}

const struct experiment *
experiment_find(const char *name, const struct experiment_family **family)
{
    const struct experiment_family *each;
    const struct experiment *one, *begun = NULL;
    unsigned begun_n = 0;

    for (size_t i = 0; (one = experiment_at(i, &each)) != NULL; i++) {
        bool begins = *name && strncmp(one->name, name, strlen(name)) == 0;

        if (is_called(one, name)) {
            *family = each;
            return one;
        }
        begun_n += begins;
        if (begins && begun_n == 1) {
            begun = one;
            *family = each;
        }
    }
    return begun_n == 1 ? begun : NULL;
}

const char *experiment_nearest(const char *name)
{
    const struct experiment_family *family;
    const char *nearest = NULL;
    size_t least = 0;

    for (size_t i = 0; (family = experiment_family(i)) != NULL; i++)
        for (size_t j = 0; j < family->n; j++)
            if (nearest_is(name, family->experiments[j].name, &least))
                nearest = family->experiments[j].name;
    return nearest;
}

/* The tables of experiments; experiments.c has the list of them. */
#ifndef FAMILIES_H
#define FAMILIES_H

#include "server/lab/experiments/experiment.h"

extern const struct experiment_family experiments_lease;
extern const struct experiment_family experiments_wild;
extern const struct experiment_family experiments_queue;
extern const struct experiment_family experiments_sale;

#endif

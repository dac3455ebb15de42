/* The tables of experiments; experiments.c has the list of them. */
#ifndef FAMILIES_H
#define FAMILIES_H

#include "server/lab/experiments/experiment.h"

extern const struct experiment_family experiments_sale;
extern const struct experiment_family experiments_crash;
extern const struct experiment_family experiments_owner;
extern const struct experiment_family experiments_lease;
extern const struct experiment_family experiments_session;
extern const struct experiment_family experiments_queue;
extern const struct experiment_family experiments_servers;
extern const struct experiment_family experiments_several;
extern const struct experiment_family experiments_order;
extern const struct experiment_family experiments_segment;
extern const struct experiment_family experiments_answer;
extern const struct experiment_family experiments_wild_left;
extern const struct experiment_family experiments_wild_two;

#endif

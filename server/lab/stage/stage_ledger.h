/*
 * The audit of the store, as faults: the same for a schedule of the stage and
 * for real instances under load.
 */
#ifndef STAGE_LEDGER_H
#define STAGE_LEDGER_H

#include "db/store.h"

/* A bit 1u << fault for each that is one at any time. */
unsigned ledger_faults(const struct store_audit *audit);

/* The rest: an order that is under way may have taken units, and not be there yet. */
unsigned ledger_faults_at_the_end(const struct store_audit *audit);

#endif

/*
 * Nodes of a Redis Cluster that hang, as all sessions of one client know them. A command
 * to such a node takes its whole timeout, and the threads of asynchronous calls are few: the
 * locks on other nodes must not wait for them. So one session at a time asks a silent node,
 * and the others are told at once that it does not answer, with nothing sent.
 *
 * All functions may be called from any thread, and none waits.
 */
#ifndef DLOCK_SILENCE_H
#define DLOCK_SILENCE_H

#include "lock/core/client.h"

/* Whether the node of CONFIG may be asked now. *ALONE: it is silent, and the caller is the
 * one that asks it. */
bool dlock_silence_may_ask(const struct dlock_wire_config *config, bool *alone);

/* The end of a question, with what _may_ask said. ANSWERED: if only by a refusal; else its
 * time went by. */
void dlock_silence_end(const struct dlock_wire_config *config, bool alone,
                       bool answered);

/* Whether the node at ADDRESS is silent, as sessions with this CONFIG know. */
bool dlock_silence_is_silent(const struct dlock_wire_config *config,
                             const struct dlock_address *address);

#endif

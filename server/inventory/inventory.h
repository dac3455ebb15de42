/*
 * The way from an order service to its inventory services: `stockade serve
 * --inventory URL,URL` takes orders and has others deduct, which share one database
 * and one Redis.
 *
 * A call is one request to them. It is tried at one inventory service, and once
 * more at another one if the first does not answer or says "not now". Every order
 * has an idempotency key, so that both tries are the same order, which is sold once.
 *
 * "No" and "don't know" stay apart: what was sent and not answered may have been
 * done. The customer of such an order is told the key, by which it is found or sold
 * once; the log has that key, too.
 *
 * One thread of its own does all of it: see inventory.c.
 */
#ifndef INVENTORY_H
#define INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>

#include "server/base/fetch.h"
#include "server/base/order_outcome.h"

struct app;
struct config;
struct inventory;
struct service;

struct inventory_call {
    /* Without url and limit_ms, borrowed until done(). A request with a key places an
     * order; no other has a key. */
    struct fetch_request request;

    /* Called once, on the inventory's thread; must not block. */
    void (*done)(struct inventory_call *call);
    void *owner; /* for done() */

    /* How it ended, all tries together: not sent, nothing was done; lost, nobody has
     * answered. The reply's text is for done() to take. */
    enum fetch_end end;
    struct fetch_reply reply;
    enum order_outcome refusal; /* unless it was answered; and the reason */
    const char *why;

    /* The inventory's. */
    TAILQ_ENTRY(inventory_call) place;
    uint64_t begun_us, due_us;
    const struct service *failed; /* where it was tried, and is not again */
    unsigned tries;
    bool is_lost; /* a try of it was sent, and not answered */
    bool is_open; /* a try of it was answered: it may have been ordered */
};

/* Whether config->inventory is a list of URLs. If not, the log says why. */
bool inventory_check(const struct config *config);

/* Uses app->config, app->metrics, app->health. NULL, and the log says why. */
struct inventory *inventory_open(const struct app *app);

/* False: --queue-max are under way, or it was stopped; done() is not called. From
 * any thread. */
bool inventory_submit(struct inventory *inventory, struct inventory_call *call);

/* As dispatcher_depth() and dispatcher_beat(), from any thread. */
size_t inventory_depth(const struct inventory *inventory);
uint64_t inventory_beat(struct inventory *inventory);

void inventory_metrics(const struct inventory *inventory, FILE *out);

/* Takes no calls any more; returns when all are answered, which their time limits
 * bound. */
void inventory_stop(struct inventory *inventory);

/* Stops if that was not done, then frees. NULL is fine. */
void inventory_close(struct inventory *inventory);

#endif

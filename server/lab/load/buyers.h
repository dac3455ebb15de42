/*
 * Buyers: orders over HTTP to the instances of a site, and what became of each.
 *
 * All of them on this thread, an order at a time, whose reply may be waited for or not;
 * or a crowd. Each order has a number, from 1, which is its user and a part of its key;
 * so it can be found in the ledger.
 *
 * Counts here are what buyers were told. What was sold, the ledger says.
 */
#ifndef BUYERS_H
#define BUYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/base/fetch.h"
#include "server/lab/load/site.h"

enum {
    BUYERS_MAX = 1024 /* at a time */,
    BUYERS_ORDERS_MAX = 2000000,
};

enum buyers_outcome {
    BUYERS_WAITS,    /* no reply yet */
    BUYERS_SOLD,     /* 201 */
    BUYERS_SOLD_OUT, /* 409 */
    BUYERS_NOT_NOW,  /* 429, 503 */
    BUYERS_LOST, /* no reply any more: its instance has died, or time is up */
    BUYERS_OTHER,
};

struct buyers_order {
    unsigned char instance;
    unsigned char outcome;
    unsigned char product;
    bool is_told; /* the caller's: it has shown it */
    unsigned short status;
    char why[22]; /* the problem's name, "lock-timeout" */
    uint64_t sent_us, answered_us;
};

/* The metrics of an instance. */
struct buyers_scrape {
    bool is_owed; /* asked for, and not here yet */
    char *text;   /* that came last; NULL: it could not be had */
};

/* The site's buyers, all of them. */
extern struct buyers {
    struct fetches fetches;
    unsigned most, taken; /* orders at a time; those now */
    int64_t offered;      /* the last product that was to be */
    unsigned segments;    /* of any that was, at most */
    bool is_offered;      /* and it is */
    struct buyers_scrape scrapes[SITE_INSTANCES_MAX];
    struct buyers_order *orders;
    size_t orders_n;
    int64_t product_id; /* of the orders to come */
} buyers;

/* For N buyers at a time at most. False, and site.error says why. */
bool buyers_open(unsigned n);
void buyers_close(void);

/* PUT PRODUCT_ID with so many units in so many segments, by way of instance 0. */
bool buyers_offer(int64_t product_id, int64_t stock, unsigned segments);

/* Sends an order to an instance; its index in orders[]. SIZE_MAX: it cannot, and
 * site.error says why. */
size_t buyers_send(unsigned instance);

/* Waits for MS at most until something has happened, and takes note of it; of the
 * site's logs, too. */
void buyers_turn(unsigned ms);

/* Returns the metrics of an instance that it was asked for last, until the next turn, and
 * asks for the next. NULL: they are not here. */
const char *buyers_scrape(unsigned instance);

/* Waits for all that were asked, two seconds at most. */
void buyers_await_scrapes(void);

/* A crowd, spread over INSTANCES. */
struct buyers_crowd {
    unsigned buyers;    /* at a time, each with one order after the other */
    unsigned orders;    /* in all; 0 = as long as it lasts */
    unsigned within_ms; /* each order has a moment of its own in this time; 0 =
                           it is sent when a buyer is free */
    unsigned for_ms;    /* nobody begins another order after that */
};

bool buyers_crowd(const struct buyers_crowd *crowd, unsigned instances);

/* How many orders ended so. */
size_t buyers_count(enum buyers_outcome outcome);

/* The orders that were sold: the latency that P percent are below, in ms. */
double buyers_latency_ms(unsigned p);

#endif

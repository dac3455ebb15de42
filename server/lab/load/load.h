/*
 * Experiments with real instances, and how to add one. See experiment.h for what
 * all experiments have.
 *
 *     static const struct experiment_load pause = {
 *         .lock = "set-nx-px", .instances = 2, .stock = 3,
 *         .flags = LOAD_NAIVE " --lock-wait-ms 300",
 *         .each = {"--lock-lease-ms 300 --lab-failpoint "
 *                  "naive-update:before=hold*1"}};
 *     ... .bug = {.load = &pause, .schedule = "a& a. L b*2 a> a= b*3", ...}
 *
 * Instances of `stockade serve` are started on one database and one Redis, with the
 * flags of all and those of each; product 1 has .stock units (product 2 as well, if
 * the story sells it). Then a story is played, which is the schedule of the
 * experiment; or a crowd comes, or a function measures. At the end the servers are
 * stopped, and the store's audit says what was sold.
 *
 * A story
 * -------
 * Instances are a, b, c. Words with blanks between:
 *     a     an order to a, until it is answered; a*3 three, one after the other;
 *           a/2 of product 2
 *     a&    an order to a, and the story goes on
 *     a.    until a has come to its failpoint, or died there, or refuses
 *     a>    a goes on from its failpoint
 *     a=    until a has answered all
 *     L     until nobody has product 1's lock, by Redis; for one and a half of a's
 *           leases at most
 * Faults come by --lab-failpoint, so each is at its step, and not at a time: a story
 * goes the same way on a machine that is fast, slow or busy.
 */
#ifndef LOAD_H
#define LOAD_H

#include <stdint.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/load/buyers.h"
#include "server/lab/load/site.h"

#define LOAD_OF(lock_name, ...)                                                \
    (&(const struct experiment_load){.lock = (lock_name), __VA_ARGS__})

/* Each order on its own, and only the lock protects the stock. */
#define LOAD_NAIVE "--deduct naive --orders one-by-one"

/* Nobody is refused for want of time, also where all is slow. */
#define LOAD_PATIENT " --request-deadline-ms 30000 --lock-wait-ms 12000"

/* Who does not get the lock is told so soon. */
#define LOAD_IMPATIENT LOAD_NAIVE " --lock-wait-ms 1000"

/* Flags of one instance, with a blank at the end. A lease that ends while it is
 * stopped, one that does not, and one that is renewed, also where a watchdog is late
 * because the machine is busy. */
#define LOAD_SHORT_LEASE "--lock-lease-ms 400 "
#define LOAD_LONG_LEASE  "--lock-lease-ms 20000 "
#define LOAD_RENEWED     "--lab-lease-ms 1500 "

/* And where a fault finds it: under the lock, between its read and its write. */
#define LOAD_INSIDE "--lab-failpoint naive-update:before="

struct load;

struct experiment_load {
    const char *lock;
    unsigned instances;
    int64_t stock;
    const char *flags;                    /* of all */
    const char *each[SITE_INSTANCES_MAX]; /* of one; NULL = none */

    /* Without a story: one of these. */
    struct buyers_crowd crowd;
    unsigned wrk_connections; /* wrk, for two seconds */
    bool (*measure)(struct load *load);

    /* Whether the numbers are as told; and in run->said what they are. NULL: faults
     * and sold units are all. */
    bool (*judge)(struct load *load);
};

/* One that is under way. */
struct load {
    const struct experiment_load *play;
    const char *story; /* NULL: none */
    struct experiment_run *run;
    struct site site;
    struct buyers buyers;
    uint64_t begun_us;
    unsigned events;
};

enum { LOAD_SOLD_ANY = -1 }; /* for experiment_play.sold: it depends on luck */

/* ---- for those who measure ------------------------------------------------ */

/* A line in the column of instance WHO; -1: of the world. */
void load_tell(struct load *load, int who, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The crowd of the table buys, and that is told. */
bool load_crowd(struct load *load);

/* Instance WHO with FLAGS, and those of the table. */
bool load_start(struct load *load, unsigned who, const char *flags);

/* ---- its parts --------------------------------------------------------------- */

bool load_story(struct load *load); /* load_story.c */
bool load_wrk(struct load *load);   /* load_wrk.c */

/* Whether somebody has product 1's lock, by Redis; and for how long, UINT64_MAX = for
 * ever. */
bool load_is_held(struct load *load, uint64_t *left_ms);

#endif

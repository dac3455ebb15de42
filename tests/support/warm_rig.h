/*
 * A store with products, a redis-server, and warmers over them: what the tests
 * of server/warm need. It waits for events, the warmer's passes, and does not
 * sleep. Failures to set up abort.
 */
#ifndef WARM_RIG_H
#define WARM_RIG_H

#include <pthread.h>

#include "server/app.h"
#include "server/config.h"
#include "server/warm/warm.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

/* A step of the warmer or the store. On the thread that does it. */
typedef void warm_rig_point(const char *step, enum warm_phase phase);

/* A step that something happens at. */
struct warm_rig_trap {
    char step[24];
    enum warm_phase phase;
    unsigned n; /* how often still, or how often it did */
};

/* One instance of the service, as far as the warmer is concerned. */
struct warm_rig {
    struct temp_dir dir;
    struct config config;
    struct app app;
    struct store_reader *reader; /* the test's own */
    struct redis_server *redis;  /* NULL = no keys */
    bool is_guest;               /* directory and server are another's */
    warm_rig_point *on_point;

    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t changed;
    unsigned passes; /* that have ended */
    struct warm_rig_trap fail, stop, count;
    bool stopped; /* somebody stands at a step */
};

/* Opens a store; a redis-server if WITH_REDIS. No product, no warmer yet. */
struct warm_rig *warm_rig_new(bool shared, bool with_redis);

/* An instance on another's database and Redis, without a warmer. ON_POINT (NULL
 * = none) hears of every step. */
struct warm_rig *warm_rig_guest(const struct temp_dir *dir,
                                struct redis_server *redis, bool shared,
                                warm_rig_point *on_point);
void warm_rig_free(struct warm_rig *rig);

/* Opens the warmer, with a hook; closes it. */
void warm_rig_warm(struct warm_rig *rig);
void warm_rig_cool(struct warm_rig *rig);

/* Creates or resizes a product; does not tell the warmer. */
void warm_rig_put(struct warm_rig *rig, int64_t product_id, int64_t units,
                  int64_t segments);
struct store_cells warm_rig_cells(struct warm_rig *rig, int64_t product_id);

/* Buys as the desk does: takes a ticket, places the order, settles. How the
 * order ended; STORE_BUSY if the product is cold. */
enum store_status warm_rig_buy(struct warm_rig *rig, int64_t product_id,
                               int64_t units);

/* The ticket's order alone, and its number, which the ticket gets. */
enum store_status warm_rig_place(struct warm_rig *rig,
                                 struct warm_ticket *ticket);

/* Waits until a pass has begun and ended. */
void warm_rig_await_pass(struct warm_rig *rig);

/*
 * Whoever comes by this step of the warmer or the store for the Nth time from
 * now on stands there until he is let go. Lets go who stands now.
 */
void warm_rig_stop(struct warm_rig *rig, const char *step,
                   enum warm_phase phase, unsigned n);
void warm_rig_await_stop(struct warm_rig *rig);
void warm_rig_let_go(struct warm_rig *rig);

/* Stops the warmer before its next pass, and waits until it stands there. */
void warm_rig_shut(struct warm_rig *rig);

/* The next N times this step of a command or of the store fails. */
void warm_rig_fail(struct warm_rig *rig, const char *step,
                   enum warm_phase phase, unsigned n);

/* Begins to count how often this step is begun; and how often it was. */
void warm_rig_count(struct warm_rig *rig, const char *step);
unsigned warm_rig_counted(struct warm_rig *rig);

/* "epoch units segments" of a key, "- - -" if there is none. */
#define WARM_RIG_KEY_BYTES 128
void warm_rig_key(const struct warm_rig *rig, int64_t product_id,
                  int64_t segment, char text[WARM_RIG_KEY_BYTES]);

/* Waits until the product's keys, and no others, say what the database says. */
void warm_rig_await_keys(struct warm_rig *rig, int64_t product_id);

/* Waits until CHECK is true after some pass; fails after 20 seconds. */
void warm_rig_until(struct warm_rig *rig,
                    bool (*check)(struct warm_rig *rig, int64_t product_id),
                    int64_t product_id, const char *what);

#endif

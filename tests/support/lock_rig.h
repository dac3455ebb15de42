/*
 * What every test of a lock needs: a server, a step log, clients, sessions, and
 * short words for taking and giving back. Failures to set up abort the test.
 */
#ifndef LOCK_RIG_H
#define LOCK_RIG_H

#include <netinet/in.h>
#include <stdatomic.h>

#include "tests/support/redis_server.h"
#include "tests/support/step_log.h"
#include "tests/support/temp_dir.h"
#include "tests/support/unit_test.h"

/*
 * A busy machine may stall a thread or a server for a second. So a command is given
 * up after LOCK_RIG_TIMEOUT_MS where that is tested, much later by default; a lease
 * that must not end has two thirds of LOCK_RIG_LEASE_MS to spare; and "at once" is
 * LOCK_RIG_PROMPT_MS, where the wrong way would be a wait of LOCK_RIG_LONG_MS.
 */
enum {
    LOCK_RIG_TIMEOUT_MS = 1500,
    LOCK_RIG_LEASE_MS = 2400,
    LOCK_RIG_PROMPT_MS = 20000,
    LOCK_RIG_LONG_MS = 60000,
};

/* One for the whole program; what is not its server's is new for each test. */
struct lock_rig {
    struct redis_server *server;
    struct temp_dir dir; /* where `mkdir` makes its directories ... */
    char dir_url[TEMP_DIR_BYTES_MAX + 8]; /* ... as "dir:PATH" */
    struct step_log log;
    const char *url;             /* of clients; NULL = the server's */
    unsigned watchdog_lease_ms;  /* 0 = the library's default */
    unsigned longest_lease_ms;   /* the same */
    unsigned command_timeout_ms; /* to connect as well */
    unsigned deadlock_ms;        /* of what a single takes */
    const struct dlock_clock *clock;
    const char *label;
    dlock_step_hook *on_step; /* in place of the log's */
    dlock_lost_hook *on_lost; /* also told of losses */
    void *hooks_ctx;          /* of both; it outlives the test */
    atomic_uint lost_n;  /* how often a client was told of the loss of "k" */
    atomic_int loss;     /* why, the last time */
    atomic_uint turns_n; /* of lock_waiter.h */
};

extern struct lock_rig rig;

/* The server is started once for all tests of the program, ... */
int lock_rig_setup(void **state);
int lock_rig_teardown(void **state);
#define LOCK_RIG_MAIN UNIT_TESTS_WITHIN(lock_rig_setup, lock_rig_teardown)

/* ... and is empty before each; clients of the last one are closed, the log is
 * fresh, options are the default ones. */
int lock_rig_fresh(void **state);
#define LOCK_TEST(test)                                                        \
    UNIT_TEST_WITH(NO_FIXTURE, test, lock_rig_fresh, NULL, NULL)

/* A client by these options, which is the caller's to close; one whose whole life is to
 * take "k" once, and to give it back, and which has LOCK_RIG_PROMPT_MS to connect unless
 * it says otherwise; one that has to get it; and one that does not, and is told TEXT. */
struct dlock *lock_rig_open(const struct dlock_options *options);
enum dlock_status lock_rig_try(const struct dlock_options *options,
                               struct dlock_error *error);
void lock_rig_works(const struct dlock_options *options);
enum dlock_status lock_rig_fails(const struct dlock_options *options,
                                 const char *text);

/* The url that STRATEGY takes: the server's, or that of the directory. */
const char *lock_rig_url(const char *strategy);

/* The server gets a port as well, once: where it listens. */
struct sockaddr_in lock_rig_at(void);

/* A client by the rig's options. It is closed before the next test, with its
 * sessions; or now. */
struct dlock *lock_rig_client(const char *strategy);
void lock_rig_close(struct dlock *client);
struct dlock_session *lock_rig_session(struct dlock *client);

/* A client with one session, and what it does with the lock "k". */
struct lock_single {
    struct dlock *client;
    struct dlock_session *session;
    struct dlock_grant grant; /* the last */
    struct dlock_error error; /* the last; "" = there was none */
};

struct lock_single lock_single_open(const char *strategy);
/* By such options of the rig. */
struct lock_single lock_single_open_by(const char *strategy, unsigned lease_ms,
                                       unsigned timeout_ms);
void lock_single_close(struct lock_single *single);
enum dlock_status lock_single_take(struct lock_single *single,
                                   unsigned wait_ms);
enum dlock_status lock_single_take_name(struct lock_single *single,
                                        const char *name, unsigned wait_ms);
enum dlock_status lock_single_give(struct lock_single *single);

/* Two clients with a session each, as in two processes. */
struct lock_pair {
    struct dlock *client[2];
    struct dlock_session *session[2];
    struct dlock_grant grant[2]; /* the last of each */
};

struct lock_pair lock_pair_open(const char *strategy);
/* The same, and the first has "k". */
struct lock_pair lock_pair_held(const char *strategy, unsigned lease_ms);
void lock_pair_close(struct lock_pair *pair);

/* One of them does this with the lock "k". */
enum dlock_status lock_pair_take(struct lock_pair *pair, int who,
                                 unsigned wait_ms, unsigned lease_ms);
enum dlock_status lock_pair_give(struct lock_pair *pair, int who);

/* What the server answers, a number; what it is told; and what would take a
 * sleep, by hand. */
#define lock_rig_ask(...)  redis_server_number(rig.server, __VA_ARGS__)
#define lock_rig_tell(...) redis_server_tell(rig.server, __VA_ARGS__)
void lock_rig_end_lease(void);
bool lock_rig_is_held(void);

/* Waits until the loss of "k" was told N times, and no more; why, the last time. */
enum dlock_loss lock_rig_await_lost(unsigned n);

/* Takes with WAIT_MS and LEASE_MS. */
enum dlock_status lock_rig_take(struct dlock_session *session, const char *name,
                                unsigned wait_ms, unsigned lease_ms,
                                struct dlock_grant *grant);

/* Makes GRANT pass for one of SESSION's: what the lock itself says is asked. */
void lock_rig_pass_off(const struct dlock_session *session,
                       struct dlock_grant *grant);

/* A session of its own tries once. DLOCK_OK is given back again. */
enum dlock_status lock_rig_probe(const char *strategy, const char *name);

/* The machine's clock, with dice that always give the longest pause. Longer
 * throws are owner ids, and differ. */
extern const struct dlock_clock lock_rig_long_pauses;

uint64_t lock_rig_now_ms(void);
void lock_rig_sleep_ms(unsigned ms);

/* Threads of this process that are called NAME. */
unsigned lock_rig_threads(const char *name);

#endif

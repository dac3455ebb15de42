/*
 * How one waits. W: woken by the release, not by asking again and again; H: and
 * not all at once, to come in vain but for one; F: in the order in which one came.
 */

#include "server/base/clock.h"
#include "server/lab/conform/cast.h"

enum {
    WAITING_MS = 600,    /* W: a poller asks hundreds of times in this */
    COMMANDS_MAX = 6,    /* W: to each server: tries, wake-up */
    HEARTBEAT_MS = 500,  /* W: and one in so long */
    PROMPT_MS = 250,     /* W: from the release to the next holder */
    HERD_N = 32,         /* H: waiters, each a process */
    HERD_WAITS_MS = 300, /* H: until all of them wait */
    TRIES_MAX = 4,       /* H: commands of all waiters, for each one let in */
    WAITERS_N = 16,      /* F */
    WAITERS_EACH = 4,    /* F: threads per process */
    OVERTAKINGS_N = 5,   /* F: tries, where no command shows who waits */
    IMPATIENT_MS = 50,   /* F: who gives up */
    DESERTED_MS = 5000,  /* F: until a dead waiter's place is given up */
};

/* Makes connection and scripts, so that the first command is the lock's. */
static void warm_up(struct cast *cast, unsigned who)
{
    const char *name = testbed_name("warm");

    if (cast_take(cast, who, name, 0, 0) == DLOCK_OK)
        (void)cast_give(cast, who, name);
}

/* An order that waits for as long as it takes. */
static struct deed_order patient(const struct testbed *testbed,
                                 deed_function *deed, const char *name)
{
    return cast_order(deed, name, testbed->long_ms / 2, testbed->long_ms);
}

/* W ------------------------------------------------------------------------ */

void conform_check_w(struct testbed *testbed)
{
    const char *name = testbed_name("w");
    struct deed_report given, got;
    unsigned servers_n = testbed->nodes_n > 0 ? testbed->nodes_n : 1;
    unsigned waiting_ms = WAITING_MS * testbed->slow;
    unsigned commands, delay_ms;
    struct cast cast;

    cast_open(&cast, testbed, 2, testbed->long_ms);
    cast_begin(&cast, name, testbed->long_ms);
    warm_up(&cast, CAST_NEXT);
    cast_trap(&cast, CAST_NEXT, DEED_PASS, DLOCK_BEFORE, 0);
    cast_tell(&cast, CAST_NEXT, patient(testbed, deed_take, name));
    /* This is what is measured: what a waiter does while nothing happens. */
    clock_sleep_ms(waiting_ms);
    given = cast_ask(&cast, CAST_HOLDER, cast_order(deed_give, name, 0, 0));
    got = cast_hear(&cast, CAST_NEXT);
    commands = cast_steps(&cast, CAST_NEXT);
    delay_ms = got.ended_us < given.began_us
                   ? 0
                   : (unsigned)((got.ended_us - given.began_us) / 1000);
    if (got.status != DLOCK_OK)
        testbed_fails(testbed, "it was given back, and the waiter was told: %s",
                      dlock_status_text(got.status));
    if (commands > (COMMANDS_MAX + waiting_ms / HEARTBEAT_MS) * servers_n)
        testbed_fails(testbed, "%u commands in a wait of %u ms", commands,
                      waiting_ms);
    if (delay_ms > PROMPT_MS * testbed->slow)
        testbed_fails(testbed, "in %u ms after the release", delay_ms);
    testbed_holds(testbed, "in %u ms after the release, by %u commands",
                  delay_ms, commands);
}

/* H ------------------------------------------------------------------------ */

/* Takes it, draws a number inside, and lets the next one in. */
static void deed_pass_on(struct deed_hand *hand, const struct deed_order *order,
                         struct deed_report *report)
{
    struct deed_report ignored;

    deed_take(hand, order, report);
    if (report->status != DLOCK_OK)
        return;
    report->number = atomic_fetch_add(&hand->testbed->race->turn, 1);
    deed_give(hand, order, &ignored);
}

/* All wait; the holder gives back; then it goes from one to the next. */
void conform_check_h(struct testbed *testbed)
{
    unsigned commands = 0,
             servers_n = testbed->nodes_n > 0 ? testbed->nodes_n : 1;
    const char *name = testbed_name("h");
    struct cast cast;

    if (!testbed_can(testbed, DLOCK_CAP_WAKE) || testbed->together)
        testbed_untested(testbed,
                         "no release wakes anybody in another process");
    cast_open(&cast, testbed, HERD_N + 1, testbed->long_ms);
    cast_begin(&cast, name, testbed->long_ms);
    for (unsigned i = 1; i <= HERD_N; i++) {
        warm_up(&cast, i);
        cast_tell(&cast, i, patient(testbed, deed_pass_on, name));
    }
    clock_sleep_ms(HERD_WAITS_MS * testbed->slow);
    for (unsigned i = 1; i <= HERD_N; i++)
        cast_trap(&cast, i, DEED_PASS, DLOCK_BEFORE, 0);
    (void)cast_give(&cast, CAST_HOLDER, name);
    for (unsigned i = 1; i <= HERD_N; i++) {
        if (cast_hear(&cast, i).status != DLOCK_OK)
            testbed_fails(testbed, "of %u waiters not all got it", HERD_N);
        commands += cast_steps(&cast, i);
    }
    if (commands > TRIES_MAX * HERD_N * servers_n)
        testbed_fails(testbed, "%u waiters: %u commands for each one let in",
                      HERD_N, commands / HERD_N);
    testbed_holds(testbed, "%u waiters: %u.%u commands for each one let in",
                  HERD_N, commands / HERD_N, commands * 10 / HERD_N % 10);
}

/* F ------------------------------------------------------------------------ */

/* Gives back and comes right again: who else waits should be first. */
static void deed_come_again(struct deed_hand *hand,
                            const struct deed_order *order,
                            struct deed_report *report)
{
    deed_give(hand, order, report);
    deed_pass_on(hand, order, report);
}

/* Lets a waiter pass its trap, if it is at it, and hears how it ended. */
static struct deed_report hear_end(struct cast *cast, unsigned who)
{
    struct deed_report report;

    cast_trap(cast, who, DEED_PASS, DLOCK_BEFORE, 0);
    for (;;) {
        report = cast_hear(cast, who);
        if (!report.at_step)
            return report;
        /* Only who waits takes a "go"; others would take it for an order. */
        if (report.waits)
            cast_tell(cast, who, (struct deed_order){.number = 0});
    }
}

/*
 * The last to come must not be first. NEXT has been told that it has to wait,
 * and is slow: it gets stuck before its next command. HOLDER gives back and
 * comes again at once. SHOWS: a waiter sends commands, so that one can tell.
 */
static void check_no_overtaking(struct cast *cast, const char *name, bool shows)
{
    struct testbed *testbed = cast->testbed;
    bool overtaken;

    cast_trap(cast, CAST_NEXT, DEED_TELL, DLOCK_AFTER, 0);
    cast_tell(cast, CAST_NEXT, patient(testbed, deed_pass_on, name));
    if (shows)
        (void)cast_hear(cast, CAST_NEXT); /* it has asked, and is too late */
    else
        clock_sleep_ms(20 * testbed->slow); /* no command to wait for */
    cast_trap(cast, CAST_NEXT, DEED_GATE, DLOCK_BEFORE, 0);
    overtaken = cast_ask(cast, CAST_HOLDER,
                         cast_order(deed_come_again, name, 0, testbed->long_ms))
                    .status == DLOCK_OK;
    if (hear_end(cast, CAST_NEXT).status != DLOCK_OK)
        testbed_fails(testbed, "the waiter never got it");
    if (overtaken)
        testbed_fails(testbed, "who came last was first: the holder gave back, "
                               "asked again, and overtook a waiter");
}

/* Sixteen come one after the other; in this order they have to be let in. */
static void check_order(struct cast *cast, const char *name)
{
    struct testbed *testbed = cast->testbed;
    unsigned first = cast->players_n;

    for (unsigned i = 0; i < WAITERS_N / WAITERS_EACH; i++)
        (void)cast_add(cast, WAITERS_EACH);
    for (unsigned i = first; i < cast->players_n; i++) {
        warm_up(cast, i);
        cast_trap(cast, i, DEED_TELL, DLOCK_AFTER, 0);
        cast_tell(cast, i, patient(testbed, deed_pass_on, name));
        (void)cast_hear(cast, i); /* it is in the queue, if there is one */
    }
    atomic_store(&testbed->race->turn, 0);
    (void)cast_give(cast, CAST_HOLDER, name);
    for (unsigned i = 0; i < WAITERS_N; i++) {
        struct deed_report report = cast_hear(cast, first + i);

        if (report.status != DLOCK_OK)
            testbed_fails(testbed, "waiter %u of %u never got it", i + 1,
                          WAITERS_N);
        if (report.number != i)
            testbed_fails(testbed, "waiter %u of %u came in as number %u",
                          i + 1, WAITERS_N, (unsigned)report.number + 1);
    }
}

/* One of a queue gives up, one dies: both must not be in anybody's way. */
static void check_deserters(struct testbed *testbed)
{
    const char *name = testbed_name("f-deserted");
    struct cast cast;

    /* The clients' own lease is short: it is what ends a session. */
    cast_open(&cast, testbed, 3, testbed->lease_ms);
    cast_begin(&cast, name, testbed->long_ms);
    (void)cast_take(&cast, CAST_THIRD, name, IMPATIENT_MS * testbed->slow, 0);
    (void)cast_give(&cast, CAST_HOLDER, name);
    if (!cast_is_free(&cast, CAST_NEXT, name))
        testbed_fails(testbed, "who gave up waiting is still in the queue");
    cast_begin(&cast, name, testbed->long_ms);
    warm_up(&cast, CAST_THIRD);
    cast_trap(&cast, CAST_THIRD, DEED_TELL, DLOCK_AFTER, 0);
    cast_tell(&cast, CAST_THIRD, patient(testbed, deed_take, name));
    (void)cast_hear(&cast, CAST_THIRD);
    cast_kill(&cast, CAST_THIRD);
    (void)cast_give(&cast, CAST_HOLDER, name);
    if (cast_take(&cast, CAST_NEXT, name, DESERTED_MS * testbed->slow,
                  testbed->long_ms) != DLOCK_OK)
        testbed_fails(testbed, "a waiter was killed: nobody behind it gets in");
}

void conform_check_f(struct testbed *testbed)
{
    const char *name;
    struct cast cast;
    unsigned tries;
    bool shows;

    cast_open(&cast, testbed, 2, testbed->long_ms);
    warm_up(&cast, CAST_NEXT);
    shows = cast_steps(&cast, CAST_NEXT) > 0;
    tries = shows ? 1 : OVERTAKINGS_N;
    for (unsigned i = 0; i < tries; i++) {
        name = testbed_name("f");
        cast_begin(&cast, name, testbed->long_ms);
        check_no_overtaking(&cast, name, shows);
    }
    if (!shows)
        testbed_untested(testbed,
                         "not overtaken in %u tries; no command shows who "
                         "came first",
                         tries);
    name = testbed_name("f-order");
    cast_begin(&cast, name, testbed->long_ms);
    check_order(&cast, name);
    check_deserters(testbed);
    testbed_holds(testbed,
                  "%u waiters in the order in which they came, nobody "
                  "overtaken, nor held up by the dead",
                  WAITERS_N);
}

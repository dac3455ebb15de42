/*
 * How one waits. W: woken by the release, not by asking again and again; H: and
 * not all at once, to come in vain but for one; F: in the order in which one came.
 */
#include "server/base/clock.h"
#include "server/lab/conform/check.h"

enum {
    WAITING_MS = 2000, /* W: a poller asks hundreds of times in this, or 20; */
    WAITING_AGED_MS = 600, /* with short leases */
    COMMANDS_MAX = 6,      /* W: to each server: tries, wake-up */
    HEARTBEAT_MS = 500,    /* W, H: and one in so long */
    PROMPT_MS = 250,       /* W: from the release to the next holder */
    HERD_N = 32,           /* H: waiters, each a process */
    HERD_WAITS_MS = 300,   /* H: until all of them wait */
    TRIES_MAX = 4,         /* H: commands of all waiters, for each one let in */
    WAITERS_N = 16,        /* F */
    WAITERS_EACH = 4,      /* F: threads per process */
    OVERTAKINGS_N = 5,     /* F: tries, where no command shows who waits */
    IMPATIENT_MS = 50,     /* F: who gives up */
    DESERTED_MS = 5000,    /* F: until a dead waiter's place is given up */
};

static unsigned count_servers(void)
{
    return testbed.nodes_n > 0 ? testbed.nodes_n : 1;
}

/* Makes connection and scripts, so that the first command is the lock's. */
static void warm_up(unsigned who)
{
    const char *name = cast_name();

    if (cast_take(who, name, 0, 0) == DLOCK_OK)
        (void)cast_give(who, name);
}

/* WHO, who is warm, waits for as long as it takes, with this trap. */
static void tell_to_wait(unsigned who, deed_function *deed, const char *name,
                         enum trap_spring spring)
{
    cast_trap(who, spring, DLOCK_AFTER, 0);
    cast_tell(who, deed, name, testbed.long_ms / 2, testbed.long_ms);
}

/* All from FIRST to LAST wait: each has asked once, or none SENDS anything. */
static void await_first(unsigned first, unsigned last, bool sends)
{
    /* A lock that sends nothing shows nobody waiting: there is no step to wait for. */
    for (unsigned who = first; who <= last; who++)
        while (sends && cast_steps(who) == 0)
            clock_sleep_ms(1);
}

/* W ------------------------------------------------------------------------ */

void conform_check_w(void)
{
    unsigned waiting_ms =
                 testbed.slow *
                 (testbed.expected->aged ? WAITING_AGED_MS : WAITING_MS),
             commands, delay_ms;
    struct deed_report given, got;
    const char *name;
    bool sends;

    cast_open(2, testbed.long_ms);
    name = cast_begin(testbed.long_ms);
    warm_up(NEXT);
    sends = cast_steps(NEXT) > 0;
    tell_to_wait(NEXT, deed_take, name, TRAP_PASS);
    await_first(NEXT, NEXT, sends);
    /* This is what is measured: what a waiter does while nothing happens. */
    clock_sleep_ms(waiting_ms);
    given = cast_ask(HOLDER, deed_give, name, 0, 0);
    got = cast_hear(NEXT);
    commands = cast_steps(NEXT);
    /* The clocks are one for all processes, but a waiter may have been woken before the
     * release had its answer. */
    delay_ms = got.ended_us < given.began_us
                   ? 0
                   : (unsigned)((got.ended_us - given.began_us) / 1000);
    must_in_time(got.status == DLOCK_OK,
                 "it was given back, and the waiter was told: %s",
                 dlock_status_text(got.status));
    waiting_ms = (unsigned)((got.ended_us - got.began_us) / 1000);
    /* A heartbeat is allowed in each half of a second: those are counted by the time
     * that it took. */
    must(commands <=
             (COMMANDS_MAX + waiting_ms / HEARTBEAT_MS) * count_servers(),
         "%u commands in a wait of %u ms", commands, waiting_ms);
    must_in_time(delay_ms <= PROMPT_MS * testbed.slow,
                 "in %u ms after the release", delay_ms);
    check_holds("in %u ms after the release, by %u commands", delay_ms,
                commands);
}

/* H ------------------------------------------------------------------------ */

/* Takes it, draws a number inside, and lets the next one in. */
static void deed_pass_on(struct player *player, const struct deed_order *order,
                         struct deed_report *report)
{
    struct deed_report ignored;

    deed_take(player, order, report);
    if (report->status != DLOCK_OK)
        return;
    report->number = (int)atomic_fetch_add(&testbed.race->turn, 1);
    deed_give(player, order, &ignored);
}

/* All wait; the holder gives back; then it goes from one to the next. Where that takes
 * long, those who wait for long may say that they are there. */
void conform_check_h(void)
{
    unsigned commands = 0, beats = 0;
    uint64_t given_us;
    bool sends = false;
    const char *name;

    if (!testbed_can(DLOCK_CAP_WAKE) || testbed.together)
        check_untested("no release wakes anybody in another process");
    cast_open(HERD_N + 1, testbed.long_ms);
    name = cast_begin(testbed.long_ms);
    /* A warm waiter sends its lock's commands alone. */
    for (unsigned i = 1; i <= HERD_N; i++) {
        warm_up(i);
        sends |= cast_steps(i) > 0;
        tell_to_wait(i, deed_pass_on, name, TRAP_PASS);
    }
    await_first(1, HERD_N, sends);
    clock_sleep_ms(HERD_WAITS_MS * testbed.slow);
    /* Counted from here: what a waiter sent to get in line does not count. */
    for (unsigned i = 1; i <= HERD_N; i++)
        cast_trap(i, TRAP_PASS, DLOCK_BEFORE, 0);
    given_us = clock_us();
    (void)cast_give(HOLDER, name);
    for (unsigned i = 1; i <= HERD_N; i++) {
        const struct deed_report report = cast_hear(i);

        must_in_time(report.status == DLOCK_OK, "of %u waiters not all got it",
                     HERD_N);
        commands += cast_steps(i);
        /* The longer one waited, the more heartbeats it may have sent. */
        beats += (unsigned)((report.ended_us - given_us) / 1000 / HEARTBEAT_MS);
    }
    /* A machine so busy that all are beats says nothing. */
    need(beats <= TRIES_MAX * HERD_N, "%u waiters took too long", HERD_N);
    must(commands <= (TRIES_MAX * HERD_N + beats) * count_servers(),
         "%u waiters: %u commands for each one let in", HERD_N,
         commands / HERD_N);
    check_holds("%u waiters: %u.%u commands for each one let in", HERD_N,
                commands / HERD_N, commands * 10 / HERD_N % 10);
}

/* F ------------------------------------------------------------------------ */

/* Gives back and comes right again: who else waits should be first. */
static void deed_come_again(struct player *player,
                            const struct deed_order *order,
                            struct deed_report *report)
{
    deed_give(player, order, report);
    deed_pass_on(player, order, report);
}

/* WHO stands at its gate, and goes on. */
static void open_gate(unsigned who)
{
    cast_tell(who, NULL, "", 0, 0);
}

/* WHO waits for NAME: with its first command it is in the queue, if there is one. */
static void queue(unsigned who, deed_function *deed, const char *name)
{
    warm_up(who);
    tell_to_wait(who, deed, name, TRAP_GATE);
    /* The gate says that its first command is done: so it stands in the queue before
     * the next one comes. */
    (void)cast_hear(who);
    cast_trap(who, TRAP_PASS, DLOCK_AFTER, 0);
    open_gate(who);
}

/*
 * The last to come must not be first. NEXT has been told that it has to wait,
 * and is slow: it gets stuck before its next command. HOLDER gives back and
 * comes again at once. SHOWS: a waiter sends commands, so that one can tell.
 */
static void check_no_overtaking(const char *name, bool shows)
{
    struct deed_report report;
    enum dlock_status again;

    tell_to_wait(NEXT, deed_pass_on, name, TRAP_GATE);
    if (shows)
        (void)cast_hear(NEXT); /* it has asked, and is too late */
    else
        clock_sleep_ms(20 * testbed.slow); /* no command to wait for */
    /* From now on each of its steps waits for the gate: it is slow by will. */
    cast_trap(NEXT, TRAP_GATE, DLOCK_BEFORE, 0);
    if (shows)
        open_gate(NEXT);
    again = cast_ask(HOLDER, deed_come_again, name, 0, testbed.long_ms).status;
    /* Silence is no proof that it was not let in. */
    need(!cast_is_silent(again), "%s", dlock_status_text(again));
    cast_trap(NEXT, TRAP_PASS, DLOCK_BEFORE, 0);
    /* It may send many commands: each of them comes to the gate, until its deed
     * is done. */
    while ((report = cast_hear(NEXT)).at_gate)
        open_gate(NEXT);
    must_in_time(report.status == DLOCK_OK, "the waiter never got it");
    must_in_time(again != DLOCK_OK,
                 "who came last was first: the holder gave back, asked "
                 "again, and overtook a waiter");
}

/* Sixteen come one after the other; in this order they have to be let in. */
static void check_order(const char *name)
{
    unsigned first = cast_add(WAITERS_EACH);

    for (unsigned i = 1; i < WAITERS_N / WAITERS_EACH; i++)
        (void)cast_add(WAITERS_EACH);
    for (unsigned i = 0; i < WAITERS_N; i++)
        queue(first + i, deed_pass_on, name);
    /* Numbers are drawn by those inside, from here on. */
    atomic_store(&testbed.race->turn, 0);
    (void)cast_give(HOLDER, name);
    for (unsigned i = 0; i < WAITERS_N; i++) {
        const struct deed_report report = cast_hear(first + i);

        must_in_time(report.status == DLOCK_OK, "waiter %u of %u never got it",
                     i + 1, WAITERS_N);
        must_in_time(report.number == (int)i,
                     "waiter %u of %u came in as number %d", i + 1, WAITERS_N,
                     report.number + 1);
    }
}

/* One of a queue gives up, one dies: both must not be in anybody's way. */
static void check_deserters(void)
{
    const char *name;

    /* The clients' own lease is short: it is what ends a session. */
    cast_open(3, testbed.lease_ms);
    name = cast_begin(testbed.long_ms);
    /* Its wait is over before the holder gives back: it has given up by itself. */
    (void)cast_take(THIRD, name, IMPATIENT_MS * testbed.slow, 0);
    (void)cast_give(HOLDER, name);
    must_in_time(cast_is_free(NEXT, name),
                 "who gave up waiting is still in the queue");
    name = cast_begin(testbed.long_ms);
    queue(THIRD, deed_take, name);
    /* A dead waiter cannot leave its queue: others must get past it. */
    cast_kill(THIRD);
    (void)cast_give(HOLDER, name);
    must_in_time(cast_take(NEXT, name, DESERTED_MS * testbed.slow,
                           testbed.long_ms) == DLOCK_OK,
                 "a waiter was killed: nobody behind it gets in");
}

void conform_check_f(void)
{
    unsigned tries;
    bool shows;

    cast_open(2, testbed.long_ms);
    warm_up(NEXT);
    shows = cast_steps(NEXT) > 0;
    tries = shows ? 1 : OVERTAKINGS_N;
    for (unsigned i = 0; i < tries; i++)
        check_no_overtaking(cast_begin(testbed.long_ms), shows);
    /* Without commands to go by there is no order that could be checked. */
    if (!shows)
        check_untested("not overtaken in %u tries; no command shows who came "
                       "first",
                       tries);
    check_order(cast_begin(testbed.long_ms));
    check_deserters();
    check_holds("%u waiters in the order in which they came, nobody overtaken, "
                "nor held up by the dead",
                WAITERS_N);
}

#include "server/lab/conform/cast.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/child.h"
#include "server/base/clock.h"

enum {
    BEGIN_MS = 5000,
    BEGINS_MAX = 10,
    TRY_PAUSE_MS = 25,
};

/* Coming on ---------------------------------------------------------------- */

unsigned cast_add(struct cast *cast, unsigned n)
{
    struct cast_player *players = &cast->players[cast->players_n];
    struct deed_trap *traps =
        mmap(NULL, n * sizeof(*traps), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid;
    int ends[DEED_HANDS_MAX];

    if (cast->players_n + n > CAST_PLAYERS_MAX || n > DEED_HANDS_MAX)
        testbed_broken(cast->testbed, "too many actors");
    if (traps == MAP_FAILED)
        testbed_broken(cast->testbed, "no memory for traps");
    for (unsigned i = 0; i < n; i++) {
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
            testbed_broken(cast->testbed, "no sockets");
        players[i] = (struct cast_player){.fd = pair[0], .trap = &traps[i]};
        ends[i] = pair[1];
    }
    pid = child_fork(SIGKILL);
    if (pid < 0)
        testbed_broken(cast->testbed, "no process");
    if (pid == 0) {
        /* The check's ends of all the sockets are not the actor's. */
        for (unsigned i = 0; i < cast->players_n + n; i++)
            (void)close(cast->players[i].fd);
        deed_act(cast->testbed, cast->watchdog_lease_ms, traps, ends, n);
    }
    for (unsigned i = 0; i < n; i++) {
        (void)close(ends[i]);
        players[i].pid = pid;
        cast_trap(cast, cast->players_n + i, DEED_PASS, DLOCK_BEFORE, 0);
    }
    cast->players_n += n;
    return cast->players_n - n;
}

void cast_open(struct cast *cast, struct testbed *testbed, unsigned n,
               unsigned watchdog_lease_ms)
{
    *cast = (struct cast){.testbed = testbed,
                          .watchdog_lease_ms = watchdog_lease_ms};
    if (testbed->together)
        (void)cast_add(cast, n);
    else
        for (unsigned i = 0; i < n; i++)
            (void)cast_add(cast, 1);
}

/* Orders and reports ------------------------------------------------------- */

struct deed_order cast_order(deed_function *deed, const char *name,
                             unsigned wait_ms, unsigned lease_ms)
{
    struct deed_order order = {
        .deed = deed, .wait_ms = wait_ms, .lease_ms = lease_ms};

    (void)snprintf(order.name, sizeof(order.name), "%.*s",
                   TESTBED_NAME_BYTES_MAX, name);
    return order;
}

void cast_tell(struct cast *cast, unsigned who, struct deed_order order)
{
    /* A player that could not come on has said why. */
    if (send(cast->players[who].fd, &order, sizeof(order), MSG_NOSIGNAL) < 0)
        (void)cast_hear(cast, who);
}

/* The evidence if the check's alarm ends the wait that begins here. */
static void note_wait(const struct cast *cast, unsigned who, const char *what)
{
    struct conform_result *result = cast->testbed->result;

    (void)snprintf(result->text, sizeof(result->text), "player %u does not %s",
                   who, what);
}

struct deed_report cast_hear(struct cast *cast, unsigned who)
{
    struct deed_report report;
    ssize_t n;

    note_wait(cast, who, "answer");
    do /* one that has died left what it said behind that error */
        n = recv(cast->players[who].fd, &report, sizeof(report), 0);
    while (n < 0 && errno == ECONNRESET);
    if (n != sizeof(report))
        testbed_broken(cast->testbed, "player %u has died", who);
    if (report.broken)
        testbed_broken(cast->testbed, "%s", report.text);
    return report;
}

struct deed_report cast_ask(struct cast *cast, unsigned who,
                            struct deed_order order)
{
    cast_tell(cast, who, order);
    return cast_hear(cast, who);
}

enum dlock_status cast_take(struct cast *cast, unsigned who, const char *name,
                            unsigned wait_ms, unsigned lease_ms)
{
    return cast_ask(cast, who, cast_order(deed_take, name, wait_ms, lease_ms))
        .status;
}

enum dlock_status cast_do(struct cast *cast, unsigned who, deed_function *deed,
                          const char *name)
{
    return cast_ask(cast, who, cast_order(deed, name, 0, 0)).status;
}

enum dlock_status cast_give(struct cast *cast, unsigned who, const char *name)
{
    return cast_do(cast, who, deed_give, name);
}

bool cast_is_silent(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE;
}

enum dlock_status cast_insist(struct cast *cast, unsigned who, const char *name,
                              unsigned wait_ms, unsigned lease_ms,
                              unsigned within_ms)
{
    uint64_t until_ms = clock_ms() + within_ms;
    enum dlock_status status;

    while (cast_is_silent(status =
                              cast_take(cast, who, name, wait_ms, lease_ms)) &&
           clock_ms() < until_ms)
        clock_sleep_ms(TRY_PAUSE_MS);
    return status;
}

bool cast_is_free(struct cast *cast, unsigned who, const char *name)
{
    if (cast_insist(cast, who, name, 0, cast->testbed->long_ms, BEGIN_MS) !=
        DLOCK_OK)
        return false;
    (void)cast_give(cast, who, name);
    return true;
}

bool cast_overtakes(struct cast *cast, const char *name)
{
    const struct testbed *testbed = cast->testbed;

    return cast_take(cast, CAST_NEXT, name,
                     testbed->lease_ms + testbed->margin_ms,
                     testbed->long_ms) == DLOCK_OK;
}

void cast_begin(struct cast *cast, const char *name, unsigned lease_ms)
{
    unsigned whole_ms = lease_ms ? lease_ms : cast->watchdog_lease_ms;

    for (unsigned begins = 0; begins < BEGINS_MAX; begins++) {
        uint64_t began_ms = clock_ms();
        const char *fault = NULL;
        /* A server that is slow to answer is no failure. */
        const struct deed_report first = cast_ask(
            cast, CAST_HOLDER, cast_order(deed_take, name, BEGIN_MS, lease_ms));

        if (first.status != DLOCK_OK)
            testbed_fails(cast->testbed, "nobody gets it: %s; %s",
                          dlock_status_text(first.status), first.text);
        if (cast_is_free(cast, CAST_NEXT, name))
            fault = "two hold it at once, without any fault";
        else if (cast_is_free(cast, CAST_NEXT, name))
            fault = "who tries and does not get it has freed it all the same";
        if (!fault)
            return;
        /* A lease that ended before we looked tells nothing of the lock. */
        if (clock_ms() < began_ms + whole_ms)
            testbed_fails(cast->testbed, "%s", fault);
        (void)cast_give(cast, CAST_HOLDER, name);
    }
    testbed_broken(cast->testbed, "a lease of %u ms ends before we can look",
                   whole_ms);
}

/* Traps -------------------------------------------------------------------- */

void cast_trap(struct cast *cast, unsigned who, enum deed_spring spring,
               enum dlock_phase phase, unsigned at)
{
    struct deed_trap *trap = cast->players[who].trap;

    /* Disarmed first: half a trap must not spring. */
    atomic_store(&trap->spring, DEED_PASS);
    atomic_store(&trap->phase, phase);
    atomic_store(&trap->at, at);
    atomic_store(&trap->steps_n[DLOCK_BEFORE], 0);
    atomic_store(&trap->steps_n[DLOCK_AFTER], 0);
    atomic_store(&trap->spring, spring);
}

unsigned cast_steps(const struct cast *cast, unsigned who)
{
    return atomic_load(&cast->players[who].trap->steps_n[DLOCK_AFTER]);
}

/* Ends and pauses ---------------------------------------------------------- */

static void await_child(struct cast *cast, unsigned who, bool dead)
{
    pid_t pid = cast->players[who].pid;
    int status = 0;

    note_wait(cast, who, dead ? "die" : "stop");
    while (waitpid(pid, &status, WUNTRACED) == pid &&
           WIFSTOPPED(status) == dead)
        continue;
    if (WIFSTOPPED(status) == dead || (WIFEXITED(status) && status != 0))
        testbed_broken(cast->testbed, "player %u went away", who);
}

/* Waits for the end of a process that dies, and counts it out. */
static void reap(struct cast *cast, unsigned who)
{
    pid_t pid = cast->players[who].pid;

    await_child(cast, who, true);
    for (unsigned i = 0; i < cast->players_n; i++)
        if (cast->players[i].pid == pid)
            cast->players[i].pid = 0;
}

/* Never to 0, which would be everybody. */
static void signal_to(const struct cast *cast, unsigned who, int number)
{
    if (cast->players[who].pid <= 0 ||
        kill(cast->players[who].pid, number) != 0)
        testbed_broken(cast->testbed, "player %u is dead already", who);
}

void cast_kill(struct cast *cast, unsigned who)
{
    signal_to(cast, who, SIGKILL);
    reap(cast, who);
}

void cast_stop(struct cast *cast, unsigned who)
{
    signal_to(cast, who, SIGSTOP);
    await_child(cast, who, false);
}

void cast_continue(struct cast *cast, unsigned who)
{
    signal_to(cast, who, SIGCONT);
}

/* Places --------------------------------------------------------------------- */

static unsigned note_steps(const struct cast *cast, unsigned who,
                           bool in_release, struct cast_place places[],
                           unsigned n)
{
    for (unsigned i = 0; i < cast_steps(cast, who) && n < CAST_PLACES_MAX;
         i++) {
        places[n] = (struct cast_place){
            .at = i, .in_release = in_release, .name = testbed_name("place")};
        (void)snprintf(places[n].step, sizeof(places[n].step), "%s",
                       i < DEED_STEPS_MAX ? cast->players[who].trap->names[i]
                                          : "?");
        n++;
    }
    return n;
}

unsigned cast_places(struct cast *cast, struct cast_place places[])
{
    const char *name = testbed_name("dry");
    unsigned n, who = cast_add(cast, 1);

    (void)cast_take(cast, who, name, 0, 0);
    n = note_steps(cast, who, false, places, 0);
    cast_trap(cast, who, DEED_PASS, DLOCK_BEFORE, 0);
    (void)cast_give(cast, who, name);
    n = note_steps(cast, who, true, places, n);
    cast_kill(cast, who);
    return n;
}

unsigned cast_halt(struct cast *cast, const struct cast_place *place,
                   enum deed_spring spring)
{
    unsigned who = cast_add(cast, 1);
    struct deed_report report;

    if (place->in_release)
        (void)cast_take(cast, who, place->name, 0, 0);
    cast_trap(cast, who, spring,
              spring == DEED_STOP ? DLOCK_BEFORE : DLOCK_AFTER, place->at);
    cast_tell(cast, who,
              cast_order(place->in_release ? deed_give : deed_take, place->name,
                         0, 0));
    if (spring == DEED_STOP) {
        await_child(cast, who, false);
        return who;
    }
    /* A dead one's socket is at its end. One that reports has done its deed, and the step
     * has not come this time (who asks several servers may do without the slowest). */
    note_wait(cast, who, "die");
    if (recv(cast->players[who].fd, &report, sizeof(report), 0) > 0)
        cast_kill(cast, who);
    else
        reap(cast, who);
    return who;
}

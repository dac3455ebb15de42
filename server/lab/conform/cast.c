/* See check.h. First the actors' side, then the check's. */
#include "server/lab/conform/check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/base/child.h"
#include "server/base/clock.h"

enum {
    BEGIN_MS = 5000,
    TRY_PAUSE_MS = 25,
};

struct trap {
    atomic_int spring;
    atomic_int phase;       /* of enum dlock_phase */
    atomic_uint at;         /* number of the step, from 0, since it was set */
    atomic_uint steps_n[2]; /* steps since it was set, by phase */
    atomic_uint others_n;   /* of the process, by threads of no player */
    char names[CAST_PLACES_MAX][CAST_STEP_BYTES_MAX + 1]; /* of the steps */
};

/* In the check's process: the cast. In an actor's: its own players, which it has put into
 * the place of the others. */
static struct player players[CAST_PLAYERS_MAX];
static unsigned players_n;
static unsigned watchdog_ms; /* the lease of actors to come */
/* An actor's: the player whose thread this is; NULL: the watchdog's, or the subscriber's. */
static _Thread_local struct player *self;

/* Deeds --------------------------------------------------------------------- */

void deed_take(struct player *player, const struct deed_order *order,
               struct deed_report *report)
{
    const struct dlock_terms terms = {.wait_ms = order->wait_ms,
                                      .lease_ms = order->lease_ms};
    struct dlock_grant grant;

    report->status = dlock_acquire(player->session, order->name, &terms, &grant,
                                   &report->error);
    if (report->status != DLOCK_OK)
        return;
    if (player->grants_n == CAST_GRANTS_MAX)
        player->grants_n = 0; /* who takes so many gives none back */
    player->grants[player->grants_n++] = grant;
}

void deed_give(struct player *player, const struct deed_order *order,
               struct deed_report *report)
{
    struct dlock_grant *grant = player->grants + player->grants_n, *end = grant;

    report->status = DLOCK_MISUSE;
    while (grant > player->grants)
        if (strcmp((--grant)->name, order->name) == 0) {
            report->status =
                dlock_release(player->session, grant, &report->error);
            if (cast_is_silent(report->status))
                return; /* the grant stays: it may be given back again */
            memmove(grant, grant + 1,
                    (size_t)(end - grant - 1) * sizeof(*grant));
            player->grants_n--;
            return;
        }
}

void deed_give_anyway(struct player *player, const struct deed_order *order,
                      struct deed_report *report)
{
    /* A grant that nobody gave: with the session's own name, and a deadline that
     * never comes. */
    struct dlock_grant grant = {.holds = 1, .deadline_ms = UINT64_MAX};

    (void)snprintf(grant.name, sizeof(grant.name), "%s", order->name);
    (void)snprintf(grant.owner, sizeof(grant.owner), "%s",
                   dlock_session_owner(player->session));
    report->status = dlock_release(player->session, &grant, &report->error);
}

void deed_look(struct player *player, const struct deed_order *order,
               struct deed_report *report)
{
    struct dlock_holder holder;

    report->status =
        dlock_inspect(player->session, order->name, &holder, &report->error);
}

void deed_abandon(struct player *player, const struct deed_order *order,
                  struct deed_report *report)
{
    (void)order;
    dlock_session_close(player->session);
    /* A new session in the place of the old one: the player may be asked to do more. */
    player->grants_n = 0;
    report->broken = dlock_session_open(player->client, &player->session,
                                        &report->error) != DLOCK_OK;
}

/* An actor's process --------------------------------------------------------- */

/* Nobody there any more: then there is nothing left to do either. */
static void send_report(const struct player *player,
                        const struct deed_report *report)
{
    /* The check has gone: an actor without one has nothing left to do. */
    if (send(player->fd, report, sizeof(*report), MSG_NOSIGNAL) < 0)
        _exit(0);
}

static void receive_order(const struct player *player, struct deed_order *order)
{
    if (recv(player->fd, order, sizeof(*order), 0) != sizeof(*order))
        _exit(0);
}

/* A subscription is of its connection: nobody can send it again. The parts of a script's
 * text are one word. */
static void record(struct testbed_tape *tape, const struct dlock_step *step)
{
    struct testbed_command *command;
    size_t used = 0;

    if (step->words_n == 0 || strstr(step->words[0], "SUBSCRIBE"))
        return;
    /* The place is taken by counting: actors are processes, and write at once. */
    command = &tape->commands[atomic_fetch_add(&tape->n, 1)];
    if (step->words_n > TESTBED_WORDS_MAX ||
        command >= tape->commands + TESTBED_COMMANDS_MAX)
        _exit(3);
    command->node = step->node;
    for (size_t i = 0; i < step->words_n; i++) {
        bool goes_on = i > 0 && i < step->parts_n;
        size_t len = strlen(step->words[i]) + !goes_on;

        if (used + len >= sizeof(command->words))
            _exit(3);
        memcpy(command->words + used, step->words[i], len);
        used += len;
        command->words_n += !goes_on;
    }
}

static enum dlock_verdict on_step(void *ctx, const struct dlock_step *step)
{
    const struct deed_report here = {.at_gate = true};
    struct deed_order go;
    struct trap *trap;
    unsigned n, at;

    (void)ctx;
    /* Steps of watchdogs count as well: the check has to know that none came
     * in between. */
    if (testbed.tape)
        atomic_fetch_add(&testbed.tape->steps_n[step->phase], 1);
    if (testbed.tape && step->phase == DLOCK_BEFORE)
        record(testbed.tape, step);
    if (!self) {
        /* A thread without a player is the client's own; the first player stands for
         * its process. */
        (void)atomic_fetch_add(&players[0].trap->others_n, 1);
        return DLOCK_GO;
    }
    trap = self->trap;
    /* A step counts before the trap is looked at: the trap's number is of those
     * before it. */
    n = atomic_fetch_add(&trap->steps_n[step->phase], 1);
    if (step->phase == DLOCK_BEFORE && n < CAST_PLACES_MAX)
        (void)snprintf(trap->names[n], sizeof(trap->names[n]), "%s",
                       step->name);
    at = atomic_load(&trap->at);
    /* A trap springs once, at its step; the mute one from there on. */
    if (step->phase != (enum dlock_phase)atomic_load(&trap->phase) || n < at ||
        (n > at && atomic_load(&trap->spring) != TRAP_MUTE))
        return DLOCK_GO;
    switch ((enum trap_spring)atomic_load(&trap->spring)) {
    case TRAP_PASS:
        break;
    case TRAP_DIE:
        /* Nobody catches these two: the process dies, or stops, between two
         * instructions of the step. */
        (void)raise(SIGKILL);
        break;
    case TRAP_STOP:
        (void)raise(SIGSTOP);
        break;
    case TRAP_GATE:
        send_report(self, &here);
        /* The order that opens the gate has no deed. */
        receive_order(self, &go);
        break;
    case TRAP_FAIL:
    case TRAP_MUTE:
        /* The library takes it as a command that was not sent, or as a reply that was
         * lost, by the phase. */
        return DLOCK_FAIL;
    }
    return DLOCK_GO;
}

static void *play(void *arg)
{
    struct player *player = arg;
    struct deed_order order;

    /* SELF is set before any deed: the hook tells players from watchdogs by it. */
    self = player;
    for (;;) {
        struct deed_report report = {.status = DLOCK_OK};

        receive_order(player, &order);
        report.began_us = clock_us();
        order.deed(player, &order, &report);
        report.ended_us = clock_us();
        send_report(player, &report);
    }
    return NULL;
}

/* The whole life of an actor's process, which has the first N players. */
static _Noreturn void act(unsigned n)
{
    const struct dlock_options options = {
        .strategy = testbed.expected->lock,
        .url = testbed.url[0] ? testbed.url : NULL,
        .connect_timeout_ms = 500 * testbed.slow,
        .command_timeout_ms = 1000 * testbed.slow,
        .watchdog_lease_ms = watchdog_ms,
        .longest_lease_ms = testbed.expected->aged ? testbed.long_ms : 0,
        .on_step = on_step,
    };
    struct deed_report report = {.broken = true};
    struct dlock *client = NULL;
    pthread_t thread;
    bool good = dlock_open(&options, &client, &report.error) == DLOCK_OK;

    /* The players before are the check's: this process has its own from 0 on. */
    players_n = n;
    for (unsigned i = 0; i < n && good; i++) {
        players[i].client = client;
        good = dlock_session_open(client, &players[i].session, &report.error) ==
               DLOCK_OK;
    }
    /* An actor that cannot come on says why to whoever asks. */
    for (unsigned i = 0; i < n && !good; i++)
        (void)send(players[i].fd, &report, sizeof(report), MSG_NOSIGNAL);
    for (unsigned i = 0; i < n && good; i++)
        good = pthread_create(&thread, NULL, play, &players[i]) == 0;
    if (!good)
        _exit(3);
    /* The first thread has nothing to do, and must not end: the process would. */
    for (;;)
        (void)pause();
}

/* Coming on ---------------------------------------------------------------- */

unsigned cast_add(unsigned n)
{
    /* The traps are shared before the fork: both sides look at the same memory. */
    struct player *added = &players[players_n];
    struct trap *traps = mmap(NULL, n * sizeof(*traps), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[CAST_PLAYERS_MAX];
    pid_t pid;

    need(players_n + n <= CAST_PLAYERS_MAX, "too many actors");
    need(traps != MAP_FAILED, "no memory for traps");
    for (unsigned i = 0; i < n; i++) {
        int pair[2];

        /* A packet is an order or a report, whole: no part of one is ever read. */
        need(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0,
             "no sockets");
        added[i] = (struct player){.fd = pair[0], .trap = &traps[i]};
        ends[i] = pair[1];
    }
    /* An actor must die with its check: the check may be killed by its alarm. */
    pid = child_fork(SIGKILL);
    need(pid >= 0, "no process");
    if (pid == 0) {
        /* The check's ends of all the sockets are not the actor's. */
        for (unsigned i = 0; i < players_n + n; i++)
            (void)close(players[i].fd);
        for (unsigned i = 0; i < n; i++)
            players[i] = (struct player){.fd = ends[i], .trap = &traps[i]};
        act(n);
    }
    for (unsigned i = 0; i < n; i++) {
        /* Only the actor may have this end: else its death would not be the socket's. */
        (void)close(ends[i]);
        added[i].pid = pid;
    }
    players_n += n;
    return players_n - n;
}

void cast_open(unsigned n, unsigned watchdog_lease_ms)
{
    /* The players before live on until the check ends; nobody asks them any more. */
    players_n = 0;
    watchdog_ms = watchdog_lease_ms;
    if (testbed.together)
        (void)cast_add(n);
    else
        while (players_n < n)
            (void)cast_add(1);
}

const char *cast_name(void)
{
    static unsigned n; /* each check is a process of its own: hence the pid */
    char *name;

    if (asprintf(&name, "lab:%d:%u", (int)getpid(), n++) < 0)
        abort();
    return name;
}

/* Orders and reports ------------------------------------------------------- */

void cast_tell(unsigned who, deed_function *deed, const char *name,
               unsigned wait_ms, unsigned lease_ms)
{
    struct deed_order order = {
        .deed = deed, .wait_ms = wait_ms, .lease_ms = lease_ms};

    /* A name is a copy: the actor has it in its own process. */
    (void)snprintf(order.name, sizeof(order.name), "%s", name);
    /* A player that could not come on has said why. */
    if (send(players[who].fd, &order, sizeof(order), MSG_NOSIGNAL) < 0)
        (void)cast_hear(who);
}

/* The evidence if the check's alarm ends the wait that begins here. */
static void note_wait(unsigned who, const char *what)
{
    (void)snprintf(testbed.result->text, sizeof(testbed.result->text),
                   "player %u does not %s", who, what);
}

struct deed_report cast_hear(unsigned who)
{
    struct deed_report report;
    ssize_t n;

    note_wait(who, "answer");
    do /* one that has died left what it said behind that error */
        n = recv(players[who].fd, &report, sizeof(report), 0);
    /* A report that was sent before its actor died is still there to be read. */
    while (n < 0 && errno == ECONNRESET);
    /* A death that no check has asked for is no property of the lock. */
    need(n == sizeof(report), "player %u has died", who);
    need(!report.broken, "%s", report.error.text);
    return report;
}

struct deed_report cast_ask(unsigned who, deed_function *deed, const char *name,
                            unsigned wait_ms, unsigned lease_ms)
{
    cast_tell(who, deed, name, wait_ms, lease_ms);
    return cast_hear(who);
}

enum dlock_status cast_take(unsigned who, const char *name, unsigned wait_ms,
                            unsigned lease_ms)
{
    return cast_ask(who, deed_take, name, wait_ms, lease_ms).status;
}

enum dlock_status cast_give(unsigned who, const char *name)
{
    return cast_ask(who, deed_give, name, 0, 0).status;
}

bool cast_is_silent(enum dlock_status status)
{
    return status == DLOCK_UNKNOWN || status == DLOCK_UNREACHABLE;
}

enum dlock_status cast_insist(unsigned who, const char *name, unsigned wait_ms,
                              unsigned lease_ms, unsigned within_ms)
{
    uint64_t until_ms = clock_ms() + within_ms;
    enum dlock_status status = cast_take(who, name, wait_ms, lease_ms);

    while (cast_is_silent(status) && clock_ms() < until_ms) {
        clock_sleep_ms(TRY_PAUSE_MS);
        status = cast_take(who, name, wait_ms, lease_ms);
    }
    return status;
}

bool cast_is_free(unsigned who, const char *name)
{
    enum dlock_status status =
        cast_insist(who, name, 0, testbed.long_ms, BEGIN_MS * testbed.slow);

    /* Silence would be taken for a no, and the lock for held. */
    need(!cast_is_silent(status), "is it free? %s", dlock_status_text(status));
    if (status == DLOCK_OK)
        (void)cast_give(who, name);
    return status == DLOCK_OK;
}

bool cast_overtakes(const char *name)
{
    enum dlock_status status = cast_take(
        NEXT, name, testbed.lease_ms + testbed.margin_ms, testbed.long_ms);

    need(!cast_is_silent(status), "is it free now? %s",
         dlock_status_text(status));
    return status == DLOCK_OK;
}

const char *cast_begin(unsigned lease_ms)
{
    const char *name = cast_name();
    /* A lease of 0 is the client's own. */
    unsigned whole_ms = lease_ms ? lease_ms : watchdog_ms;

    for (unsigned begins = 0; begins < BEGINS_MAX; begins++) {
        uint64_t began_ms = clock_ms();
        /* A server that is slow to answer is no failure. */
        const struct deed_report first = cast_ask(
            HOLDER, deed_take, name, BEGIN_MS * testbed.slow, lease_ms);
        bool is_shared, is_freed;

        must_in_time(first.status == DLOCK_OK, "nobody gets it: %s; %s",
                     dlock_status_text(first.status), first.error.text);
        /* The first look may have taken the lock from its holder, if this is none:
         * hence the second one. */
        is_shared = cast_is_free(NEXT, name);
        is_freed = !is_shared && cast_is_free(NEXT, name);
        if (!is_shared && !is_freed)
            return name;
        /* A lease that ended before we looked tells nothing of the lock. */
        must(clock_ms() >= began_ms + whole_ms, "%s",
             is_shared ? "two hold it at once, without any fault"
                       : "who tries and does not get it has freed it all the "
                         "same");
        (void)cast_give(HOLDER, name);
    }
    check_broken("a lease of %u ms ends before we can look", whole_ms);
}

/* Traps, ends and pauses ----------------------------------------------------- */

void cast_trap(unsigned who, enum trap_spring spring, enum dlock_phase phase,
               unsigned at)
{
    struct trap *trap = players[who].trap;

    /* Disarmed first: half a trap must not spring. */
    atomic_store(&trap->spring, TRAP_PASS);
    atomic_store(&trap->phase, phase);
    atomic_store(&trap->at, at);
    atomic_store(&trap->steps_n[DLOCK_BEFORE], 0);
    atomic_store(&trap->steps_n[DLOCK_AFTER], 0);
    atomic_store(&trap->spring, spring);
}

unsigned cast_steps(unsigned who)
{
    return atomic_load(&players[who].trap->steps_n[DLOCK_AFTER]);
}

unsigned cast_others(unsigned who)
{
    return atomic_load(&players[who].trap->others_n);
}

/* Waits until the player's process is dead, or stopped. */
static void await(unsigned who, bool dead)
{
    pid_t pid = players[who].pid;
    int status = 0;

    note_wait(who, dead ? "die" : "stop");
    /* A stop that was to be a death is waited through, and the other way round. */
    while (waitpid(pid, &status, WUNTRACED) == pid &&
           WIFSTOPPED(status) == dead)
        continue;
    /* An actor that has ended by itself has found its check gone, or failed. */
    need(WIFSTOPPED(status) != dead &&
             (!WIFEXITED(status) || WEXITSTATUS(status) == 0),
         "player %u went away", who);
    for (unsigned i = 0; i < players_n && dead; i++)
        if (players[i].pid == pid)
            players[i].pid = 0;
}

/* Never to 0, which would be everybody. */
static void send_signal(unsigned who, int number)
{
    need(players[who].pid > 0 && kill(players[who].pid, number) == 0,
         "player %u is dead already", who);
}

void cast_kill(unsigned who)
{
    send_signal(who, SIGKILL);
    await(who, true);
}

void cast_stop(unsigned who)
{
    send_signal(who, SIGSTOP);
    await(who, false);
}

void cast_continue(unsigned who)
{
    send_signal(who, SIGCONT);
}

/* Places --------------------------------------------------------------------- */

unsigned cast_places(struct cast_place places[CAST_PLACES_MAX])
{
    /* A holder of its own: its commands are counted as those of one that was
     * never disturbed. */
    const char *name = cast_name();
    unsigned n = 0, who = cast_add(1);

    for (int in_release = 0; in_release < 2; in_release++) {
        cast_trap(who, TRAP_PASS, DLOCK_BEFORE, 0);
        if (in_release)
            (void)cast_give(who, name);
        else
            need(cast_take(who, name, 0, 0) == DLOCK_OK,
                 "a new name is not free");
        /* More commands than places would be cut off, and the check would say that it
         * had killed at each. */
        need(n + cast_steps(who) <= CAST_PLACES_MAX, "too many commands");
        for (unsigned i = 0; i < cast_steps(who); i++) {
            /* A place has a lock of its own: all their leases run at the same time. */
            places[n] = (struct cast_place){
                .at = i, .in_release = in_release, .name = cast_name()};
            memcpy(places[n++].step, players[who].trap->names[i],
                   sizeof(places->step));
        }
    }
    cast_kill(who);
    return n;
}

unsigned cast_halt(const struct cast_place *place, enum trap_spring spring)
{
    unsigned who = cast_add(1);
    struct deed_report report;

    if (place->in_release)
        need(cast_take(who, place->name, 0, 0) == DLOCK_OK,
             "a new name is not free");
    /* It stops before a command is sent, and dies when it was done: these are the two
     * that differ. */
    cast_trap(who, spring, spring == TRAP_STOP ? DLOCK_BEFORE : DLOCK_AFTER,
              place->at);
    cast_tell(who, place->in_release ? deed_give : deed_take, place->name, 0,
              0);
    if (spring == TRAP_STOP) {
        await(who, false);
        return who;
    }
    /* A dead one's socket is at its end. One that reports has done its deed, and the step
     * has not come this time (who asks several servers may do without the slowest). */
    note_wait(who, "die");
    if (recv(players[who].fd, &report, sizeof(report), 0) > 0)
        cast_kill(who);
    else
        await(who, true);
    return who;
}

#include "server/lab/conform/deed.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/clock.h"

/* The actor: one per process, so it may stand alone in the file. */
static struct {
    struct deed_hand hands[DEED_HANDS_MAX];
    unsigned hands_n;
    pthread_mutex_t mutex; /* guards who is whose: see deed_abandon() */
} actor = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void send_report(const struct deed_hand *hand,
                        const struct deed_report *report)
{
    /* Nobody there any more: then there is nothing left to do either. */
    if (send(hand->fd, report, sizeof(*report), MSG_NOSIGNAL) < 0)
        _exit(0);
}

static void receive_order(const struct deed_hand *hand,
                          struct deed_order *order)
{
    if (recv(hand->fd, order, sizeof(*order), 0) != sizeof(*order))
        _exit(0);
}

/* The hook ----------------------------------------------------------------- */

/* The actor whose step it is; NULL: the watchdog's or the subscriber's. */
static struct deed_hand *hand_of(const char *owner)
{
    struct deed_hand *found = NULL;

    (void)pthread_mutex_lock(&actor.mutex);
    for (unsigned i = 0; i < actor.hands_n && !found; i++)
        if (actor.hands[i].session &&
            strcmp(dlock_session_owner(actor.hands[i].session), owner) == 0)
            found = &actor.hands[i];
    (void)pthread_mutex_unlock(&actor.mutex);
    return found;
}

static void tell(const struct deed_hand *hand, const struct dlock_step *step,
                 bool waits)
{
    struct deed_report report = {
        .at_step = true, .waits = waits, .ended_us = clock_us()};

    (void)snprintf(report.text, sizeof(report.text), "%s", step->name);
    send_report(hand, &report);
}

static enum dlock_verdict spring(const struct deed_hand *hand,
                                 const struct dlock_step *step)
{
    struct deed_order go;

    switch ((enum deed_spring)atomic_load(&hand->trap->spring)) {
    case DEED_PASS:
        break;
    case DEED_DIE:
        (void)raise(SIGKILL);
        break;
    case DEED_STOP:
        (void)raise(SIGSTOP);
        break;
    case DEED_TELL:
        tell(hand, step, false);
        break;
    case DEED_GATE:
        tell(hand, step, true);
        receive_order(hand, &go);
        break;
    case DEED_FAIL:
    case DEED_MUTE:
        return DLOCK_FAIL;
    }
    return DLOCK_GO;
}

/* A subscription is of its connection: nobody can send it again. The parts of a script's
 * text are one word. */
static void record(struct deed_tape *tape, const struct dlock_step *step)
{
    struct deed_command *command;
    size_t used = 0;

    if (step->words_n == 0 || strstr(step->words[0], "SUBSCRIBE"))
        return;
    command = &tape->commands[atomic_fetch_add(&tape->n, 1)];
    if (step->words_n > DEED_WORDS_MAX ||
        command >= tape->commands + DEED_COMMANDS_MAX)
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
    struct deed_tape *tape = ((const struct testbed *)ctx)->tape;
    struct deed_hand *hand = hand_of(step->owner);
    struct deed_trap *trap;
    unsigned n;

    if (tape)
        atomic_fetch_add(
            step->phase == DLOCK_BEFORE ? &tape->begun_n : &tape->ended_n, 1);
    if (tape && step->phase == DLOCK_BEFORE)
        record(tape, step);
    if (!hand)
        return DLOCK_GO;
    trap = hand->trap;
    n = atomic_fetch_add(&trap->steps_n[step->phase], 1);
    if (step->phase == DLOCK_BEFORE && n < DEED_STEPS_MAX)
        (void)snprintf(trap->names[n], sizeof(trap->names[n]), "%s",
                       step->name);
    if (step->phase == (enum dlock_phase)atomic_load(&trap->phase) &&
        (n == atomic_load(&trap->at) ||
         (n > atomic_load(&trap->at) &&
          atomic_load(&trap->spring) == DEED_MUTE)))
        return spring(hand, step);
    return DLOCK_GO;
}

/* The hands ---------------------------------------------------------------- */

static void *hand_work(void *arg)
{
    struct deed_hand *hand = arg;
    struct deed_order order;

    for (;;) {
        struct deed_report report = {.status = DLOCK_OK};

        receive_order(hand, &order);
        report.began_us = clock_us();
        order.deed(hand, &order, &report);
        report.ended_us = clock_us();
        send_report(hand, &report);
    }
    return NULL;
}

/* An actor that cannot come on says why to whoever asks, and goes. */
static _Noreturn void give_up(const int fds[], unsigned hands_n,
                              const struct dlock_error *error)
{
    struct deed_report report = {.broken = true};

    (void)snprintf(report.text, sizeof(report.text), "%.119s", error->text);
    for (unsigned i = 0; i < hands_n; i++)
        (void)send(fds[i], &report, sizeof(report), MSG_NOSIGNAL);
    _exit(3);
}

void deed_act(struct testbed *testbed, unsigned watchdog_lease_ms,
              struct deed_trap traps[], const int fds[], unsigned hands_n)
{
    const struct dlock_options options = {
        .strategy = testbed->expected->lock,
        .url = testbed->url[0] ? testbed->url : NULL,
        .connect_timeout_ms = 500 * testbed->slow,
        .command_timeout_ms = 1000 * testbed->slow,
        .watchdog_lease_ms = watchdog_lease_ms,
        .longest_lease_ms = testbed->expected->aged ? testbed->long_ms : 0,
        .on_step = on_step,
        .on_step_ctx = testbed,
    };
    pthread_t threads[DEED_HANDS_MAX];
    struct dlock_error error = {""};
    struct dlock *client = NULL;

    if (dlock_open(&options, &client, &error) != DLOCK_OK)
        give_up(fds, hands_n, &error);
    actor.hands_n = hands_n;
    for (unsigned i = 0; i < hands_n; i++) {
        struct deed_hand *hand = &actor.hands[i];

        *hand = (struct deed_hand){.testbed = testbed,
                                   .client = client,
                                   .trap = &traps[i],
                                   .fd = fds[i]};
        if (dlock_session_open(client, &hand->session, &error) != DLOCK_OK)
            give_up(fds, hands_n, &error);
    }
    for (unsigned i = 0; i < hands_n; i++)
        if (pthread_create(&threads[i], NULL, hand_work, &actor.hands[i]) != 0)
            _exit(3);
    for (unsigned i = 0; i < hands_n; i++)
        (void)pthread_join(threads[i], NULL);
    _exit(0);
}

/* The deeds that everybody needs ------------------------------------------- */

static void fill_status(struct deed_report *report, enum dlock_status status,
                        const struct dlock_error *error)
{
    report->status = status;
    (void)snprintf(report->text, sizeof(report->text), "%.119s", error->text);
}

void deed_take(struct deed_hand *hand, const struct deed_order *order,
               struct deed_report *report)
{
    const struct dlock_terms terms = {.wait_ms = order->wait_ms,
                                      .lease_ms = order->lease_ms};
    struct dlock_error error = {""};
    struct dlock_grant grant;

    fill_status(
        report,
        dlock_acquire(hand->session, order->name, &terms, &grant, &error),
        &error);
    if (report->status != DLOCK_OK)
        return;
    if (hand->grants_n == DEED_GRANTS_MAX)
        hand->grants_n = 0; /* checks do not get so far */
    hand->grants[hand->grants_n++] = grant;
}

void deed_give(struct deed_hand *hand, const struct deed_order *order,
               struct deed_report *report)
{
    struct dlock_error error = {""};
    unsigned i = hand->grants_n;

    while (i > 0 && strcmp(hand->grants[i - 1].name, order->name) != 0)
        i--;
    if (i == 0) {
        report->status = DLOCK_MISUSE;
        return;
    }
    fill_status(report,
                dlock_release(hand->session, &hand->grants[i - 1], &error),
                &error);
    hand->grants_n--;
    memmove(&hand->grants[i - 1], &hand->grants[i],
            (hand->grants_n - (i - 1)) * sizeof(hand->grants[0]));
}

void deed_give_anyway(struct deed_hand *hand, const struct deed_order *order,
                      struct deed_report *report)
{
    struct dlock_grant grant = {.holds = 1, .deadline_ms = UINT64_MAX};
    struct dlock_error error = {""};

    (void)snprintf(grant.name, sizeof(grant.name), "%s", order->name);
    (void)snprintf(grant.owner, sizeof(grant.owner), "%s",
                   dlock_session_owner(hand->session));
    fill_status(report, dlock_release(hand->session, &grant, &error), &error);
}

void deed_abandon(struct deed_hand *hand, const struct deed_order *order,
                  struct deed_report *report)
{
    struct dlock_session *session = hand->session;
    struct dlock_error error = {""};

    (void)order;
    (void)pthread_mutex_lock(&actor.mutex);
    hand->session = NULL;
    (void)pthread_mutex_unlock(&actor.mutex);
    dlock_session_close(session);
    hand->grants_n = 0;
    (void)pthread_mutex_lock(&actor.mutex);
    report->broken =
        dlock_session_open(hand->client, &hand->session, &error) != DLOCK_OK;
    (void)pthread_mutex_unlock(&actor.mutex);
    fill_status(report, DLOCK_OK, &error);
}

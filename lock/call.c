/*
 * Calls: the step hook, deadlines, scripts by their hash, and the re-sending of
 * commands that may be sent twice.
 *
 * Scripts go by EVALSHA. The hash comes from the server (SCRIPT LOAD, once per
 * wire and script); a server that has forgotten the script says NOSCRIPT, which
 * means that nothing was done, and gets the text by EVAL within the same step.
 *
 * Why a lost reply is not simply an error: the command may have been carried
 * out. Strategies whose scripts recognise a repetition mark their commands
 * repeatable, and get an answer where others only get "don't know".
 */
#include "lock/call.h"

#include <string.h>

#include "lock/clock.h"
#include "lock/error.h"

enum {
    SENDS_MAX = 3, /* of one repeatable command */
    LEFT_MS_MAX = 2 * DLOCK_WAIT_MS_MAX,
};

static const char no_time_text[] = "no time left";

/* The seam: every command of the library comes by here twice. */
static enum dlock_verdict tell(const struct dlock_wire *wire,
                               const struct dlock_command *command,
                               enum dlock_phase phase, const char *reply)
{
    const struct dlock_wire_config *config = dlock_wire_config(wire);
    struct dlock_step step = {.name = command->step,
                              .owner = dlock_wire_owner(wire),
                              .key = command->name,
                              .phase = phase,
                              .reply = reply,
                              .node = config->node};

    if (config->on_step == NULL)
        return DLOCK_GO;
    return config->on_step(config->on_step_ctx, &step);
}

/* Lease time left until LIMIT_MS, as a span; long ones are cut. */
static uint64_t time_left(const struct dlock_wire *wire, uint64_t limit_ms)
{
    uint64_t left = dlock_clock_until(dlock_wire_config(wire)->clock, limit_ms);

    return left < LEFT_MS_MAX ? left : LEFT_MS_MAX;
}

/* The real time at which something of at most MS has to end. */
static uint64_t real_until(unsigned ms, uint64_t real_limit_ms)
{
    uint64_t until = dlock_clock_real_now() + ms;

    return until < real_limit_ms ? until : real_limit_ms;
}

/* Connects if need be, in the connect timeout or what is left of the limit. */
static enum dlock_status connect_wire(struct dlock_wire *wire,
                                      uint64_t real_limit_ms,
                                      struct dlock_error *error)
{
    unsigned timeout = dlock_wire_config(wire)->connect_timeout_ms;

    return dlock_wire_ready(wire, real_until(timeout, real_limit_ms), error);
}

/* The end of one command's time: its own timeout, or the caller's limit. */
static uint64_t command_until(const struct dlock_wire *wire,
                              uint64_t real_limit_ms)
{
    return real_until(dlock_wire_config(wire)->command_timeout_ms,
                      real_limit_ms);
}

static bool is_error(const struct dlock_reply *reply, const char *code)
{
    return reply->kind == DLOCK_REPLY_ERROR &&
           strncmp(reply->string, code, strlen(code)) == 0;
}

bool dlock_call_forgotten(const struct dlock_reply *reply)
{
    return is_error(reply, "NOSCRIPT");
}

/*
 * An error is the server's refusal, so nothing is held for it. READONLY and
 * LOADING come from a server that is not, or not yet, the one to talk to: look
 * for it anew the next time.
 */
static enum dlock_status judge(struct dlock_wire *wire,
                               const struct dlock_reply *reply,
                               struct dlock_error *error)
{
    if (reply->kind != DLOCK_REPLY_ERROR)
        return DLOCK_OK;
    if (is_error(reply, "READONLY") || is_error(reply, "LOADING"))
        dlock_wire_drop(wire);
    return dlock_error_set(error, DLOCK_UNREACHABLE, "redis refused: %s",
                           reply->string);
}

/* If the server has forgotten the script, sends its text instead. */
static enum dlock_status or_by_text(struct dlock_wire *wire,
                                    const struct dlock_command *command,
                                    uint64_t until_ms,
                                    struct dlock_reply *reply,
                                    struct dlock_error *error)
{
    enum dlock_status status;

    if (!dlock_call_forgotten(reply))
        return DLOCK_OK;
    status = dlock_wire_send(wire, command, DLOCK_BY_TEXT, until_ms, error);
    if (status != DLOCK_OK)
        return status;
    return dlock_wire_read(wire, until_ms, reply, error);
}

/* The second half of a step: the hook, which may lose the reply, and verdict. */
enum dlock_status dlock_call_conclude(struct dlock_wire *wire,
                                      const struct dlock_command *command,
                                      enum dlock_status status,
                                      const struct dlock_reply *reply,
                                      struct dlock_error *error)
{
    if (status != DLOCK_OK) {
        (void)tell(wire, command, DLOCK_AFTER,
                   status == DLOCK_UNKNOWN ? "(no reply)" : "(unreachable)");
        return status;
    }
    if (tell(wire, command, DLOCK_AFTER, reply->text) == DLOCK_FAIL) {
        dlock_wire_drop(wire);
        return dlock_error_set(error, DLOCK_UNKNOWN, "reply lost at step '%s'",
                               command->step);
    }
    return judge(wire, reply, error);
}

/* The first half: the hook, which may keep it back. */
enum dlock_status dlock_call_begin(const struct dlock_wire *wire,
                                   const struct dlock_command *command,
                                   struct dlock_error *error)
{
    if (tell(wire, command, DLOCK_BEFORE, NULL) == DLOCK_FAIL)
        return dlock_error_set(error, DLOCK_UNREACHABLE,
                               "kept back at step '%s'", command->step);
    return DLOCK_OK;
}

/*
 * One command, sent once. The time that is left is read before the hook is
 * called and counts from its return: a failpoint that pauses here stands for a
 * process that was stopped, and after a stop the command does go out.
 */
static enum dlock_status step_once(struct dlock_wire *wire,
                                   const struct dlock_command *command,
                                   uint64_t limit_ms, struct dlock_reply *reply,
                                   struct dlock_error *error)
{
    uint64_t left_ms = time_left(wire, limit_ms);
    enum dlock_status status;
    uint64_t real_limit_ms;
    uint64_t until_ms;

    if (left_ms == 0)
        return dlock_error_set(error, DLOCK_UNREACHABLE, no_time_text);
    status = dlock_call_begin(wire, command, error);
    if (status != DLOCK_OK)
        return status;
    real_limit_ms = dlock_clock_real_now() + left_ms;
    status = connect_wire(wire, real_limit_ms, error);
    until_ms = command_until(wire, real_limit_ms);
    if (status == DLOCK_OK)
        status = dlock_wire_send(wire, command, DLOCK_BY_SHA, until_ms, error);
    if (status == DLOCK_OK)
        status = dlock_wire_read(wire, until_ms, reply, error);
    if (status == DLOCK_OK)
        status = or_by_text(wire, command, until_ms, reply, error);
    return dlock_call_conclude(wire, command, status, reply, error);
}

/* Makes sure that the script can go by its hash. */
static enum dlock_status load_script(struct dlock_wire *wire,
                                     const struct dlock_command *command,
                                     uint64_t limit_ms,
                                     struct dlock_error *error)
{
    struct dlock_command load;
    struct dlock_reply reply = {.kind = DLOCK_REPLY_NIL};
    enum dlock_status status;

    if (command->script == NULL || dlock_wire_knows(wire, command->script))
        return DLOCK_OK;
    dlock_command_init(&load, "script-load", command->name, NULL);
    dlock_command_arg(&load, "SCRIPT");
    dlock_command_arg(&load, "LOAD");
    dlock_command_arg(&load, command->script->text);
    status = step_once(wire, &load, limit_ms, &reply, error);
    if (status == DLOCK_OK)
        dlock_wire_learn(wire, command->script, reply.string);
    /* No reply is no harm, nor is a refusal: the script will go as text. But at
       so long a command, a server that wants a login hangs up. */
    if (status == DLOCK_UNKNOWN ||
        (reply.kind == DLOCK_REPLY_ERROR && !is_error(&reply, "NOAUTH")))
        return DLOCK_OK;
    return status;
}

/*
 * Whether the server has a command of its own for what COMMAND's script does;
 * asked once per connection. *FORM is that command.
 */
static bool has_native(struct dlock_wire *wire,
                       const struct dlock_command *command, uint64_t limit_ms,
                       struct dlock_command *form, struct dlock_error *error)
{
    struct dlock_command probe;
    struct dlock_reply reply;

    if (command->native == DLOCK_SCRIPT_ONLY)
        return false;
    /* No answer is no harm: the script will do. */
    if (dlock_wire_native(wire) == DLOCK_NATIVE_UNASKED) {
        dlock_native_probe(&probe, command->name);
        if (step_once(wire, &probe, limit_ms, &reply, error) == DLOCK_OK)
            dlock_wire_set_native(wire, dlock_native_answer(&reply));
    }
    return dlock_native_form(dlock_wire_native(wire), command, form);
}

/*
 * The copies are the same bytes with the same attempt number, on a fresh
 * connection each: a connection that lost a reply may yet deliver it.
 */
static enum dlock_status send_copies(struct dlock_wire *wire,
                                     const struct dlock_command *command,
                                     uint64_t limit_ms,
                                     struct dlock_reply *reply,
                                     struct dlock_error *error)
{
    enum dlock_status status = load_script(wire, command, limit_ms, error);

    if (status != DLOCK_OK)
        return status;
    status = step_once(wire, command, limit_ms, reply, error);
    /* Nothing was sent, or there is an answer: either way that is it. */
    if (!command->repeatable || status != DLOCK_UNKNOWN)
        return status;
    for (int sends = 1; sends < SENDS_MAX && status == DLOCK_UNKNOWN &&
                        !dlock_command_unwanted(command);
         sends++)
        status = step_once(wire, command, limit_ms, reply, error);
    /* Not now, or no time left: that says nothing about the first time. */
    return status == DLOCK_OK ? DLOCK_OK : DLOCK_UNKNOWN;
}

enum dlock_status dlock_call(struct dlock_wire *wire,
                             const struct dlock_command *command,
                             uint64_t limit_ms, struct dlock_reply *reply,
                             struct dlock_error *error)
{
    struct dlock_command form;
    enum dlock_status status;

    if (!has_native(wire, command, limit_ms, &form, error))
        return send_copies(wire, command, limit_ms, reply, error);
    status = send_copies(wire, &form, limit_ms, reply, error);
    if (status == DLOCK_OK)
        dlock_native_translate(reply);
    return status;
}

/* Sends what the hook has let go, and says until when replies may come. */
static uint64_t batch_send(struct dlock_wire *wire,
                           struct dlock_exchange *exchanges, size_t n,
                           uint64_t left_ms, struct dlock_error *error)
{
    uint64_t real_limit_ms = dlock_clock_real_now() + left_ms;
    uint64_t until_ms;

    (void)connect_wire(wire, real_limit_ms, error);
    until_ms = command_until(wire, real_limit_ms);
    for (size_t i = 0; i < n; i++)
        if (exchanges[i].status == DLOCK_OK)
            exchanges[i].status = dlock_wire_send(
                wire, &exchanges[i].command, DLOCK_BY_SHA, until_ms, error);
    return until_ms;
}

/* One attempt for all that have the same script. */
static void batch_load(struct dlock_wire *wire,
                       struct dlock_exchange *exchanges, size_t n,
                       uint64_t limit_ms, struct dlock_error *error)
{
    for (size_t i = 0; i < n; i++) {
        const struct dlock_command *command = &exchanges[i].command;

        if (i > 0 && command->script == exchanges[i - 1].command.script)
            exchanges[i].status = exchanges[i - 1].status;
        else
            exchanges[i].status = load_script(wire, command, limit_ms, error);
    }
}

/* The hook for every command, if there is any time left to send it. */
static void batch_begin(const struct dlock_wire *wire,
                        struct dlock_exchange *exchanges, size_t n,
                        uint64_t left_ms, struct dlock_error *error)
{
    for (size_t i = 0; i < n; i++) {
        struct dlock_exchange *each = &exchanges[i];

        if (each->status == DLOCK_OK && left_ms == 0)
            each->status =
                dlock_error_set(error, DLOCK_UNREACHABLE, no_time_text);
        if (each->status == DLOCK_OK)
            each->status = dlock_call_begin(wire, &each->command, error);
        each->begun = each->status == DLOCK_OK;
    }
}

void dlock_call_batch(struct dlock_wire *wire, struct dlock_exchange *exchanges,
                      size_t n, uint64_t limit_ms, struct dlock_error *error)
{
    uint64_t left_ms;
    uint64_t until_ms;

    batch_load(wire, exchanges, n, limit_ms, error);
    left_ms = time_left(wire, limit_ms);
    batch_begin(wire, exchanges, n, left_ms, error);
    until_ms = batch_send(wire, exchanges, n, left_ms, error);
    for (size_t i = 0; i < n; i++)
        if (exchanges[i].status == DLOCK_OK)
            exchanges[i].status =
                dlock_wire_read(wire, until_ms, &exchanges[i].reply, error);
    /* Only now: a text sent earlier would be answered behind the others. */
    for (size_t i = 0; i < n; i++) {
        struct dlock_exchange *each = &exchanges[i];

        if (each->status == DLOCK_OK)
            each->status =
                or_by_text(wire, &each->command, until_ms, &each->reply, error);
        if (each->begun)
            each->status = dlock_call_conclude(
                wire, &each->command, each->status, &each->reply, error);
    }
}

/* The time counts from the hook's return, as for one that is waited for. */
static enum dlock_status post(struct dlock_wire *wire,
                              const struct dlock_command *command,
                              uint64_t within_ms, struct dlock_error *error)
{
    enum dlock_status status = dlock_call_begin(wire, command, error);
    uint64_t until_ms = dlock_clock_after(dlock_clock_real_now(), within_ms);

    if (status != DLOCK_OK)
        return status;
    /* A subscriber's connection always has something to read: no _ready. */
    if (dlock_wire_fd(wire) < 0)
        status = connect_wire(wire, until_ms, error);
    if (status == DLOCK_OK)
        status = dlock_wire_send(wire, command, DLOCK_BY_TEXT,
                                 command_until(wire, until_ms), error);
    if (status != DLOCK_OK)
        (void)tell(wire, command, DLOCK_AFTER, "(unreachable)");
    return status;
}

/* No deadline of a caller: the subscriber's thread has all the time. */
enum dlock_status dlock_call_post(struct dlock_wire *wire,
                                  const struct dlock_command *command,
                                  struct dlock_error *error)
{
    return post(wire, command, UINT64_MAX, error);
}

void dlock_call_abandon(struct dlock_wire *wire,
                        const struct dlock_command *command, uint64_t within_ms)
{
    if (post(wire, command, within_ms, NULL) != DLOCK_OK)
        return;
    (void)tell(wire, command, DLOCK_AFTER, "(not awaited)");
    dlock_wire_drop(wire); /* the reply would answer the next command */
}

enum dlock_verdict dlock_call_told(const struct dlock_wire *wire,
                                   const char *step, const char *name,
                                   const char *reply)
{
    struct dlock_command command;

    dlock_command_init(&command, step, name, NULL);
    return tell(wire, &command, DLOCK_AFTER, reply);
}

/* The main thread while the service runs: signals, the private Redis, the service manager.
 * See service.h. */
#include "server/service.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/health.h"
#include "server/base/log.h"
#include "server/base/redis_proc.h"
#include "server/base/values.h"
#include "server/http/http.h"
#include "server/http/request.h"
#include "server/inventory/inventory.h"
#include "server/order/dispatcher.h"

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#else /* nobody is told */
#define sd_notifyf(unset, ...)         ((void)0)
#define sd_watchdog_enabled(unset, us) ((void)(us), 0)
#endif

#define TICK_MS_MAX      1000
#define EXTEND_US        30000000 /* a start may take so much longer than a tick */
#define CHECK_TIMEOUT_MS 1000     /* of a server, twice */
#define LOG_EVERY_MS     10000 /* while Redis does not start; as health does */

/* The loop's own, which changes while it runs. */
struct state {
    bool redis_up;
    uint64_t log_redis_ms;    /* not before, while it is down */
    bool awaited;             /* it was not ready yet */
    uint64_t watchdog_us;     /* it wants to hear of us as often; 0 = never */
    uint64_t tick_ms, due_ms; /* of what the manager hears by time */
    uint64_t beats;           /* of the dispatcher, at the last tick */
};

int main_loop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    /* The signals are blocked before any thread is started, because each
     * inherits that: else one of them would get the signal, and not the
     * descriptor. */
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a full disk is an error, not an end */
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* ---- SIGHUP ---------------------------------------------------------------- */

/* Takes the token and the log level. Without a token, who comes from loopback is the
 * administrator: a file that is being written anew must not open that door. */
static void reload(struct service *s, const struct state *state)
{
    char error[512];
    struct config fresh;

    if (!state->awaited)
        sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_us());
    /* All settings are read and judged as at the start, and two are taken: a
     * file with a mistake in it changes nothing. */
    if (config_load(s->argc, s->argv, &fresh, error, sizeof(error)) == 0) {
        if (*fresh.admin_token)
            access_set_token(fresh.admin_token);
        log_info("reload", "admin_token=\"%s\"",
                 *fresh.admin_token ? "as in its file" : "as before");
        log_level_set(fresh.log_level);
    } else {
        log_warn("reload", "error=\"%s\" settings=\"as before\"", error);
    }
    if (!state->awaited)
        sd_notifyf(0, "READY=1");
}

/* ---- a Redis that is not ours ---------------------------------------------- */

/* A primary that was cut off, or paused, takes writes that nobody will know of: for
 * as long as it does not hear of its successor, unless it needs replicas to write. Each
 * server is asked, once, since a Redis that is not ours may have been set up so. */
static void check_redis(const char *url)
{
    struct dlock_address at;

    for (const char *next; (next = dlock_url_parse(url, &at)); url = next + 1) {
        bool fails_over = *at.primary != '\0';
        struct values_about about = {.replicas = 0};
        struct values *values = NULL;
        struct dlock_error error = {""};

        if (values_open(url, CHECK_TIMEOUT_MS, &values, &error) != DLOCK_OK ||
            values_about(values, &about, &error) != DLOCK_OK)
            log_info("redis", "check=\"not made\" error=\"%s\"", error.text);
        else if ((about.replicas > 0 || fails_over) && !about.needs_them)
            log_warn(
                "redis",
                "min_replicas_to_write=0 error=\"a primary that is cut off "
                "or paused goes on taking locks that are lost at the "
                "failover: set min-replicas-to-write 1 and "
                "min-replicas-max-lag 2 on each server\"");
        values_close(values);
        if (*next == '\0')
            break;
    }
}

/* ---- the service manager --------------------------------------------------- */

static void log_ready(const struct service *s, const char *redis_url)
{
    const struct config *c = &s->config;
    const char *address = http_address(s->http);
    struct dlock_session *session = NULL;
    char hidden[sizeof(c->redis)], instance[33] = "?";
    bool is_any = strncmp(address, "0.0.0.0:", 8) == 0 ||
                  strncmp(address, "[::]:", 5) == 0;
    char page[128]; /* for a person to click: nobody can go to "any address" */

    snprintf(page, sizeof(page), "http://%s%s/", is_any ? "localhost" : "",
             is_any ? strrchr(address, ':') : address);
    if (s->app.inventory) {
        log_info("ready", "page=%s listen=%s inventory=%s", page, address,
                 c->inventory);
        return;
    }
    dlock_url_hide(redis_url, hidden, sizeof(hidden));
    if (dlock_session_open(s->app.locks, &session, NULL) == DLOCK_OK)
        snprintf(instance, sizeof(instance), "%s",
                 dlock_session_owner(session));
    dlock_session_close(session);
    log_info("ready",
             "page=%s listen=%s instance=%s lock=%s deduct=%s "
             "orders=%s db=%s redis=%s",
             page, address, instance, c->lock,
             c->deduct == DEDUCT_NAIVE ? "naive" : "guarded",
             c->orders == ORDERS_BATCHED ? "batched" : "one-by-one", c->db,
             hidden);
}

/* One line at each news, for `systemctl status`. */
static void tell_health(const struct service *s, struct state *state)
{
    char why[HEALTH_TEXT_BYTES];
    const char *redis_url;

    if (health_look(s->app.health, why) != HEALTH_READY) {
        sd_notifyf(0, "STATUS=not ready: %.*s", (int)strcspn(why, "\n"), why);
        return;
    }
    redis_url = s->redis ? redis_proc_url(s->redis) : s->config.redis;
    if (state->awaited)
        log_ready(s, redis_url);
    sd_notifyf(0, "%sSTATUS=selling on %s", state->awaited ? "READY=1\n" : "",
               http_address(s->http));
    if (state->awaited && !s->redis)
        check_redis(redis_url);
    state->awaited = false;
}

static size_t orders_in(const struct app *app)
{
    if (!atomic_load(&app->is_open))
        return 0;
    return app->inventory ? inventory_depth(app->inventory)
                          : dispatcher_depth(app->dispatcher);
}

static void tick(const struct app *app, struct state *state)
{
    uint64_t beats = state->beats;

    if (clock_ms() < state->due_ms)
        return;
    state->due_ms = clock_ms() + state->tick_ms;
    if (state->awaited)
        sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%d", EXTEND_US);
    if (state->watchdog_us > 0 && atomic_load(&app->is_open))
        beats = app->inventory ? inventory_beat(app->inventory)
                               : dispatcher_beat(app->dispatcher);
    /* The watchdog hears of us only if the thread that decides orders has
     * moved: one that hangs needs a restart, however well this loop goes. */
    if (beats != state->beats)
        sd_notifyf(0, "WATCHDOG=1");
    state->beats = beats;
}

/* ---- the loop -------------------------------------------------------------- */

void main_loop_run(struct service *s)
{
    struct state state = {.awaited = true, .tick_ms = TICK_MS_MAX};
    struct pollfd fds[4] = {
        {.fd = s->signals, .events = POLLIN},
        {.events = POLLIN},
        {.fd = health_news_fd(s->app.health), .events = POLLIN},
        {.events = POLLIN}};
    struct redis_proc *redis = NULL;
    struct signalfd_siginfo info;
    bool ticks, goes_on = true;
    eventfd_t news;
    char error[512];

    if (sd_watchdog_enabled(0, &state.watchdog_us) > 0 &&
        /* A quarter of the manager's time, in ms: a tick that comes late is no
         * hang. */
        state.watchdog_us / 4000 < state.tick_ms)
        state.tick_ms = state.watchdog_us / 4000;
    do {
        tick(&s->app, &state);
        ticks = state.watchdog_us > 0 || state.awaited ||
                (redis && !state.redis_up);
        /* poll() leaves out what is -1. The descriptors change with each Redis,
         * and with the opener's end. */
        fds[1].fd = redis && state.redis_up ? redis_proc_fd(redis) : -1;
        fds[3].fd = s->opens ? s->opened_fd : -1;
        for (size_t i = 0; i < 4; i++)
            fds[i].revents = 0;
        if (poll(fds, 4, ticks ? (int)state.tick_ms : -1) < 0 && errno != EINTR)
            break;
        if (fds[3].revents) {
            goes_on = service_opened(s);
            redis = s->redis;
        }
        if (fds[2].revents && eventfd_read(fds[2].fd, &news) == 0)
            tell_health(s, &state);
        /* The signals come after the opener, so that what it has opened is known
         * before the end takes it apart; and before Redis, whose start they end. */
        if (fds[0].revents && goes_on) {
            goes_on = read(s->signals, &info, sizeof(info)) == sizeof(info) &&
                      info.ssi_signo == SIGHUP;
            if (goes_on)
                reload(s, &state);
        }
        if (redis && goes_on && (fds[1].revents || !state.redis_up)) {
            /* A start may be waited for here for seconds: any signal ends the
             * wait, because the next pass must read it. */
            state.redis_up = redis_proc_tend(redis, error, sizeof(error));
            if (!state.redis_up && clock_ms() >= state.log_redis_ms) {
                log_warn("redis", "error=\"%s\"", error);
                state.log_redis_ms = clock_ms() + LOG_EVERY_MS;
            }
        }
    } while (goes_on);
    log_info("stopping", "orders_waiting=%zu", orders_in(&s->app));
    sd_notifyf(0, "STOPPING=1\nSTATUS=stopping: %zu orders wait",
               orders_in(&s->app));
}

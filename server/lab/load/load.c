/* Runs an experiment with real instances, from the empty folder to the verdict. See
 * load.h. */
#include "server/lab/load/load.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/base/config.h"
#include "server/base/redis_proc.h"
#include "server/order/lock_tasks.h"

enum {
    MARGIN = 9, /* the time */
    FLAGS_BYTES = 512,
    HELD_MS_MAX = 1500, /* for an instance that gives its lock back */
    LOOKS_MAX = 5,      /* until one is answered */
    TURN_MS = 10,
};

static void tell_scene(const struct experiment_play *play, char text[],
                       size_t size)
{
    const struct experiment_load *with = &play->load;

    (void)snprintf(text, size, "%u instance%s, lock %s, stock %u",
                   with->instances, with->instances == 1 ? "" : "s",
                   play->scene.lock, with->stock);
}

struct load load;

/* Events ------------------------------------------------------------------------ */

/* The world's doing, and what was sold. */
static const char *tint_of(int who, const char *text)
{
    size_t n = strlen(text);

    if (who < 0)
        return DRAW_YELLOW;
    return n > 5 && strcmp(text + n - 5, " sold") == 0 ? DRAW_GREEN : "";
}

void load_tell(int who, const char *format, ...)
{
    const struct experiment_run *run = load.run;
    int width =
        run->out ? (draw_columns(run->out) - MARGIN) / (int)load.play->instances
                 : 0;
    uint64_t ms = (clock_us() - load.begun_us) / 1000;
    char text[200];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* The lanes are those of this moment: they are told with the event. */
    if (run->json)
        (void)json_array_append_new(
            json_object_get(run->json, "timeline"),
            json_pack("{s:I, s:o?, s:o, s:o*}", "ms", (json_int_t)ms, "actor",
                      who < 0 ? NULL : json_sprintf("%c", 'a' + who), "text",
                      draw_json_text(text, run->look), "lanes",
                      load.story ? load_lanes() : NULL));
    if (!run->out)
        return;
    /* An instance's lines stand in its own column. */
    fprintf(run->out, "%6" PRIu64 "   %*s", ms, who > 0 ? who * width : 0, "");
    draw_in(run->out, run->look, tint_of(who, text), text);
    fputc('\n', run->out);
    (void)fflush(run->out);
}

/* A line ends before a flag, not in it. */
static void tell_flags(const struct experiment_run *run, const char *who,
                       const char *lock, const char *flags)
{
    FILE *out = run->out;
    char text[FLAGS_BYTES], *at = text, *next;
    int column = draw_say(out, run->look, "%s: stockade serve", who);

    (void)snprintf(text, sizeof(text), "%s%s%s%s", lock ? " --lock " : "",
                   lock ? lock : "", lock ? " " : "", flags);
    while (*at) {
        while (*at == ' ')
            at++;
        /* Flags are cut before two dashes: a value stays beside its flag. */
        next = strstr(at, " --");
        next = next ? next : at + strlen(at);
        if (column + (int)(next - at) >= draw_columns(out))
            column = fprintf(out, " \\\n    ") - 3;
        column += fprintf(out, " %.*s", (int)(next - at), at);
        at = next;
    }
    fputc('\n', out);
}

static void head(void)
{
    const struct experiment_run *run = load.run;
    const struct experiment_load *play = load.play;
    int width;

    assert(play->instances > 0);
    if (run->json)
        (void)json_object_update_new(
            run->json,
            json_pack("{s:o, s:o, s:[]}", "lock", draw_json_text(load.lock, 0),
                      "flags", draw_json_text(play->flags, 0), "timeline"));
    if (!run->out)
        return;
    tell_flags(run, "all", load.lock, play->flags);
    for (unsigned i = 0; i < play->instances; i++)
        if (play->each[i])
            tell_flags(run, (const char[]){(char)('a' + (int)i), '\0'}, NULL,
                       play->each[i]);
    if (load.story)
        draw_say(run->out, run->look, "story: '%s'\n", load.story);
    width = (draw_columns(run->out) - MARGIN) / (int)play->instances;
    fputc('\n', run->out);
    draw_say(run->out, run->look, "    ms");
    for (unsigned i = 0; load.story && i < play->instances; i++)
        fprintf(run->out, "%*s%c", i > 0 ? width - 1 : 3, "", 'a' + (int)i);
    fputc('\n', run->out);
}

/* The sale ---------------------------------------------------------------------- */

bool load_start(unsigned who, const char *flags)
{
    const struct experiment_load *play = load.play;
    char text[FLAGS_BYTES];

    (void)snprintf(text, sizeof(text), "%s %s %s %s",
                   play->instances > 1 ? "--shared" : "", play->flags,
                   play->each[who] ? play->each[who] : "", flags);
    return site_start(who, load.lock, text) && site_ready(who);
}

static bool begin(void)
{
    const struct experiment_load *play = load.play;
    unsigned at_a_time = play->crowd.buyers ? play->crowd.buyers : BUYERS_MAX;

    /* The page's watcher ends the run by this, too. */
    if (!site_open(load_watch_ends) || !buyers_open(at_a_time))
        return false;
    /* One after the other: the first makes the database, and the others must find
     * it whole. */
    for (unsigned i = 0; i < play->instances; i++)
        if (!load_start(i, ""))
            return false;
    /* A second product is there only if the story sells it: the audit counts it
     * as well. */
    return play->stock == 0 || (buyers_offer(1, play->stock, 1) &&
                                (!load.story || !strchr(load.story, '/') ||
                                 buyers_offer(2, play->stock, 1)));
}

bool load_crowd(void)
{
    /* An endless crowd is of measurements alone, which say how long. */
    if (load.play->crowd.orders == 0)
        return site_fail("without orders a crowd would not end");
    if (!buyers_crowd(&load.play->crowd, load.play->instances))
        return false;
    load_tell(-1, "%zu orders: %zu sold, %zu sold out, %zu not now",
              buyers.orders_n, buyers_count(BUYERS_SOLD),
              buyers_count(BUYERS_SOLD_OUT), buyers_count(BUYERS_NOT_NOW));
    return true;
}

/* The verdict ------------------------------------------------------------------- */

/* The lock must be looked for where serve.c has it: without Redis, beside the database. */
static const char *lock_url(void)
{
    static char url[sizeof(site.folder.path) + 16];

    (void)snprintf(url, sizeof(url), "dir:%s/db.locks", site.folder.path);
    return config_rules_uses_redis(dlock_strategy_find(load.lock))
               ? redis_proc_url(site.redis)
               : url;
}

const char *load_unseen(void)
{
    /* The flag's shortest form, which getopt_long() takes, is in all the others. */
    static const char per[] = "--lock-p";
    bool is_per_user = strstr(load.play->flags, per);

    for (unsigned i = 0; i < load.play->instances; i++)
        is_per_user |= load.play->each[i] && strstr(load.play->each[i], per);
    if (strcmp(load.lock, "process") == 0)
        return "nobody outside can see who has the lock";
    return is_per_user ? "a lock per user is not looked for" : NULL;
}

/* A session of our own asks: it need not hold anything. */
bool load_look(int64_t product, unsigned segment, struct dlock_holder *holder)
{
    char name[LOCK_NAME_BYTES];
    struct dlock_options options = {.strategy = load.lock, .url = lock_url()};
    enum dlock_status status;
    struct dlock_session *session = NULL;
    struct dlock *client = NULL;
    struct dlock_error error;
    bool good = false,
         is_open = dlock_open(&options, &client, &error) == DLOCK_OK &&
                   dlock_session_open(client, &session, &error) == DLOCK_OK;

    *holder = (struct dlock_holder){.held = false};
    lock_name(product, segment, name);
    /* A busy server may answer the next time. */
    /* The lock may be one whose inspect takes several commands: one of them may
     * be lost. */
    for (int i = 0; i < LOOKS_MAX && is_open && !good; i++) {
        status = dlock_inspect(session, name, holder, &error);
        /* The lock none has no holder, and nothing by which to ask for one. */
        good = status == DLOCK_OK || status == DLOCK_MISUSE;
    }
    dlock_session_close(session);
    dlock_close(client);
    return good || site_fail("nobody knows who has the lock: %s", error.text);
}

/* A lock that is left at UNTIL_MS, when all orders are answered long since. */
static bool look_for_lock(int64_t product, unsigned segment, uint64_t until_ms,
                          unsigned *faults)
{
    struct dlock_holder holder;
    bool good;

    while ((good = load_look(product, segment, &holder)) && holder.held) {
        if (clock_ms() > until_ms) {
            *faults |= EXPERIMENT_FAULT(
                holder.remaining_ms == UINT64_MAX ? STAGE_FOREVER : STAGE_HELD);
            return true;
        }
        buyers_turn(TURN_MS);
    }
    return good;
}

/* The locks of all that was on sale. One without an end stays; one with a lease, or of an
 * instance that is about to give it back, has a moment, which is the same for all. */
static bool look_for_locks(struct experiment_run *run)
{
    uint64_t until_ms = clock_ms() + HELD_MS_MAX;
    size_t n = strlen(run->said);
    const char *unseen = load_unseen();

    /* The words must be said: "nothing broke" would be more than anybody knows. */
    if (unseen)
        (void)snprintf(run->said + n, sizeof(run->said) - n, "%s%s",
                       n > 0 ? "; " : "", unseen);
    for (int64_t id = 1; id <= buyers.offered && !unseen; id++)
        for (unsigned segment = 0; segment < buyers.segments; segment++)
            if (!look_for_lock(id, segment, until_ms, &run->verdict.faults))
                return false;
    return true;
}

/* The lock is looked at before the servers end, the ledger after it. One that has died says
 * so a moment later than its connections: hence it is asked for behind the lock. */
static bool conclude(const struct experiment_play *play)
{
    struct experiment_run *run = load.run;
    /* The stock that is left when many oversell is chance. */
    const unsigned may_differ = play->faults == EXPERIMENT_FAULT(STAGE_OVERSOLD)
                                    ? EXPERIMENT_FAULT(STAGE_LEDGER)
                                    : 0;
    struct store_audit audit;
    int64_t stock = 0;

    /* The lock is of the instances that live: it must be asked for before they end. */
    if (!look_for_locks(run) || !site_is_whole())
        return false;
    /* Instances have to end before the ledger is whole: what is under way is decided. */
    site_stop_all();
    if (!site_audit(&audit, &stock))
        return false;
    run->verdict.faults |=
        ledger_faults(&audit) | ledger_faults_at_the_end(&audit);
    /* wrk has seen at least these; the ledger may have more, of which no answer came. */
    if (audit.orders < load.seen_by_wrk + (int64_t)buyers_count(BUYERS_SOLD))
        run->verdict.faults |= EXPERIMENT_FAULT(STAGE_LOST);
    run->sold = audit.sold;
    run->orders = audit.orders;
    run->stock = stock;
    run->is_over = true;
    /* A verdict that has more is as told only if chance may have made it so. */
    run->as_told = (run->verdict.faults & ~may_differ) == play->faults &&
                   (play->sold == LOAD_SOLD_ANY ? run->sold > 0
                                                : run->sold == play->sold) &&
                   (!play->load.measure || (load.found >= play->load.least &&
                                            load.found <= play->load.most));
    return true;
}

static bool run_load(const struct experiment_play *play,
                     struct experiment_run *run)
{
    measure_function *measure = play->load.measure;
    bool ran;

    load = (struct load){.play = &play->load,
                         .lock = play->scene.lock,
                         .story = play->schedule,
                         .run = run};
    head();
    load_watch_begin();
    ran = begin();
    /* The time begins with the sale: servers that start slowly are no part of it. */
    load.begun_us = clock_us();
    ran = ran && (load.story                       ? load_story()
                  : play->load.wrk_connections > 0 ? load_wrk()
                  : measure                        ? measure(&load.found)
                                                   : load_crowd());
    /* The samples' reader must be closed before the database goes. */
    load_watch_end();
    ran = ran && conclude(play);
    if (run->out)
        fputc('\n', run->out);
    if (!ran)
        run->error = site.error;
    buyers_close();
    site_close();
    return ran;
}

json_t *experiment_json(const struct experiment_run *run)
{
    if (run->error.text[0])
        return json_pack("{s:o}", "error", draw_json_text(run->error.text, 0));
    return json_pack(
        "{s:I, s:I, s:I, s:o, s:o, s:b, s:o*}", "stock", (json_int_t)run->stock,
        "sold", (json_int_t)run->sold, "orders", (json_int_t)run->orders,
        "faults", draw_json_faults(run->verdict.faults), "remarks",
        draw_json_faults(run->verdict.remarks), "as_told", run->as_told, "said",
        run->said[0] ? draw_json_text(run->said, run->look) : NULL);
}

const struct experiment_kind load_kind = {"load", run_load, tell_scene};

/* See lock_story.h. */
#include "tests/support/lock_story.h"

#include <ctype.h>

#include "lock/dlock_more.h"
#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"
#include "tests/support/node_rig.h"
#include "tests/support/words.h"

enum { PARTIES_N = 8, HOLDS_MAX = 5, TEXT_BYTES_MAX = 400 };

struct hold {
    char name[16]; /* "" = the first, which has none */
    struct dlock_grant grant;
};

struct party {
    struct dlock *client;
    struct dlock_session *session;
    struct hold holds[HOLDS_MAX];
    struct note note;
};

struct range {
    long long from, to;
    bool is_asked;
};

enum { HOLDS, TOKEN, LEFT, HELD, WAITERS, RANGES_N };
static const char *const range_words[] = {"holds", "token", "left", "held",
                                          "waiters"};

/* A deed of somebody. */
struct act {
    char text[TEXT_BYTES_MAX]; /* taken apart */
    const char *statement;     /* as it was */
    struct party *party;
    struct hold *hold;
    const char *verb;
    const char *name;
    struct dlock_terms terms;
    struct range ranges[RANGES_N];
    struct party *other;
    const char *label, *statuses, *says;
    enum dlock_status status;
    struct dlock_error error;
    struct dlock_holder holder;
    size_t waiters_n;
    atomic_bool is_done;
};

static struct {
    const char *what;
    char lock[24], label[24];
    unsigned nodes_n; /* 0 = the one server of lock_rig.h */
    const char *statement;
    struct party parties[PARTIES_N], nobody; /* whose owner id is "" */
    uint64_t token, clock_ms; /* the last token; when the clock was set */
    bool is_asking, is_wrong; /* of "until" */
    int listener;
    struct act beside; /* by the thread */
    pthread_t thread;
    bool is_beside;
} play;

const struct lock_story_host *lock_story_host;

static void wrong(const char *what, const char *found)
{
    play.is_wrong = true;
    if (!play.is_asking)
        fail_msg("%s (%s): '%s': %s: %s", play.what, play.lock, play.statement,
                 what, found);
}

/* Words ------------------------------------------------------------------------ */

/* Whether WORD is a number, which is not needed. */
static bool is_number(const char *word, long long *number)
{
    static const struct {
        const char *name;
        long long value;
    } names[] = {{"lease", LOCK_RIG_LEASE_MS},
                 {"timeout", LOCK_RIG_TIMEOUT_MS},
                 {"prompt", LOCK_RIG_PROMPT_MS},
                 {"longest", NODE_RIG_LONGEST_MS},
                 {"long", LOCK_RIG_LONG_MS},
                 {"always", STEP_LOG_ALWAYS},
                 {"far", 3LL << 50}};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t len = strlen(names[i].name);

        *number = names[i].value;
        if (strncmp(word, names[i].name, len) == 0) {
            *number += strtoll(word + len, NULL, 10);
            return true;
        }
    }
    *number = strtoll(word, NULL, 10);
    return isdigit((unsigned char)word[word[0] == '-']) != 0;
}

static long long number(const char *word)
{
    long long found = 0;

    if (word == NULL || !is_number(word, &found))
        wrong("number", word != NULL ? word : "");
    return found;
}

static unsigned whole(const char *word)
{
    return (unsigned)number(word);
}

/* A token may be told of by the last one. */
static struct range range(const char *word)
{
    const char *dots = word != NULL ? strstr(word, "..") : NULL;
    long long last = (long long)play.token;
    struct range range = {.is_asked = true};

    if (is(word, "same"))
        return (struct range){last, last, true};
    if (is(word, "rises"))
        return (struct range){last + 1, INT64_MAX, true};
    range.from = number(word);
    range.to = dots == NULL      ? range.from
               : dots[2] != '\0' ? number(dots + 2)
                                 : INT64_MAX;
    return range;
}

static void expect(const char *what, struct range expected, long long found)
{
    char text[24];

    if (!expected.is_asked || (found >= expected.from && found <= expected.to))
        return;
    (void)snprintf(text, sizeof(text), "%lld", found);
    wrong(what, text);
}

/* Statuses are "ok|busy". */
static void expect_status(const char *statuses, enum dlock_status status,
                          const char *text)
{
    static const char *const words[DLOCK_STATUS_N] = {
        [DLOCK_OK] = "ok",           [DLOCK_BUSY] = "busy",
        [DLOCK_TIMEOUT] = "timeout", [DLOCK_LOST] = "lost",
        [DLOCK_UNKNOWN] = "unknown", [DLOCK_UNREACHABLE] = "unreachable",
        [DLOCK_MISUSE] = "misuse",   [DLOCK_DEADLOCK] = "deadlock"};

    if (strstr(statuses != NULL ? statuses : "ok", words[status]) == NULL)
        wrong(words[status], text);
}

/* Who, and what they do -------------------------------------------------------- */

static bool is_party(const char *word)
{
    return word[0] >= 'a' && word[0] <= 'd' &&
           (word[1] == '\0' || is(word + 1, "2"));
}

/* It comes when it is first told of. */
static struct party *party_of(const char *word)
{
    struct party *first = &play.parties[2 * (size_t)(word[0] - 'a')];
    struct party *party = first + (word[1] == '2');

    if (first->client == NULL)
        first->client = lock_rig_client(play.lock);
    party->client = first->client;
    if (party->session == NULL)
        party->session = lock_rig_session(party->client);
    return party;
}

static struct hold *hold_of(struct party *party, const char *name)
{
    struct hold *hold = party->holds + 1;

    while (hold->name[0] != '\0' && strcmp(hold->name, name) != 0)
        assert_true(++hold < party->holds + HOLDS_MAX);
    (void)snprintf(hold->name, sizeof(hold->name), "%s", name);
    return hold;
}

static enum dlock_status do_verb(struct act *act)
{
    struct party *party = act->party;
    struct dlock_session *session = party->session;
    struct dlock_grant *grant = &act->hold->grant;
    struct dlock_error *error = &act->error;

    if (is(act->verb, "takes"))
        return dlock_acquire(session, act->name, &act->terms, grant, error);
    if (is(act->verb, "tries"))
        return dlock_try(session, act->name, &act->terms, grant, error);
    if (is(act->verb, "gives"))
        return dlock_release(session, grant, error);
    if (is(act->verb, "extends"))
        return dlock_extend(session, grant, act->terms.lease_ms, error);
    if (is(act->verb, "forces"))
        return dlock_force_release(session, act->name, error);
    if (is(act->verb, "sees"))
        return dlock_inspect(session, act->name, &act->holder, error);
    if (is(act->verb, "counts")) {
        struct dlock_waiting first = {""};
        enum dlock_status status = dlock_inspect_waiters(
            session, act->name, &first, 1, &act->waiters_n, error);

        memcpy(act->holder.owner, first.owner, sizeof(first.owner));
        return status;
    }
    if (is(act->verb, "asks"))
        return dlock_waits_for(session, act->name, error->text, error);
    if (is(act->verb, "ends")) {
        enum dlock_status status = note_await(&party->note);

        assert_int_equal(party->note.granted, status == DLOCK_OK);
        if (status == DLOCK_OK)
            *grant = party->note.grant;
        (void)snprintf(error->text, sizeof(error->text), "%s",
                       party->note.text);
        return status;
    }
    if (is(act->verb, "begins")) {
        party->note = (struct note){.n = 0};
        return dlock_acquire_async(session, act->name, &act->terms, note_done,
                                   &party->note, error);
    }
    if (is(act->verb, "waits"))
        assert_int_equal(atomic_load(&party->note.n), 0);
    else if (is(act->verb, "cancels"))
        dlock_cancel(session);
    else if (is(act->verb, "stops"))
        dlock_end_waits(party->client);
    else if (is(act->verb, "borrows"))
        *grant = act->other->holds[0].grant;
    else if (is(act->verb, "poses")) {
        *grant = act->other->holds[0].grant;
        (void)snprintf(grant->name, sizeof(grant->name), "%s", act->name);
        lock_rig_pass_off(session, grant);
    } else if (is(act->verb, "dies")) {
        dlock_session_close(session);
        party->session = NULL;
    } else if (is(act->verb, "closes")) {
        lock_rig_close(party->client);
        *party = (struct party){.client = NULL};
    } else if (!is(act->verb, "has"))
        fail_msg("'%s': there is no such verb", act->statement);
    return DLOCK_OK;
}

static void take_value(struct act *act, const char *word, const char *value)
{
    for (size_t i = 0; i < RANGES_N; i++)
        if (is(word, range_words[i])) {
            act->ranges[i] = range(value);
            return;
        }
    if (is(word, "wait"))
        act->terms.wait_ms = whole(value);
    else if (is(word, "max"))
        act->terms.max_hold_ms = whole(value);
    else if (is(word, "deadlock"))
        act->terms.deadlock_ms = whole(value);
    else if (is(word, "floor"))
        act->terms.fence_floor = (uint64_t)number(value);
    else if (is(word, "name"))
        act->name = value;
    else if (is(word, "label"))
        act->label = value;
    else if (is(word, "owner") || is(word, "as"))
        act->other = is(value, "nobody") ? &play.nobody : party_of(value);
    else
        wrong("there is no such word", word);
}

static void parse_act(struct act *act, const char *statement)
{
    char *rest, *word, *value;
    long long ms;

    *act = (struct act){.statement = statement, .name = "k"};
    (void)snprintf(act->text, sizeof(act->text), "%s", statement);
    act->statuses = cut_at_arrow(act->text);
    act->party = party_of(strtok_r(act->text, " ", &rest));
    act->hold = act->party->holds;
    act->verb = next_word(&rest);
    while ((word = next_word(&rest)) != NULL) {
        if ((value = strchr(word, '=')) != NULL) {
            *value = '\0';
            take_value(act, word, value + 1);
        } else if (is_number(word, &ms))
            act->terms.lease_ms = (unsigned)ms;
        else if (is(word, "fenced"))
            act->terms.fenced = true;
        else
            act->hold = hold_of(act->party, word);
    }
    if (act->statuses == NULL || (word = strchr(act->statuses, '\'')) == NULL)
        return;
    *word = '\0';
    word[strlen(word + 1)] = '\0'; /* the last quote */
    act->says = word + 1;
}

/* "host:pid:LABEL", of this process; or "". */
static void expect_label(const char *label, const char *found)
{
    char host[64] = "", expected[160] = "";

    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    if (label[0] != '\0')
        (void)snprintf(expected, sizeof(expected), "%s:%ld:%s", host,
                       (long)getpid(), label);
    if (strcmp(found, expected) != 0)
        wrong("label", found);
}

static void check_act(const struct act *act)
{
    const struct dlock_grant *grant = &act->hold->grant;
    const struct dlock_holder *holder = &act->holder;
    bool saw = is(act->verb, "sees") || is(act->verb, "counts");
    uint64_t token = saw ? holder->token : grant->token;
    uint64_t left_ms = act->ranges[LEFT].is_asked && !saw
                           ? dlock_remaining_ms(act->party->session, grant)
                           : holder->remaining_ms;
    long long found[RANGES_N] = {[HOLDS] = saw ? holder->holds : grant->holds,
                                 [TOKEN] = (long long)token,
                                 [LEFT] = (long long)left_ms,
                                 [HELD] = holder->held,
                                 [WAITERS] = (long long)act->waiters_n};
    const char *text = act->error.text;

    play.statement = act->statement;
    expect_status(act->statuses, act->status, text);
    if (act->says != NULL &&
        (strncmp(act->says, "..", 2) == 0 ? strstr(text, act->says + 2) == NULL
                                          : strcmp(text, act->says) != 0))
        wrong("text", text);
    for (size_t i = 0; i < RANGES_N; i++)
        expect(range_words[i], act->ranges[i], found[i]);
    if (saw && act->other != NULL &&
        strcmp(holder->owner, dlock_session_owner(act->other->session)) != 0)
        wrong("owner", holder->owner);
    if (act->label != NULL)
        expect_label(act->label, holder->label);
    if (act->status == DLOCK_OK && token > 0)
        play.token = token;
}

static void *act_beside(void *arg)
{
    struct act *act = arg;

    act->status = do_verb(act);
    atomic_store(&act->is_done, true);
    return NULL;
}

static void join(void)
{
    if (!play.is_beside)
        return;
    play.is_beside = false;
    assert_int_equal(pthread_join(play.thread, NULL), 0);
    check_act(&play.beside);
}

/* All else --------------------------------------------------------------------- */

/* At one of several, if it begins with "@1 ". */
static void ask_server(char *text)
{
    const struct redis_server *server = rig.server;
    const char *answer = cut_at_arrow(text);

    if (text[0] == '@') {
        server = nodes.servers[whole(text + 1)];
        text += strlen("@1 ");
    }
    if (answer == NULL)
        redis_server_ask(server, text, NULL, 0);
    else
        expect("the server says", range(answer),
               redis_server_number(server, "%s", text));
}

static void serve(char *rest)
{
    const char *how = next_word(&rest), *which = next_word(&rest);

    if (lock_story_host != NULL)
        lock_story_host->serve(how, which);
    else if (play.nodes_n > 0)
        node_rig_do(whole(which), how);
    else
        redis_server_do(rig.server, how);
}

static void do_steps(const char *first, char *rest)
{
    const char *step = next_word(&rest), *word = next_word(&rest);
    const char *third = next_word(&rest), *node = next_word(&rest);
    enum dlock_phase phase = is(word, "after") ? DLOCK_AFTER : DLOCK_BEFORE;

    if (is(first, "nap"))
        node_rig_nap(whole(node + 1), step, phase, whole(third));
    else if (is(first, "fail") && node != NULL)
        node_rig_fail(whole(node + 1), step, phase, whole(third));
    else if (is(first, "fail"))
        step_log_fail(&rig.log, step, phase, whole(third));
    else if (is(first, "also"))
        step_log_fail_also(&rig.log, step, phase, whole(third));
    else if (is(first, "shut"))
        step_log_shut(&rig.log, step, phase);
    else if (is(first, "await"))
        step_log_await(&rig.log, step, whole(word));
    else if (is(first, "more"))
        step_log_await(&rig.log, step,
                       step_log_ended(&rig.log, step) + whole(word));
    else if (is(first, "steps"))
        expect("steps", range(word),
               step_log_count(&rig.log, is(step, "all") ? NULL : step));
    else
        fail_msg("'%s' is no statement", first);
}

static void do_else(char *text)
{
    char *rest = NULL;
    const char *first = strtok_r(text, " ", &rest);

    if (is(first, "join"))
        join();
    else if (is(first, "still"))
        assert_false(atomic_load(&play.beside.is_done));
    else if (is(first, "gate"))
        step_log_await_gate(&rig.log, 1);
    else if (is(first, "open"))
        step_log_open(&rig.log);
    else if (is(first, "forget"))
        step_log_reset(&rig.log);
    else if (is(first, "watchdog"))
        rig.watchdog_lease_ms = whole(rest);
    else if (is(first, "commands"))
        rig.command_timeout_ms = whole(rest);
    else if (is(first, "lock"))
        (void)snprintf(play.lock, sizeof(play.lock), "%s", rest);
    else if (is(first, "labelled")) {
        (void)snprintf(play.label, sizeof(play.label), "%s", rest);
        rig.label = rest[0] != '\0' ? play.label : NULL;
    } else if (is(first, "held") || is(first, "free"))
        expect("held",
               range(is(first, "free") ? "0"
                     : rest[0] != '\0' ? rest
                                       : "1"),
               play.nodes_n > 0 ? node_rig_held() : lock_rig_is_held());
    else if (is(first, "mend"))
        node_rig_mend();
    else if (is(first, "probe"))
        expect_status(cut_at_arrow(rest), lock_rig_probe(play.lock, "k"), "");
    else if (is(first, "listen"))
        play.listener = redis_server_listen(rig.server, rest);
    else if (is(first, "heard"))
        expect("heard", range(rest),
               redis_server_heard(play.listener,
                                  whole(rest) > 0 ? LOCK_RIG_PROMPT_MS : 50));
    else if (is(first, "sleep"))
        lock_rig_sleep_ms(whole(rest));
    else if (is(first, "clock"))
        play.clock_ms = lock_rig_now_ms();
    else if (is(first, "took"))
        expect("took", range(rest),
               (long long)(lock_rig_now_ms() - play.clock_ms));
    else if (is(first, "server"))
        serve(rest);
    else if (is(first, "lost")) {
        const char *n = next_word(&rest);
        const char *told = dlock_loss_text(lock_rig_await_lost(whole(n)));

        if (strstr(told, rest) == NULL)
            wrong(rest, told);
    } else
        do_steps(first, rest);
}

/* STATEMENT with the owner id of a for $a. */
static void fill_in(char text[TEXT_BYTES_MAX], const char *statement)
{
    const char *dollar = strchr(statement, '$'), *owner = "", *rest = "";

    if (dollar != NULL) {
        owner = dlock_session_owner(party_of(dollar + 1)->session);
        rest = dollar + 2;
    }
    (void)snprintf(text, TEXT_BYTES_MAX, "%.*s%s%s",
                   (int)strcspn(statement, "$"), statement, owner, rest);
}

static void do_statement(const char *statement)
{
    const uint64_t until_ms = lock_rig_now_ms() + LOCK_RIG_LONG_MS;
    const bool told = strncmp(statement, "told ", 5) == 0;
    char text[TEXT_BYTES_MAX], word[8] = "";
    struct act act;

    play.statement = statement;
    play.is_wrong = false;
    fill_in(text, statement);
    (void)sscanf(statement, "%7s", word);
    if (is(word, "&")) {
        parse_act(&play.beside, statement + 2);
        play.is_beside = true;
        assert_int_equal(
            pthread_create(&play.thread, NULL, act_beside, &play.beside), 0);
    } else if (is(word, "until")) {
        do {
            play.is_asking = lock_rig_now_ms() < until_ms;
            lock_rig_sleep_ms(1);
            do_statement(statement + strlen("until "));
        } while (play.is_wrong);
        play.is_asking = false;
    } else if (is_party(word) || told) {
        parse_act(&act, statement + (told ? strlen("told ") : 0));
        do
            act.status = do_verb(&act);
        while (told && node_is_uncertain(act.status) &&
               lock_rig_now_ms() < until_ms);
        check_act(&act);
    } else if (isupper((unsigned char)word[0]) || word[0] == '@')
        ask_server(text);
    else
        do_else(text);
}

/* LOCK may be "multi:3", on three servers, or "redlock:5". */
int lock_story_fresh(void **state)
{
    const char *lock = *state, *colon = strchr(lock, ':');

    memset(&play, 0, sizeof(play));
    (void)snprintf(play.lock, sizeof(play.lock), "%.*s",
                   (int)strcspn(lock, ":"), lock);
    play.nodes_n = colon != NULL ? whole(colon + 1) : 0;
    if (colon == NULL)
        (void)lock_rig_fresh(NULL);
    else if (is(play.lock, "redlock"))
        node_rig_redlock(play.nodes_n, NODE_RIG_LONGEST_MS);
    else
        node_rig_fresh(play.nodes_n);
    if (lock_story_host != NULL)
        lock_story_host->fresh(lock);
    return 0;
}

static void play_with(const struct lock_story *story, char *lock)
{
    char text[2000], *rest = NULL;
    void *state = lock;

    (void)lock_story_fresh(&state);
    play.what = story->what;
    assert_true(strlen(story->story) < sizeof(text));
    (void)snprintf(text, sizeof(text), "%s", story->story);
    print_message("# %s (%s)\n", story->what, lock);
    for (char *each = strtok_r(text, ";", &rest); each != NULL;
         each = strtok_r(NULL, ";", &rest))
        do_statement(each + strspn(each, " "));
    join();
    if (play.listener > 0)
        (void)close(play.listener);
}

void lock_story_play(const struct lock_story stories[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char locks[200], *rest = NULL;

        (void)snprintf(locks, sizeof(locks), "%s", stories[i].locks);
        for (char *lock = strtok_r(locks, " ", &rest); lock != NULL;
             lock = next_word(&rest))
            play_with(&stories[i], lock);
    }
}

/* See lock_story.h. */
#include "tests/support/lock_story.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/async_note.h"
#include "tests/support/lock_rig.h"
#include "tests/support/node_rig.h"

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

enum { HOLDS, TOKEN, LEFT, HELD, RANGES_N };
static const char *const range_words[] = {"holds", "token", "left", "held"};

/* What somebody does. */
struct act {
    char text[TEXT_BYTES_MAX]; /* taken apart */
    const char *statement;     /* as it was */
    struct party *party;
    struct hold *hold;
    enum dlock_status (*does)(struct act *act);
    const char *name;
    struct dlock_terms terms;
    struct range ranges[RANGES_N];
    struct party *other;
    bool is_nobodys;
    const char *statuses, *says;
    enum dlock_status status;
    struct dlock_error error;
    struct dlock_holder holder;
    atomic_bool is_done;
};

static struct {
    const char *what;
    char lock[24];
    unsigned nodes_n; /* 0 = the one server of lock_rig.h */
    struct step_log *log;
    const char *statement;
    struct party parties[PARTIES_N];
    uint64_t token, clock_ms; /* the last token; when the clock was set */
    bool is_asking, is_wrong; /* of "until" */
    struct act beside;        /* by the thread */
    pthread_t thread;
    bool is_beside;
} play;

static void wrong(const char *found)
{
    play.is_wrong = true;
    if (!play.is_asking)
        fail_msg("%s (%s): '%s': %s", play.what, play.lock, play.statement,
                 found);
}

/* Words ------------------------------------------------------------------------ */

static char *next_word(char **rest)
{
    return strtok_r(NULL, " ", rest);
}

/* The words behind "->", or NULL; TEXT ends before it. */
static char *cut_at_arrow(char *text)
{
    char *arrow = strstr(text, "-> ");

    if (arrow == NULL)
        return NULL;
    *arrow = '\0';
    return arrow + strlen("-> ");
}

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
        wrong("there is no number");
    return found;
}

static struct range range(const char *word)
{
    const char *dots = word != NULL ? strstr(word, "..") : NULL;
    struct range range = {.from = number(word), .is_asked = true};

    range.to = dots == NULL      ? range.from
               : dots[2] != '\0' ? number(dots + 2)
                                 : INT64_MAX;
    return range;
}

static void expect(const char *what, struct range expected, long long found)
{
    char text[80];

    if (!expected.is_asked || (found >= expected.from && found <= expected.to))
        return;
    (void)snprintf(text, sizeof(text), "%s: %lld", what, found);
    wrong(text);
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
    char found[300];

    if (strstr(statuses != NULL ? statuses : "ok", words[status]) != NULL)
        return;
    (void)snprintf(found, sizeof(found), "%s: %s", words[status], text);
    wrong(found);
}

/* Who, and what they do -------------------------------------------------------- */

static bool is_party(const char *word)
{
    return word[0] >= 'a' && word[0] <= 'd' &&
           (word[1] == '\0' || strcmp(word + 1, "2") == 0);
}

/* It comes when it is first told of. */
static struct party *party_of(const char *word)
{
    struct party *first = &play.parties[2 * (word[0] - 'a')];
    struct party *party = first + (word[1] == '2');

    if (first->client == NULL && play.nodes_n > 0) {
        struct node_user user = node_rig_user(play.lock);

        first->client = user.client;
        first->session = user.session;
    } else if (first->client == NULL)
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

static enum dlock_status takes(struct act *act)
{
    return dlock_acquire(act->party->session, act->name, &act->terms,
                         &act->hold->grant, &act->error);
}

static enum dlock_status tries(struct act *act)
{
    return dlock_try(act->party->session, act->name, &act->terms,
                     &act->hold->grant, &act->error);
}

static enum dlock_status gives(struct act *act)
{
    return dlock_release(act->party->session, &act->hold->grant, &act->error);
}

static enum dlock_status extends(struct act *act)
{
    return dlock_extend(act->party->session, &act->hold->grant,
                        act->terms.lease_ms, &act->error);
}

static enum dlock_status forces(struct act *act)
{
    return dlock_force_release(act->party->session, act->name, &act->error);
}

static enum dlock_status begins(struct act *act)
{
    act->party->note = (struct note){.n = 0};
    return dlock_acquire_async(act->party->session, act->name, &act->terms,
                               note_done, &act->party->note, &act->error);
}

static enum dlock_status ends(struct act *act)
{
    enum dlock_status status = note_await(&act->party->note);

    assert_int_equal(act->party->note.granted, status == DLOCK_OK);
    if (status == DLOCK_OK)
        act->hold->grant = act->party->note.grant;
    (void)snprintf(act->error.text, sizeof(act->error.text), "%s",
                   act->party->note.text);
    return status;
}

static enum dlock_status waits(struct act *act)
{
    assert_int_equal(atomic_load(&act->party->note.n), 0);
    return DLOCK_OK;
}

static enum dlock_status cancels(struct act *act)
{
    dlock_cancel(act->party->session);
    return DLOCK_OK;
}

static enum dlock_status stops(struct act *act)
{
    dlock_end_waits(act->party->client);
    return DLOCK_OK;
}

static enum dlock_status sees(struct act *act)
{
    return dlock_inspect(act->party->session, act->name, &act->holder,
                         &act->error);
}

static enum dlock_status has(struct act *act)
{
    (void)act;
    return DLOCK_OK;
}

static enum dlock_status dies(struct act *act)
{
    dlock_session_close(act->party->session);
    act->party->session = NULL;
    return DLOCK_OK;
}

static enum dlock_status closes(struct act *act)
{
    lock_rig_close(act->party->client);
    *act->party = (struct party){.client = NULL};
    return DLOCK_OK;
}

static enum dlock_status poses(struct act *act)
{
    struct dlock_grant *grant = &act->hold->grant;

    *grant = act->other->holds[0].grant;
    (void)snprintf(grant->name, sizeof(grant->name), "%s", act->name);
    lock_rig_pass_off(act->party->session, grant);
    return DLOCK_OK;
}

static const struct {
    const char *word;
    enum dlock_status (*does)(struct act *act);
} verbs[] = {{"takes", takes},     {"tries", tries},   {"gives", gives},
             {"extends", extends}, {"forces", forces}, {"begins", begins},
             {"ends", ends},       {"waits", waits},   {"cancels", cancels},
             {"stops", stops},     {"sees", sees},     {"has", has},
             {"dies", dies},       {"closes", closes}, {"poses", poses}};

/* A token may be told of by the last one. */
static struct range range_of(const char *value)
{
    long long last = (long long)play.token;

    if (strcmp(value, "same") == 0)
        return (struct range){last, last, true};
    if (strcmp(value, "next") == 0)
        return (struct range){last + 1, last + 1, true};
    if (strcmp(value, "rises") == 0)
        return (struct range){last + 1, INT64_MAX, true};
    return range(value);
}

static void take_value(struct act *act, const char *word, const char *value)
{
    for (size_t i = 0; i < RANGES_N; i++)
        if (strcmp(word, range_words[i]) == 0) {
            act->ranges[i] = range_of(value);
            return;
        }
    if (strcmp(word, "wait") == 0)
        act->terms.wait_ms = (unsigned)number(value);
    else if (strcmp(word, "max") == 0)
        act->terms.max_hold_ms = (unsigned)number(value);
    else if (strcmp(word, "floor") == 0)
        act->terms.fence_floor = (uint64_t)number(value);
    else if (strcmp(word, "name") == 0)
        act->name = value;
    else if (strcmp(value, "nobody") == 0)
        act->is_nobodys = true;
    else if (strcmp(word, "owner") == 0 || strcmp(word, "as") == 0)
        act->other = party_of(value);
    else
        wrong("it has a word that there is not");
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
    word = next_word(&rest);
    for (size_t i = 0; i < COUNT_OF(verbs) && word != NULL; i++)
        if (strcmp(verbs[i].word, word) == 0)
            act->does = verbs[i].does;
    if (act->does == NULL)
        fail_msg("'%s': there is no such verb", statement);
    while ((word = next_word(&rest)) != NULL) {
        if ((value = strchr(word, '=')) != NULL) {
            *value = '\0';
            take_value(act, word, value + 1);
        } else if (is_number(word, &ms))
            act->terms.lease_ms = (unsigned)ms;
        else if (strcmp(word, "fenced") == 0)
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

static void check_act(const struct act *act)
{
    const struct dlock_grant *grant = &act->hold->grant;
    const struct dlock_holder *holder = &act->holder;
    bool saw = act->does == sees;
    uint64_t token = saw ? holder->token : grant->token;
    uint64_t left_ms = act->ranges[LEFT].is_asked && !saw
                           ? dlock_remaining_ms(act->party->session, grant)
                           : holder->remaining_ms;
    long long found[RANGES_N] = {[HOLDS] = saw ? holder->holds : grant->holds,
                                 [TOKEN] = (long long)token,
                                 [LEFT] = (long long)left_ms,
                                 [HELD] = holder->held};
    const char *text = act->error.text;

    play.statement = act->statement;
    expect_status(act->statuses, act->status, text);
    if (act->says != NULL &&
        (strncmp(act->says, "..", 2) == 0 ? strstr(text, act->says + 2) == NULL
                                          : strcmp(text, act->says) != 0))
        wrong(text);
    for (size_t i = 0; i < RANGES_N; i++)
        expect(range_words[i], act->ranges[i], found[i]);
    if (saw && (act->other != NULL || act->is_nobodys) &&
        strcmp(holder->owner,
               act->is_nobodys ? ""
                               : dlock_session_owner(act->other->session)) != 0)
        wrong(holder->owner);
    if (act->status == DLOCK_OK && token > 0)
        play.token = token;
}

static void *act_beside(void *arg)
{
    struct act *act = arg;

    act->status = act->does(act);
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

/* Servers have the order of their addresses, in which multi takes them. */
static unsigned node_of(const char *word)
{
    unsigned rank = (unsigned)number(word);

    for (unsigned i = 0; i < play.nodes_n; i++) {
        unsigned before = 0;

        for (unsigned k = 0; k < play.nodes_n; k++)
            before += strcmp(redis_server_url(nodes.servers[k]),
                             redis_server_url(nodes.servers[i])) < 0;
        if (before == rank)
            return i;
    }
    fail_msg("there is no server %u", rank);
    return 0;
}

/* With $a, the owner id of a; at one of several, if it begins with "@1 ". */
static void ask_server(char *text)
{
    const struct redis_server *server = rig.server;
    const char *answer = cut_at_arrow(text);
    char command[TEXT_BYTES_MAX + 100];
    char *dollar;

    if (text[0] == '@') {
        server = nodes.servers[node_of(text + 1)];
        text += strlen("@1 ");
    }
    dollar = strchr(text, '$');
    if (dollar != NULL) {
        const char who[2] = {dollar[1], '\0'};

        (void)snprintf(command, sizeof(command), "%.*s%s%s",
                       (int)(dollar - text), text,
                       dlock_session_owner(party_of(who)->session), dollar + 2);
    } else
        (void)snprintf(command, sizeof(command), "%s", text);
    if (answer == NULL)
        redis_server_ask(server, command, NULL, 0);
    else
        expect("the server says", range(answer),
               redis_server_number(server, command));
}

static void serve(char *rest)
{
    static const struct {
        const char *how;
        void (*one)(struct redis_server *server);
        void (*of_several)(unsigned node);
    } ways[] = {{"kill", redis_server_kill, node_rig_kill},
                {"restart", redis_server_restart, node_rig_restart},
                {"pause", redis_server_pause, node_rig_pause},
                {"resume", redis_server_resume, node_rig_resume}};
    const char *how = next_word(&rest);

    for (size_t i = 0; i < COUNT_OF(ways); i++)
        if (strcmp(how, ways[i].how) == 0 && play.nodes_n > 0)
            ways[i].of_several(node_of(next_word(&rest)));
        else if (strcmp(how, ways[i].how) == 0)
            ways[i].one(rig.server);
}

static unsigned held_n(void)
{
    return play.nodes_n > 0 ? node_rig_held() : lock_rig_is_held();
}

static void set_ms(unsigned *of_one, unsigned *of_several, const char *word)
{
    *(play.nodes_n > 0 ? of_several : of_one) = (unsigned)number(word);
}

static void nap(void *ms)
{
    lock_rig_sleep_ms(*(unsigned *)ms);
}

static void expect_lost(unsigned n, const char *reason)
{
    static const char *const words[DLOCK_LOSS_N] = {
        [DLOCK_LOSS_EXPIRED] = "expired",
        [DLOCK_LOSS_FORCED] = "forced",
        [DLOCK_LOSS_TAKEN] = "taken",
        [DLOCK_LOSS_FLUSHED] = "flushed",
        [DLOCK_LOSS_OVERHELD] = "overheld",
        [DLOCK_LOSS_UNREACHABLE] = "unreachable"};
    enum dlock_loss loss =
        play.nodes_n > 0 ? node_rig_await_lost(n) : lock_rig_await_lost(n);

    if (reason != NULL && strcmp(words[loss], reason) != 0)
        wrong(words[loss]);
}

static void do_steps(const char *first, char *rest)
{
    const char *step = next_word(&rest), *word = next_word(&rest);
    const char *node = strchr(rest, '@');
    struct step_log *log = play.log;
    static unsigned nap_ms;
    enum dlock_phase phase =
        word != NULL && strcmp(word, "after") == 0 ? DLOCK_AFTER : DLOCK_BEFORE;

    if (strcmp(first, "nap") == 0) {
        nap_ms = (unsigned)number(next_word(&rest));
        node_rig_call(node_of(node + 1), step, phase, nap, &nap_ms);
    } else if (strcmp(first, "fail") == 0 && node != NULL)
        node_rig_fail(node_of(node + 1), step, phase,
                      (unsigned)number(next_word(&rest)));
    else if (strcmp(first, "shut") == 0)
        step_log_shut(log, step, phase);
    else if (strcmp(first, "fail") == 0)
        step_log_fail(log, step, phase, (unsigned)number(next_word(&rest)));
    else if (strcmp(first, "also") == 0)
        step_log_fail_also(log, step, phase,
                           (unsigned)number(next_word(&rest)));
    else if (strcmp(first, "await") == 0)
        step_log_await(log, step, (unsigned)number(word));
    else if (strcmp(first, "more") == 0)
        step_log_await(log, step,
                       step_log_ended(log, step) + (unsigned)number(word));
    else if (strcmp(first, "steps") == 0)
        expect("steps", range(word),
               step_log_count(log, strcmp(step, "all") == 0 ? NULL : step));
    else
        fail_msg("'%s' is no statement", first);
}

static void do_else(char *text)
{
    char *rest = NULL;
    const char *first = strtok_r(text, " ", &rest);

    if (strcmp(first, "join") == 0)
        join();
    else if (strcmp(first, "still") == 0)
        assert_false(atomic_load(&play.beside.is_done));
    else if (strcmp(first, "gate") == 0)
        step_log_await_gate(play.log, 1);
    else if (strcmp(first, "open") == 0)
        step_log_open(play.log);
    else if (strcmp(first, "forget") == 0)
        step_log_reset(play.log);
    else if (strcmp(first, "watchdog") == 0)
        set_ms(&rig.watchdog_lease_ms, &nodes.watchdog_lease_ms, rest);
    else if (strcmp(first, "commands") == 0)
        set_ms(&rig.command_timeout_ms, &nodes.command_timeout_ms, rest);
    else if (strcmp(first, "lock") == 0)
        (void)snprintf(play.lock, sizeof(play.lock), "%s", rest);
    else if (strcmp(first, "held") == 0)
        expect("held", range(rest[0] != '\0' ? rest : "1"), held_n());
    else if (strcmp(first, "free") == 0)
        expect("held", range("0"), held_n());
    else if (strcmp(first, "mend") == 0)
        node_rig_mend();
    else if (strcmp(first, "probe") == 0)
        expect_status(cut_at_arrow(rest), lock_rig_probe(play.lock, "k"), "");
    else if (strcmp(first, "sleep") == 0)
        lock_rig_sleep_ms((unsigned)number(rest));
    else if (strcmp(first, "clock") == 0)
        play.clock_ms = lock_rig_now_ms();
    else if (strcmp(first, "took") == 0)
        expect("took", range(rest),
               (long long)(lock_rig_now_ms() - play.clock_ms));
    else if (strcmp(first, "server") == 0)
        serve(rest);
    else if (strcmp(first, "lost") == 0) {
        first = next_word(&rest);
        expect_lost((unsigned)number(first), next_word(&rest));
    } else
        do_steps(first, rest);
}

static void do_statement(const char *statement)
{
    const uint64_t until_ms = lock_rig_now_ms() + LOCK_RIG_LONG_MS;
    char text[TEXT_BYTES_MAX], word[8] = "";
    struct act act;

    play.statement = statement;
    play.is_wrong = false;
    (void)snprintf(text, sizeof(text), "%s", statement);
    (void)sscanf(statement, "%7s", word);
    if (strcmp(word, "&") == 0) {
        parse_act(&play.beside, statement + 2);
        play.is_beside = true;
        assert_int_equal(
            pthread_create(&play.thread, NULL, act_beside, &play.beside), 0);
    } else if (strcmp(word, "told") == 0) {
        parse_act(&act, statement + strlen("told "));
        do
            act.status = act.does(&act);
        while (node_is_uncertain(act.status) && lock_rig_now_ms() < until_ms);
        check_act(&act);
    } else if (strcmp(word, "until") == 0) {
        do {
            play.is_asking = lock_rig_now_ms() < until_ms;
            lock_rig_sleep_ms(1);
            do_statement(statement + strlen("until "));
        } while (play.is_wrong);
        play.is_asking = false;
    } else if (is_party(word)) {
        parse_act(&act, statement);
        act.status = act.does(&act);
        check_act(&act);
    } else if (isupper((unsigned char)word[0]) || word[0] == '@')
        ask_server(text);
    else
        do_else(text);
}

/* Of several servers; those of lock_rig.h are closed by that. */
static void close_parties(void)
{
    for (size_t i = 0; i < PARTIES_N && play.nodes_n > 0; i += 2) {
        dlock_close(play.parties[i].client);
        play.parties[i].client = NULL;
    }
}

/* LOCK may be "multi:3", on three servers, or "redlock:5". */
static void set_up(const char *lock)
{
    const char *colon = strchr(lock, ':');

    memset(&play, 0, sizeof(play));
    (void)snprintf(play.lock, sizeof(play.lock), "%.*s",
                   (int)strcspn(lock, ":"), lock);
    play.log = &rig.log;
    if (colon == NULL) {
        assert_int_equal(lock_rig_fresh(NULL), 0);
        return;
    }
    play.nodes_n = (unsigned)number(colon + 1);
    play.log = &nodes.log;
    if (strcmp(play.lock, "redlock") == 0)
        node_rig_redlock(play.nodes_n, NODE_RIG_LONGEST_MS);
    else
        node_rig_fresh(play.nodes_n);
    step_log_reset(&nodes.log);
}

static void play_with(const struct lock_story *story, const char *lock)
{
    char text[2000], *rest = NULL;

    close_parties();
    set_up(lock);
    play.what = story->what;
    assert_true(strlen(story->story) < sizeof(text));
    (void)snprintf(text, sizeof(text), "%s", story->story);
    print_message("# %s (%s)\n", story->what, lock);
    for (char *each = strtok_r(text, ";", &rest); each != NULL;
         each = strtok_r(NULL, ";", &rest))
        do_statement(each + strspn(each, " "));
    join();
    close_parties();
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

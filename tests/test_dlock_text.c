/*
 * A lock as a text (lock/textbook/text.h): what is no text is refused with line and word,
 * none can loop nor touch a key that is not its own, its words say what it can do, and a
 * reply that it does not name is no success.
 */
#include "lock/textbook/textbook.h"
#include "tests/support/lock_rig.h"

static char path[TEMP_DIR_BYTES_MAX + 16];

/* Opens TEXT as a lock of one's own, under a name that is new each time. */
static enum dlock_status open_text(const char *text, bool scripts,
                                   struct dlock_error *error)
{
    static unsigned n;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%u.lock", rig.dir.path, n++);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return dlock_textbook_open(path, scripts, error);
}

#define TAKE    "take\n  SET $name $owner NX PX $lease -> OK taken, else busy\n"
#define RELEASE "release\n  DEL $name -> 1 done, else lost\n"
#define SCRIPT(lua)                                                            \
    TAKE "release\n  EVAL $owner -> 1 done, else lost\n    " lua "\n"

static const struct {
    const char *text, *error;
} faults[] = {
    {"", ": there is no part 'take'"},
    {TAKE, ": there is no part 'release'"},
    {"owner nobody\n" TAKE RELEASE, ":1: 'nobody': constant, number or random"},
    {"# one\n\ncolour red\n", ":3: 'colour': a line begins with"},
    {"  DEL $name -> 1 done\n", ":1: 'DEL $name -> 1 done': take, renew"},
    {"take now\n", ":1: 'now': commands stand below"},
    {"take\n  SET $name $owner\n", ":2: 'SET $name $owner': ->"},
    {"take\n  -> OK taken\n", ":2: '->': a command stands before it"},
    {"take\n  SET $name 1 ->\n", ":2: 'set': nothing stands behind"},
    {"take\n  SET $name 1 -> OK\n", ":2: 'OK': a reply and what it means"},
    {"take\n  GET $name -> 1 busy, 2 busy, 3 busy, 4 busy, 5 busy, 6 busy, 7 "
     "busy\n",
     ":2: 'get': too many replies"},
    {"take\n  SET $name 1 -> OK done\n", ":2: 'done': take ends with"},
    {TAKE "release\n  DEL $name -> 1 taken\n", ":4: 'taken': only take"},
    {"take\n  SET $name 1 -> $lease taken\n", ":2: '$lease': the reply is"},
    {"take\n  SET $name $lese -> OK taken\n", ":2: '$lese': there are"},
    {"take\n  BLPOP $name 0 -> nil busy\n", ":2: 'BLPOP': no command"},
    {"take\n  GET -> nil busy\n", ":2: 'GET': of which key"},
    {"take\n  DEL $name:a $name:b $name:c $name:d $name:e $name:f -> 1 "
     "taken\n",
     ":2: '$name:f': too often"},
    {"take\n  HSET $name $lease $lease $lease $lease $lease $lease $lease "
     "$lease $lease -> else taken\n",
     ":2: '$lease': too often"},
    {"take\n  SET other 1 -> OK taken\n", ":2: 'other': a lock's text"},
    {"take\n  DEL $name other -> 1 taken\n", ":2: 'other': a lock's text"},
    {"take\n  SET $name:{x} 1 -> OK taken\n", ":2: '$name:{x}': there are"},
    /* Further down only: no loop. */
    {"take\n  GET $name -> nil next, else get\n  SET $name 1 -> OK get\n",
     ":2: 'get': neither taken, busy"},
    {TAKE "release\n  DEL $name -> 1 next\n", ":4: 'next': there is no"},
    {"take\n  EXISTS $name -> 1 busy, else taken\n" RELEASE,
     "'take': no command of it writes $name"},
    {"take\n  SETNX $name:a 1 -> 1 taken, else busy\n" RELEASE,
     "'take': no command of it writes $name"},
    {"take\n  SETNX $name 1 -> 1 busy, else busy\n" RELEASE,
     "'take': no reply of it"},
    {TAKE "release\n  EXISTS $name -> 1 done, else lost\n",
     "'release': no command of it writes $name"},
    {TAKE "release\n  DEL $name -> 1 lost, else lost\n",
     "'release': no reply of it"},
    {"renewed watchdog\ntake\n  SETNX $name 1 -> 1 taken\n" RELEASE,
     "'renewed': take sets no $lease"},
    {"renewed watchdog\n" TAKE RELEASE, "'renewed': the watchdog"},
    {TAKE "release\n  EVAL $owner -> 1 done\n", ":4: 'EVAL': its script"},
    {SCRIPT("return 1\n    while true do end"), ":6: 'while': a script"},
    {SCRIPT("local f = function () end"), ":5: 'function': a script"},
    {SCRIPT("return redis.call('get', 'x')"), ":5: 'get': a script calls"},
    {SCRIPT("return redis.call(ARGV[1], KEYS[1])"), ":5: 'redis': a script"},
    {SCRIPT("local r = redis"), ":5: 'redis': a script calls by"},
    /* To Lua the first text ends later, and then comes a function. */
    {SCRIPT("return redis.call('get\",KEYS[1],',(function() while true do "
            "end end)(),',' )--')"),
     ":5: 'get': a script calls"},
    {SCRIPT("redis.call('get ,KEYS[1],')"), ":5: 'get': a script calls"},
    {SCRIPT("redis.call('flushall', KEYS[1])"), ":5: 'flushall': no comm"},
    {SCRIPT("redis.call('del', KEYS[1], 'x')"), ":5: 'del': one key"},
    {SCRIPT("return [[x]]"), ":5: '[[': texts stand"},
    {SCRIPT("return ARGV[1]..ARGV[1]"), ":5: '..': a script joins"},
    {SCRIPT("-- a\rwhile true do end"), ":5: 'while': a script"},
    {SCRIPT("--[[\n    ' ]] while true do end --'"), ":5: '--[': a comm"},
    {SCRIPT("--[=[\n    ' ]=] while true do end --'"), ":5: '--[': a comm"},
    {SCRIPT("redis.call('get', KEYS[1] and 'x')"), ":5: 'get': a script"},
    {SCRIPT("KEYS[1] = 'x'"), ":5: 'KEYS': a key stands in a call"},
    /* Searches and repetitions, by each way to a function; and lists in lists. */
    {SCRIPT("return (ARGV[1]):find('.-.-b')"), ":5: 'find': a script calls"},
    {SCRIPT("return string.format 'x'"), ":5: 'format': a script calls"},
    {SCRIPT("return ARGV[1]['rep'](ARGV[1], 9)"), ":5: '(': a script calls"},
    {SCRIPT("local tonumber = ARGV[1].rep"), ":5: 'tonumber': a script"},
    {SCRIPT("local a = {1, 1}"), ":5: '{': a list stands behind return"},
    {SCRIPT("ARGV[1] = ARGV"), ":5: '=': a script sets one variable"},
    {SCRIPT("local a ARGV.map, a = ARGV, 1"), ":5: '=': a script sets one"},
};

LOCK_TEST(test_faults_have_line_and_word)
{
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        struct dlock_error error = {""};

        assert_int_equal(open_text(faults[i].text, true, &error), DLOCK_MISUSE);
        if (strstr(error.text, faults[i].error) == NULL)
            fail_msg("'%s' does not have '%s'", error.text, faults[i].error);
        assert_non_null(strstr(error.text, path));
        assert_null(dlock_strategy_find(path));
    }
}

LOCK_TEST(test_a_forbidden_word_may_stand_in_a_text)
{
    struct dlock_error error = {""};
    struct lock_pair pair;

    (void)open_text(SCRIPT("-- while it lasts: no redis.call('for')\n"
                           "    local a = 'redis.call(for)'\n"
                           "    return redis.call('del', KEYS[1])"),
                    true, &error);
    assert_string_equal(error.text, "");
    pair = lock_pair_open(path);
    assert_ok(lock_pair_take(&pair, 0, 0, 5000));
    assert_ok(lock_pair_give(&pair, 0));
}

LOCK_TEST(test_scripts_of_ones_own_stay_in_the_laboratory)
{
    struct dlock_error error = {""};

    assert_int_equal(open_text(SCRIPT("return 1"), false, &error),
                     DLOCK_MISUSE);
    assert_non_null(strstr(error.text, "runs in the laboratory only"));
}

LOCK_TEST(test_words_say_what_it_can)
{
    enum {
        KEY = DLOCK_CAP_REMOTE,
        LEASE = KEY | DLOCK_CAP_LEASE,
        OWNER = LEASE | DLOCK_CAP_OWNER,
        RENEWED = OWNER | DLOCK_CAP_RENEW,
        REENTRANT = RENEWED | DLOCK_CAP_REENTRANT,
    };
    static const struct {
        const char *name;
        unsigned can;
    } rows[] = {
        {"setnx", KEY},
        {"setnx-finally", KEY},
        {"setnx-expire", LEASE},
        {"setnx-expire-lua", LEASE},
        {"set-nx-px", LEASE},
        {"token-thread", LEASE},
        {"token", LEASE},
        {"token-lua", OWNER},
        {"guard-thread", OWNER},
        {"watchdog", RENEWED},
        {"reentrant-local", REENTRANT},
        {"reentrant-broken", KEY},
        {"reentrant", REENTRANT},
        {"spin", REENTRANT},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(dlock_strategy_find(rows[i].name)->capabilities,
                         rows[i].can);
        assert_non_null(dlock_textbook_text(rows[i].name));
    }
    assert_null(dlock_textbook_text("fenced"));
}

/* A counter beside the lock, which is a key of its own in the same slot; and a jump. */
LOCK_TEST(test_it_is_played)
{
    struct dlock_error error = {""};
    struct lock_pair pair;

    assert_ok(
        open_text("take\n"
                  "  SET $name $owner NX PX $lease -> nil incr, else taken\n"
                  "  GET $name -> 1 busy, 2 busy, 3 busy, 4 busy, 5 busy, "
                  "else busy\n"
                  "  INCR $name:refused -> else busy\n"
                  "release\n"
                  "  GET $name -> $owner next, else lost\n"
                  "  DEL $name -> 1 done, else lost\n",
                  false, &error));
    pair = lock_pair_open(path);
    assert_ok(lock_pair_take(&pair, 0, 0, 5000));
    assert_int_equal(lock_pair_take(&pair, 1, 0, 5000), DLOCK_BUSY);
    assert_int_equal(lock_rig_ask("INCR {k}:refused"), 2);
    lock_rig_pass_off(pair.session[1], &pair.grant[1]);
    (void)snprintf(pair.grant[1].name, sizeof(pair.grant[1].name), "k");
    assert_int_equal(lock_pair_give(&pair, 1), DLOCK_LOST);
    assert_ok(lock_pair_give(&pair, 0));
    assert_false(lock_rig_is_held());
}

LOCK_TEST(test_a_reply_that_it_does_not_name_is_no_success)
{
    struct dlock_error error = {""};
    struct lock_pair pair;
    struct dlock_terms terms = {.lease_ms = 1000};

    assert_ok(
        open_text("take\n  SET $name $owner NX PX $lease GET -> nil next, "
                  "else busy\n  INCR $name:n -> 1 taken\n" RELEASE,
                  false, &error));
    pair = lock_pair_open(path);
    (void)lock_rig_ask("INCR {k}:n");
    assert_int_equal(
        dlock_acquire(pair.session[0], "k", &terms, &pair.grant[0], &error),
        DLOCK_UNKNOWN);
    assert_non_null(strstr(error.text, ":3: it does not say what 2 means"));
    /* SET has set, and GET tells by nil what was there before: so a command that is
     * refused behind it leaves the take in doubt. */
    lock_rig_tell("SET {k}:n text");
    (void)lock_rig_ask("DEL k");
    assert_int_equal(lock_pair_take(&pair, 0, 0, 1000), DLOCK_UNKNOWN);
    assert_true(lock_rig_is_held());
}

/* A script's writes stay though it failed behind them: the take is in doubt. */
LOCK_TEST(test_a_script_that_wrote_and_failed_is_in_doubt)
{
    struct dlock_error error = {""};
    struct lock_single a;

    assert_ok(open_text("take\n  EVAL $owner -> 1 taken, else busy\n"
                        "    redis.call('set', KEYS[1], ARGV[1])\n"
                        "    redis.call('sadd', KEYS[1], 'x')\n"
                        "    return 1\n" RELEASE,
                        true, &error));
    a = lock_single_open(path);
    assert_int_equal(lock_single_take(&a, 0), DLOCK_UNKNOWN);
    assert_true(lock_rig_is_held());
    lock_single_close(&a);
}

LOCK_RIG_MAIN

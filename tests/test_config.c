/*
 * Settings: which source wins, and that every wrong value is named together
 * with what would have been right.
 */
#include "lock/backends.h" /* made by the Makefile */
#include "server/base/config.h"
#include "tests/support/unit_test.h"

static struct config config;
static char error[512];

#define ARGS_MAX 8

/* config_load() on words that end with NULL. */
static int load(const char *first, ...)
{
    char *argv[ARGS_MAX + 2] = {"serve"};
    int argc = 1;
    va_list words;

    va_start(words, first);
    for (const char *word = first; word && argc <= ARGS_MAX;
         word = va_arg(words, const char *))
        argv[argc++] = (char *)word;
    va_end(words);
    error[0] = '\0';
    return config_load(argc, argv, &config, error, sizeof(error));
}

UNIT_TEST(defaults_sell)
{
    assert_int_equal(load(NULL), 0);
    assert_string_equal(config.listen, "127.0.0.1:8080");
    assert_string_equal(config.redis, "spawn");
    assert_string_equal(config.lock, "fenced");
    assert_int_equal(config.deduct, DEDUCT_GUARDED);
    assert_int_equal(config.orders, ORDERS_BATCHED);
    assert_int_equal(config.lock_wait_ms, 1000);
    assert_false(config.shared);
    assert_false(config.help);
}

UNIT_TEST(flags_are_read)
{
    assert_int_equal(load("--lock", "token-lua", "--deduct=naive", "--orders",
                          "one-by-one", "--think-ms", "7", "--no-seed", NULL),
                     0);
    assert_string_equal(config.lock, "token-lua");
    assert_int_equal(config.deduct, DEDUCT_NAIVE);
    assert_int_equal(config.orders, ORDERS_ONE_BY_ONE);
    assert_int_equal(config.think_ms, 7);
    assert_true(config.no_seed);
}

static char path[32]; /* of the last file */

/* The same with a file of that text, which FLAG names; and with a configuration file,
 * and one more flag or none. */
static int load_with_file(const char *flag, const char *text, const char *more)
{
    int fd, status;

    strcpy(path, "/tmp/stockade-config-XXXXXX");
    fd = mkstemp(path);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    status = load(flag, path, more, NULL);
    unlink(path);
    return status;
}

static int load_file(const char *text, const char *flag)
{
    return load_with_file("--config", text, flag);
}

UNIT_TEST(flag_beats_environment_beats_file)
{
    setenv("STOCKADE_THINK_MS", "4", 1);
    setenv("STOCKADE_LOCK_WAIT_MS", "4", 1);
    assert_int_equal(load_file("workers = 3\nthink-ms = 3\nlock-wait-ms = 3\n",
                               "--lock-wait-ms=5"),
                     0);
    assert_int_equal(config.workers, 3);
    assert_int_equal(config.think_ms, 4);
    assert_int_equal(config.lock_wait_ms, 5);
    unsetenv("STOCKADE_THINK_MS");
    unsetenv("STOCKADE_LOCK_WAIT_MS");
    /* A value that is overridden need not be right. */
    assert_int_equal(load_file("workers = 300\n", "--workers=4"), 0);
}

UNIT_TEST(comments_end_a_line_of_the_file)
{
    assert_int_equal(load_file("# all\nworkers = 4 # four\nshared = no\t#no\n"
                               "db = sqlite:a#b.db ; not a comment before\n"
                               "lock-url = # none\n",
                               NULL),
                     0);
    assert_int_equal(config.workers, 4);
    assert_string_equal(config.db, "sqlite:a#b.db");
    assert_string_equal(config.lock_url, "");
}

UNIT_TEST(nothing_is_said_to_be_wrong)
{
    assert_int_equal(load_file("lock =\n", NULL), -1);
    assert_non_null(strstr(error, ":1: lock = \"\": there is no such lock"));
    assert_int_equal(load_file("workers = # none\n", NULL), -1);
    assert_non_null(strstr(error, ":1: workers = \"\": takes 1..256"));
}

UNIT_TEST(flags_alone_are_read)
{
    assert_int_equal(load("--check-config", "--workers=3", NULL), 0);
    assert_true(config.check_config);
    assert_int_equal(config.workers, 3);
    assert_int_equal(load("--help", "--workers=0", NULL), 0);
    assert_true(config.help);
}

#define X50  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X300 X50 X50 X50 X50 X50 X50

/* A file, and what its message says after "PATH:". The first wrong line counts. */
static const struct {
    const char *text, *says;
} wrong_files[] = {
    {"workers = 3\ndesk = combine\nwrkers = 3\n",
     "2: desk is no setting: it is --orders now; combine is batched"},
    {"workers = 3\nwrkers = 3\ndesk = x",
     "2: there is no setting wrkers; see stockade serve --help"},
    {"workers = 3\n[x]\n",
     "2: sections are not known here: write name = value"},
    {"workers = 3\nshared\n",
     "2: this is not a setting: write name = value, such as "},
    {"shared\n", "\"shared = yes\""},
    {"# x\n\n= 3\n", "3: this is not a setting"},
    {"workers = 3\nconfig = /dev/null\n", "2: a file cannot name another"},
    {"lock-url = " X300 "\nworkers = 0\n", "2: workers = \"0\": takes 1..256"},
    {"workers = 3\nworkers = 0\n", "2: workers = \"0\": takes 1..256"},
    {"\nlisten = nowhere # x\n", "2: listen = \"nowhere\": takes HOST:PORT"},
    {"redis = h:1\n", "1: redis = \"h:1\": takes spawn, unix:PATH, "},
    {"shared = yes\n", "1: shared = \"yes\": needs a Redis"},
    {"\ndeduct = naive\n", "2: deduct = \"naive\": goes with --orders"},
    {"admin-token-file = /no/file\n",
     "1: admin-token-file = \"/no/file\": cannot read it"},
    {"shared = maybe\n", "1: shared = \"maybe\": takes yes or no"},
    {"lock = " X300 X300 X300 X300 "\n",
     "\": is too long, of 1200 bytes: takes the name of a lock"},
    {"admin-token = s3cret\n",
     "1: admin-token is no setting: write it into a file, and give "
     "--admin-token-file"},
    {"help = yes\n", "1: help is no setting: it is a flag only, --help"},
    {"workers3\n= 3", "1: this is not a setting"},
    {"lock_wait_ms = 3",
     "1: there is no setting lock_wait_ms; see stockade serve"},
};

UNIT_TEST(wrong_file_line_is_named)
{
    for (size_t i = 0; i < COUNT_OF(wrong_files); i++) {
        assert_int_equal(load_file(wrong_files[i].text, NULL), -1);
        assert_memory_equal(error, path, strlen(path));
        if (!strstr(error, wrong_files[i].says))
            fail_msg("\"%s\" does not say \"%s\"", error, wrong_files[i].says);
    }
    assert_int_equal(load("--config", "/dev/zero", NULL), -1);
    assert_string_equal(error, "--config \"/dev/zero\": is no text: there is a "
                               "byte 0 in it");
    assert_int_equal(load_file("", NULL), 0);
    assert_int_equal(load("--config", "/tmp/nothing/here", NULL), -1);
    assert_string_equal(error, "--config \"/tmp/nothing/here\": cannot read "
                               "it: No such file or directory");
}

/* Wrong, but for the password in it. */
UNIT_TEST(passwords_are_not_shown)
{
    static const char *const words[] = {
        "--redis=redis://u:s3cret@h:",
        "--redis=redis://:s3cret",
        "--redis=redis://u:s3cret",
        "--redis=redis:u:s3cret",
        "--redis=unix:?password=s3cret",
        "--redis=redis://u:s3cret%@h:1",
        "--redis=unix:/a?pass=s3cret",
        "--redis=redis://u:s3cret,x@h:1",
        "--redis=redis://:s3cret@h/" X300 X300 X300 X300,
        "--lock-url=mysql://u:s3cret@h/d",
        "--db=mariadb://u:s3cret@h/d",
        "--admin-token=s3cret",
        "--admin-tokn=s3cret"};

    for (size_t i = 0; i < COUNT_OF(words); i++) {
        assert_int_equal(load(words[i], NULL), -1);
        assert_null(strstr(error, "s3cret"));
    }
    assert_int_equal(load("--admin-token", "s3cret", NULL), -1);
    assert_string_equal(error, "--admin-token is no setting: write it into a "
                               "file, and give --admin-token-file");
    assert_int_equal(load_file("admin-token = s3cret\n", NULL), -1);
    assert_null(strstr(error, "s3cret"));
    assert_int_equal(load_file("redis redis://:s3cret@h\n", NULL), -1);
    assert_null(strstr(error, "s3cret"));
    assert_int_equal(load_file("redis redis://:s3cret@h?a=b\n", NULL), -1);
    assert_null(strstr(error, "s3cret"));
    assert_int_equal(load_file("redis = redis://:s3cret@h:\n", NULL), -1);
    assert_non_null(strstr(error, ":1: redis = (hidden): takes spawn"));
}

UNIT_TEST(tls_is_taken_where_it_was_built_in)
{
    assert_int_equal(load("--redis", "rediss://h:1?ca=/a", NULL),
                     DLOCK_WITH_TLS ? 0 : -1);
}

#define TAKES "takes spawn, unix:PATH, redis://"

/* What was typed, and two things that the message has to say. */
static const struct {
    const char *words[3];
    const char *says[2];
} mistakes[] = {
    {{"--workers", "0"}, {"--workers", "1..256"}},
    {{"--workers", "257"}, {"--workers", "1..256"}},
    {{"--workers", "3x"}, {"--workers", "\"3x\""}},
    {{"--workers", ""}, {"--workers", "\"\""}},
    {{"--think-ms", "99999999999999999999"}, {"--think-ms", "0..60000"}},
    {{"--think-ms", "-1"}, {"--think-ms", "0..60000"}},
    {{"--log-level", "loud"}, {"--log-level", "error|warn|info"}},
    {{"--deduct", "guarded|naive"}, {"--deduct", "\"guarded|naive\""}},
    {{"--lock", "redlok"}, {"--lock", "\"redlok\""}},
    {{"--workers"}, {"--workers", "value"}},
    {{"--shred"}, {"no setting --shred", "see stockade serve --help"}},
    {{"--wait", "7"}, {"no setting --wait", "see stockade serve --help"}},
    {{"stray"}, {"stray", "no flag"}},
    {{"--db", "postgres://x"}, {"--db", "sqlite:PATH"}},
    {{"--redis", "localhost"}, {"--redis", "spawn"}},
    {{"--redis", "unix:"}, {"--redis", "unix:PATH"}},
    {{"--listen", "8080"}, {"--listen", "HOST:PORT"}},
    {{"--listen", ":80"}, {"--listen", "HOST:PORT"}},
    {{"--listen", "127.0.0.1:65536"}, {"--listen", "65535"}},
    {{"--redis", ""}, {TAKES, "sentinel://HOST,HOST/NAME or cluster://"}},
    {{"--redis", "redis://h/x"}, {"\"redis://h/x\"", "@]HOST[:PORT][/DB]"}},
    {{"--redis", "unix:a,"}, {"--redis", "commas"}},
    {{"--redis", "unix:a,spawn"}, {"--redis", "commas"}},
    {{"--lock-url", "zk:h:1"}, {"--lock-url", "--lock"}},
    {{"--config", "/tmp"}, {"--config \"/tmp\": ", "Is a directory"}},
    {{"--listen=x", "--listen", "nowhere"},
     {"--listen \"nowhere\": takes HOST", "such as"}},
    {{"--db=sqlite:x", "-abc"}, {"'-a'", "no flag"}},
    {{"--shared=yes"}, {"--shared", "no value"}},
    {{"--deduct", "naive"}, {"--deduct \"naive\":", "--orders one-by-one"}},
    {{"--lock-per", "user"}, {"--lock-per \"user\":", "--orders one-by-one"}},
    {{"--lock-per=user", "--orders=one-by-one"},
     {"without fencing tokens", "--lock redisson"}},
    {{"--lock-per=user", "--orders=one-by-one", "--lock=fenced-late"},
     {"without fencing tokens", "--lock redisson"}},
    {{"--shared"}, {"--shared", "--redis"}},
    {{"--desk", "direct"}, {"--orders", "one-by-one"}},
    {{"--desk"}, {"--desk", "--orders"}},
    {{"--desktop"}, {"--desktop", "no setting"}},
    {{"--orders", "combine"}, {"--orders", "batched|one-by-one"}},
    {{"--admin-token-file", "/tmp/nothing/here"},
     {"file \"/tmp/nothing/here\": ", "cannot read"}},
    {{"--admin-token-file", "/tmp"}, {"file \"/tmp\": ", "cannot read"}},
    {{"--admin-token-file", "/dev/null"}, {"/dev/null", "one line of 1"}},
    {{"--listen", "a:b:80"}, {"--listen", "[::1]:8080"}},
    {{"--trusted-proxy", "10.0.0.1"},
     {"--trusted-proxy", "--admin-token-file"}},
    {{"--check-config=no"}, {"--check-config", "no value"}},
    {{"--port", "8080"}, {"is no setting", "give --listen HOST:PORT"}},
    {{"--trusted-proxy", "proxy.lan"}, {"--trusted-proxy", "10.0.0.0/8"}},
};

UNIT_TEST(mistakes_are_explained)
{
    for (size_t i = 0; i < COUNT_OF(mistakes); i++) {
        const char *const *w = mistakes[i].words;

        assert_int_equal(load(w[0], w[1], w[2], NULL), -1);
        for (size_t k = 0; k < 2; k++)
            if (!strstr(error, mistakes[i].says[k]))
                fail_msg("\"%s\" does not say \"%s\"", error,
                         mistakes[i].says[k]);
    }
}

/* A variable, its value and the message; NULL: it is right. */
static const struct {
    const char *name, *value, *says;
} variables[] = {
    {"STOCKADE_WORKERS", "many", "STOCKADE_WORKERS=\"many\": takes 1..256"},
    {"STOCKADE_LISTEN", "here", "STOCKADE_LISTEN=\"here\": takes HOST:PORT"},
    {"STOCKADE_SHARED", "yes", "STOCKADE_SHARED=\"yes\": needs a Redis"},
    {"STOCKADE_CONFIG", "/tmp/nothing/here",
     "STOCKADE_CONFIG=\"/tmp/nothing/here\": cannot read it"},
    {"STOCKADE_DESK", "direct",
     "STOCKADE_DESK is no setting: it is --orders now"},
    {"STOCKADE_ADMIN_TOKEN", "s3cret",
     "STOCKADE_ADMIN_TOKEN is no setting: write it into a file"},
    {"STOCKADE_CHECK_CONFIG", "yes", NULL},
    {"STOCKADE_HELP", "yes", NULL},
    {"STOCKADE_WORKER", "3", NULL},
    {"STOCKADE_workers", "many", NULL},
    {"STOCKADE_", "3", NULL},
    {"STOCKADE_" X300, "3", NULL},
    {"STOCKADES", "3", NULL},
};

UNIT_TEST(environment_mistake_is_named)
{
    for (size_t i = 0; i < COUNT_OF(variables); i++) {
        setenv(variables[i].name, variables[i].value, 1);
        assert_int_equal(load("--orders", "batched", NULL),
                         variables[i].says ? -1 : 0);
        if (variables[i].says && !strstr(error, variables[i].says))
            fail_msg("\"%s\" does not say \"%s\"", error, variables[i].says);
        unsetenv(variables[i].name);
    }
}

/* N times "x" and MORE in a file, as the admin token. */
static int load_token(int n, const char *more)
{
    char text[200];

    (void)snprintf(text, sizeof(text), "%.*s%s", n, X300, more);
    return load_with_file("--admin-token-file", text, NULL);
}

UNIT_TEST(token_is_one_line)
{
    assert_int_equal(load_token(127, "\n"), 0);
    assert_int_equal(strlen(config.admin_token), 127);
    assert_int_equal(load_token(3, ""), 0);
    assert_string_equal(config.admin_token, "xxx");
    assert_int_equal(load_token(128, ""), -1);
    assert_int_equal(load_token(127, "\n\n"), -1);
    assert_int_equal(load_token(3, " "), -1);
    assert_int_equal(load_token(3, "\nx\n"), -1);
    assert_int_equal(load_token(0, "\n"), -1);
}

UNIT_TEST(threads_are_as_set_or_by_the_cores)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    assert_int_equal(load("--http-threads", "3", NULL), 0);
    assert_int_equal(config.http_threads, 3);
    assert_int_equal(load("--http-threads", "0", NULL), 0);
    assert_int_equal(config.http_threads, cores < 4 ? 1 : cores / 2);
}

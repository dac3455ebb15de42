/*
 * One table of settings. Whatever is said about a setting anywhere (default,
 * flag, environment, file, help, error text) is read from its row.
 */
#include "server/config.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <ini.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dlock.h"

enum kind { TEXT, NUMBER, CHOICE, LOCK, FLAG };

struct setting {
    enum kind kind;
    const char *name;  /* without the dashes */
    size_t offset;     /* into struct config */
    size_t size;       /* of the field there */
    const char *value; /* what it takes; of a choice, its words in the order
                           of the enum */
    const char *preset;
    int64_t min, max; /* of a number; of a text its shortest, if it is given */
    const char *help;
};

/* A row for each kind of setting; ranges spell themselves in the help. */
#define ROW(kind_, field, name_, ...)                                          \
    {                                                                          \
        .kind = (kind_), .name = (name_),                                      \
        .offset = offsetof(struct config, field),                              \
        .size = sizeof(((struct config *)0)->field), __VA_ARGS__               \
    }
#define TEXT_ROW(field, name_, value_, preset_, help_)                         \
    ROW(TEXT, field, name_, .value = (value_), .preset = (preset_),            \
        .help = (help_))
#define NUMBER_ROW(field, name_, min_, max_, preset_, help_)                   \
    ROW(NUMBER, field, name_, .value = #min_ ".." #max_, .preset = (preset_),  \
        .min = (min_), .max = (max_), .help = (help_))
#define CHOICE_ROW(field, name_, value_, preset_, help_)                       \
    ROW(CHOICE, field, name_, .value = (value_), .preset = (preset_),          \
        .help = (help_))
#define FLAG_ROW(field, name_, help_)                                          \
    ROW(FLAG, field, name_, .preset = "no", .help = (help_))

static const struct setting settings[] = {
    TEXT_ROW(listen, "listen", "HOST:PORT", "127.0.0.1:8080",
             "address to serve on; port 0 takes any free one"),
    TEXT_ROW(db, "db", "sqlite:PATH", "sqlite:stockade.db",
             "the database; made if it is not there"),
    TEXT_ROW(redis, "redis", "spawn|unix:PATH|redis://HOST:PORT", "spawn",
             "where locks live, commas between; spawn: a private server"),
    ROW(LOCK, lock, "lock", .value = "the name of a lock", .preset = "fenced",
        .help = "the lock strategy, see below"),
    TEXT_ROW(lock_url, "lock-url", "mysql:...|zk:HOST:PORT", "",
             "where locks live, if not in --redis"),
    NUMBER_ROW(lock_wait_ms, "lock-wait-ms", 0, 60000, "1000",
               "longest wait for a lock, then 503 lock-timeout"),
    NUMBER_ROW(lock_lease_ms, "lock-lease-ms", 0, 3600000, "0",
               "lease of a lock, if it has one; 0 = renewed if it can be"),
    NUMBER_ROW(lock_max_hold_ms, "lock-max-hold-ms", 0, 3600000, "60000",
               "renewal ends then; 0 = never"),
    CHOICE_ROW(deduct, "deduct", "guarded|naive", "guarded",
               "one conditional transaction, or as in textbooks"),
    CHOICE_ROW(orders, "orders", "batched|one-by-one", "batched",
               "many orders in one transaction, or each on its own"),
    NUMBER_ROW(workers, "workers", 1, 256, "8",
               "threads that take locks; with one-by-one, orders at a time"),
    NUMBER_ROW(think_ms, "think-ms", 0, 60000, "0",
               "business time under the lock, per order or batch"),
    FLAG_ROW(shared, "shared", "other instances sell from the same database"),
    FLAG_ROW(no_seed, "no-seed",
             "leave an empty database empty: no example products"),
    NUMBER_ROW(queue_max, "queue-max", 1, 1000000, "8192",
               "orders taken in and not answered, then 503 overloaded"),
    NUMBER_ROW(client_inflight_max, "client-inflight-max", 1, 1000000, "4096",
               "orders in flight for one address, then 429"),
    NUMBER_ROW(connections_max, "connections-max", 8, 100000, "4096",
               "open connections; further ones are not accepted"),
    NUMBER_ROW(client_connections_max, "client-connections-max", 0, 100000, "0",
               "open connections of one address; 0 = half of all"),
    NUMBER_ROW(http_threads, "http-threads", 0, 64, "0",
               "threads that read requests and write replies; 0 = one for two "
               "cores"),
    NUMBER_ROW(request_deadline_ms, "request-deadline-ms", 100, 600000, "10000",
               "from a request's first line to its end; idle as long before"),
    ROW(TEXT, admin_token, "admin-token", .value = "a text of 1 to 127 bytes",
        .preset = "", .min = 1,
        .help = "bearer token for admin calls; without it loopback may"),
    TEXT_ROW(admin_token_file, "admin-token-file", "FILE", "",
             "where the token stands instead; read again at SIGHUP"),
    TEXT_ROW(trusted_proxy, "trusted-proxy", "ADDRESS[/PREFIX],...", "",
             "proxies whose X-Forwarded-For is believed"),
    TEXT_ROW(currency, "currency", "three capital letters", "EUR",
             "of all prices, by ISO 4217; the page shows them in it"),
    CHOICE_ROW(log_level, "log-level", "error|warn|info", "info",
               "how much to log"),
    CHOICE_ROW(log_format, "log-format", "logfmt|json", "logfmt",
               "how lines of the log look"),
    FLAG_ROW(check_config, "check-config",
             "say whether the settings are right, then exit"),
    FLAG_ROW(example_config, "example-config",
             "show a file for --config, with all settings, then exit"),
    FLAG_ROW(help, "help", "show this"),
};

#define SETTINGS_N (sizeof(settings) / sizeof(settings[0]))

/* What a setting was given, and by whom. */
struct given {
    const char *prefix; /* of its name, in messages: "--"; NULL = by nobody */
    const char *text;
    char *owned; /* TEXT, if it has to be freed */
};

/* While settings are read: what each was given, and where a message goes. */
struct reading {
    struct given given[SETTINGS_N];
    bool is_wrong;       /* a line of the file; of the first such line: */
    const char *renamed; /* it has an old name, and what to say */
    char *error;
    unsigned error_size;
};

#define REFUSE(reading, ...)                                                   \
    (snprintf((reading)->error, (reading)->error_size, __VA_ARGS__), -1)

/* Sources are read from the first to the last that is asked: what another one
 * has said stays. */
static void give(struct reading *reading, size_t i, const char *prefix,
                 const char *text)
{
    struct given *given = &reading->given[i];

    if (!text || (given->prefix && given->prefix != prefix))
        return;
    given->prefix = prefix;
    given->text = text;
}

/* TEXT's place among the words of "guarded|naive" is the enum's value. */
static bool parse_choice(const char *words, const char *text, int *field)
{
    size_t len = strcspn(text, "|");

    for (int i = 0; !text[len]; i++) {
        if (strncmp(words, text, len) == 0 && strchr("|", words[len])) {
            *field = i;
            return true;
        }
        words = strchr(words, '|');
        if (!words++)
            break;
    }
    return false;
}

/* False: the setting does not take TEXT. */
static bool setting_set(const struct setting *s, const char *text,
                        struct config *config)
{
    char *field = (char *)config + s->offset, *end;
    size_t size = strlen(text) + 1;
    int64_t n;

    switch (s->kind) {
    case NUMBER:
        errno = 0;
        n = strtoll(text, &end, 10);
        memcpy(field, &n, sizeof(n));
        return !errno && end != text && !*end && n >= s->min && n <= s->max;
    case CHOICE:
        return parse_choice(s->value, text, (int *)(void *)field);
    case FLAG:
        *(bool *)field = strcmp(text, "yes") == 0;
        return *(bool *)field || strcmp(text, "no") == 0;
    case LOCK:
    case TEXT:
        if (size > s->size || (s->kind == LOCK && !dlock_strategy_find(text)))
            return false;
        memcpy(field, text, size);
        return true;
    }
    return false;
}

/* "lock-wait-ms" -> "STOCKADE_LOCK_WAIT_MS" */
static void environment_read(struct reading *reading)
{
    char name[64];

    for (size_t i = 0; i < SETTINGS_N; i++) {
        snprintf(name, sizeof(name), "STOCKADE_%s", settings[i].name);
        for (char *c = name; *c; c++)
            *c = (char)(*c == '-' ? '_' : toupper((unsigned char)*c));
        give(reading, i, "environment: --", getenv(name));
    }
}

/* Without the comment after it. */
static size_t value_size(const char *value)
{
    const char *end = strchrnul(value, '#');

    while (*end && end > value && !isspace((unsigned char)end[-1]))
        end = strchrnul(end + 1, '#');
    while (end > value && isspace((unsigned char)end[-1]))
        end--;
    return (size_t)(end - value);
}

/* Called by inih for each "name = value"; 0 tells it that the line is bad. inih
 * ends a value at " ;", and this does so at " #". */
static int file_line(void *ctx, const char *section, const char *name,
                     const char *value)
{
    struct reading *reading = ctx;
    char flag[40];
    size_t i = 0;

    while (i < SETTINGS_N && strcmp(settings[i].name, name) != 0)
        i++;
    if (*section || i == SETTINGS_N) {
        snprintf(flag, sizeof(flag), "--%s", name);
        if (!reading->is_wrong)
            reading->renamed = config_rules_renamed(flag);
        reading->is_wrong = true;
        return 0;
    }
    free(reading->given[i].owned);
    reading->given[i].owned = strndup(value, value_size(value));
    give(reading, i, "--config: ", reading->given[i].owned);
    return reading->given[i].owned != NULL;
}

static int file_read(struct reading *reading, const char *path)
{
    FILE *file = fopen(path, "r");
    int line = file ? ini_parse_file(file, file_line, reading) : -1;
    /* To read a directory fails like the end of an empty file. */
    bool unread = !file || ferror(file);
    int error = errno;

    if (file)
        fclose(file);
    if (unread)
        return REFUSE(reading, "--config: cannot read %s: %s", path,
                      strerror(error));
    if (line > 0 && reading->renamed)
        return REFUSE(reading, "--config: %s:%d: %s", path, line,
                      reading->renamed);
    if (line > 0)
        return REFUSE(reading,
                      "--config: %s:%d is not a setting; lines are like "
                      "\"lock-wait-ms = 500\", and \"shared = yes\" of a flag "
                      "without a value",
                      path, line);
    return 0;
}

/* WORD is what getopt did not understand; a cluster of letters is none of ours.
 */
static int flags_refuse(const struct reading *reading, int c, const char *word)
{
    const char *renamed = config_rules_renamed(word);

    if (renamed)
        return REFUSE(reading, "%s", renamed);
    if (c == ':')
        return REFUSE(reading, "%s needs a value; see --help", word);
    if (c == '?' && optopt && strchr(word, '='))
        return REFUSE(reading, "%.*s takes no value; see --help",
                      (int)strcspn(word, "="), word);
    if (c == '?' && optopt)
        return REFUSE(reading, "there is no flag '-%c'; see --help", optopt);
    return REFUSE(reading, "there is no flag '%s'; see --help", word);
}

static int flags_read(int argc, char *argv[], struct reading *reading,
                      const char **file)
{
    struct option options[SETTINGS_N + 2] = {
        [SETTINGS_N] = {"config", required_argument, NULL, (int)SETTINGS_N}};
    int c;

    for (size_t i = 0; i < SETTINGS_N; i++)
        options[i] = (struct option){
            settings[i].name,
            settings[i].kind == FLAG ? no_argument : required_argument, NULL,
            (int)i};
    optind = 0; /* anew, even if the last words ended in a cluster */
    while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (c == ':' || c == '?')
            return flags_refuse(reading, c, argv[optind - 1]);
        if (c == (int)SETTINGS_N)
            *file = optarg;
        else
            give(reading, (size_t)c, "--", optarg ? optarg : "yes");
    }
    return optind < argc ? flags_refuse(reading, 0, argv[optind]) : 0;
}

/* What nobody has said is as preset. */
static int settings_apply(struct reading *reading, struct config *config)
{
    const char *wrong;
    size_t min;

    for (size_t i = 0; i < SETTINGS_N; i++) {
        const struct setting *s = &settings[i];
        const struct given *given = &reading->given[i];

        min = given->prefix && s->kind == TEXT ? (size_t)s->min : 0;
        give(reading, i, "default of --", s->preset);
        if (setting_set(s, given->text, config) && strlen(given->text) >= min)
            continue;
        wrong = s->kind == LOCK ? config_rules_left_out(given->text) : NULL;
        /* A text is too long, and may have a password in it. */
        return REFUSE(reading, "%s%s takes %s, not '%s'%s", given->prefix,
                      s->name, s->value ? s->value : "yes or no",
                      s->kind == TEXT && *given->text ? "..." : given->text,
                      wrong ? wrong : "");
    }
    if (config->help)
        return 0;
    wrong = config_rules_broken(config);
    if (wrong)
        return REFUSE(reading, "%s", wrong);
    return config_rules_read_token(config, reading->error, reading->error_size);
}

int config_load(int argc, char *argv[], struct config *config, char *error,
                unsigned error_size)
{
    struct reading reading = {.error = error, .error_size = error_size};
    const char *path = getenv("STOCKADE_CONFIG");
    int status;

    memset(config, 0, sizeof(*config));
    if (getenv("STOCKADE_DESK"))
        return flags_refuse(&reading, '?', "--desk");
    status = flags_read(argc, argv, &reading, &path);
    environment_read(&reading);
    if (status == 0 && path)
        status = file_read(&reading, path);
    if (status == 0)
        status = settings_apply(&reading, config);
    for (size_t i = 0; i < SETTINGS_N; i++)
        free(reading.given[i].owned);
    return status;
}

void config_help(void)
{
    char left[80];

    printf("usage: stockade serve [--SETTING VALUE] ...\n\n"
           "Sells: POST /api/orders, and a page at /. Settings [default]:\n\n");
    for (const struct setting *s = settings; s < settings + SETTINGS_N; s++) {
        snprintf(left, sizeof(left), "--%s %s", s->name,
                 s->value ? s->value : "");
        printf("  %-30s %s", left, s->help);
        if (s->kind != FLAG && *s->preset)
            printf(" [%s]", s->preset);
        printf("\n");
    }
    printf("  %-30s %s\n", "--config FILE",
           "lines of \"setting = value\"; a flag without value takes yes");
    printf("\nEach setting is read from its flag, else from the environment\n"
           "(STOCKADE_LOCK_WAIT_MS=500), else from the file.\n\nLocks:\n");
    for (size_t i = 0; dlock_strategy_info(i); i++)
        printf("  %-16s %s\n", dlock_strategy_info(i)->name,
               dlock_strategy_info(i)->claim);
}

/* Those that are asked for, not set, are not for a file. */
void config_example(void)
{
    printf("# Settings of `stockade serve`, as they are by default: see\n"
           "# stockade.conf(5). To change one, take its # away.\n");
    for (const struct setting *s = settings;
         s->offset != offsetof(struct config, check_config); s++)
        printf("\n# %s: %s\n#%s = %s\n", s->value ? s->value : "yes|no",
               s->help, s->name, s->preset);
}

const char *config_differences(const struct config *a, const struct config *b,
                               char *names, unsigned size)
{
    size_t len = 0;

    *names = '\0';
    for (const struct setting *s = settings; s < settings + SETTINGS_N; s++)
        if (memcmp((const char *)a + s->offset, (const char *)b + s->offset,
                   s->size) != 0 &&
            len + strlen(s->name) + 2 <= size)
            len += (size_t)snprintf(names + len, size - len, "%s%s",
                                    len ? " " : "", s->name);
    return names;
}

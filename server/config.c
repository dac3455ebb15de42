/*
 * One table of settings. Everything that is said about a setting anywhere -
 * default, flag, environment variable, line in a file, help, range, error
 * text - is read from its row here, so they cannot disagree.
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
#include "server/config_rules.h"

enum kind { TEXT, NUMBER, CHOICE, LOCK, FLAG };

struct setting {
    enum kind kind;
    const char *name;  /* without the dashes */
    size_t offset;     /* into struct config */
    size_t size;       /* of the field there */
    const char *value; /* what it takes; of a choice, its words in the order
                           of the enum */
    const char *preset;
    int64_t min, max; /* of a number */
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
    CHOICE_ROW(desk, "desk", "combine|direct", "combine",
               "orders of one lock together, or one by one"),
    NUMBER_ROW(workers, "workers", 1, 256, "8",
               "threads that take locks; with direct, orders at a time"),
    NUMBER_ROW(think_ms, "think-ms", 0, 60000, "0",
               "business time under the lock, per order or batch"),
    FLAG_ROW(shared, "shared", "other instances sell from the same database"),
    FLAG_ROW(no_seed, "no-seed",
             "leave an empty database empty: no example products"),
    NUMBER_ROW(queue_max, "queue-max", 1, 1000000, "8192",
               "orders waiting at the desk, then 503 overloaded"),
    NUMBER_ROW(client_inflight_max, "client-inflight-max", 1, 1000000, "4096",
               "orders in flight for one address, then 429"),
    NUMBER_ROW(connections_max, "connections-max", 8, 100000, "4096",
               "open connections; further ones are not accepted"),
    NUMBER_ROW(http_threads, "http-threads", 1, 64, "2",
               "threads that read requests and write replies"),
    NUMBER_ROW(request_deadline_ms, "request-deadline-ms", 100, 600000, "10000",
               "from a request's first line to its end; idle as long before"),
    TEXT_ROW(admin_token, "admin-token", "a text of up to 127 bytes", "",
             "bearer token for admin calls; without it loopback may"),
    CHOICE_ROW(log_level, "log-level", "error|warn|info", "info",
               "how much to log"),
    FLAG_ROW(check_config, "check-config",
             "say whether the settings are right, then exit"),
    FLAG_ROW(help, "help", "show this"),
};

#define SETTINGS_N (sizeof(settings) / sizeof(settings[0]))

/* Where texts were given: by the file, the environment, the flags. */
struct source {
    const char *prefix;             /* "--" */
    const char *values[SETTINGS_N]; /* NULL = says nothing; presets always do */
    char *owned[SETTINGS_N];        /* what has to be freed of them */
};

struct complaint {
    char *text;
    unsigned size;
};

static int refuse(const struct complaint *error, const struct source *source,
                  const struct setting *s, const char *text)
{
    snprintf(error->text, error->size, "%s%s takes %s, not '%s'",
             source->prefix, s->name, s->value ? s->value : "yes or no", text);
    return -1;
}

static int parse_number(const struct setting *s, const char *text,
                        int64_t *number)
{
    char *end;
    long long n;

    errno = 0;
    n = strtoll(text, &end, 10);
    if (errno || end == text || *end || n < s->min || n > s->max)
        return -1;
    *number = n;
    return 0;
}

/* TEXT's place among the words of "guarded|naive" is the enum's value. */
static int parse_choice(const struct setting *s, const char *text, int *field)
{
    const char *word = s->value;
    size_t len = strcspn(text, "|");

    for (int i = 0; word && !text[len]; i++) {
        if (strncmp(word, text, len) == 0 && strchr("|", word[len])) {
            *field = i;
            return 0;
        }
        word = strchr(word, '|');
        word = word ? word + 1 : NULL;
    }
    return -1;
}

static int parse_flag(const char *text, bool *flag)
{
    bool yes = strcmp(text, "yes") == 0;

    if (!yes && strcmp(text, "no") != 0)
        return -1;
    *flag = yes;
    return 0;
}

static int parse_text(const struct setting *s, const char *text, char *field)
{
    size_t size = strlen(text) + 1;

    if (size > s->size)
        return -1;
    memcpy(field, text, size);
    return 0;
}

static int setting_set(const struct setting *s, const char *text,
                       struct config *config)
{
    void *field = (char *)config + s->offset;

    switch (s->kind) {
    case TEXT:
        return parse_text(s, text, field);
    case LOCK:
        return dlock_strategy_find(text) ? parse_text(s, text, field) : -1;
    case NUMBER:
        return parse_number(s, text, field);
    case CHOICE:
        return parse_choice(s, text, field);
    case FLAG:
        return parse_flag(text, field);
    }
    return -1;
}

/* The first of SOURCES that says something about a setting has its way. */
static int sources_apply(const struct source *const sources[], size_t n,
                         struct config *config, const struct complaint *error)
{
    size_t from;

    for (size_t i = 0; i < SETTINGS_N; i++) {
        for (from = 0; from + 1 < n && !sources[from]->values[i];)
            from++;
        if (setting_set(&settings[i], sources[from]->values[i], config) < 0)
            return refuse(error, sources[from], &settings[i],
                          sources[from]->values[i]);
    }
    return 0;
}

static void presets_read(struct source *source)
{
    for (size_t i = 0; i < SETTINGS_N; i++)
        source->values[i] = settings[i].preset;
}

/* "lock-wait-ms" -> "STOCKADE_LOCK_WAIT_MS" */
static const char *env_name(const char *name, char *buf, size_t size)
{
    snprintf(buf, size, "STOCKADE_%s", name);
    for (char *c = buf; *c; c++) {
        if (*c == '-')
            *c = '_';
        else
            *c = (char)toupper((unsigned char)*c);
    }
    return buf;
}

static void environment_read(struct source *source)
{
    char name[64];

    for (size_t i = 0; i < SETTINGS_N; i++)
        source->values[i] =
            getenv(env_name(settings[i].name, name, sizeof(name)));
}

/* Called by inih for each "name = value"; 0 tells it that the line is bad. */
static int file_line(void *ctx, const char *section, const char *name,
                     const char *value)
{
    struct source *source = ctx;

    if (*section)
        return 0;
    for (size_t i = 0; i < SETTINGS_N; i++) {
        if (strcmp(settings[i].name, name) == 0) {
            free(source->owned[i]);
            source->values[i] = source->owned[i] = strdup(value);
            return source->owned[i] != NULL;
        }
    }
    return 0;
}

static int file_read(const char *path, struct source *source,
                     const struct complaint *error)
{
    FILE *file = fopen(path, "r");
    int line = file ? ini_parse_file(file, file_line, source) : -1;
    /* Reading a directory fails like an empty file ends. */
    bool unread = !file || ferror(file);

    if (unread)
        snprintf(error->text, error->size, "--config: cannot read %s: %s", path,
                 strerror(errno));
    else if (line > 0)
        snprintf(error->text, error->size,
                 "--config: %s:%d is not a setting; lines are like "
                 "\"lock-wait-ms = 500\"",
                 path, line);
    if (file)
        fclose(file);
    return unread || line ? -1 : 0;
}

static void source_free(struct source *source)
{
    for (size_t i = 0; i < SETTINGS_N; i++)
        free(source->owned[i]);
}

/* The flags of the table, and --config, in getopt's form. */
static void options_build(struct option options[SETTINGS_N + 2])
{
    for (size_t i = 0; i < SETTINGS_N; i++)
        options[i] = (struct option){
            settings[i].name,
            settings[i].kind == FLAG ? no_argument : required_argument, NULL,
            (int)i};
    options[SETTINGS_N] =
        (struct option){"config", required_argument, NULL, (int)SETTINGS_N};
    options[SETTINGS_N + 1] = (struct option){0};
}

/* WORD is what getopt stumbled over; a cluster of letters is none of ours. */
static int flags_refuse(int c, const char *word, const struct complaint *error)
{
    const char *equals = strchr(word, '=');

    if (c == ':')
        snprintf(error->text, error->size, "%s needs a value; see --help",
                 word);
    else if (c == '?' && optopt && equals)
        snprintf(error->text, error->size, "%.*s takes no value; see --help",
                 (int)(equals - word), word);
    else if (c == '?' && optopt)
        snprintf(error->text, error->size, "there is no flag '-%c'; see --help",
                 optopt);
    else
        snprintf(error->text, error->size, "there is no flag '%s'; see --help",
                 word);
    return -1;
}

static int flags_read(int argc, char *argv[], struct source *source,
                      const char **file, const struct complaint *error)
{
    struct option options[SETTINGS_N + 2];
    int c;

    options_build(options);
    optind = 0; /* anew, even if the last words ended in a cluster */
    while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (c == ':' || c == '?')
            return flags_refuse(c, argv[optind - 1], error);
        if (c == (int)SETTINGS_N)
            *file = optarg;
        else
            source->values[c] = optarg ? optarg : "yes";
    }
    if (optind < argc)
        return flags_refuse(0, argv[optind], error);
    return 0;
}

static int config_check(const struct config *config,
                        const struct complaint *error)
{
    const char *trouble = config_rules_broken(config);

    if (trouble)
        snprintf(error->text, error->size, "%s", trouble);
    return trouble ? -1 : 0;
}

int config_load(int argc, char *argv[], struct config *config, char *error,
                unsigned error_size)
{
    struct source presets = {.prefix = "default of --"};
    struct source file = {.prefix = "--config: "};
    struct source environment = {.prefix = "environment: --"};
    struct source flags = {.prefix = "--"};
    const struct source *const sources[] = {&flags, &environment, &file,
                                            &presets};
    const struct complaint complaint = {error, error_size};
    const char *path = getenv("STOCKADE_CONFIG");
    int bad;

    memset(config, 0, sizeof(*config));
    presets_read(&presets);
    environment_read(&environment);
    bad = flags_read(argc, argv, &flags, &path, &complaint) < 0 ||
          (path && file_read(path, &file, &complaint) < 0) ||
          sources_apply(sources, 4, config, &complaint) < 0 ||
          (!config->help && config_check(config, &complaint) < 0);
    source_free(&file);
    return bad ? -1 : 0;
}

static void help_setting(const struct setting *s)
{
    char left[80];

    snprintf(left, sizeof(left), "--%s %s", s->name, s->value ? s->value : "");
    printf("  %-30s %s", left, s->help);
    if (s->kind != FLAG && *s->preset)
        printf(" [%s]", s->preset);
    printf("\n");
}

static void help_locks(void)
{
    printf("\nLocks:\n");
    for (size_t i = 0; dlock_strategy_info(i); i++)
        printf("  %-16s %s\n", dlock_strategy_info(i)->name,
               dlock_strategy_info(i)->claim);
}

void config_help(void)
{
    printf("usage: stockade serve [--SETTING VALUE] ...\n\n"
           "Sells: POST /api/orders, and a page at /. Settings [default]:\n\n");
    for (size_t i = 0; i < SETTINGS_N; i++)
        help_setting(&settings[i]);
    printf("  %-30s %s\n", "--config FILE",
           "lines of \"setting = value\"; a flag without value takes yes");
    printf("\nEach setting is read from its flag, else from the environment\n"
           "(STOCKADE_LOCK_WAIT_MS=500), else from the file.\n");
    help_locks();
}

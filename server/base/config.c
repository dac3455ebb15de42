/*
 * Reads the settings from flags, environment and file into a struct config.
 *
 * First the sources are read, and each row of the table remembers the text that it was
 * given, and by whom. Only then are the values taken, row by row: so a message can say
 * where the wrong text stands, and a source that comes later cannot undo an earlier one.
 */
#include "server/base/config.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/dlock.h"

#define NAME_BYTES_MAX  64
#define SHOWN_BYTES_MAX 80 /* of a wrong value */
#define SPACES          " \t\r\n\v\f"
#define NO_SETTING      "there is no setting %.*s; see stockade serve --help"

/* ---- the table --------------------------------------------------------------- */

/* A URL is a text that may have a password in it. Behind the settings stand names that
 * are none: an ASK is a flag only, one that is GONE was a setting of an earlier version,
 * or is one of lab serve. */
enum setting_kind { TEXT, URL, NUMBER, CHOICE, FLAG, ASK, GONE };

/* The row of a setting: every text about it is made from this. */
struct setting {
    enum setting_kind kind;
    size_t offset, size; /* in struct config */
    const char *name;    /* without the dashes */
    const char *value; /* what it takes: of a number the range, of a choice the
                            words in the order of the enum */
    const char *preset;
    const char *help; /* of no setting: what to do instead */
};

static const struct setting table[] = {
#define ROW(kind, field, ...)                                                  \
    {kind, offsetof(struct config, field),                                     \
     sizeof(((struct config *)0)->field), __VA_ARGS__},
#include "server/base/settings.inc"
};

enum { ROWS = sizeof(table) / sizeof(table[0]) };

enum { FIRST_OPTION = 256 }; /* getopt_long()'s for the first row: no letter */

void config_help(void)
{
    char left[80];

    printf("usage: stockade serve [--SETTING VALUE] ...\n\n"
           "Sells: POST /api/orders, and a page at /. Settings [default]:\n\n");
    for (const struct setting *s = table; s->kind < ASK; s++) {
        snprintf(left, sizeof(left), "--%s %s", s->name, s->value);
        printf("  %-30s %s", left, s->help);
        if (s->kind != FLAG && *s->preset)
            printf(" [%s]", s->preset);
        printf("\n");
    }
    printf("\nEach setting is read from its flag, else from the environment\n"
           "(STOCKADE_LOCK_WAIT_MS=500), else from the file. Flags only:\n\n"
           "  %-30s say whether the settings are right, then exit\n"
           "  %-30s show this\n\nLocks:\n",
           "--check-config", "--help");
    for (size_t i = 0; dlock_strategy_info(i); i++)
        printf("  %-16s %s\n", dlock_strategy_info(i)->name,
               dlock_strategy_info(i)->claim);
}

/* ---- names ------------------------------------------------------------------- */

/* The order is that in which they are asked: the first that has a value wins. */
enum source { NOBODY, FLAGS, ENVIRONMENT, CONFIG_FILE };

static const char *const prefixes[] = {"", "--", "STOCKADE_", ""};

/* How a setting is called there: "--lock-wait-ms", "STOCKADE_LOCK_WAIT_MS". */
static const char *spell(enum source source, const char *name,
                         char text[NAME_BYTES_MAX])
{
    snprintf(text, NAME_BYTES_MAX, "%s%s", prefixes[source], name);
    for (char *c = text; *c && source == ENVIRONMENT; c++)
        *c = (char)(*c == '-' ? '_' : toupper((unsigned char)*c));
    return text;
}

/* The row of what is called SHOWN there; ROWS: none is. */
static size_t find(enum source source, const char *shown)
{
    char text[NAME_BYTES_MAX];
    size_t i = 0;

    while (i < ROWS && strcmp(spell(source, table[i].name, text), shown) != 0)
        i++;
    return i;
}

/* ---- what was given, and what is wrong about it -------------------------------- */

struct reading {
    struct given {
        enum source source;
        unsigned line; /* of the file; else 0 */
        const char *text;
    } given[ROWS];
    size_t path_at;  /* the place of --config in the table */
    char *file_text; /* cut into lines, names and values */
    char *error;
    size_t error_size;
};

/* All messages are written here. LINE is that of the file, or 0. */
__attribute__((format(printf, 3, 4))) static int
refuse(const struct reading *reading, unsigned line, const char *format, ...)
{
    size_t n = 0;
    va_list args;

    if (line > 0)
        n = (size_t)snprintf(reading->error, reading->error_size,
                             "%s:%u: ", reading->given[reading->path_at].text,
                             line);
    va_start(args, format);
    if (n < reading->error_size)
        vsnprintf(reading->error + n, reading->error_size - n, format, args);
    va_end(args);
    return -1;
}

static int give(struct reading *reading, size_t i, enum source source,
                unsigned line, const char *text)
{
    char name[NAME_BYTES_MAX];

    if (table[i].kind >= ASK)
        return refuse(reading, line, "%s is no setting: %s",
                      spell(source, table[i].name, name), table[i].help);
    /* The sources are read in their order, so that the first one stays; within
     * one source the last word counts. */
    if (!reading->given[i].source || reading->given[i].source == source)
        reading->given[i] = (struct given){source, line, text};
    return 0;
}

/* A url has it before an '@' or behind a '?'. In one that is wrong the '@' may be
 * missing: a ':' behind the scheme's must be followed by a port, and follow a host. */
static bool may_have_password(const char *url)
{
    const char *at = strchr(url, ':');

    if (strpbrk(url, "@?"))
        return true;
    while (at && (at = strchr(at + 1, ':')))
        if (!isdigit((unsigned char)at[1]) || at[-1] == '/')
            return true;
    return false;
}

/* Setting I does not take its value. A password must not be shown. */
static int refuse_value(const struct reading *reading, size_t i,
                        const char *wrong)
{
    static const char *const between[] = {" ", " ", "=", " = "};
    const struct setting *s = &table[i];
    enum source source = reading->given[i].source;
    const char *text = source ? reading->given[i].text : s->preset;
    char name[NAME_BYTES_MAX], shown[SHOWN_BYTES_MAX + sizeof(" = \"...\"")];

    snprintf(shown, sizeof(shown), "%s\"%.*s%s\"", between[source],
             SHOWN_BYTES_MAX, text,
             strlen(text) > SHOWN_BYTES_MAX ? "..." : "");
    if (s->kind == FLAG && source == FLAGS)
        *shown = '\0';
    if (s->kind == URL && may_have_password(text))
        snprintf(shown, sizeof(shown), "%s(hidden)", between[source]);
    return refuse(reading, reading->given[i].line, "%s%s: %s",
                  spell(source, s->name, name), shown, wrong);
}

/* ---- where they come from ---------------------------------------------------- */

/* WORD was not taken, with C as the answer of getopt_long(). Behind its = may be a
 * password; if the flag was a letter, WORD may be the one before it. */
static int refuse_flag(const struct reading *reading, int c, const char *word)
{
    int size = (int)strcspn(word, "=");

    if (c == ':')
        return refuse(reading, 0, "%s needs a value; see --help", word);
    if (optopt > UCHAR_MAX)
        return refuse(reading, 0, "%.*s takes no value; see --help", size,
                      word);
    if (optopt)
        return refuse(reading, 0, "there is no flag '-%c'; see --help", optopt);
    return refuse(reading, 0, NO_SETTING, size, word);
}

/* A setting that is gone is an option as well, because getopt_long() takes a
 * beginning for the whole: --admin-token for --admin-token-file. */
static int flags_read(struct reading *reading, int argc, char *argv[],
                      struct config *config)
{
    static const int arguments[] = {
        [FLAG] = no_argument, [ASK] = no_argument, [GONE] = optional_argument};
    struct option options[ROWS + 1] = {0};
    int c, status = 0;

    for (int i = 0; i < ROWS; i++)
        options[i] = (struct option){
            table[i].name,
            table[i].kind < FLAG ? required_argument : arguments[table[i].kind],
            NULL, FIRST_OPTION + i};
    optind = 0; /* anew, even if the last words ended in a cluster */
    while (status == 0 &&
           (c = getopt_long(argc, argv, ":", options, NULL)) != -1)
        if (c < FIRST_OPTION)
            status = refuse_flag(reading, c, argv[optind - 1]);
        else if (table[c - FIRST_OPTION].kind == ASK)
            *((bool *)config + table[c - FIRST_OPTION].offset) = true;
        else
            status = give(reading, (size_t)(c - FIRST_OPTION), FLAGS, 0,
                          optarg ? optarg : "yes");
    if (status < 0 || optind == argc)
        return status;
    return refuse(reading, 0, "there is no flag '%s'; see --help",
                  argv[optind]);
}

/* The password is read by db/mysql, so that no setting shows it. The others that are no
 * settings Kubernetes sets in each container beside a service that is called stockade. */
static int environment_read(struct reading *reading)
{
    char name[NAME_BYTES_MAX];
    const char *end;
    size_t i;

    for (char **variable = environ; *variable; variable++) {
        end = strchrnul(*variable, '=');
        snprintf(name, sizeof(name), "%.*s", (int)(end - *variable), *variable);
        if (!*end || strncmp(name, "STOCKADE_", 9) != 0 ||
            strcmp(name, "STOCKADE_DB_PASSWORD") == 0 ||
            strcmp(name, "STOCKADE_PORT") == 0 ||
            strncmp(name, "STOCKADE_PORT_", 14) == 0 ||
            strncmp(name, "STOCKADE_SERVICE_", 17) == 0)
            continue;
        i = find(ENVIRONMENT, name);
        /* A variable that nobody knows is only told: it may be another
         * program's, while an unknown flag or line can only be meant for us. */
        if (i == ROWS || table[i].kind == ASK)
            log_warn("config", "variable=%s error=\"there is no such setting\"",
                     name);
        else if (give(reading, i, ENVIRONMENT, 0, end + 1) < 0)
            return -1;
    }
    return 0;
}

/* A comment begins the line or stands after a space. */
static int file_line(struct reading *reading, unsigned line, char *text)
{
    char name[NAME_BYTES_MAX], *end = text;
    int value = 0;
    size_t i;

    /* The end comes first, since a comment may hold anything; then the blanks
     * before it, and those at the beginning. */
    while (*end && !(strchr("#;", *end) &&
                     (end == text || isspace((unsigned char)end[-1]))))
        end++;
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    text += strspn(text, SPACES);
    if (!*text)
        return 0;
    if (*text == '[')
        return refuse(reading, line,
                      "sections are not known here: write name = value");
    /* The line is not shown, because there may be a password in it. */
    if (sscanf(text, "%63[A-Za-z0-9_-] =%n", name, &value) < 1 || value == 0)
        return refuse(reading, line,
                      "this is not a setting: write name = value, such as "
                      "\"lock-wait-ms = 500\", or \"shared = yes\" of a flag "
                      "without a value");
    i = find(CONFIG_FILE, name);
    if (i == reading->path_at)
        return refuse(reading, line, "a file cannot name another file");
    if (i == ROWS)
        return refuse(reading, line, NO_SETTING, NAME_BYTES_MAX, name);
    text += value;
    return give(reading, i, CONFIG_FILE, line, text + strspn(text, SPACES));
}

/* Not by inih: as Debian builds it, it cuts values at 200 bytes, and tells no line
 * numbers. */
static int file_read(struct reading *reading)
{
    const char *reason;
    FILE *file =
        config_rules_open(reading->given[reading->path_at].text, &reason);
    size_t size = 0;
    ssize_t n = file ? getdelim(&reading->file_text, &size, '\0', file) : -1;
    /* getdelim() gives -1 for an empty file as well, which has no settings and
     * no fault; and after an error what came before it. */
    bool is_read = file && !ferror(file) && (n >= 0 || feof(file));
    char why[128], *rest = n > 0 ? reading->file_text : NULL, *text;
    unsigned line = 0;
    int status = 0;

    snprintf(why, sizeof(why), "cannot read it: %s",
             file ? strerror(errno) : reason);
    if (file)
        fclose(file);
    if (!is_read)
        return refuse_value(reading, reading->path_at, why);
    if (rest && rest[n - 1] == '\0')
        return refuse_value(reading, reading->path_at,
                            "is no text: there is a byte 0 in it");
    while (status == 0 && (text = strsep(&rest, "\n")))
        status = file_line(reading, ++line, text);
    return status;
}

/* ---- all together ------------------------------------------------------------ */

/* TEXT's place among the words of "guarded|naive" is the enum's value. */
static bool parse_choice(const char *words, const char *text, unsigned *field)
{
    size_t len = strcspn(words, "|");

    for (*field = 0; strlen(text) != len || strncmp(words, text, len) != 0;
         ++*field) {
        if (!words[len])
            return false;
        words += len + 1;
        len = strcspn(words, "|");
    }
    return true;
}

/* False: the setting does not take TEXT. */
static bool setting_set(const struct setting *s, const char *text,
                        struct config *config)
{
    char *field = (char *)config + s->offset, *end;
    int64_t n, min = 0, max = 0;

    switch (s->kind) {
    case NUMBER:
        (void)sscanf(s->value, "%" SCNd64 "..%" SCNd64, &min, &max);
        errno = 0;
        n = strtoll(text, &end, 10);
        memcpy(field, &n, sizeof(n));
        return !errno && end != text && !*end && n >= min && n <= max;
    case CHOICE:
        return parse_choice(s->value, text, (unsigned *)(void *)field);
    case FLAG:
        *(bool *)field = strcmp(text, "yes") == 0;
        return *(bool *)field || strcmp(text, "no") == 0;
    default:
        /* A text that does not fit is refused rather than cut: a path that is
         * cut names another file. */
        return (size_t)snprintf(field, s->size, "%s", text) < s->size;
    }
}

/* An order service has no stock and no locks; its wait is longer than theirs. */
static bool is_of_inventory(size_t i)
{
    return (i >= find(NOBODY, "db") && i <= find(NOBODY, "no-seed") &&
            i != find(NOBODY, "lock-wait-ms")) ||
           strncmp(table[i].name, "lab", 3) == 0;
}

static int settings_apply(const struct reading *reading, struct config *config)
{
    const char *name, *wrong, *text;
    char why[256];

    for (size_t i = 0; table[i].kind < ASK; i++) {
        text =
            reading->given[i].source ? reading->given[i].text : table[i].preset;
        if (setting_set(&table[i], text, config))
            continue;
        snprintf(why, sizeof(why), "takes %s",
                 *table[i].value ? table[i].value : "yes or no");
        if (table[i].kind == TEXT || table[i].kind == URL)
            snprintf(why, sizeof(why), "is too long, of %zu bytes: takes %s",
                     strlen(text), table[i].value);
        return refuse_value(reading, i, why);
    }
    for (size_t i = 0; *config->inventory && table[i].kind < ASK; i++)
        if (reading->given[i].source && is_of_inventory(i))
            return refuse_value(reading, i,
                                "does not go with --inventory: an order "
                                "service has no database and no lock; say it "
                                "to the inventory services");
    /* The rules come after all settings have their values, because each looks
     * at several. */
    wrong = config_rules_broken(config, &name);
    if (wrong)
        return refuse_value(reading, find(NOBODY, name), wrong);
    if (config_rules_read_token(config, why, sizeof(why)) < 0)
        return refuse_value(reading, find(NOBODY, "admin-token-file"), why);
    if (!config_rules_fit(config, why, sizeof(why)))
        return refuse_value(reading, find(NOBODY, "connections-max"), why);
    return 0;
}

int config_load(int argc, char *argv[], struct config *config, char *error,
                unsigned error_size)
{
    struct reading reading = {.path_at = find(NOBODY, "config"),
                              .error = error,
                              .error_size = error_size};
    int status;

    memset(config, 0, sizeof(*config));
    status = flags_read(&reading, argc, argv, config);
    if (status < 0 || config->help)
        return status;
    status = environment_read(&reading);
    /* The file comes last, since a flag or a variable says which one it is. */
    if (status == 0 && reading.given[reading.path_at].source)
        status = file_read(&reading);
    if (status == 0)
        status = settings_apply(&reading, config);
    /* The texts of the file are copied into the config by now. */
    free(reading.file_text);
    return status;
}

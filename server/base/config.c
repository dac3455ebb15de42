/* Reads the settings from flags, environment and file into a struct config. */
#include "server/base/config.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/dlock.h"
#include "server/base/config_table.h"

#define NAME_BYTES_MAX  64
#define SHOWN_BYTES_MAX 80 /* of a wrong value */

/* In the order in which they are asked: the first that says something wins. */
enum source { NOBODY, FLAGS, ENVIRONMENT, CONFIG_FILE };

/* What a setting was given, and where. */
struct given {
    enum source source;
    unsigned line; /* of the file; else 0 */
    const char *text;
};

/* While settings are read: what each was given, and where a message goes. */
struct reading {
    struct given given[CONFIG_TABLE_MAX];
    size_t path_at;  /* the place of --config in the table */
    char *file_text; /* cut into lines, names and values */
    char *error;
    size_t error_size;
};

static void give(struct reading *reading, size_t i, enum source source,
                 const char *text)
{
    struct given *given = &reading->given[i];

    if (given->source && given->source != source)
        return;
    given->source = source;
    given->text = text;
}

/* ---- what is said of mistakes ------------------------------------------------ */

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

/* How a setting is called there: "--lock-wait-ms", "STOCKADE_LOCK_WAIT_MS". */
static const char *spell(enum source source, const char *name,
                         char text[NAME_BYTES_MAX])
{
    const char *prefix = source == FLAGS         ? "--"
                         : source == ENVIRONMENT ? "STOCKADE_"
                                                 : "";

    snprintf(text, NAME_BYTES_MAX, "%s%s", prefix, name);
    for (char *c = text; *c && source == ENVIRONMENT; c++)
        *c = (char)(*c == '-' ? '_' : toupper((unsigned char)*c));
    return text;
}

/* SHOWN was found at SOURCE, which is nothing's name; NAME is the same as a file
 * has it. */
static int refuse_name(const struct reading *reading, enum source source,
                       unsigned line, const char *shown, const char *name)
{
    const char *words = NULL, *now = config_rules_renamed(name, &words);
    char right[NAME_BYTES_MAX];

    if (now)
        return refuse(reading, line, "%s is called %s now: %s", shown,
                      spell(source, now, right), words);
    now = config_nearest(name);
    if (now)
        return refuse(reading, line, "there is no setting %s; is it %s?", shown,
                      spell(source, now, right));
    return refuse(reading, line,
                  "there is no setting %s; see stockade serve --help", shown);
}

/* A url has it before an '@' or behind a '?'. In one that is wrong the '@' may be
 * missing: behind a ':' that is no scheme's has to be a port, behind a host. */
static bool may_have_password(const char *url)
{
    const char *at = strstr(url, "://");

    if (strpbrk(url, "@?"))
        return true;
    for (at = at ? at + 3 : strchrnul(url, ':') + 1;
         at < url + strlen(url) && (at = strchr(at, ':')); at++)
        if (!isdigit((unsigned char)at[1]) || at[-1] == '/')
            return true;
    return false;
}

/* Setting I was given what it does not take. WRONG says what is wrong with it;
 * what may have a password in it is not shown. */
static int refuse_value(const struct reading *reading, size_t i,
                        const char *wrong)
{
    const struct setting *s = &config_table[i];
    const struct given *given = &reading->given[i];
    const char *text = given->source ? given->text : s->preset, *between;
    bool is_cut = strlen(text) > SHOWN_BYTES_MAX;
    char name[NAME_BYTES_MAX];

    spell(given->source, s->name, name);
    if (s->kind == FLAG && given->source == FLAGS)
        return refuse(reading, 0, "%s: %s", name, wrong);
    between = given->source == CONFIG_FILE   ? " = "
              : given->source == ENVIRONMENT ? "="
                                             : " ";
    if (*text && (s->secret == SECRET_WHOLE ||
                  (s->secret == SECRET_IN_URL && may_have_password(text))))
        return refuse(reading, given->line, "%s%s(hidden): %s", name, between,
                      wrong);
    return refuse(reading, given->line, "%s%s\"%.*s%s\": %s", name, between,
                  SHOWN_BYTES_MAX, text, is_cut ? "..." : "", wrong);
}

/* ---- values ------------------------------------------------------------------ */

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

/* ---- where they come from ---------------------------------------------------- */

static int flags_read(struct reading *reading, int argc, char *argv[])
{
    struct option options[CONFIG_TABLE_MAX + 1] = {0};
    char name[NAME_BYTES_MAX];
    const char *word;
    int c;

    for (size_t i = 0; i < config_table_n; i++)
        options[i] = (struct option){
            config_table[i].name,
            config_table[i].kind == FLAG ? no_argument : required_argument,
            NULL, (int)i};
    optind = 0; /* anew, even if the last words ended in a cluster */
    while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        word = argv[optind - 1];
        if (c == ':')
            return refuse(reading, 0, "%s needs a value; see --help", word);
        if (c != '?') {
            give(reading, (size_t)c, FLAGS, optarg ? optarg : "yes");
            continue;
        }
        if (optopt && optopt < (int)config_table_n)
            return refuse(reading, 0, "--%s takes no value; see --help",
                          config_table[optopt].name);
        /* A cluster of letters is none of ours. */
        if (optopt)
            return refuse(reading, 0, "there is no flag '-%c'; see --help",
                          optopt);
        /* Behind the = may be a password. */
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
        return refuse_name(reading, FLAGS, 0, name, name + 2);
    }
    if (optind == argc)
        return 0;
    return refuse(reading, 0, "there is no flag '%s'; see --help",
                  argv[optind]);
}

static int environment_read(struct reading *reading)
{
    char name[NAME_BYTES_MAX], known[NAME_BYTES_MAX], bare[NAME_BYTES_MAX];
    size_t size, i;

    for (char **variable = environ; *variable; variable++) {
        size = strcspn(*variable, "=");
        if (strncmp(*variable, "STOCKADE_", 9) != 0 || !(*variable)[size])
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)size, *variable);
        for (i = 0; i < config_table_n; i++)
            if (!strcmp(spell(ENVIRONMENT, config_table[i].name, known), name))
                break;
        if (i < config_table_n) {
            give(reading, i, ENVIRONMENT, *variable + size + 1);
            continue;
        }
        if (config_rules_foreign(name))
            continue;
        snprintf(bare, sizeof(bare), "%s", name + 9);
        for (char *c = bare; *c; c++)
            *c = (char)(*c == '_' ? '-' : tolower((unsigned char)*c));
        return refuse_name(reading, ENVIRONMENT, 0, name, bare);
    }
    return 0;
}

static char *trim(char *text)
{
    char *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text + strspn(text, " \t\r\n\v\f");
}

/* TEXT without the comment, which begins the line or stands after a space. */
static char *without_comment(char *text)
{
    char *end = text + strcspn(text, "#;");

    while (*end && end > text && !isspace((unsigned char)end[-1]))
        end += 1 + strcspn(end + 1, "#;");
    *end = '\0';
    return trim(text);
}

static int file_line(struct reading *reading, unsigned line, char *text)
{
    char *value = strchr(text = without_comment(text), '=');
    const char *name;
    size_t i;

    if (!*text)
        return 0;
    if (*text == '[')
        return refuse(reading, line,
                      "sections are not known here: write name = value");
    if (value)
        *value++ = '\0';
    name = trim(text);
    /* What is no name may have a password in it. */
    if (!value || !*name || strspn(name, CONFIG_NAME_BYTES) < strlen(name))
        return refuse(reading, line,
                      "this is not a setting: write name = value, such as "
                      "\"lock-wait-ms = 500\", or \"shared = yes\" of a flag "
                      "without a value");
    i = config_find(name);
    if (i == reading->path_at)
        return refuse(reading, line, "a file cannot name another file");
    if (i == config_table_n)
        return refuse_name(reading, CONFIG_FILE, line, name, name);
    give(reading, i, CONFIG_FILE, trim(value));
    if (reading->given[i].source == CONFIG_FILE)
        reading->given[i].line = line;
    return 0;
}

/* Not by inih: as Debian builds it, it cuts values at 200 bytes, and tells no line
 * numbers. */
static int file_read(struct reading *reading)
{
    FILE *file = fopen(reading->given[reading->path_at].text, "re");
    size_t size = 0;
    ssize_t n = file ? getdelim(&reading->file_text, &size, '\0', file) : -1;
    bool is_read = file && (n >= 0 || feof(file));
    char why[128], *rest = n > 0 ? reading->file_text : NULL, *text;
    unsigned line = 0;
    int status = 0;

    snprintf(why, sizeof(why), "cannot read it: %s", strerror(errno));
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

/* Sets it; if it was given by nobody, as preset. */
static int setting_apply(const struct reading *reading, size_t i,
                         struct config *config)
{
    const struct setting *s = &config_table[i];
    const struct given *given = &reading->given[i];
    size_t min = given->source && s->kind == TEXT ? (size_t)s->min : 0;
    const char *text = given->source ? given->text : s->preset, *wrong = NULL;
    char why[128];

    if (setting_set(s, text, config) && strlen(text) >= min)
        return 0;
    if (s->kind == LOCK)
        wrong = config_rules_left_out(text);
    if (s->kind == LOCK && !wrong)
        wrong = "there is no such lock; stockade serve --help lists them";
    if (s->kind == TEXT && *text)
        snprintf(why, sizeof(why), "is too long, of %zu bytes: takes %s",
                 strlen(text), s->value);
    else
        snprintf(why, sizeof(why), "takes %s",
                 s->value ? s->value : "yes or no");
    return refuse_value(reading, i, wrong ? wrong : why);
}

/* What was said about stock and locks is for the inventory services. */
static int check_order_service(const struct reading *reading)
{
    for (size_t i = config_find("db"); i <= config_find("no-seed"); i++)
        if (reading->given[i].source)
            return refuse_value(reading, i,
                                "does not go with --inventory: an order "
                                "service has no database and no lock; say it "
                                "to the inventory services");
    return 0;
}

static int settings_apply(const struct reading *reading, struct config *config)
{
    const char *name, *wrong;
    char why[256];

    for (size_t i = 0; i < config_table_n; i++)
        if (setting_apply(reading, i, config) < 0)
            return -1;
    if (config->help)
        return 0;
    if (*config->inventory && check_order_service(reading) < 0)
        return -1;
    wrong = config_rules_broken(config, &name);
    if (wrong)
        return refuse_value(reading, config_find(name), wrong);
    if (config_rules_read_token(config, why, sizeof(why)) == 0)
        return 0;
    return refuse_value(reading, config_find("admin-token-file"), why);
}

int config_load(int argc, char *argv[], struct config *config, char *error,
                unsigned error_size)
{
    struct reading reading = {.path_at = config_find("config"),
                              .error = error,
                              .error_size = error_size};
    int status;

    memset(config, 0, sizeof(*config));
    status = flags_read(&reading, argc, argv);
    if (status == 0)
        status = environment_read(&reading);
    if (status == 0 && reading.given[reading.path_at].source)
        status = file_read(&reading);
    if (status == 0)
        status = settings_apply(&reading, config);
    free(reading.file_text);
    return status;
}

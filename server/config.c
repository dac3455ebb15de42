/* Reads the settings from flags, environment and file into a struct config. */
#include "server/config.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/dlock.h"
#include "server/config_table.h"

/* What a setting was given, and by whom. */
struct given {
    const char *prefix; /* of its name, in messages: "--"; NULL = by nobody */
    const char *text;
    char *owned; /* TEXT, if it has to be freed */
};

/* While settings are read: what each was given, and where a message goes. */
struct reading {
    struct given given[CONFIG_TABLE_MAX];
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

    for (size_t i = 0; i < config_table_n; i++) {
        snprintf(name, sizeof(name), "STOCKADE_%s", config_table[i].name);
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

    while (i < config_table_n && strcmp(config_table[i].name, name) != 0)
        i++;
    if (*section || i == config_table_n) {
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
    struct option options[CONFIG_TABLE_MAX + 2] = {0};
    int c;

    for (size_t i = 0; i < config_table_n; i++)
        options[i] = (struct option){
            config_table[i].name,
            config_table[i].kind == FLAG ? no_argument : required_argument,
            NULL, (int)i};
    options[config_table_n] =
        (struct option){"config", required_argument, NULL, (int)config_table_n};
    optind = 0; /* anew, even if the last words ended in a cluster */
    while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (c == ':' || c == '?')
            return flags_refuse(reading, c, argv[optind - 1]);
        if (c == (int)config_table_n)
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

    for (size_t i = 0; i < config_table_n; i++) {
        const struct setting *s = &config_table[i];
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
    for (size_t i = 0; i < config_table_n; i++)
        free(reading.given[i].owned);
    return status;
}

/* See stage_options.h. */
#include "server/lab/scene/stage_options.h"

#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/store.h"

enum { INPUT_LOOK_MS = 200 };

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    /* A flag is all that a handler may set: a search or a game asks for it between
     * two moves. */
    interrupted = 1;
}

void stage_options_catch_signals(void)
{
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
}

bool stage_options_interrupted(void)
{
    return interrupted;
}

bool stage_options_wait_input(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    /* A signal that comes right before poll() would go unseen without an end. */
    while (!interrupted && poll(&input, 1, INPUT_LOOK_MS) <= 0)
        continue;
    return !interrupted;
}

bool stage_options_read_line(char *line, int size)
{
    int n = 0;
    char c = '\0';

    /* The wait comes before each byte: half a line must not keep us from a signal. */
    while (c != '\n')
        if (!stage_options_wait_input() || read(STDIN_FILENO, &c, 1) <= 0)
            return false;
        else if (c != '\n' && n < size)
            line[n++] = c;
    /* A line without room for its end was taken to its end, and is none. */
    line[n < size ? n : 0] = '\0';
    return true;
}

int stage_options_questions(int ms)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char part[100];
    ssize_t size;
    int n = 0;

    if (poll(&input, 1, ms) <= 0)
        return 0;
    size = read(STDIN_FILENO, part, sizeof(part));
    for (ssize_t i = 0; i < size; i++)
        n += part[i] == '\n';
    return size > 0 ? n : -1;
}

static bool read_number(const char *name, const char *arg, int64_t least,
                        int64_t most, int64_t *number, struct fail *error)
{
    char *end;
    long long value = strtoll(arg, &end, 10);

    /* The number is set even if it is beyond its bounds: callers use it only after
     * a yes. */
    *number = value;
    return (*arg && *end == '\0' && value >= least && value <= most) ||
           fail_with(error, "%s takes %" PRId64 " to %" PRId64, name, least,
                     most);
}

bool stage_options_number(const char *name, const char *arg, int64_t least,
                          int64_t most, int64_t *number)
{
    struct fail error;

    return read_number(name, arg, least, most, number, &error) ||
           fail_aloud("--%s", error.text);
}

/* "user=5", of a role. */
static bool set_role(struct stage_role *role, char *text, struct fail *error)
{
    char *value = strchr(text, '=');

    if (value)
        *value++ = '\0';
    /* A key is a text, and all the other settings are numbers. */
    if (value && *value && strcmp(text, "key") == 0) {
        role->key = value;
        return strlen(value) <= STORE_KEY_BYTES_MAX ||
               fail_with(error, "programs: a key has at most %d bytes",
                         STORE_KEY_BYTES_MAX);
    }
#define ROW(member, flag, words)                                               \
    if (value && strcmp(flag, text) == 0)                                      \
        return read_number(text, value, 1, 1000, &role->member, error);
#include "server/lab/scene/roles.inc"
    return fail_with(
        error,
        "programs: '%s' is no setting; they are product=N, other=N, "
        "user=N, quantity=N, segments=N, key=K",
        text);
}

/* "lock-nested,order:user=5": the first is of a, the second of b, ... */
static bool set_programs(struct stage_scene *scene, char *list,
                         struct fail *error)
{
    char *rest = NULL;

    for (unsigned i = 0; i < STAGE_ACTORS_MAX; i++) {
        struct stage_role *role = &scene->roles[i];
        char *one = strtok_r(i == 0 ? list : NULL, ",", &rest);
        char *settings = NULL, *setting;

        /* A list says something of every actor: a role of a list before must not stay. */
        *role = (struct stage_role){.program = NULL};
        if (!one)
            continue;
        role->program = strtok_r(one, ":", &settings);
        while ((setting = strtok_r(NULL, ":", &settings)) != NULL)
            if (!set_role(role, setting, error))
                return false;
    }
    return !strtok_r(NULL, ",", &rest) ||
           fail_with(error, "programs: at most %d, one for each actor",
                     STAGE_ACTORS_MAX);
}

bool stage_options_set(struct stage_scene *scene, const char *name, char *arg,
                       struct fail *error)
{
    const char *word = arg ? arg : "";
    bool guarded = strcmp(word, "guarded") == 0;
    bool user = strcmp(word, "user") == 0;
    int64_t number = 0;

    if (strcmp(name, "deduct") == 0) {
        scene->deduct = guarded ? DEDUCT_GUARDED : DEDUCT_NAIVE;
        return guarded || strcmp(word, "naive") == 0 ||
               fail_with(error, "deduct takes naive or guarded");
    }
    if (strcmp(name, "lock-per") == 0) {
        scene->lock_per = user ? LOCK_PER_USER : LOCK_PER_PRODUCT;
        return user || strcmp(word, "product") == 0 ||
               fail_with(error, "lock-per takes product or user");
    }
    if (strcmp(name, "programs") == 0)
        return set_programs(scene, arg, error);
#define ROW(member, least, most, preset, flag)                                 \
    if (strcmp(flag, name) == 0) {                                             \
        if (!read_number(name, word, least, most, &number, error))             \
            return false;                                                      \
        scene->member = (__typeof__(scene->member))number;                     \
        return true;                                                           \
    }
#include "server/lab/scene/numbers.inc"
    if (strcmp(name, "one-process") == 0)
        scene->one_process = true;
    else if (strcmp(name, "replica") == 0)
        scene->replica = true;
    else if (strcmp(name, "batched") == 0) {
        /* An instance deducts guarded: a scene that is naive could not be played. */
        scene->batched = true;
        scene->deduct = DEDUCT_GUARDED;
    } else
        return fail_with(error, "%s is no setting of the stage", name);
    return !*word || fail_with(error, "%s takes nothing", name);
}

bool stage_options_take(struct stage_scene *scene, const char *name, char *arg)
{
    struct fail error;

    return stage_options_set(scene, name, arg, &error) ||
           fail_aloud("--%s%s", error.text,
                      strcmp(name, "lock-per") == 0 /* --lock for short */
                          ? "; a lock is named without a flag"
                          : "");
}

bool stage_options_next(char **text, char **name, char **arg)
{
    if (!*text || !**text)
        return false;
    /* The dashes are taken for granted, because such texts come from our own files. */
    *name = strsep(text, " ") + strlen("--");
    *arg = *text && strncmp(*text, "--", 2) != 0 ? strsep(text, " ") : NULL;
    return true;
}

struct option *stage_options_add(struct option *flags)
{
    static const struct option common[] = {
        {"deduct", required_argument, NULL, 'c'},
        {"lock-per", required_argument, NULL, 'c'},
        {"programs", required_argument, NULL, 'c'},
        {"one-process", no_argument, NULL, 'c'},
        {"batched", no_argument, NULL, 'c'},
        {"replica", no_argument, NULL, 'c'},
#define ROW(member, least, most, preset, flag)                                 \
    {flag, required_argument, NULL, 'c'},
#include "server/lab/scene/numbers.inc"
    };

    /* The row of zeros ends the flags: the command's own come first, and keep
     * their places. */
    while (flags->name)
        flags++;
    memcpy(flags, common, sizeof(common));
    return flags + sizeof(common) / sizeof(common[0]);
}

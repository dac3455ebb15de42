/* See progress.h. */
#include "server/lab/path/progress.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LINE_BYTES = 200 };

const char *progress_file(void)
{
    static char path[PATH_MAX];
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool is_state = state && state[0] == '/'; /* as its specification has it */
    int n;

    if (!is_state && (!home || home[0] != '/'))
        return NULL;
    n = snprintf(path, sizeof(path), "%s/stockade/path",
                 is_state ? state : home);
    if (!is_state)
        n = snprintf(path, sizeof(path), "%s/.local/state/stockade/path", home);
    return n > 0 && n < PATH_MAX - 8 ? path : NULL;
}

void progress_read(struct progress all[PATH_STOPS_MAX])
{
    const char *path = progress_file();
    FILE *file = path ? fopen(path, "re") : NULL;
    char line[LINE_BYTES], name[40];

    memset(all, 0, PATH_STOPS_MAX * sizeof(*all));
    while (file && fgets(line, sizeof(line), file)) {
        const char *broken = strstr(line, " broken ");
        size_t index;

        if (sscanf(line, "%39s", name) != 1 || !path_find(name, &index))
            continue;
        all[index].is_broken =
            broken && sscanf(broken, " broken %5u", &all[index].moves) == 1;
        all[index].is_mended = strstr(line, " mended") != NULL;
    }
    if (file)
        (void)fclose(file);
}

/* Makes the folders in which PATH lies. */
static void make_folders(char *path)
{
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
}

/* Into another file first: one that is cut short must not take the place of all. */
bool progress_write(const struct progress all[PATH_STOPS_MAX], char *error,
                    size_t error_size)
{
    const char *path = progress_file();
    const struct path_stop *stop;
    char fresh[PATH_MAX];
    FILE *file;
    bool good;

    if (!path) {
        (void)snprintf(error, error_size, "there is no HOME to keep it in");
        return false;
    }
    (void)snprintf(fresh, sizeof(fresh), "%.*s.new", PATH_MAX - 8, path);
    make_folders(fresh);
    file = fopen(fresh, "we");
    good = file != NULL;
    for (size_t i = 0; good && (stop = path_at(i)) != NULL; i++) {
        if (all[i].is_broken || all[i].is_mended)
            fputs(stop->name, file);
        if (all[i].is_broken)
            fprintf(file, " broken %u", all[i].moves);
        if (all[i].is_mended)
            fputs(" mended", file);
        if (all[i].is_broken || all[i].is_mended)
            fputc('\n', file);
    }
    good = file && fclose(file) == 0 && rename(fresh, path) == 0;
    if (!good)
        (void)snprintf(error, error_size, "%s: %s", path, strerror(errno));
    return good;
}

bool progress_is_solved(const struct path_stop *stop,
                        const struct progress *progress)
{
    return progress->is_mended && (progress->is_broken || !stop->schedule);
}

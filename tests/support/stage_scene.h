/*
 * Scenes and schedules of the stage for its tests, as `stockade replay` is given them:
 * what fails can be pasted there.
 */
#ifndef STAGE_SCENE_H
#define STAGE_SCENE_H

#include <stdio.h>
#include <string.h>

#include "server/lab/scene/stage_options.h"
#include "tests/support/unit_test.h"

/* TEXT: a lock, and flags behind it. The scene is good until the next call. */
static inline struct stage_scene scene_of(const char *text)
{
    static char words[300];
    struct stage_scene scene = STAGE_SCENE(words);
    char *rest = words, *name, *arg;
    struct fail error;

    (void)snprintf(words, sizeof(words), "%s", text);
    (void)strsep(&rest, " ");
    while (stage_options_next(&rest, &name, &arg))
        if (!stage_options_set(&scene, name, arg, &error))
            fail_msg("%s: %s", text, error.text);
    return scene;
}

static inline struct stage *open_scene(const struct stage_scene *scene)
{
    struct fail error = {""};
    struct stage *stage = stage_open(scene, &error);

    if (!stage)
        fail_msg("%s: %s", scene->lock, error.text);
    return stage;
}

/* How many moves SCHEDULE has. */
static inline size_t moves_of(const char *schedule,
                              struct stage_move moves[STAGE_MOVES_MAX])
{
    struct fail error;
    int n = stage_parse(schedule, moves, &error);

    if (n < 0)
        fail_msg("%s", error.text);
    return (size_t)n;
}

#endif

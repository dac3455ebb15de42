/* See draw.h: what programs read. */
#include "server/lab/picture/draw.h"

#include <string.h>
#include <unistr.h>

json_t *draw_json_text(const char *text, unsigned look)
{
    char said[STAGE_REDIS_BYTES_MAX];
    const uint8_t *wrong;

    (void)snprintf(said, sizeof(said), "%s", text);
    translate(said, sizeof(said), look);
    /* JSON is UTF-8 throughout, or a reader refuses all of it. */
    while ((wrong = u8_check((const uint8_t *)said, strlen(said))) != NULL)
        said[wrong - (const uint8_t *)said] = '?';
    return json_string(said);
}

void draw_json_line(FILE *out, json_t *value)
{
    (void)json_dumpf(value, out, 0);
    fputc('\n', out);
    json_decref(value);
}

void draw_json_error(const char *error, unsigned look)
{
    draw_json_line(stdout,
                   json_pack("{s:o}", "error", draw_json_text(error, look)));
}

json_t *draw_json_faults(unsigned faults)
{
    json_t *list = json_array();

    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if (faults & (1u << i))
            (void)json_array_append_new(list, json_string(stage_fault_word(i)));
    return list;
}

/* NULL, if it is empty. */
static json_t *if_any(const char *text, unsigned look)
{
    return text[0] ? draw_json_text(text, look) : NULL;
}

static json_t *letter_of(int actor)
{
    return actor >= 0 ? json_sprintf("%c", 'a' + actor) : NULL;
}

static json_t *steps_of(const struct stage *stage, unsigned look)
{
    json_t *list = json_array();
    const struct stage_step *steps;
    char text[DRAW_STEP_BYTES];
    size_t n;

    /* The steps are those since the schedule began: a page draws all of them anew. */
    steps = stage_steps(stage, &n);
    for (size_t i = 0; i < n; i++) {
        const struct stage_step *step = &steps[i];

        draw_step_words(step, text);
        (void)json_array_append_new(
            list,
            json_pack("{s:i, s:I, s:o, s:o, s:o*, s:o*, s:o*, s:o*, s:o*}",
                      "move", (int)step->move, "at_us", (json_int_t)step->at_us,
                      "reply", draw_json_text(step->reply, 0), "says",
                      draw_json_text(text, look), "actor",
                      letter_of(step->actor), "part", if_any(step->who, 0),
                      "step", if_any(step->name, 0), "sent",
                      if_any(step->sent, 0), "mark", if_any(step->mark, look)));
    }
    return list;
}

static json_t *actors_of(const struct stage_view *view, unsigned n,
                         unsigned look)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < n; i++) {
        const struct stage_actor_view *actor = &view->actors[i];
        const char *answer =
            actor->answered ? order_outcome_slug(actor->outcome) : "";

        (void)json_array_append_new(
            list, json_pack("{s:b, s:b, s:b, s:b, s:o, s:o, s:o*}", "dead",
                            actor->is_dead, "done", actor->is_done, "inside",
                            actor->is_inside, "has_lock",
                            view->locks[0].holder == (int)i, "next",
                            draw_json_text(actor->next, look), "name",
                            letter_of((int)i), "answer", if_any(answer, look)));
    }
    return list;
}

json_t *draw_json(struct stage *stage, const struct stage_scene *scene,
                  unsigned look)
{
    json_t *locks = json_array(), *broke_at = json_object();
    static struct stage_view view;
    struct stage_verdict verdict;

    /* The verdict comes before the look at the steps: a program's check may add one. */
    stage_judge(stage, &verdict);
    stage_look(stage, &view);
    for (unsigned i = 0; i < view.locks_n; i++)
        (void)json_array_append_new(
            locks, json_pack("{s:s, s:I, s:o*}", "name", view.locks[i].name,
                             "ttl_ms", (json_int_t)view.locks[i].ttl_ms,
                             "holder", letter_of(view.locks[i].holder)));
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++)
        if ((verdict.faults | verdict.remarks) & (1u << i))
            (void)json_object_set_new(broke_at, stage_fault_word(i),
                                      json_integer(verdict.moves[i]));
    return json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "steps",
        steps_of(stage, look), "now_us", (json_int_t)view.now_us, "stock",
        (json_int_t)view.stock, "sold", (json_int_t)view.sold, "orders",
        (json_int_t)view.orders, "redis", draw_json_text(view.redis, 0),
        "locks", locks, "actors", actors_of(&view, scene->buyers, look), "over",
        view.over, "faults", draw_json_faults(verdict.faults), "remarks",
        draw_json_faults(verdict.remarks), "broke_at", broke_at);
}

/* See turns.h: the steps of an actor, and the records of what happens. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/lab/stage/turns_private.h"

static struct stage_step *add_record(const struct page_record *what)
{
    struct page *page = turns_page();
    struct stage_step *step;

    if (page->records_n == PAGE_RECORDS_MAX)
        turns_die("too much happens in one move");
    page->records[page->records_n] = *what;
    step = &page->records[page->records_n++].step;
    step->actor = (signed char)turns_own_lane_n();
    /* Asynchronous calls are the program's own. */
    if (strncmp(turns_self->name, "dlock-", 6) == 0 &&
        strcmp(turns_self->name, "dlock-async") != 0)
        (void)snprintf(step->who, sizeof(step->who), "%s",
                       turns_self->name + 6);
    return step;
}

void turns_note(const char *format, ...)
{
    struct page_record note = {.is_local = false};
    va_list args;

    if (turns_ending())
        return;
    va_start(args, format);
    (void)vsnprintf(note.step.reply, sizeof(note.step.reply), format, args);
    va_end(args);
    (void)add_record(&note);
}

void turns_amend(const char *format, ...)
{
    struct page *page = turns_page();
    struct stage_step *last =
        page->records_n > 0 ? &page->records[page->records_n - 1].step : NULL;
    va_list args;

    if (turns_ending() || !last || !last->is_sql)
        return;
    va_start(args, format);
    (void)vsnprintf(last->reply, sizeof(last->reply), format, args);
    va_end(args);
    turns_hear(last->reply, strlen(last->reply) + 1);
}

/* ---- steps -------------------------------------------------------------- */

/* A command as people write it: without the text of a script. */
static void tell_sent(const struct page_thread *step, char text[], size_t size)
{
    const char *word = step->words;
    size_t used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < step->words_n; i++) {
        if (i == 0 && strcmp(word, "EVAL") == 0)
            (void)snprintf(text, size, "script");
        else if (i != 1 || strncmp(text, "script", 6) != 0)
            (void)snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "",
                           word);
        used = strlen(text);
        word += strlen(word) + 1;
    }
}

static void tell(const struct page_record *open, unsigned node,
                 const char *reply)
{
    struct stage_step *step = add_record(open);

    if (turns_nodes_n > 1 && !step->is_sql)
        (void)snprintf(step->who, sizeof(step->who), "server %u", node + 1);
    (void)snprintf(step->reply, sizeof(step->reply), "%s", reply);
}

static void take_step(const struct page_thread *step, struct page_record *open)
{
    *open = (struct page_record){.step.is_sql = step->is_sql,
                                 .is_local = step->is_local};
    memcpy(open->step.name, step->step, sizeof(open->step.name));
    memcpy(open->step.key, step->key, sizeof(open->step.key));
    tell_sent(step, open->step.sent, sizeof(open->step.sent));
}

/* Several servers are asked at once: the next before the last has answered. */
enum page_verdict turns_step(const struct page_thread *step)
{
    if (turns_ending()) { /* who tries again at once would do so for ever */
        turns_now_at_least(turns_now_us() + 1000);
        return PAGE_HOLD;
    }
    if (turns_self->open_n > 0)
        tell(&turns_self->open[turns_self->shown.node], turns_self->shown.node,
             "(sent)");
    turns_self->shown = *step;
    turns_block(STEP, NULL, PAGE_NEVER);
    if (turns_ending())
        return PAGE_HOLD;
    turns_self->open_n++;
    take_step(step, &turns_self->open[step->node]);
    turns_self->verdicts[step->node] = turns_self->verdict;
    return turns_self->verdict;
}

void turns_came_along(const struct page_thread *step, const char *reply)
{
    struct page_record open;

    if (turns_ending())
        return;
    take_step(step, &open);
    turns_hear(reply, strlen(reply) + 1);
    tell(&open, 0, reply);
}

void turns_step_aside(void)
{
    turns_self->open_n++;
}

void turns_stepped_aside(void)
{
    turns_self->open_n--;
}

enum page_verdict turns_stepped(unsigned node, const char *reply)
{
    if (turns_self->open_n > 0)
        turns_self->open_n--;
    if (turns_ending())
        return PAGE_OK;
    turns_hear(reply, strlen(reply) + 1);
    tell(&turns_self->open[node], node, reply);
    return turns_self->verdicts[node];
}

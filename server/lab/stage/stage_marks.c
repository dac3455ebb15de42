/*
 * Marks: what is wrong about a step, in words, on its line: "deletes b's lock". The marks are
 * for people who look at a schedule. No state of the stage depends on them, so a search
 * does not see them.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/stage/stage_private.h"

/* The last line of the move that ACTOR did (IS_STEP), or was told. NULL: none. */
static struct stage_step *last_line(struct stage *stage, int actor,
                                    bool is_step)
{
    for (size_t i = stage->steps_n; i-- > 0;) {
        struct stage_step *step = &stage->steps[i];

        if (step->move != stage->moves_n)
            return NULL;
        if (step->actor == actor && (step->name[0] != '\0') == is_step)
            return step;
    }
    return NULL;
}

static void mark(struct stage_step *step, const char *format, ...)
{
    va_list args;

    if (!step || step->mark[0])
        return;
    va_start(args, format);
    (void)vsnprintf(step->mark, sizeof(step->mark), format, args);
    va_end(args);
}

/* ---- tokens ------------------------------------------------------------- */

enum { TOKENS_APART_MAX = 100000 };

void stage_note_token(struct stage *stage, const struct stage_step *step)
{
    unsigned long long token = 0;

    if (stage->first_token == 0 &&
        (sscanf(step->reply, "inside, with token %llu", &token) == 1 ||
         (strcmp(step->name, "eval-acquire") == 0 &&
          sscanf(step->reply, "1 %*u %llu", &token) == 1)))
        stage->first_token = token;
}

void stage_note_token_in_keys(struct stage *stage)
{
    const char *at =
        stage->first_token == 0 ? strstr(stage->look.keys, "token=") : NULL;

    if (at)
        stage->first_token = strtoull(at + strlen("token="), NULL, 10);
}

/* A token that is lower than the first one has a number below 1: it went back. */
void stage_name_tokens(const struct stage *stage, char text[])
{
    char *at = text;

    while (stage->first_token > 0 && *at) {
        size_t len = strspn(at, "0123456789");
        long long apart;

        if (len < 16) {
            at += len > 0 ? len : 1;
            continue;
        }
        apart = (long long)(strtoull(at, NULL, 10) - stage->first_token);
        if (apart < TOKENS_APART_MAX && apart > -TOKENS_APART_MAX) {
            char number[16];
            size_t used =
                (size_t)snprintf(number, sizeof(number), "#%lld", apart + 1);

            memmove(at + used, at + len, strlen(at + len) + 1);
            memcpy(at, number, used);
            len = used;
        }
        at += len;
    }
}

/* ---- writes ------------------------------------------------------------- */

static bool has_name(const struct stage_step *step, const char *const names[])
{
    for (size_t i = 0; names[i]; i++)
        if (strcmp(step->name, names[i]) == 0)
            return true;
    return false;
}

static bool is_read(const struct stage_step *step)
{
    return strcmp(step->name, "naive-select") == 0 ||
           (strcmp(step->name, "SELECT") == 0 &&
            strstr(step->sent, "FROM segments"));
}

/* It sets a number that was computed before. */
static bool is_absolute(const struct stage_step *step)
{
    static const char set[] = "UPDATE segments SET stock = ";

    return strcmp(step->name, "naive-update") == 0 ||
           (strncmp(step->sent, set, strlen(set)) == 0 &&
            isdigit((unsigned char)step->sent[strlen(set)]));
}

/* A COMMIT makes visible what was written before. */
static bool is_write(const struct stage_step *step)
{
    static const char *const names[] = {"place",    "cancel",      "restock",
                                        "even-out", "product-put", "COMMIT",
                                        NULL};

    return is_absolute(step) || has_name(step, names) ||
           strncmp(step->sent, "UPDATE segments", 15) == 0;
}

static unsigned product_of(const struct stage_step *step)
{
    unsigned product = 1;

    (void)sscanf(step->key, "product %u", &product);
    return product % STAGE_PRODUCTS_N;
}

void stage_mark_write(struct stage *stage, unsigned actor,
                      struct stage_step *step)
{
    unsigned product = product_of(step);
    unsigned *read = &stage->parts[actor].reads[product];
    bool is_done =
        strncmp(step->reply, "ok", 2) == 0 || strstr(step->reply, " row");

    if (!step->is_sql || stage->scene.segments > 1)
        return;
    if (is_read(step))
        *read = stage->stocks[product];
    if (!is_write(step) || !is_done)
        return;
    if (is_absolute(step) && *read != stage->stocks[product])
        mark(step, "written from a read that is out of date");
    *read = ++stage->stocks[product];
}

/* ---- locks -------------------------------------------------------------- */

void stage_note_expiry(struct stage *stage, int holder)
{
    if (holder >= 0)
        (void)snprintf(stage->parts[holder].loss,
                       sizeof(stage->parts[holder].loss),
                       "its lease had ended");
}

void stage_mark_loss(struct stage *stage, int mover, int holder, bool is_gone)
{
    struct stage_step *told = last_line(stage, mover, false);
    char *loss = stage->parts[holder].loss;
    size_t size = sizeof(stage->parts[holder].loss);

    if (mover < 0) {
        (void)snprintf(loss, size, "%s",
                       stage->kind == 'P'   ? "the failover had lost it"
                       : stage->kind == 'F' ? "Redis had forgotten it"
                                            : "the servers had lost it");
        return;
    }
    (void)snprintf(loss, size,
                   is_gone ? "%c had deleted it" : "%c had taken it",
                   'a' + mover);
    mark(last_line(stage, mover, true),
         is_gone ? "deletes %c's lock" : "takes %c's lock away", 'a' + holder);
    if (told && strcmp(told->reply, "released it") == 0)
        (void)snprintf(told->reply, sizeof(told->reply),
                       "takes that for its own");
}

/* "a and b"; "a, b and c". */
static unsigned list(unsigned actors, char text[32])
{
    unsigned n = 0, left = (unsigned)__builtin_popcount(actors);
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < STAGE_ACTORS_MAX; i++)
        if (actors & (1u << i)) {
            used += (size_t)snprintf(text + used, 32 - used, "%s%c",
                                     n == 0      ? ""
                                     : left == 1 ? " and "
                                                 : ", ",
                                     'a' + i);
            n++;
            left--;
        }
    return n;
}

/* With no lock there is no inside: all that could be said is that both work. */
void stage_mark_insiders(struct stage *stage, unsigned insiders,
                         enum stage_fault kind)
{
    bool is_news = (insiders & ~stage->insiders) != 0;
    char who[32];
    unsigned n = list(insiders, who);

    stage->insiders = insiders;
    if (!is_news || strcmp(stage->scene.lock, "none") == 0)
        return;
    for (unsigned i = 0; i < stage->scene.buyers; i++) {
        struct stage_step *told = last_line(stage, (int)i, false);

        if (!told || strncmp(told->reply, "inside", 6) != 0)
            continue;
        mark(told, n > 2 ? "%s are all inside%s" : "%s are both inside%s", who,
             kind == STAGE_TWO_LATE   ? ", after a lease had ended"
             : kind == STAGE_TWO_LOST ? ", as Redis has lost the lock"
                                      : "");
    }
}

void stage_mark_silence(struct stage *stage, int mover)
{
    mark(last_line(stage, mover, true), "wakes nobody");
}

void stage_say_loss(const struct stage *stage, struct stage_step *step)
{
    const char *lost = dlock_status_text(DLOCK_LOST);
    const char *loss = stage->parts[step->actor].loss;
    static const char back[] = "released it: ";

    if (step->name[0] == '\0' &&
        strncmp(step->reply, back, strlen(back)) == 0 &&
        strcmp(step->reply + strlen(back), lost) == 0)
        (void)snprintf(step->reply, sizeof(step->reply),
                       "nothing to release: %s",
                       loss[0] ? loss : "it has no lock");
}

/* ---- the ledger --------------------------------------------------------- */

void stage_mark_fault(struct stage *stage, enum stage_fault fault)
{
    const char *text = fault == STAGE_OVERSOLD ? "sells what is not there"
                       : fault == STAGE_TWICE  ? "one order too many"
                       : fault == STAGE_LIMIT  ? "over the limit per user"
                       : fault == STAGE_STALE  ? "written under an old token"
                                               : NULL;

    for (unsigned i = 0; text && i < stage->scene.buyers; i++)
        mark(last_line(stage, (int)i, true), "%s", text);
}

/* See draw.h. */
#include "server/lab/picture/draw.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unilbrk.h>
#include <unistd.h>
#include <unistr.h>
#include <uniwidth.h>

enum {
    COLUMNS = 80, /* of what is no terminal */
    COLUMNS_MIN = 40,
    MARGIN = 11, /* the move and the time */
    TEXT_BYTES = DRAW_STEP_BYTES,
    SAID_BYTES = 2000,
    REPLY_BYTES = 96,
    STATE_INDENT = 10,
};

#define FAINT "\033[2m"
#define PLAIN "\033[0m"

static const char *tint(unsigned look, const char *code)
{
    return look & DRAW_COLOUR ? code : "";
}

int draw_say(FILE *out, unsigned look, const char *format, ...)
{
    char text[SAID_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* The whole text is one phrase, with its numbers in it. */
    translate(text, sizeof(text), look);
    fputs(text, out);
    return u8_strwidth((const uint8_t *)text, "UTF-8");
}

void draw_in(FILE *out, unsigned look, const char *colour, const char *text)
{
    fputs(tint(look, colour), out);
    draw_say(out, look, "%s", text);
    fputs(tint(look, PLAIN), out);
}

void draw_title(FILE *out, unsigned look, const char *id, const char *title)
{
    fprintf(out, "%s%s %s%s", tint(look, DRAW_BOLD), id, title,
            tint(look, PLAIN));
}

void draw_paragraph(FILE *out, unsigned look, const char *label,
                    const char *text)
{
    draw_in(out, look, DRAW_BOLD, label);
    fputc('\n', out);
    draw_text(out, 2, text);
    fputc('\n', out);
}

unsigned draw_look(void)
{
    const char *term = getenv("TERM");

    /* NO_COLOR and a dumb terminal are how people say that they want none. */
    return isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && term && term[0] &&
                   strcmp(term, "dumb") != 0
               ? DRAW_COLOUR
               : 0;
}

int draw_columns(FILE *out)
{
    struct winsize size = {0};

    /* A stream in memory has no number. */
    if (fileno(out) < 0 || ioctl(fileno(out), TIOCGWINSZ, &size) != 0 ||
        size.ws_col == 0)
        return COLUMNS;
    return size.ws_col < COLUMNS_MIN ? COLUMNS_MIN : size.ws_col;
}

const char *draw_program(void)
{
    return program_invocation_name;
}

void draw_names(FILE *out, const char *const names[], unsigned n, unsigned look)
{
    /* The columns share what the move and the time leave. */
    int width = (draw_columns(out) - MARGIN) / (int)n;

    fprintf(out, "%s%s", tint(look, DRAW_BOLD),
            look & DRAW_CHINESE ? "动作  毫秒 " : "move   ms  ");
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "%-*.*s", i + 1 < n ? width : 0, width - 1, names[i]);
    fprintf(out, "%s\n", tint(look, PLAIN));
}

/* The deed of the script called NAME, as replies.txt has it; "" = another one. */
static const char *deed_of(const char *name, const char *sent)
{
    /* A release that compares has four words with its script; one that counts holds
     * has more. */
    int words = *sent != '\0';

    for (const char *at = sent; *at; at++)
        words += *at == ' ';
    if (strcmp(name, "eval-acquire") == 0 || strcmp(name, "eval-take") == 0)
        return "take";
    if (strcmp(name, "eval-release") == 0 || strcmp(name, "eval-undo") == 0 ||
        strcmp(name, "eval-withdraw") == 0)
        return words == 4 ? "compare" : "count";
    return strcmp(name, "eval-renew") == 0 ? "renew" : "";
}

void draw_step_words(const struct stage_step *step, char text[DRAW_STEP_BYTES])
{
    static const struct phrase replies[] = {
#define ROW(reply, words) {reply, words},
#include "server/lab/picture/replies.inc"
        {NULL, NULL},
    };
    /* A script's own text is too long for a column: its name stands for it. */
    bool is_shown = step->is_sql ||
                    (step->sent[0] && strncmp(step->sent, "script", 6) != 0);
    bool is_late = strncmp(step->name, "late ", 5) == 0;
    const char *deed = deed_of(step->name + (is_late ? 5 : 0), step->sent);
    /* Only numbers have words of their own by the deed; texts say what they are. */
    bool has_deed = *deed && strchr("-0123456789", step->reply[0]);
    char reply[REPLY_BYTES + 16];

    (void)snprintf(reply, sizeof(reply), "%s%s%s", has_deed ? deed : "",
                   has_deed ? " " : "", step->reply);
    if (has_deed)
        phrase_put(replies, reply, sizeof(reply));
    if (step->name[0] == '\0')
        (void)snprintf(text, TEXT_BYTES, "%s", step->reply);
    else
        (void)snprintf(text, TEXT_BYTES, "%s%s%s: %s", step->who,
                       step->who[0] ? " " : "",
                       is_shown ? step->sent : step->name, reply);
}

const char *draw_step_text(const struct stage_step *step, unsigned look,
                           char text[DRAW_STEP_BYTES])
{
    char mark[2 * sizeof(step->mark)];
    size_t used;

    draw_step_words(step, text);
    translate(text, TEXT_BYTES, look);
    used = strlen(text);
    /* The mark is translated by itself: it is a phrase, and the step another. */
    (void)snprintf(mark, sizeof(mark), "%s", step->mark);
    translate(mark, sizeof(mark), look);
    if (step->mark[0])
        (void)snprintf(text + used, TEXT_BYTES - used, " <- %s", mark);
    return text;
}

static const char *tint_of(const struct stage_step *step)
{
    if (step->mark[0])
        /* The mark first: what is wrong is red, whoever did it. */
        return DRAW_RED;
    if (step->actor < 0 || strstr(step->reply, "dies") ||
        strstr(step->reply, "held up"))
        return DRAW_YELLOW;
    if (strcmp(step->name, "") == 0 && strncmp(step->reply, "inside", 6) == 0)
        return DRAW_GREEN;
    if (step->name[0] == '\0')
        return DRAW_BOLD;
    return "";
}

/* A Chinese character takes two columns, and a line may end behind most of them; else it
 * ends at a space. */
size_t draw_fit(const char *text, size_t room)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t n = strnlen(text, SAID_BYTES), columns = 0, cut = 0;
    char breaks[SAID_BYTES];

    /* A Chinese text has no blanks: it breaks behind characters that are no ASCII.
     * Commands must not be cut apart at their signs. */
    /* A line does not end behind a dash: the arrow of a mark stays with its words. */
    u8_possible_linebreaks(at, n, "UTF-8", breaks);
    for (size_t i = 0; i < n;) {
        ucs4_t character;
        int len = u8_mbtouc(&character, at + i, n - i);

        /* A cut in the first third would leave a line nearly empty. */
        if (columns >= room / 3 &&
            ((text[i] == ' ' && text[i - 1] != '-') ||
             (breaks[i] == UC_BREAK_POSSIBLE && (text[i - 1] & 0x80))))
            cut = i;
        columns += (size_t)uc_width(character, "UTF-8");
        if (columns > room)
            /* A word that fills the line is cut where it is. */
            return cut > 0 ? cut : i;
        i += (size_t)len;
    }
    return n;
}

/* TEXT in lines of WIDTH at most, each behind INDENT columns. */
static void wrap(FILE *out, const char *text, int indent, int width,
                 const char *before, const char *after)
{
    for (bool first = true; *text; first = false) {
        size_t cut = draw_fit(text, (size_t)width - 1);

        /* The first line goes on behind what was written before it. */
        fprintf(out, "%*s%s%.*s%s\n", first ? 0 : indent, "", before, (int)cut,
                text, after);
        text += cut;
        while (*text == ' ')
            text++;
    }
}

void draw_text(FILE *out, int indent, const char *text)
{
    fprintf(out, "%*s", indent, "");
    wrap(out, text, indent, draw_columns(out) - indent, "", "");
}

void draw_english(FILE *out, int indent, unsigned look, const char *text)
{
    char words[SAID_BYTES];

    (void)snprintf(words, sizeof(words), "%s", text);
    translate(words, sizeof(words), look);
    draw_text(out, indent, words);
}

void draw_step(FILE *out, const struct stage_step *step, const char *move,
               unsigned columns, unsigned look)
{
    int all = draw_columns(out) - MARGIN;
    int width = all / (int)columns;
    int column = step->actor > 0 ? step->actor * width : 0;
    char text[TEXT_BYTES];

    (void)draw_step_text(step, look, text);
    fputs(tint(look, FAINT), out);
    if (move)
        fprintf(out, "%-4s%6" PRIu64 " ", move, step->at_us / 1000);
    else
        fprintf(out, "%10.3f ", (double)step->at_us / 1000);
    /* The world's lines begin on the left, and go over all columns. */
    fprintf(out, "%s%*s", tint(look, PLAIN), column, "");
    wrap(out, text, MARGIN + column, step->actor < 0 ? all : width,
         tint(look, tint_of(step)), tint_of(step)[0] ? tint(look, PLAIN) : "");
}

void draw_steps(FILE *out, const struct stage *stage,
                const struct stage_scene *scene, size_t from,
                const struct stage_move moves[], unsigned look)
{
    const struct stage_step *steps;
    unsigned last = 0;
    char text[4];
    size_t n;

    steps = stage_steps(stage, &n);
    for (size_t i = from; i < n; i++) {
        bool is_first =
            steps[i].move > 0 && (i == from || steps[i].move != last);

        last = steps[i].move;
        draw_step(out, &steps[i],
                  is_first ? stage_move_text(moves[last - 1], text) : "",
                  scene->buyers, look);
    }
}

/* A line for each thing that there is. */
static void tell_state(FILE *out, struct stage *stage,
                       const struct stage_scene *scene, bool has_moves)
{
    struct stage_move moves[STAGE_ENABLED_MAX];
    size_t n = stage_enabled(stage, moves);
    char text[4 * STAGE_ENABLED_MAX];
    char key[600], value[300], copy[1024], ends[40];
    static struct stage_view view;
    long long left_ms;

    stage_look(stage, &view);
    for (const char *line = view.redis; *line;) {
        size_t len = strcspn(line, "\n");

        /* A view has a line for each key, with tabs: sscanf() takes both for blanks. */
        (void)snprintf(copy, sizeof(copy), "%.*s", (int)len, line);
        line += len + (line[len] == '\n');
        value[0] = '\0';
        if (sscanf(copy, "%599s %*15s %lld %299[^\n]", key, &left_ms, value) <
            2)
            continue;
        (void)snprintf(ends, sizeof(ends), "%lld ms left", left_ms);
        fprintf(out, "  redis   %s = %s (%s)\n", key, value,
                left_ms < 0 ? "never expires" : ends);
    }
    if (view.redis[0] == '\0')
        fprintf(out, "  redis   is empty\n");
    fprintf(out,
            "  sqlite  stock %" PRId64 " of %" PRId64 ", %" PRId64
            " sold in %" PRId64 " order%s\n",
            view.stock,
            scene->stock * (scene->products > 1 ? scene->products : 1),
            view.sold, view.orders, view.orders == 1 ? "" : "s");
    for (unsigned i = 0; i < scene->buyers; i++) {
        const struct stage_actor_view *actor = &view.actors[i];

        fprintf(out, "  %c       %s%s%s", 'a' + (int)i,
                actor->is_inside && strcmp(scene->lock, "none") != 0
                    ? "inside; "
                    : "",
                actor->is_dead || actor->is_done ? "" : "next: ", actor->next);
        if (actor->answered)
            fprintf(out, " (%s)", order_outcome_slug(actor->outcome));
        fprintf(out, "%s\n",
                view.locks[0].holder == (int)i ? ", has the lock" : "");
    }
    if (view.late_n > 0)
        fprintf(out, "  network %u command%s held up\n", view.late_n,
                view.late_n == 1 ? "" : "s");
    stage_text(moves, n, text, sizeof(text));
    /* The moves are many: a person who plays by keys has them below. */
    if (n > 0 && has_moves)
        fprintf(out, "  moves   now: %s\n", text);
}

void draw_state(FILE *out, struct stage *stage, const struct stage_scene *scene,
                char before[DRAW_STATE_BYTES_MAX], unsigned look)
{
    static char now[DRAW_STATE_BYTES_MAX];
    FILE *text = fmemopen(now, sizeof(now), "w");

    if (!text)
        return;
    tell_state(text, stage, scene, !(look & DRAW_NO_MOVES));
    (void)fclose(text);
    fputs(tint(look, FAINT), out);
    for (const char *line = now; *line;) {
        size_t len = strcspn(line, "\n"), label;
        char one[DRAW_STATE_BYTES_MAX];

        (void)snprintf(one, sizeof(one), "%.*s\n", (int)len, line);
        /* A line that stood there before is no news, wherever it stands now. */
        if (!strstr(before, one)) {
            one[len] = '\0';
            translate(one, sizeof(one), look);
            /* "  redis   lock:{1:0} = a" goes on below what is behind the label. */
            label = 2 + strcspn(one + 2, " ");
            label += strspn(one + label, " ");
            fprintf(out, "%.*s", (int)label, one);
            wrap(out, one + label, STATE_INDENT,
                 draw_columns(out) - STATE_INDENT + 1, "", "");
        }
        line += len + (line[len] == '\n');
    }
    fputs(tint(look, PLAIN), out);
    /* The drawn state is kept whole: the next one is compared with all of it. */
    memcpy(before, now, sizeof(now));
}

void draw_verdict(FILE *out, const struct stage_verdict *verdict, bool over,
                  unsigned look)
{
    /* Without faults there may be remarks: they are told below all the same. */
    if (verdict->faults == 0) {
        draw_say(out, look, "verdict: ");
        draw_in(out, look, DRAW_GREEN,
                over ? "nothing broke" : "nothing broke so far");
        fputc('\n', out);
    }
    for (enum stage_fault i = 0; i < STAGE_FAULT_N; i++) {
        bool is_remark = STAGE_REMARKS & (1u << i);

        if (!((verdict->faults | verdict->remarks) & (1u << i)))
            continue;
        draw_say(out, look, is_remark ? "remark: " : "verdict: ");
        draw_in(out, look, is_remark ? DRAW_YELLOW : DRAW_RED,
                stage_fault_word(i));
        draw_say(out, look, ": ");
        draw_say(out, look, "%s", stage_fault_text(i));
        if (verdict->moves[i] > 0)
            draw_say(out, look, " (move %u)", verdict->moves[i]);
        fputc('\n', out);
    }
}

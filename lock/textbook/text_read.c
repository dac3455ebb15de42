/*
 * Reads a lock's text: text.h is the manual. Every fault is told with line and word,
 * because the text may be a learner's first.
 */
#include "lock/textbook/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *name;
    char *at;      /* where the next line begins */
    unsigned line; /* number of the line in hand */
    size_t indent; /* of it */
    struct dlock_text *text;
    int part; /* that commands go to; -1 = none yet */
};

static const char *const parts[] = {"take", "renew", "release"};

static bool fail(const struct reader *reader, const char *word, const char *why)
{
    dlock_error_say("%s:%u: '%.40s': %s", reader->name, reader->line, word,
                    why);
    return false;
}

/* Lines ---------------------------------------------------------------------- */

static size_t indent_of(const char *line)
{
    return strspn(line, " \t");
}

static bool is_blank_line(const char *line)
{
    return strchr("\r\n", line[indent_of(line)]) != NULL; /* or its end */
}

/* The next line that is neither empty nor for the reader, cut off. NULL: none. */
static char *next_line(struct reader *reader)
{
    while (*reader->at != '\0') {
        char *line = reader->at;
        size_t length = strcspn(line, "\n");

        /* The end of the line is stepped over before it is overwritten; at the end of the
         * text there is none. */
        reader->at += length + (line[length] != '\0');
        reader->line++;
        line[length] = '\0';
        line[strcspn(line, "\r")] = '\0';
        reader->indent = indent_of(line);
        line += reader->indent;
        /* The number of the line counts also those that are left out: a person looks for it
         * in the file. */
        if (*line != '\0' && *line != '#')
            return line;
    }
    return NULL;
}

/* The lines that are indented further than the one in hand, in one piece. */
static char *take_body(struct reader *reader)
{
    size_t indent = reader->indent;
    char *body = reader->at, *end = body;

    while (*reader->at != '\0' &&
           (is_blank_line(reader->at) || indent_of(reader->at) > indent)) {
        size_t length = strcspn(reader->at, "\n");

        /* Blank lines behind the last one of the body are not part of it. */
        if (!is_blank_line(reader->at))
            end = reader->at + length;
        reader->at += length + (reader->at[length] != '\0');
        reader->line++;
    }
    if (end == body)
        return NULL;
    *end = '\0';
    return body;
}

/* Replies and outcomes --------------------------------------------------------- */

static bool read_outcome(struct reader *reader, char *word,
                         struct dlock_text_answer *answer)
{
    static const struct {
        const char *word;
        bool of_take;
        enum dlock_text_outcome outcome;
    } outcomes[] = {{"taken", true, DLOCK_TEXT_TAKEN},
                    {"busy", true, DLOCK_TEXT_BUSY},
                    {"done", false, DLOCK_TEXT_DONE},
                    {"lost", false, DLOCK_TEXT_LOST}};

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
        if (strcmp(outcomes[i].word, word) == 0) {
            answer->outcome = outcomes[i].outcome;
            return outcomes[i].of_take == (reader->part == DLOCK_TEXT_TAKE) ||
                   fail(reader, word,
                        outcomes[i].of_take
                            ? "only take ends so; here it is done or lost"
                            : "take ends with taken or busy");
        }
    /* Whether there is such a command further down is known when the part has been read:
     * check_ways(). */
    answer->outcome = DLOCK_TEXT_GOES_ON;
    answer->to = strcmp(word, "next") == 0 ? NULL : word;
    return true;
}

/* "1 taken, else busy". */
static bool read_answers(struct reader *reader, char *answers,
                         struct dlock_text_command *command)
{
    char *rest, *blanks;

    for (char *one = strtok_r(answers, ",", &rest); one != NULL;
         one = strtok_r(NULL, ",", &rest)) {
        struct dlock_text_answer *answer =
            &command->answers[command->answers_n];
        char *reply = strtok_r(one, " \t", &blanks);
        char *outcome = strtok_r(NULL, " \t", &blanks);
        char *more = strtok_r(NULL, " \t", &blanks);

        if (command->answers_n++ == DLOCK_TEXT_ANSWERS_MAX)
            return fail(reader, command->step, "too many replies");
        if (outcome == NULL || more != NULL)
            return fail(reader, reply == NULL ? "" : reply,
                        "a reply and what it means are two words, as in "
                        "1 taken, else busy");
        /* NULL matches any reply, so what stands behind an else is never looked at. */
        answer->reply = strcmp(reply, "else") == 0 ? NULL : reply;
        if (*reply == '$' && strcmp(reply, "$owner") != 0)
            return fail(reader, reply,
                        "the reply is a word, a number, nil, "
                        "$owner or else");
        if (!read_outcome(reader, outcome, answer))
            return false;
    }
    return command->answers_n > 0 ||
           fail(reader, command->step, "nothing stands behind its ->");
}

/* Arguments -------------------------------------------------------------------- */

static bool is_key(const char *arg)
{
    return strcmp(arg, "$name") == 0 ||
           (strncmp(arg, "$name:", 6) == 0 && arg[6] != '\0' &&
            strlen(arg) < 40 && strpbrk(arg + 6, "{}") == NULL);
}

static bool check_arg(const struct reader *reader, const char *arg)
{
    static const char *const values[] = {"$owner", "$lease", "$holds", "$way"};

    if (*arg != '$' || is_key(arg))
        return true;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (strcmp(values[i], arg) == 0)
            return true;
    return fail(reader, arg,
                "there are $name, $name:WORD, $owner, $lease, "
                "$holds and $way");
}

/* VERB, and the words behind it in REST. */
static bool read_args(struct reader *reader, char *verb_word, char *rest,
                      struct dlock_text_command *command)
{
    const struct dlock_text_verb *verb = dlock_text_verb(verb_word);
    bool is_script = verb != NULL && verb->is_script, keys_ended = false;
    unsigned derived_n = 0, numbers_n = 0;

    if (verb == NULL)
        return fail(reader, verb_word, "no command that a lock's text may use");
    for (char *at = verb_word; *at != '\0'; at++)
        *at = (char)toupper((unsigned char)*at);
    command->verb = verb;
    /* EVAL's first key is always $name, so that KEYS[1] is the lock, and a cluster finds
     * its node. */
    command->args[command->args_n++] = is_script ? "$name" : verb_word;
    for (char *arg, *at = NULL; (arg = strtok_r(rest, " \t", &at)) != NULL;) {
        /* strtok_r() takes its text by the first argument again here: REST moves along with
         * it. */
        rest = at;
        if (command->args_n == DLOCK_TEXT_ARGS_MAX)
            return fail(reader, arg, "too many words");
        if (!check_arg(reader, arg))
            return false;
        if (is_script && is_key(arg) && keys_ended)
            return fail(reader, arg, "a script's keys come first");
        keys_ended = !is_key(arg);
        /* The first argument of a plain command is its key; of DEL and its like all are. */
        if (!is_script && keys_ended && (command->args_n == 1 || verb->keys))
            return fail(reader, arg,
                        "a lock's text touches its own keys only: $name, or "
                        "$name:WORD");
        command->args[command->args_n++] = arg;
        /* SET with GET answers with what was there before, and says by its nil nothing
         * of its effect: as GETSET. */
        if (strcmp(verb_word, "SET") == 0 && strcasecmp(arg, "GET") == 0)
            command->verb = dlock_text_verb("GETSET");
        derived_n += strncmp(arg, "$name:", 6) == 0;
        numbers_n += strcmp(arg, "$lease") == 0 || strcmp(arg, "$holds") == 0;
        /* A command has room for so many (command.h), and asserts that there are no
         * more. */
        if (derived_n > DLOCK_DERIVED_MAX || numbers_n > DLOCK_NUMBERS_MAX)
            return fail(reader, arg, "too often in one command");
    }
    return command->args_n > 1 || is_script ||
           fail(reader, verb_word, "of which key? Write $name behind it");
}

/* Parts -------------------------------------------------------------------------- */

static bool read_script(struct reader *reader,
                        struct dlock_text_command *command)
{
    char *body = take_body(reader);
    char word[DLOCK_TEXT_WORD_BYTES];
    const char *why, *at;
    unsigned lines_n = 0;

    if (body == NULL)
        return fail(reader, "EVAL",
                    "its script stands in the lines below, indented further");
    (void)snprintf(command->step, sizeof(command->step), "eval-%s",
                   parts[reader->part]);
    /* The first two parts are filled when the whole text is known:
     * dlock_text_ask_rights(). */
    command->script = (struct dlock_script){.parts = {"", "", body}};
    at = dlock_text_script_fault(body, command->calls, word, &why);
    for (const char *each = body; at != NULL && each < at; each++)
        lines_n += *each == '\n';
    /* take_body() has gone on to the end of the script: the fault's own line is counted
     * from its beginning. */
    reader->line = at == NULL ? reader->line : command->line + 1 + lines_n;
    return at == NULL || fail(reader, word, why);
}

static bool read_command(struct reader *reader, char *line)
{
    struct dlock_text_command *command;
    char *arrow = strstr(line, "->");
    char *rest, *verb;

    if (reader->part < 0)
        return fail(reader, line,
                    "take, renew or release stands above commands");
    if (reader->text->parts[reader->part].n == DLOCK_TEXT_COMMANDS_MAX)
        return fail(reader, line, "too many commands");
    command = &reader->text->parts[reader->part]
                   .commands[reader->text->parts[reader->part].n++];
    command->line = reader->line;
    if (arrow == NULL)
        return fail(reader, line,
                    "-> and what its replies mean stand behind a command");
    /* The command and its replies are cut apart; strtok_r() then stays within each. */
    *arrow = '\0';
    verb = strtok_r(line, " \t", &rest);
    if (verb == NULL)
        return fail(reader, "->", "a command stands before it");
    /* The step has the verb in small letters, and is what the answers of other commands go
     * on to. */
    for (size_t i = 0; i + 1 < sizeof(command->step) && verb[i] != '\0'; i++)
        command->step[i] = (char)tolower((unsigned char)verb[i]);
    return read_args(reader, verb, rest, command) &&
           read_answers(reader, arrow + 2, command) &&
           /* The script is read last, because it stands in the lines below. */
           (!command->verb->is_script || read_script(reader, command));
}

/* Those that go on go on to a command further down. */
static bool check_ways(struct reader *reader,
                       const struct dlock_text_commands *part)
{
    for (size_t i = 0; i < part->n; i++)
        for (size_t j = 0; j < part->commands[i].answers_n; j++) {
            const struct dlock_text_answer *answer =
                &part->commands[i].answers[j];

            /* A fault is told with the line of its command, though the reader is at the
             * end. */
            reader->line = part->commands[i].line;
            if (answer->outcome == DLOCK_TEXT_GOES_ON &&
                dlock_text_next(part, i, answer) >= part->n)
                return answer->to == NULL
                           ? fail(reader, "next",
                                  "there is no command below this one")
                           : fail(reader, answer->to,
                                  "neither taken, busy, done, lost or next, "
                                  "nor a command below this one");
        }
    return true;
}

/* Settings ----------------------------------------------------------------------- */

enum { WORDS_MAX = 3 };

static const struct {
    const char *key;
    const char *words[WORDS_MAX];
    const char *takes;
} settings[DLOCK_TEXT_SETTINGS_N] = {
    {"owner", {"random", "constant", "number"}, "constant, number or random"},
    {"finally", {"inside", "none", "around"}, "none, around or inside"},
    {"renewed", {"nobody", "guard", "watchdog"}, "nobody, guard or watchdog"},
    {"counted", {"nobody", "session", "server"}, "nobody, session or server"},
    {"pause", {"short", "doubling"}, "short or doubling"},
};

enum {
    SPIN_FIRST_US = 1000,
    SPIN_DOUBLINGS = 7, /* up to 128 ms */
};

/* The upper half of it is random. Two that were refused together would come back together
 * for ever, and one of them would always be the second. */
static uint64_t doubling_us(unsigned look, uint16_t dice)
{
    unsigned doublings = look - 1 < SPIN_DOUBLINGS ? look - 1 : SPIN_DOUBLINGS;
    uint64_t half = (uint64_t)SPIN_FIRST_US << doublings >> 1;

    return half + half * dice / UINT16_MAX;
}

static bool read_setting(struct reader *reader, char *key, char *value)
{
    if (strcmp(key, "claim") == 0) {
        reader->text->strategy.info.claim = value;
        return *value != '\0' || fail(reader, key, "and what does it claim?");
    }
    for (size_t i = 0; i < DLOCK_TEXT_SETTINGS_N; i++) {
        if (strcmp(settings[i].key, key) != 0)
            continue;
        for (unsigned j = 0; j < WORDS_MAX && settings[i].words[j]; j++)
            if (strcmp(settings[i].words[j], value) == 0) {
                reader->text->settings[i] = j;
                return true;
            }
        return fail(reader, value, settings[i].takes);
    }
    return fail(reader, key,
                "a line begins with claim, owner, finally, renewed, "
                "counted or pause; with take, renew or release; or "
                "is indented");
}

/* A line that is not indented: a part's name, or a setting. */
static bool read_head(struct reader *reader, char *line)
{
    size_t length = strcspn(line, " \t:");
    char *value = line + length;

    /* A colon behind the key is allowed, since many write one. */
    value += strspn(value, " \t:");
    for (size_t end = strlen(value);
         end > 0 && isspace((unsigned char)value[end - 1]);)
        value[--end] = '\0';
    line[length] = '\0';
    for (int i = 0; i < DLOCK_TEXT_PARTS_N; i++)
        if (strcmp(parts[i], line) == 0) {
            reader->part = i;
            return *value == '\0' ||
                   fail(reader, value, "commands stand below, indented");
        }
    return read_setting(reader, line, value);
}

/* The whole ------------------------------------------------------------------------ */

static bool has_word(const struct dlock_text_commands *part, const char *word)
{
    for (size_t i = 0; i < part->n; i++)
        for (size_t j = 0; j < part->commands[i].args_n; j++)
            if (strcmp(part->commands[i].args[j], word) == 0)
                return true;
    return false;
}

/* Compares the owner where nothing can come in between: in one command. */
static bool compares_in_one(const struct dlock_text_commands *part)
{
    return part->n == 1 && has_word(part, "$owner");
}

/* PART, which has to be there, writes $name, and can end with OUTCOME; else it is no
 * lock's, and who watches $name would see nothing wrong with it. */
static bool does_its_work(struct reader *reader, enum dlock_text_part which,
                          enum dlock_text_outcome outcome)
{
    const struct dlock_text_commands *part = &reader->text->parts[which];
    bool writes = false, ends = false;

    for (size_t i = 0; i < part->n; i++) {
        const struct dlock_text_command *command = &part->commands[i];

        for (size_t j = 0; j < command->args_n; j++)
            /* A look at $name takes nothing: a take that only looks would let everybody
             * in. */
            writes |=
                !command->verb->reads && strcmp(command->args[j], "$name") == 0;
        writes |= command->script.parts[0] != NULL; /* KEYS[1] is $name */
        for (size_t j = 0; j < command->answers_n; j++)
            ends |= command->answers[j].outcome == outcome;
    }
    if (!writes)
        return fail(reader, parts[which],
                    "no command of it writes $name; the lock is held while "
                    "that key is there");
    return ends ||
           fail(reader, parts[which], "no reply of it means taken, or done");
}

static bool has_parts(struct reader *reader)
{
    for (int part = 0; part < DLOCK_TEXT_PARTS_N; part++)
        if (!check_ways(reader, &reader->text->parts[part]))
            return false;
    for (int part = 0; part < DLOCK_TEXT_PARTS_N; part++)
        if (reader->text->parts[part].n == 0 && part != DLOCK_TEXT_RENEW) {
            dlock_error_say("%s: there is no part '%s'", reader->name,
                            parts[part]);
            return false;
        }
    return does_its_work(reader, DLOCK_TEXT_TAKE, DLOCK_TEXT_TAKEN) &&
           does_its_work(reader, DLOCK_TEXT_RELEASE, DLOCK_TEXT_DONE);
}

/* The words of the text say what the lock can do. */
static bool check_whole(struct reader *reader)
{
    struct dlock_text *text = reader->text;
    struct dlock_strategy *strategy = &text->strategy;
    const struct dlock_text_commands *renew = &text->parts[DLOCK_TEXT_RENEW];
    const unsigned *chosen = text->settings;
    bool watched = chosen[DLOCK_TEXT_RENEWED] == DLOCK_TEXT_WATCHDOG;
    /* The key ends by itself if its take says when. */
    bool leased = has_word(&text->parts[DLOCK_TEXT_TAKE], "$lease");
    /* The lock knows its owner if the text compares it in the same command that gives back
     * or renews: with two, the lease may end in between, and the second one hits a
     * stranger. */
    bool owned = chosen[DLOCK_TEXT_OWNER] == DLOCK_TEXT_RANDOM &&
                 compares_in_one(&text->parts[DLOCK_TEXT_RELEASE]) &&
                 (renew->n == 0 || compares_in_one(renew));

    if (!has_parts(reader))
        return false;
    /* A renewal of a key that never ends would end it: PEXPIRE gives it a lease. */
    if (chosen[DLOCK_TEXT_RENEWED] != DLOCK_TEXT_NOBODY && !leased)
        return fail(reader, "renewed", "take sets no $lease");
    /* dlock_text_renew() sends the first command alone, and its reply is the answer. */
    if (watched && renew->n != 1)
        return fail(reader, "renewed",
                    "the watchdog sends many renewals in one go, so that renew "
                    "has to be one command");
    strategy->info.capabilities =
        DLOCK_CAP_REMOTE | (leased ? DLOCK_CAP_LEASE : 0) |
        (owned ? DLOCK_CAP_OWNER : 0) | (watched ? DLOCK_CAP_RENEW : 0) |
        (chosen[DLOCK_TEXT_COUNTED] != DLOCK_TEXT_NOBODY ? DLOCK_CAP_REENTRANT
                                                         : 0);
    /* A `finally` around the acquire runs for those that were told no as well:
     * dlock_session_end() plays it. */
    strategy->releases_always = chosen[DLOCK_TEXT_FINALLY] == DLOCK_TEXT_AROUND;
    if (chosen[DLOCK_TEXT_PAUSE] == DLOCK_TEXT_DOUBLING)
        strategy->pause_us = doubling_us;
    if (watched)
        strategy->renew = dlock_text_renew;
    if (chosen[DLOCK_TEXT_RENEWED] == DLOCK_TEXT_GUARD) {
        /* client->own is the guard then; no other text uses it. */
        strategy->open = dlock_guard_open;
        strategy->close = dlock_guard_close;
    }
    /* dlock_text_ask_rights() comes last, because only a whole text has all the calls that
     * a take asks for. */
    dlock_text_ask_rights(text);
    return true;
}

void dlock_text_free(struct dlock_text *text)
{
    if (text == NULL)
        return;
    free(text->name);
    /* The words hold all that the text's other pointers lead to. */
    free(text->words);
    free(text);
}

struct dlock_text *dlock_text_read(const char *name, const char *text)
{
    struct dlock_text *made = calloc(1, sizeof(*made));
    struct reader reader = {.name = name, .text = made, .part = -1};
    bool good = made != NULL && (made->name = strdup(name)) != NULL &&
                (made->words = strdup(text)) != NULL;
    char *line;

    if (good) {
        reader.at = made->words;
        /* The strategy is part of the text, whose memory is never given back once it is in
         * the list. */
        made->strategy = dlock_text_slots;
        made->strategy.info.name = made->name;
        made->strategy.info.claim = "Nothing: its text has no claim line.";
        made->strategy.variant = made;
    } else {
        dlock_error_say("%s: out of memory", name);
    }
    while (good && (line = next_line(&reader)) != NULL)
        good = reader.indent > 0 ? read_command(&reader, line)
                                 : read_head(&reader, line);
    if (good && check_whole(&reader))
        return made;
    dlock_text_free(made);
    return NULL;
}

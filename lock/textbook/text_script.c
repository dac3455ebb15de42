/*
 * The commands and the Lua of a lock's text: what they may be. A text comes from whoever
 * opens the page, so that it must end by itself, and leave other keys alone; Redis
 * cannot promise either of a script.
 */
#include "lock/textbook/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* None of them waits, loops, or looks around. */
const struct dlock_text_verb *dlock_text_verb(const char *word)
{
    static const struct dlock_text_verb verbs[] = {
        {.reads = true,
         .words = " GET PTTL TTL TYPE HGET HEXISTS HLEN SISMEMBER SCARD LINDEX "
                  "LLEN ZRANGE ZSCORE ZCARD "},
        {.reads = true, .keys = true, .words = " EXISTS "},
        {.no_is_none = true,
         .words = " SET SETNX GETDEL PEXPIRE EXPIRE PERSIST HSETNX HDEL SADD "
                  "SREM LPOP RPOP LREM ZREM "},
        {.no_is_none = true, .keys = true, .words = " DEL UNLINK "},
        {.words = " GETSET INCR DECR INCRBY HSET HINCRBY LPUSH RPUSH ZADD "},
        {.words = " EVAL ", .is_script = true},
    };
    char wanted[DLOCK_TEXT_WORD_BYTES];

    /* A word that is too long loses its last blank, and so matches nothing. */
    (void)snprintf(wanted, sizeof(wanted), " %s ", word);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (strcasestr(verbs[i].words, wanted) != NULL)
            return &verbs[i];
    return NULL;
}

/* Lua ------------------------------------------------------------------------- */

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Copies the word at AT, and returns the place behind it. */
static const char *take_word(const char *at, char word[DLOCK_TEXT_WORD_BYTES])
{
    size_t n = 0;

    while (is_word_char(at[n]))
        n++;
    (void)snprintf(word, DLOCK_TEXT_WORD_BYTES, "%.*s", (int)n, at);
    return at + n;
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* Behind a comment or a quoted text that begins at AT; AT: none does. */
static const char *skip_quoted(const char *at)
{
    char quote = *at;

    if (at[0] == '-' && at[1] == '-')
        return at + strcspn(at, "\r\n"); /* to Lua, each ends a line */
    if (quote != '\'' && quote != '"')
        return at;
    for (at++; *at != '\0' && *at != quote; at++)
        /* A quote behind a backslash does not end the text. */
        if (*at == '\\' && at[1] != '\0')
            at++;
    return *at == '\0' ? at : at + 1;
}

/* The call behind "redis": .call('verb', KEYS[n]. Returns the place behind it, or
 * NULL, with the word that is wrong and WHY. */
static const char *take_call(const char *at, char word[DLOCK_TEXT_WORD_BYTES],
                             const char **why)
{
    const struct dlock_text_verb *verb;
    char quote;

    *why = "a script calls by redis.call('verb', KEYS[1] ...)";
    if (strncmp(at, ".call(", 6) != 0)
        return NULL;
    at = skip_blanks(at + 6);
    if (*at != '\'' && *at != '"')
        return NULL;
    quote = *at;
    at = take_word(at + 1, word);
    verb = dlock_text_verb(word);
    /* EVAL in a script would run one that nobody has looked at. */
    if (verb == NULL || verb->is_script) {
        *why = "no command that a lock's text may use";
        return NULL;
    }
    /* The verb must end where Lua ends it: else what follows is a text to one of us, and
     * a call to the other. */
    if (*at != quote)
        return NULL;
    at = skip_blanks(at + 1);
    if (*at != ',')
        return NULL;
    at = skip_blanks(at + 1);
    /* The key is a place in KEYS, written as a digit: a computed one could be any key. */
    if (strncmp(at, "KEYS[", 5) != 0 || !isdigit((unsigned char)at[5]) ||
        at[6] != ']')
        return NULL;
    at = skip_blanks(at + 7);
    /* DEL and its like take more keys behind the first, which would have no place in
     * KEYS. */
    if (verb->keys && *at == ',') {
        *why = "one key a call";
        return NULL;
    }
    return *at == ',' || *at == ')' ? at : NULL; /* the key, and no more */
}

/* The last two tokens: a sign by its first byte, others as below. */
enum { VALUE = 'v', KEYWORD = 'k', RETURN = 'r' };
struct tokens {
    char last, before;
};

static void note(struct tokens *tokens, char token)
{
    tokens->before = tokens->last;
    tokens->last = token;
}

/* WORD as a token; '\0': it is forbidden, because a script must end. */
static char token_of(const char *word)
{
    static const struct {
        const char *words;
        char token;
    } kinds[] = {
        {" while repeat for goto function ", '\0'},
        {" return ", RETURN},
        {" and or not if elseif then else local ", KEYWORD},
    };
    char wanted[DLOCK_TEXT_WORD_BYTES + 2];

    (void)snprintf(wanted, sizeof(wanted), " %s ", word);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strstr(kinds[i].words, wanted) != NULL)
            return kinds[i].token;
    return VALUE;
}

/* Why the sign at AT may not stand behind these tokens; NULL: it may. Calls are looked at and
 * not names, because Lua gives the same function as a.rep, a:rep and a['rep']. */
static const char *misplaced(const char *at, const struct tokens *tokens)
{
    bool is_set = *at == '=' && at[1] != '=';

    if (strchr("('\"", *at) != NULL && strchr("v'\")]}", tokens->last) != NULL)
        return "a script calls redis.call and tonumber only: others can take "
               "hours, or gigabytes";
    /* Lists that share their parts double in the reply with every line. */
    if (*at == '{' && tokens->last != RETURN)
        return "a list stands behind return only: a list of lists could be "
               "gigabytes";
    if (is_set && (tokens->last == ']' || strchr(".,", tokens->before)))
        return "a script sets one variable at a time, and no part of a list: "
               "it could be the list itself";
    return NULL;
}

/* Takes a sign, a quoted text, a comment or a blank, and returns the place behind it; NULL:
 * it may not stand there. */
static const char *take_sign(const char *at, struct tokens *tokens,
                             char word[DLOCK_TEXT_WORD_BYTES], const char **why)
{
    static const struct {
        const char *sign, *word, *why;
    } signs[] = {
        {"--[[", "--[", "a comment ends with its line"},
        {"--[=", "--[", "a comment ends with its line"},
        {"[[", "[[", "texts stand between simple quotes"},
        {"[=", "[=", "texts stand between simple quotes"},
        {"..", "..", "a script joins no texts: a few lines would be gigabytes"},
    };
    const char *end = skip_quoted(at);

    /* The signs are looked for first, because "--[[" begins like a comment of one line. */
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (strncmp(at, signs[i].sign, strlen(signs[i].sign)) == 0) {
            (void)snprintf(word, DLOCK_TEXT_WORD_BYTES, "%s", signs[i].word);
            *why = signs[i].why;
            return NULL;
        }
    *why = misplaced(at, tokens);
    if (*why != NULL) {
        /* WORD has the last word still: the function, if it was called by its name. */
        if (tokens->last != VALUE || strchr("('\"", *at) == NULL)
            (void)snprintf(word, DLOCK_TEXT_WORD_BYTES, "%c", *at);
        return NULL;
    }
    if (isspace((unsigned char)*at) || (*at == '-' && end != at))
        return end + (end == at);
    note(tokens, *at);
    if (end != at)
        return end;
    /* "==" and its like are one sign. */
    return at + (strchr("=~<>", *at) != NULL && at[1] == '=' ? 2 : 1);
}

/* Adds WORDS and END to a list, if there is room for them. */
static void add_words(char list[DLOCK_TEXT_RIGHTS_BYTES], const char *words,
                      const char *end)
{
    size_t used = strlen(list);

    if (used + strlen(words) + strlen(end) < DLOCK_TEXT_RIGHTS_BYTES)
        (void)snprintf(list + used, DLOCK_TEXT_RIGHTS_BYTES - used, "%s%s",
                       words, end);
}

const char *dlock_text_script_fault(const char *lua,
                                    char calls[DLOCK_TEXT_RIGHTS_BYTES],
                                    char word[DLOCK_TEXT_WORD_BYTES],
                                    const char **why)
{
    struct tokens tokens = {KEYWORD, KEYWORD};

    for (const char *at = lua; *at != '\0';) {
        const char *begin = at;
        char token;

        if (!is_word_char(*at)) {
            at = take_sign(at, &tokens, word, why);
            if (at == NULL)
                return begin;
            continue;
        }
        at = take_word(at, word);
        token = token_of(word);
        if (token == '\0') {
            *why = "a script of a lock's text can neither loop nor define: it "
                   "has if, local, return, redis.call and tonumber";
            return begin;
        }
        /* tonumber that is not called here could be set to another function. */
        if (strcmp(word, "tonumber") == 0) {
            *why = "a script calls by tonumber(...)";
            at = skip_blanks(at);
            if (*at++ != '(')
                return begin;
            token = '(';
        }
        /* KEYS outside of a call could be given another key. */
        if (strcmp(word, "KEYS") == 0) {
            *why = "a key stands in a call, behind the verb";
            return begin;
        }
        if (strcmp(word, "redis") == 0) {
            at = take_call(at, word, why);
            if (at == NULL)
                return begin;
            /* The verbs are kept, because the right to each is asked for before the script
             * writes. */
            add_words(calls, word, " ");
        }
        note(&tokens, token);
    }
    return NULL;
}

/* Rights ------------------------------------------------------------------------ */

static const char ask[] =
#include "lock/redis/ask.lua.inc"
    ;

/* A right that is lacking has to be found out before the first write. A take asks for
 * those of the release, too, or it would be left behind. */
void dlock_text_ask_rights(struct dlock_text *text)
{
    char all[DLOCK_TEXT_RIGHTS_BYTES] = "";

    for (int part = 0; part < DLOCK_TEXT_PARTS_N; part++)
        for (size_t i = 0; i < text->parts[part].n; i++)
            add_words(all, text->parts[part].commands[i].calls, "");
    for (int part = 0; part < DLOCK_TEXT_PARTS_N; part++)
        for (size_t i = 0; i < text->parts[part].n; i++) {
            struct dlock_text_command *command = &text->parts[part].commands[i];

            if (command->script.parts[0] == NULL)
                continue;
            (void)snprintf(command->rights, sizeof(command->rights),
                           "ask_each('%s')\n",
                           part == DLOCK_TEXT_TAKE ? all : command->calls);
            command->script.parts[0] = ask;
            command->script.parts[1] = command->rights;
        }
}

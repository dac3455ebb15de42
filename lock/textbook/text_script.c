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

    *why = "a script calls by redis.call('verb', KEYS[1] ...)";
    if (strncmp(at, ".call(", 6) != 0)
        return NULL;
    at = skip_blanks(at + 6);
    if (*at != '\'' && *at != '"')
        return NULL;
    at = take_word(at + 1, word);
    verb = dlock_text_verb(word);
    /* EVAL in a script would run one that nobody has looked at. */
    if (verb == NULL || verb->is_script) {
        *why = "no command that a lock's text may use";
        return NULL;
    }
    at = skip_blanks(at + (*at != '\0'));
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

/* A word of Lua by which a script could go on for ever, or get around what is looked at
 * here. */
static bool is_forbidden(const char *word)
{
    static const char *const words[] = {
        "while",        "repeat",       "for",     "goto",     "function",
        "load",         "loadstring",   "dofile",  "loadfile", "require",
        "pcall",        "xpcall",       "_G",      "getfenv",  "setfenv",
        "setmetatable", "getmetatable", "rawget",  "rawset",   "coroutine",
        "string",       "rep",          "gsub",    "table",    "cjson",
        "cmsgpack",     "struct",       "debug",   "loadlib",  "os",
        "server",       "bit",          "package", "unpack",   "next",
        "pairs",        "ipairs",       "select",  "newproxy", "error"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
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
    static const struct {
        const char *sign, *word, *why;
    } signs[] = {
        {"--[[", "--[", "a comment ends with its line"},
        {"--[=", "--[", "a comment ends with its line"},
        {"[[", "[[", "texts stand between simple quotes"},
        {"[=", "[=", "texts stand between simple quotes"},
        {"..", "..", "a script joins no texts: a few lines would be gigabytes"},
    };

    for (const char *at = lua; *at != '\0';) {
        const char *begin = at;

        for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
            if (strncmp(at, signs[i].sign, strlen(signs[i].sign)) == 0) {
                (void)snprintf(word, DLOCK_TEXT_WORD_BYTES, "%s",
                               signs[i].word);
                *why = signs[i].why;
                return begin;
            }
        /* The signs were looked for first, because "--[[" begins like a comment of one
         * line. */
        at = skip_quoted(at);
        if (at != begin || !is_word_char(*at)) {
            at += at == begin;
            continue;
        }
        at = take_word(at, word);
        if (is_forbidden(word)) {
            *why = "a script of a lock's text can neither loop nor define: it "
                   "has if, local, return and redis.call";
            return begin;
        }
        /* KEYS outside of a call could be given another key. */
        if (strcmp(word, "KEYS") == 0) {
            *why = "a key stands in a call, behind the verb";
            return begin;
        }
        if (strcmp(word, "redis") != 0)
            continue;
        at = take_call(at, word, why);
        if (at == NULL)
            return begin;
        /* The verbs are kept, because the right to each is asked for before the script
         * writes. */
        add_words(calls, word, " ");
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

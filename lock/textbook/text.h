/*
 * Private to the textbook: a lock as a text of Redis commands. The locks from setnx to
 * spin are such texts (NAME.lock), and so may be one's own.
 *
 *     # The line is for the reader.
 *     claim    One at a time, while its lease runs.
 *     owner    random         $owner: constant, number (of the session in its process),
 *                             or random
 *     finally  inside         of the caller, around the release: none, around the
 *                             acquire as well, or inside
 *     renewed  nobody         who lengthens the lease: nobody, guard (guard.c), watchdog
 *     counted  nobody         who counts holds when a session comes in again: nobody,
 *                             session, server
 *     pause    short          between two looks of a waiter: short, or doubling
 *
 *     take
 *         SET $name $owner NX PX $lease -> OK taken, else busy
 *     renew
 *         GET $name            -> $owner next, else lost
 *         PEXPIRE $name $lease -> 1 done, else lost
 *     release
 *         EVAL $owner -> 1 done, else lost
 *             if redis.call('get', KEYS[1]) == ARGV[1] then
 *                 return redis.call('del', KEYS[1])
 *             end
 *             return 0
 *
 * Those words are the defaults; take and release there must be. A line that is indented
 * is a command: its arguments, "->", and by reply the outcome. Replies are a word or a
 * number, nil, $owner, and else. Outcomes: taken or busy of take, done or lost of the
 * others; next; or the verb of a command further down, so that a text cannot loop. Of a
 * list the first number is looked at; a second one is how often the owner has it now
 * (taken), or for how many milliseconds at most somebody else has it (busy).
 *
 * The lock is held while the key $name is there, whatever is in it, and free when it is
 * not: who looks at it, the stage above all, looks at that key alone. So take has to write
 * it and to say taken, and release as well, and done; and nobody sees what is left behind
 * in a key beside it, as the search says.
 *
 * Arguments are words, $name (the lock's key), $name:WORD (a key beside it, in the same
 * slot of a cluster), $owner, $lease (ms), $holds (that are to be left), and $way: "set",
 * "lengthen" (the owner has it more than once) or "renew" (by the watchdog). Commands, which
 * get no keys but these, are
 *     GET PTTL TTL TYPE EXISTS HGET HEXISTS HLEN SISMEMBER SCARD LINDEX LLEN ZRANGE ZSCORE
 *     ZCARD SET SETNX GETDEL GETSET DEL UNLINK PEXPIRE EXPIRE PERSIST INCR DECR INCRBY
 *     HSET HSETNX HINCRBY HDEL SADD SREM LPUSH RPUSH LPOP RPOP LREM ZADD ZREM EVAL
 * EVAL runs the Lua that is indented further than itself: KEYS[1] is $name, more keys may
 * follow, then ARGV. It may neither loop nor join texts nor call by another key, nor any
 * function but redis.call and tonumber; a list stands behind its return only. The right to
 * all of its calls is asked for before it writes. A script must compile. An error of the
 * server is no reply that a text can name: to the stage it is the fault error-reply, also of
 * a command that arrives late. A reply that the text does not name, although it has come, is
 * the fault unnamed-reply: the command may have had its effect, so its caller goes on as if
 * the reply were lost.
 *
 * No command whose reply was lost is sent again: to SETNX, its own success looks like
 * somebody else's.
 */
#ifndef DLOCK_TEXT_H
#define DLOCK_TEXT_H

#include "lock/core/client.h"
#include "lock/redis/command.h"

enum {
    DLOCK_TEXT_BYTES_MAX = 16 * 1024,
    DLOCK_TEXT_PATH_BYTES_MAX = 250,
    DLOCK_TEXT_COMMANDS_MAX = 8, /* of a part */
    DLOCK_TEXT_ARGS_MAX = 12,
    DLOCK_TEXT_ANSWERS_MAX = 6,
    DLOCK_TEXT_RIGHTS_BYTES = 400,
};

enum dlock_text_part { DLOCK_TEXT_TAKE, DLOCK_TEXT_RENEW, DLOCK_TEXT_RELEASE };
enum { DLOCK_TEXT_PARTS_N = DLOCK_TEXT_RELEASE + 1 };

enum dlock_text_outcome {
    DLOCK_TEXT_GOES_ON,
    DLOCK_TEXT_TAKEN,
    DLOCK_TEXT_BUSY,
    DLOCK_TEXT_DONE,
    DLOCK_TEXT_LOST,
};

struct dlock_text_answer {
    const char *reply; /* NULL: any */
    enum dlock_text_outcome outcome;
    const char *to; /* goes on: the verb's word; NULL = next */
};

/* Commands of one kind. */
struct dlock_text_verb {
    const char *words;
    bool is_script;
    bool reads;      /* they have no effect */
    bool keys;       /* all of their arguments are keys */
    bool no_is_none; /* by 0 or nil they say that they had no effect */
};

/* The kind of command WORD, in letters of either size; NULL: no text may use it. */
enum { DLOCK_TEXT_WORD_BYTES = 40 };
const struct dlock_text_verb *dlock_text_verb(const char *word);

struct dlock_text_command {
    unsigned line;
    char step[16];                         /* the verb in small letters */
    const char *args[DLOCK_TEXT_ARGS_MAX]; /* of EVAL without the verb */
    size_t args_n;
    const struct dlock_text_verb *verb;
    struct dlock_script script;          /* .parts[0] NULL: it is none */
    char calls[DLOCK_TEXT_RIGHTS_BYTES]; /* its verbs, each with a blank */
    char rights[DLOCK_TEXT_RIGHTS_BYTES + 20]; /* a part of the script */
    struct dlock_text_answer answers[DLOCK_TEXT_ANSWERS_MAX];
    size_t answers_n;
};

/* Settings, and their words: the first ones are the defaults. */
enum dlock_text_setting {
    DLOCK_TEXT_OWNER,
    DLOCK_TEXT_FINALLY,
    DLOCK_TEXT_RENEWED,
    DLOCK_TEXT_COUNTED,
    DLOCK_TEXT_PAUSE,
};
enum { DLOCK_TEXT_SETTINGS_N = DLOCK_TEXT_PAUSE + 1 };
enum { DLOCK_TEXT_RANDOM, DLOCK_TEXT_CONSTANT, DLOCK_TEXT_NUMBER };
enum { DLOCK_TEXT_INSIDE, DLOCK_TEXT_NONE, DLOCK_TEXT_AROUND };
enum { DLOCK_TEXT_NOBODY, DLOCK_TEXT_GUARD, DLOCK_TEXT_WATCHDOG };
enum { DLOCK_TEXT_SESSION = 1, DLOCK_TEXT_SERVER };
enum { DLOCK_TEXT_SHORT, DLOCK_TEXT_DOUBLING };

struct dlock_text {
    struct dlock_strategy strategy; /* .variant points to all of it */
    char *name;
    char *words; /* the text, cut up; all else points into it */
    unsigned settings[DLOCK_TEXT_SETTINGS_N];
    struct dlock_text_commands {
        struct dlock_text_command commands[DLOCK_TEXT_COMMANDS_MAX];
        size_t n;
    } parts[DLOCK_TEXT_PARTS_N];
};

/* The place in LUA of what a text's script must not have, as WORD, and WHY. NULL: it can
 * neither loop nor touch other keys. Its CALLS are listed. */
const char *dlock_text_script_fault(const char *lua,
                                    char calls[DLOCK_TEXT_RIGHTS_BYTES],
                                    char word[DLOCK_TEXT_WORD_BYTES],
                                    const char **why);

/* Has each script of TEXT ask for the rights that it needs, before it writes. */
void dlock_text_ask_rights(struct dlock_text *text);

/* Reads TEXT, of the lock or the file NAME. NULL: it is none, or there is no memory; the
 * error says so with line and word. */
struct dlock_text *dlock_text_read(const char *name, const char *text);
void dlock_text_free(struct dlock_text *text);

/* The command of PART, by its place, that ANSWER to command I goes on to; ->n: none. */
size_t dlock_text_next(const struct dlock_text_commands *part, size_t i,
                       const struct dlock_text_answer *answer);

/* The slots of a text's strategy, but for its name and what its words say (text_play.c). */
extern const struct dlock_strategy dlock_text_slots;
dlock_renew_slot dlock_text_renew;

/* One part of TEXT, for a lock that has more besides. */
enum dlock_status dlock_text_run(const struct dlock_text *text,
                                 enum dlock_text_part part,
                                 const struct dlock_attempt *attempt);

/* The guard thread (guard.c) ------------------------------------------------ */

/* As a strategy's open and close: one guard per client, in client->own. */
enum dlock_status dlock_guard_open(struct dlock *client);
void dlock_guard_close(struct dlock *client);

/* The lock NAME was taken: guards it from now on. False: no memory or no thread. */
bool dlock_guard_start(struct dlock *client, const char *name);

/* Ends the guarding of all names of the client: that is its fault. */
void dlock_guard_stop(struct dlock *client);

#endif

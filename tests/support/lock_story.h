/*
 * Tests of locks as stories: who does what, what comes of it, and what the server has
 * then. A story is played with each of its locks, each time on a fresh server. Its
 * statements stand one behind the other, with ";" between:
 *
 *   WHO VERB [its words] [-> STATUS 'text of the error']
 *
 * WHO is a, b, c or d, each with a client of its own, or a2, b2 ...: another session
 * of the same client. The status is ok where none is named, and one of several in
 * "ok|lost". A text that begins with ".." is only a part. Words are the lease (a bare
 * number), and wait=, max=, floor=, deadlock=, fenced of the terms; name= of the lock, if it is
 * not "k"; and a name for the hold, if there are several ("a takes inner", "a gives
 * inner"). Others say what has to be so afterwards: holds=, token= (also "rises"
 * and "same"), left=, held=, waiters=, owner=WHO (or nobody; of those that wait,
 * the first), label=.
 *
 *   takes, tries, gives, extends, forces   as the functions of dlock.h
 *   begins, waits, ends                    an asynchronous acquire, its result
 *   cancels, stops                         its call; all waits of its client
 *   sees, has                              dlock_inspect(); what it believes itself
 *   counts                                 dlock_inspect_waiters()
 *   asks                                   dlock_waits_for(), what it says
 *   dies, closes                           gives nothing back; its client is closed
 *   borrows as=WHO, poses as=WHO           that one's grant; it passes for its own
 *
 * "& WHO VERB ..." is done by a thread: "still" says that it is at it, and "join"
 * waits for it. A word in capitals begins a command to the server, whose answer may be
 * compared ("PTTL k -> 1..5000"). In it, and in what follows, $a is a's owner id. And
 * there are:
 *
 *   watchdog MS, commands MS   the lease of the one, the time of the others, ...
 *   lock NAME, labelled WORD   and the lock, and the label, of who comes from now on
 *   fail STEP before|after N, also ..., shut STEP before|after, gate, open
 *                              as step_log.h says; "fail ... 0" ends it
 *   steps STEP N, forget       how often it was begun; counts from now on
 *   await STEP N, more STEP N  until it has ended so often, in all or from now on
 *   held, free, probe          of "k", on the server and for somebody else
 *   lost N WORD                so many losses of "k" are told, the last in this word
 *   listen CHANNEL, heard 0|1  to what is published; for a moment, or until it comes
 *   until STATEMENT            waits for that to be so
 *   told WHO VERB ...          asked once more while the answer is uncertain
 *   server kill|restart|pause|resume   or what the host of the stories knows
 *   sleep MS, clock, took N    since the clock was set
 *
 * A lock may be on several servers, as in "redlock:5" (see node_rig.h). Then it is
 * "held 3" by so many, and one of them is told what to do: "@1 DEL k", "server kill 1",
 * "fail STEP before N @1" (others may as well; "mend" ends all), "nap STEP after MS
 * @1", where it sleeps.
 *
 * N may be a range ("3..5", "3.."); a number may be one of lock_rig.h's ("lease",
 * "timeout", "prompt", "long", "lease+500", "longest"), "always", or "far", a token
 * that no time comes to; -1 is what never ends.
 */
#ifndef LOCK_STORY_H
#define LOCK_STORY_H

#include <stddef.h>

struct lock_story {
    const char *what;
    const char *locks; /* with blanks between them */
    const char *story;
};

/* The server of a program's stories, where it is not the Redis of lock_rig.h. */
struct lock_story_host {
    /* Empties it, and sets the rig's url for LOCK, and what else its clients need. */
    void (*fresh)(const char *lock);

    /* "server kill", and the like: HOW, and the next word, or NULL. */
    void (*serve)(const char *how, const char *which);
};
extern const struct lock_story_host *lock_story_host;

/* A test in C of such a lock: its name is the *state. */
int lock_story_fresh(void **state);
#define LOCK_STORY_TEST(test, lock)                                            \
    {                                                                          \
#test " (" lock ")", test, lock_story_fresh, NULL, (char[])            \
        {                                                                      \
            lock                                                               \
        }                                                                      \
    }

/* Fails the test with what was told, and where. */
void lock_story_play(const struct lock_story stories[], size_t n);

/* The test of a program, whose stories are an array of that name. */
#define LOCK_STORIES_TEST                                                      \
    UNIT_TEST(test_stories)                                                    \
    {                                                                          \
        lock_story_play(stories, COUNT_OF(stories));                           \
    }

/* The locks that most stories are about. */
#define LOCKS_REENTRANT "reentrant-local reentrant spin redisson fair fenced"
#define LOCKS_OWNED     "token-lua watchdog reentrant spin redisson fenced fair"

#endif

/*
 * A tape of the commands that a redis-server gets: records them with MONITOR,
 * and delivers any of them again later, as a connection does that was held up.
 *
 * For one thread. What cannot be done ends the process, with a line on standard
 * error: a check that cannot record proves nothing.
 */
#ifndef TAPE_H
#define TAPE_H

#include <stdbool.h>
#include <stddef.h>

struct tape;

/* Records from now on what the server at the Unix socket PATH gets. */
struct tape *tape_open(const char *path);
void tape_close(struct tape *tape);

/* Brings the tape up to date; how many commands are on it. */
size_t tape_n(struct tape *tape);

/* How many commands there were that are not on it: those of a replay, and of others
 * during a call of this module but tape_n(). */
size_t tape_unrecorded_n(const struct tape *tape);

/* The text of command I, as redis-cli shows it: "EVALSHA" "..." ... */
const char *tape_text(const struct tape *tape, size_t i);

/* Delivers command I again, and waits for the reply, which nobody reads. It is
 * not recorded once more. */
void tape_replay(struct tape *tape, size_t i);

/*
 * Remembers all keys with KEY in their names; and sets them back, as if nothing
 * had arrived since. KEY has no characters that mean something in a pattern.
 */
void tape_save(struct tape *tape, const char *key);
void tape_restore(struct tape *tape, const char *key);

/*
 * The value that the server has under KEY, and when it ends, into TEXT of SIZE bytes:
 * the same text as long as nothing changes. *EXISTS says whether it is there.
 */
void tape_state(struct tape *tape, const char *key, char text[], size_t size,
                bool *exists);

#endif

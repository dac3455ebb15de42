/*
 * The locks of the textbooks, which are there to be seen failing: from mkdir to
 * spin, fenced-late and recorded; and a lock of one's own, as a text. They are in no
 * library that is installed: nobody gets one by a slip of the pen.
 *
 * Their url is that of Redis; "dir:PATH" for mkdir, which takes any other for
 * dir:/tmp/dlock-UID; for recorded that of Redis, a comma, and that of the SQL
 * database (dlock_more.h).
 *
 * Nothing here may be called while another thread is at a lock.
 */
#ifndef DLOCK_TEXTBOOK_H
#define DLOCK_TEXTBOOK_H

#include "lock/dlock.h"

/* Registers all locks of this build: these, those over SQL and ZooKeeper; and TLS. */
void dlock_register_all(void);

/* The text of the lock NAME, as lock/textbook/text.h has it. NULL: it is none. */
const char *dlock_textbook_text(const char *name);

/* Script I, from 0, of the text of the lock NAME, and in *LINE that of its EVAL, above
 * it. NULL: it has no more, or is no text. */
const char *dlock_textbook_script(const char *name, size_t i, unsigned *line);

/* Whether the lock NAME is released after an error under it, too, as all but a text with
 * `finally none`; whether it is a text with keys beside that of its lock. */
bool dlock_textbook_has_finally(const char *name);
bool dlock_textbook_has_keys_beside(const char *name);

/* A command of the text LOCK was answered by a REPLY that its LINE does not name:
 * DLOCK_UNKNOWN, because it may have had its effect. A call of its own, so that the
 * laboratory hears of it. ERROR may be NULL. */
enum dlock_status dlock_textbook_unnamed(const char *lock, unsigned line,
                                         const char *reply,
                                         struct dlock_error *error);

/* Whether NAME is that of a file: it ends with ".lock". */
bool dlock_textbook_is_file(const char *name);

/* Reads the lock in the file PATH, and registers it under that name; once. Without
 * SCRIPTS a text that has a script is refused. DLOCK_MISUSE: it is no lock, and ERROR
 * says why, with line and word; or there are four already. */
enum dlock_status dlock_textbook_open(const char *path, bool scripts,
                                      struct dlock_error *error);

#endif

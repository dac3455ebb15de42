/*
 * The locks of the textbooks, which are there to be seen failing: from mkdir to
 * spin, fenced-late and recorded. They are in the program stockade and its tests,
 * and in no library that is installed: nobody gets one by a slip of the pen.
 *
 * Their url is that of Redis; "dir:PATH" for mkdir, which takes any other for
 * dir:/tmp/dlock-UID; for recorded that of Redis, a comma, and that of the SQL
 * database (dlock_sql.h).
 */
#ifndef DLOCK_TEXTBOOK_H
#define DLOCK_TEXTBOOK_H

/* Registers all locks of this build: these, those over SQL and ZooKeeper; and TLS. */
void dlock_register_all(void);

#endif

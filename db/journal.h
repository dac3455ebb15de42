/*
 * The journal rule: a WAL while this process is the only one that writes, a
 * rollback journal when several do, because SQLite before 3.51.3 may corrupt a
 * WAL that several connections write and checkpoint. lockfile.h sees to it that
 * the two never meet.
 *
 * PERSIST, because deleting or truncating the journal file at each commit costs
 * the same fsyncs and more of the file system.
 */
#ifndef STORE_JOURNAL_H
#define STORE_JOURNAL_H

#include "db/sqlite.h"

/* STORE_BUSY if others read the database for longer than options->busy_ms. */
enum store_status journal_choose(struct sqlite *db,
                                 const struct sqlite_options *options,
                                 struct store_error *error);

#endif

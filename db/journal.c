/*
 * Which journal a database gets. See journal.h for the rule.
 */
#include "db/journal.h"

#include <strings.h>

#include "db/backoff.h"
#include "db/failure.h"

/*
 * Changing between WAL and rollback journal needs the file for itself and does
 * not ask the busy handler, so we ask again ourselves: an audit may be reading.
 */
enum store_status journal_choose(struct sqlite *db,
                                 const struct sqlite_options *options,
                                 struct store_error *error)
{
    const char *wanted = options->shared ? "persist" : "wal";
    const char *sql = options->shared ? "PRAGMA journal_mode = PERSIST"
                                      : "PRAGMA journal_mode = WAL";
    enum store_status status;
    struct backoff backoff = {.hurry = options->hurry};
    char mode[16];

    backoff_begin(&backoff, options->busy_ms);
    do {
        struct sqlite_query *query = sqlite_query(db, sql);

        mode[0] = '\0';
        if (sqlite_next(query))
            sqlite_text(query, 0, mode, sizeof(mode));
        status = sqlite_end(query, error);
        if (status == STORE_OK && strcasecmp(mode, wanted) == 0)
            return STORE_OK;
        if (status != STORE_OK && status != STORE_BUSY)
            return status;
    } while (backoff_wait(&backoff));
    return failure_set(error, STORE_BUSY,
                       "another process reads the database: its journal "
                       "cannot be changed to %s now",
                       wanted);
}

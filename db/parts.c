/*
 * What an order took from where. See parts.h.
 */
#include "db/parts.h"

enum store_status parts_insert(struct sqlite *db, int64_t number,
                               const struct store_parts *parts,
                               struct store_error *error)
{
    enum store_status status = STORE_OK;
    struct sqlite_query *query;

    for (size_t i = 1; i < parts->n && status == STORE_OK; i++) {
        query = sqlite_query(db, "INSERT INTO parts (number, segment, units) "
                                 "VALUES (?1, ?2, ?3)");
        sqlite_bind(query, number, parts->parts[i].segment,
                    parts->parts[i].units);
        sqlite_next(query);
        status = sqlite_end(query, error);
    }
    return status;
}

/* Parts ascend, and so the order's own is the first. */
enum store_status parts_read(struct sqlite *db, int64_t number, int64_t segment,
                             int64_t quantity, struct store_parts *parts,
                             struct store_error *error)
{
    struct sqlite_query *query;
    struct store_part *own = &parts->parts[0], *part;

    *own = (struct store_part){.segment = segment, .units = quantity};
    parts->n = 1;
    query = sqlite_query(db, "SELECT segment, units FROM parts "
                             "WHERE number = ?1 ORDER BY segment");
    sqlite_bind(query, number);
    while (parts->n < STORE_SEGMENTS_MAX && sqlite_next(query)) {
        part = &parts->parts[parts->n++];
        part->segment = sqlite_int(query, 0);
        part->units = sqlite_int(query, 1);
        own->units -= part->units;
    }
    return sqlite_end(query, error);
}

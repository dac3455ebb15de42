/*
 * The WAL: when it is copied into the database, and room behind its end.
 *
 * How long it may get
 * -------------------
 * Long, for a page that is written often is copied once for all those times.
 * When it begins anew it is written over from its beginning; the file stays as
 * long as it is.
 *
 * Room
 * ----
 * A commit that makes the file longer is synced in 200 to 300 us here, one that
 * writes over what is there in 130: the file system has no new size to sync. So
 * zeros are written behind the end before they are needed, a piece at a time,
 * since the next commit has to wait until they are on disk. To SQLite they are
 * no frames: their checksums are wrong.
 */
#include "db/sqlite/sqlite_private.h"

#define WAL_CHECKPOINT_FRAMES 16000 /* 64 MB */
#define WAL_BUSY_FRAMES       250   /* a WAL worth having room made for it */
#define WAL_FRAME_BYTES       (4096 + 24) /* a page and the frame's head */
#define WAL_ROOM_BYTES        1048576
#define WAL_PIECE_BYTES       65536

static int on_wal_commit(void *ctx, sqlite3 *handle, const char *name,
                         int frames)
{
    struct sqlite *db = ctx;

    (void)handle;
    (void)name;
    db->wal_frames = frames;
    return SQLITE_OK;
}

void wal_watch(struct sqlite *db)
{
    sqlite3_wal_hook(db->handle, on_wal_commit, db);
}

void wal_checkpoint(struct sqlite *db)
{
    db->wal_frames = 0;
    (void)sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE,
                                    NULL, NULL);
}

/* A checkpoint syncs the WAL before it copies anything. On a full disk that has
 * been done as well, and what is copied is synced in turn. */
enum store_status wal_settle(struct sqlite *db)
{
    int rc = sqlite3_wal_checkpoint_v2(db->handle, NULL,
                                       SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);

    if (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_FULL)
        return STORE_OK;
    return sql_fail(&db->sql, STORE_IO,
                    "what was written before cannot be brought to disk: %s",
                    sqlite3_errmsg(db->handle));
}

/* In pieces: of the length of a write SQLite's own VFS looks at the lower 17
 * bits only, and takes a piece that has none there for a full disk. */
static bool append_room(sqlite3_file *wal, sqlite3_int64 end)
{
    static const char zeros[WAL_PIECE_BYTES];

    for (sqlite3_int64 at = end; at < end + WAL_ROOM_BYTES;
         at += WAL_PIECE_BYTES)
        if (wal->pMethods->xWrite(wal, zeros, WAL_PIECE_BYTES, at) != SQLITE_OK)
            return false;
    return true;
}

/* On a full disk it does without. */
static void make_room(struct sqlite *db)
{
    sqlite3_int64 end = (sqlite3_int64)db->wal_frames * WAL_FRAME_BYTES;
    sqlite3_file *wal = NULL;
    sqlite3_int64 size;

    if (end + WAL_ROOM_BYTES / 2 < db->wal_bytes)
        return;
    sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER,
                         &wal);
    if (!wal->pMethods || wal->pMethods->xFileSize(wal, &size) != SQLITE_OK)
        return;
    db->wal_bytes = size;
    if (end + WAL_ROOM_BYTES / 2 >= size && !append_room(wal, size))
        db->wal_bytes = INT64_MAX; /* not again */
}

void wal_tend(struct sqlite *db)
{
    if (db->wal_frames >= WAL_CHECKPOINT_FRAMES)
        wal_checkpoint(db);
    else if (db->wal_frames >= WAL_BUSY_FRAMES)
        make_room(db);
}

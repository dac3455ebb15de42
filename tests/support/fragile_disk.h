/*
 * A disk that can lose its power: a VFS between SQLite and the real one.
 *
 * Files in one directory are written as usual, so all who read them see what
 * was written last, as through the kernel's cache. Beside that the disk keeps
 * what would be there after a power loss: what was synced, and of all that was
 * not, whatever chance likes: nothing, all, the first of it, the last of it,
 * single sectors of it, or sectors of zeros; of each file something else. Names
 * count as well: a new file, or a deletion, is there for good only when its
 * directory was synced.
 *
 * Power is lost at random moments - before and after a write, in the middle of
 * a sync - any number of times: the disk is copied as it would be found, the
 * test looks at the copy, and the life of the original goes on.
 *
 * A test of durability has to fail where there is none, so the disk can also be
 * one that lies (enum fragile_lie).
 *
 * One disk at a time. The seed decides about each power loss, but not when the
 * threads of a store run; so a failure may need some tries to come again.
 */
#ifndef FRAGILE_DISK_H
#define FRAGILE_DISK_H

#include <stdbool.h>
#include <stddef.h>

enum fragile_lie {
    FRAGILE_TRUE,          /* what was synced is there */
    FRAGILE_NO_SYNC,       /* no sync does anything: synchronous = OFF */
    FRAGILE_LATE_SYNC,     /* a sync is said to be over before it is: by one */
    FRAGILE_WRONG_FILE,    /* to sync the WAL syncs the database */
    FRAGILE_NO_CHECKPOINT, /* once there is a WAL the database is not synced,
                              as it has to be before the WAL begins anew */
    FRAGILE_LIES_N
};

struct fragile_options {
    const char *dir; /* the disk: files in here, and no others */
    unsigned seed;
    enum fragile_lie lie;
    unsigned cut_one_in; /* of so many moments one is a power loss */
    /*
     * The copy's directory is IMAGE, until this returns. On whichever thread
     * uses the disk at that moment, while all others stand still that want to;
     * it may use other disks. Called twice: before the copy is made (IMAGE is
     * NULL), what was told to anybody by then has to be in it; and after.
     */
    void (*on_cut)(void *ctx, const char *image);
    void *ctx;
};

/* Every database that is opened in DIR from now on is on the disk. */
void fragile_disk_begin(const struct fragile_options *options);

/* What has happened: else a test may have tested nothing. */
struct fragile_story {
    int cuts;      /* power losses */
    int db_writes; /* in WAL mode: checkpoints */
    int begins;    /* of a WAL or journal, anew */
    int wide;      /* writes of WIDE_BYTES or more: room behind a WAL */
    int full;      /* writes that found no room */
    int broken;    /* syncs that failed */
};

#define FRAGILE_WIDE_BYTES 32768

/* To all disks since this was asked last. */
struct fragile_story fragile_disk_story(void);

/* All databases on it have to be closed. */
void fragile_disk_end(void);

/* The next write to a WAL, or another journal, finds no room. */
void fragile_disk_fill(void);

/*
 * The next sync of a WAL or journal fails, and what it should have brought to disk is
 * forgotten, as by Linux: the cache has it, and believes it to be on disk.
 */
void fragile_disk_break(void);

#endif

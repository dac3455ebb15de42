/*
 * Lessons about a machine that loses its power: what is on disk then is what was
 * synced, and not what was written.
 */
#include "server/lab/lessons/lesson.h"

#include <stdio.h>

#include "server/lab/world/disk.h"

/* 42. A transaction that is over for all who read the file, and nowhere on disk. */
static void order_on_disk(struct program_actor *self)
{
    unsigned before = disk_syncs();

    (void)program_sql(self, NULL, "PRAGMA synchronous = %s",
                      lesson_is(self, "order-synced") ? "FULL" : "OFF");
    lesson_order_whole(self);
    turns_note(disk_syncs() > before
                   ? "fsync: the disk has it"
                   : "no fsync: only the kernel's memory has it");
}

/* Not a buyer but the machine. */
static void power_cut(struct program_actor *self)
{
    struct page_thread shown = {
        .is_sql = true,
        .is_write = true,
        .part = PAGE_BY_HAND,
        .step = DISK_PROGRAM,
        .words_n = 1,
        .words = "the power fails",
    };

    (void)turns_step(&shown);
    if (turns_ending())
        return;
    (void)turns_stepped(0, disk_cut(self->db_path)
                               ? "what was synced is there"
                               : "what was synced cannot be read");
}

const struct program lesson_disks[] = {
    {"order-unsynced", "orders in a database that does not wait for its disk",
     1, order_on_disk, NULL},
    {"order-synced", "orders in a database that waits for its disk", 1,
     order_on_disk, NULL},
    {DISK_PROGRAM, "is the machine, which loses its power", 0, power_cut, NULL},
    {0},
};

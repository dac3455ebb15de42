/*
 * Lessons about what is around an order. The lock works, and yet too much is sold: both
 * sell like the textbook, read the stock, write what is left, write the order. And a
 * machine that loses its power: what is on disk then is what was synced, and not what was
 * written.
 */
#include "server/lab/lessons/lesson.h"

#include "server/lab/world/world.h"

/* 26. The release stands inside of the transaction, as it does where a framework
 * commits when the method that has the lock returns; or behind it. */
void lesson_order_in_transaction(struct program_actor *self)
{
    bool unlocks_first = lesson_is(self, "order-unlocks-first");
    enum program_answer answer;
    struct lock_task lock;
    char name[LOCK_NAME_BYTES];
    int64_t stock;

    lock_name(self->role.product, 0, name);
    if (!lesson_take(self, name, &lock))
        return;
    if (!lesson_read_stock(self, &stock)) {
        (void)program_give(self, &lock);
        return;
    }
    answer = program_sql(self, NULL, "BEGIN IMMEDIATE");
    if (answer == PROGRAM_OK)
        answer = lesson_write_order(self, stock);
    if (unlocks_first) /* the next one reads what was before */
        (void)program_give(self, &lock);
    if (answer == PROGRAM_OK)
        answer = program_sql(self, NULL, "COMMIT");
    lesson_reply(answer);
    if (!unlocks_first)
        (void)program_give(self, &lock);
}

/* 28. The stock is the product's; the lock is the user's. */
void lesson_order_locks_user(struct program_actor *self)
{
    struct lock_task lock;
    char name[LOCK_NAME_BYTES];
    int64_t stock;

    lock_name_of_user(self->role.user, name);
    if (!lesson_take(self, name, &lock))
        return;
    if (lesson_read_stock(self, &stock))
        lesson_reply(lesson_write_order(self, stock));
    (void)program_give(self, &lock);
}

/* ---- a disk ---------------------------------------------------------------- */

/* 42. A transaction that is over for all who read the file, and nowhere on disk. */
void lesson_order_on_disk(struct program_actor *self)
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
void lesson_power_cut(struct program_actor *self)
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

/*
 * A file on a disk that can lose its power (fragile_disk.h): what is on disk for
 * sure, and a list of changes that are not.
 */
#ifndef FRAGILE_INODE_H
#define FRAGILE_INODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A write; or, without data, a new size. */
struct fragile_change {
    size_t offset, length;
    uint8_t *data;
};

struct fragile_inode {
    /* Of all, since deleted ones may still be open. */
    struct fragile_inode *next;
    uint8_t *bytes; /* on disk */
    size_t size, room;
    /* Not on disk, in the order they were made. */
    struct fragile_change *changes;
    size_t changes_n;
    size_t settled; /* changes that have left the list */
    size_t late;    /* FRAGILE_LATE_SYNC: as many when the last one began */
};

/* What decides about each power loss; one in N, from 0. */
void fragile_seed(unsigned seed);
unsigned fragile_chance(unsigned n);

struct fragile_inode *fragile_inode_new(void);
void fragile_inode_free(struct fragile_inode *inode);

void fragile_inode_change(struct fragile_inode *inode, const void *data,
                          size_t length, size_t offset);

/* The number of its last change. */
size_t fragile_inode_last(const struct fragile_inode *inode);

/* All changes up to number LAST are on disk; or, if the sync FAILED, forgotten. */
void fragile_inode_settle(struct fragile_inode *inode, size_t last,
                          bool failed);

/* Writes to PATH what a power loss leaves of it. */
void fragile_inode_found(const struct fragile_inode *inode, const char *path);

#endif

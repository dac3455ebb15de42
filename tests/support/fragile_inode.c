/* See fragile_inode.h. */
#include "tests/support/fragile_inode.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 512

static unsigned random_state;

void fragile_seed(unsigned seed)
{
    random_state = seed;
}

unsigned fragile_chance(unsigned n)
{
    return (unsigned)rand_r(&random_state) % n;
}

/* ---- what is on disk ---------------------------------------------------- */

static void *resized(void *memory, size_t size)
{
    memory = realloc(memory, size);
    assert(memory);
    return memory;
}

static void resize(struct fragile_inode *inode, size_t size)
{
    /* Sector by sector a sanitizer's realloc() would copy all of it each time. */
    if (size > inode->room) {
        inode->room = 2 * size;
        inode->bytes = resized(inode->bytes, inode->room);
    }
    if (size > inode->size)
        memset(inode->bytes + inode->size, 0, size - inode->size);
    inode->size = size;
}

/* So many PERCENT of its sectors. With ZEROS there is nothing in those of them
 * that the file has grown by. */
static void apply(struct fragile_inode *inode,
                  const struct fragile_change *change, unsigned percent,
                  bool zeros)
{
    size_t end = change->offset + change->length, from, next;
    bool is_new;

    if (!change->data) {
        if (fragile_chance(100) < percent)
            resize(inode, change->offset);
        return;
    }
    for (from = change->offset; from < end; from = next) {
        next = (from / SECTOR + 1) * SECTOR;
        if (next > end)
            next = end;
        if (percent < 100 && fragile_chance(100) >= percent)
            continue;
        is_new = from >= inode->size;
        if (next > inode->size)
            resize(inode, next);
        assert(inode->bytes);
        if (!zeros || !is_new)
            memcpy(inode->bytes + from, change->data + from - change->offset,
                   next - from);
    }
}

void fragile_inode_change(struct fragile_inode *inode, const void *data,
                          size_t length, size_t offset)
{
    struct fragile_change *change;

    /* Twice as much whenever it is a power of two, and so may be full. */
    if ((inode->changes_n & (inode->changes_n - 1)) == 0)
        inode->changes = resized(inode->changes,
                                 (2 * inode->changes_n + 1) * sizeof(*change));
    change = &inode->changes[inode->changes_n++];
    *change = (struct fragile_change){.offset = offset, .length = length};
    if (data)
        change->data = memcpy(resized(NULL, length), data, length);
}

void fragile_inode_settle(struct fragile_inode *inode, size_t last, bool failed)
{
    size_t n = last > inode->settled ? last - inode->settled : 0;

    if (n > inode->changes_n)
        n = inode->changes_n;
    for (size_t i = 0; i < n; i++) {
        if (!failed)
            apply(inode, &inode->changes[i], 100, false);
        free(inode->changes[i].data);
    }
    inode->settled += n;
    inode->changes_n -= n;
    if (inode->changes_n > 0)
        memmove(inode->changes, inode->changes + n,
                inode->changes_n * sizeof(inode->changes[0]));
}

size_t fragile_inode_last(const struct fragile_inode *inode)
{
    return inode->settled + inode->changes_n;
}

struct fragile_inode *fragile_inode_new(void)
{
    struct fragile_inode *inode = resized(NULL, sizeof(*inode));

    *inode = (struct fragile_inode){0};
    return inode;
}

void fragile_inode_free(struct fragile_inode *inode)
{
    fragile_inode_settle(inode, SIZE_MAX, true);
    free(inode->changes);
    free(inode->bytes);
    free(inode);
}

/* ---- what a power loss leaves ------------------------------------------- */

enum luck { NOTHING, ALL, FIRST, LAST, SECTORS, ZEROS, LUCKS };

/* What is there of the changes: of those from FIRST to LAST all, and of the next
 * one some sectors; or of each some sectors. */
static struct fragile_inode image_of(const struct fragile_inode *inode)
{
    enum luck luck = (enum luck)fragile_chance(LUCKS);
    unsigned percent = 10 + fragile_chance(3) * 40;
    size_t n = inode->changes_n, some = fragile_chance((unsigned)n + 1);
    size_t first = luck == LAST ? some : 0, last = luck == FIRST ? some : n;
    struct fragile_inode image = {0};

    resize(&image, inode->size);
    if (inode->size > 0)
        memcpy(image.bytes, inode->bytes, inode->size);
    for (size_t i = first; i < n && luck != NOTHING; i++) {
        if (luck == SECTORS || luck == ZEROS || i == last)
            apply(&image, &inode->changes[i], percent, luck == ZEROS);
        else if (i < last)
            apply(&image, &inode->changes[i], 100, false);
    }
    return image;
}

static void write_image(const struct fragile_inode *image, const char *path)
{
    FILE *file = fopen(path, "we");
    size_t written = 0;

    if (file && image->size > 0)
        written = fwrite(image->bytes, 1, image->size, file);
    assert(file && written == image->size);
    (void)written;
    fclose(file);
}

void fragile_inode_found(const struct fragile_inode *inode, const char *path)
{
    struct fragile_inode image = image_of(inode);

    write_image(&image, path);
    free(image.bytes);
}

/*
 * A list of pages, one for each name held: a session rarely holds more than
 * two or three at a time.
 */
#include "lock/book.h"

#include <stdlib.h>
#include <string.h>

struct dlock_page {
    struct dlock_page *next;
    unsigned holds;
    uint64_t first; /* the attempt that won the first of them */
    char name[];
};

/* The link that leads to NAME's page, or to the end. */
static struct dlock_page **find(struct dlock_book *book, const char *name)
{
    struct dlock_page **link = &book->pages;

    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

static const struct dlock_page *look_up(const struct dlock_book *book,
                                        const char *name)
{
    const struct dlock_page *page = book->pages;

    while (page != NULL && strcmp(page->name, name) != 0)
        page = page->next;
    return page;
}

unsigned dlock_book_holds(const struct dlock_book *book, const char *name)
{
    const struct dlock_page *page = look_up(book, name);

    return page == NULL ? 0 : page->holds;
}

bool dlock_book_need(struct dlock_book *book, const char *name)
{
    struct dlock_page **link = find(book, name);
    size_t size = strlen(name) + 1;

    if (*link != NULL)
        return true;
    *link = calloc(1, sizeof(**link) + size);
    if (*link == NULL)
        return false;
    memcpy((*link)->name, name, size);
    return true;
}

void dlock_book_set(struct dlock_book *book, const char *name, unsigned holds)
{
    struct dlock_page **link = find(book, name);
    struct dlock_page *page = *link;

    if (page == NULL)
        return;
    page->holds = holds;
    if (holds > 0)
        return;
    *link = page->next;
    free(page);
}

/* A server may count on from holds of ours that we know to have given back. */
bool dlock_book_grant(struct dlock_book *book, const char *name, unsigned holds,
                      uint64_t attempt)
{
    struct dlock_page *page = *find(book, name);
    bool anew;

    if (page == NULL)
        return false;
    anew = page->holds > 0 && holds == 1;
    if (page->holds == 0 || anew)
        page->first = attempt;
    page->holds = holds;
    return anew;
}

bool dlock_book_outlived(const struct dlock_book *book, const char *name,
                         uint64_t attempt)
{
    const struct dlock_page *page = look_up(book, name);

    return page != NULL && page->holds > 0 && attempt < page->first;
}

void dlock_book_release(struct dlock_book *book)
{
    while (book->pages != NULL) {
        struct dlock_page *next = book->pages->next;

        free(book->pages);
        book->pages = next;
    }
}

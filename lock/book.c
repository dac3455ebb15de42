/*
 * A hash table of pages, one for each name held: a session rarely holds more
 * than two or three at a time, but it may hold a thousand.
 */
#include "lock/book.h"

#include <stdlib.h>
#include <string.h>

struct dlock_page {
    struct dlock_page *next;
    unsigned holds;
    uint64_t first; /* the attempt that won the first of them */
    struct dlock_doubt doubt;
    uint64_t *grants; /* the attempts that won what is held */
    size_t grants_n;
    size_t room;
    char name[];
};

/* FNV-1a. */
static size_t bucket_of(const char *name)
{
    uint32_t hash = UINT32_C(2166136261);

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT32_C(16777619);
    return hash % DLOCK_BOOK_BUCKETS;
}

/* The link that leads to NAME's page, or to the end. */
static struct dlock_page **find(struct dlock_book *book, const char *name)
{
    struct dlock_page **link = &book->buckets[bucket_of(name)];

    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

static const struct dlock_page *look_up(const struct dlock_book *book,
                                        const char *name)
{
    const struct dlock_page *page = book->buckets[bucket_of(name)];

    while (page != NULL && strcmp(page->name, name) != 0)
        page = page->next;
    return page;
}

unsigned dlock_book_holds(const struct dlock_book *book, const char *name)
{
    const struct dlock_page *page = look_up(book, name);

    return page == NULL ? 0 : page->holds;
}

static void free_page(struct dlock_page *page)
{
    free(page->grants);
    free(page);
}

static bool has_room(struct dlock_page *page)
{
    size_t room = 2 * page->room + 1;
    uint64_t *grants;

    if (page->grants_n < page->room)
        return true;
    grants = realloc(page->grants, room * sizeof(*grants));
    if (grants == NULL)
        return false;
    page->grants = grants;
    page->room = room;
    return true;
}

bool dlock_book_need(struct dlock_book *book, const char *name)
{
    struct dlock_page **link = find(book, name);
    size_t size = strlen(name) + 1;

    if (*link == NULL) {
        *link = calloc(1, sizeof(**link) + size);
        if (*link == NULL)
            return false;
        memcpy((*link)->name, name, size);
    }
    return has_room(*link);
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
    if (page->doubt.number != 0)
        book->doubt = page->doubt;
    free_page(page);
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
    if (page->holds == 0 || anew) {
        page->first = attempt;
        page->grants_n = 0;
    }
    page->grants[page->grants_n++] = attempt;
    page->holds = holds;
    return anew;
}

/* Where GRANT stands; past the end if it does not. */
static size_t place_of(const struct dlock_page *page, uint64_t grant)
{
    size_t i = 0;

    while (i < page->grants_n && page->grants[i] != grant)
        i++;
    return i;
}

void dlock_book_strike(struct dlock_book *book, const char *name,
                       uint64_t grant)
{
    struct dlock_page *page = *find(book, name);
    size_t i = page == NULL ? 0 : place_of(page, grant);

    if (page != NULL && i < page->grants_n)
        page->grants[i] = page->grants[--page->grants_n];
}

/* A doubt about what was lost since is none. */
bool dlock_book_outlived(const struct dlock_book *book, const char *name,
                         uint64_t attempt)
{
    const struct dlock_page *page = look_up(book, name);

    if (page == NULL || page->holds == 0)
        return false;
    return attempt < page->first ||
           (place_of(page, attempt) == page->grants_n &&
            dlock_book_doubted(book, name, attempt) == 0);
}

static bool is_about(const struct dlock_doubt *doubt, uint64_t grant)
{
    return doubt->number != 0 && doubt->grant == grant;
}

/* It may have been there before the page was. */
void dlock_book_doubt(struct dlock_book *book, const char *name, uint64_t grant,
                      uint64_t number)
{
    struct dlock_page *page = *find(book, name);
    struct dlock_doubt *doubt = page == NULL ? &book->doubt : &page->doubt;

    if (is_about(&book->doubt, grant))
        doubt = &book->doubt;
    if (number != 0 || is_about(doubt, grant))
        *doubt = (struct dlock_doubt){.number = number, .grant = grant};
}

uint64_t dlock_book_doubted(const struct dlock_book *book, const char *name,
                            uint64_t grant)
{
    const struct dlock_page *page = look_up(book, name);

    if (page != NULL && is_about(&page->doubt, grant))
        return page->doubt.number;
    return is_about(&book->doubt, grant) ? book->doubt.number : 0;
}

void dlock_book_release(struct dlock_book *book)
{
    for (size_t i = 0; i < DLOCK_BOOK_BUCKETS; i++) {
        while (book->buckets[i] != NULL) {
            struct dlock_page *next = book->buckets[i]->next;

            free_page(book->buckets[i]);
            book->buckets[i] = next;
        }
    }
}

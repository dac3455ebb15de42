/* Urls for people: dlock_url_hide(). */
#include "lock/dlock_url.h"

#include <stdio.h>

#include "lock/dial/piece.h"

/* The piece of a url that nobody is to see; of a Unix socket's, to its end. */
static struct dlock_piece secret_of(struct dlock_piece url)
{
    const char *at = dlock_piece_last(url, '@');
    const char *next = memchr(url.text, '?', dlock_piece_length(url));
    const char *scheme = strstr(url.text, "://");

    if (at != NULL && !dlock_piece_begins(url, DLOCK_URL_LOCAL) &&
        scheme != NULL && scheme < at) {
        const char *login = scheme + strlen("://");
        const char *colon = memchr(login, ':', (size_t)(at - login));

        return (struct dlock_piece){colon == NULL ? login : colon + 1, at};
    }
    for (; next != NULL; next = memchr(next, '&', (size_t)(url.end - next)))
        if (dlock_piece_begins((struct dlock_piece){++next, url.end},
                               "password="))
            return (struct dlock_piece){next + strlen("password="), url.end};
    return (struct dlock_piece){url.end, url.end};
}

void dlock_url_hide(const char *url, char *text, size_t size)
{
    size_t used = 0;

    if (size > 0)
        text[0] = '\0';
    while (used < size) {
        struct dlock_piece one = {url, url + strcspn(url, ",")};
        struct dlock_piece hidden = secret_of(one);
        int wrote = snprintf(text + used, size - used, "%.*s%s%.*s%.1s",
                             (int)(hidden.text - url), url,
                             dlock_piece_length(hidden) > 0 ? "***" : "",
                             (int)(one.end - hidden.end), hidden.end, one.end);

        if (wrote < 0 || *one.end == '\0')
            return;
        used += (size_t)wrote;
        url = one.end + 1;
    }
}

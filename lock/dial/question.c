/* See question.h. */
#include "lock/dial/question.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/core/error.h"

/* hiredis makes room for all of a list as soon as its length has come. This many
 * parts no reply of ours has; one that says so comes from something else. */
#define PARTS_MAX (1 << 20)

#ifdef REDIS_READER_MAX_ARRAY_ELEMENTS
static void limit_lists(redisReader *reader)
{
    reader->maxelements = PARTS_MAX;
}
#else /* hiredis 0.14 */
static redisReplyObjectFunctions usual, limited;

static void *create_list(const redisReadTask *task, int parts_n)
{
    return parts_n > PARTS_MAX ? NULL : usual.createArray(task, parts_n);
}

static void set_functions(void)
{
    redisReader *reader = redisReaderCreate();

    if (reader == NULL)
        return;
    /* The other functions of hiredis stay; only the one that makes room for a list is
     * replaced. */
    usual = limited = *reader->fn;
    limited.createArray = create_list;
    redisReaderFree(reader);
}

static void limit_lists(redisReader *reader)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, set_functions);
    /* usual.createArray is NULL if there was no memory for the first reader: then the limit
     * is left out, and callers still bound the bytes of a reply. */
    if (usual.createArray != NULL)
        reader->fn = &limited;
}
#endif

redisReader *dlock_reader_open(void)
{
    redisReader *reader = redisReaderCreate();

    if (reader != NULL)
        limit_lists(reader);
    return reader;
}

/* All of them in one write. */
static bool send_all(struct dlock_link link,
                     const struct dlock_words commands[], size_t n)
{
    char *bytes = NULL;
    size_t len = 0;
    FILE *text = open_memstream(&bytes, &len);
    bool good = text != NULL;

    for (size_t i = 0; good && i < n; i++) {
        const char *const *words = commands[i].list;
        int words_n = 0;

        while (words_n < DLOCK_QUESTION_WORDS_MAX && words[words_n] != NULL)
            words_n++;
        fprintf(text, "*%d\r\n", words_n);
        for (int k = 0; k < words_n; k++)
            fprintf(text, "$%zu\r\n%s\r\n", strlen(words[k]), words[k]);
    }
    /* The deadline of the send is 0, because the buffer of a new connection has room for so
     * few bytes; one that has none is not waited for. */
    if (text == NULL || fclose(text) != 0) {
        dlock_error_say("out of memory");
        good = false;
    } else if (dlock_net_send(link, bytes, len, 0) != 0) {
        dlock_error_say("%s", strerror(errno));
        good = false;
    }
    free(bytes);
    return good;
}

redisReply *dlock_reader_next(redisReader *reader, struct dlock_link link,
                              unsigned nap_ms, size_t *bytes_max,
                              uint64_t until_ms)
{
    void *raw = NULL;

    /* The reader is asked before the socket, because one read may have brought several
     * replies. */
    for (bool more = false; redisReaderGetReply(reader, &raw) == REDIS_OK;
         more = true) {
        char bytes[4096];
        size_t room = *bytes_max < sizeof(bytes) ? *bytes_max : sizeof(bytes);
        ssize_t got;

        if (raw != NULL)
            return raw;
        /* errno is set before the branch: its caller tells by it why there is no reply. */
        errno = room == 0 ? EMSGSIZE : ETIMEDOUT;
        /* The clock is asked only after a first read, so that a reply which lies in the
         * socket at the deadline still counts. */
        if (room == 0 || (more && dlock_clock_real_now() >= until_ms))
            return NULL;
        /* ROOM bounds what is taken, so that a server cannot make this process grow without
         * end. */
        got = dlock_net_receive(link, nap_ms, bytes, room, until_ms);
        if (got == 0)
            errno = 0;
        if (got <= 0)
            return NULL;
        *bytes_max -= (size_t)got;
        /* A reader that gets no memory says so in READER->err, at the next turn. */
        (void)redisReaderFeed(reader, bytes, (size_t)got);
    }
    /* A reader that has failed stays so: the connection is of no use any more. */
    errno = EPROTO;
    return NULL;
}

enum dlock_status dlock_question(struct dlock_link link,
                                 const struct dlock_words commands[], size_t n,
                                 size_t bytes_max, uint64_t until_ms,
                                 redisReply *replies[])
{
    redisReader *reader = dlock_reader_open();
    size_t got_n = 0;

    for (size_t i = 0; i < n; i++)
        /* REPLIES are NULL first, because the caller frees each of them, whatever has
         * come. */
        replies[i] = NULL;
    if (reader == NULL)
        return dlock_error_set(DLOCK_UNREACHABLE, "out of memory");
    if (send_all(link, commands, n)) {
        while (got_n < n &&
               (replies[got_n] = dlock_reader_next(reader, link, 0, &bytes_max,
                                                   until_ms)) != NULL)
            got_n++;
        if (got_n < n)
            dlock_error_say("%s", reader->err != 0    ? "no sense in its reply"
                                  : errno == 0        ? "connection closed"
                                  : errno == EMSGSIZE ? "the reply is too long"
                                                      : strerror(errno));
    }
    redisReaderFree(reader);
    return got_n == n ? DLOCK_OK : DLOCK_UNREACHABLE;
}

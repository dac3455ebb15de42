/* See question.h. */
#include "lock/dial/question.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    usual = limited = *reader->fn;
    limited.createArray = create_list;
    redisReaderFree(reader);
}

static void limit_lists(redisReader *reader)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, set_functions);
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

/* Adds WORDS to TEXT as the protocol has them. False: no memory. */
static bool write_command(FILE *text, const struct dlock_words *words)
{
    char *bytes = NULL;
    int n = 0, len;

    while (n < DLOCK_QUESTION_WORDS_MAX && words->list[n] != NULL)
        n++;
    len = redisFormatCommandArgv(&bytes, n, (const char **)words->list, NULL);
    if (len < 0)
        return false;
    (void)fwrite(bytes, 1, (size_t)len, text);
    redisFreeCommand(bytes);
    return true;
}

enum dlock_status dlock_question_begin(struct dlock_question *question,
                                       struct dlock_link link,
                                       const struct dlock_words commands[],
                                       size_t n, size_t bytes_max,
                                       struct dlock_error *error)
{
    enum dlock_status status = DLOCK_OK;
    char *bytes = NULL;
    size_t len = 0;
    FILE *text = open_memstream(&bytes, &len);
    bool good;

    *question = (struct dlock_question){.reader = dlock_reader_open(),
                                        .left = (unsigned)n,
                                        .bytes_max = bytes_max};
    good = text != NULL && question->reader != NULL;
    for (size_t i = 0; i < n && good; i++)
        good = write_command(text, &commands[i]);
    if (text != NULL)
        good = fclose(text) == 0 && good;
    if (!good)
        status = dlock_error_set(error, DLOCK_UNREACHABLE, "out of memory");
    else if (dlock_net_send(link, bytes, len, 0) != 0)
        status =
            dlock_error_set(error, DLOCK_UNREACHABLE, "%s", strerror(errno));
    free(bytes);
    return status;
}

enum dlock_status dlock_question_go_on(struct dlock_question *question,
                                       struct dlock_link link,
                                       uint64_t until_ms, redisReply **reply,
                                       struct dlock_error *error)
{
    void *raw = NULL;

    for (;;) {
        char bytes[4096];
        ssize_t got;

        if (redisReaderGetReply(question->reader, &raw) != REDIS_OK)
            return dlock_error_set(error, DLOCK_UNREACHABLE,
                                   "no sense in its reply");
        if (raw != NULL)
            break;
        if (question->bytes_max == 0)
            return dlock_error_set(error, DLOCK_UNREACHABLE,
                                   "the reply is too long");
        got = dlock_net_receive(link, 0, bytes,
                                question->bytes_max < sizeof(bytes)
                                    ? question->bytes_max
                                    : sizeof(bytes),
                                until_ms);
        if (got < 0 && errno == ETIMEDOUT)
            return DLOCK_BUSY;
        if (got <= 0)
            return dlock_error_set(error, DLOCK_UNREACHABLE, "%s",
                                   got == 0 ? "connection closed"
                                            : strerror(errno));
        question->bytes_max -= (size_t)got;
        (void)redisReaderFeed(question->reader, bytes, (size_t)got);
    }
    *reply = raw;
    question->left--;
    return DLOCK_OK;
}

void dlock_question_end(struct dlock_question *question)
{
    if (question->reader != NULL)
        redisReaderFree(question->reader);
    *question = (struct dlock_question){.left = 0};
}

/*
 * A pool of workers, here threads, else processes on many hosts. Each goes over
 * all items and works on those that nobody holds, with its token in each write.
 *
 *   cc -o workers workers.c $(pkg-config --cflags --libs dlock) -pthread
 *   ./workers redis://127.0.0.1:6379
 *
 * Tokens make it safe. A worker may be stopped for longer than its lease
 * and then write. The resource has been shown a higher token, and refuses it.
 */
#include <dlock.h>
#include <pthread.h>
#include <stdio.h>

enum { WORKERS = 4, ITEMS = 12 };

/* The resource; in real life a database, where WHERE does the comparing. */
static struct item {
    uint64_t token; /* the last one it was shown */
    int times_done;
} items[ITEMS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/*
 * Before its first read, a worker announces its token, which has to be the
 * highest so far; a write has to carry the one that was announced last.
 */
static bool takes(struct item *item, uint64_t token, bool writes)
{
    bool good;

    (void)pthread_mutex_lock(&mutex);
    good = writes ? token == item->token : token > item->token;
    if (good)
        item->token = token;
    if (good && writes && item->times_done == 0)
        item->times_done++;
    (void)pthread_mutex_unlock(&mutex);
    return good;
}

/* A session is one owner of locks: each worker has its own. */
static void *run(void *client)
{
    struct dlock_session *session = NULL;
    struct dlock_terms terms = {.wait_ms = 0, .lease_ms = 5000};
    struct dlock_grant grant;

    if (dlock_session_open((struct dlock *)client, &session, NULL) != DLOCK_OK)
        return NULL;
    for (int i = 0; i < ITEMS; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "item:%d", i);
        /* If Redis has lost its data, it counts on from the resource's. */
        (void)pthread_mutex_lock(&mutex);
        terms.fence_floor = items[i].token;
        (void)pthread_mutex_unlock(&mutex);
        if (dlock_try(session, name, &terms, &grant, NULL) != DLOCK_OK)
            continue; /* somebody is at it */
        if (takes(&items[i], grant.token, false))
            (void)takes(&items[i], grant.token, true);
        (void)dlock_release(session, &grant, NULL);
    }
    dlock_session_close(session);
    return NULL;
}

int main(int argc, char *argv[])
{
    struct dlock_options options = {.url = argc > 1 ? argv[1] : ""};
    struct dlock *client = NULL;
    pthread_t threads[WORKERS];
    int done = 0;

    if (dlock_open(&options, &client, NULL) != DLOCK_OK)
        return 1;
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, run, client) != 0)
            return 1;
    for (int i = 0; i < WORKERS; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < ITEMS; i++)
        done += items[i].times_done;
    printf("%d of %d items done\n", done, ITEMS);
    if (!takes(&items[0], items[0].token - 1, true))
        printf("a late write is refused\n"); /* of an earlier holder */
    dlock_close(client);
    return done == ITEMS ? 0 : 1;
}

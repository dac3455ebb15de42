/*
 * Only one host runs it: a job that is started everywhere, say by cron, and works
 * on whichever host comes first. The others leave at once.
 *
 *   cc -o only_one only_one.c $(pkg-config --cflags --libs dlock)
 *   ./only_one redis://127.0.0.1:6379 nightly-report 100
 *
 * The lock has no lease of its own (lease_ms is 0), so the library renews it for
 * as long as this process lives: a job may take hours, and a host that dies loses
 * the lock within seconds. Renewal may fail, though, say because the network is
 * cut. Then another host takes over, and this one has to stop: on_lost tells.
 */
#define _POSIX_C_SOURCE 200809L

#include <dlock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Runs on a thread of the library's: it leaves word, and does nothing else. */
static void lost(void *ctx, const char *name, const char *owner,
                 enum dlock_loss reason)
{
    (void)name;
    (void)owner;
    atomic_store((atomic_int *)ctx, 1 + (int)reason);
}

/* A piece has to be short next to the lease: between two we look. */
static void do_piece(void)
{
    struct timespec nap = {.tv_nsec = 10000000};

    (void)nanosleep(&nap, NULL);
}

/* With the lock. 0 = all the work is done. */
static int work(int pieces, atomic_int *loss)
{
    printf("working\n");
    (void)fflush(stdout);
    for (; pieces > 0; pieces--) {
        int reason = atomic_load(loss);

        if (reason != 0) {
            printf("lost: %s\n",
                   dlock_loss_text((enum dlock_loss)(reason - 1)));
            return 1;
        }
        do_piece();
    }
    printf("done\n");
    return 0;
}

int main(int argc, char *argv[])
{
    atomic_int loss = 0;
    struct dlock_options options = {.url = argc > 1 ? argv[1] : "",
                                    .watchdog_lease_ms = 3000,
                                    .on_lost = lost,
                                    .on_lost_ctx = &loss,
                                    .label = "only_one"};
    struct dlock *client = NULL;
    struct dlock_session *session = NULL;
    struct dlock_grant grant;
    struct dlock_error error = {""};
    enum dlock_status status = dlock_open(&options, &client, &error);
    int result = 1;

    if (status == DLOCK_OK)
        status = dlock_session_open(client, &session, &error);
    if (status == DLOCK_OK)
        status = dlock_try(session, argc > 2 ? argv[2] : "job", NULL, &grant,
                           &error);
    if (status == DLOCK_OK) {
        result = work(argc > 3 ? atoi(argv[3]) : 100, &loss);
        /* A lock that was lost is given back as well: see dlock_release(). */
        status = dlock_release(session, &grant, &error);
    } else if (status == DLOCK_BUSY) {
        printf("it runs elsewhere\n");
        result = 0;
    }
    if (status != DLOCK_OK && status != DLOCK_BUSY)
        fprintf(stderr, "only_one: %s\n", error.text);
    dlock_session_close(session);
    dlock_close(client);
    return result;
}

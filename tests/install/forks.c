/*
 * A child of fork() wants to shorten the lease of its parent's lock, which is one of
 * libdlock-quorum's: the core asks whose it is, the part does it.
 *
 *   forks URL,URL
 */
#include <dlock_more.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static enum dlock_status hold(const char *url, struct dlock_session **session,
                              struct dlock_grant *grant,
                              struct dlock_error *error)
{
    struct dlock_options options = {.strategy = "multi", .url = url};
    struct dlock_terms terms = {.lease_ms = 60000};
    enum dlock_status status = dlock_register(&dlock_quorum_strategies, error);
    struct dlock *client = NULL;

    if (status == DLOCK_OK)
        status = dlock_open(&options, &client, error);
    if (status == DLOCK_OK)
        status = dlock_session_open(client, session, error);
    if (status == DLOCK_OK)
        status = dlock_acquire(*session, "forks", &terms, grant, error);
    return status;
}

int main(int argc, char *argv[])
{
    struct dlock_session *session = NULL;
    struct dlock_error error = {""};
    struct dlock_grant grant;

    if (argc != 2 || hold(argv[1], &session, &grant, &error) != DLOCK_OK) {
        fprintf(stderr, "forks: %s\n", error.text);
        return 1;
    }
    if (fork() == 0) {
        printf("child: %s\n",
               dlock_status_text(dlock_extend(session, &grant, 1, &error)));
        fflush(stdout);
        _exit(0);
    }
    (void)wait(NULL);
    return dlock_release(session, &grant, &error) == DLOCK_OK ? 0 : 1;
}

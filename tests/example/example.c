/*
 * The least that a program does with libdlock: takes a lock, works, gives it
 * back.
 *
 *   cc -o example example.c $(pkg-config --cflags --libs dlock)
 *   ./example redis://127.0.0.1:6379 stock:42
 */
#include <dlock.h>
#include <stdio.h>

static void work(const struct dlock_grant *grant)
{
    printf("%s is mine, token %llu\n", grant->name,
           (unsigned long long)grant->token);
}

int main(int argc, char *argv[])
{
    struct dlock_options options = {.url = argc > 1 ? argv[1] : ""};
    /* With a resource to guard: fence_floor is its last token, 0 the first time. */
    struct dlock_terms terms = {.wait_ms = 1000, .fence_floor = 0};
    struct dlock *client = NULL;
    struct dlock_session *session = NULL;
    struct dlock_grant grant;
    struct dlock_error error = {""};
    enum dlock_status status = dlock_open(&options, &client, &error);

    if (status == DLOCK_OK)
        status = dlock_session_open(client, &session, &error);
    if (status == DLOCK_OK)
        status = dlock_acquire(session, argc > 2 ? argv[2] : "example", &terms,
                               &grant, &error);
    if (status == DLOCK_OK) {
        work(&grant);
        status = dlock_release(session, &grant, &error);
    }
    if (status != DLOCK_OK)
        fprintf(stderr, "example: %s\n", error.text);
    dlock_session_close(session);
    dlock_close(client);
    return status == DLOCK_OK ? 0 : 1;
}

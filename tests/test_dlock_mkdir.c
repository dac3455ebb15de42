/*
 * mkdir: names become file names, one name one directory; a crash leaves it
 * there; and nothing of a wrong base is undefined behaviour.
 */
#include <sys/stat.h>

#include "tests/support/lock_rig.h"
#include "tests/support/lock_story.h"

#define OPEN(pair) struct lock_pair pair = lock_pair_open("mkdir")

static enum dlock_status take(struct dlock_session *session, const char *name,
                              struct dlock_grant *grant)
{
    return lock_rig_take(session, name, 0, 0, grant);
}

/* All the names of the list are held at once, and each only once. */
static void hold_all(const char *const names[], size_t n)
{
    struct dlock_grant grants[8];
    struct dlock_grant other;
    OPEN(pair);

    for (size_t i = 0; i < n; i++)
        assert_ok(take(pair.session[0], names[i], &grants[i]));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(take(pair.session[1], names[i], &other), DLOCK_BUSY);
    for (size_t i = 0; i < n; i++)
        assert_ok(dlock_release(pair.session[0], &grants[i], NULL));
    for (size_t i = 0; i < n; i++) {
        assert_ok(take(pair.session[1], names[i], &other));
        assert_ok(dlock_release(pair.session[1], &other, NULL));
    }
}

/* Names that a shell or a file system would take for something else. */
LOCK_TEST(test_names_stay_below_the_base)
{
    static const char *const names[] = {"..",    ".", "../up", "a/b",
                                        "a%2Fb", " ", "%",     "-rf *"};
    char up[TEMP_DIR_BYTES_MAX + 8];
    struct stat found;

    hold_all(names, 8);
    (void)snprintf(up, sizeof(up), "%s/../up", rig.dir.path);
    assert_int_equal(stat(up, &found), -1);
}

/* What a client at URL says to an acquire. */
static enum dlock_status try_at(const char *url, const char *name)
{
    struct dlock_options options = {.strategy = "mkdir", .url = url};
    struct dlock_session *session = NULL;
    struct dlock_grant grant;
    struct dlock *client = NULL;
    enum dlock_status status = dlock_open(&options, &client, NULL);

    if (status != DLOCK_OK)
        return status;
    session = lock_rig_session(client);
    status = take(session, name, &grant);
    if (status == DLOCK_OK)
        assert_ok(dlock_release(session, &grant, NULL));
    dlock_session_close(session);
    dlock_close(client);
    return status;
}

LOCK_TEST(test_bases)
{
    const char *url = text_of("dir:%s/file", rig.dir.path);
    FILE *file;

    assert_int_equal(try_at(text_of("dir:%01990d", 0), "a"), DLOCK_MISUSE);
    assert_int_equal(try_at("dir:", "a"), DLOCK_MISUSE);
    assert_ok(try_at(text_of("dir:%s/new", rig.dir.path), "a"));
    assert_ok(try_at(text_of("dir:%s/new/", rig.dir.path), "a"));
    /* A name is one file name, which has 255 bytes. */
    assert_ok(try_at(rig.dir_url, text_of("%0255d", 0)));
    assert_int_equal(try_at(rig.dir_url, text_of("%0254d.", 0)),
                     DLOCK_UNREACHABLE);
    assert_int_equal(try_at(text_of("dir:%s/no/such", rig.dir.path), "a"),
                     DLOCK_UNREACHABLE);
    file = fopen(url + 4, "w");
    assert_non_null(file);
    (void)fclose(file);
    assert_int_equal(try_at(url, "a"), DLOCK_UNREACHABLE);
}

/* Without a base of one's own: the user's in /tmp. */
LOCK_TEST(test_default_base)
{
    const char *name = text_of("test-dlock-mkdir-%d", (int)getpid());
    const char *base = text_of("/tmp/dlock-%lu", (unsigned long)geteuid());
    struct stat found;

    assert_ok(try_at(NULL, name));
    assert_ok(try_at("unix:/nowhere", name));
    assert_int_equal(lstat(base, &found), 0);
    assert_true(S_ISDIR(found.st_mode));
    assert_int_equal(found.st_uid, geteuid());
    (void)rmdir(base); /* unless somebody else is using it */
}

static const struct lock_story stories[] = {
    /* Nobody knows whose it is. */
    {"one at a time, whichever client it is", "mkdir",
     "a takes; a has left=-1; a takes -> busy; b takes -> busy; "
     "b sees held=1 owner=nobody left=-1; b poses as=a; b gives; "
     "a gives -> lost; b sees held=0; b takes"},
    /* 06, without a server. */
    {"a new process, too, finds the directory of one that crashed", "mkdir",
     "a takes 50; a closes; a takes 50 wait=200 -> timeout"},
    {"what did not happen is unreachable, what may have is unknown", "mkdir",
     "commands timeout; fail mkdir before 1; a takes -> unreachable; "
     "fail mkdir after 1; a takes -> unknown; b takes -> busy; a poses as=a; "
     "fail rmdir before always; a gives -> unreachable; fail rmdir after 1; "
     "a gives -> unknown; b takes"},
};
LOCK_STORIES_TEST

LOCK_RIG_MAIN

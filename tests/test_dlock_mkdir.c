/*
 * mkdir: names become file names, one name one directory; a crash leaves it
 * there; and nothing of a wrong base is undefined behaviour.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/lock_rig.h"

#define OPEN(pair) struct lock_pair pair = lock_pair_open("mkdir")

static enum dlock_status take(struct dlock_session *session, const char *name,
                              struct dlock_grant *grant)
{
    return lock_rig_take(session, name, 0, 0, grant);
}

/* One at a time, whichever client it is; nobody knows whose it is. */
static void test_excludes(NO_STATE)
{
    struct dlock_holder holder;
    struct dlock_grant grant;
    OPEN(pair);

    assert_int_equal(take(pair.session[0], "a", &grant), DLOCK_OK);
    assert_int_equal(grant.deadline_ms, UINT64_MAX);
    assert_int_equal(take(pair.session[0], "a", &grant), DLOCK_BUSY);
    assert_int_equal(take(pair.session[1], "a", &grant), DLOCK_BUSY);
    assert_int_equal(dlock_inspect(pair.session[1], "a", &holder, NULL),
                     DLOCK_OK);
    assert_true(holder.held);
    assert_string_equal(holder.owner, "");
    assert_int_equal(holder.remaining_ms, UINT64_MAX);
    lock_rig_pass_off(pair.session[1], &grant);
    assert_int_equal(dlock_release(pair.session[1], &grant, NULL), DLOCK_OK);
    lock_rig_pass_off(pair.session[0], &grant);
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_LOST);
    assert_int_equal(dlock_inspect(pair.session[1], "a", &holder, NULL),
                     DLOCK_OK);
    assert_false(holder.held);
    assert_int_equal(take(pair.session[1], "a", &grant), DLOCK_OK);
}

/* 06, without a server: also a new process finds the dead one's directory. */
static void test_06_nobody_removes_it_after_a_crash(NO_STATE)
{
    struct dlock_grant grant;
    OPEN(pair);

    assert_int_equal(lock_hold_take(&pair, "a", 50, &grant), DLOCK_OK);
    lock_pair_close(&pair);
    pair = lock_pair_open("mkdir");
    assert_int_equal(lock_rig_take(pair.session[0], "a", 200, 50, &grant),
                     DLOCK_TIMEOUT);
}

/* All the names of the list are held at once, and each only once. */
static void hold_all(const char *const names[], size_t n)
{
    struct dlock_grant grants[8];
    struct dlock_grant other;
    OPEN(pair);

    for (size_t i = 0; i < n; i++)
        assert_int_equal(take(pair.session[0], names[i], &grants[i]), DLOCK_OK);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(take(pair.session[1], names[i], &other), DLOCK_BUSY);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(dlock_release(pair.session[0], &grants[i], NULL),
                         DLOCK_OK);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(take(pair.session[1], names[i], &other), DLOCK_OK);
        assert_int_equal(dlock_release(pair.session[1], &other, NULL),
                         DLOCK_OK);
    }
}

/* Names that a shell or a file system would take for something else. */
static void test_names_stay_below_the_base(NO_STATE)
{
    static const char *const names[] = {"..",    ".", "../up", "a/b",
                                        "a%2Fb", " ", "%",     "-rf *"};
    char up[TEMP_DIR_BYTES_MAX + 8];
    struct stat found;

    hold_all(names, 8);
    (void)snprintf(up, sizeof(up), "%s/../up", rig.dir.path);
    assert_int_equal(stat(up, &found), -1);
}

/* A file name has room for a part of a long name; the rest goes below. */
static void test_long_names(NO_STATE)
{
    char longest[DLOCK_NAME_BYTES_MAX + 1];
    char last_byte[DLOCK_NAME_BYTES_MAX + 1];
    char shorter[DLOCK_NAME_BYTES_MAX];
    char part[198];
    char plain[DLOCK_NAME_BYTES_MAX + 1];
    const char *names[] = {longest, last_byte, shorter, part, plain};

    memset(longest, '{', sizeof(longest));
    memcpy(last_byte, longest, sizeof(longest));
    last_byte[DLOCK_NAME_BYTES_MAX - 1] = '}';
    memset(shorter, '{', sizeof(shorter));
    memset(part, 'p', sizeof(part));
    memset(plain, 'p', sizeof(plain));
    longest[DLOCK_NAME_BYTES_MAX] = '\0';
    last_byte[DLOCK_NAME_BYTES_MAX] = '\0';
    shorter[sizeof(shorter) - 1] = '\0';
    part[sizeof(part) - 1] = '\0';
    plain[DLOCK_NAME_BYTES_MAX] = '\0';
    hold_all(names, 5);
}

/* What did not happen is "unreachable", what may have is "unknown". */
static void test_faults(NO_STATE)
{
    struct dlock_grant grant;
    struct lock_pair pair;

    rig.command_timeout_ms = LOCK_RIG_TIMEOUT_MS;
    pair = lock_pair_open("mkdir");
    step_log_fail(&rig.log, "mkdir", DLOCK_BEFORE, 1);
    assert_int_equal(take(pair.session[0], "a", &grant), DLOCK_UNREACHABLE);
    step_log_fail(&rig.log, "mkdir", DLOCK_AFTER, 1);
    assert_int_equal(take(pair.session[0], "a", &grant), DLOCK_UNKNOWN);
    assert_int_equal(take(pair.session[1], "a", &grant), DLOCK_BUSY);
    (void)snprintf(grant.name, sizeof(grant.name), "a");
    lock_rig_pass_off(pair.session[0], &grant);
    step_log_fail(&rig.log, "rmdir", DLOCK_BEFORE, STEP_LOG_ALWAYS);
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_UNREACHABLE);
    step_log_fail(&rig.log, "rmdir", DLOCK_AFTER, 1);
    assert_int_equal(lock_hold_give(&pair, &grant), DLOCK_UNKNOWN);
    assert_int_equal(take(pair.session[1], "a", &grant), DLOCK_OK);
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
        assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_OK);
    dlock_session_close(session);
    dlock_close(client);
    return status;
}

static void test_bases(NO_STATE)
{
    char url[TEMP_DIR_BYTES_MAX + 32];
    char endless[2000];
    FILE *file;

    memset(endless, 'x', sizeof(endless));
    memcpy(endless, "dir:", 4);
    endless[sizeof(endless) - 1] = '\0';
    assert_int_equal(try_at(endless, "a"), DLOCK_MISUSE);
    assert_int_equal(try_at("dir:", "a"), DLOCK_MISUSE);
    (void)snprintf(url, sizeof(url), "dir:%s/new", rig.dir.path);
    assert_int_equal(try_at(url, "a"), DLOCK_OK);
    (void)snprintf(url, sizeof(url), "dir:%s/new/", rig.dir.path);
    assert_int_equal(try_at(url, "a"), DLOCK_OK);
    (void)snprintf(url, sizeof(url), "dir:%s/no/such", rig.dir.path);
    assert_int_equal(try_at(url, "a"), DLOCK_UNREACHABLE);
    (void)snprintf(url, sizeof(url), "dir:%s/file", rig.dir.path);
    file = fopen(url + 4, "w");
    assert_non_null(file);
    (void)fclose(file);
    assert_int_equal(try_at(url, "a"), DLOCK_UNREACHABLE);
}

/* Without a base of one's own: the user's in /tmp. */
static void test_default_base(NO_STATE)
{
    char name[64];
    char base[64];
    struct stat found;

    (void)snprintf(name, sizeof(name), "test-dlock-mkdir-%d", (int)getpid());
    (void)snprintf(base, sizeof(base), "/tmp/dlock-%lu",
                   (unsigned long)geteuid());
    assert_int_equal(try_at(NULL, name), DLOCK_OK);
    assert_int_equal(try_at("unix:/nowhere", name), DLOCK_OK);
    assert_int_equal(lstat(base, &found), 0);
    assert_true(S_ISDIR(found.st_mode));
    assert_int_equal(found.st_uid, geteuid());
    (void)rmdir(base); /* unless somebody else is using it */
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_excludes),
    LOCK_TEST(test_06_nobody_removes_it_after_a_crash),
    LOCK_TEST(test_names_stay_below_the_base),
    LOCK_TEST(test_long_names),
    LOCK_TEST(test_faults),
    LOCK_TEST(test_bases),
    LOCK_TEST(test_default_base),
};
LOCK_RIG_MAIN(tests)

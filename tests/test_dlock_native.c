/*
 * Servers with a compare-and-delete of their own: Redis 8.4 and Valkey 9 are
 * not to be had here, so a small stand-in says that it is one of them, answers
 * what they would, and remembers what it was asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/lock_rig.h"
#include "tests/support/temp_dir.h"

/* The stand-in: one client at a time, one command per packet. */
struct fake {
    struct temp_dir dir;
    char url[TEMP_DIR_BYTES_MAX + 32];
    const char *info; /* its reply to COMMAND INFO */
    int listener;
    pthread_t thread;
    pthread_mutex_t mutex;
    char asked[2048]; /* verbs and arguments, a line each */
};

/* "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" as "GET k": every second line is a word. */
static void note(struct fake *fake, char *command)
{
    char *rest = NULL;
    unsigned i = 0;

    (void)pthread_mutex_lock(&fake->mutex);
    for (char *line = strtok_r(command, "\r\n", &rest); line != NULL;
         line = strtok_r(NULL, "\r\n", &rest), i++) {
        if (i % 2 != 0 || i == 0)
            continue;
        strncat(fake->asked, i > 2 ? " " : "", 2);
        strncat(fake->asked, strlen(line) > 60 ? "SCRIPT" : line, 60);
    }
    strncat(fake->asked, "\n", 2);
    (void)pthread_mutex_unlock(&fake->mutex);
}

static const char *answer(const struct fake *fake, const char *command)
{
    if (strstr(command, "\r\nCOMMAND\r\n") != NULL)
        return fake->info;
    if (strstr(command, "\r\nSET\r\n") != NULL)
        return strstr(command, "gone") == NULL ? "+OK\r\n" : "$-1\r\n";
    if (strstr(command, "\r\nDELEX\r\n") != NULL ||
        strstr(command, "\r\nDELIFEQ\r\n") != NULL ||
        strstr(command, "\r\nEVALSHA\r\n") != NULL)
        return strstr(command, "gone") == NULL ? ":1\r\n" : ":0\r\n";
    if (strstr(command, "\r\nLOAD\r\n") != NULL)
        return "$40\r\n0123456789012345678901234567890123456789\r\n";
    return "-ERR unknown command\r\n";
}

static void talk(struct fake *fake, int fd)
{
    char command[4096];
    ssize_t got;

    while ((got = read(fd, command, sizeof(command) - 1)) > 0) {
        const char *reply;

        command[got] = '\0';
        reply = answer(fake, command);
        note(fake, command);
        if (write(fd, reply, strlen(reply)) < 0)
            break;
    }
    (void)close(fd);
}

static void *serve(void *arg)
{
    struct fake *fake = arg;
    int fd;

    while ((fd = accept(fake->listener, NULL, NULL)) >= 0)
        talk(fake, fd);
    return NULL;
}

static struct fake *fake_start(const char *info)
{
    struct fake *fake = calloc(1, sizeof(*fake));
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert_non_null(fake);
    fake->info = info;
    (void)pthread_mutex_init(&fake->mutex, NULL);
    temp_dir_make(&fake->dir);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%.80s/s",
                   fake->dir.path);
    (void)snprintf(fake->url, sizeof(fake->url), "unix:%s", address.sun_path);
    fake->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(
        bind(fake->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake->listener, 8), 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, serve, fake), 0);
    return fake;
}

/* After the clients have gone. */
static void fake_stop(struct fake *fake)
{
    (void)shutdown(fake->listener, SHUT_RDWR);
    (void)pthread_join(fake->thread, NULL);
    (void)close(fake->listener);
    temp_dir_remove(&fake->dir);
    free(fake);
}

/* How many of the commands that were asked begin with START. */
static unsigned count(struct fake *fake, const char *start)
{
    unsigned n = 0;

    (void)pthread_mutex_lock(&fake->mutex);
    for (const char *at = fake->asked; *at != '\0'; at = strchr(at, '\n') + 1)
        n += strncmp(at, start, strlen(start)) == 0;
    (void)pthread_mutex_unlock(&fake->mutex);
    return n;
}

/* A client of the stand-in. */
struct user {
    struct dlock *client;
    struct dlock_session *session;
};

static struct user open_user(const struct fake *fake)
{
    struct dlock_options options = {.strategy = "token-lua", .url = fake->url};
    struct user user;

    assert_int_equal(dlock_open(&options, &user.client, NULL), DLOCK_OK);
    user.session = lock_rig_session(user.client);
    return user;
}

static void close_user(struct user *user)
{
    dlock_session_close(user->session);
    dlock_close(user->client);
}

/* Takes, lengthens and gives back; then the same of a lock that has gone. */
static void use(struct user *user)
{
    struct dlock_grant grant;

    assert_int_equal(lock_rig_take(user->session, "k", 0, 5000, &grant),
                     DLOCK_OK);
    assert_int_equal(dlock_extend(user->session, &grant, 7000, NULL), DLOCK_OK);
    assert_int_equal(dlock_release(user->session, &grant, NULL), DLOCK_OK);
    (void)snprintf(grant.name, sizeof(grant.name), "gone");
    assert_int_equal(dlock_extend(user->session, &grant, 7000, NULL),
                     DLOCK_LOST);
    assert_int_equal(dlock_release(user->session, &grant, NULL), DLOCK_LOST);
}

static void test_redis_has_delex(void **state)
{
    struct fake *fake = fake_start("*2\r\n*1\r\n$5\r\ndelex\r\n*-1\r\n");
    struct user user = open_user(fake);
    char line[120];

    (void)state;
    use(&user);
    (void)snprintf(line, sizeof(line), "DELEX k IFEQ %s\n",
                   dlock_session_owner(user.session));
    assert_int_equal(count(fake, line), 1);
    (void)snprintf(line, sizeof(line), "SET k %s IFEQ %s PX 7000\n",
                   dlock_session_owner(user.session),
                   dlock_session_owner(user.session));
    assert_int_equal(count(fake, line), 1);
    assert_int_equal(count(fake, "EVAL"), 0);
    assert_int_equal(count(fake, "SCRIPT"), 0);
    close_user(&user);
    fake_stop(fake);
}

static void test_valkey_has_delifeq(void **state)
{
    struct fake *fake = fake_start("*2\r\n$-1\r\n*1\r\n$7\r\ndelifeq\r\n");
    struct user user = open_user(fake);
    char line[120];

    (void)state;
    use(&user);
    (void)snprintf(line, sizeof(line), "DELIFEQ k %s\n",
                   dlock_session_owner(user.session));
    assert_int_equal(count(fake, line), 1);
    assert_int_equal(count(fake, "SET gone"), 1);
    assert_int_equal(count(fake, "EVAL"), 0);
    close_user(&user);
    fake_stop(fake);
}

/* Asked once per connection, not once per command, and not once for ever. */
static void test_asked_once_per_connection(void **state)
{
    struct fake *fake = fake_start("*2\r\n*1\r\n$5\r\ndelex\r\n*-1\r\n");
    struct user user = open_user(fake);

    (void)state;
    for (int i = 0; i < 5; i++)
        use(&user);
    assert_int_equal(count(fake, "COMMAND INFO DELEX DELIFEQ\n"), 1);
    close_user(&user);
    user = open_user(fake);
    use(&user);
    assert_int_equal(count(fake, "COMMAND INFO DELEX DELIFEQ\n"), 2);
    close_user(&user);
    fake_stop(fake);
}

/* Neither, or a server that does not know the question: then the script. */
static void use_script(const char *info)
{
    struct fake *fake = fake_start(info);
    struct user user = open_user(fake);

    use(&user);
    use(&user);
    assert_int_equal(count(fake, "COMMAND"), info[0] == '*' ? 1 : 8);
    assert_int_equal(count(fake, "DELEX"), 0);
    assert_int_equal(count(fake, "DELIFEQ"), 0);
    assert_int_equal(count(fake, "EVALSHA"), 8);
    close_user(&user);
    fake_stop(fake);
}

static void test_script_where_there_is_neither(void **state)
{
    (void)state;
    use_script("*2\r\n*-1\r\n*-1\r\n");
}

static void test_script_where_the_question_is_refused(void **state)
{
    (void)state;
    use_script("-NOPERM no such right\r\n");
}

/* The real one here is of the old kind, and is asked once as well. */
static void test_real_server(void **state)
{
    struct lock_rig rig = {.server = redis_server_start()};
    struct dlock *client;
    struct dlock_session *session;
    struct dlock_grant grant;

    (void)state;
    step_log_init(&rig.log);
    client = lock_rig_client(&rig, "token-lua");
    session = lock_rig_session(client);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lock_rig_take(session, "k", 0, 5000, &grant), 0);
        assert_int_equal(dlock_extend(session, &grant, 9000, NULL), DLOCK_OK);
        assert_int_equal(dlock_release(session, &grant, NULL), DLOCK_OK);
    }
    assert_int_equal(step_log_count(&rig.log, "command-info"), 1);
    dlock_session_close(session);
    dlock_close(client);
    redis_server_stop(rig.server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redis_has_delex),
        cmocka_unit_test(test_valkey_has_delifeq),
        cmocka_unit_test(test_asked_once_per_connection),
        cmocka_unit_test(test_script_where_there_is_neither),
        cmocka_unit_test(test_script_where_the_question_is_refused),
        cmocka_unit_test(test_real_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
